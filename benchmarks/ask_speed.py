"""How long one ask takes when many trials are known: Trimtab's searchers beside Optuna's, in one process and one run.

    pip install -r benchmarks/requirements-search.txt
    python benchmarks/ask_speed.py [--trials 50 200 500 1000] [--asks 5] [--json]

All are given the same space of 40 mixed knobs and the same random trials, every tenth of them failed, and are then
asked `--asks` times with an answer in between; the median counts. Optuna's Gaussian process needs PyTorch; without it
that row says so. Seconds are of this machine; the ratio to Optuna's TPE is what carries over.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from trimtab.records import Context, Role, Status, Trial
from trimtab.search import SearchProblem
from trimtab.search.auto import AutoSearcher
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.lhs import LatinHypercubeSearcher
from trimtab.search.nelder_mead import NelderMeadSearcher
from trimtab.search.random import RandomSearcher
from trimtab.space import Config, Knob, KnobKind, RestartClass, Space

SCHEMA_VERSION = 1
N_KNOBS = 40
CONTEXT = Context(workload="ask speed", clients=1)
OURS = (RandomSearcher, LatinHypercubeSearcher, NelderMeadSearcher, GaussianProcessSearcher, AutoSearcher)


def mixed_space() -> Space:
    """40 knobs: integers (some on a log scale, some with special values), reals, booleans and choices."""
    knobs = []
    for i in range(N_KNOBS):
        name, kind = f"knob_{i:02d}", i % 8
        restart = RestartClass.RESTART if i % 5 == 0 else RestartClass.RELOAD
        if kind in (0, 1, 2):
            knob = Knob(name=name, kind=KnobKind.INTEGER, low=16, high=65536, log=True, default=128, restart=restart)
        elif kind == 3:
            knob = Knob(name=name, kind=KnobKind.INTEGER, low=10, high=500, default=20, special=(0,), restart=restart)
        elif kind in (4, 5):
            knob = Knob(name=name, kind=KnobKind.REAL, low=0.1, high=8.0, default=4.0, restart=restart)
        elif kind == 6:
            knob = Knob(name=name, kind=KnobKind.BOOLEAN, default=False, restart=restart)
        else:
            knob = Knob(name=name, kind=KnobKind.CHOICE, choices=("a", "b", "c"), default="a", restart=restart)
        knobs.append(knob)
    return Space(knobs)


def known_trials(space: Space, n: int) -> list[Trial]:
    """`n` random trials: six features matter, 3 % noise, every tenth failed."""
    rng = np.random.default_rng(1)
    configs = space.sample(n, rng)
    features = space.features(configs)
    weights = np.zeros(features.shape[1])
    weights[:6] = (-0.5, -0.3, 0.2, -0.2, 0.1, 0.1)
    losses = features @ weights + 0.4 * (features[:, 1] - 0.6) ** 2 + rng.normal(0.0, 0.03, n)
    return [_trial(config, i, None if i % 10 == 9 else float(losses[i])) for i, config in enumerate(configs)]


def _trial(config: Config, number: int, loss: float | None) -> Trial:
    status = Status.CRASHED if loss is None else Status.OK
    se = None if loss is None else 0.03
    return Trial(
        number=number, role=Role.SEARCH, config=config, context=CONTEXT, status=status, loss=loss, loss_se=se
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """Median seconds of one ask of `name` after `n_trials`; None with the `reason`."""

    name: str
    n_trials: int
    seconds: float | None
    reason: str = ""


def _timed(n_asks: int, ask: Callable[[int], None]) -> float:
    seconds = []
    for i in range(n_asks):
        start = time.perf_counter()
        ask(i)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def time_ours(searcher_class: Any, space: Space, trials: list[Trial], n_asks: int) -> float:
    """Median seconds of one ask with its tell."""
    searcher = searcher_class(SearchProblem(space=space, baseline=space.default(), seed=1, budget_trials=len(trials)))
    for trial in trials:
        searcher.tell(trial)
    # The planned first configs of gp and auto cost nothing to ask: they are taken out before the clock runs.
    for config in getattr(searcher, "_design", []):
        searcher.tell(_trial(config, 10_000 + len(searcher.ledger), 0.0))

    def ask(i: int) -> None:
        searcher.tell(_trial(searcher.ask()[0], 100_000 + i, 0.0))

    return _timed(n_asks, ask)


def _distribution(knob: Knob) -> Any:
    from optuna import distributions

    low, high = knob.low, knob.high
    if knob.kind is KnobKind.INTEGER and low is not None and high is not None:
        # Optuna has no special values: the range is stretched to reach 0.
        low = min(low, *knob.special) if knob.special else low
        return distributions.IntDistribution(int(low), int(high), log=knob.log)
    if knob.kind is KnobKind.REAL and low is not None and high is not None:
        return distributions.FloatDistribution(float(low), float(high), log=knob.log)
    return distributions.CategoricalDistribution(knob.choices or (False, True))


def time_optuna(sampler: Any, space: Space, trials: list[Trial], n_asks: int) -> float:
    """Median seconds of one ask with its tell; failed trials are told as failed."""
    import optuna

    distributions = {name: _distribution(knob) for name, knob in space.knobs.items()}
    study = optuna.create_study(sampler=sampler)
    for trial in trials:
        state = optuna.trial.TrialState.COMPLETE if trial.loss is not None else optuna.trial.TrialState.FAIL
        study.add_trial(
            optuna.trial.create_trial(
                params=dict(trial.config), distributions=distributions, value=trial.loss, state=state
            )
        )

    def ask(_: int) -> None:
        study.tell(study.ask(distributions), 0.0)

    return _timed(n_asks, ask)


def measure(sizes: list[int], n_asks: int, limit_s: float) -> list[Row]:
    """A row for every searcher and size; larger sizes are left out once one ask took more than `limit_s`."""
    space = mixed_space()
    trials = known_trials(space, max(sizes))
    contenders: dict[str, Callable[[list[Trial]], float]] = {
        cls.NAME: lambda some, cls=cls: time_ours(cls, space, some, n_asks) for cls in OURS
    }
    rows = []
    if find_spec("optuna") is None:
        rows += [Row("optuna TPE", n, None, "optuna is not installed") for n in sizes]
    else:
        contenders |= _optuna(space, n_asks)
        if find_spec("torch") is None:
            rows += [Row("optuna GP", n, None, "PyTorch is not installed") for n in sizes]
    for name, timed in contenders.items():
        slowest = 0.0
        for n in sorted(sizes):
            if slowest > limit_s:
                rows.append(Row(name, n, None, f"one ask took more than {limit_s:g} s before"))
                continue
            slowest = timed(trials[:n])
            rows.append(Row(name, n, slowest))
    return rows


def _optuna(space: Space, n_asks: int) -> dict[str, Callable[[list[Trial]], float]]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    found = {"optuna TPE": lambda some: time_optuna(optuna.samplers.TPESampler(seed=1), space, some, n_asks)}
    if find_spec("torch") is not None:
        found["optuna GP"] = lambda some: time_optuna(optuna.samplers.GPSampler(seed=1), space, some, min(n_asks, 3))
    return found


def print_table(rows: list[Row], sizes: list[int]) -> None:
    """Seconds by searcher and number of trials, and the ratio to Optuna's TPE."""
    by = {(row.name, row.n_trials): row for row in rows}
    print(f"median seconds of one ask, {N_KNOBS} knobs; in brackets: optuna TPE's time over this one")
    print(f"{'searcher':14}" + "".join(f"{n:>22}" for n in sizes))
    for name in dict.fromkeys(row.name for row in rows):
        reasons = {row.reason for row in rows if row.name == name and row.seconds is None}
        if all(by[name, n].seconds is None for n in sizes):
            print(f"{name:14}  {', '.join(sorted(reasons))}")
            continue
        cells = []
        for n in sizes:
            row, tpe = by[name, n], by.get(("optuna TPE", n))
            ratio = f" [{tpe.seconds / row.seconds:.2f}]" if tpe and tpe.seconds and row.seconds else ""
            cells.append(f"{row.seconds:.4f}{ratio}" if row.seconds is not None else row.reason)
        print(f"{name:14}" + "".join(f"{cell:>22}" for cell in cells))


def main() -> int:
    """Runs the benchmark; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, nargs="+", default=[50, 200, 500, 1000], help="numbers of known trials")
    parser.add_argument("--asks", type=int, default=5, help="asks timed for each number")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds of one ask after which a row is cut short")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = measure(options.trials, options.asks, options.limit)
    if options.json:
        cores = len(os.sched_getaffinity(0))
        found = [{"searcher": r.name, "trials": r.n_trials, "seconds": r.seconds, "reason": r.reason} for r in rows]
        print(json.dumps({"schema_version": SCHEMA_VERSION, "knobs": N_KNOBS, "cores": cores, "rows": found}, indent=2))
    else:
        print_table(rows, options.trials)
    return 0


if __name__ == "__main__":
    sys.exit(main())
