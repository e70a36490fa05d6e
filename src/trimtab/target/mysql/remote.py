"""A running server got at by SQL alone (ConnectionReach), or with an option file and restart command (LocalReach)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError
from trimtab.host import CommandResult, is_running, process_mark
from trimtab.records import Endpoint
from trimtab.target.account import Account, owner_of
from trimtab.target.log import tail
from trimtab.target.mysql.recovery import Recovery
from trimtab.target.mysql.session import Session, connect, password_of
from trimtab.target.mysql.settings import Settings
from trimtab.target.remote import CommandedServer, RunningServer

__all__ = ["ConnectionReach", "LocalReach"]


class ConnectionReach(RunningServer[Settings, Session]):
    """See `Reach`. Only knobs that SET GLOBAL changes can be tuned, and nothing outlives a restart of the server."""

    NEEDED = "include_file and restart"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._endpoint = settings.endpoint()
        self._facts: dict[str, str] = {}

    @property
    def data_dir(self) -> Path | None:
        """Where the server says that its data is, when that is a folder of this machine."""
        text = self._settings.data_dir or self._facts.get("datadir", "")
        return Path(text) if text and self._is_here and Path(text).is_dir() else None

    @property
    def _is_here(self) -> bool:
        return self._endpoint.host.startswith("/") or self._endpoint.host in ("localhost", "127.0.0.1", "::1")

    @property
    def include_file(self) -> Path | None:
        """None: no file of the server is ours."""
        return None

    @property
    def argv(self) -> Sequence[str]:
        """The running server's command line; empty when this user may not see it."""
        try:
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        except OSError:
            return ()
        return tuple(os.fsdecode(word) for word in words)

    @property
    def account(self) -> Account | None:
        """The data directory's owner."""
        return owner_of(self.data_dir) if self.data_dir is not None else None

    @property
    def pid(self) -> int | None:
        """The server's process, by its pid file; None when this user may not see it."""
        if not self._is_here or not self._facts.get("pid_file"):
            return None
        path = Path(self._facts["pid_file"])
        try:
            return int((path if path.is_absolute() else Path(self._facts["datadir"]) / path).read_text())
        except (OSError, ValueError):
            return None

    @property
    def log_file(self) -> Path | None:
        """The server's error log, where this machine has it."""
        if self._settings.log_file is not None:
            return Path(self._settings.log_file)
        text = self._facts.get("log_error", "")
        if not self._is_here or not text or text == "stderr":
            return None
        return Path(self._facts.get("datadir", "/")) / text

    def open(self) -> None:
        """Logs in once, to know that it works, and asks where the server's files are."""
        with self.connect() as session:
            self._facts = {
                name: str(session.value(f"SELECT @@{name}") or "") for name in ("datadir", "pid_file", "log_error")
            }

    def close(self) -> None:
        """Nothing is held."""

    def connect(self) -> Session:
        """A fresh connection."""
        return connect(self._endpoint)

    def endpoint(self) -> Endpoint:
        """How a load connects."""
        return replace(self._endpoint, password=password_of(self._endpoint))

    def start_with(self, options: Sequence[str]) -> None:
        """Not possible."""
        raise TargetError(f"the server cannot be started: {self.no_restart}", hint="start it by hand")

    def log_excerpt(self, n_lines: int) -> str:
        """The last lines of the error log; "" when it cannot be read."""
        return tail(self.log_file, n_lines) if self.log_file is not None else ""


class LocalReach(CommandedServer[Settings, Session], ConnectionReach):
    """See `Reach` and `CommandedServer`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._include_file = Path(settings.include_file or "")

    @property
    def include_file(self) -> Path:
        """The study file's."""
        return self._include_file

    def open(self) -> None:
        """Logs in, and makes sure that the option file can be written.

        Raises:
            TargetError: its folder is missing, or this user may not write there.
        """
        super().open()
        folder = self._include_file.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise TargetError(
                f"include_file={str(self._include_file)!r} cannot be written by this user",
                hint="run as a user who may write there, or leave include_file and restart out (SET GLOBAL only)",
            )

    def _run_command(self) -> CommandResult:
        """As `CommandedServer`'s; one that gives up on a server which recovers has only failed in part."""
        began = time.monotonic()
        try:
            return super()._run_command()
        except TargetError as error:
            if not self._is_recovering():
                raise
            taken_s = time.monotonic() - began
            return CommandResult(
                argv=tuple(self._restart_argv), exit_code=1, stdout="", stderr=error.message, duration_s=taken_s
            )

    def _recovery(self) -> Recovery:
        return Recovery(self.log_file, self._log_start, self._settings.restart_timeout_s)

    def _is_recovering(self) -> bool:
        return self._recovery().is_under_way()

    def _patience(self, deadline: float) -> Callable[[], bool]:
        """As long as the log shows that the server gets on with its recovery, too."""
        recovery = self._recovery()

        def may_wait() -> bool:
            is_stalled = recovery.has_stalled()
            return time.monotonic() <= deadline or (not is_stalled and recovery.is_under_way())

        return may_wait

    def _process(self) -> str:
        pid = self.pid
        return f"{pid} {process_mark(pid)}" if pid is not None else ""

    def _instance(self) -> tuple[float | None, str]:
        return self._started_at(), self._process()

    def _is_another(self, before: tuple[float | None, str]) -> bool:
        (started, process), (after, now) = before, self._instance()
        if process and now:
            return process != now
        return started is None or after is None or after > started + 0.5  # Uptime counts whole seconds

    def _started_at(self) -> float | None:
        try:
            with self.connect() as session:
                rows = session.execute("SHOW GLOBAL STATUS LIKE 'Uptime'")
        except TargetError:
            return None
        return time.time() - float(rows[0][1])

    def is_up(self) -> bool:
        """Whether its process runs, whatever it says to a login; by a login where the process cannot be seen."""
        pid = self.pid
        return is_running(pid) if pid is not None else super().is_up()

    def describe(self) -> Mapping[str, Any]:
        """Where it is, without the password."""
        return {"way": "local", "url": self._settings.safe_url, "include_file": str(self._include_file)}
