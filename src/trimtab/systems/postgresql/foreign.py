"""How a PostgreSQL server is looked at: which one it is, its files and settings; see `Picture`."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

from trimtab.errors import TargetError
from trimtab.systems.files import digest_at
from trimtab.systems.picture import Picture
from trimtab.systems.postgresql.catalogue import is_kept, read_rows
from trimtab.systems.postgresql.reach import AUTO_CONF, Reach
from trimtab.systems.postgresql.session import Connection
from trimtab.systems.session import StatementError
from trimtab.units import format_value

__all__ = ["identifier_in_files", "take_picture", "who_answers"]

_IDENTIFIER_BYTES = 8
"""pg_control begins with the system identifier (ControlFileData, src/include/catalog/pg_control.h)."""


def take_picture(reach: Reach) -> Picture:
    """The server as it is now; "" and {} where this user may not see.

    Raises:
        TargetError: it does not answer.
    """
    try:
        with reach.connect() as connection:
            is_standby, started_at = connection.rows("SELECT pg_is_in_recovery(), pg_postmaster_start_time()::text")[0]
            return Picture(
                who={
                    "identifier": _identifier(connection),
                    "timeline": _timeline(connection, is_standby),
                    "is_standby": bool(is_standby),
                },
                role="a standby" if is_standby else "a primary",
                calls="system_identifier",
                instance=str(started_at),
                began=str(started_at),
                files=_files(connection, reach),
                ours=frozenset({AUTO_CONF}),
                settings={
                    name: (format_value(row.value, row.unit), row.where)
                    for name, row in read_rows(connection).items()
                    if is_kept(row)
                },
            )
    except StatementError as error:
        raise TargetError(f"the server's state cannot be read: {error.message}", hint="see its log") from error


def _identifier(connection: Connection) -> str:
    return str(_first(connection, "SELECT system_identifier::text FROM pg_control_system()") or "")


def identifier_in_files(reach: Reach) -> dict[str, str]:
    """The identifier of the server's files, whether it is up or not; {} where this user may not read it."""
    if reach.data_dir is None:
        return {}
    try:
        control = reach.host.read_file(reach.data_dir / "global" / "pg_control")
    except TargetError:
        return {}  # the server says so itself, when it is up
    if control is None or len(control.content) < _IDENTIFIER_BYTES:
        return {}
    return {"identifier": str(int.from_bytes(control.content[:_IDENTIFIER_BYTES], sys.byteorder))}


def who_answers(connection: Connection) -> dict[str, Any]:
    """Identifier, role and timeline as far as they can be seen now."""
    is_standby, identifier = bool(_first(connection, "SELECT pg_is_in_recovery()")), _identifier(connection)
    found = {"is_standby": is_standby, "timeline": _timeline(connection, is_standby) or None}
    return found | ({"identifier": identifier} if identifier else {})


def _first(connection: Connection, query: str) -> Any:
    found = connection.seen(query)
    return found[0][0] if found else None


def _timeline(connection: Connection, is_standby: bool) -> int:
    if is_standby:
        return int(_first(connection, "SELECT timeline_id FROM pg_control_checkpoint()") or 0)
    name = _first(connection, "SELECT pg_walfile_name(pg_current_wal_lsn())")
    return int(str(name)[:8], 16) if name else 0


def _files(connection: Connection, reach: Reach) -> dict[str, str]:
    """Digests of the files that the server would read now: of their bytes where they can be read, else of their entries."""
    entries: dict[str, list[str]] = {}
    files = "SELECT sourcefile, name, setting, error FROM pg_file_settings ORDER BY seqno"
    for path, *entry in connection.seen(files) or ():
        entries.setdefault(path or "", []).append(repr(entry))
    if reach.data_dir is not None:
        config = _first(connection, "SELECT current_setting('config_file', true)")
        for path in (str(reach.data_dir / AUTO_CONF), *([str(config)] if config else [])):
            entries.setdefault(path, [])
    return {path: _digest(path, lines, reach) for path, lines in entries.items() if path}


def _digest(path: str, lines: list[str], reach: Reach) -> str:
    """Of its bytes; of its entries where the server may read it and this user may not."""
    of_bytes = digest_at(reach.host, path) if reach.data_dir is not None else ""
    return of_bytes or hashlib.sha256("\n".join(lines).encode()).hexdigest()
