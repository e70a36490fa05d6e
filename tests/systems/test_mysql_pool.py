"""The buffer pool of MySQL and MariaDB: how far a server lets it grow, what it makes of a size, and the end of a resize."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.fetch_servers import MYSQL_8_0, require_server
from tests.needs import require
from tests.servers.embedded import provide
from tests.systems.mysql_shapes import MARIADB_ROWS
from tests.systems.test_mysql_catalogue import BOUNDS, mysql_states
from trimtab.errors import ApplyError, TargetError
from trimtab.records import Context
from trimtab.space import Config, RestartClass, Space
from trimtab.systems.base import Snapshot
from trimtab.systems.mysql import MysqlTarget
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.mysql.pending import require_settled
from trimtab.systems.mysql.pool import MEMORY_FACTS
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.set_global import Resize, resize_of, set_dynamic
from trimtab.systems.mysql.variables import from_mariadb
from trimtab.systems.plays import shipped_plays
from trimtab.systems.rules import advised, check_rules, constraints, memory_of

GIB, MIB = 1 << 30, 1 << 20
POOL, POOL_MAX = "innodb_buffer_pool_size", "innodb_buffer_pool_size_max"
TEXT, CODE = "Innodb_buffer_pool_resize_status", "Innodb_buffer_pool_resize_status_code"
ROW = (POOL, "134217728", "COMPILE-TIME", "134217728", "BIGINT UNSIGNED", "2097152", "18446744073701163008", "1048576", None,
       "NO", None)  # fmt: skip
BUSY = {TEXT: "Withdrawing blocks to be shrunken.", CODE: "3"}
WAITS = "the option files hold changes that wait for a restart"
IDLE = {TEXT: "Completed resizing buffer pool at 261122  2:20:01.", CODE: "0"}
FAILED = {TEXT: "Resizing buffer pool failed, finished resizing at 261122  2:20:01.", CODE: "7"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, Resize.DONE),
        ({TEXT: "Size did not change (old size = new size = 1342177280. Nothing to do.", CODE: "0"}, Resize.DONE),
        (BUSY, Resize.BUSY),
        (FAILED, Resize.FAILED),
        ({TEXT: FAILED[TEXT]}, Resize.FAILED),
        ({TEXT: "Requested to resize buffer pool.", CODE: "7"}, Resize.BUSY),
        ({TEXT: "Completed resizing buffer pool at 261122  2:20:01."}, Resize.DONE),
        ({TEXT: "Resizing also other hash tables."}, Resize.BUSY),
    ],
)
def test_the_end_of_a_resize_is_known(status: Mapping[str, str], expected: Resize) -> None:
    assert resize_of({name.lower(): text for name, text in status.items()}) is expected


class Resizing:
    """A server whose resize goes through these statuses; the last stays. It refuses a second one meanwhile, as MySQL does."""

    def __init__(self, *after: Mapping[str, str], before: Sequence[Mapping[str, str]] = (IDLE,)) -> None:
        self.statuses, self.after, self.size, self.is_patient = list(before), list(after), 128 * MIB, False

    def rows(self, statement: str) -> list[tuple[str, str]]:
        if statement.startswith("SHOW"):
            status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
            return list(status.items())
        assert self.is_patient
        assert self.statuses[0] != BUSY, "another buffer pool resize is already in progress"
        self.size, self.statuses = int(statement.rpartition("= ")[2]), self.after
        return []

    def value(self, statement: str) -> int:
        return self.size

    @contextmanager
    def patient(self, answer_s: float) -> Iterator[None]:
        self.is_patient = True
        yield
        self.is_patient = False


def _resize(server: Resizing, *, resize_s: float = 5.0) -> None:
    set_dynamic(cast(Session, server), from_mariadb([ROW]), {POOL: 256 * MIB}, resize_s=resize_s)


def test_a_resize_is_waited_for() -> None:
    server = Resizing(BUSY, BUSY, IDLE)
    _resize(server)
    assert (server.size, len(server.after)) == (256 * MIB, 1)


def test_a_redo_log_is_given_as_long() -> None:
    """MariaDB from 10.9 on answers when the pages of a checkpoint are written; who hangs up leaves it at that, and is refused
    the old size meanwhile."""
    server = Resizing(IDLE)
    now = {name: reading for name, reading in from_mariadb(MARIADB_ROWS).items() if name == "innodb_log_file_size"}
    set_dynamic(cast(Session, server), now, {"innodb_log_file_size": 512 * MIB}, resize_s=5.0)
    assert server.size == 512 * MIB


def test_a_resize_that_an_earlier_change_has_begun_is_waited_for_first() -> None:
    server = Resizing(IDLE, before=(BUSY, BUSY, IDLE))
    _resize(server)
    assert server.size == 256 * MIB


def test_a_resize_that_fails_or_does_not_end_is_no_config_to_measure() -> None:
    with pytest.raises(
        ApplyError, match=r"could not resize its buffer pool to 268435456 bytes: Resizing buffer pool fail"
    ):
        _resize(Resizing(BUSY, FAILED))
    with pytest.raises(
        ApplyError, match=r"still resizing its buffer pool .* after restart_timeout_s=0\.1: Withdraw"
    ) as late:
        _resize(Resizing(BUSY), resize_s=0.1)
    assert "restart_timeout_s" in str(late.value.hint)


def test_a_small_buffer_pool_of_mysql_has_one_part_and_one_page_cleaner() -> None:
    names = ("innodb_buffer_pool_size", "innodb_buffer_pool_instances", "innodb_page_cleaners")
    found = mysql_states({**BOUNDS, "memory": float(8 << 30)})
    knobs = [replace(found[name].knob, default=found[name].running) for name in names]
    rules = tuple(constraints(CATALOG, names, found, {}, product="mysql"))
    space = Space(knobs, rules)
    small, large, made = (
        Config(dict(zip(names, values, strict=True)))
        for values in ((1016 << 20, 8, 4), (1 << 30, 8, 4), (1016 << 20, 1, 1))
    )
    assert space.canonical(small) == made
    assert space.canonical(large) == large
    assert space.is_feasible(large)
    assert not space.is_feasible(large.replace({"innodb_buffer_pool_instances": 2}))
    check_rules(CATALOG, large, found, {}, product="mysql")
    with pytest.raises(ApplyError, match="innodb_page_cleaners <= innodb_buffer_pool_instances does not hold"):
        check_rules(CATALOG, large.replace({"innodb_buffer_pool_instances": 2}), found, {}, product="mysql")


def test_page_cleaners_that_are_not_tuned_bind_nothing() -> None:
    """The server lowers them by itself."""
    found = mysql_states(innodb_buffer_pool_size=2 << 30, innodb_buffer_pool_instances=8, innodb_page_cleaners=4)
    assert list(constraints(CATALOG, ("innodb_buffer_pool_instances",), found, {}, product="mysql")) == []
    check_rules(CATALOG, Config({"innodb_buffer_pool_instances": 2}), found, {}, product="mysql")


@pytest.mark.parametrize(
    ("memory", "cores", "parts"), [(1 << 30, 8, 1), (8 << 30, 2, 1), (8 << 30, 8, 4), (64 << 30, 64, 8)]
)
def test_as_many_page_cleaners_as_parts_are_advised(memory: int, cores: int, parts: int) -> None:
    found = mysql_states({**BOUNDS, "memory": float(memory)})
    facts = {
        **BOUNDS,
        **MEMORY_FACTS,
        "memory": float(memory),
        "cores": float(cores),
        "clients": 8.0,
        "ssd": 1.0,
        "hdd": 0.0,
    }
    config = advised(CATALOG, found, facts, memory_of(CATALOG, found, facts, budget_bytes=memory))
    assert config["innodb_page_cleaners"] == config["innodb_buffer_pool_instances"] == parts


@pytest.mark.parametrize(
    ("size", "parts", "taken"),
    [
        (128 << 20, 1, 128 << 20),
        (136 << 20, 1, 256 << 20),
        (4608 << 20, 16, 6 << 30),
        (4608 << 20, 1, 4608 << 20),
        (6 << 30, 16, 6 << 30),
    ],
)
def test_the_memory_of_a_buffer_pool_is_what_the_server_makes_of_it(size: int, parts: int, taken: int) -> None:
    """The first two, and 2176 MiB in 16 parts that become 4 GiB, were seen on a server 8.0.31."""
    model = memory_of(CATALOG, mysql_states(), {**MEMORY_FACTS, "clients": 8.0}, budget_bytes=GIB)
    config = Config({"innodb_buffer_pool_size": size, "innodb_buffer_pool_instances": parts})
    assert model.use(config)["innodb_buffer_pool_size"] == pytest.approx(taken * 1.05)
    limit = replace(model, budget_bytes=math.ceil(model.total({}))).constraint(tuple(config))
    assert limit is not None
    space = Space(
        [model.knobs[name] for name in config], [limit], also_legal={name: (value,) for name, value in config.items()}
    )
    assert space.is_feasible(config) is (taken == 128 << 20)


def _table(which: str) -> dict[str, str]:
    return {"kind": "mysql", "embedded": which, "memory": "4GiB", "knobs": "all"}


def _variable(target: MysqlTarget, name: str) -> int:
    return int(str(target.states()[name].running))


def _assert_as(target: MysqlTarget, found: Snapshot) -> None:
    """That another snapshot differs by the start of the server only."""
    now = target.snapshot()
    assert (now.values, now.files, now.reach) == (found.values, found.files, found.reach)


@contextmanager
def _with_file(target: MysqlTarget, theirs: Mapping[str, int], name: str = "theirs.cnf") -> Iterator[None]:
    """The server with an option file of somebody else's."""
    assert target.private_folder is not None
    file = target.private_folder / "conf.d" / name
    file.write_text("\n".join(["[mysqld]", *(f"{name} = {value}" for name, value in theirs.items()), ""]))
    target._reach.restart()
    yield
    file.unlink()
    target._reach.restart()


@pytest.fixture(scope="module")
def mysql(cache: Path, state_dir: Path) -> Iterator[MysqlTarget]:
    program = str(require_server(MYSQL_8_0))
    provide(cache, program, name="pool")
    target = MysqlTarget.from_settings("pool", _table(program), state_dir=state_dir)
    target.open()
    yield target
    target.close()


@pytest.fixture(scope="module")
def two_parts(mysql: MysqlTarget) -> Iterator[MysqlTarget]:
    with _with_file(mysql, {POOL: GIB, "innodb_buffer_pool_instances": 2}):
        yield mysql


@pytest.fixture(scope="module")
def mariadb(cache: Path, state_dir: Path) -> Iterator[MysqlTarget]:
    """Whose buffer pool grows to its size at the start, as in versions where that is the default limit: here the start has raised
    what the file says, which is no change that waits for a restart."""
    require("mariadb")
    provide(cache, "mariadb", name="limited")
    target = MysqlTarget.from_settings("limited", _table("mariadb"), state_dir=state_dir)
    target.open()

    def settled(session: Session, reach: Reach, *args: Any, can_restart: bool) -> None:
        """Of this server alone: others are used while it stands."""
        if reach is not target._reach:
            require_settled(session, reach, *args, can_restart=can_restart)

    with pytest.MonkeyPatch.context() as patch, _with_file(target, {POOL_MAX: 64 * MIB}):
        patch.setattr("trimtab.systems.mysql.change.require_settled", settled)
        assert _variable(target, POOL_MAX) == _variable(target, POOL) == 128 * MIB
        yield target
    target.close()


@pytest.mark.service
def test_what_a_play_needs_is_counted(mysql: MysqlTarget) -> None:
    plays = shipped_plays("mysql", frozenset(CATALOG.knob), frozenset()).play
    assert {count for play in plays.values() for count in play.counts} <= mysql.counters().keys()


@pytest.mark.service
def test_a_server_takes_the_advice_for_parts_and_page_cleaners(mysql: MysqlTarget) -> None:
    found, context = mysql.snapshot(), Context("suite", clients=4, read_share=0.5)
    names = (POOL, "innodb_buffer_pool_instances", "innodb_page_cleaners")
    advice = mysql.advise(context)
    config = Config({name: advice[name] for name in names})
    mysql.preflight(config)
    applied = mysql.apply(config)
    assert [applied.effective[name] for name in names[1:]] == [config[name] for name in names[1:]]
    mysql.restore(found)


@pytest.mark.service
@pytest.mark.full  # what a server was seen to make of sizes: test_the_memory_of_a_buffer_pool_is_what_the_server_makes_of_it
def test_the_budget_counts_what_a_server_makes_of_a_buffer_pool_in_parts(mysql: MysqlTarget) -> None:
    found, model = mysql.snapshot(), mysql.memory(Context("suite", clients=1))
    config = Config({POOL: 1100 * MIB // (8 * MIB) * (8 * MIB), "innodb_buffer_pool_instances": 4})
    applied = mysql.apply(config)
    assert applied.effective[POOL] == 1536 * MIB
    assert model.use(config)[POOL] == pytest.approx(1.05 * 1536 * MIB)
    mysql.restore(found)
    assert _variable(mysql, POOL) == 128 * MIB


@pytest.mark.service
def test_parts_that_a_restart_of_ours_has_made_are_taken_back_with_the_pool(mysql: MysqlTarget) -> None:
    """A start with 1 GiB or more makes eight where nobody has said how many."""
    found = mysql.snapshot()
    mysql.apply(Config({POOL: GIB, "thread_stack": 262144}))
    mysql.apply(Config({POOL: GIB}))
    assert _variable(mysql, "innodb_buffer_pool_instances") == 8
    mysql.restore(found)
    assert _variable(mysql, "innodb_buffer_pool_instances") == 1
    _assert_as(mysql, found)


@pytest.mark.service
def test_a_redo_log_that_the_older_variables_have_sized_comes_back(mysql: MysqlTarget) -> None:
    """The server shows 100 MiB meanwhile, and makes it that small when it is told just that."""
    capacity, until = "innodb_redo_log_capacity", time.monotonic() + 60
    with _with_file(mysql, {"innodb_log_file_size": 48 * MIB, "innodb_log_files_in_group": 8}, "logs.cnf"):
        assert _variable(mysql, capacity) == 384 * MIB
        found = mysql.snapshot()
        mysql.apply(Config({capacity: 128 * MIB}))
        assert mysql.restore(found).left == ()
        with mysql._reach.connect() as session:
            while session.rows("SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_capacity_resized'")[0][1] != str(384 * MIB):
                assert time.monotonic() < until
                time.sleep(0.1)


@pytest.mark.service
def test_a_buffer_pool_of_several_parts_becomes_small_by_a_restart(two_parts: MysqlTarget) -> None:
    """While it runs MySQL gives it no less than 1 GiB; the small one has a single part, and so has the large until a start."""
    found = two_parts.snapshot()
    applied = two_parts.apply(Config({POOL: 512 * MIB}))
    assert (applied.effective[POOL], applied.restarted) == (512 * MIB, True)
    done = two_parts.restore(found)
    assert (done.left, done.restarted) == ((), True)
    assert (_variable(two_parts, POOL), _variable(two_parts, "innodb_buffer_pool_instances")) == (GIB, 2)
    _assert_as(two_parts, found)


@pytest.mark.service
def test_without_restarts_several_parts_are_at_least_a_gigabyte(
    two_parts: MysqlTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_parts, "settings", two_parts.settings.model_copy(update={"allow_restart": False}))
    state = two_parts.states()[POOL]
    assert (state.knob.low, state.knob.high, state.lock_reason) == (GIB, 3 * GIB, "")


@pytest.mark.service
def test_a_buffer_pool_beyond_what_mariadb_gives_while_it_runs_is_a_restart(mariadb: MysqlTarget) -> None:
    found = mariadb.snapshot()
    assert mariadb.states()[POOL].knob.restart is RestartClass.RESTART
    small = mariadb.apply(Config({POOL: 64 * MIB}))
    assert (small.effective[POOL], small.restarted) == (64 * MIB, False)
    large = mariadb.apply(Config({POOL: 256 * MIB}))
    assert (large.effective[POOL], large.restarted) == (256 * MIB, True)
    again = mariadb.apply(Config({POOL: 192 * MIB}))
    assert (again.effective[POOL], again.restarted) == (192 * MIB, False)
    done = mariadb.restore(found)
    assert (done.left, done.restarted) == ((), True)
    assert _variable(mariadb, POOL_MAX) == _variable(mariadb, POOL) == 128 * MIB
    _assert_as(mariadb, found)


@pytest.mark.service
def test_a_buffer_pool_that_was_set_while_it_ran_comes_back_past_a_start_with_less(mariadb: MysqlTarget) -> None:
    """After a start of ours with 64 MiB, SET GLOBAL does not give what was found."""
    with mariadb._reach.connect() as session:
        session.rows(f"SET GLOBAL {POOL} = {96 * MIB}")
    found = mariadb.snapshot()
    mariadb.apply(Config({POOL: 64 * MIB, "thread_stack": 262144}))
    assert mariadb.apply(Config({POOL: 64 * MIB})).restarted
    assert _variable(mariadb, POOL_MAX) == 64 * MIB
    done = mariadb.restore(found)
    assert (done.left, done.restarted) == ((), True)
    _assert_as(mariadb, found)
    assert (_variable(mariadb, POOL), _variable(mariadb, POOL_MAX)) == (96 * MIB, 128 * MIB)


@pytest.mark.service
@pytest.mark.parametrize(
    ("memory", "lock"), [(GIB, ""), (8 * GIB, "above 128MiB it needs a restart (innodb_buffer_pool_size_max)")]
)
def test_without_restarts_the_range_ends_where_the_server_gives_no_more(
    mariadb: MysqlTarget, monkeypatch: pytest.MonkeyPatch, memory: int, lock: str
) -> None:
    settings = mariadb.settings.model_copy(update={"allow_restart": False, "memory": memory})
    monkeypatch.setattr(mariadb, "settings", settings)
    state = mariadb.states()[POOL]
    assert (state.knob.high, state.vendor_high, state.lock_reason) == (128 * MIB, 128 * MIB, lock)
    assert "Here above 128MiB it needs a restart (innodb_buffer_pool_size_max)." in state.knob.doc
    assert state.knob.restart is RestartClass.RELOAD


@pytest.mark.service
def test_what_a_session_keeps_is_what_mysql_says(mysql: MysqlTarget) -> None:
    with mysql._reach.connect() as session:
        told = {
            row[0] for row in session.rows("SELECT DISTINCT variable_name FROM performance_schema.variables_by_thread")
        }
    curated = {name: knob for name, knob in CATALOG.known(product="mysql").items() if name in mysql.states()}
    assert {name for name, knob in curated.items() if knob.per_session} == told & set(curated)


@pytest.mark.service
def test_what_set_persist_writes_is_known_before_a_restart(mysql: MysqlTarget) -> None:
    with mysql._reach.connect() as session:
        session.rows("SET PERSIST sort_buffer_size = 524288")
        session.rows("SET PERSIST max_execution_time = 60000")
        try:
            assert mysql.states()["sort_buffer_size"].lock_reason.startswith("set by SET PERSIST")
            mysql.snapshot()  # a restart does not lose the other one
            session.rows("SET PERSIST_ONLY back_log = 200")
            assert [
                each.text for each in mysql.disturbances() if "mysqld-auto.cnf' was changed" in each.text and each.stops
            ]
            with pytest.raises(TargetError, match="hold changes that wait for a restart: back_log"):
                mysql.snapshot()
            line = next(line for line in mysql.doctor() if line[0] == "pending")
            assert line[1:] == (False, f"{WAITS}: back_log; restart the server, or undo them")
        finally:
            for statement in ("RESET PERSIST", "SET GLOBAL sort_buffer_size = DEFAULT, max_execution_time = DEFAULT"):
                session.rows(statement)
    mysql.snapshot()
    assert ("pending", True, "nothing waits for a restart") in mysql.doctor()
