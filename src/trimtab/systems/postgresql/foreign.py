"""Foreign changes: whether the server, its files and its settings are still as we left them.

A `Picture` is what we left: which server it is (system identifier, timeline, role, start), a digest of every configuration
file that it reads, and its settings. `differences` tells what somebody else has done since.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg

from trimtab.errors import TargetError
from trimtab.systems.foreign import another_role, another_server, other_configuration, restarted
from trimtab.systems.forensic import Disturbance
from trimtab.systems.postgresql.catalogue import Row, read_rows
from trimtab.systems.postgresql.classes import SECRET
from trimtab.systems.postgresql.reach import AUTO_CONF, Reach
from trimtab.systems.postgresql.session import Connection
from trimtab.units import format_value

__all__ = ["Picture", "differences", "take_picture", "who_answers"]

_IDENTIFIER_BYTES = 8
"""pg_control begins with the system identifier (ControlFileData, src/include/catalog/pg_control.h)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A server as it was left; "" and {} where this user may not see.

    Attributes:
        identifier: system identifier of the cluster.
        timeline: of its write-ahead log; 0 unknown.
        is_standby: whether it is in recovery.
        started_at: of the postmaster.
        files: path -> digest.
        settings: knob -> (value as text, where it comes from).
    """

    identifier: str
    timeline: int
    is_standby: bool
    started_at: str
    files: Mapping[str, str]
    settings: Mapping[str, tuple[str, str]]

    def after_own_change(self, before: Picture | None) -> Picture:
        """This picture, taken after a change of our own: what we do not change must be as it was `before` it."""
        if before is None:
            return self
        files = {path: digest for path, digest in before.files.items() if not _is_ours(path)}
        ours = {path: digest for path, digest in self.files.items() if _is_ours(path)}
        return replace(self, files={**files, **ours}, identifier=before.identifier, is_standby=before.is_standby)

    def kept(self) -> Mapping[str, Any]:
        """What the journal keeps of it, as JSON: which server it is, and the digests of its files."""
        return {
            "identifier": self.identifier,
            "timeline": self.timeline,
            "is_standby": self.is_standby,
            "files": dict(self.files),
        }


def _is_ours(path: str) -> bool:
    return Path(path).name == AUTO_CONF


def take_picture(reach: Reach) -> Picture:
    """The server as it is now.

    Raises:
        TargetError: it does not answer.
    """
    try:
        with reach.connect() as connection:
            is_standby, started_at = _one(
                connection, "SELECT pg_is_in_recovery(), pg_postmaster_start_time()::text"
            ) or (False, "")
            rows = read_rows(connection)
            return Picture(
                identifier=str(_first(connection, "SELECT system_identifier::text FROM pg_control_system()") or ""),
                timeline=_timeline(connection, is_standby),
                is_standby=bool(is_standby),
                started_at=str(started_at),
                files=_files(connection, reach),
                settings={name: _shown(row) for name, row in rows.items() if _is_watched(row)},
            )
    except psycopg.Error as error:
        raise TargetError(f"the server's state cannot be read: {str(error).strip()}", hint="see its log") from error


def who_answers(reach: Reach) -> dict[str, Any]:
    """Identifier, role and timeline as far as they can be seen now; of a server that is down the identifier of its files."""
    found: dict[str, Any] = {}
    if reach.data_dir is not None:
        try:
            control = reach.host.read_file(reach.data_dir / "global" / "pg_control")
            if control is not None and len(control.content) >= _IDENTIFIER_BYTES:
                found["identifier"] = str(int.from_bytes(control.content[:_IDENTIFIER_BYTES], sys.byteorder))
        except TargetError:
            pass  # this user may not read it: the server says so itself, when it is up
    try:
        with reach.connect() as connection:
            row = _one(connection, "SELECT pg_is_in_recovery()")
            is_standby = bool(row[0]) if row is not None else False
            identifier = _first(connection, "SELECT system_identifier::text FROM pg_control_system()")
            found |= {"is_standby": is_standby, "timeline": _timeline(connection, is_standby) or None}
            if identifier:
                found["identifier"] = str(identifier)
    except (TargetError, psycopg.Error):
        pass  # it is down, or hangs, or lets nobody in: the restore will say what stands in its way
    return found


def _one(connection: Connection, query: str) -> tuple[Any, ...] | None:
    try:
        return connection.execute(query).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return None


def _first(connection: Connection, query: str) -> Any:
    found = _one(connection, query)
    return found[0] if found is not None else None


def _timeline(connection: Connection, is_standby: bool) -> int:
    if is_standby:
        return int(_first(connection, "SELECT timeline_id FROM pg_control_checkpoint()") or 0)
    name = _first(connection, "SELECT pg_walfile_name(pg_current_wal_lsn())")
    return int(str(name)[:8], 16) if name else 0


def _is_watched(row: Row) -> bool:
    return row.context != "internal" and row.source not in ("client", "session") and row.name not in SECRET


def _shown(row: Row) -> tuple[str, str]:
    where = f"{row.source} {row.file}:{row.line}" if row.file else row.source
    return format_value(row.value, row.unit), where


def _files(connection: Connection, reach: Reach) -> dict[str, str]:
    """Digests of the files that the server would read now: of their bytes where they can be read, else of their entries."""
    entries: dict[str, list[str]] = {}
    try:
        cursor = connection.execute("SELECT sourcefile, name, setting, error FROM pg_file_settings ORDER BY seqno")
        for path, *entry in cursor:
            entries.setdefault(path or "", []).append(repr(entry))
    except psycopg.errors.InsufficientPrivilege:
        entries = {}
    if reach.data_dir is not None:
        config = _first(connection, "SELECT current_setting('config_file', true)")
        for path in (str(reach.data_dir / AUTO_CONF), *([str(config)] if config else [])):
            entries.setdefault(path, [])
    return {path: _digest(path, lines, reach) for path, lines in entries.items() if path}


def _digest(path: str, lines: list[str], reach: Reach) -> str:
    content: bytes | None = "\n".join(lines).encode()
    if reach.data_dir is not None:
        try:
            copy = reach.host.read_file(Path(path))
            content = copy.content if copy is not None else None
        except TargetError:
            pass  # the server may read it, this user may not: its entries must do
    return hashlib.sha256(content).hexdigest() if content is not None else "missing"


def differences(left: Picture, now: Picture) -> Iterator[Disturbance]:
    """What somebody else has done between the two; the most serious first."""
    if left.identifier and now.identifier and left.identifier != now.identifier:
        text = f"another server answers here: system_identifier={now.identifier}, it was {left.identifier}"
        yield another_server(text)
        return
    role = _role(left, now)
    if role:
        yield another_role(role)
        return
    yield from other_configuration((left.files, now.files), (left.settings, now.settings))
    if left.started_at != now.started_at:
        text = f"the server was restarted by somebody else: it started at {now.started_at}, not at {left.started_at}"
        yield restarted(text)


def _role(left: Picture, now: Picture) -> str:
    words = ("a primary", "a standby")
    if left.is_standby != now.is_standby:
        return f"the server's role has changed (failover): it is {words[now.is_standby]} now, it was {words[left.is_standby]}"
    if left.timeline and now.timeline and left.timeline != now.timeline:
        return f"the server's timeline has changed (failover): timeline={now.timeline}, it was {left.timeline}"
    return ""
