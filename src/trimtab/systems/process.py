"""ServerProcess: a server that is our own child, or that an earlier Trimtab left: its start, its end and its log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from trimtab.errors import TargetError
from trimtab.host import Folder, is_ending, is_running
from trimtab.systems.account import Account
from trimtab.systems.log import log_bytes, start_log, tail
from trimtab.systems.progress import Progress

__all__ = ["DatabaseProcess", "ServerProcess", "await_end", "pid_file_lines", "pid_file_number"]

_LOG_KEEP_BYTES = 4 << 20
_END_S = 10.0
_END_POLL_S = 0.01
_PID_FILE_BYTES = 4096
_RETRY_S = 30.0
"""How long a start is tried again while the remains of a killed server (zombie, shared memory) are still there."""
_RETRY_FIRST_S = 0.1
_RETRY_MOST_S = 5.0


def pid_file_lines(path: Path) -> list[str]:
    """The lines of a server's pid file; [] when there is none, or it cannot be read."""
    try:
        with Folder.open(path.parent) as folder:
            copy = folder.read(path.name, most_bytes=_PID_FILE_BYTES)
    except OSError:
        return []
    return copy.content.decode(errors="replace").splitlines() if copy is not None else []


def pid_file_number(path: Path) -> int | None:
    """What a pid file calls the server's process; None when it says nothing."""
    line = next(iter(pid_file_lines(path)), "").strip()
    return int(line) if line.isdigit() else None


def await_end(find_pid: Callable[[], int | None]) -> None:
    """Waits while the process that `find_pid` finds is ending, 10 s at most; returns at once when it lives, or is gone."""
    until = time.monotonic() + _END_S
    while (pid := find_pid()) is not None and is_ending(pid) and time.monotonic() < until:
        time.sleep(_END_POLL_S)


def _not_run(program: str, folder: Path, error: OSError) -> TargetError:
    if not folder.is_dir():
        text = f"cannot run command={program!r}: there is no folder={str(folder)!r}"
        return TargetError(text, hint="give the folder in which it is to run")
    return TargetError(
        f"cannot run command={program!r}: {error.strerror}",
        hint="give the path of an installed program; its PATH is /usr/bin:/bin",
    )


class ServerProcess(ABC):
    """One server; a kind of server says how it is found, started and stopped.

    Args:
        account: the user that it runs as.
        log: the file its log goes to.
        owns_log: whether that file is ours alone: it is emptied when it grows too long. A log of the user's never is.

    Attributes:
        log: the same.
        POLL_S: how often its state is looked at.
        STOP, STOP_S: the signal that ends it in order, and the seconds that this may take.
        FORCE: signals after that, each with its seconds.
        LET_STOP: what a person can do where it may not be stopped by force.
        NOUN: what messages call it.
    """

    POLL_S = 0.01
    STOP: ClassVar[int] = signal.SIGTERM
    STOP_S: float = 60.0
    FORCE: ClassVar[Sequence[tuple[int, float]]] = ((signal.SIGKILL, 15.0),)
    LET_STOP = "stop it by hand"
    NOUN = "server"

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

    def stop(self, *, immediate: bool) -> None:
        """Stops it, if it runs: in order, and by force when that takes too long and only if `immediate`.

        Raises:
            TargetError: it does not stop.
        """
        pid, steps = self.pid, [(self.STOP, self.STOP_S), *(self.FORCE if immediate else ())]
        if pid is None or self._end(pid, steps):
            return
        if not immediate:
            text = f"the {self.NOUN} does not stop within timeout_s={self.STOP_S:g}: pid={pid}"
            raise TargetError(text, hint=self.LET_STOP)
        raise TargetError(f"the {self.NOUN} does not stop: pid={pid}", hint="look at the process and its disk by hand")

    def _spawn(self, argv: Sequence[str], folder: Path, on_spawn: Callable[[int], None] | None) -> None:
        """Starts `argv` in `folder` with its log beside; `on_spawn` gets the pid before the server has allocated.

        Raises:
            TargetError: its log cannot be written, or the command cannot be run.
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
            try:
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
            except OSError as error:
                raise _not_run(argv[0], folder, error) from error
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


class DatabaseProcess(ServerProcess):
    """A database server: it recovers at its start, and what a killed one leaves behind is waited out.

    Args:
        account: the user that it runs as.
        log: the file its log goes to.
        folder: where it is started.
        pid_file: that it writes.
        owns_log: whether the log is ours alone.
        may_force: whether one that does not get up may be stopped by force.

    Attributes:
        REMAINS: words of its log while the remains of a killed one are in its way.
    """

    REMAINS: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        account: Account,
        log: Path,
        folder: Path,
        pid_file: Path,
        *,
        owns_log: bool = True,
        may_force: bool = True,
    ) -> None:
        super().__init__(account, log, owns_log=owns_log)
        self._pid_file = pid_file
        self._folder = folder
        self._may_force = may_force

    def _recorded_pid(self) -> int | None:
        return pid_file_number(self._pid_file)

    @abstractmethod
    def _argv(self, overrides: Mapping[str, str]) -> Sequence[str]:
        """The command that starts it, with settings that win over every file."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it accepts connections."""

    @abstractmethod
    def _recovery(self, timeout_s: float) -> Progress:
        """Of the start that has just begun."""

    def _clear_remains(self) -> None:
        """Takes away what no process holds any more."""

    def start(
        self,
        timeout_s: float,
        on_spawn: Callable[[int], None] | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        """Starts the server and waits until it accepts connections; one that recovers is waited for as long as it gets on.

        Args:
            timeout_s: without a sign of life.
            on_spawn: gets the pid before the server has allocated.
            overrides: settings on the command line, which win over every file.

        Raises:
            TargetError: it ended again, or stood still for `timeout_s` (it is then stopped); see `excerpt`.
        """
        retry_until, pause_s = time.monotonic() + _RETRY_S, _RETRY_FIRST_S
        while True:
            self._spawn(self._argv(overrides or {}), self._folder, on_spawn)
            if self._wait_ready(self._recovery(timeout_s)):
                return
            if not any(mark in self.excerpt(20) for mark in self.REMAINS) or time.monotonic() > retry_until:
                raise TargetError(f"the server did not start: exit_code={self.exit_code}", hint=f"see {self.log}")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _RETRY_MOST_S)
            if pause_s == _RETRY_MOST_S:
                self._clear_remains()

    def _wait_ready(self, recovery: Progress) -> bool:
        """Whether it accepts connections, before it ends.

        Raises:
            TargetError: it stood still.
        """
        while self._child is not None and self._child.poll() is None:
            if self._is_ready():
                return True
            if recovery.has_stalled():
                self.stop(immediate=self._may_force)
                raise TargetError(recovery.trouble(), hint=f"see {self.log}")
            time.sleep(self.POLL_S)
        return False
