"""ServerChannel and ServerChange: what the channels of all kinds of database server do in the same way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic

from trimtab.space import Config, Value
from trimtab.systems.base import Snapshot
from trimtab.systems.files import saved_files
from trimtab.systems.knobs import Reading
from trimtab.systems.rescue import R
from trimtab.systems.server_undo import ServerUndo

__all__ = ["ServerChange", "ServerChannel"]


class ServerChannel(ServerUndo[R]):
    """See `Channel`.

    Attributes:
        FILE: what messages call its file.
        NO_LINK: what to do about one that is a link.
    """

    FILE = "file"
    NO_LINK = ""

    @property
    @abstractmethod
    def files(self) -> Sequence[Path]:
        """Those that it writes to."""

    @abstractmethod
    def _saved(self, session: Any, *, can_restart: bool) -> tuple[Mapping[str, Value], Mapping[str, Any]]:
        """Values by knob, and what else the way back needs.

        Raises:
            TargetError: changes that the server does not use yet could not be kept apart from ours.
        """

    def saved(
        self, *, can_restart: bool
    ) -> tuple[Mapping[str, Mapping[str, Any]], Mapping[str, Value], Mapping[str, Any]]:
        """The files, the values, and what else the way back needs."""
        with self._reach.connect() as session:
            values, more = self._saved(session, can_restart=can_restart)
        return saved_files(self._reach.host, self.files, called=self.FILE, hint=self.NO_LINK), values, more


class ServerChange(Generic[R]):
    """See `Change`.

    Args:
        reach: the way to the server.
        config: that is to be set.
        base: over this.
    """

    def __init__(self, reach: R, config: Config, base: Snapshot) -> None:
        self._reach = reach
        self._config = config
        self._base = base
        self._now: Mapping[str, Reading] = {}

    def effective(self) -> Mapping[str, Value]:
        """The values in use of the knobs that were set."""
        return {name: self._now[name].value for name in self._config if name in self._now}
