"""Which tiers of a stack are restarted, or looked at, because one that they need was restarted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from trimtab.errors import UsageError
from trimtab.systems.capabilities import RestartableTarget

if TYPE_CHECKING:
    from trimtab.systems.tier import Tier

__all__ = ["depending", "follows_of", "require_followers", "stale"]


def _needed(tiers: Sequence[Tier], index: int) -> tuple[str, ...]:
    """The tiers that one needs; where nothing is said, all that lie below it."""
    return tiers[index].needs or tuple(tier.name for tier in tiers[:index])


def follows_of(tiers: Sequence[Tier]) -> dict[str, tuple[str, ...]]:
    """Tiers (bottom first) that are restarted after one of those that they need -> those."""
    return {tier.name: _needed(tiers, index) for index, tier in enumerate(tiers) if tier.follows}


def stale(follows: Mapping[str, Sequence[str]], restarts: Iterable[tuple[str, bool]]) -> tuple[str, ...]:
    """The tiers that may run since before one that they follow was restarted, in the order in which to restart them.

    Args:
        follows: tier -> those after whose restart it is restarted.
        restarts: name of a tier and whether its restart is certain, in their order; a name may come again.
    """
    events = list(restarts)
    last = {name: number for number, (name, _) in enumerate(events)}
    sure = {name: number for number, (name, is_sure) in enumerate(events) if is_sure}
    found: list[str] = []
    for name in TopologicalSorter(follows).static_order():
        if any(last.get(need, -1) > sure.get(name, -1) for need in follows.get(name, ())):
            last[name] = len(events) + len(found)
            found.append(name)
    return tuple(found)


def depending(tiers: Sequence[Tier], restarted: Sequence[str]) -> Iterator[Tier]:
    """The tiers (bottom first) that need one of `restarted`, or one that needs such a one."""
    affected = set(restarted)
    for index, tier in enumerate(tiers):
        if any(name in affected for name in _needed(tiers, index)):
            affected.add(tier.name)
            yield tier


def require_followers(tiers: Sequence[Tier]) -> None:
    """That every tier which is to follow another one can be restarted.

    Raises:
        UsageError: one cannot.
    """
    for tier in tiers:
        if not tier.follows:
            continue
        target = tier.target
        why = (
            target.no_restart if isinstance(target, RestartableTarget) else f"targets of kind={target.kind!r} cannot be"
        )
        if why:
            raise UsageError(
                f"[target.{tier.name}] follows = true, and it cannot be restarted: {why}",
                hint="say how it is restarted, or leave follows out: it must reconnect by itself then",
            )
