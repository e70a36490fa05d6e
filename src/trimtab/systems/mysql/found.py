"""Found: where a server's data, log and program are on this machine, and how that is kept for when the server is down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.host import machine_mark
from trimtab.systems.mysql.identity import is_folder_of, server_uuid
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.settings import Settings
from trimtab.systems.seen import argv_of, output_file

__all__ = ["Found", "read_facts"]

_FACTS = ("datadir", "pid_file", "log_error", "server_uuid")


def read_facts(session: Session) -> dict[str, str]:
    """What the server tells of its files, as it sees them; "" for what it does not have."""
    return {name: str(session.told(f"SELECT @@{name}") or "") for name in _FACTS}  # MariaDB has no server_uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was seen of a server on this machine.

    Attributes:
        data_dir: its data directory; None when it is not here, or not known.
        log: its error log, as the server names it; None likewise.
        pid_file: the file that it removes when it is stopped, and leaves when it dies; None likewise.
        argv: the command that started it.
        uuid: MySQL's server_uuid; "" for MariaDB.
    """

    data_dir: Path | None = None
    log: Path | None = None
    pid_file: Path | None = None
    argv: Sequence[str] = ()
    uuid: str = ""

    @classmethod
    def seen(cls, settings: Settings, facts: Mapping[str, str], pid: int) -> Found:
        """Of a server that runs here as `pid`; what it tells of its files is believed as far as its process shows the same."""
        told = Path(facts["datadir"])
        data_dir: Path | None = Path(settings.data_dir) if settings.data_dir is not None else told
        if data_dir is not None and not is_folder_of(pid, data_dir):
            data_dir = None  # a container's, or not to be seen
        return cls(
            data_dir=data_dir,
            log=_log(told, data_dir, facts["log_error"], pid),
            pid_file=_here(told, data_dir, facts["pid_file"]) if facts["pid_file"] else None,
            argv=argv_of(pid),
            uuid=facts["server_uuid"],
        )

    @classmethod
    def of(cls, settings: Settings, table: Mapping[str, Any]) -> Found:
        """From a journal, of a server that may be down; nothing when that was written on another machine, or another
        server's data is there now."""
        text = str(settings.data_dir or table.get("data_dir") or "")
        data_dir = Path(text) if text and Path(text).is_dir() else None
        uuid = str(table.get("server_uuid", ""))
        shown = server_uuid(data_dir) if data_dir is not None and uuid else ""
        if not table or table.get("machine") != machine_mark() or (shown and shown != uuid.lower()):
            return cls()
        log, pid_file = (Path(table[key]) if table.get(key) else None for key in ("log_file", "pid_file"))
        return cls(data_dir=data_dir, log=log, pid_file=pid_file, argv=tuple(table.get("argv", ())), uuid=uuid)

    def to_json(self) -> dict[str, Any]:
        """The inverse of `of`."""
        return {
            "machine": machine_mark(),
            "data_dir": str(self.data_dir or ""),
            "log_file": str(self.log or ""),
            "pid_file": str(self.pid_file or ""),
            "argv": list(self.argv),
            "server_uuid": self.uuid,
        }


def _log(told: Path, data_dir: Path | None, name: str, pid: int) -> Path | None:
    """The server's error log by the path that it has here; its standard error where it writes there into a file."""
    if name in ("", "stderr"):
        return output_file(pid)
    return _here(told, data_dir, name)


def _here(told: Path, data_dir: Path | None, name: str) -> Path | None:
    """A file that the server names, by the path that it has here; None when that is not known."""
    path = told / name
    if data_dir is not None and path.is_relative_to(told):
        return data_dir / path.relative_to(told)
    return path if data_dir == told else None
