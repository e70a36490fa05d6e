"""Runs from which the hypervisor took much of the machine: they tell less of their config than the others, and are made again."""

from __future__ import annotations

import os
from collections.abc import Callable
from statistics import median

from trimtab.records import Status
from trimtab.trial.load import LoadResult
from trimtab.units import format_percent

__all__ = ["StolenTime"]

_MUCH = 0.05
"""Share of the machine's CPU from which on a run may be spoilt."""

_UNUSUAL = 2.0
"""Times what it took from the runs before (median): where it always takes much, another run would be no better."""


class StolenTime:
    """What the hypervisor has taken from the runs so far."""

    def __init__(self, say: Callable[[str], None], *, n_cores: int | None = None) -> None:
        """Nothing yet.

        Args:
            say: told of each run that is made again.
            n_cores: of this machine; None: it is asked.
        """
        self._say, self._n_cores = say, n_cores or os.cpu_count() or 1
        self._shares: list[float] = []
        self._is_again = False

    def spoils(self, status: Status, result: LoadResult) -> bool:
        """Whether a run that would be believed is to be made again; never twice in a row."""
        m, was_again = result.measurement, self._is_again
        self._is_again = False
        if m is None or m.steal_share is None or m.generators:
            return False
        share, usual = m.steal_share / self._n_cores, median(self._shares or [0.0])
        self._shares.append(share)
        is_believed = result.breach is None and status in (Status.OK, Status.STOPPED_EARLY)
        if was_again or not is_believed or share <= max(_MUCH, _UNUSUAL * usual):
            return False
        self._is_again = True
        self._say(f"the hypervisor took {format_percent(share)} of this machine's CPU from the run: it is repeated")
        return True
