"""ServerProcess: a server that is our own child, or that an earlier Trimtab left: its start, its end and its log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import is_ending, is_running
from trimtab.systems.account import Account
from trimtab.systems.log import log_bytes, start_log, tail

__all__ = ["ServerProcess", "await_end"]

_LOG_KEEP_BYTES = 4 << 20
_END_S = 10.0
_END_POLL_S = 0.01


def await_end(find_pid: Callable[[], int | None]) -> None:
    """Waits while the process that `find_pid` finds is ending, 10 s at most; returns at once when it lives, or is gone."""
    until = time.monotonic() + _END_S
    while (pid := find_pid()) is not None and is_ending(pid) and time.monotonic() < until:
        time.sleep(_END_POLL_S)


class ServerProcess(ABC):
    """One server; a kind of server says how it is found, started and stopped.

    Args:
        account: the user that it runs as.
        log: the file its log goes to.
        owns_log: whether that file is ours alone: it is emptied when it grows too long. A log of the user's never is.

    Attributes:
        log: the same.
        POLL_S: how often its state is looked at.
    """

    POLL_S = 0.01

    def __init__(self, account: Account, log: Path, *, owns_log: bool) -> None:
        self._account = account
        self.log = log
        self._most_log_bytes = _LOG_KEEP_BYTES if owns_log else None
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """The running server's process id, also of one that an earlier Trimtab left behind; None when it is down."""
        if self._child is not None and self._child.poll() is None:
            return self._child.pid
        pid = self._recorded_pid()
        return pid if pid is not None and is_running(pid) and self._is_ours(pid) else None

    @property
    def exit_code(self) -> int | None:
        """How our child ended, negative a signal; None while it runs, or when it was none of ours."""
        return self._child.poll() if self._child is not None else None

    @abstractmethod
    def _recorded_pid(self) -> int | None:
        """What the server's pid file says; None when it says nothing."""

    @abstractmethod
    def _is_ours(self, pid: int) -> bool:
        """The pid file may be old and its pid given to a stranger: whether the process is this very server."""

    @abstractmethod
    def stop(self, *, immediate: bool) -> None:
        """Stops the server, if it runs; by force, if need be, only when `immediate`.

        Raises:
            TargetError: it does not stop.
        """

    def _spawn(self, argv: Sequence[str], folder: Path, on_spawn: Callable[[int], None] | None) -> None:
        """Starts `argv` in `folder` with its log beside; `on_spawn` gets the pid before the server has allocated.

        Raises:
            TargetError: its log cannot be written.
        """
        try:
            log = self._open_log()
        except OSError as error:
            raise TargetError(
                f"the server's log={str(self.log)!r} cannot be written: {error.strerror}",
                hint="give another log_file, or make it a plain file of the server's user",
            ) from error
        switch = not self._account.is_me
        with os.fdopen(log, "ab"):
            self._log_start = log_bytes(self.log)
            self._child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
                start_new_session=True,  # Ctrl-C is for the tuner, which then stops the server in order
                user=self._account.uid if switch else None,
                group=self._account.gid if switch else None,
                extra_groups=[] if switch else None,
            )
        if on_spawn is not None:
            on_spawn(self._child.pid)

    def _open_log(self) -> int:
        if self.log == Path(os.devnull):
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        return start_log(self.log, self._account, most_bytes=self._most_log_bytes)

    def _end(self, pid: int, steps: Sequence[tuple[int, float]]) -> bool:
        """Sends one signal after the other, each with the seconds to wait for it; whether the process is gone."""
        for number, patience_s in steps:
            try:
                os.kill(pid, signal.SIGCONT)  # a stopped process would not see the next signal
                os.kill(pid, number)
            except ProcessLookupError:
                return True
            if self._wait_gone(pid, patience_s):
                return True
        return False

    def _wait_gone(self, pid: int, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if self._child is not None and self._child.pid == pid:
                if self._child.poll() is not None:
                    return True
            elif not is_running(pid):
                return True
            time.sleep(self.POLL_S)
        return False

    def excerpt(self, n_lines: int) -> str:
        """The last lines of the log since the last start."""
        return tail(self.log, n_lines, self._log_start)
