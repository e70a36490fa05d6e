"""The tables of docs/measurements/search-live.md, written from results.json; a test holds the two equal.

python benchmarks/live/table.py
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from tables import between, markdown, rewrite

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "measurements" / "search-live.md"
BEGIN, END = "<!-- tables: written by benchmarks/live/table.py -->", "<!-- end of tables -->"
DEFAULT = "auto"
_NAMES = {"optuna-tpe": "Optuna TPE", "smac3": "SMAC3", "opentuner": "OpenTuner"}
_LOOK_S = 120

Row = dict[str, Any]


def _name(contender: str) -> str:
    return _NAMES.get(contender, f"`{contender}`")


def log_gain(row: Row) -> float:
    """Of what was proven; 0 for nothing."""
    return math.log(row["gain"]["estimate"]) if row["gain"] else 0.0


def common_seeds(rows: Sequence[Row]) -> list[int]:
    """Seeds of these runs of one task that every searcher has; none for a searcher alone."""
    seeds = [{row["seed"] for row in rows if row["contender"] == name} for name in {row["contender"] for row in rows}]
    return sorted(set.intersection(*seeds)) if len(seeds) > 1 else []


def _compared(rows: Sequence[Row]) -> list[str]:
    """Means over the runs, by searcher, the largest proven gain first; and how `auto` compares, seed by seed."""
    groups = {name: [r for r in rows if r["contender"] == name] for name in dict.fromkeys(r["contender"] for r in rows)}
    shown = []
    for name, group in sorted(groups.items(), key=lambda item: -fmean(map(log_gain, item[1]))):
        means = [fmean(row[key] for row in group) for key in ("area", "n_worse", "n_crashed")]
        pairs = [] if name == DEFAULT else _pairs(groups.get(DEFAULT, []), group)
        shown.append(
            [
                _name(name),
                f"{math.exp(fmean(map(log_gain, group))):.2f}",
                f"{means[0]:.2f}",
                f"{fmean(len(row['settings']) for row in group):.1f}",
                *(f"{mean:.1f}" for mean in means[1:]),
                _ratio(pairs),
            ]
        )
    head = ["searcher", "proven gain", "mean log gain over the time", "settings", "much worse trials", "failed trials"]
    return [*markdown([*head, "`auto` / it (standard error)"], shown), ""]


def _pairs(ours: Sequence[Row], theirs: Sequence[Row]) -> list[float]:
    """Log ratios of what both have proven with the same seed."""
    by_seed = {row["seed"]: log_gain(row) for row in theirs}
    return [log_gain(row) - by_seed[row["seed"]] for row in ours if row["seed"] in by_seed]


def _ratio(pairs: Sequence[float]) -> str:
    if not pairs:
        return ""
    error = f" ({stdev(pairs) / math.sqrt(len(pairs)):.0%})".replace("%", " %") if len(pairs) > 1 else ""
    return f"{math.exp(fmean(pairs)):.2f}{error}"


def _every(rows: Sequence[Row]) -> list[str]:
    """Each run, none left out."""
    shown = []
    for row in sorted(rows, key=lambda row: (row["contender"] != DEFAULT, row["contender"], row["seed"])):
        gain, made = row["gain"], row["made"]
        early = max((value for at_s, value in row["curve"] if at_s <= _LOOK_S), default=1.0)
        load = made["load"]
        shown.append(
            [
                _name(row["contender"]),
                str(row["seed"]),
                f"{gain['estimate']:.2f} ({gain['low']:.2f} to {gain['high']:.2f})" if gain else "none",
                *(str(n) for n in (len(row["settings"]), row["n_trials"], row["n_worse"], row["n_crashed"])),
                f"{early:.2f}",
                f"{row['area']:.2f}",
                f"{100 * row['noise']:.0f} %",
                made["commit"].split(" ")[0],
                made["machine"].split(",")[0].rpartition(" of ")[2].replace("(R)", ""),
                stamp.UNKNOWN if load == stamp.UNKNOWN else f"{100 * load[1]:.0f} %",
            ]
        )
    head = ["searcher", "seed", "proven gain (95 % interval)", "settings", "trials", "much worse", "failed"]
    rest = ["measured best after 2 minutes", "mean log gain", "noise", "commit", "machine", "others' CPU"]
    return [*markdown([*head, *rest], shown), ""]


def tables(results: dict[str, Any]) -> str:
    """All of them, task by task and budget by budget."""
    lines = []
    runs = results["runs"]
    for task, budget in dict.fromkeys((row["task"], row["budget"]) for row in runs):
        rows = [row for row in runs if (row["task"], row["budget"]) == (task, budget)]
        lines += [f"### {task}, {budget} each", ""]
        if seeds := common_seeds(rows):
            lines += [f"Over the seeds that all searchers have ({', '.join(map(str, seeds))}):", ""]
            lines += _compared([row for row in rows if row["seed"] in seeds])
            lines += ["Every run:", ""]
        lines += _every(rows)
    return "\n".join([*lines, stamp.line(results["made"]["all"]), ""])


def page(text: str, results: dict[str, Any]) -> str:
    """The page with these results."""
    return between(text, BEGIN, END, tables(results))


if __name__ == "__main__":
    sys.exit(rewrite(PAGE, HERE / "results.json", page))
