"""Rescue: a database server that is down, hangs, or lets nobody in is brought back without what is ours in its files.

In this order, each step once: ours out of the files → a process that somebody has stopped is let go on → the files are read
again → restart, or start → start with our knobs as found on the command line, which beats every file. What fails after that is
for people: the error says how.
"""

from __future__ import annotations

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar, Generic, TypeVar

from trimtab.errors import TargetError
from trimtab.host import process_state
from trimtab.space import Value
from trimtab.systems.base import Own, Restarts, Snapshot
from trimtab.systems.process import await_end
from trimtab.systems.reach import DatabaseReach
from trimtab.systems.session import FullError, LoginRefusedError
from trimtab.systems.undo import LeftDownError

__all__ = ["Rescue", "UnwritableError"]

_GONE_S = 1.0
"""Without a process of the server: between the stop and the start of a restart there is none for a moment."""
_POLL_S = 0.05


class UnwritableError(TargetError):
    """This user cannot write the server's own file."""


R = TypeVar("R", bound=DatabaseReach)


class Rescue(ABC, Generic[R]):
    """The way back of one server, as far as it leads to one that runs without ours.

    Args:
        reach: the way to it.

    Attributes:
        WAKE_S: how long an answer may take once its processes go on, or have read their files.
        FULL_S: how long a server is waited for whose connections, or those of our user, are all in use.
        PAUSES_S: before each attempt to restart or start it.
        LETS_REFUSE: whether one that refuses our login is well once a restart has read files without ours.
    """

    WAKE_S: ClassVar[float] = 3.0
    FULL_S: ClassVar[float] = 0.0
    PAUSES_S: ClassVar[Sequence[float]] = (0.0,)
    LETS_REFUSE: ClassVar[bool] = False

    def __init__(self, reach: R) -> None:
        self._reach = reach

    @abstractmethod
    def _files_back(self, snapshot: Snapshot, own: Own) -> bool:
        """Takes ours out of the files; whether one had to be written.

        Raises:
            UnwritableError: this user cannot.
            TargetError: the snapshot is another server's, or somebody else has made a file unreadable.
        """

    def _files_back_by_server(self, snapshot: Snapshot, own: Own) -> bool:
        """The same by the server itself, where a login works; whether it was done."""
        return False

    @abstractmethod
    def _changed_since(self, snapshot: Snapshot, own: Own) -> str:
        """What somebody else has written since we left it, with its verb, for people; "" when nothing."""

    @abstractmethod
    def _was_stopped(self, was_up: bool) -> bool:
        """Whether the server is down by somebody's will: one that died leaves its pid file behind."""

    @abstractmethod
    def _text(self, value: Value) -> str:
        """As its command line takes it."""

    def _pids(self) -> Sequence[int] | None:
        """Processes of the server on this machine; None where they cannot be seen."""
        return None if self._reach.pid is None else (self._reach.pid,)

    def _before_start(self, snapshot: Snapshot) -> None:
        """Takes away what would keep it from starting."""

    def _by_hand_started(self, snapshot: Snapshot, own: Own, first: TargetError) -> None:
        """It runs with the values as found on its command line, because of `first`."""

    def bring_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> bool:
        """Ours out of the files, and a server that has read them and lets us in; whether it was restarted or started.

        Raises:
            LeftDownError: it is down and was not started.
            LoginRefusedError: it runs and does not let this user in.
            TargetError: it cannot be done.
        """
        was_up = self._reach.is_up()
        try:
            changed = self._files_back(snapshot, own)
        except UnwritableError as error:
            if not was_up or not self._files_back_by_server(snapshot, own):
                if self._reach.no_restart:
                    raise
                restarts()
                self._last_resort(snapshot, own, error)
                return True
            changed = True
        if own.is_whole and self._was_stopped(was_up) and (what := self._changed_since(snapshot, own)):
            raise LeftDownError(
                f"the server is down, and {what} changed by somebody else since",
                hint="start it when that change is ready",
            )
        if was_up and self._is_well(own, changed):
            return False
        return self._up(snapshot, own, restarts)

    def _is_well(self, own: Own, changed: bool) -> bool:
        """Whether it answers; `changed`: whether its files were. A process that stands is let go on.

        Raises:
            LoginRefusedError: it does not let us in, and no restart would change that.
        """
        return self._answers(own, changed) or (self._wake() and self._answers_within(self.WAKE_S))

    def _answers(self, own: Own, changed: bool) -> bool:
        return self._answers_within(0.0)

    def _answers_within(self, timeout_s: float) -> bool:
        """Whether a login and a query work in time. One that was stopping and is gone for good is not waited for any longer.

        Raises:
            LoginRefusedError: it does not let us in, where that is no matter of its files.
        """
        began = seen_at = time.monotonic()
        while True:
            wait_s = timeout_s
            refused: FullError | None = None
            try:
                self._reach.health()
                return True
            except FullError as error:
                wait_s = max(timeout_s, self.FULL_S)  # the connections of a load end a moment after it
                refused = error if isinstance(error, LoginRefusedError) and not self.LETS_REFUSE else None
            except LoginRefusedError:
                if not self.LETS_REFUSE:
                    raise
            except TargetError:
                pass
            pids, now = self._pids(), time.monotonic()
            if pids is None or pids:
                seen_at = now
            if now >= began + wait_s or now > seen_at + _GONE_S:
                if refused is not None:
                    raise refused
                return False
            time.sleep(_POLL_S)

    def _wake(self) -> bool:
        """Lets processes go on that somebody has stopped (SIGSTOP): no shutdown would end; whether there were any."""
        stopped = [pid for pid in self._pids() or () if process_state(pid) in ("T", "t")]
        for pid in stopped:
            with suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        return bool(stopped)

    def _up(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> bool:
        """Restarts or starts it, by its command line at last; whether that was done.

        Raises:
            TargetError: it does not serve, and this study may not restart it: what is started by hand could not be handed back.
        """
        reach, first = self._reach, None
        if reach.no_restart:
            reach.ensure_up()
            reach.health()
            return False
        restarts()
        for pause_s in (*self.PAUSES_S, *reach.later_s):
            time.sleep(pause_s)
            try:
                await_end(lambda: reach.pid)
                if reach.is_up():
                    reach.restart()
                else:
                    self._before_start(snapshot)
                    reach.ensure_up()
                return True
            except LoginRefusedError:
                if not self.LETS_REFUSE:
                    raise
                return True
            except TargetError as error:
                first = first or error
        if first is not None:
            self._last_resort(snapshot, own, first)
        return True

    def _last_resort(self, snapshot: Snapshot, own: Own, first: TargetError) -> None:
        """One start with our knobs as found on the command line.

        Raises:
            TargetError: the first trouble, when that does not help either.
        """
        found = {name: self._text(snapshot.values[name]) for name in sorted(own.texts) if name in snapshot.values}
        try:
            self._reach.start_with(found)
            self._by_hand_started(snapshot, own, first)
        except TargetError as error:
            raise TargetError(
                f"{first.message}; and with the values as found on its command line: {error.message}", hint=first.hint
            ) from error
