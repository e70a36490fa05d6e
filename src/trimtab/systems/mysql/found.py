"""Where a server's data, log and program are on this machine, by what it tells of itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trimtab.systems.mysql.identity import is_folder_of
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.settings import Settings
from trimtab.systems.seen import Found, command_of, output_file

__all__ = ["found_of", "read_facts"]

_FACTS = ("datadir", "pid_file", "log_error", "server_uuid")


def read_facts(session: Session) -> dict[str, str]:
    """What the server tells of its files, as it sees them; "" for what it does not have."""
    return {name: str(session.told(f"SELECT @@{name}") or "") for name in _FACTS}  # MariaDB has no server_uuid


def found_of(settings: Settings, facts: Mapping[str, str], pid: int) -> Found:
    """Of a server that runs here as `pid`; what it tells of its files is believed as far as its process shows the same."""
    told = Path(facts["datadir"])
    data_dir: Path | None = Path(settings.data_dir) if settings.data_dir is not None else told
    if data_dir is not None and not is_folder_of(pid, data_dir):
        data_dir = None  # a container's, or not to be seen
    return Found(
        data_dir=data_dir,
        log=_log(told, data_dir, facts["log_error"], pid),
        pid_file=_here(told, data_dir, facts["pid_file"]) if facts["pid_file"] else None,
        argv=command_of(pid),
        uuid=facts["server_uuid"],
    )


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
