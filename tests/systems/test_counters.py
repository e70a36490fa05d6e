"""The server's own counters, on real servers of two versions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from trimtab.errors import TargetError
from trimtab.systems import CountingTarget
from trimtab.systems.plays import shipped_plays
from trimtab.systems.postgresql.session import Connection
from trimtab.systems.postgresql.target import PostgresTarget
from trimtab.systems.server_catalog import server_catalog

pytestmark = pytest.mark.service


@contextmanager
def something_written(target: PostgresTarget) -> Iterator[None]:
    """A table of 20,000 rows, written and read once; a table that is dropped takes its counts along."""
    endpoint = target.endpoint()
    to = {"host": endpoint.host, "port": endpoint.port, "user": endpoint.user, "dbname": endpoint.database}
    with psycopg.connect(**to, password=endpoint.password) as connection:
        connection.execute("create table counted as select g from generate_series(1, 20000) g")
        connection.execute("select count(*) from counted")
    yield
    with psycopg.connect(**to, password=endpoint.password) as connection:
        connection.execute("drop table counted")


def test_work_is_counted(target: PostgresTarget) -> None:
    assert isinstance(target, CountingTarget)
    before = target.counters()
    with something_written(target):
        # A session hands its counts over when it ends, which the client does not wait for; a look costs some rows itself.
        for _ in range(40):
            after = target.counters()
            if after["database.tup_returned"] >= before["database.tup_returned"] + 20_000:
                break
            time.sleep(0.5)
    assert after["database.tup_inserted"] >= before["database.tup_inserted"] + 20_000
    assert after["database.tup_returned"] >= before["database.tup_returned"] + 20_000
    # A counter that was never touched may not be there before.
    gone_up = {name for name, value in after.items() if value > before.get(name, 0.0)}
    assert {"database.xact_commit", "database.blks_hit", "wal.wal_bytes", "io.relation.hits"} <= gone_up
    assert all(value >= before.get(name, 0.0) for name, value in after.items())
    assert "bgwriter.buffers_alloc" in after
    assert ("checkpointer.num_timed" in after) == (target.machine().server_version >= "PostgreSQL 17")


def test_what_a_play_needs_is_counted(target: PostgresTarget) -> None:
    """By the newest server; an older one lacks some counts, and a play that needs one of these is tried there."""
    known = server_catalog("postgresql").knob
    plays = shipped_plays("postgresql", frozenset(known), frozenset()).play
    needed = {count for play in plays.values() for count in play.counts}
    assert len(needed) >= 10
    missing = needed - target.counters().keys()
    if target.machine().server_version >= "PostgreSQL 18":
        assert not missing
    else:
        assert "database.parallel_workers_to_launch" in missing


def test_what_does_not_count_up_is_left_out(target: PostgresTarget) -> None:
    names = target.counters()
    assert not {"database.datid", "database.numbackends"} & set(names)
    assert all(isinstance(value, float) for value in names.values())


def test_a_server_that_is_gone_is_told(opened: PostgresTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = Connection.execute

    def gone(self: Connection, query: bytes, *more: Any, **options: Any) -> object:
        if b"pg_stat" in query:
            raise psycopg.OperationalError("terminating connection")
        return execute(self, query, *more, **options)

    monkeypatch.setattr(Connection, "execute", gone)
    with pytest.raises(TargetError, match="the server's counters cannot be read: terminating connection"):
        opened.counters()
