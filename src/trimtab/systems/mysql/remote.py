"""A running server got at by SQL alone (ConnectionReach), or with an option file and restart command (LocalReach)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError
from trimtab.host import peer_pid, process_mark, works_in
from trimtab.host.mysql_client import password_from_files
from trimtab.records import Endpoint
from trimtab.systems.credentials import keep, received
from trimtab.systems.files import not_to_be_put_back
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.mysql.found import found_of, read_facts
from trimtab.systems.mysql.identity import is_server, process_behind, require_same_server, server_in, server_uuid
from trimtab.systems.mysql.session import Session, connect, password_of, uptime_s
from trimtab.systems.mysql.settings import Settings
from trimtab.systems.progress import LogProgress
from trimtab.systems.remote import CommandedServer, RunningServer
from trimtab.systems.session import FullError, LoginRefusedError

__all__ = ["ConnectionReach", "LocalReach"]


class ConnectionReach(RunningServer[Settings, Session]):
    """See `Reach`. Only knobs that SET GLOBAL changes can be tuned, and nothing outlives a restart of the server."""

    NEEDED = "include_file and restart"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._endpoint = settings.endpoint()
        handed = received(settings.server).get("password")
        if handed is not None:
            self._endpoint = replace(self._endpoint, password=handed)
        self._seen: tuple[int, str] | None = None

    def _uuid_in(self, data_dir: Path) -> str:
        return server_uuid(data_dir)

    @property
    def include_file(self) -> Path | None:
        """None: no file of the server is ours."""
        return None

    def _find_pid(self) -> int | None:
        folder = self.data_dir
        seen = self._seen[0] if self._seen is not None and process_mark(self._seen[0]) == self._seen[1] else None
        if folder is None or (seen is not None and works_in(seen, folder)):
            return seen
        # It was restarted; or this user may not see where it works.
        return found if (found := server_in(folder)) is not None else seen

    def open(self) -> None:
        """Logs in once, to know that it works, and looks for the server's process and files on this machine.

        Raises:
            TargetError: nobody can log in, or data_dir is another server's.
        """
        self._look_in()

    def _look_in(self) -> None:
        with self.connect() as session:
            facts = read_facts(session)
            password = password_of(self._endpoint)
            keep(self._settings.server, {} if password is None else {"password": password})
            folder = Path(self._settings.data_dir or facts["datadir"])
            pid = process_behind(session, folder if folder.is_dir() else None)
        if self._settings.data_dir is not None:
            require_same_server(folder, facts, pid)
        self._is_here = pid is not None
        self._note(pid)
        if pid is not None:
            self._found = found_of(self._settings, facts, pid)

    def _note(self, pid: int | None) -> None:
        if pid is not None:
            self._seen = (pid, process_mark(pid))

    def close(self) -> None:
        """Nothing is held."""

    def connect(self) -> Session:
        """See `RunningServer`."""
        return self._visit.session(self._log_in)

    def _log_in(self) -> Session:
        session = connect(self._endpoint)
        if self._endpoint.host.startswith("/"):  # cheap there, and a restart has changed it
            pid = peer_pid(session.socket)
            self._note(pid if pid is not None and is_server(pid) else None)
        return session

    def no_later_login(self) -> str:
        """See `ServerReach`; tries it."""
        in_files = password_from_files(self._endpoint.options.get("defaults_file"), with_environment=False)
        try:
            connect(replace(self._endpoint, password=in_files or "")).close()
        except FullError:
            return ""  # which is said once the password has been taken
        except LoginRefusedError:
            return "url" if self._settings.endpoint().password is not None else "MYSQL_PWD"
        except TargetError:
            return ""  # that is no matter of passwords
        return ""

    def endpoint(self) -> Endpoint:
        """How a load connects."""
        return replace(self._endpoint, password=password_of(self._endpoint))


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
        if self.host.link_target(self._include_file) is not None:
            return  # refused by the snapshot, before any change
        found = self.host.read_file(self._include_file)
        if found is not None and (why := not_to_be_put_back(found, folder)):
            raise TargetError(
                f"include_file={str(self._include_file)!r} cannot be used: {why}",
                hint="run as a user who may give it that owner and group, or as root, or name a file that does not exist yet",
            )

    def _recovery(self) -> LogProgress:
        return LogProgress(self.log_file, self._log_start, CATALOG.log, self._settings.restart_timeout_s)

    def _shows_itself(self) -> bool:
        return self.data_dir is not None and server_in(self.data_dir) is not None

    def _began_at(self, session: Session) -> float:
        return time.time() - uptime_s(session)

    def describe(self) -> Mapping[str, Any]:
        """Where it is, without the password."""
        return {**super().describe(), "way": "local", "include_file": str(self._include_file)}
