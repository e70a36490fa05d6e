"""How much of a gain whole studies prove on noisy, drifting machines: made-up servers whose truth is known.

    python benchmarks/acceptance/studies.py [--seeds 100] [--first-seed 0] [--budget 600] [--server "fair gain, noisy" ...]
        [--informed]

A server has 20 knobs, of which a few matter, and a play for each of the first ten (a stack: 80, and 40). A run takes 12 s (a
stack's: 40 s), a long one a third more. All plays promise the same, or (--informed) what they bring within a factor of two in
most cases.
What it shows has noise from run to run, and drift with a memory of a minute and a half. Printed for each kind of server: the
share of the studies that end with a proof, the mean true gain of what they recommend (1 where nothing was proven), settings,
the share of settings whose worth was measured, and proofs of configs that are truly no better, or let the slowest clients wait
more than 5 % longer.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from trimtab.flow import Ask, Budget, Effort, Settled, Study, Task
from trimtab.flow.plays import planned
from trimtab.flow.tuning import tuning
from trimtab.measure import Interval, Measurement
from trimtab.records import Context, Objective, Play, Status, Trial
from trimtab.space import Config, Knob, KnobKind, RestartClass, Space

__all__ = ["SERVERS", "Server", "main", "studied"]

FOUND, MEMORY_S, WARMS_S = 0.3, 90.0, 60.0
_HARM = math.log(1.05)
CONTEXT = Context("made up", 8)

_LEAST_KNOWN, _UNKNOWN, _DOUBT = 0.03, 0.08, 0.7
"""Effect from which on an informed play promises what it brings; what the others promise; log-ratio by which both are off."""


@dataclass(frozen=True, slots=True)
class Server:
    """A kind of server, in log-ratios.

    Attributes:
        strong: effects of the knobs that matter, all the way up.
        spread: standard deviation of the others' effects.
        curved: what a step of any knob costs besides, by its square.
        noise, drift: standard deviations, of a short run and of what runs of one moment share.
        crossed: standard deviation of what each pair of plays brings besides.
        n_knobs, n_plays: how many there are; the first knobs have a play each.
        run_s: seconds of a short run.
        stated: standard error that a run states for itself, in the mean; what happens in each run alike may make it too large.
        odd: share of runs that are slower by a quarter to 0.6 besides, whatever the config: somebody else had the machine.
        waits: how much longer the slowest clients wait (p99) for each of `strong`, all the way up; the p99 has noise of its own,
            as much as a run. None: it is not told.
        cold: by how much everything is slower at the start: caches fill, by two thirds within `WARMS_S`.
    """

    strong: tuple[float, ...]
    spread: float
    curved: float
    noise: float
    drift: float
    crossed: float = 0.0
    n_knobs: int = 20
    n_plays: int = 10
    run_s: float = 12.0
    stated: float = 0.01
    odd: float = 0.0
    waits: tuple[float, ...] | None = None
    cold: float = 0.0


SERVERS: Mapping[str, Server] = {
    "small gain, quiet": Server((0.08, 0.05), 0.01, 0.03, 0.02, 0.01),
    "small gain, noisy": Server((0.08, 0.05), 0.01, 0.03, 0.06, 0.06),
    "fair gain, noisy": Server((0.15, 0.1, 0.05), 0.02, 0.05, 0.06, 0.06),
    "large gain, quiet": Server((0.6, 0.4), 0.02, 0.05, 0.04, 0.02),
    "large gain, noisy": Server((0.6, 0.4), 0.02, 0.05, 0.07, 0.07),
    "fair gain, crossed": Server((0.15, 0.1, 0.05), 0.02, 0.05, 0.06, 0.06, crossed=0.03),
    "large gain, crossed": Server((0.6, 0.4), 0.02, 0.05, 0.07, 0.07, crossed=0.05),
    "stack": Server((0.12, 0.1, 0.08, 0.06, 0.05), 0.01, 0.02, 0.05, 0.03, n_knobs=80, n_plays=40, run_s=40.0),
    "fair gain, uneven runs": Server((0.15, 0.1, 0.05), 0.02, 0.05, 0.06, 0.06, stated=0.2),
    "large gain, uneven runs": Server((0.6, 0.4), 0.02, 0.05, 0.07, 0.07, stated=0.2),
    "many small gains": Server((0.03,) * 8, 0.015, 0.005, 0.06, 0.05, n_knobs=40, n_plays=12, run_s=13.0),
    "none, noisy": Server((), 0.0, 0.03, 0.06, 0.06),
    "all equal, quiet": Server((), 0.0, 0.0, 0.02, 0.01),
    "all equal, noisy": Server((), 0.0, 0.0, 0.06, 0.06),
    "all equal, uneven runs": Server((), 0.0, 0.0, 0.06, 0.06, stated=0.2),
    "all equal, honest runs": Server((), 0.0, 0.0, 0.06, 0.06, stated=0.055),
    "fair gain, odd runs": Server((0.15, 0.1, 0.05), 0.02, 0.05, 0.04, 0.04, odd=0.08),
    "large gain, odd runs": Server((0.6, 0.4), 0.02, 0.05, 0.04, 0.04, odd=0.08),
    "all equal, odd runs": Server((), 0.0, 0.0, 0.04, 0.04, odd=0.08),
    "fair gain, p99 told": Server((0.15, 0.1, 0.1, 0.05), 0.02, 0.05, 0.03, 0.03, waits=(0.0,) * 4),
    "fair gain, p99 worse": Server((0.15, 0.1, 0.1, 0.05), 0.02, 0.05, 0.03, 0.03, waits=(0.3, 0.0, 0.0, 0.0)),
    "large gain, p99 worse": Server((0.4, 0.3, 0.2), 0.02, 0.05, 0.04, 0.03, waits=(0.3, 0.0, 0.0)),
    "fair gain, cold start": Server((0.15, 0.1, 0.05), 0.02, 0.05, 0.04, 0.03, cold=0.8),
    "large gain, cold start": Server((0.6, 0.4), 0.02, 0.05, 0.04, 0.03, cold=0.8),
    "all equal, cold start": Server((), 0.0, 0.0, 0.04, 0.03, cold=0.8),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """How one study ended."""

    is_proven: bool
    gain: float
    n_lines: int
    n_worth: int
    waited: float = 0.0


class _Machine:
    """The server under a study: what a run shows, and how the time passes."""

    def __init__(self, server: Server, seed: int) -> None:
        self._server, rng = server, np.random.default_rng([seed, 21])
        self.weight = rng.normal(0.0, server.spread, server.n_knobs)
        where = rng.permutation(server.n_plays)[: len(server.strong)]
        self.weight[where] = server.strong
        self.waits = np.zeros(server.n_knobs)
        self.waits[where] = server.waits or 0.0
        self._rng, self._level, self._at_s = rng, rng.normal(0.0, server.drift), 0.0
        self._stated_rng, self._odd_rng, self._waits_rng = (
            np.random.default_rng([seed, stream]) for stream in (23, 25, 26)
        )
        pairs = np.random.default_rng([seed, 22]).normal(0.0, server.crossed, (server.n_plays, server.n_plays))
        self._pairs = np.triu(pairs, 1)

    def truth(self, config: Config) -> float:
        """Log of how many times as fast as the found settings."""
        n_plays, step = self._server.n_plays, self._steps(config)
        crossed = step[:n_plays] @ self._pairs @ step[:n_plays]
        return float(self.weight @ step - self._server.curved * (step**2).sum() + crossed)

    def waited(self, config: Config) -> float:
        """Log of how many times as long as with the found settings the slowest clients wait, in truth."""
        return float(self.waits @ self._steps(config))

    def _steps(self, config: Config) -> NDArray[np.float64]:
        """How far each knob is on its way up; below 0 where it is below the found value."""
        values = [float(config[f"k{i}"]) for i in range(self._server.n_knobs)]
        return (np.array(values) - FOUND) / (1 - FOUND)

    def _p99(self, config: Config) -> Mapping[str, Interval]:
        """Of a run; empty where the server does not tell it."""
        if self._server.waits is None:
            return {}
        noise = self._waits_rng.normal(0.0, self._server.noise)
        value = 20.0 * math.exp(self.waited(config) + noise)
        return {"p99": Interval(value, 0.9 * value, 1.1 * value)}

    def run(self, ask: Ask) -> Trial:
        """Measures what was asked for."""
        run_s = self._server.run_s
        cost_s = run_s * 4 / 3 if ask.effort is Effort.LONG else run_s
        kept = math.exp(-cost_s / MEMORY_S)
        self._level = kept * self._level + math.sqrt(1 - kept**2) * self._rng.normal(0.0, self._server.drift)
        noise = self._rng.normal(0.0, self._server.noise) * math.sqrt(run_s / cost_s)
        held_up = self._odd_rng.uniform(0.25, 0.6) if self._odd_rng.random() < self._server.odd else 0.0
        cold = self._server.cold * math.exp(-self._at_s / WARMS_S)
        self._at_s += cost_s
        value = 1000.0 * math.exp(self.truth(ask.config) + self._level + noise - held_up - cold)
        # of two degrees of freedom, as in a short window
        se = self._server.stated * math.sqrt(self._stated_rng.chisquare(2) / 2)
        interval = Interval(value, (1 - 2 * se) * value, (1 + 2 * se) * value, se=se * value)
        flat = Interval(1.0, 1.0, 1.0, se=0.0)
        measurement = Measurement(
            window_s=(0.0, 8.0), throughput=interval, latency_mean_ms=flat, latency_ms=self._p99(ask.config),
            n_ok=8000, n_error=0, n_timed_out=0, is_steady=True, warmup_s=0.0, series_per_s=(value,) * 8,
        )  # fmt: skip
        return Trial(
            number=ask.number, role=ask.role, config=ask.config, context=CONTEXT, status=Status.OK,
            measurement=measurement, cost_s={"measure": cost_s},
        )  # fmt: skip


def _task(n_knobs: int, seed: int, budget_s: float) -> Task:
    knobs = [
        Knob(name=f"k{i}", kind=KnobKind.REAL, low=0.0, high=1.0, default=FOUND, restart=RestartClass.RELOAD)
        for i in range(n_knobs)
    ]
    space = Space(knobs)
    return Task(
        space=space, baseline=space.default(), advice=space.default(), objective=Objective("throughput"),
        budget=Budget(seconds=budget_s), context=CONTEXT, seed=seed,
    )  # fmt: skip


def _plays(server: Server, machine: _Machine, seed: int, *, informed: bool) -> list[Play]:
    """A play for each of the first settings, the most promising first; all promise the same unless they are `informed`."""
    worths = np.full(server.n_plays, 0.1)
    if informed:
        known = np.where(machine.weight[: server.n_plays] >= _LEAST_KNOWN, machine.weight[: server.n_plays], _UNKNOWN)
        worths = known * np.exp(np.random.default_rng([seed, 24]).normal(0.0, _DOUBT, server.n_plays))
    plays = [
        Play(name=f"p{i}", settings={f"k{i}": 1.0}, worth=float(worth), chance=0.4) for i, worth in enumerate(worths)
    ]
    return sorted(plays, key=lambda play: -play.worth)


def studied(name: str, seed: int, budget_s: float, *, informed: bool = False) -> Seen:
    """One whole study on a server of the kind `name`."""
    server = SERVERS[name]
    machine, task = _Machine(server, seed), _task(server.n_knobs, seed, budget_s)
    plays = _plays(server, machine, seed, informed=informed)
    study = Study(task, tuning(task, lambda scorer: Settled(plays=planned(task, plays, scorer))))
    while not study.is_over:
        for ask in study.next():
            study.tell(machine.run(ask))
    verdict = study.result
    if verdict.result != "better" or verdict.candidate is None:
        return Seen(False, 0.0, 0, 0)
    told = sum(line.without is not None or line.alone is not None for line in verdict.worth.values())
    lines = len(verdict.candidate.difference(task.baseline))
    return Seen(True, machine.truth(verdict.candidate), lines, told, machine.waited(verdict.candidate))


def main() -> None:
    """Runs all and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=600.0, help="seconds of a study")
    parser.add_argument("--server", action="append", choices=SERVERS, help="default: all")
    parser.add_argument("--informed", action="store_true", help="plays promise about what they bring")
    given = parser.parse_args()
    print("| server | proven | true gain | settings | with their worth | false proofs |")
    print("| --- | --- | --- | --- | --- | --- |")
    with ProcessPoolExecutor() as pool:
        for name in given.server or SERVERS:
            seen = list(
                pool.map(
                    partial(studied, name, budget_s=given.budget, informed=given.informed),
                    range(given.first_seed, given.first_seed + given.seeds),
                )
            )
            proven = [each for each in seen if each.is_proven]
            gains = [each.gain for each in seen]
            error = statistics.stdev(gains) / math.sqrt(len(gains))
            lines = sum(each.n_lines for each in proven)
            print(
                f"| {name} | {len(proven) / len(seen):.0%} | {math.exp(statistics.mean(gains)):.3f} ± {error:.3f} | "
                f"{lines / max(1, len(proven)):.1f} | {sum(each.n_worth for each in proven) / max(1, lines):.0%} | "
                f"{sum(each.gain <= 0.0 or each.waited > _HARM for each in proven)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
