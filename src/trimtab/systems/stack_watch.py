"""The resources of all tiers of a stack, and of their machine, at one moment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeVar

from trimtab.host import VolumeUse
from trimtab.systems.capabilities import DiskTarget, Vitals, Watchable
from trimtab.systems.tier import Tier

__all__ = ["StackWatch", "joined_vitals"]

T = TypeVar("T", int, float)


class StackWatch:
    """A `Watchable` over the tiers that can be watched.

    Args:
        tiers: of the stack.
        memory: their common budget in bytes; None: what they say themselves.

    Attributes:
        sees: whether any tier can be watched.
    """

    def __init__(self, tiers: Sequence[Tier], memory: int | None) -> None:
        self._tiers = tiers
        found = [(tier, tier.target) for tier in tiers]
        self._watched = [(tier, target) for tier, target in found if isinstance(target, Watchable)]
        self._memory = memory
        self.sees = bool(self._watched)

    def vitals(self) -> Vitals:
        """As of all tiers together; those of the only tier as they are."""
        found = {tier: target.vitals() for tier, target in self._watched}
        if all(not tier.prefix for tier in found):
            return next(iter(found.values()), Vitals())
        return joined_vitals({tier.name: vitals for tier, vitals in found.items()}, self._memory)

    def data_bytes(self) -> int | None:
        """What those tiers occupy on their volumes that can tell."""
        return _over((target.data_bytes() for _, target in self._watched), sum)

    def unwatch(self) -> None:
        """Gives back what `vitals` keeps open."""
        for _, target in self._watched:
            target.unwatch()

    def name_disks(self) -> None:
        """Tells each tier with settings of a disk where the others keep their files on this machine, the lowest one first."""
        needing = [(tier, tier.target) for tier in self._tiers if isinstance(tier.target, DiskTarget)]
        for tier, asking in needing:
            if not asking.needs_disk:
                continue
            others = (target.vitals().volumes for other, target in self._watched if other is not tier)
            asking.use_disk([Path(volume.path) for volume in chain.from_iterable(others)])
            self.unwatch()


def joined_vitals(parts: dict[str, Vitals], memory: int | None) -> Vitals:
    """What belongs to processes added up, what belongs to the machine once, each volume once.

    Args:
        parts: of the tiers, by name.
        memory: the budget of all; None: the largest that a tier speaks of.
    """
    vitals = list(parts.values())
    limit = memory if memory is not None else _over((each.memory_limit_bytes for each in vitals), max)
    return Vitals(
        memory_bytes=_over((each.memory_bytes for each in vitals), sum),
        memory_limit_bytes=limit,
        available_bytes=_over((each.available_bytes for each in vitals), min),
        swap_bytes=_over((each.swap_bytes for each in vitals), sum),
        swapped_bytes=_over((each.swapped_bytes for each in vitals), max),
        oom_kills=_over((each.oom_kills for each in vitals), sum),
        volumes=tuple(_distinct(volume for each in vitals for volume in each.volumes)),
        lag_s=_over((each.lag_s for each in vitals), max),
        memory_by_tier={name: each.memory_bytes for name, each in parts.items() if each.memory_bytes is not None},
    )


def _over(values: Iterable[T | None], join: Callable[[list[T]], T]) -> T | None:
    known = [value for value in values if value is not None]
    return join(known) if known else None


def _distinct(volumes: Iterable[VolumeUse]) -> Iterator[VolumeUse]:
    """Each file system once, whatever folder of it a tier names."""
    seen = set()
    for volume in volumes:
        try:
            device: object = os.stat(volume.path).st_dev
        except OSError:
            device = volume.path
        if device not in seen:
            seen.add(device)
            yield volume
