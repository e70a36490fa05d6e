"""Postmaster: a PostgreSQL server process of our own: start, find again, stop, and its log."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import Folder, process_name, works_in
from trimtab.systems.account import Account
from trimtab.systems.postgresql.recovery import Recovery, pid_file_number, servers_in
from trimtab.systems.process import ServerProcess

__all__ = ["Postmaster"]

_PID_FILE_BYTES = 4096
_RETRY_S = 30.0
"""How long a start is tried again while the remains of a killed server (zombie, shared memory) are still there."""
_RETRY_FIRST_S = 0.1
_RETRY_MOST_S = 5.0
_STOP_S = 60.0
_KILL_S = 10.0
_REMAINS = ('lock file "postmaster.pid" already exists', "pre-existing shared memory block")

_log = logging.getLogger(__name__)


class Postmaster(ServerProcess):
    """One server over one data directory.

    Args:
        arguments: of its program, when it needs others than its data directory.
        is_users: whether the server is the user's: its log is never shortened, and it is stopped by force only where
            `may_force` says so.
        may_force: whether one that does not stop may be stopped at once (SIGQUIT, SIGKILL).

    Attributes:
        log: the file its log goes to.
    """

    POLL_S = 0.005

    def __init__(
        self,
        bin_dir: Path,
        data_dir: Path,
        account: Account,
        log: Path,
        arguments: Sequence[str] = (),
        *,
        is_users: bool = False,
        may_force: bool = True,
    ) -> None:
        super().__init__(account, log, owns_log=not is_users)
        self._may_force = may_force
        self._bin_dir = bin_dir
        self._arguments = tuple(arguments)
        self._data_dir = data_dir

    def _recorded_pid(self) -> int | None:
        return pid_file_number(self._data_dir)

    def _pid_file(self) -> list[str]:
        try:
            with Folder.open(self._data_dir) as folder:
                copy = folder.read("postmaster.pid", most_bytes=_PID_FILE_BYTES)
        except OSError:
            return []
        return copy.content.decode(errors="replace").splitlines() if copy is not None else []

    def _is_ours(self, pid: int) -> bool:
        """Only a postgres over this very directory."""
        return process_name(pid).startswith("postgres") and works_in(pid, self._data_dir)

    def start(
        self,
        timeout_s: float,
        on_spawn: Callable[[int], None] | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        """Starts the server and waits until it accepts connections.

        A server that replays its log is waited for as long as it gets on, whatever `timeout_s` is; the remains of a
        killed one are waited out. A pid file is removed only when no process at all works on its data directory.

        Args:
            timeout_s: without a sign of life.
            on_spawn: gets the pid before the server has allocated.
            overrides: settings on the command line, which win over every file.

        Raises:
            TargetError: it ended again, or stood still for `timeout_s` (it is then stopped); see `excerpt`.
        """
        retry_until, pause_s = time.monotonic() + _RETRY_S, _RETRY_FIRST_S
        while True:
            self._spawn(self._argv(overrides or {}), self._data_dir, on_spawn)
            if self._wait_ready(timeout_s):
                return
            if not any(mark in self.excerpt(20) for mark in _REMAINS) or time.monotonic() > retry_until:
                break
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _RETRY_MOST_S)
            if pause_s == _RETRY_MOST_S:
                self._remove_stale_pid_file()
        code = self._child.returncode if self._child is not None else None
        raise TargetError(f"the server did not start: exit_code={code}", hint=f"see {self.log}")

    def _remove_stale_pid_file(self) -> None:
        """Only after patience, and never while any server process, be it an orphan of a dead one, is in the directory."""
        lines = self._pid_file()
        if not lines or servers_in(self._data_dir):
            return
        _log.warning("pid file of pid=%s removed: no server process works on %s", lines[0].strip(), self._data_dir)
        with Folder.open(self._data_dir) as folder:
            folder.remove("postmaster.pid")

    def _argv(self, overrides: Mapping[str, str]) -> list[str]:
        words = [word for name, text in overrides.items() for word in ("-c", f"{name}={text}")]
        return [str(self._bin_dir / "postgres"), *(self._arguments or ("-D", str(self._data_dir))), *words]

    def _wait_ready(self, timeout_s: float) -> bool:
        child = self._child
        if child is None:
            return False
        recovery = Recovery(child.pid, timeout_s)
        while child.poll() is None:
            lines = self._pid_file()
            if len(lines) >= 8 and lines[0].strip() == str(child.pid) and lines[7].strip() == "ready":
                return True
            if recovery.has_stalled():
                self.stop(immediate=self._may_force)
                return False
            time.sleep(self.POLL_S)
        return False

    def stop(self, *, immediate: bool) -> None:
        """Stops the server, if it runs: fast (sessions are ended); when that takes too long, and only if `immediate`,
        at once (with crash recovery at the next start), then by force.

        Raises:
            TargetError: it does not stop.
        """
        pid = self.pid
        if pid is None:
            return
        steps = [(signal.SIGINT, _STOP_S), (signal.SIGQUIT, _KILL_S), (signal.SIGKILL, _KILL_S)]
        if self._end(pid, steps if immediate else steps[:1]):
            return
        if not immediate:
            raise TargetError(
                f"the server does not stop within timeout_s={_STOP_S:g}: pid={pid}, some session does not end",
                hint="end that session, or set immediate_stop = true: the server is then stopped at once (SIGQUIT), "
                "and replays its log at the next start",
            )
        raise TargetError(f"the server does not stop: pid={pid}", hint="look at the process and its disk by hand")
