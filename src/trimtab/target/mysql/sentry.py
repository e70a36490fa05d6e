"""Sentry: what `ServerSentry` keeps of a MySQL or MariaDB server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from trimtab.space import Config, Value
from trimtab.target.base import KnobState, Snapshot
from trimtab.target.forensic import Disturbance, Withdrawal
from trimtab.target.mysql.change import Catalogue
from trimtab.target.mysql.foreign import Picture, differences, take_picture
from trimtab.target.mysql.forensics import Forensics
from trimtab.target.mysql.reach import Reach
from trimtab.target.mysql.values import option_text
from trimtab.target.mysql.withdraw import withdraw
from trimtab.target.sentry import ServerSentry

__all__ = ["Sentry"]


class Sentry(ServerSentry[Picture, tuple[Value, Value], Forensics]):
    """See `ServerSentry`; of a value of ours it keeps what we asked for and what the server made of it.

    Args:
        reach: the way to the server.
        catalogue: how to read its variables; asked for when it is needed, since it depends on the server.
    """

    def __init__(self, reach: Reach, catalogue: Callable[[], Catalogue]) -> None:
        super().__init__(Forensics(reach))
        self._reach = reach
        self._catalogue = catalogue

    def _look(self) -> Picture:
        catalogue = self._catalogue()
        return take_picture(self._reach, catalogue.read, catalogue.ours)

    def _differences(self, left: Picture, now: Picture) -> Iterable[Disturbance]:
        return differences(left, now)

    def _text(self, own: tuple[Value, Value]) -> str:
        return option_text(own[0])

    def _asked(self, config: Config, states: Mapping[str, KnobState]) -> Mapping[str, tuple[Value, Value]]:
        return {name: (value, value) for name, value in config.items()}

    def _made(self, config: Config, effective: Mapping[str, Value]) -> dict[str, tuple[Value, Value]]:
        return {name: (value, effective.get(name, value)) for name, value in config.items()}

    def _take_back(self, snapshot: Snapshot, left: Picture, now: Picture) -> Withdrawal:
        is_file_ours = bool(now.ours) and left.files.get(now.ours) == now.files.get(now.ours)
        return withdraw(self._reach, self._catalogue().read, snapshot, dict(self._ours), is_file_ours=is_file_ours)
