"""Task: something to tune whose true losses are known; and one run of a contender on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trimtab.records import Context, Role, Status, Trial
from trimtab.space import Config, RestartClass, Space

N_TRIALS = 100
CHECKPOINTS = (10, 25, 30, 50, 100)
CHOSEN_ON = ("dbtune JOB, 5 knobs", "MongoDB grid", "opadviser w02", "opadviser w08", "opadviser w22")
"""Tables on which constants of the default searcher were chosen: marked, and left out of what is said of all together."""

WORSE = math.log(1.1)
"""True loss above which a trial counts as more than 10 % worse than the start."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is tuned.

    Attributes:
        name: as in the results.
        space, baseline, advice: as every contender sees them.
        noise: standard deviation of a measured loss.
        true_loss: log-ratio against the baseline without noise; infinite where the target fails.
        optimum: least true loss that is known to be reachable, below 0.
    """

    name: str
    space: Space
    baseline: Config
    advice: tuple[Config, ...]
    noise: float
    true_loss: Callable[[Config], float]
    optimum: float


class Contender(Protocol):
    """A searcher, ours or a peer's, in the benchmark's loop."""

    def ask(self) -> Config: ...
    def tell(self, trial: Trial) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Run:
    """One contender on one task with one seed.

    Attributes:
        share: true share of the reachable gain of the config measured best, after each trial, in [0, 1].
        failed: share of the trials that failed.
        worse: share of the trials that ran and were truly more than 10 % worse than the start.
        restarts: share of the trials that needed a restart.
    """

    share: tuple[float, ...]
    failed: float
    worse: float
    restarts: float


def run(task: Task, contender: Contender, n_trials: int, seed: int) -> Run:
    """The baseline, then the advice, then what the contender asks; advice counts as trials."""
    rng = np.random.default_rng([seed, 77])
    costly = [n for n, knob in task.space.knobs.items() if knob.restart is not RestartClass.RELOAD]
    contender.tell(trial_of(task.baseline, 0, 0.0, task.noise / 2))
    advice, before = list(task.advice), task.baseline
    seen: dict[Config, list[float]] = {task.baseline: [0.0, 0.0]}
    losses, shares, n_restarts = [], [], 0
    for number in range(1, n_trials + 1):
        config = advice.pop(0) if advice else contender.ask()
        loss = task.true_loss(config)
        measured = loss + float(rng.normal(0.0, task.noise)) if math.isfinite(loss) else None
        contender.tell(trial_of(config, number, measured, task.noise))
        n_restarts += any(config[name] != before[name] for name in costly)
        losses.append(loss)
        before = config
        if measured is not None:
            seen.setdefault(config, []).append(measured)
        best = min(seen, key=lambda c: float(np.mean(seen[c])))
        shares.append(min(1.0, max(0.0, task.true_loss(best) / task.optimum)))
    found = np.array(losses)
    failed = ~np.isfinite(found)
    worse = ~failed & (found > WORSE)
    return Run(tuple(shares), float(failed.mean()), float(worse.mean()), n_restarts / n_trials)


def trial_of(config: Config, number: int, loss: float | None, se: float) -> Trial:
    """The baseline (number 0) or a trial of the search; None: it crashed."""
    status = Status.CRASHED if loss is None else Status.OK
    return Trial(
        number=number, role=Role.SEARCH if number else Role.BASELINE, config=config, context=Context("benchmark", 1),
        status=status, loss=loss, loss_se=None if loss is None else se,
    )  # fmt: skip
