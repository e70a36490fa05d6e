"""CommandLifecycle: a program that the user's own commands start and stop."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import is_ending, is_running, is_this_machine
from trimtab.systems.account import Account, owner_of
from trimtab.systems.command_lifecycle import AlwaysThere
from trimtab.systems.command_settings import CommandSettings
from trimtab.systems.left_alone import STILL_S, failed_alone, left_alone
from trimtab.systems.log import log_bytes
from trimtab.systems.overlay import LogWords
from trimtab.systems.own_port import OwnPort
from trimtab.systems.pid_file import PidFile
from trimtab.systems.placeholder import filled
from trimtab.systems.start_limit import later_s
from trimtab.systems.unit_journal import UnitJournal

__all__ = ["CommandLifecycle"]

_POLL_S = 0.02
_ABSENT_S = 30.0
"""How long neither a process nor a new line of its log may show, once a restart has worked."""
_TIMES_AWAY = 3
"""At least so many times as long as the longest restart that worked."""


class CommandLifecycle(AlwaysThere):
    """One that runs already, or is started by commands; `pid_file` shows its process."""

    def __init__(self, name: str, settings: CommandSettings, paths: Sequence[Path], words: LogWords) -> None:
        super().__init__(name, settings, paths, words)
        self._file = PidFile(settings.pid_file or "", settings.process)
        command = filled(settings.restart or settings.start or "", settings.names)
        self._journal = UnitJournal(self.host, shlex.split(command))
        self._last_pid: int | None = None
        self._has_restarted = False
        self._away_s = 0.0
        self._seen: tuple[float, int] = (0.0, 0)

    @cached_property
    def is_here(self) -> bool:
        """Where its pid file names a process that is this program; else by its address."""
        return self.pid is not None or is_this_machine(self.endpoint().host)

    @property
    def runs(self) -> bool:
        return True

    @property
    def no_restart(self) -> str:
        s = self.settings
        return "" if s.restart is not None or s.start is not None else super().no_restart

    @property
    def later_s(self) -> Sequence[float]:  # type: ignore[override]
        return later_s(self.settings.restart or self.settings.start or "")

    @property
    def account(self) -> Account | None:  # type: ignore[override]
        return owner_of(self._file.path)

    def know(self, run: str) -> None:
        self._file.know(run)

    @property
    def pid(self) -> int | None:
        """The process that the pid file names, when it is this program; one that is ending counts until it has ended."""
        found = self._file.pid
        if found is not None and not self._file.stranger(found):
            self._last_pid = found
        elif self._last_pid is not None and not is_ending(self._last_pid):
            self._last_pid = None
        return self._last_pid

    def open(self) -> None:
        pid = self._file.pid
        why = self._file.stranger(pid) if pid is not None else ""
        if why:
            raise TargetError(
                f"pid_file={str(self._file.path)!r} names pid={pid}, which is another process: {why}",
                hint="give the program's own pid file, and its process name",
            )
        super().open()
        self._require_log()
        self._port.learn(self.pid)

    def health(self) -> None:
        super().health()
        self._port.require(self.pid)

    @cached_property
    def _port(self) -> OwnPort:
        return OwnPort(self.filled(self.settings.health or ""))

    def said_at_start(self, n_lines: int) -> str:
        """See `JournalledReach`."""
        return self._journal.said(n_lines) if self._journal.is_marked and not self.is_up() else ""

    def log_excerpt(self, n_lines: int) -> str:
        """As any, with what its unit's journal has of a start that failed."""
        return "\n".join(filter(None, (super().log_excerpt(n_lines), self.said_at_start(n_lines))))

    def _require_log(self) -> None:
        """That the log can be seen in which it says that it has read its files again.

        Raises:
            TargetError: it cannot.
        """
        log = self.log_file
        if self._words.ready and self.settings.reload is not None and log is not None and not os.path.isfile(log):
            raise TargetError(
                f"log_file={str(log)!r} cannot be seen: the program would say there that a reload is over",
                hint="give the program's own log: log_file in the target's table",
            )

    def is_up(self) -> bool:
        pid = self.pid
        return pid is not None and is_running(pid)

    def _down(self) -> TargetError:
        path = self._file.path
        what = "names no process that runs" if os.path.exists(path) else "is not there"
        return TargetError(
            f"the program is down: pid_file={str(path)!r} {what}",
            hint="start it, or see its log; if it runs, give pid_file: the file that it writes its process number to",
        )

    def was_stopped(self) -> bool:
        return not self.is_up() and not self._file.path.exists()

    def ensure_up(self) -> None:
        if not self.is_up():
            self._again(is_down=True)

    def restart(self) -> None:
        """Runs `restart`, or `stop` and `start`, and waits until it serves.

        Raises:
            TargetError: a command fails, or it does not serve in time.
            ApplyError: the command has left it as it was; the fault is the environment's.
            NoRestartError: the same, and it has never restarted it.
        """
        self._again(is_down=not self.is_up())

    def _again(self, *, is_down: bool) -> None:
        if self.no_restart:
            super().restart()
        before = self.instance
        self._log_start = log_bytes(self.log_file)
        began = time.monotonic()
        deadline = began + self.settings.restart_timeout_s
        self._journal.mark()
        try:
            self._commanded(deadline, is_down=is_down)
        except TargetError as error:
            if before and self.instance == before:
                raise failed_alone(error, "program", has_restarted=self._has_restarted) from error
            raise
        still_s = time.monotonic() + STILL_S
        self._seen = time.monotonic(), log_bytes(self.log_file)
        self._wait_healthy(deadline)
        while before and self.instance == before:
            if time.monotonic() > still_s:
                text = f"the restart command ended well, but the program was not restarted: it is still pid={self.pid}"
                raise left_alone(text, hint="does it restart another one?", has_restarted=self._has_restarted)
            time.sleep(STILL_S / 10)
            self._wait_healthy(deadline)
        self._has_restarted = True
        self._away_s = max(self._away_s, time.monotonic() - began)

    def _has_ended(self) -> bool:
        """Whether it is certain that it will not serve: nothing of it shows, for longer than a restart that worked has taken. The
        command of a service that dies at once may have ended well, and so may that of one which is started in the background."""
        now, n_bytes = time.monotonic(), log_bytes(self.log_file)
        if self.pid is not None or n_bytes != self._seen[1]:
            self._seen = now, n_bytes
        return self._has_restarted and now - self._seen[0] > max(_ABSENT_S, _TIMES_AWAY * self._away_s)

    def _commanded(self, deadline: float, *, is_down: bool) -> None:
        s = self.settings
        if s.start is not None and s.stop is not None:
            if not is_down:
                self._command("stop", s.stop)
                self._wait_gone(deadline)
            self._command("start", s.start)
        else:
            self._command("restart", s.restart or "")

    def _wait_gone(self, deadline: float) -> None:
        while self.is_up():
            if time.monotonic() > deadline:
                raise TargetError(
                    f"the program is still there after stop={self.settings.stop!r}: pid={self.pid}",
                    hint="the command must end it",
                )
            time.sleep(_POLL_S)
