"""A running server got at by SQL alone (ConnectionReach), or with files and restart command at hand (LocalReach)."""

from __future__ import annotations

import os
import signal
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError
from trimtab.host import CommandResult, is_running
from trimtab.records import Endpoint
from trimtab.target.account import Account, owner_of
from trimtab.target.postgresql.process import Postmaster
from trimtab.target.postgresql.recovery import Recovery, servers_in, startup_process
from trimtab.target.postgresql.session import Connection, connect
from trimtab.target.postgresql.settings import Settings
from trimtab.target.remote import CommandedServer, RunningServer

__all__ = ["ConnectionReach", "LocalReach"]


class ConnectionReach(RunningServer[Settings, Connection]):
    """See `Reach`. Only knobs that a reload makes effective can be changed."""

    NEEDED = "data_dir and restart"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._fields = settings.connection_fields()
        self._endpoint: Endpoint | None = None
        self._spare: Connection | None = None

    @property
    def data_dir(self) -> Path | None:
        """None: the files cannot be reached."""
        return None

    @property
    def bin_dir(self) -> Path | None:
        """None: the programs cannot be reached."""
        return None

    @property
    def account(self) -> Account | None:
        """None: unknown."""
        return None

    @property
    def pid(self) -> int | None:
        """None: unknown."""
        return None

    @property
    def log_file(self) -> Path | None:
        """None: the log cannot be reached."""
        return None

    @property
    def spare(self) -> Connection | None:
        """Made by `open`: a setting that keeps every new login out lets it live."""
        return self._spare

    def open(self) -> None:
        """Logs in once, to know that it works and where, and keeps that connection as the spare one."""
        self._look_in()
        self.close()
        self._spare = self.connect("trimtab spare")
        weakref.finalize(self, self._spare.close)

    def _look_in(self) -> None:
        with self.connect() as connection:
            info = connection.info
            self._endpoint = Endpoint(
                protocol="postgresql",
                host=info.host,
                port=info.port,
                user=info.user,
                database=info.dbname,
                password=info.password or None,
                options={k: str(v) for k, v in self._fields.items() if k.startswith("ssl") and k != "sslpassword"},
            )

    def close(self) -> None:
        """Ends the spare connection."""
        if self._spare is not None:
            self._spare.close()
            self._spare = None

    def connect(self, application: str = "trimtab") -> Connection:
        """A fresh connection."""
        return connect(self._fields, application=application)

    def endpoint(self) -> Endpoint:
        """How a load connects."""
        if self._endpoint is None:
            self._look_in()
        if self._endpoint is None:
            raise RuntimeError("open() made no endpoint")
        return self._endpoint

    def start_with(self, overrides: Mapping[str, str]) -> None:
        """Not possible."""
        raise TargetError(f"the server cannot be started: {self.no_restart}", hint="give data_dir and restart")

    def log_excerpt(self, n_lines: int) -> str:
        """Nothing: the log cannot be reached."""
        return ""


class LocalReach(CommandedServer[Settings, Connection], ConnectionReach):
    """See `Reach` and `CommandedServer`."""

    def __init__(self, settings: Settings, argv: Sequence[str] = ()) -> None:
        super().__init__(settings)
        self._server_argv = tuple(argv)
        self._rescue: Postmaster | None = None
        self._data_dir = Path(settings.data_dir or "")
        self._log = Path(settings.log_file) if settings.log_file is not None else None
        self._bin_dir: Path | None = None

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return self._data_dir

    @property
    def bin_dir(self) -> Path | None:
        """The folder of the running server's program; None when this user may not see it."""
        return self._bin_dir

    @property
    def account(self) -> Account | None:
        """The data directory's owner."""
        return owner_of(self._data_dir)

    def open(self) -> None:
        """Logs in, and makes sure that data_dir is this server's.

        Raises:
            TargetError: it is not, or this user may not read and write it.
        """
        self._look_in()
        with self.connect() as connection:
            found = connection.execute("SELECT current_setting('data_directory', true)").fetchone()
        shown = Path(found[0]) if found is not None and found[0] else None
        if shown is not None and os.path.realpath(shown) != os.path.realpath(self._data_dir):
            raise TargetError(
                f"data_dir={str(self._data_dir)!r} is not the server's: it uses {str(shown)!r}",
                hint="give the server's own data_directory, or the url of the other server",
            )
        if not os.access(self._data_dir, os.R_OK | os.W_OK | os.X_OK):
            raise TargetError(
                f"data_dir={str(self._data_dir)!r} cannot be read and written by this user",
                hint="run as the server's user or as root, or leave data_dir and restart out (reload-only tuning)",
            )
        self._look_at_process()

    @property
    def pid(self) -> int | None:
        """The server's process, by its pid file."""
        try:
            return int((self._data_dir / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return None

    @property
    def log_file(self) -> Path | None:
        """The server's log, where this user may see it."""
        return self._log

    def _look_at_process(self) -> None:
        """Finds programs and log of the running server, as far as this user may see them."""
        pid = self.pid
        try:
            self._bin_dir = Path(f"/proc/{pid}/exe").resolve(strict=True).parent
            words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            self._server_argv = tuple(os.fsdecode(word) for word in words)
            output = Path(f"/proc/{pid}/fd/2").resolve(strict=True)
        except OSError:
            return
        if self._log is None:
            current = self._collected_log()
            self._log = current if current is not None else output if output.is_file() else None

    def _collected_log(self) -> Path | None:
        names = self._data_dir / "current_logfiles"
        try:
            name = names.read_text().split()[1]
        except (OSError, IndexError):
            return None
        return self._data_dir / name

    def restart(self) -> None:
        """As `CommandedServer.restart`; a server that was started by hand beside its service is ended first."""
        self._end_rescue()
        super().restart()

    def _run_command(self) -> CommandResult:
        """Runs the restart command; when it hangs on a server that does not stop, again after it was stopped at once."""
        try:
            return super()._run_command()
        except TargetError as error:
            pid = self.pid
            if pid is None or pid not in servers_in(self._data_dir) or self._is_recovering():
                raise
            if not self._settings.immediate_stop:
                raise TargetError(
                    error.message,
                    hint="end the session that keeps the server from stopping, or set immediate_stop = true: it is then "
                    "stopped at once (SIGQUIT), and replays its log at the next start",
                ) from error
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGQUIT)
            return super()._run_command()

    def _is_recovering(self) -> bool:
        pid = self.pid
        return pid is not None and is_running(pid) and bool(startup_process(pid)[0])

    def start_with(self, overrides: Mapping[str, str]) -> None:
        """Starts the server's own program, as its own user, beside its service: `restart` hands it back.

        Raises:
            TargetError: its program is not known, this user may not start it, or it does not start.
        """
        account = self.account
        if not self._server_argv or account is None:
            raise TargetError(
                "the server cannot be started by hand: its program was never seen running",
                hint="run as the server's user or as root",
            )
        self._end_rescue()
        program = Path(self._server_argv[0])
        log = self._log if self._log is not None else Path(os.devnull)
        self._rescue = Postmaster(program.parent, self._data_dir, account, log, self._server_argv[1:])
        self._rescue.start(self._settings.restart_timeout_s, None, overrides)

    def _end_rescue(self) -> None:
        if self._rescue is not None:
            self._rescue.stop(immediate=True)
            self._rescue = None

    def _is_another(self, before: object) -> bool:
        return before is None or self._instance() != before

    def _instance(self) -> object:
        try:
            with self.connect() as connection:
                found = connection.execute("SELECT pg_postmaster_start_time()").fetchone()
        except TargetError:
            return None
        return found[0] if found is not None else None

    def _patience(self, deadline: float) -> Callable[[], bool]:
        """As long as it takes when the server replays its log and gets on with it."""
        pid = self.pid
        recovery = Recovery(pid, self._settings.restart_timeout_s) if pid is not None else None

        def may_wait() -> bool:
            if time.monotonic() <= deadline:
                return True
            return recovery is not None and not recovery.has_stalled() and self._is_recovering()

        return may_wait

    def is_up(self) -> bool:
        """Whether its process runs, whatever it says to a login."""
        pid = self.pid
        return pid is not None and is_running(pid)

    def describe(self) -> Mapping[str, Any]:
        """Where it is, without the password."""
        return {
            "way": "local",
            "url": self._settings.safe_url,
            "data_dir": str(self._data_dir),
            "argv": list(self._server_argv),
        }
