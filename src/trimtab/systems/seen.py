"""What this machine shows of a server: its program, command line and output, and how that is kept for when it is down."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.host import machine_mark

__all__ = ["Found", "argv_of", "command_of", "environment_of", "output_file", "program_folder", "start_folder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was seen of a server on this machine.

    Attributes:
        data_dir: its data directory; None when it is not here, or not known.
        log: its log, as the server names it; None likewise.
        pid_file: the file that it removes when it is stopped, and leaves when it dies; None likewise.
        argv: the command that started it.
        uuid: its identifier; "" when its files show none.
    """

    data_dir: Path | None = None
    log: Path | None = None
    pid_file: Path | None = None
    argv: Sequence[str] = ()
    uuid: str = ""

    @classmethod
    def of(cls, table: Mapping[str, Any], data_dir: str | None, uuid_in: Callable[[Path], str]) -> Found:
        """From a journal, of a server that may be down.

        Nothing when that was written on another machine, or another server's data is there now.

        Args:
            table: from `to_json`.
            data_dir: of the study file; None when it says nothing.
            uuid_in: the identifier that a data directory shows; "" for none.
        """
        text = str(data_dir or table.get("data_dir") or "")
        folder = Path(text) if text and Path(text).is_dir() else None
        uuid = str(table.get("server_uuid", ""))
        shown = uuid_in(folder) if folder is not None and uuid else ""
        if not table or table.get("machine") != machine_mark() or (shown and shown != uuid.lower()):
            return cls()
        log, pid_file = (Path(table[key]) if table.get(key) else None for key in ("log_file", "pid_file"))
        return cls(data_dir=folder, log=log, pid_file=pid_file, argv=tuple(table.get("argv", ())), uuid=uuid)

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


def argv_of(pid: int | None) -> tuple[str, ...]:
    """The command line of a process; () when this user may not see it, or there is none."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return ()
    return tuple(os.fsdecode(word) for word in words if word)


def command_of(pid: int | None) -> tuple[str, ...]:
    """As `argv_of`, with the program's full path: what is started again later has another folder and another PATH."""
    words, program = argv_of(pid), _resolved(f"/proc/{pid}/exe")
    if not words or program is None or os.path.isabs(words[0]):
        return words
    return (str(program), *words[1:])


def environment_of(pid: int | None, names: Collection[str]) -> dict[str, str]:
    """These variables of a process's environment; {} when this user may not see it, or there is none."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (os.fsdecode(word).partition("=") for word in words)
    return {name: value for name, _, value in pairs if name in names}


def start_folder(environment: Mapping[str, str]) -> Path:
    """Where a process with this environment was started: there relative paths of its command line begin, whatever folder it works
    in since. Where PWD does not tell, it is the folder of a service."""
    folder = Path(environment.get("PWD", "/"))
    return folder if folder.is_absolute() else Path("/")


def output_file(pid: int | None) -> Path | None:
    """The file that its standard error goes to; None when it is none, or this user may not see it."""
    found = _resolved(f"/proc/{pid}/fd/2")
    return found if found is not None and found.is_file() else None


def program_folder(pid: int | None) -> Path | None:
    """The folder of its program; None when this user may not see it."""
    found = _resolved(f"/proc/{pid}/exe")
    return found.parent if found is not None else None


def _resolved(text: str) -> Path | None:
    try:
        return Path(text).resolve(strict=True)
    except OSError:
        return None
