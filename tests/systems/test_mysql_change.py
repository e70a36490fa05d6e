"""What SET GLOBAL does behind one's back on a real MariaDB."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.needs import require
from tests.servers.embedded import provide
from trimtab.errors import ApplyError, ForeignChangeError
from trimtab.records import Context, Endpoint
from trimtab.space import Config
from trimtab.systems.knobs import Reading
from trimtab.systems.mysql import MysqlTarget, embedded
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.mysql.pending import starts_so
from trimtab.systems.mysql.session import Session, connect
from trimtab.systems.mysql.set_global import set_dynamic
from trimtab.systems.plays import shipped_plays
from trimtab.workload.observe import ObserveWorkload

pytestmark = [pytest.mark.service]


@pytest.fixture(scope="module")
def target(cache: Path, state_dir: Path) -> Iterator[MysqlTarget]:
    require("mariadb")
    table = {"kind": "mariadb", "embedded": "mariadb", "memory": "1GiB", "knobs": "all"}
    provide(cache, "mariadb", name="change")
    target = MysqlTarget.from_settings("change", table, state_dir=state_dir)
    target.open()
    yield target
    target.close()


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[MysqlTarget]:
    """One whose log is no memory, where it has no buffer."""
    require("mariadb")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("TRIMTAB_CACHE", f"{folder}/cache")
        table = {"kind": "mariadb", "embedded": "mariadb", "memory": "1GiB", "knobs": "all"}
        provide(Path(folder) / "cache", "mariadb", name="log")
        target = MysqlTarget.from_settings("log", table, state_dir=Path(folder) / "state")
        target.open()
        try:
            yield target
        finally:
            target.close()


def _running(target: MysqlTarget, name: str) -> object:
    return target.states()[name].running


def test_what_a_play_needs_is_counted(target: MysqlTarget) -> None:
    plays = shipped_plays("mysql", frozenset(CATALOG.knob), frozenset()).play
    needed = {count for play in plays.values() for count in play.counts}
    assert len(needed) >= 8
    assert needed <= target.counters().keys()


def wait_until(is_so: Callable[[], bool]) -> None:
    """A server takes a moment to end a session."""
    until = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_change_logs_in_once_for_each_of_its_steps(target: MysqlTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[Endpoint]()

    def counted(endpoint: Endpoint) -> Session:
        made.append(endpoint)
        return connect(endpoint)

    def logins() -> int:
        n_made = len(made)
        made.clear()
        return n_made

    monkeypatch.setattr(embedded, "connect", counted)
    found, config = target.snapshot(), Config({"sort_buffer_size": 1 << 20})
    assert logins() == 1
    target.preflight(config)
    assert logins() == 1
    target.announce(config)
    logins()
    assert not target.apply(config).restarted
    assert logins() == 3, "to write, to set, and the login that shows that it serves"
    with target._reach.connect() as session:
        others = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'root' AND id <> CONNECTION_ID()"
        wait_until(lambda: session.value(others) == 0)
    target.restore(found)


def test_one_that_the_server_has_ended_is_not_lent_again(target: MysqlTarget) -> None:
    with target._reach.visit():
        with target._reach.connect() as session:
            ended = session.value("SELECT CONNECTION_ID()")
        with connect(target.endpoint()) as other:
            other.rows(f"KILL {ended}")
            wait_until(lambda: not other.rows(f"SELECT 1 FROM information_schema.processlist WHERE id = {ended}"))
        with target._reach.connect() as session:
            assert session.value("SELECT CONNECTION_ID()") != ended


def test_what_limits_the_statements_of_people_does_not_cut_what_is_asked(target: MysqlTarget) -> None:
    limits = {"sql_select_limit": "10", "max_statement_time": "0.2"}
    with target._reach.connect() as session:
        try:
            for name, value in limits.items():
                session.rows(f"SET GLOBAL {name} = {value}")
            assert {"aria_pagecache_buffer_size", "thread_stack"} <= target.states().keys()
            with connect(target.endpoint()) as other:
                assert other.value("SELECT SLEEP(0.4)") == 0
        finally:
            for name in limits:
                session.rows(f"SET GLOBAL {name} = DEFAULT")


def test_a_start_switches_on_a_query_cache_that_has_a_size_whatever_its_type(target: MysqlTarget) -> None:
    """So no type OFF is searched where one was found in use, and nothing waits for a restart; a size of 0 outlasts a start."""
    assert target.private_folder is not None
    file = target.private_folder / "conf.d" / "theirs.cnf"
    file.write_text("[mysqld]\nquery_cache_type = OFF\nquery_cache_size = 16M\n")
    try:
        target._reach.restart()
        found = target.snapshot()
        assert found.values["query_cache_type"] == "ON"
        rules = target.constraints(("query_cache_type",), Context("reads", clients=1))
        assert "query_cache_type != 'OFF'" in [rule.text for rule in rules]
        target.apply(Config({"query_cache_size": 0}))
        target._reach.restart()
        assert _running(target, "query_cache_size") == 0
        target.restore(found)
        assert _running(target, "query_cache_size") == 16 << 20
    finally:
        file.unlink()
        target._reach.restart()


def test_the_pools_variables_are_left_alone_without_a_pool(target: MysqlTarget) -> None:
    found = target.snapshot()
    size = _running(target, "thread_pool_size")
    assert size != 0
    target.apply(Config({"thread_pool_size": 3, "sort_buffer_size": 1 << 20}))
    assert _running(target, "thread_pool_size") == size
    target.restore(found)
    assert _running(target, "thread_pool_size") == size


def test_the_pool_gets_its_size_with_the_restart_that_makes_it(target: MysqlTarget) -> None:
    found = target.snapshot()
    applied = target.apply(Config({"thread_handling": "pool-of-threads", "thread_pool_size": 3}))
    assert applied.restarted
    assert applied.effective == {"thread_handling": "pool-of-threads", "thread_pool_size": 3}
    target.apply(Config({"thread_handling": "pool-of-threads", "thread_pool_size": 5}))
    assert _running(target, "thread_pool_size") == 5
    target.restore(found)
    assert _running(target, "thread_handling") == "one-thread-per-connection"


def test_a_log_gets_smaller_than_its_buffer_was(on_disk: MysqlTarget) -> None:
    """Its size counts at once, unless it is below that of the buffer, which only a restart makes smaller."""
    target, log, buffer = on_disk, "innodb_log_file_size", "innodb_log_buffer_size"
    found = target.snapshot()
    large, small = Config({log: 256 << 20, buffer: 128 << 20}), Config({log: 64 << 20, buffer: 32 << 20})
    target.apply(large)
    with target._reach.connect() as session:
        now = {log: target._variables(session)[log]}
        with pytest.raises(ApplyError, match=f"the server refuses {log}=67108864: .*innodb_log_buffer_size"):
            set_dynamic(session, now, small, resize_s=1)
    applied = target.apply(small)
    assert (dict(applied.effective), applied.restarted) == (dict(small), True)
    target.apply(large)
    undone = target.restore(found)
    assert undone.restarted
    assert not undone.left
    assert (_running(target, log), _running(target, buffer)) == (found.values[log], found.values[buffer])


def test_an_option_file_put_back_by_somebody_else_at_once_is_told(
    target: MysqlTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As configuration management does: that is no config that failed."""
    found = target.snapshot()
    path, restart = Path(next(iter(found.files))), target._reach.restart
    size = _running(target, "thread_stack")

    def restart_after_them() -> None:
        path.unlink()
        restart()

    with monkeypatch.context() as patch:
        patch.setattr(target._reach, "restart", restart_after_them)
        with pytest.raises(
            ForeignChangeError, match=r"file=.*zz-trimtab.cnf' was changed by somebody else while Trimtab changed it"
        ):
            target.apply(Config({"thread_stack": 262144}))
    assert not path.exists()
    assert _running(target, "thread_stack") == size


class Killed(BaseException):
    """Ends a tuner where it is: no handler takes anything back."""


def _set_global(target: MysqlTarget, name: str, value: object) -> None:
    with target._reach.connect() as session:
        session.rows(f"SET GLOBAL {name} = {value}")


def _killed_after_its_restart(target: MysqlTarget, monkeypatch: pytest.MonkeyPatch, **config: int) -> None:
    """A change whose tuner ends as soon as the server answers again."""
    restart = target._reach.restart

    def restart_and_end() -> None:
        restart()
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(target._reach, "restart", restart_and_end)
        with pytest.raises(Killed):
            target.apply(Config(dict(config)))


@pytest.mark.parametrize("name", ["max_connections", "sort_buffer_size"])
def test_what_stood_by_set_global_comes_back_after_a_kill_round_our_restart(
    target: MysqlTarget, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The server answers already when the undo looks: it needs no restart, and has begun without what no file holds. Once it is a
    setting that the trial leaves alone, once one that it sets."""
    usual, theirs = _running(target, name), 1 << 19
    assert isinstance(usual, int)
    theirs = 500 if name == "max_connections" else theirs
    _set_global(target, name, theirs)
    try:
        found = target.snapshot()
        _killed_after_its_restart(target, monkeypatch, thread_stack=262144, sort_buffer_size=1 << 20)
        own = target._sentry.own
        assert not own.is_whole
        if name == "max_connections":
            assert _running(target, name) == usual, "the restart has lost it"
        target.restore(found, own)
        assert _running(target, name) == theirs
        target.restore(found)
    finally:
        _set_global(target, name, usual)


def test_what_was_set_after_that_restart_stays(target: MysqlTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = _running(target, "max_connections")
    found = target.snapshot()
    _killed_after_its_restart(target, monkeypatch, thread_stack=262144)
    _set_global(target, "max_connections", 777)
    try:
        target.restore(found, target._sentry.own)
        assert _running(target, "max_connections") == 777
        target.restore(found)
    finally:
        _set_global(target, "max_connections", usual)


def test_what_a_session_keeps_is_what_the_server_says(target: MysqlTarget) -> None:
    with target._reach.connect() as session:
        rows = session.rows("SELECT LOWER(variable_name), variable_scope FROM information_schema.system_variables")
    told = {name for name, scope in rows if scope == "SESSION"}
    curated = {name: knob for name, knob in CATALOG.known(product="mariadb").items() if name in dict(rows)}
    assert {name for name, knob in curated.items() if knob.per_session} == told & set(curated)


OBSERVED = ObserveWorkload.from_settings({"kind": "observe"}).context
OWN = Context("suite", clients=8, read_share=0.5)


def _choosing(target: MysqlTarget, monkeypatch: pytest.MonkeyPatch, *knobs: str) -> None:
    monkeypatch.setattr(target, "settings", target.settings.model_copy(update={"knobs": knobs}))


def test_under_an_applications_sessions_sets_leave_out_what_these_would_not_take(
    target: MysqlTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    _choosing(target, monkeypatch, "performance", "mrr_buffer_size")
    assert {"sort_buffer_size", "join_cache_level", "innodb_io_capacity"} <= set(target.selection(OWN))
    assert target.notes() == ()
    chosen = target.selection(OBSERVED)
    assert "innodb_io_capacity" in chosen
    assert [name for name in chosen if CATALOG.knob[name].per_session] == ["mrr_buffer_size"]
    left_out, named = target.notes()
    assert left_out.startswith("left out, because connections that are open keep the value that they began with: ")
    assert {"sort_buffer_size", "join_cache_level"} <= set(left_out.rpartition(": ")[2].split(", "))
    assert named.endswith(" keep them, after the undo too: mrr_buffer_size")
    target.selection(OWN)
    assert target.notes() == ()


@pytest.mark.parametrize(
    ("name", "text", "start", "expected"),
    [
        ("wait_timeout", "28800", {"wait_timeout": "28800"}, True),
        ("wait_timeout", "60", {"wait_timeout": "28800"}, False),
        ("wait_timeout", "28800", {}, False),
        ("unique_checks", "ON", {"wait_timeout": "28800"}, True),
        ("unique_checks", "OFF", {"wait_timeout": "28800"}, False),
    ],
)
def test_what_a_session_has_set_is_told_from_what_a_restart_would_lose(
    name: str, text: str, start: dict[str, str], expected: bool
) -> None:
    variable = Reading(
        name=name, text=text, kind="integer" if text.isdigit() else "bool", default=None, low=None, high=None, block=1,
        choices=(), is_late=False, source="SET GLOBAL", file="",
    )  # fmt: skip
    assert starts_so(variable, start) is expected
