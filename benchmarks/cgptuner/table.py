"""The tables of docs/measurements/contexts-in-turns.md, written from results.json; a test holds the two equal.

python benchmarks/cgptuner/table.py
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import stamp
from tables import between, rewrite, shown
from turns import ratio

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "measurements" / "contexts-in-turns.md"
BEGIN, END = "<!-- tables: written by benchmarks/cgptuner/table.py -->", "<!-- end of tables -->"
METHODS = ("contextual-gp", "gp", "random")
PAPER_US = {
    "A/60": (1466, 2015, 1860),
    "A/80": (2035, 3216, 3008),
    "B/30": (1017, 699, 1090),
    "B/50": (1224, 1140, 1447),
    "C/20": (511, 410, 412),
    "C/40": (543, 551, 551),
}
"""Table 2 of the reproduction: mean latency of the last four cycles of CGPTuner, a plain Gaussian process and random search."""

Row = dict[str, Any]


def gains(rows: Sequence[Row], system: str, method: str, contexts: Sequence[str]) -> list[float]:
    """By seed, how many times lower the mean latency of the last cycles' trials is than the baseline's of the same run: the
    geometric mean over `contexts`, NaN where one has no such trial."""
    own = [row for row in rows if (row["system"], row["method"]) == (system, method)]
    found = []
    for row in sorted(own, key=lambda row: row["seed"]):
        ratios = [row["contexts"][context]["ratio"] or math.nan for context in contexts]
        found.append(float(np.exp(-np.log(ratios).mean())))
    return found


def against(rows: Sequence[Row], system: str, contexts: Sequence[str], other: str) -> tuple[float, float, float] | None:
    """How many times faster the trials of contextual-gp are than those of `other`, with the 95 % interval of a paired t-test over
    the seeds; None with fewer than two."""
    values = {method: gains(rows, system, method, contexts) for method in (METHODS[0], other)}
    return ratio(values, other, METHODS[0], True)


def table(rows: Sequence[Row]) -> str:
    """One table for each system: gain over the settings as found by context and method, and the methods against each other."""
    parts = []
    for system in dict.fromkeys(row["system"] for row in rows):
        own = [row for row in rows if row["system"] == system]
        n_seeds = len({row["seed"] for row in own})
        heads = [
            f"{system}, {n_seeds} seed{'s' * (n_seeds != 1)}",
            *METHODS,
            "contextual / plain",
            "contextual / random",
            "paper: CGPTuner, GP, random",
        ]
        lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
        contexts = list(own[0]["contexts"])
        lines += [
            f"| {' | '.join([context, *_cells(own, system, [context]), _in_paper(context)])} |" for context in contexts
        ]
        lines.append(f"| all, geometric mean | {' | '.join(_cells(own, system, contexts))} | |")
        lines.append(f"| trials that failed | {' | '.join(_failed(own, method) for method in METHODS)} | | | |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _cells(rows: Sequence[Row], system: str, contexts: Sequence[str]) -> list[str]:
    means = [_mean(gains(rows, system, method, contexts)) for method in METHODS]
    return [*means, *(shown(against(rows, system, contexts, other), ".2f") for other in METHODS[1:])]


def _in_paper(context: str) -> str:
    return f"{' '.join(f'{value:,}' for value in PAPER_US[context])} µs"


def _failed(rows: Sequence[Row], method: str) -> str:
    contexts = [each for row in rows if row["method"] == method for each in row["contexts"].values()]
    return f"{sum(each['failed'] for each in contexts)} of {sum(each['n'] for each in contexts)}"


def _mean(values: Sequence[float]) -> str:
    """Geometric mean of those that are known, and their range."""
    logs = np.log([value for value in values if value == value])
    if not len(logs):
        return "–"
    spread = f" ({np.exp(logs.min()):.2f} to {np.exp(logs.max()):.2f})" if len(logs) > 1 else ""
    return f"{np.exp(logs.mean()):.2f}{spread}"


def page(text: str, found: Mapping[str, Any]) -> str:
    """`text` with its tables replaced by those of `found`, which is all of results.json."""
    return between(text, BEGIN, END, f"{table(found['rows'])}\n\n{stamp.lines(found['made'])}\n")


if __name__ == "__main__":
    sys.exit(rewrite(PAGE, HERE / "results.json", page))
