"""The table of docs/measurements/warm-start.md, written from results.json; a test holds the two equal.

python benchmarks/history/table.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "measurements" / "warm-start.md"
BEGIN, END = "<!-- table: written by benchmarks/history/table.py -->", "<!-- end of table -->"


def _shown(values: list[float] | None) -> str:
    if values is None:
        return ""
    low, median, high = values
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def table(found: dict[str, Any]) -> str:
    """The table in Markdown, and the differences below it."""
    lines = [
        "| past → task | rho | cold, 15 trials | cold, 50 | warm, 15 | warm, 50 | dropped in |",
        "| --- " * 7 + "|",
    ]
    for row in found["pairs"]:
        cells = [f"{row['kind']}: {row['past']} → {row['task']}", f"{row['rho']:.2f}"]
        cells += [_shown(row.get(key)) for key in ("cold_15", "cold_50", "warm_15", "warm_50")]
        lines.append(f"| {' | '.join(cells)} | {row['dropped']} of {found['seeds']} |")
    both = found["difference"]
    lines += [
        "",
        f"Difference, pairs of runs with the same seed, median with 90 % interval: related, warm after 15 less cold after 50: "
        f"{_shown(both['related'])}; unrelated, warm after 50 less cold after 50: {_shown(both['unrelated'])}.",
    ]
    return "\n".join(lines)


def page(text: str, found: dict[str, Any]) -> str:
    """The page with its table and the stamp above it written anew; `found` is all of results.json."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{stamp.line(found['made']['warm'])}\n\n{table(found['warm'])}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
