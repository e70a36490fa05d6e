"""In which order the lines of a config are tried without: what a model of all trials expects least of goes first, in groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.flow.task import Task
from trimtab.records import Trial
from trimtab.search.forecast import forecast
from trimtab.space import Config

__all__ = ["from_the_weakest", "groups_to_try", "removal_order"]


def groups_to_try(task: Task, trials: Sequence[Trial], winner: Config, tolerance: float) -> list[list[str]]:
    """The changed knobs of `winner` in groups, the weakest first; every knob is in one group.

    The first group is the largest that is expected to cost no more than `tolerance` (of the loss, a log-ratio); where
    nothing is expected to go, or everything, groups shrink by two thirds.
    """
    order, costs = removal_order(task, trials, winner)
    n = max((i + 1 for i, cost in enumerate(costs) if cost <= tolerance), default=0)
    if n in (0, len(order)):
        return from_the_weakest(order)
    return [order[:n], *from_the_weakest(order[n:])]


def from_the_weakest(names: list[str]) -> list[list[str]]:
    """The weaker two thirds, then two thirds of the rest, and so on: few tests where the order is right."""
    groups = []
    while names:
        n = max(1, 2 * len(names) // 3)
        groups.append(names[:n])
        names = names[n:]
    return groups


def removal_order(task: Task, trials: Sequence[Trial], winner: Config) -> tuple[list[str], list[float]]:
    """Changed knobs in the order in which they go back to the baseline's values at the least expected cost.

    One knob after the other: each is the one without which, beside those gone before, the least loss is expected. That
    is rough, and decides only in which order removals are measured.

    Returns:
        The knobs, and what the first 1, 2, ... of them are expected to cost together (of the loss); knobs that cannot go
        back beside those gone before come last, without a cost. With too few trials: by name, and no costs.
    """
    expected = forecast(task.space, task.baseline, trials)
    changed = list(winner.difference(task.baseline))
    if expected is None:
        return sorted(changed), []
    order, costs, current = list[str](), list[float](), winner
    start = float(expected([winner])[0])
    while found := _cheapest(task, expected, current):
        name, current, loss = found
        order.append(name)
        costs.append(loss - start)
    return [*order, *(name for name in changed if name not in order)], costs


def _cheapest(
    task: Task, expected: Callable[[Sequence[Config]], NDArray[np.float64]], config: Config
) -> tuple[str, Config, float] | None:
    """The knob whose way back is expected to cost least, the config without it, and its expected loss."""
    space, baseline = task.space, task.baseline
    ways = [(name, space.canonical(config.replace({name: baseline[name]}))) for name in config.difference(baseline)]
    ways = [(name, c) for name, c in ways if c not in (config, baseline) and space.is_feasible(c)]
    if not ways:
        return None
    losses = expected([c for _, c in ways])
    best = int(np.argmin(losses))
    return ways[best][0], ways[best][1], float(losses[best])
