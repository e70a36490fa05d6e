"""Sentry: what `ServerSentry` keeps of a MySQL or MariaDB server."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trimtab.systems.forensic import Disturbance
from trimtab.systems.mysql.change import Catalogue
from trimtab.systems.mysql.foreign import Picture, differences, take_picture
from trimtab.systems.mysql.forensics import Forensics
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.sentry import ServerSentry

__all__ = ["Sentry"]


class Sentry(ServerSentry[Picture, Forensics]):
    """See `ServerSentry`.

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
