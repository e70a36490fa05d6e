"""ServerSentry: keeps what we left of a server, and tells what failed and what somebody else did; see `ForensicTarget`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic, Protocol, Self, TypeVar

from trimtab.errors import TargetError
from trimtab.space import Config, Value
from trimtab.target.base import KnobState, Snapshot
from trimtab.target.evidence import ServerForensics
from trimtab.target.forensic import Disturbance, Evidence, Withdrawal

__all__ = ["ServerSentry"]


class _Picture(Protocol):
    """A server as it was left."""

    def after_own_change(self, before: Self | None) -> Self:
        """This picture, taken after a change of our own: what we do not change must be as it was `before` it."""

    def is_same_server(self, other: Self) -> bool:
        """Whether both are of one server in one role."""


P = TypeVar("P", bound=_Picture)
V = TypeVar("V")
F = TypeVar("F", bound=ServerForensics[Any])


class ServerSentry(ABC, Generic[P, V, F]):
    """Watches one server between our own changes; a kind of server says how it is looked at and taken back.

    P is a picture of it, V what is kept of a value of ours, F gathers its evidence.

    Args:
        forensics: of the server.
    """

    def __init__(self, forensics: F) -> None:
        self._forensics = forensics
        self._left: P | None = None
        self._ours: dict[str, V] = {}
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

    @abstractmethod
    def _asked(self, config: Config, states: Mapping[str, KnobState]) -> Mapping[str, V]:
        """What is kept of `config` before it is set."""

    @abstractmethod
    def _made(self, config: Config, effective: Mapping[str, Value]) -> dict[str, V]:
        """What is kept of `config` once it is set; `effective` is what the server made of it."""

    @abstractmethod
    def _text(self, own: V) -> str:
        """A value of ours as it was asked for."""

    @abstractmethod
    def _take_back(self, snapshot: Snapshot, left: P, now: P) -> Withdrawal:
        """Takes back `_ours`; never raises."""

    def begin(self) -> None:
        """The server is as found: everything counts from here.

        Raises:
            TargetError: it does not answer.
        """
        self._left, self._ours, self._failure = self._look(), {}, None
        self._is_changing = False
        self._forensics.mark()

    def changing(self, config: Config, states: Mapping[str, KnobState]) -> None:
        """Our own change begins: evidence counts from here, and these values will be ours even if it dies half way."""
        self._forensics.mark()
        self._failure = None
        self._is_changing = True
        self._ours |= self._asked(config, states)

    def changed(self, config: Config, effective: Mapping[str, Value]) -> None:
        """Our own change is made, and `config` is all of it.

        Raises:
            TargetError: the server does not answer.
        """
        self._ours = self._made(config, effective)
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
        found = tuple(self._differences(self._left, now)) if self._left is not None and is_told else ()
        if not any(disturbance.stops for disturbance in found):
            self._left = now
        return found

    def withdraw(self, snapshot: Snapshot) -> Withdrawal:
        """Takes back what is ours, if this is still the server that we changed."""
        left = self._left
        try:
            now = self._look()
        except TargetError as error:
            return self._untouched(error.message)
        if left is None or not left.is_same_server(now):
            return self._untouched("not touched, because it is not known to be the server that was tuned")
        done = self._take_back(snapshot, left, now)
        if not done.left:
            self._ours = {}
        return done

    def _untouched(self, why: str) -> Withdrawal:
        return Withdrawal(left=tuple(f"{name}={self._text(own)}: {why}" for name, own in self._ours.items()))
