"""Connections to the server, with every way they fail told in plain words and no password in any of them."""

from __future__ import annotations

import re
import select
import time
from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from trimtab.errors import TargetError
from trimtab.systems import session
from trimtab.systems.postgresql.refusal_code import refusal_code
from trimtab.systems.server_catalog import Refusal, server_catalog
from trimtab.systems.session import LoginRefusedError, NotYetError, Session, StatementError

__all__ = [
    "CONNECT_TIMEOUT_S",
    "Connection",
    "ConnectionLostError",
    "FullError",
    "connect",
    "is_cut_off",
    "redact",
    "require_no_pooler",
]

CONNECT_TIMEOUT_S = 10
_STATEMENT_TIMEOUT_MS = 30_000
_ANSWER_S = 35.0
"""Longest wait for an answer: the server's own time-out first, and ours for one that accepts and never answers."""
_LEAST_S = 2
"""libpq rounds a shorter time for a login up to this."""
_NOT_YET = ("starting up", "shutting down", "in recovery mode", "not yet accepting connections")
_OF_SERVER = re.compile(r"(?:^|: )\S+:  \S", re.MULTILINE)
"""Words of a server begin with their severity, in its language, and two spaces."""
_CUT_OFF = "closed the connection unexpectedly"
_POOLER = "unsupported startup parameter"
"""The words of a pooler about `options`, unless it is told to pass over them."""


class Connection(psycopg.Connection[TupleRow], Session):
    """A connection that waits for no answer longer than `_ANSWER_S`; one whose server hangs is closed by that."""

    def rows(self, statement: str | sql.Composed, parameters: Sequence[Any] = ()) -> list[TupleRow]:
        """See `Session`."""
        query = statement.encode() if isinstance(statement, str) else statement
        try:
            cursor = self.execute(query, parameters or None)
            return cursor.fetchall() if cursor.description is not None else []
        except psycopg.Error as error:
            raise StatementError(
                error.diag.message_primary or str(error).strip(),
                code=error.sqlstate or "",
                is_lost=self.closed or (isinstance(error, psycopg.OperationalError) and error.sqlstate is None),
                is_denied=isinstance(error, psycopg.errors.InsufficientPrivilege),
            ) from error

    def has_ended(self) -> bool:
        """See `Session`: nothing comes from a server that was not asked but its reason for ending, and changed parameters."""
        if self.closed:
            return True
        waiting = select.poll()
        waiting.register(self.fileno(), select.POLLIN)
        return bool(waiting.poll(0))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As any `Session`, and no more: there is nothing to commit, and a server that is gone would make an error of that."""
        Session.__exit__(self, kind, error, trace)

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """As psycopg's, for a limited time.

        Raises:
            psycopg.OperationalError: no answer came.
        """
        return super().wait(self._limited(gen), *args, **kwargs)

    def _limited(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        until = time.monotonic() + _ANSWER_S
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > until:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server gave no answer within timeout_s={_ANSWER_S:g}")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


class ConnectionLostError(TargetError):
    """A connection that worked has ended in the middle of something: read back before anything else."""


class FullError(session.FullError, LoginRefusedError):
    """This server refuses a login while all connections are in use, and says so."""


def is_cut_off(error: Exception) -> bool:
    """Whether the server ended a session without a word, as it does when the session's process dies."""
    return _CUT_OFF in str(error)


def redact(text: str, password: str | None) -> str:
    """`text` without the password."""
    return text.replace(password, "***") if password else text


def connect(fields: Mapping[str, Any], *, application: str = "trimtab", timeout_s: float | None = None) -> Connection:
    """A fresh connection in autocommit mode.

    Raises:
        TargetError: it cannot be made; the message names host, port and user, and never the password.
    """
    options = f"{fields.get('options', '')} -c statement_timeout={_STATEMENT_TIMEOUT_MS}".strip()
    given = {
        **fields,
        "options": options,
        "application_name": application,
        "client_encoding": "utf8",  # a database in SQL_ASCII would give bytes in place of texts
        "connect_timeout": max(_LEAST_S, round(CONNECT_TIMEOUT_S if timeout_s is None else timeout_s)),
    }
    try:
        return Connection.connect(**given, autocommit=True)
    except psycopg.Error as error:
        raise _told(error, given) from None


def require_no_pooler(connection: Connection) -> None:
    """That what `connect` asks for has reached a server.

    Raises:
        TargetError: it has not: `options` were passed over.
    """
    found = connection.value("SELECT setting FROM pg_catalog.pg_settings WHERE name = 'statement_timeout'")
    if found != str(_STATEMENT_TIMEOUT_MS):
        pooler = next(each for each in server_catalog("postgresql").refusal if each.fits(_POOLER))
        told = f"statement_timeout={found} there, and not {_STATEMENT_TIMEOUT_MS} as the login asks for"
        raise TargetError(f"{pooler.says}: {told}", hint=pooler.hint)


def _says_not_yet(error: psycopg.Error, given: Mapping[str, Any]) -> bool:
    """Whether the server says that it takes no logins now, in whatever language: libpq asks it again, and goes by the code, which
    psycopg does not show. One that did not answer is not asked: this process stands still meanwhile."""
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return False
    try:
        return pq.PGconn.ping(make_conninfo(**{**given, "connect_timeout": _LEAST_S}).encode()) == pq.Ping.REJECT
    except psycopg.Error:
        return False


def _told(error: psycopg.Error, given: Mapping[str, Any]) -> TargetError:
    """Why a login with what is `given` failed: by words first, for they say more than a code, and libpq's are English always."""
    password = given.get("password")
    text = redact(" ".join(str(error).split()), None if password is None else str(password))
    where = " ".join(f"{key}={given[key]}" for key in ("host", "port", "user", "dbname") if given.get(key))
    refusal = _refusal(text)
    if refusal is None and (any(mark in text for mark in _NOT_YET) or _says_not_yet(error, given)):
        return NotYetError(f"the server does not accept logins yet: {where}: {text}", hint="wait, and look at its log")
    if refusal is None and _OF_SERVER.search(str(error)):
        refusal = _refusal(text, refusal_code(given, _LEAST_S))
    if refusal is not None:
        kind = FullError if refusal.full else LoginRefusedError
        return kind(f"{refusal.says}: {where}: {text}", hint=refusal.hint)
    return TargetError(
        f"cannot connect to the server: {where}: {text}", hint="check that it runs, and host and port in url"
    )


def _refusal(text: str, code: str = "") -> Refusal | None:
    return next((each for each in server_catalog("postgresql").refusal if each.fits(text, code)), None)
