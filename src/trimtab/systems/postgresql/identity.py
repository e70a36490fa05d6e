"""Which server is this: whether the one that answers is the one whose files lie here, and whether it runs on this machine.

An address says neither: a tunnel or a published port of a container makes any server "localhost", and two servers may call
their data directories by the same path.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import Folder, process_name, process_numbers, process_parent, process_started_s, processes
from trimtab.systems.postgresql.recovery import PID_FILE, postmaster_in
from trimtab.systems.postgresql.session import Connection
from trimtab.systems.process import pid_file_lines
from trimtab.systems.session import StatementError

__all__ = ["backend_process", "require_same_server"]

_CLOCK_S = 30.0
"""How far two tellings of one start may lie apart: a postmaster notes its start before it has allocated its memory."""
_FRESH_S = 10.0
_CONTROL_BYTES = 8192


def backend_process(connection: Connection) -> int | None:
    """The process behind this connection, where that runs on this machine, be it in a container; else None.

    It is looked for by the number that it has where it lives. That number alone could be another server's: the process must
    also have begun with this login, or be a child of a postmaster that began when the server says that it began (a pooler
    hands over older ones).
    """
    try:
        found = connection.row("SELECT pg_backend_pid(), extract(epoch FROM pg_postmaster_start_time())::float8")
    except StatementError:
        return None
    if found is None:
        return None
    number, started_at = int(found[0]), float(found[1])
    backends = [pid for pid in processes() if process_name(pid).startswith("postgres")]
    return next((p for p in backends if process_numbers(p)[-1:] == (number,) and _is_it(p, started_at)), None)


def _is_it(pid: int, server_started_at: float) -> bool:
    age_s, parent = process_started_s(pid), process_parent(pid)
    if age_s is not None and age_s < _FRESH_S:
        return True
    parent_age_s = process_started_s(parent) if parent is not None else None
    return parent_age_s is not None and abs(time.time() - parent_age_s - server_started_at) < _CLOCK_S


def require_same_server(connection: Connection, data_dir: Path) -> None:
    """That the server behind `connection` is the one that works on `data_dir`.

    By the system identifier, which initdb draws and the control file holds. A copy of a server (a standby) has the same, so
    also by the process: the postmaster in the folder is the parent of the one that answers; where one of the two cannot be
    seen, the start time in postmaster.pid is the server's. The path is compared only where all that cannot be seen: a
    container has another.

    Raises:
        TargetError: it is another server; nothing was changed.
    """
    try:
        with Folder.open(data_dir) as folder:
            in_file, started_at = _identifier(folder), _started_at(data_dir)
    except OSError as error:
        raise TargetError(
            f"data_dir={str(data_dir)!r} cannot be opened: {error.strerror}",
            hint="give the real path, or run as the server's user or as root",
        ) from error
    by_sql, server_started_at = _identifier_by_sql(connection), _started_at_by_sql(connection)
    if in_file is not None and by_sql is not None and in_file != by_sql:
        raise _another(data_dir, f"the server has system_identifier={by_sql}, the files have {in_file}")
    backend, postmaster = backend_process(connection), postmaster_in(data_dir)
    if backend is not None and postmaster is not None:
        if process_parent(backend) == postmaster:
            return
        raise _another(data_dir, f"pid={postmaster} works there, and it is not the one that answers")
    if started_at is not None and server_started_at is not None and abs(started_at - server_started_at) > _CLOCK_S:
        raise _another(data_dir, "the server that answers and the one of these files were not started at the same time")
    if None in (in_file, by_sql, started_at, server_started_at):
        _require_same_path(connection, data_dir)


def _another(data_dir: Path, why: str) -> TargetError:
    return TargetError(
        f"data_dir={str(data_dir)!r} is not that of the server that url leads to: {why}",
        hint="does the port belong to a tunnel, a container or another cluster? Give the url and data_dir of one server",
    )


def _require_same_path(connection: Connection, data_dir: Path) -> None:
    found = connection.value("SELECT current_setting('data_directory', true)")
    shown = Path(found) if found else None
    if shown is not None and os.path.realpath(shown) != os.path.realpath(data_dir):
        raise TargetError(
            f"data_dir={str(data_dir)!r} is not the server's: it uses {str(shown)!r}",
            hint="give the server's own data_directory, or the url of the other server",
        )


def _identifier(folder: Folder) -> int | None:
    """The first eight bytes of the control file, in this machine's order (src/include/catalog/pg_control.h)."""
    try:
        with Folder.open(folder.path / "global") as inner:
            copy = inner.read("pg_control", most_bytes=_CONTROL_BYTES)
    except OSError:
        return None
    return int(struct.unpack("=Q", copy.content[:8])[0]) if copy is not None and len(copy.content) >= 8 else None


def _identifier_by_sql(connection: Connection) -> int | None:
    found = connection.told("SELECT system_identifier FROM pg_control_system()")
    return int(found) % (1 << 64) if found is not None else None  # SQL has no unsigned numbers


def _started_at(data_dir: Path) -> float | None:
    """The third line of postmaster.pid."""
    lines = pid_file_lines(data_dir / PID_FILE)
    return float(lines[2]) if len(lines) > 2 and lines[2].strip().isdigit() else None


def _started_at_by_sql(connection: Connection) -> float | None:
    found = connection.value("SELECT extract(epoch FROM pg_postmaster_start_time())::float8")
    return float(found) if found is not None else None
