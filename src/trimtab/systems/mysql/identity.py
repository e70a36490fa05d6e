"""Which server is this: its process and its data directory on this machine, by evidence and not by its address.

A tunnel or a published port of a container makes any server "localhost", and the paths that a server tells are those of
its own machine, or container.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import Folder, peer_pid, process_name, process_numbers, process_started_s, processes, works_in
from trimtab.systems.mysql.session import Session, uptime_s
from trimtab.systems.server_catalog import server_catalog

__all__ = ["PROGRAMS", "is_folder_of", "is_server", "process_behind", "require_same_server", "server_in", "server_uuid"]

PROGRAMS = ("mysqld", "mariadbd", "mysqld-debug")
_STARTED_S = 3.0
"""How far Uptime, in whole seconds, and the process's own start may lie apart."""
_UUID = re.compile(rb"^\s*server-uuid\s*=\s*([0-9a-fA-F-]{36})", re.MULTILINE)
_AUTO_CNF_BYTES = 4096


def process_behind(session: Session, data_dir: Path | None) -> int | None:
    """The server's process on this machine; None when it is on another one, or cannot be seen.

    The process at the other end of this connection, when it is a server's program. Else (a proxy or a container's published
    port stands between) the one that began when the server says that it began, and has the thread that serves this
    connection; where the server tells no thread, the one that works in `data_dir`.
    """
    pid = peer_pid(session.socket)
    if pid is not None and is_server(pid):
        return pid
    up_s = uptime_s(session)
    began = [pid for pid in processes() if is_server(pid) and _has_begun(pid, up_s)]
    thread = _thread_of(session)
    if thread is not None:
        return next((pid for pid in began if thread in _threads(pid)), None)
    return next((pid for pid in began if data_dir is not None and works_in(pid, data_dir)), None)


def _thread_of(session: Session) -> int | None:
    """The number that the operating system gave the thread of this connection, where the server lives."""
    asked = (session.told(server_catalog("mysql").sql[name]) for name in ("mariadb_thread", "mysql_thread"))
    found = next(filter(None, asked), None)  # the other product, or the right to look is missing
    return int(found) if found is not None else None


def _threads(pid: int) -> set[int]:
    """The numbers of its threads in the innermost namespace."""
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return set()
    return {numbers[-1] for name in names if (numbers := process_numbers(int(name)))}


def _may_look(pid: int) -> bool:
    try:
        os.stat(f"/proc/{pid}/cwd")
    except PermissionError:
        return False
    except OSError:
        return True
    return True


def server_in(data_dir: Path) -> int | None:
    """The server's program that works in `data_dir`, which it enters before it opens anything; None when none shows."""
    return next((pid for pid in processes() if works_in(pid, data_dir) and is_server(pid)), None)


def is_folder_of(pid: int, data_dir: Path) -> bool:
    """Whether that process works in that folder; where this user may not look: whether they can be of one machine at all."""
    if _may_look(pid):
        return works_in(pid, data_dir)
    return len(process_numbers(pid)) == 1 and data_dir.is_dir()


def is_server(pid: int) -> bool:
    """Whether its program is a MySQL or MariaDB server."""
    return process_name(pid) in PROGRAMS


def _has_begun(pid: int, up_s: float) -> bool:
    age_s = process_started_s(pid)
    return age_s is not None and abs(age_s - up_s) < _STARTED_S


def server_uuid(data_dir: Path) -> str:
    """MySQL's, as auto.cnf in the data directory has it; "" when there is none (MariaDB has none), or it cannot be read."""
    try:
        with Folder.open(data_dir) as folder:
            copy = folder.read("auto.cnf", most_bytes=_AUTO_CNF_BYTES)
    except OSError:
        return ""
    found = _UUID.search(copy.content) if copy is not None else None
    return found[1].decode().lower() if found is not None else ""


def require_same_server(data_dir: Path, facts: Mapping[str, str], pid: int | None) -> None:
    """That the server behind these facts is the one that works on `data_dir`, as far as either shows.

    MySQL: by server_uuid. Both: no other server's process may work there than the one that answers.

    Raises:
        TargetError: it is another server; nothing was changed.
    """
    shown, told = server_uuid(data_dir), facts.get("server_uuid", "").lower()
    other = server_in(data_dir)
    if shown and told and shown != told:
        why = f"the server has server_uuid={told}, its auto.cnf has {shown}"
    elif other is not None and other != pid:
        why = f"the process that works there is pid={other}, and it is not the one that answers"
    else:
        return
    raise TargetError(
        f"data_dir={str(data_dir)!r} is not that of the server that url leads to: {why}",
        hint="does the port belong to a tunnel, a container or another server? Give the url and data_dir of one server",
    )
