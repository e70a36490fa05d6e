"""A running server got at by SQL alone (ConnectionReach), or with an option file and restart command (LocalReach)."""

from __future__ import annotations

import os
import pwd
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError
from trimtab.host import LocalHost, is_running, process_mark
from trimtab.records import Endpoint
from trimtab.target.account import Account
from trimtab.target.log import tail
from trimtab.target.mysql.session import LoginRefusedError, Session, connect, password_of
from trimtab.target.mysql.settings import Settings

__all__ = ["ConnectionReach", "LocalReach"]

_LOGIN_POLL_S = 0.05


class ConnectionReach:
    """See `Reach`. Only knobs that SET GLOBAL changes can be tuned, and nothing outlives a restart of the server."""

    def __init__(self, settings: Settings) -> None:
        self.host = LocalHost()
        self._settings = settings
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
        if self.data_dir is None:
            return None
        try:
            entry = pwd.getpwuid(self.data_dir.stat().st_uid)
        except (OSError, KeyError):
            return None
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)

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

    @property
    def exit_code(self) -> int | None:
        """None: its process is not ours."""
        return None

    @property
    def n_oom_kills(self) -> int:
        """0: its limits are not ours to see."""
        return 0

    @property
    def no_restart(self) -> str:
        """Why the server cannot be restarted."""
        return "needs a restart, and the study file gives no include_file and restart command"

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

    def is_up(self) -> bool:
        """Whether a login works."""
        try:
            self.connect().close()
        except TargetError:
            return False
        return True

    def restart(self) -> None:
        """Not possible."""
        raise TargetError(f"the server cannot be restarted: {self.no_restart}", hint="give include_file and restart")

    def ensure_up(self) -> None:
        """Raises when a login does not work: nothing else can be done here."""
        self.connect().close()

    def start_with(self, options: Sequence[str]) -> None:
        """Not possible."""
        raise TargetError(f"the server cannot be started: {self.no_restart}", hint="start it by hand")

    def log_excerpt(self, n_lines: int) -> str:
        """The last lines of the error log; "" when it cannot be read."""
        return tail(self.log_file, n_lines) if self.log_file is not None else ""

    def describe(self) -> Mapping[str, Any]:
        """Where it is, without the password."""
        return {"way": "connection", "url": self._settings.safe_url}


class LocalReach(ConnectionReach):
    """See `Reach`. `restart` runs the command of the study file, without a shell."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._include_file = Path(settings.include_file or "")
        self._command = shlex.split(settings.restart) if settings.restart is not None else []
        self._log_start = 0
        self._command_output = ""

    @property
    def include_file(self) -> Path:
        """The study file's."""
        return self._include_file

    @property
    def no_restart(self) -> str:
        """Why the server cannot be restarted; "" when it can."""
        return "" if self._command else "needs a restart, and the study file gives no restart command"

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

    def restart(self) -> None:
        """Runs the restart command and waits for a login.

        Raises:
            TargetError: the command fails or takes too long, did not restart the server, or nobody can log in.
        """
        before, process = self._started_at(), self._process()
        log = self.log_file
        self._log_start = log.stat().st_size if log is not None and log.exists() else 0
        deadline = time.monotonic() + self._settings.restart_timeout_s
        result = self.host.run(self._command, timeout_s=self._settings.restart_timeout_s)
        self._command_output = result.output
        if result.exit_code != 0:
            raise TargetError(
                f"the restart command={' '.join(self._command)!r} failed with exit_code={result.exit_code}:"
                f" {result.output}",
                hint="run it by hand to see why",
            )
        self._wait_login(deadline)
        if not self._is_another(before, process):
            raise TargetError(
                f"the restart command={' '.join(self._command)!r} ended well, but the server was not restarted",
                hint="does it restart another server?",
            )

    def _process(self) -> str:
        pid = self.pid
        return f"{pid} {process_mark(pid)}" if pid is not None else ""

    def _is_another(self, before: float | None, process: str) -> bool:
        """Whether the server was restarted; True where that cannot be told."""
        now, after = self._process(), self._started_at()
        if process and now:
            return process != now
        return before is None or after is None or after > before + 0.5  # Uptime counts whole seconds

    def _started_at(self) -> float | None:
        try:
            with self.connect() as session:
                rows = session.execute("SHOW GLOBAL STATUS LIKE 'Uptime'")
        except TargetError:
            return None
        return time.time() - float(rows[0][1])

    def _wait_login(self, deadline: float) -> None:
        while True:
            try:
                self.connect().close()
                return
            except LoginRefusedError:
                raise
            except TargetError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOGIN_POLL_S)

    def is_up(self) -> bool:
        """Whether its process runs, whatever it says to a login; by a login where the process cannot be seen."""
        pid = self.pid
        return is_running(pid) if pid is not None else super().is_up()

    def ensure_up(self) -> None:
        """Starts the server by its restart command when it is down."""
        if not self.is_up():
            self.restart()

    def log_excerpt(self, n_lines: int) -> str:
        """The last lines of the server's log since the last restart, or what the restart command said."""
        log = self.log_file
        lines = tail(log, n_lines, self._log_start) if log is not None else ""
        return lines or self._command_output

    def describe(self) -> Mapping[str, Any]:
        """Where it is, without the password."""
        return {"way": "local", "url": self._settings.safe_url, "include_file": str(self._include_file)}
