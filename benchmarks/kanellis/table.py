"""The tables of docs/measurements/few-knobs.md, written from results.json; a test holds the two equal.

python benchmarks/kanellis/table.py
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from tables import between, rewrite, shown
from turns import FOUND, Row, ratio

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "measurements" / "few-knobs.md"
BEGIN, END = "<!-- tables: written by benchmarks/kanellis/table.py -->", "<!-- end of tables -->"
TOPS = (3, 5, 8)
ALL = 30
_N_WORKLOADS = 2


def share(row: Row, n_knobs: int) -> tuple[float, float, float] | None:
    """What the best config of the first knobs reaches of that of all, with its 95 % interval; None without two rounds."""
    return ratio(row["throughput_per_s"], str(ALL), str(n_knobs), True)


def overlap(rows: Sequence[Row], system: str, n_knobs: int) -> int | None:
    """How many of the first knobs two workloads of a system have in common; None unless both were ranked."""
    tops = [{k["knob"] for k in row["knobs"][:n_knobs]} for row in rows if row["system"] == system]
    return len(tops[0] & tops[1]) if len(tops) == _N_WORKLOADS else None


def table(rows: Sequence[Row]) -> str:
    """The results as a Markdown table."""
    heads = [
        "system",
        "YCSB",
        "samples",
        *(f"top {k} of {ALL}" for k in TOPS),
        f"all {ALL} / found",
        "most important knobs",
    ]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    for row in rows:
        shares = [shown(share(row, k), ".1%") for k in TOPS]
        means = {name: sum(each) / len(each) for name, each in row["throughput_per_s"].items() if each}
        gain = f"{means[str(ALL)] / means[FOUND]:.2f}" if {FOUND, str(ALL)} <= means.keys() else "–"
        first = ", ".join(k["knob"] for k in row["knobs"][:5])
        lines.append(
            f"| {row['system']} | {row['workload']} | {row['n_samples']} | {' | '.join(shares)} | {gain} | {first} |"
        )
    lines += [
        "",
        "| system | YCSB | trials of the searches until within 1 % of the best, of 3, 5, 8 and all 30 | can be ranked |",
    ]
    lines.append("| --- | --- | --- | --- |")
    for row in rows:
        needed = ", ".join(str(row["trials_needed"][str(k)]) for k in (*TOPS, ALL))
        lines.append(f"| {row['system']} | {row['workload']} | {needed} | {row['verdict'] or 'yes'} |")
    for system in dict.fromkeys(row["system"] for row in rows):
        common = overlap(rows, system, 5)
        if common is not None:
            lines.append(f"\n{system}: {common} of the first 5 knobs are those of both workloads.")
    return "\n".join(lines)


def page(text: str, found: Mapping[str, Any]) -> str:
    """`text` with its tables replaced by those of `found`, which is all of results.json."""
    return between(text, BEGIN, END, f"{table(found['rows'])}\n\n{stamp.lines(found['made'])}\n")


if __name__ == "__main__":
    sys.exit(rewrite(PAGE, HERE / "results.json", page))
