"""Sentry: what `ServerSentry` keeps of a PostgreSQL server, and what makes a measurement on it worthless."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trimtab.records import Fault
from trimtab.systems.forensic import Disturbance
from trimtab.systems.postgresql.disk import low_disk
from trimtab.systems.postgresql.foreign import Picture, differences, take_picture
from trimtab.systems.postgresql.forensics import Forensics
from trimtab.systems.postgresql.network import Link
from trimtab.systems.postgresql.reach import Reach
from trimtab.systems.sentry import ServerSentry

__all__ = ["Sentry"]


class Sentry(ServerSentry[Picture, Forensics]):
    """See `ServerSentry`."""

    def __init__(self, reach: Reach) -> None:
        super().__init__(Forensics(reach))
        self._reach = reach
        self._link = Link(reach)

    def begin(self) -> Mapping[str, Any]:
        """As `ServerSentry.begin`; the network's counters count from here, too."""
        kept = super().begin()
        self._link.learn()
        return kept

    def _look(self) -> Picture:
        return take_picture(self._reach)

    def _differences(self, left: Picture, now: Picture) -> Iterable[Disturbance]:
        return differences(left, now)

    def await_reason(self) -> None:
        """After a session was cut off: waits a moment for the server's log to say why."""
        self._forensics.await_reason()

    def disturbances(self) -> tuple[Disturbance, ...]:
        """What somebody else did since the last look, and what makes a measurement worthless now."""
        found = super().disturbances()
        troubles = ((Fault.RESOURCE, low_disk(self._reach)), (Fault.ENVIRONMENT, self._link.trouble()))
        return (*found, *(Disturbance(fault=fault, text=text, stops=False) for fault, text in troubles if text))
