"""In which order the lines of a config are tried without: what a model of all trials expects least of goes first, in groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.flow.task import Task
from trimtab.records import Trial
from trimtab.search.forecast import forecast
from trimtab.space import Config

__all__ = ["behind_larger", "from_the_weakest", "groups_to_try", "halves", "removal_order", "together", "weak_and_sure"]

_SURE = 5.0
"""Tolerances that a line is expected to cost from which on it surely matters: a group with it would fail because of it."""


def groups_to_try(task: Task, trials: Sequence[Trial], winner: Config, tolerance: float) -> list[list[str]]:
    """The changed knobs of `winner` in groups, the weakest first; every knob is in one group.

    As `weak_and_sure`; those that surely matter come last, one by one.
    """
    weak, sure = weak_and_sure(task, trials, winner, tolerance)
    return [*weak, *([name] for name in sure)]


def weak_and_sure(
    task: Task, trials: Sequence[Trial], winner: Config, tolerance: float, core: Collection[str] = ()
) -> tuple[list[list[str]], list[str]]:
    """The changed knobs of `winner` in groups, the weakest first, and those that a model of `trials` holds for what matters.

    The first group is the largest that is expected to cost no more than `tolerance` (of the loss, a log-ratio); the others
    shrink by two thirds. Knobs of `core` come after the others, one by one.
    """
    order, costs = removal_order(task, trials, winner, core)
    steps = np.diff([0.0, *costs])
    sure = [name for name, step in zip(order, steps, strict=False) if step > _SURE * tolerance]
    if sure and len(order) == len(steps) + 1:
        sure.append(order[-1])  # without it nothing would be left
    n = max((i + 1 for i, cost in enumerate(costs) if cost <= tolerance and order[i] not in core), default=0)
    if n == len(order):
        return from_the_weakest(order), []
    rest = [name for name in order[n:] if name not in sure and name not in core]
    first = [order[:n]] if n else []
    return [*first, *from_the_weakest(rest), *([name] for name in order if name in core and name not in sure)], sure


def from_the_weakest(names: list[str]) -> list[list[str]]:
    """The weaker two thirds, then two thirds of the rest, and so on: few tests where the order is right."""
    groups = []
    while names:
        n = max(1, 2 * len(names) // 3)
        groups.append(names[:n])
        names = names[n:]
    return groups


def together(group: list[str], bundles: Sequence[Collection[str]]) -> list[str]:
    """`group` with all that belongs to one of its settings (`bundles`)."""
    mates = {name for bundle in bundles if set(bundle) & set(group) for name in bundle}
    return [*group, *sorted(mates - set(group))]


def halves(group: list[str], bundles: Sequence[Collection[str]]) -> tuple[list[str], list[str]]:
    """`group` (two or more) in two parts, neither empty; what belongs together is parted only where it is all of the group."""
    first = set(group[: len(group) // 2])
    for bundle in bundles:
        if first & set(bundle):
            first |= set(bundle)
    if first >= set(group):
        return group[: len(group) // 2], group[len(group) // 2 :]
    return [name for name in group if name in first], [name for name in group if name not in first]


def behind_larger(groups: list[list[str]], parts: Sequence[list[str]]) -> list[list[str]]:
    """`groups` with `parts` of one that may not go as a whole, behind all that are larger: a run that takes many settings away
    comes before one that takes few, since the runs may end before all is tried."""
    size = max(map(len, parts))
    at = next((i for i, group in enumerate(groups) if len(group) <= size), len(groups))
    return [*groups[:at], *parts, *groups[at:]]


def removal_order(
    task: Task, trials: Sequence[Trial], winner: Config, core: Collection[str] = ()
) -> tuple[list[str], list[float]]:
    """Changed knobs in the order in which they go back to the baseline's values at the least expected cost.

    One knob after the other: each is the one without which, beside those gone before, the least loss is expected. That
    is rough, and decides only in which order removals are measured. Those of `core` go after all others.

    Returns:
        The knobs, and what the first 1, 2, ... of them are expected to cost together (of the loss); knobs that cannot go
        back beside those gone before come last, without a cost. With too few trials: by name, and no costs.
    """
    expected = forecast(task.space, task.baseline, trials)
    changed = list(winner.difference(task.baseline))
    if expected is None:
        return sorted(changed, key=lambda name: (name in core, name)), []
    order, costs, current = list[str](), list[float](), winner
    start = float(expected([winner])[0])
    for names in ([name for name in changed if name not in core], [name for name in changed if name in core]):
        while found := _cheapest(task, expected, current, names):
            name, current, loss = found
            order.append(name)
            costs.append(loss - start)
    return [*order, *(name for name in changed if name not in order)], costs


def _cheapest(
    task: Task, expected: Callable[[Sequence[Config]], NDArray[np.float64]], config: Config, names: Collection[str]
) -> tuple[str, Config, float] | None:
    """The knob of `names` whose way back is expected to cost least, the config without it, and its expected loss."""
    space, baseline = task.space, task.baseline
    changed = [name for name in config.difference(baseline) if name in names]
    ways = [(name, space.canonical(config.replace({name: baseline[name]}))) for name in changed]
    ways = [(name, c) for name, c in ways if c not in (config, baseline) and space.is_feasible(c)]
    if not ways:
        return None
    losses = expected([c for _, c in ways])
    best = int(np.argmin(losses))
    return ways[best][0], ways[best][1], float(losses[best])
