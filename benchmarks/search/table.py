"""The tables of docs/explanation/search.md, written from results.json; a test holds the two equal.

python benchmarks/search/table.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "explanation" / "search.md"
BEGIN, END = "<!-- tables: written by benchmarks/search/table.py -->", "<!-- end of tables -->"
_AT = ("10", "25", "30", "50", "100")

Record = dict[str, Any]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows), ""]


def _shares(rows: Record) -> list[str]:
    """Median and quartiles of the share of the gain, the best after the most trials first."""
    last = max((n for row in rows.values() for n in row["share"]), key=int)
    ordered = sorted(rows.items(), key=lambda item: -item[1]["share"][last][1])
    shown = []
    for name, row in ordered:
        cells = [
            f"{m:.2f} ({low:.2f}–{high:.2f})" for low, m, high in (row["share"][n] for n in _AT if n in row["share"])
        ]
        rates = [f"{100 * row[rate]:.1f} %" for rate in ("failed", "worse", "restarts")]
        shown.append([f"`{name}`" if name.islower() else name, str(row["runs"]), *cells, *rates])
    return _table(["", "runs", *(n for n in _AT if int(n) <= int(last)), "failed", "worse", "restarts"], shown)


def _context(rows: Record) -> list[str]:
    names = list(next(iter(rows.values())))
    shown = [
        [context, *(f"{m:.3f} ({low:.3f}–{high:.3f})" for low, m, high in (by[name]["settled"] for name in names))]
        for context, by in rows.items()
    ]
    return _table(["workload", *(f"`{name}`" for name in names)], shown)


def _ask(rows: Record) -> list[str]:
    sizes = sorted({row["trials"] for own in rows.values() for row in own})
    shown = []
    for name, own in rows.items():
        by = {row["trials"]: row["seconds"] for row in own}
        cells = ["" if n not in by else "–" if by[n] is None else f"{by[n]:.3f}" for n in sizes]
        shown.append([f"`{name}`" if name.islower() else name, *cells])
    return _table(["", *(f"{n:,}" for n in sizes)], shown)


def tables(found: Record) -> str:
    """All tables of `results.json` as Markdown."""
    lines = [f"{found['seeds']} seeds, {found['trials']} trials each."]
    if found["absent"]:
        lines += [
            "Not taking part: " + "; ".join(f"{name} ({why})" for name, why in sorted(found["absent"].items())) + "."
        ]
    lines += [""]
    titles = {"replay": "Recorded trials", "surfaces": "Synthetic surfaces"}
    for part, title in titles.items():
        if found[part]:
            if found[f"{part} overall"]:
                lines += [f"### {title}, all together", "", *_shares(found[f"{part} overall"])]
            for task, rows in sorted(found[part].items()):
                lines += [f"### {title}: {task}", "", *_shares(rows)]
    if found["context"]:
        lines += ["### Changing workloads: latency relative to the baseline from the fourth cycle on", ""]
        lines += _context(found["context"])
    for knobs, rows in sorted(found["ask"].items(), key=lambda item: int(item[0].split()[0])):
        lines += [f"### Seconds of one ask and its tell, {knobs}, by number of known trials", "", *_ask(rows)]
    return "\n".join(lines)


def page(text: str, found: Record) -> str:
    """`text` with its tables replaced by those of `found`."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables(found)}\n{END}{after}"


def main() -> int:
    """Writes the page; exit code 0."""
    found = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
