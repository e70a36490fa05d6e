"""The plays and the advice of MySQL and MariaDB on servers that have been tuned before."""

from __future__ import annotations

import pytest

from tests.systems.legal_plays import Size, left_out
from tests.systems.mysql_shapes import MARIADB_ROWS
from tests.systems.test_mysql_catalogue import BOUNDS, MARIADB, mysql_states
from trimtab.space import Config, Space
from trimtab.systems.base import KnobState
from trimtab.systems.gate import check_config
from trimtab.systems.knobs import knob_states
from trimtab.systems.mysql.catalogue import CATALOG, Facts
from trimtab.systems.mysql.settings import read_settings
from trimtab.systems.mysql.variables import from_mariadb
from trimtab.systems.plays import fitting_plays, shipped_plays
from trimtab.systems.rules import advised, check_rules, constraints, memory_of

FACTS = {
    **BOUNDS, "clients": 32.0, "read_share": 0.5, "analytic": 0.0, "ssd": 1.0, "hdd": 0.0, "version": 800.0, "mariadb": 0.0,
}  # fmt: skip
OF_MARIADB = {**FACTS, "version": 1011.0, "mariadb": 1.0}
PLAYS = shipped_plays("mysql", frozenset(CATALOG.knob), frozenset()).play
MIB = 1 << 20
LIMIT = (
    "join_buffer_space_limit", "2097152", "COMPILE-TIME", "2097152", "BIGINT UNSIGNED", "2048", "18446744073709551615", "2048",
    None, "NO", None,
)  # fmt: skip


def mariadb_states(**running: str) -> dict[str, KnobState]:
    """Of a server as installed, but for `running`."""
    rows = [(name, running.get(str(name), value), *rest) for name, value, *rest in (*MARIADB_ROWS, LIMIT)]
    sight = Facts(MARIADB, True, False).sight(from_mariadb(rows))
    return knob_states(sight, CATALOG, BOUNDS, read_settings("db", {"embedded": "mariadb"}), "")


def advice(found: dict[str, KnobState], facts: dict[str, float]) -> Config:
    return advised(CATALOG, found, facts, memory_of(CATALOG, found, facts, budget_bytes=4 << 30))


def test_a_play_that_asks_for_more_takes_nothing_away() -> None:
    """As from a redo log of 8 GiB, to make it "larger"."""
    found = mysql_states(BOUNDS, innodb_redo_log_capacity=8 << 30, innodb_buffer_pool_size=700 << 20)
    more = {play.name: play.settings for play in fitting_plays(PLAYS, found, FACTS)}
    assert more["large_redo_log_mysql"] == {"innodb_redo_log_capacity": 8 << 30}
    assert more["most_to_the_buffer_pool"] == more["half_to_the_buffer_pool"] == {"innodb_buffer_pool_size": 700 << 20}
    installed = {play.name: play.settings for play in fitting_plays(PLAYS, mysql_states(), FACTS)}
    assert installed["large_redo_log_mysql"] == {"innodb_redo_log_capacity": 4 << 30}


@pytest.mark.parametrize(("running", "tried"), [((200, 2000), (2000, 4000)), ((10_000, 20_000), (10_000, 20_000))])
def test_an_ssd_is_not_told_to_write_less_than_the_server_lets_it(
    running: tuple[int, int], tried: tuple[int, int]
) -> None:
    """MySQL 8.4 has 10,000 operations a second as installed, where others have 200."""
    names = ("innodb_io_capacity", "innodb_io_capacity_max")
    found = mariadb_states(**dict(zip(names, map(str, running), strict=True)))
    plays = {play.name: play.settings for play in fitting_plays(PLAYS, found, OF_MARIADB)}
    assert plays["ssd_flushing"] == dict(zip(names, tried, strict=True))


@pytest.mark.parametrize(("running", "expected"), [(200, 2000), (10_000, 10_000)])
def test_advice_for_an_ssd_takes_no_operations_away(running: int, expected: int) -> None:
    assert advice(mysql_states(BOUNDS, innodb_io_capacity=running), FACTS)["innodb_io_capacity"] == expected


def test_advice_takes_no_open_tables_and_no_redo_log_away() -> None:
    """MySQL keeps 4000 tables open as installed."""
    found = advice(mysql_states(BOUNDS, innodb_redo_log_capacity=8 << 30), {**FACTS, "clients": 8.0})
    assert (found["table_open_cache"], found["innodb_redo_log_capacity"]) == (4000, 8 << 30)
    found = advice(mysql_states(BOUNDS, table_open_cache=400), {**FACTS, "clients": 8.0})
    assert (found["table_open_cache"], found["innodb_redo_log_capacity"]) == (2000, 164 * MIB)


def test_plays_keep_to_what_is_tuned_where_the_study_file_does_not_say() -> None:
    """One that sets anything else is never tried there."""
    tuned = set(CATALOG.sets["performance"])
    assert {name: set(play.settings) - tuned for name, play in PLAYS.items() if not set(play.settings) <= tuned} == {}


def test_a_query_cache_in_use_is_switched_off_in_a_way_that_outlasts_a_start() -> None:
    """A server whose files give it a size starts with it on, whatever type they say."""
    in_use = mariadb_states(query_cache_type="ON", query_cache_size=str(64 * MIB))
    (rule,) = constraints(CATALOG, ("query_cache_type",), in_use, {}, product="mariadb")
    space = Space([in_use["query_cache_type"].knob], [rule])
    choices = in_use["query_cache_type"].knob.choices
    assert [each for each in choices if space.is_feasible(Config({"query_cache_type": each}))] == ["ON", "DEMAND"]
    assert tuple(constraints(CATALOG, ("query_cache_type",), mariadb_states(), {}, product="mariadb")) == ()
    size, facts = Size(4, 1 << 30, 12, 0.1, analytic=False), {"version": 1011.0, "mariadb": 1.0}
    play = {"no_query_cache": PLAYS["no_query_cache"]}
    assert left_out(CATALOG, play, lambda _: in_use, facts, product="mariadb", sizes=[size]).tried == set(play)
    found = advice(in_use, OF_MARIADB)
    assert found["query_cache_size"] == 0
    assert "query_cache_type" not in found


def test_a_query_cache_that_a_trial_has_switched_on_can_be_switched_off_by_the_next_one() -> None:
    """A trial begins with what the one before has left: OFF was none of the choices of a server on which it was ON."""
    now = mariadb_states(query_cache_type="ON", query_cache_size=str(64 * MIB))
    off = Config({"query_cache_type": "OFF"})
    check_config(off, now)
    check_rules(CATALOG, off, now, OF_MARIADB, product="mariadb")


def test_no_join_buffer_is_tried_beyond_what_the_server_gives() -> None:
    """MariaDB gives all join buffers of a statement 2 MiB together, as installed."""
    found, name = mariadb_states(), "join_buffer_size"
    (limit,) = constraints(CATALOG, (name,), found, {}, product="mariadb")
    space = Space([found[name].knob], [limit])
    assert space.is_feasible(Config({name: 2 * MIB}))
    assert "join buffers" in space.violations(Config({name: 4 * MIB}))[0]
    beyond = mariadb_states(join_buffer_size=str(8 * MIB))
    assert tuple(constraints(CATALOG, (name,), beyond, {}, product="mariadb")) == ()
    facts = {**OF_MARIADB, "analytic": 1.0, "clients": 1.0}
    plays = {play.name: play.settings for play in fitting_plays(PLAYS, found, facts)}
    assert plays["join_in_memory_mariadb"] == {name: 16 * MIB, "join_buffer_space_limit": 32 * MIB}
    assert "join_in_memory" not in plays
    advised_now = advice(found, facts)
    assert (advised_now[name], advised_now["join_buffer_space_limit"]) == (4 * MIB, 8 * MIB)
