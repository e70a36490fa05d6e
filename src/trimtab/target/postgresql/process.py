"""Postmaster: a PostgreSQL server process of our own: start, find again, stop, and its log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.target.postgresql.install import Account

__all__ = ["Postmaster", "is_running", "tail"]

_POLL_S = 0.005
_RETRY_S = 5.0
"""How long a start is tried again while the remains of a killed server (zombie, shared memory) are still there."""
_STOP_S = 60.0
_KILL_S = 10.0
_LOG_KEEP_BYTES = 4 << 20
_REMAINS = ('lock file "postmaster.pid" already exists', "pre-existing shared memory block")


def is_running(pid: int) -> bool:
    """Whether `pid` lives; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in ("Z", "X")


def tail(path: Path, n_lines: int, start: int = 0) -> str:
    """The last lines of a log file from byte `start` on; "" when it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start if start <= size else 0, size - 64 * 1024))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-n_lines:])


class Postmaster:
    """One server over one data directory.

    Attributes:
        log: the file its log goes to.
    """

    def __init__(self, bin_dir: Path, data_dir: Path, account: Account, log: Path) -> None:
        self._bin_dir = bin_dir
        self._data_dir = data_dir
        self._account = account
        self.log = log
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """The running server's process id, also of one that an earlier Trimtab left behind; None when it is down."""
        if self._child is not None and self._child.poll() is None:
            return self._child.pid
        lines = self._pid_file()
        if lines and lines[0].strip().isdigit():
            pid = int(lines[0])
            if is_running(pid) and self._is_ours(pid):
                return pid
        return None

    def _pid_file(self) -> list[str]:
        try:
            return (self._data_dir / "postmaster.pid").read_text().splitlines()
        except OSError:
            return []

    def _is_ours(self, pid: int) -> bool:
        """The pid file may be old and its pid given to a stranger: only a postgres over this very directory counts."""
        try:
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            cwd = Path(f"/proc/{pid}/cwd").resolve()
        except OSError:
            return False
        return Path(os.fsdecode(argv[0])).name == "postgres" and cwd == self._data_dir.resolve()

    def start(self, timeout_s: float, on_spawn: Callable[[int], None] | None = None) -> None:
        """Starts the server and waits until it accepts connections. `on_spawn` gets the pid before it has allocated.

        Raises:
            TargetError: it ended again, or was not ready within `timeout_s` (it is then stopped); see `excerpt`.
        """
        deadline = time.monotonic() + timeout_s
        retry_until = time.monotonic() + _RETRY_S
        while True:
            self._spawn(on_spawn)
            if self._wait_ready(deadline):
                return
            remains = any(mark in self.excerpt(20) for mark in _REMAINS)
            if not (remains and time.monotonic() < retry_until):
                break
            time.sleep(0.2)
        code = self._child.returncode if self._child is not None else None
        raise TargetError(f"the server did not start: exit_code={code}", hint=f"see {self.log}")

    def _spawn(self, on_spawn: Callable[[int], None] | None) -> None:
        if self.log.exists() and self.log.stat().st_size > _LOG_KEEP_BYTES:
            self.log.write_bytes(b"")
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        switch = not self._account.is_me
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [str(self._bin_dir / "postgres"), "-D", str(self._data_dir)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._data_dir,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
                start_new_session=True,  # Ctrl-C is for the tuner, which then stops the server in order
                user=self._account.uid if switch else None,
                group=self._account.gid if switch else None,
                extra_groups=[] if switch else None,
            )
        if on_spawn is not None:
            on_spawn(self._child.pid)

    def _wait_ready(self, deadline: float) -> bool:
        child = self._child
        while child is not None and child.poll() is None:
            lines = self._pid_file()
            if len(lines) >= 8 and lines[0].strip() == str(child.pid) and lines[7].strip() == "ready":
                return True
            if time.monotonic() > deadline:
                self.stop()
                return False
            time.sleep(_POLL_S)
        return False

    def stop(self) -> None:
        """Stops the server, if it runs: fast, then at once (with crash recovery at the next start), then by force.

        Raises:
            TargetError: it does not even die by SIGKILL.
        """
        pid = self.pid
        if pid is None:
            return
        for number, patience_s in ((signal.SIGINT, _STOP_S), (signal.SIGQUIT, _KILL_S), (signal.SIGKILL, _KILL_S)):
            try:
                os.kill(pid, signal.SIGCONT)  # a stopped process would not see the next signal
                os.kill(pid, number)
            except ProcessLookupError:
                return
            if self._wait_gone(pid, patience_s):
                return
        raise TargetError(f"the server does not stop: pid={pid}", hint="look at the process and its disk by hand")

    def _wait_gone(self, pid: int, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if self._child is not None and self._child.pid == pid:
                if self._child.poll() is not None:
                    return True
            elif not is_running(pid):
                return True
            time.sleep(_POLL_S)
        return False

    def excerpt(self, n_lines: int) -> str:
        """The last lines of the log since the last start."""
        return tail(self.log, n_lines, self._log_start)
