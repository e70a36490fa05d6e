"""ServerSentry: keeps what we left of a server, and tells what failed and what somebody else did; see `ForensicTarget`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Generic, Protocol, Self, TypeVar

from trimtab.errors import TargetError
from trimtab.systems.base import Own
from trimtab.systems.evidence import ServerForensics
from trimtab.systems.forensic import Disturbance, Evidence

__all__ = ["ServerSentry"]


class _Picture(Protocol):
    """A server as it was left."""

    def after_own_change(self, before: Self | None) -> Self:
        """This picture, taken after a change of our own: what we do not change must be as it was `before` it."""

    def kept(self) -> Mapping[str, Any]:
        """What the journal keeps of it, as JSON: which server it is, and the digests of its files."""


P = TypeVar("P", bound=_Picture)
F = TypeVar("F", bound=ServerForensics[Any])


class ServerSentry(ABC, Generic[P, F]):
    """Watches one server between our own changes; a kind of server says how it is looked at.

    P is a picture of it, F gathers its evidence.

    Args:
        forensics: of the server.

    Attributes:
        own: what is ours on the server.
    """

    def __init__(self, forensics: F) -> None:
        self._forensics = forensics
        self._left: P | None = None
        self.own = Own()
        self._failure: Evidence | None = None
        self._is_changing = False

    @abstractmethod
    def _look(self) -> P:
        """The server as it is now.

        Raises:
            TargetError: it does not answer.
        """

    @abstractmethod
    def _differences(self, left: P, now: P) -> Iterable[Disturbance]:
        """What somebody else has done between the two; the most serious first."""

    def begin(self) -> Mapping[str, Any]:
        """The server is as found: everything counts from here; what is kept of the picture of it.

        Raises:
            TargetError: it does not answer.
        """
        self._left, self.own, self._failure = self._look(), Own(), None
        self._is_changing = False
        self._forensics.mark()
        return self._left.kept()

    def changing(self, own: Own) -> None:
        """Our own change begins: evidence counts from here, and this will be ours even if the change dies half way."""
        self._forensics.mark()
        self._failure = None
        self._is_changing = True
        self.own = own.over(self.own)

    def changed(self, own: Own) -> Own:
        """Our own change is made, and `own` is all of it; the same with the picture of just after.

        Raises:
            TargetError: the server does not answer.
        """
        self._forensics.mark()
        self._left = self._look().after_own_change(self._left)
        self.own = replace(own, picture=self._left.kept(), is_whole=True)
        self._is_changing = False
        return self.own

    def restored(self) -> None:
        """Nothing is ours any more; a picture that cannot be taken now (no login) waits for the next change."""
        self.own = Own()
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
        found = tuple(self._differences(self._left, now)) if self._left is not None and is_told else ()
        if not any(disturbance.stops for disturbance in found):
            self._left = now
        return found
