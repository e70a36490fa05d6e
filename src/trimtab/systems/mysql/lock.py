"""One tuner per server: the named lock inside MySQL or MariaDB."""

from __future__ import annotations

from trimtab.systems.lock import ServerLock
from trimtab.systems.mysql.session import Session, StatementError

__all__ = ["TunerLock"]

_NAME = "trimtab tuner"
_IDLE_S = 31_536_000
"""The connection that holds the lock is idle for as long as a study takes."""


class TunerLock(ServerLock[Session]):
    """Both locks of one server."""

    def _take(self, connection: Session, holder: str) -> str | None:
        connection.execute(f"SET SESSION wait_timeout = {_IDLE_S}")
        return None if connection.value("SELECT GET_LOCK(%s, 0)", [_NAME]) == 1 else _other_holder(connection)

    def _answers(self, connection: Session) -> bool:
        try:
            connection.execute("SELECT 1")
        except StatementError:
            return False
        return True


def _other_holder(session: Session) -> str:
    """The connection that has the lock, with where it comes from as far as this user may see it."""
    number = session.value("SELECT IS_USED_LOCK(%s)", [_NAME])
    rows = session.execute("SELECT user, host FROM information_schema.processlist WHERE id = %s", [number])
    return f"connection={number} user={rows[0][0]} from={rows[0][1]}" if rows else f"connection={number}"
