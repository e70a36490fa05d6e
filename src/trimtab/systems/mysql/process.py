"""Daemon: a mariadbd or mysqld process of our own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.systems.account import Account
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.process import DatabaseProcess
from trimtab.systems.progress import LogProgress
from trimtab.systems.session import Session, require_answer

__all__ = ["Daemon"]


class Daemon(DatabaseProcess):
    """One server that reads one option file.

    Args:
        connect: makes a fresh connection to it.
    """

    LET_STOP = (
        "look at what it does (SHOW PROCESSLIST); immediate_stop = true lets it be killed, to recover at the next start"
    )

    def __init__(
        self,
        program: Path,
        option_file: Path,
        pid_file: Path,
        account: Account,
        log: Path,
        connect: Callable[[], Session],
    ) -> None:
        super().__init__(account, log, option_file.parent, pid_file)
        self.argv = (str(program), f"--defaults-file={option_file}")  # no further option may stand before the file's
        self._connect = connect

    def _is_ours(self, pid: int) -> bool:
        """Only a server with this very option file."""
        try:
            return os.fsencode(self.argv[1]) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False

    def _argv(self, overrides: Mapping[str, str]) -> Sequence[str]:
        return [*self.argv, *(f"--{name.replace('_', '-')}={text}" for name, text in overrides.items())]

    def _is_ready(self) -> bool:
        try:
            require_answer(self._connect)
        except TargetError:
            return False
        return True

    def _recovery(self, timeout_s: float) -> LogProgress:
        return LogProgress(self.log, self._log_start, CATALOG.log, timeout_s)
