"""What a warm start brings on recorded workloads, and what it costs where the past is of no use.

    python benchmarks/history/warm.py [--data FOLDER] [--seeds N] [--quick]

Each task is a recorded workload of OpAdviser seen through a forest (benchmarks/search/replay.py); the past is what one recorded
optimiser measured on another workload, 200 trials, as it was recorded. A past workload is called related when its losses and
those of the task rank its configs alike (Spearman's rho of 0.65 or more, as measured beforehand) and unrelated when they do not
(0.2 or less): the recordings do not say what the workloads are. Goal: with a related past as much of the reachable gain
after 15 trials as without after 50; with an unrelated one as much after 50 as without. Writes "warm" of results.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "search"), str(HERE.parent)]

import replay  # noqa: E402
import stamp  # noqa: E402
from tasks import Task, run  # noqa: E402

from trimtab.records import Trial  # noqa: E402
from trimtab.search import PastStudy, SearchProblem  # noqa: E402
from trimtab.search.warm import WarmLog, warmed  # noqa: E402
from trimtab.space import Config  # noqa: E402

RESULTS = HERE / "results.json"
MORE = {"opadviser w16": ("opadviser/w16_lat.csv.gz", "lat", False), "opadviser w24": ("opadviser/w24_tps.csv.gz", "tps", True),
        "opadviser w28": ("opadviser/w28_lat.csv.gz", "lat", False)}  # fmt: skip
"""Recordings that are no task of the search benchmark, because they repeat another or gain nothing; a past they can be."""

RELATED = (("w34", "w24", 0.81), ("w04", "w34", 0.90), ("w08", "w28", 0.85), ("w22", "w16", 0.70))
UNRELATED = (("w34", "w14", 0.16), ("w34", "w08", 0.11), ("w22", "w14", 0.10), ("w04", "w08", 0.20))
"""Task, past, Spearman's rho."""

COLD, WARM = 50, 15
N_STARTS = 8


@dataclass(slots=True)
class Contender:
    """`auto` in the benchmark's loop, with or without a past."""

    task: Task
    seed: int
    past: PastStudy | None
    log: WarmLog = field(default_factory=WarmLog)
    ask_s: list[float] = field(default_factory=list)
    _searcher: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        order = () if self.past is None else np.argsort(self.past.losses, kind="stable")[:N_STARTS]
        self._searcher = warmed(
            "auto",
            SearchProblem(
                space=self.task.space, baseline=self.task.baseline, seed=self.seed, budget_trials=COLD,
                starts=() if self.past is None else [self.past.configs[i] for i in order],
                past=() if self.past is None else (self.past,),
            ),
            self.log,
        )  # fmt: skip

    def ask(self) -> Config:
        started = time.perf_counter()
        config = self._searcher.ask()[0]
        self.ask_s.append(time.perf_counter() - started)
        return config

    def tell(self, trial: Trial) -> None:
        self._searcher.tell(trial)

    def close(self) -> None:
        """Nothing is open."""


def past_of(task: Task, name: str, data: Path) -> PastStudy:
    """The recorded trials of another workload in the task's space."""
    configs, losses, failed = replay.recorded(f"opadviser {name}", data, "smac")

    def own(some: list[Config]) -> tuple[Config, ...]:
        return tuple(task.space.fit(config, task.baseline) for config in some)

    return PastStudy(name=name, nearness=1.0, configs=own(configs), losses=tuple(losses), failed=own(failed))


def shares(
    task: Task, name: str | None, data: Path, seeds: range, n: int
) -> tuple[list[tuple[float, ...]], dict[str, Any]]:
    """The share of the reachable gain after each trial, for each seed; and what became of the prior."""
    found, asks, dropped = [], [], 0
    for seed in seeds:
        contender = Contender(task, seed, None if name is None else past_of(task, name, data))
        found.append(run(task, contender, n, seed).share)
        asks += contender.ask_s
        dropped += bool(contender.log.dropped)
    return found, {"dropped": dropped, "ask_median_s": round(float(np.median(asks)), 3)}


def interval(values: list[float]) -> list[float]:
    """Median with its 90 % bootstrap interval: low, median, high."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(values, (2000, len(values))), axis=1)
    return [round(float(v), 3) for v in (np.quantile(medians, 0.05), np.median(values), np.quantile(medians, 0.95))]


def at(runs: list[tuple[float, ...]], n: int) -> list[float]:
    return [share[n - 1] for share in runs]


def measure(data: Path, seeds: range, pairs: dict[str, tuple[tuple[str, str, float], ...]]) -> dict[str, Any]:
    """Every pair, cold and warm."""
    cold: dict[str, list[tuple[float, ...]]] = {}
    rows, differences = [], {kind: [] for kind in pairs}
    for kind, some in pairs.items():
        for target, past, rho in some:
            task = replay.load(f"opadviser {target}", data, 0)
            if target not in cold:
                cold[target] = shares(task, None, data, seeds, COLD)[0]
            n = WARM if kind == "related" else COLD
            found, about = shares(task, past, data, seeds, n)
            differences[kind] += [a - b for a, b in zip(at(found, n), at(cold[target], COLD), strict=True)]
            row = {"kind": kind, "task": target, "past": past, "rho": rho, **about,
                   "cold_15": interval(at(cold[target], WARM)), "cold_50": interval(at(cold[target], COLD)),
                   "warm_15": interval(at(found, WARM))}  # fmt: skip
            if n == COLD:
                row["warm_50"] = interval(at(found, COLD))
            rows.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)
    return {"seeds": len(seeds), "pairs": rows,
            "difference": {kind: interval(values) for kind, values in differences.items() if values}}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--data", type=Path, default=ROOT.parent / "shared" / "data" / "replay", help="folder of recorded trials"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one pair of each kind, two seeds; writes no results")
    options = parser.parse_args()
    if not options.data.is_dir():
        print(
            f"no recorded trials under {options.data}: docs/measurements/search.md says where they are from",
            file=sys.stderr,
        )
        return 0
    replay.FORESTS.update(MORE)
    n = 2 if options.quick else options.seeds
    pairs = {"related": RELATED[: 1 if options.quick else None], "unrelated": UNRELATED[: 1 if options.quick else None]}
    making = stamp.Making()
    found = measure(options.data, range(n), pairs)
    print(json.dumps(found, indent=2))
    if not options.quick:
        before = stamp.former(RESULTS)
        made = {**before.get("made", {}), "warm": making.stamp()}
        stamp.write(RESULTS, {**before, "warm": found}, made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
