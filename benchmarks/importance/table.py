"""The tables of docs/measurements/importance.md, written from results.json; a test holds the two equal.

python benchmarks/importance/table.py
"""

from __future__ import annotations

import importlib
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from tables import between, markdown, rewrite

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "measurements" / "importance.md"
BEGIN, END = "<!-- tables: written by benchmarks/importance/table.py -->", "<!-- end of tables -->"

Record = dict[str, Any]


def needed(rows: Sequence[Record], ranker: str, seed: int, top: int) -> int | None:
    """Fewest samples from which on, as far as tried, the five are among the first `top`; None: not even with the most."""
    found = None
    for row in sorted(rows, key=lambda row: -row["samples"]):
        if row["last_place"][ranker][seed] > top:
            break
        found = row["samples"]
    return found


def _needed_cell(rows: Sequence[Record], ranker: str, n_seeds: int, top: int) -> str:
    each = [needed(rows, ranker, seed, top) for seed in range(n_seeds)]
    most, least = (pick(row["samples"] for row in rows) for pick in (max, min))
    ordered = sorted(most + 1 if value is None else value for value in each)
    middle, worst = statistics.median_high(ordered), ordered[-1]
    shown = [
        f"> {most}" if value > most else f"≤ {value}" if value == least else str(value) for value in (middle, worst)
    ]
    return " to ".join(dict.fromkeys(shown))


def _planted(found: Record) -> list[str]:
    sizes = sorted({row["knobs"] for row in found["rows"]})
    by_size = {size: [row for row in found["rows"] if row["knobs"] == size] for size in sizes}
    n_spaces = {size: len(rows[0]["last_place"]["consensus"]) for size, rows in by_size.items()}
    spaces = " and ".join(f"{count} spaces of {size} knobs" for size, count in n_spaces.items())
    tried = "; ".join(
        f"{size} knobs with {', '.join(str(row['samples']) for row in sorted(rows, key=lambda row: row['samples']))}"
        for size, rows in by_size.items()
    )
    lines = [
        f"{spaces}; noise {found['noise']:.0%}; the five move the loss by "
        f"{', '.join(f'{size:.0%}' for size in found['sizes'])}, the pair by {found['interaction']:.0%} more. Samples are "
        f"Latin hypercubes. *Needed*: from how many samples on all five are among the first {found['top']}, median and worst "
        f"of the spaces, as far as tried ({tried}); *found*: in how many spaces they are, with the most samples.",
        "",
    ]
    rankers = sorted(found["rows"][0]["last_place"], key=lambda name: (name != "consensus", name))
    body = []
    for ranker in rankers:
        cells = [f"`{ranker}`" if ranker != "consensus" else "**consensus**"]
        for size in sizes:
            last = max(by_size[size], key=lambda row: row["samples"])["last_place"][ranker]
            hits = sum(place <= found["top"] for place in last)
            cells += [_needed_cell(by_size[size], ranker, n_spaces[size], found["top"]), f"{hits} of {n_spaces[size]}"]
        body.append(cells)
    cells = ["`sard`, its own design"]
    for size in sizes:
        runs = next(row["runs"] for row in found["sard"] if row["knobs"] == size)
        cells += [f"{runs[0]['runs']} runs", f"{sum(run['place'] <= found['top'] for run in runs)} of {n_spaces[size]}"]
    head = ["ranker"]
    for size in sizes:
        most = max(row["samples"] for row in by_size[size])
        head += [f"{size} knobs: needed", f"found with {most}"]
    return [*lines, *markdown(head, [*body, cells])]


def _spread(runs: Sequence[Record], what: str) -> str:
    values = sorted(run[what] for run in runs if what in run)
    if not values:
        return "–"
    return f"{statistics.median(values):.2f} ({values[0]:.2f}–{values[-1]:.2f})"


def _recorded(found: Record) -> list[str]:
    lines: list[str] = []
    for row in found["rows"]:
        rankers = sorted(row["runs"], key=lambda name: (name != "consensus", name))
        body = [
            [f"`{ranker}`" if ranker != "consensus" else "**consensus**",
             *(_spread(row["runs"][ranker], what) for what in ("top5", "top8", "correlation"))]
            for ranker in rankers
        ]  # fmt: skip
        lines += [
            f"{row['table']}: {row['samples']} of {row['rows']:,} rows against all, {row['knobs']} knobs; median and range of "
            f"{len(found['seeds'])} draws. First by all rows: {', '.join(f'`{name}`' for name in row['top'][:5])}.",
            "",
            *markdown(["ranker", "top 5 shared", "top 8 shared", "rank correlation"], body),
            "",
        ]
    return lines[:-1]


_PARTS: dict[str, tuple[str, Callable[[Record], list[str]]]] = {
    "planted": ("Planted truth", _planted),
    "recorded": ("From 100 samples and from all", _recorded),
}
_SERVER_PARTS = {"ycsb": ("YCSB A and B on PostgreSQL", "ycsb_table"), "tpch": ("TPC-H queries by SARD", "tpch_table")}
"""Part -> title, and the module whose `lines(found)` shows it."""


def tables(found: Record) -> str:
    """All parts of `results.json` that there are, as Markdown."""
    lines: list[str] = []
    shown = dict(_PARTS)
    for name, (title, module) in _SERVER_PARTS.items():
        if name in found["parts"]:
            shown[name] = (title, importlib.import_module(module).lines)
    for name, (title, show) in shown.items():
        if name in found["parts"]:
            lines += [f"### {title}", "", stamp.line(found["made"][name]), "", *show(found["parts"][name]), ""]
    return "\n".join(lines)


def page(text: str, found: Record) -> str:
    """`text` with its tables replaced by those of `found`."""
    return between(text, BEGIN, END, tables(found))


def main() -> int:
    """Writes the page; exit code 0."""
    return rewrite(PAGE, HERE / "results.json", page)


if __name__ == "__main__":
    sys.exit(main())
