"""One tuner per server: the advisory lock inside PostgreSQL."""

from __future__ import annotations

import os
import platform

import psycopg

from trimtab.systems.lock import ServerLock
from trimtab.systems.postgresql.session import Connection

__all__ = ["TunerLock"]

_KEY = 0x7472_696D_7461_6221  # "trimtab!"
_PREFIX = "trimtab lock: "


class TunerLock(ServerLock[Connection]):
    """Both locks of one server."""

    def _take(self, connection: Connection, holder: str) -> str | None:
        found = connection.execute("SELECT pg_try_advisory_lock(%s)", [_KEY]).fetchone()
        other = _other_holder(connection)
        if found is None or not found[0] or other is not None:
            return other or "it does not show itself"
        # Named only now, so that one who is refused is not taken for the holder. A name holds 63 bytes: the host comes
        # first, since it says where to look.
        name = f"{_PREFIX}{platform.node()[:16]} pid={os.getpid()} study={holder}"[:63]
        connection.execute("SELECT set_config('application_name', %s, false)", [name])
        return None

    def _answers(self, connection: Connection) -> bool:
        if connection.closed:
            return False
        try:
            connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True


def _other_holder(connection: Connection) -> str | None:
    """The holder in any database of the server (an advisory lock is known in its own database only)."""
    found = connection.execute(
        "SELECT substr(application_name, %s),"
        " to_char(backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
        " FROM pg_stat_activity WHERE application_name LIKE %s AND pid <> pg_backend_pid()"
        " ORDER BY backend_start LIMIT 1",
        [len(_PREFIX) + 1, f"{_PREFIX}%"],
    ).fetchone()
    return f"host={found[0]} since={found[1] or 'unknown'}" if found is not None else None
