"""Connections to the server for control, with every way they fail told in plain words and no password in any of them."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymysql
from pymysql.constants import CR

from trimtab.errors import TargetError
from trimtab.host.mysql_client import login, password_from_files
from trimtab.records import Endpoint
from trimtab.systems import session
from trimtab.systems.server_catalog import server_catalog
from trimtab.systems.session import FullError, LoginRefusedError, StatementError, UserFullError

__all__ = ["Session", "connect", "password_of", "uptime_s"]

CONNECT_TIMEOUT_S = 10
_ANSWER_S = 60
"""Longest wait for an answer, where nothing else is said."""
_UNLIMITED = (
    "SET SESSION sql_select_limit = 18446744073709551615, SESSION sql_big_selects = 1"
    " /*!50708 , SESSION max_execution_time = 0 */ /*M!100101 , SESSION max_statement_time = 0 */"
)
"""What limits the statements of people would cut the list of variables, refuse it (max_join_size) or end it on a busy server, and
end a resize of MariaDB's buffer pool half way."""

_LOST = (
    CR.CR_SERVER_LOST,
    CR.CR_SERVER_GONE_ERROR,
    CR.CR_SERVER_LOST_EXTENDED,
    0,
    1053,  # SERVER_SHUTDOWN
    1927,  # CONNECTION_KILLED, of MariaDB
    3169,  # SESSION_WAS_KILLED, of MySQL
    4031,  # CLIENT_INTERACTION_TIMEOUT, of MySQL from 8.0.24 on
)
"""Errors with which a connection ends, whatever was asked."""


class Session(session.Session):
    """See `trimtab.systems.session`."""

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self._connection = connection

    @property
    def socket(self) -> socket.socket:
        """What it goes over, to see who is at its other end; not to be read from."""
        found: socket.socket = self._connection._sock  # type: ignore[attr-defined]
        return found

    def has_ended(self) -> bool:
        """See `Session`: nothing comes from a server that was not asked but its reason for ending."""
        if not self._connection.open:
            return True
        waiting = select.poll()
        waiting.register(self.socket, select.POLLIN)
        return bool(waiting.poll(0))

    @contextmanager
    def patient(self, answer_s: float) -> Iterator[None]:
        """Within it an answer may take at least so long."""
        before = self._connection._read_timeout  # type: ignore[attr-defined]
        self._connection._read_timeout = max(before, answer_s)  # type: ignore[attr-defined]
        try:
            yield
        finally:
            self._connection._read_timeout = before  # type: ignore[attr-defined]

    def close(self) -> None:
        """Ends it; idempotent."""
        if self._connection.open:
            self._connection.close()

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """See `Session`."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement, tuple(parameters) or None)
                return list(cursor.fetchall()) if cursor.description is not None else []
        except pymysql.MySQLError as error:
            code, words = _parts(error)
            raise StatementError(words, code=code, is_lost=code in _LOST, hint="see the server's error log") from error


def uptime_s(session: Session) -> float:
    """Whole seconds since the server's start; 0 when it does not say.

    Raises:
        StatementError: the server is gone.
    """
    rows = session.rows("SHOW GLOBAL STATUS LIKE 'Uptime'")
    return float(rows[0][1]) if rows else 0.0


def connect(endpoint: Endpoint) -> Session:
    """A fresh connection, in no database.

    Raises:
        LoginRefusedError: the server does not let this user in.
        TargetError: it does not answer.
    """
    try:
        connection = login(
            endpoint.host, endpoint.port, endpoint.options, user=endpoint.user, password=password_of(endpoint) or "",
            login_timeout_s=CONNECT_TIMEOUT_S, answer_timeout_s=_ANSWER_S,
        )  # fmt: skip
        return Session(_unlimited(connection))
    except (pymysql.MySQLError, RuntimeError, OSError) as error:
        raise _told(error, endpoint) from error


def _unlimited(connection: pymysql.Connection[Any]) -> pymysql.Connection[Any]:
    """The same, for statements of any length; closed where the server refuses that."""
    try:
        connection.query(_UNLIMITED)
    except BaseException:
        connection.close()
        raise
    return connection


def _told(error: Exception, endpoint: Endpoint) -> TargetError:
    code, words = _parts(error)
    where = f"server={endpoint.host if endpoint.host.startswith('/') else f'{endpoint.host}:{endpoint.port}'}"
    for refusal in server_catalog("mysql").refusal:
        if not refusal.fits(words, code):
            continue
        if refusal.full and not refusal.of_user:
            return FullError(f"cannot log in to {where}: {refusal.says}", hint=refusal.hint)
        who = f"cannot log in to {where} as user={endpoint.user!r}"
        kind = UserFullError if refusal.full else LoginRefusedError
        return kind(f"{who}: {refusal.says}", hint=refusal.hint)
    return TargetError(f"cannot reach {where}: {words}", hint="check that the server runs and that url is right")


def _parts(error: Exception) -> tuple[int, str]:
    """Error number (0: none) and text."""
    if len(error.args) > 1 and isinstance(error.args[0], int):
        return error.args[0], str(error.args[1]).strip()
    return 0, str(error).strip()


def password_of(endpoint: Endpoint) -> str | None:
    """The endpoint's password, or that of its defaults_file, of MYSQL_PWD, or of the [client] group in ~/.my.cnf."""
    if endpoint.password is not None:
        return endpoint.password
    return password_from_files(endpoint.options.get("defaults_file"))
