"""A running server got at by SQL alone (ConnectionReach), or with files and restart command at hand (LocalReach)."""

from __future__ import annotations

import logging
import os
import signal
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError
from trimtab.host import CommandResult, FileCopy, Folder, is_running
from trimtab.records import Endpoint
from trimtab.systems.credentials import keep, received
from trimtab.systems.postgresql import login
from trimtab.systems.postgresql.address import has_no_listener, listens_at
from trimtab.systems.postgresql.catalogue import CATALOG
from trimtab.systems.postgresql.identity import backend_process, require_same_server
from trimtab.systems.postgresql.process import Postmaster
from trimtab.systems.postgresql.recovery import (
    Recovery,
    postmaster_in,
    servers_in,
)
from trimtab.systems.postgresql.session import Connection, connect, require_no_pooler
from trimtab.systems.postgresql.settings import Settings
from trimtab.systems.remote import CommandedServer, RunningServer
from trimtab.systems.seen import Found, command_of, environment_of, output_file, program_folder, start_folder

__all__ = ["ConnectionReach", "LocalReach"]

_NAMES_BYTES = 4096
_PORT = 5432
_OPTIONS = "postmaster.opts"
_log = logging.getLogger(__name__)


class ConnectionReach(RunningServer[Settings, Connection]):
    """See `Reach`. Only knobs that a reload makes effective can be changed."""

    NEEDED = "data_dir and restart"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._fields = {**settings.url_parts(), **received(settings.server)}
        self._login: dict[str, str] = {}
        self._endpoint: Endpoint | None = None
        self._spare: Connection | None = None

    @property
    def bin_dir(self) -> Path | None:
        """None: the programs cannot be reached."""
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
        self._spare.rows(CATALOG.sql["stays"])
        weakref.finalize(self, self._spare.close)

    def _look_in(self) -> None:
        with self.connect() as connection:
            require_no_pooler(connection)
            self._is_here = backend_process(connection) is not None
            info = connection.info
            self._endpoint = Endpoint(
                protocol="postgresql",
                host=info.host,
                port=info.port,
                user=info.user,
                database=info.dbname,
                password=info.password or None,
                options=login.encryption_of(connection, self._fields) | login.session_of(self._fields),
            )
            self._login = login.of(connection, self._fields)
            keep(self._settings.server, login.secrets_of(connection, self._fields))

    def recall(self, found: Mapping[str, Any]) -> None:
        """The login that `describe` has kept: by files and variables that this process may not have."""
        super().recall(found)
        if found.get("login"):
            self._login = dict(found["login"])
            self._fields = {**self._login, **received(self._settings.server)}

    def no_later_login(self) -> str:
        """See `ServerReach`."""
        return login.trouble(self._login, self._settings.password is not None) if self._login else ""

    def describe(self) -> Mapping[str, Any]:
        """Where it is, without the password, and how to log in later."""
        return {**super().describe(), "login": self._login}

    def close(self) -> None:
        """Ends the spare connection."""
        if self._spare is not None:
            self._spare.close()
            self._spare = None

    def connect(self, application: str = "trimtab") -> Connection:
        """A connection: a visit's, or a fresh one."""
        return self._visit.session(lambda: connect(self._fields, application=application))

    def moved_to(self) -> str:
        """See `Reach`; without the server's files that cannot be known."""
        return ""

    def endpoint(self) -> Endpoint:
        """How a load connects."""
        if self._endpoint is None:
            self._look_in()
        if self._endpoint is None:
            raise RuntimeError("open() made no endpoint")
        return self._endpoint


class LocalReach(CommandedServer[Settings, Connection], ConnectionReach):
    """See `Reach` and `CommandedServer`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._rescue: Postmaster | None = None
        self._data_dir = Path(settings.data_dir or "")
        self._bin_dir: Path | None = None

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return self._data_dir

    @property
    def bin_dir(self) -> Path | None:
        """The folder of the running server's program; None when this user may not see it."""
        return self._bin_dir

    def open(self) -> None:
        """Logs in, and makes sure that data_dir is this server's.

        Raises:
            TargetError: it is not, or this user may not read and write it.
        """
        self._look_in()
        if not self._data_dir.is_dir():
            raise TargetError(
                f"data_dir={str(self._data_dir)!r} is not a folder on this machine",
                hint="give the path that it has here, or leave data_dir and restart out (reload-only tuning)",
            )
        with self.connect() as connection:
            require_same_server(connection, self._data_dir)
        if not os.access(self._data_dir, os.R_OK | os.W_OK | os.X_OK):
            raise TargetError(
                f"data_dir={str(self._data_dir)!r} cannot be read and written by this user",
                hint="run as the server's user or as root, or leave data_dir and restart out (reload-only tuning)",
            )
        self._look_at_process()

    def _find_pid(self) -> int | None:
        return postmaster_in(self._data_dir)

    def _look_at_process(self) -> None:
        """Finds programs and log of the running server, as far as this user may see them."""
        pid = self.pid
        self._bin_dir = program_folder(pid)
        if self._bin_dir is not None:
            log = self._collected_log() or output_file(pid)
            self._found = Found(data_dir=self._data_dir, log=log, argv=_whole(command_of(pid), pid))

    @property
    def log_file(self) -> Path | None:
        """As `RunningServer.log_file`; of a server that collects its log the file of now: a start, a day or a size begins one."""
        if log := self._collected_log():
            self._found = replace(self._found, log=log)
        return super().log_file

    def _collected_log(self) -> Path | None:
        try:
            with Folder.open(self._data_dir) as folder:
                copy = folder.read("current_logfiles", most_bytes=_NAMES_BYTES)
        except OSError:
            return None
        lines = copy.content.decode(errors="surrogateescape").splitlines() if copy is not None else []
        return self._data_dir / lines[0].partition(" ")[2] if lines else None

    def moved_to(self) -> str:
        """See `Reach`."""
        used = self._login or self._fields
        host, port = str(used.get("hostaddr") or used.get("host") or ""), str(used.get("port") or _PORT)
        where = listens_at(self._data_dir) if self.pid is not None else ""
        return where if where and host and has_no_listener(host, port) else ""

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
            if pid is None or pid not in servers_in(self._data_dir):
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

    def start_with(self, overrides: Mapping[str, str]) -> None:
        """Starts the server's own program, as its own user, beside its service: `restart` hands it back.

        Raises:
            TargetError: its program is not known, this user may not start it, or it does not start.
        """
        account = self.account
        argv = self._found.argv
        if not argv or account is None:
            raise TargetError(
                "the server cannot be started by hand: its program was never seen running",
                hint="run as the server's user or as root",
            )
        self._end_rescue()
        program, log = Path(argv[0]), self.log_file or Path(os.devnull)
        self._rescue = Postmaster(
            program.parent,
            self._data_dir,
            account,
            log,
            argv[1:],
            is_users=True,
            may_force=bool(self._settings.immediate_stop),
        )
        found = self._read_options()
        try:
            self._rescue.start(self._settings.restart_timeout_s, None, overrides)
        finally:
            self._options_back(found)

    def _read_options(self) -> FileCopy | None:
        """The server's own record of its command line, from which `pg_ctl restart` starts it again."""
        try:
            return self.host.read_file(self._data_dir / _OPTIONS)
        except TargetError:
            return None

    def _options_back(self, found: FileCopy | None) -> None:
        """At once, not at the end: whoever restarts the server next must not keep `overrides`, even when we die here."""
        path = self._data_dir / _OPTIONS
        try:
            if found is None:
                self.host.remove_file(path)
            else:
                self.host.write_file(path, found)
        except TargetError as error:
            _log.warning(
                "file=%s could not be put back (%s): `pg_ctl restart` would start the server with the values on its command "
                "line again; use `pg_ctl stop` and `pg_ctl start`", path, error.message
            )  # fmt: skip

    def _end_rescue(self) -> None:
        if self._rescue is not None:
            self._rescue.stop(immediate=bool(self._settings.immediate_stop))
            self._rescue = None

    def _shows_itself(self) -> bool:
        return self._find_pid() is not None

    def _began_at(self, session: Connection) -> float:
        return float(session.value("SELECT extract(epoch FROM pg_postmaster_start_time())::float8"))

    def _recovery(self) -> Recovery | None:
        pid = self.pid
        return Recovery(pid, self._settings.restart_timeout_s) if pid is not None and is_running(pid) else None

    def describe(self) -> Mapping[str, Any]:
        """Where it is, without the password."""
        return {**super().describe(), "way": "local", "data_dir": str(self._data_dir)}


def _whole(argv: Sequence[str], pid: int | None) -> tuple[str, ...]:
    """A command line with the whole path of the data directory: whoever runs it again does that in another folder."""
    folder, words = start_folder(environment_of(pid, ("PWD",))), list(argv)
    for i, word in enumerate(words[:-1]):
        if word == "-D":
            words[i + 1] = str(folder / words[i + 1])
    return tuple(words)
