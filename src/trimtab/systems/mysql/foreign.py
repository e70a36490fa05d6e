"""How a MySQL or MariaDB server is looked at: which one it is, its option files and settings; see `Picture`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from trimtab.host import process_mark
from trimtab.systems.files import digest_at
from trimtab.systems.knobs import Reading
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.mysql.options import option_files
from trimtab.systems.mysql.persisted import auto_file
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.replication import is_replica
from trimtab.systems.mysql.session import Session, uptime_s
from trimtab.systems.picture import Picture

__all__ = ["files_as_left", "instance_of", "take_picture", "who_answers"]

Read = Callable[[Session], Mapping[str, Reading]]


def take_picture(reach: Reach, read: Read, ours: Callable[[Session], frozenset[str]]) -> Picture:
    """The server as it is now; `read` reads its variables, of which `ours` are watched.

    Raises:
        TargetError: it does not answer.
    """
    with reach.connect() as session:
        variables = read(session)
        watched = {name: variables[name] for name in sorted({*ours(session), *CATALOG.watched}) if name in variables}
        began_s = time.monotonic() - uptime_s(session)
        identifier = _identifier(session)
        role = _role(session, variables)
    instance, auto = instance_of(reach), auto_file(reach)
    files = [*option_files(reach), *([auto] if auto is not None else [])]
    return Picture(
        who={"identifier": identifier, "role": role, "instance": instance},
        role=role or "a server that takes writes",
        calls="server_uid",
        instance=instance,
        began_s=began_s,
        files={str(path): _digest(path, reach) for path in files},
        ours=frozenset({str(reach.include_file or "")}),
        settings={name: (variable.text, variable.where) for name, variable in watched.items()},
    )


def instance_of(reach: Reach) -> str:
    """Tells this run of the server from the next one; "" where its process cannot be seen."""
    pid = reach.pid
    return f"{pid} {process_mark(pid)}" if pid is not None else ""


def who_answers(session: Session, variables: Mapping[str, Reading]) -> dict[str, str]:
    """Identifier and role of the server behind `session`."""
    return {"identifier": _identifier(session), "role": _role(session, variables)}


def files_as_left(reach: Reach, left: Mapping[str, str]) -> bool:
    """Whether the option files but our own are, byte by byte, as they were `left`; none was added, as far as can be seen.

    Which files a server reads is known by its command line, and so only while it runs.
    """
    ours = str(reach.include_file or "")
    known = {path: digest for path, digest in left.items() if path != ours}
    if any(_digest(Path(path), reach) != digest for path, digest in known.items()):
        return False
    added = {str(path) for path in option_files(reach)} - {ours} - set(known) if any(reach.argv) else set()
    return not any(_digest(Path(path), reach) != "missing" for path in added)


def _identifier(session: Session) -> str:
    return "".join(str(session.told(f"SELECT @@GLOBAL.{name}") or "") for name in ("server_uid", "server_uuid"))


def _role(session: Session, variables: Mapping[str, Reading]) -> str:
    if any(name in variables and variables[name].value is True for name in ("read_only", "super_read_only")):
        return "read-only"
    return "a replica" if is_replica(session) else ""


def _digest(path: Path, reach: Reach) -> str:
    return digest_at(reach.host, path) or "unreadable"
