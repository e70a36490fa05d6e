"""Sentry: what `ServerSentry` keeps of a PostgreSQL server, and what makes a measurement on it worthless."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from trimtab.records import Fault
from trimtab.space import Config, Value
from trimtab.target.base import KnobState, Snapshot
from trimtab.target.forensic import Disturbance, Withdrawal
from trimtab.target.postgresql.disk import low_disk
from trimtab.target.postgresql.foreign import Picture, differences, take_picture
from trimtab.target.postgresql.forensics import Forensics
from trimtab.target.postgresql.network import Link
from trimtab.target.postgresql.reach import AUTO_CONF, Reach
from trimtab.target.postgresql.values import setting_text
from trimtab.target.postgresql.withdraw import withdraw
from trimtab.target.sentry import ServerSentry

__all__ = ["Sentry"]


class Sentry(ServerSentry[Picture, str, Forensics]):
    """See `ServerSentry`; of a value of ours it keeps the text that was set."""

    def __init__(self, reach: Reach) -> None:
        super().__init__(Forensics(reach))
        self._reach = reach
        self._link = Link(reach)

    def begin(self) -> None:
        """As `ServerSentry.begin`; the network's counters count from here, too."""
        super().begin()
        self._link.learn()

    def _look(self) -> Picture:
        return take_picture(self._reach)

    def _differences(self, left: Picture, now: Picture) -> Iterable[Disturbance]:
        return differences(left, now)

    def _text(self, own: str) -> str:
        return own

    def _asked(self, config: Config, states: Mapping[str, KnobState]) -> Mapping[str, str]:
        return {name: setting_text(value, states[name].knob.unit) for name, value in config.items() if name in states}

    def _made(self, config: Config, effective: Mapping[str, Value]) -> dict[str, str]:
        return {name: text for name, text in self._ours.items() if name in config}

    def await_reason(self) -> None:
        """After a session was cut off: waits a moment for the server's log to say why."""
        self._forensics.await_reason()

    def disturbances(self) -> tuple[Disturbance, ...]:
        """What somebody else did since the last look, and what makes a measurement worthless now."""
        found = super().disturbances()
        troubles = ((Fault.RESOURCE, low_disk(self._reach)), (Fault.ENVIRONMENT, self._link.trouble()))
        return (*found, *(Disturbance(fault=fault, text=text, stops=False) for fault, text in troubles if text))

    def _take_back(self, snapshot: Snapshot, left: Picture, now: Picture) -> Withdrawal:
        auto = [path for path in now.files if Path(path).name == AUTO_CONF]
        is_ours = all(left.files.get(path) == now.files[path] for path in auto)
        return withdraw(self._reach, snapshot, dict(self._ours), is_auto_conf_ours=is_ours)
