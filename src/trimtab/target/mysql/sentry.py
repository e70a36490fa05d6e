"""Sentry: keeps what we left of a server, and tells what failed and what somebody else did; see `ForensicTarget`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trimtab.errors import TargetError
from trimtab.space import Config, Value
from trimtab.target.base import Snapshot
from trimtab.target.forensic import Disturbance, Evidence, Withdrawal
from trimtab.target.mysql.change import Catalogue
from trimtab.target.mysql.foreign import Picture, differences, take_picture
from trimtab.target.mysql.forensics import Forensics
from trimtab.target.mysql.reach import Reach
from trimtab.target.mysql.values import option_text
from trimtab.target.mysql.withdraw import withdraw

__all__ = ["Sentry"]


class Sentry:
    """Watches one server between our own changes.

    Args:
        reach: the way to it.
        catalogue: how to read its variables; asked for when it is needed, since it depends on the server.
    """

    def __init__(self, reach: Reach, catalogue: Callable[[], Catalogue]) -> None:
        self._reach = reach
        self._catalogue = catalogue
        self._forensics = Forensics(reach)
        self._left: Picture | None = None
        self._ours: dict[str, tuple[Value, Value]] = {}
        self._failure: Evidence | None = None
        self._is_changing = False

    def _look(self) -> Picture:
        catalogue = self._catalogue()
        return take_picture(self._reach, catalogue.read, catalogue.ours)

    def begin(self) -> None:
        """The server is as found: everything counts from here.

        Raises:
            TargetError: it does not answer.
        """
        self._left, self._ours, self._failure = self._look(), {}, None
        self._is_changing = False
        self._forensics.mark()

    def changing(self, config: Config) -> None:
        """Our own change begins: evidence counts from here, and these values will be ours even if it dies half way."""
        self._forensics.mark()
        self._failure = None
        self._is_changing = True
        self._ours |= {name: (value, value) for name, value in config.items()}

    def changed(self, config: Config, effective: Mapping[str, Value]) -> None:
        """Our own change is made, and `config` is all of it.

        Raises:
            TargetError: the server does not answer.
        """
        self._ours = {name: (value, effective.get(name, value)) for name, value in config.items()}
        self._forensics.mark()
        self._left = self._look().after_own_change(self._left)
        self._is_changing = False

    def restored(self) -> None:
        """The server is as found again; a picture that cannot be taken now (no login) waits for the next change."""
        self._ours = {}
        self._is_changing = False
        self._forensics.mark()
        try:
            self._left = self._look().after_own_change(self._left)
        except TargetError:
            self._left = None

    def failed(self) -> None:
        """Our own change failed: what can be seen now is kept, since the rescue will cover it."""
        self._failure = self._forensics.gather(was_restarting=True)

    def evidence(self) -> Evidence:
        """Of the last failure."""
        found, self._failure = self._failure, None
        return found if found is not None else self._forensics.gather()

    def disturbances(self) -> tuple[Disturbance, ...]:
        """What somebody else did since the last look.

        Raises:
            TargetError: the server does not answer.
        """
        now = self._look()
        is_told = self._left is not None and not self._is_changing  # half way, our own change looks like somebody's
        found = tuple(differences(self._left, now)) if self._left is not None and is_told else ()
        if not any(disturbance.stops for disturbance in found):
            self._left = now
        return found

    def withdraw(self, snapshot: Snapshot) -> Withdrawal:
        """Takes back what is ours, if this is still the server that we changed."""
        ours, left = dict(self._ours), self._left
        try:
            now = self._look()
        except TargetError as error:
            return _untouched(ours, error.message)
        if left is None or not left.is_same_server(now):
            return _untouched(ours, "not touched, because it is not known to be the server that was tuned")
        is_file_ours = bool(now.ours) and left.files.get(now.ours) == now.files.get(now.ours)
        done = withdraw(self._reach, self._catalogue().read, snapshot, ours, is_file_ours=is_file_ours)
        if not done.left:
            self._ours = {}
        return done


def _untouched(ours: Mapping[str, tuple[Value, Value]], why: str) -> Withdrawal:
    return Withdrawal(left=tuple(f"{name}={option_text(asked)}: {why}" for name, (asked, _) in ours.items()))
