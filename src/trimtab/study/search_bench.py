"""bench-search: searchers side by side on a replayed study, and whether the best is better by more than chance."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import UsageError
from trimtab.flow import Budget, SearchOptions, Study, Task
from trimtab.flow.start import asked
from trimtab.plugins import names as plugin_names
from trimtab.records import Objective, Trial
from trimtab.study.replay import Replay
from trimtab.units import counted

__all__ = ["DEFAULT_SEARCHERS", "SearchBench", "SearcherScore", "bench_search", "chances"]

Array = NDArray[np.float64]

DEFAULT_SEARCHERS = ("auto", "forest", "bestconfig", "nelder-mead", "random")
_CHECKPOINTS = (10, 30)
_LEVEL = 0.05
_MOST_ORDERS = 4096
"""Assignments that are counted; of more, so many are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearcherScore:
    """One searcher over all repeats.

    Attributes:
        searcher: its name.
        share: after so many trials, lower quartile, median and upper quartile of the true share of the best known gain that
            the config measured best has; in [0, 1].
        final: the share after the last trial, in the order of the repeats.
        failed: share of the trials that failed.
        ask_s: median seconds of one ask.
    """

    searcher: str
    share: Mapping[int, tuple[float, float, float]]
    final: tuple[float, ...]
    failed: float
    ask_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBench:
    """What the comparison showed.

    Attributes:
        replay: what was searched.
        n_trials, n_repeats: trials of one run, and runs of each searcher.
        scores: the best first.
        p_values: for every other searcher, the chance that the first of so many looks this much better without being so: from
            permutations of the searchers within each seed, see `chances`.
    """

    replay: Replay
    n_trials: int
    n_repeats: int
    scores: tuple[SearcherScore, ...]
    p_values: Mapping[str, float]

    @property
    def best(self) -> str:
        """Name of the searcher with the largest mean share at the end."""
        return self.scores[0].searcher

    @property
    def beaten(self) -> tuple[str, ...]:
        """Those that the best beats by more than chance (5 %)."""
        return tuple(name for name, p in self.p_values.items() if p < _LEVEL)

    def to_json(self) -> dict[str, Any]:
        """Everything of the comparison, as JSON values."""
        replay = self.replay
        return {
            "study": replay.name,
            "mode": "exact" if replay.is_exact else "surrogate",
            "configs": replay.n_configs,
            "failed_configs": replay.n_failed,
            "noise": replay.noise,
            "best_known_loss": replay.optimum,
            "trials": self.n_trials,
            "repeats": self.n_repeats,
            "searchers": [
                {
                    **asdict(score),
                    "share": {str(n): list(values) for n, values in score.share.items()},
                    "p_value": self.p_values.get(score.searcher),
                }
                for score in self.scores
            ],
            "best": self.best,
            "beaten": list(self.beaten),
        }


def bench_search(
    replay: Replay,
    *,
    searchers: Sequence[str] = DEFAULT_SEARCHERS,
    n_trials: int = 50,
    n_repeats: int = 8,
    say: Callable[[str], None] = lambda text: None,
) -> SearchBench:
    """Runs every searcher `n_repeats` times on the replayed study.

    Args:
        replay: the study.
        searchers: short names.
        n_trials: of each run, 1 or more.
        n_repeats: 2 or more; each has its own seed, the same for all searchers.
        say: told of progress.

    Raises:
        UsageError: an unknown searcher, one named twice, or numbers out of range.
    """
    _check(searchers, n_trials, n_repeats)
    scores = []
    for name in searchers:
        scores.append(_score(name, replay, n_trials, n_repeats))
        say(f"{name}: {scores[-1].share[n_trials][1]:.2f} of the best known gain after {counted(n_trials, 'trial')}")
    scores.sort(key=lambda score: (-float(np.mean(score.final)), score.searcher))
    p_values = dict(zip([score.searcher for score in scores[1:]], chances([s.final for s in scores]), strict=True))
    return SearchBench(
        replay=replay, n_trials=n_trials, n_repeats=n_repeats, scores=tuple(scores), p_values=p_values
    )  # fmt: skip


def _check(searchers: Sequence[str], n_trials: int, n_repeats: int) -> None:
    known = plugin_names("searchers")
    unknown = [name for name in searchers if name not in known]
    if unknown or not searchers:
        raise UsageError(f"unknown searcher={(unknown or [''])[0]!r}", hint=f"use some of: {', '.join(known)}")
    if len(set(searchers)) < len(searchers):
        raise UsageError("a searcher is named twice", hint="name each once")
    for what, value, least in (("trials", n_trials, 1), ("repeats", n_repeats, 2)):
        if value < least:
            raise UsageError(f"{what}={value} is too few", hint=f"give at least {least}")


def _score(name: str, replay: Replay, n_trials: int, n_repeats: int) -> SearcherScore:
    runs = [_run(name, replay, n_trials, seed) for seed in range(n_repeats)]
    shares = np.array([run[0] for run in runs])
    points = sorted({n for n in _CHECKPOINTS if n < n_trials} | {n_trials})
    quartiles = {n: np.percentile(shares[:, n - 1], [25, 50, 75]) for n in points}
    return SearcherScore(
        searcher=name,
        share={n: (float(q[0]), float(q[1]), float(q[2])) for n, q in quartiles.items()},
        final=tuple(float(value) for value in shares[:, -1]),
        failed=float(np.mean([run[1] for run in runs])),
        ask_s=float(np.median([second for run in runs for second in run[2]])),
    )


def _run(name: str, replay: Replay, n_trials: int, seed: int) -> tuple[list[float], float, list[float]]:
    """Share after each trial, share of trials that failed, seconds of each ask."""
    task = Task(
        space=replay.space, baseline=replay.baseline, advice=replay.baseline, objective=Objective("throughput"),
        budget=Budget(trials=n_trials), context=replay.context, seed=seed, search=SearchOptions(searcher=name),
    )  # fmt: skip
    shares: list[float] = []

    def note(best: Trial | None) -> None:
        gain = 0.0 if best is None else replay.true_loss(best.config) / replay.optimum
        shares.append(min(1.0, max(0.0, gain)))

    study, seconds = Study(task, asked(task, note)), list[float]()
    rng = np.random.default_rng([seed, 77])
    while True:
        started = time.perf_counter()
        asks = study.next()
        if study.is_over:
            break
        (ask,) = asks
        if ask.number:
            seconds.append(time.perf_counter() - started)
        study.tell(replay.trial(ask.config, ask.number, rng))
    n_failed = sum(trial.loss is None for trial in study.scorer.trials[1:])
    shares += [shares[-1] if shares else 0.0] * (n_trials - len(shares))
    return shares, n_failed / max(1, len(seconds)), seconds or [0.0]


def chances(finals: Sequence[Sequence[float]], n_draws: int = _MOST_ORDERS) -> list[float]:
    """For each row behind the first the chance of so large a difference of means between equal searchers.

    The first was chosen by the same runs, so its lead is compared with the largest difference between any two of the rows down to
    that one, over all orders of the rows within each column; a row is not beaten unless those behind it are (R. Newman,
    Biometrika 31, 1939, with permutations).

    Args:
        finals: (k, n) a row for each searcher, the largest mean first; a column for each seed.
        n_draws: so many assignments are drawn where there are more.
    """
    rows, found, worst = np.array(finals, dtype=np.float64), list[float](), 0.0
    for k in range(len(rows), 1, -1):
        worst = max(worst, _chance_of_range(rows[:k], n_draws))
        found.insert(0, worst)
    return found


def _chance_of_range(rows: Array, n_draws: int) -> float:
    """(k, n): the share of assignments of the rows within each column whose means lie as far apart as those of `rows`."""
    k, n = rows.shape
    if math.factorial(k) ** n <= n_draws:
        orders = np.array(list(permutations(range(k))))
        picked = orders[np.array(list(product(range(len(orders)), repeat=n)))]
        shuffled = rows.T[np.arange(n)[:, None], picked]
    else:
        drawn = np.random.default_rng(0).permuted(np.tile(rows.T, (n_draws - 1, 1, 1)), axis=2)
        shuffled = np.concatenate([rows.T[None], drawn])
    ranges = np.ptp(shuffled.mean(axis=1), axis=1)
    return float((ranges >= np.ptp(rows.mean(axis=1)) - 1e-12).mean())
