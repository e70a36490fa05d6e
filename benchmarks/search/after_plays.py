"""What `auto` gains after plays by asking its models at once, against a design that comes first.

    python benchmarks/search/after_plays.py [--surface rugged|smooth ...] [--noise 0.05] [--first 3000] [--seeds 40]

Before the search nine single settings are tried one on top of the other, kept where their run is better, as a study tries its
plays: five that promise much and four of any worth. Both searchers are told the same runs. Printed: the share of the reachable
gain that the best config by its measured mean truly has, after so many trials of the search, and the paired difference with its
standard error.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from run import rugged_task, surface_task
from tasks import Task, trial_of

from trimtab.records import Trial
from trimtab.search import SearchProblem
from trimtab.search.auto import AutoSearcher
from trimtab.search.design import Design
from trimtab.search.engine import Member
from trimtab.space import Config

CHECKPOINTS = (0, 4, 6, 9, 12, 20, 30)
N_KNOBS, BUDGET = 20, 20
N_PROMISING, N_OTHERS, PER_KNOB = 5, 4, 3
DOUBT = 0.05
"""Standard deviation of what is known of a play beforehand (log-ratio)."""


class DesignFirst(AutoSearcher):
    """`auto` whose whole design comes before its models."""

    def _made(self) -> tuple[Design, Sequence[Member]]:
        design, members = super()._made()
        setattr(design, "_is_sharing", False)  # noqa: B010 - what is compared is not an option
        return design, members


@dataclass
class _Measured:
    """What was run on a task, and what the best of it is worth."""

    task: Task
    rng: np.random.Generator
    trials: list[Trial] = field(default_factory=list)
    losses: dict[Config, list[float]] = field(default_factory=dict)

    def run(self, config: Config) -> Trial:
        """Measures it, with noise."""
        loss = self.task.true_loss(config)
        measured = loss + float(self.rng.normal(0.0, self.task.noise)) if math.isfinite(loss) else None
        trial = trial_of(config, len(self.trials), measured, self.task.noise)
        self.trials.append(trial)
        if measured is not None:
            self.losses.setdefault(config, []).append(measured)
        return trial

    def best(self) -> Config:
        """By its measured mean."""
        return min(self.losses, key=lambda config: float(np.mean(self.losses[config])))

    def share(self) -> float:
        """Of the reachable gain."""
        return min(1.0, max(0.0, self.task.true_loss(self.best()) / self.task.optimum))


def _plays(task: Task, rng: np.random.Generator) -> list[tuple[str, Config]]:
    """Knobs, each with a config that changes it alone: the promising ones first."""
    single = []
    for axis, name in enumerate(task.space.knobs):
        for _ in range(PER_KNOB):
            point = task.space.encode(task.baseline).copy()
            point[axis] = rng.random()
            single.append((name, task.space.repair(task.space.decode(point))))
    hoped = sorted(single, key=lambda play: task.true_loss(play[1]) + rng.normal(0.0, DOUBT))
    of_each: dict[str, Config] = {}
    for name, config in hoped:
        of_each.setdefault(name, config)
    best = list(of_each.items())
    others = rng.permutation(np.arange(N_PROMISING, len(best)))[:N_OTHERS]
    return best[:N_PROMISING] + [best[i] for i in others]


def shares(number: int, searcher: type[AutoSearcher], surface: str, noise: float) -> list[float]:
    """At each checkpoint, on the surface of that number."""
    task = rugged_task(noise, number) if surface == "rugged" else surface_task(N_KNOBS, noise, number)
    seen = _Measured(task, np.random.default_rng([number, 5]))
    seen.trials.append(trial_of(task.baseline, 0, 0.0, noise / 2))
    seen.losses[task.baseline] = [0.0, 0.0]
    for name, play in _plays(task, seen.rng):
        config = task.space.repair(seen.best().replace({name: play[name]}))
        if config not in seen.losses:
            seen.run(config)
    problem = SearchProblem(space=task.space, baseline=task.baseline, seed=number, budget_trials=BUDGET)
    asking = searcher(problem)
    for trial in seen.trials:
        asking.tell(trial)
    found = [seen.share()]
    for _ in range(max(CHECKPOINTS)):
        asking.tell(seen.run(asking.ask()[0]))
        found.append(seen.share())
    return [found[n] for n in CHECKPOINTS]


def _row(name: str, found: NDArray[np.float64], *, is_difference: bool = False) -> str:
    sign, errors = "+" if is_difference else "", found.std(axis=0, ddof=1) / math.sqrt(len(found))
    cells = [f"{mean:{sign}.3f} ± {error:.3f}" for mean, error in zip(found.mean(axis=0), errors, strict=True)]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Runs all and prints a table for each kind of surface."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surface", action="append", choices=("rugged", "smooth"), help="default: both")
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--first", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=40)
    given = parser.parse_args()
    if given.seeds < 2:
        parser.error(f"--seeds={given.seeds}: a standard error needs two or more")
    numbers = range(given.first, given.first + given.seeds)
    with ProcessPoolExecutor() as pool:
        for surface in given.surface or ("rugged", "smooth"):
            print(f"| {surface}, noise {given.noise:.0%} | {' | '.join(f'after {n}' for n in CHECKPOINTS)} |")
            print("| --- " * (len(CHECKPOINTS) + 1) + "|")
            first, shared = (
                np.array(list(pool.map(partial(shares, searcher=kind, surface=surface, noise=given.noise), numbers)))
                for kind in (DesignFirst, AutoSearcher)
            )
            print(_row("design first", first))
            print(_row("models at once", shared))
            print(_row("difference", shared - first, is_difference=True), flush=True)


if __name__ == "__main__":
    main()
