"""Daemon: a mariadbd or mysqld process of our own: start, find again, stop, and its log."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import Folder
from trimtab.records import Endpoint
from trimtab.systems.account import Account
from trimtab.systems.mysql.recovery import Recovery
from trimtab.systems.mysql.session import connect
from trimtab.systems.process import ServerProcess

__all__ = ["Daemon"]

_PID_FILE_BYTES = 32
_STOP_S = 60.0
_KILL_S = 15.0


class Daemon(ServerProcess):
    """One server that reads one option file.

    Attributes:
        log: the file its log goes to.
    """

    def __init__(self, program: Path, option_file: Path, pid_file: Path, account: Account, log: Path) -> None:
        super().__init__(account, log, owns_log=True)
        self._program = program
        self._option_file = option_file
        self._pid_file = pid_file

    @property
    def argv(self) -> tuple[str, ...]:
        """The command that starts it; no further option may stand before the file's."""
        return (str(self._program), f"--defaults-file={self._option_file}")

    def _recorded_pid(self) -> int | None:
        try:
            with Folder.open(self._pid_file.parent) as folder:
                copy = folder.read(self._pid_file.name, most_bytes=_PID_FILE_BYTES)
            return int(copy.content) if copy is not None else None
        except (OSError, ValueError):
            return None

    def _is_ours(self, pid: int) -> bool:
        """Only a server with this very option file."""
        try:
            return os.fsencode(self.argv[1]) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False

    def start(self, endpoint: Endpoint, timeout_s: float, *, extra: Sequence[str] = (),
              on_spawn: Callable[[int], None] | None = None) -> None:  # fmt: skip
        """Starts the server and waits until a login works.

        A server whose log shows that its crash recovery gets on is waited for, up to `recovery.MOST_S`.

        Args:
            endpoint: where the login is tried.
            timeout_s: without progress.
            extra: further options, which win over the file's.
            on_spawn: gets the pid before the server has allocated.

        Raises:
            TargetError: it ended again, or made no progress for `timeout_s` (it is then stopped); see `excerpt`.
        """
        self._spawn([*self.argv, *extra], self._option_file.parent, on_spawn)
        recovery = Recovery(self.log, self._log_start, timeout_s)
        while self._child is not None and self._child.poll() is None:
            if _answers(endpoint):
                return
            if recovery.has_stalled():
                self.stop(immediate=True)
                raise TargetError(recovery.trouble(), hint=f"see {self.log}")
            time.sleep(self.POLL_S)
        raise TargetError(f"the server did not start: exit_code={self.exit_code}", hint=f"see {self.log}")

    def stop(self, *, immediate: bool) -> None:
        """Stops the server, if it runs: in order, and by force (with crash recovery at the next start) if `immediate`.

        Raises:
            TargetError: it does not stop.
        """
        pid = self.pid
        if pid is None:
            return
        steps = [(signal.SIGTERM, _STOP_S), *([(signal.SIGKILL, _KILL_S)] if immediate else [])]
        if self._end(pid, steps):
            return
        raise TargetError(
            f"the server does not stop: pid={pid}",
            hint="look at what it does (SHOW PROCESSLIST); immediate_stop = true lets it be killed, to recover at the next start",
        )


def _answers(endpoint: Endpoint) -> bool:
    try:
        with connect(endpoint) as session:
            session.rows("SELECT 1")
    except TargetError:
        return False
    return True
