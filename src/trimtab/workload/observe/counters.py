"""What a server counts of the statements that others send: read once a second, over one connection."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol

from trimtab.errors import LoadError
from trimtab.workload.server import Session
from trimtab.workload.stat_statements import schema_of_statistics

__all__ = ["STATISTICS", "Counted", "Counters", "Statistics", "counters_of"]

Statistics = Literal["auto", "statements", "transactions"]
STATISTICS: tuple[Statistics, ...] = ("auto", "statements", "transactions")

_ACTIVE_TIME_VERSION = 140_000
"""From PostgreSQL 14 on, a database counts the time that its sessions spent in statements."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a server has counted since some moment of its own.

    Attributes:
        n: statements or transactions.
        busy_s: how long they took together; None when it does not count that.
        by_us: how many took so many microseconds; empty when it keeps no distribution.
    """

    n: float
    busy_s: float | None = None
    by_us: dict[int, int] = field(default_factory=dict)


class Counters(Protocol):
    """One way in which a server counts.

    * `what`: of what: "statement" or "transaction".
    * `source`: where the server keeps it, for people.
    * `read(session)`: what it has counted so far. Raises `LoadError`.
    """

    what: str
    source: str

    def read(self, session: Session) -> Counted: ...


class PostgresStatements:
    """pg_stat_statements of the database, without the texts, which lie in a file. Means only."""

    what, source = "statement", "pg_stat_statements"

    def __init__(self, *, schema: str, has_levels: bool) -> None:
        # What a function runs, which is counted besides with track = all, is within the statement that calls it.
        asked = " AND toplevel" if has_levels else ""
        self._read = (
            "SELECT coalesce(sum(calls), 0)::float8, coalesce(sum(total_exec_time), 0)::float8 / 1000"
            f" FROM {schema}pg_stat_statements(false)"
            f" WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()){asked}"
        )

    def read(self, session: Session) -> Counted:
        """Calls and their time. Statements that the server forgets to make room make them fall."""
        ((n, busy_s),) = session.execute(self._read)
        return Counted(float(n), float(busy_s))


class PostgresTransactions:
    """Transactions of the database, and from version 14 on the time that its sessions were in statements."""

    what, source = "transaction", "pg_stat_database"

    def __init__(self, *, has_time: bool) -> None:
        self._time = "active_time / 1000" if has_time else "NULL"
        self._n_reads = 0

    def read(self, session: Session) -> Counted:
        """Those of others: each earlier look was a transaction, too."""
        ((n, busy_s),) = session.execute(
            f"SELECT (xact_commit + xact_rollback)::float8, ({self._time})::float8"
            " FROM pg_stat_database WHERE datname = current_database()"
        )
        self._n_reads += 1
        return Counted(float(n) - (self._n_reads - 1), None if busy_s is None else float(busy_s))


class MysqlStatements:
    """Statements of the whole server by its performance schema, with their distribution where it keeps one (MySQL 8.0); it holds
    more than statements: what procedures run, pings, what is prepared."""

    what, source = "statement", "performance_schema"
    _READ = (
        "SELECT COALESCE(SUM(COUNT_STAR), 0), COALESCE(SUM(SUM_TIMER_WAIT), 0) / 1e12"
        " FROM performance_schema.events_statements_summary_global_by_event_name"
        " WHERE EVENT_NAME LIKE 'statement/sql/%' OR EVENT_NAME = 'statement/com/Execute'"
    )
    _BUCKETS = (
        # The last bucket, of statements that take more than two hours, ends at the largest number that there is.
        "SELECT LEAST(BUCKET_TIMER_LOW / 2e6 + BUCKET_TIMER_HIGH / 2e6, 3.6e9), COUNT_BUCKET"
        " FROM performance_schema.events_statements_histogram_global WHERE COUNT_BUCKET > 0"
    )

    def __init__(self, *, has_distribution: bool) -> None:
        self._has_distribution = has_distribution
        self._is_first = True

    def read(self, session: Session) -> Counted:
        """All of them since the server started or was told to forget.

        Number and distribution are read one after the other. The first look reads the distribution first, later ones last, so
        that it holds every statement that was counted between two looks.
        """
        before = self._distribution(session) if self._is_first else {}
        ((n, busy_s),) = session.execute(self._READ)
        by_us = before if self._is_first else self._distribution(session)
        self._is_first = False
        return Counted(float(n), float(busy_s), by_us)

    def _distribution(self, session: Session) -> dict[int, int]:
        rows = session.execute(self._BUCKETS) if self._has_distribution else []
        by_us: dict[int, int] = {}
        for us, count in rows:
            # Buckets of statements of some ten microseconds are narrower than one.
            rounded = max(1, round(us))
            by_us[rounded] = by_us.get(rounded, 0) + int(count)
        return by_us


class MysqlQuestions:
    """Statements of the whole server by its status: no time."""

    what, source = "statement", "the status variable Questions"

    def read(self, session: Session) -> Counted:
        """All since the server started."""
        ((_, n),) = session.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
        return Counted(float(n))


def counters_of(session: Session, protocol: str, statistics: Statistics) -> Counters:
    """The best of what the server counts, or what `statistics` asks for.

    Raises:
        LoadError: it does not count what is asked for.
    """
    chosen = _postgres(session, statistics) if protocol == "postgresql" else _mysql(session, statistics)
    if chosen is None:
        raise LoadError(
            f'[workload] statistics="{statistics}": this server does not count {statistics}',
            hint='use statistics = "auto", or switch on what is missing: docs/reference/observe.md',
        )
    return chosen


def _postgres(session: Session, statistics: Statistics) -> Counters | None:
    if statistics != "transactions" and (found := _postgres_statements(session)) is not None:
        return found
    if statistics == "statements":
        return None
    ((version,),) = session.execute("SHOW server_version_num")
    return PostgresTransactions(has_time=int(version) >= _ACTIVE_TIME_VERSION)


def _postgres_statements(session: Session) -> PostgresStatements | None:
    """None where it is not made in this database, not loaded by the server, older than it, or not for this user."""
    for has_levels in (True, False):  # from its version 1.9 on
        with suppress(LoadError):
            schema, level = schema_of_statistics(session.execute), ", toplevel" if has_levels else ""
            session.execute(f"SELECT total_exec_time{level} FROM {schema}pg_stat_statements(false) LIMIT 1")
            return PostgresStatements(schema=schema, has_levels=has_levels)
    return None


def _mysql(session: Session, statistics: Statistics) -> Counters | None:
    if statistics == "transactions":
        return None
    ((is_on,),) = session.execute("SELECT @@performance_schema")
    if int(is_on):
        try:
            session.execute("SELECT 1 FROM performance_schema.events_statements_summary_global_by_event_name LIMIT 1")
        except LoadError:
            is_on = 0
    if not int(is_on):
        return None if statistics == "statements" else MysqlQuestions()
    try:
        session.execute("SELECT 1 FROM performance_schema.events_statements_histogram_global LIMIT 1")
    except LoadError:  # MariaDB and MySQL 5.7 have no such table
        return MysqlStatements(has_distribution=False)
    return MysqlStatements(has_distribution=True)
