"""Pages of docs/ whose tables are written from a benchmark's results, between two markers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["between", "markdown", "rewrite", "shown"]


def between(text: str, begin: str, end: str, tables: str) -> str:
    """`text` with `tables` in place of what stood between the markers."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{tables}\n{end}{after}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def shown(found: tuple[float, float, float] | None, form: str) -> str:
    """An estimate with its interval, each written in `form` such as ".2f"; "–" for None."""
    return "–" if found is None else f"{found[0]:{form}} ({found[1]:{form}} to {found[2]:{form}})"


def rewrite(page: Path, results: Path, made: Callable[[str, Any], str]) -> int:
    """Writes the page anew: `made` gives it from its present text and the results; exit code 0."""
    found = json.loads(results.read_text(encoding="utf-8"))
    page.write_text(made(page.read_text(encoding="utf-8"), found), encoding="utf-8")
    return 0
