"""Visits: looks at a server that follow one another share a connection, and none is open before a load or a stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from trimtab.errors import ApplyError
from trimtab.host import Limits, read_limits
from trimtab.space import Config
from trimtab.systems import catalogued
from trimtab.systems.postgresql import PostgresTarget, embedded
from trimtab.systems.postgresql.autoconf import reload_and_wait
from trimtab.systems.postgresql.session import connect
from trimtab.systems.session import Session, StatementError, require_answer
from trimtab.systems.visit import Visit


class Numbered(Session):
    """Answers nothing, and knows whether it was closed."""

    closed = False

    def has_ended(self) -> bool:
        return self.closed

    def rows(self, statement: Any, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        raise StatementError("cut off", code="", is_lost=True)

    def close(self) -> None:
        self.closed = True


def test_one_connection_serves_a_visit_and_ends_with_it() -> None:
    visit = Visit[Numbered]()
    with visit.begun():
        with visit.session(Numbered) as first:
            pass
        with visit.begun(), visit.session(Numbered) as second:
            assert second is first
        assert not first.closed, "the outer visit goes on"
        visit.end()
        assert first.closed
        with visit.session(Numbered) as third:
            assert third is not first
    assert third.closed


def test_outside_of_a_visit_each_look_has_its_own() -> None:
    visit = Visit[Numbered]()
    with visit.begun():
        pass
    with visit.session(Numbered) as first:
        pass
    assert first.closed
    with visit.session(Numbered) as second:
        assert second is not first


def test_one_that_failed_serves_no_longer() -> None:
    visit = Visit[Numbered]()
    with visit.begun():
        with suppress(StatementError), visit.session(Numbered) as first:
            first.rows("SELECT 1")
        assert first.closed
        with visit.session(Numbered) as second:
            assert second is not first


def test_another_thread_has_a_connection_of_its_own() -> None:
    visit, found = Visit[Numbered](), list[Numbered]()
    with visit.begun(), visit.session(Numbered) as mine:
        other = threading.Thread(target=lambda: found.append(visit.session(Numbered)))
        other.start()
        other.join()
    assert found[0] is not mine
    assert not found[0].closed, "it may be kept: no visit goes on there"


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many there were since it was last asked."""
    made = list[str]()

    def counted(fields: Any, *, application: str = "trimtab", timeout_s: float | None = None) -> Any:
        made.append(application)
        return connect(fields, application=application, timeout_s=timeout_s)

    def count() -> int:
        n_made = len(made)
        made.clear()
        return n_made

    monkeypatch.setattr(embedded, "connect", counted)
    return count


def n_open(target: PostgresTarget) -> int:
    """Connections of ours but that of the question, once those that have ended are gone."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'trimtab' AND pid <> pg_backend_pid()"
    with target._reach.connect() as connection:
        for _ in range(100):
            if not connection.value(asked):
                return 0
            connection.rows("SELECT pg_sleep(0.02)")
        return int(connection.value(asked))


@pytest.mark.service
def test_a_change_logs_in_once_for_each_of_its_steps(target: PostgresTarget, logins: Callable[[], int]) -> None:
    target.snapshot()
    assert logins() == 1
    config = Config({"work_mem": 8192})
    target.preflight(config)
    assert logins() == 1
    target.announce(config)
    logins()
    assert not target.apply(config).restarted
    assert logins() == 4, "to write, to reload, to see what the server uses, and the login that shows that it serves"
    assert n_open(target) == 0
    logins()
    assert target.apply(Config({"shared_buffers": 32768})).restarted
    assert logins() == 5, "and what it uses after its restart"
    assert n_open(target) == 0


@pytest.mark.service
def test_a_check_reads_the_limits_of_the_machine_once_and_the_next_one_afresh(
    target: PostgresTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[int | None]()

    def counted(*, pid: int | None) -> Limits:
        read.append(pid)
        return replace(read_limits(pid=pid), memory_bytes=(64 << 20) * len(read))

    monkeypatch.setattr(catalogued, "read_limits", counted)
    with pytest.raises(ApplyError, match="would take memory=|would take shared_memory="):
        target.preflight(Config({"shared_buffers": 32768}))
    assert len(read) == 1
    for _ in range(30):
        assert target.limits.memory_bytes == (64 << 20) * len(read)
    target.preflight(Config({"shared_buffers": 32768}))
    assert len(read) == 32


@pytest.mark.service
def test_health_is_a_fresh_login_within_a_visit_too(target: PostgresTarget, logins: Callable[[], int]) -> None:
    with target._reach.visit():
        require_answer(target._reach.connect)
        logins()
        target.health()
        assert logins() == 1
        with target._reach.connect() as connection:
            assert connection.value("SELECT 1") == 1
        assert logins() == 0


@pytest.mark.service
def test_what_only_later_sessions_take_is_seen_after_a_reload(target: PostgresTarget) -> None:
    """`log_disconnections` of a session stays as it was at its beginning."""
    with target._reach.visit():
        with target._reach.connect() as connection:
            assert connection.value("SHOW log_disconnections") == "off"
            connection.rows("ALTER SYSTEM SET log_disconnections = on")
        reload_and_wait(target._reach.connect)
        with target._reach.connect() as connection:
            assert connection.value("SHOW log_disconnections") == "on"


@pytest.mark.service
def test_one_that_the_server_has_ended_is_not_lent_again(target: PostgresTarget) -> None:
    with target._reach.visit():
        with target._reach.connect() as connection:
            ended = connection.info.backend_pid
        with connect({"host": connection.info.host, "port": connection.info.port, "user": "postgres"}) as other:
            assert other.value("SELECT pg_terminate_backend(%s, 10000)", [ended])
        with target._reach.connect() as connection:
            assert connection.value("SELECT pg_backend_pid()") != ended
