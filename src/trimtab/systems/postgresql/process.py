"""Postmaster: a PostgreSQL server process of our own."""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from trimtab.host import Folder, process_name, works_in
from trimtab.systems.account import Account
from trimtab.systems.postgresql.recovery import PID_FILE, Recovery, servers_in
from trimtab.systems.process import DatabaseProcess, pid_file_lines

__all__ = ["Postmaster"]

_log = logging.getLogger(__name__)


class Postmaster(DatabaseProcess):
    """One server over one data directory. A pid file is removed only when no process at all works on that.

    Args:
        arguments: of its program, when it needs others than its data directory.
        is_users: whether the server is the user's: its log is never shortened, and it is stopped by force only where
            `may_force` says so.
        may_force: whether one that does not stop may be stopped at once (SIGQUIT, SIGKILL).
    """

    POLL_S = 0.005
    STOP = signal.SIGINT  # sessions are ended; after SIGQUIT the next start replays the log
    FORCE = ((signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0))
    LET_STOP = (
        "some session does not end: end it, or set immediate_stop = true: the server is then stopped at once (SIGQUIT), "
        "and replays its log at the next start"
    )
    REMAINS = ('lock file "postmaster.pid" already exists', "pre-existing shared memory block")

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
        super().__init__(account, log, data_dir, data_dir / PID_FILE, owns_log=not is_users, may_force=may_force)
        self._program = bin_dir / "postgres"
        self._arguments = tuple(arguments)

    def _is_ours(self, pid: int) -> bool:
        """Only a postgres over this very directory."""
        return process_name(pid).startswith("postgres") and works_in(pid, self._folder)

    def _clear_remains(self) -> None:
        """Only after patience, and never while any server process, be it an orphan of a dead one, is in the directory."""
        lines = pid_file_lines(self._pid_file)
        if not lines or servers_in(self._folder):
            return
        _log.warning("pid file of pid=%s removed: no server process works on %s", lines[0].strip(), self._folder)
        with Folder.open(self._folder) as folder:
            folder.remove(PID_FILE)

    def _argv(self, overrides: Mapping[str, str]) -> Sequence[str]:
        words = [word for name, text in overrides.items() for word in ("-c", f"{name}={text}")]
        return [str(self._program), *(self._arguments or ("-D", str(self._folder))), *words]

    def _is_ready(self) -> bool:
        lines = [line.strip() for line in pid_file_lines(self._pid_file)]
        return self._child is not None and lines[:1] == [str(self._child.pid)] and lines[7:8] == ["ready"]

    def _recovery(self, timeout_s: float) -> Recovery:
        return Recovery(self._child.pid if self._child is not None else 0, timeout_s)
