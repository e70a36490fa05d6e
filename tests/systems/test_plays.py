"""The shipped plays keep their schema, and what is wrong in a file of plays is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trimtab.errors import UsageError
from trimtab.records import Context, Machine
from trimtab.space import Knob, KnobKind, SafetyClass, is_shown
from trimtab.systems import KnobState
from trimtab.systems.plays import fitting_plays, parse_plays, play_facts, shipped_plays
from trimtab.systems.server_catalog import server_catalog
from trimtab.systems.tier import Tier
from trimtab.testing.fake_target import FakeTarget

_BOUNDS = {"memory": 2.0**30, "cores": 2.0, "connections": 100.0, "disk": 1e11}
_FILE = """
schema = 1
kind = "x"
[play.p]
reason = "Because it may help here."
when = "{when}"
settings = {{ {settings} }}
sources = ["a book"]
"""


def _parsed(when: str = "", settings: str = "cache = 1") -> object:
    return parse_plays(_FILE.format(when=when, settings=settings), {"cache", "sync"}, {"sync"})


def _shipped(kind: str) -> object:
    overlay = server_catalog(kind)
    locked = frozenset(name for name, knob in overlay.knob.items() if knob.safety is not SafetyClass.PERFORMANCE)
    return shipped_plays(kind, frozenset(overlay.knob), locked)


@pytest.mark.parametrize(("kind", "least"), [("postgresql", 25), ("mysql", 20)])
def test_the_shipped_plays_keep_the_schema(kind: str, least: int) -> None:
    plays = _shipped(kind)
    assert len(plays.play) >= least  # type: ignore[attr-defined]
    assert len({play.reason for play in plays.play.values()}) >= least  # type: ignore[attr-defined]
    assert all(source.startswith("https://") for play in plays.play.values() for source in play.sources)  # type: ignore[attr-defined]


def test_reading_ahead_is_switched_off_where_that_is_what_the_value_means() -> None:
    """MySQL reads the most ahead at 0: srv_read_ahead_threshold in buf0rea.cc of both."""
    play = _shipped("mysql").play["no_read_ahead"]  # type: ignore[attr-defined]
    facts = {**_BOUNDS, "analytic": 0.0, "clients": 4.0, "read_share": 1.0, "ssd": 0.0, "hdd": 0.0, "version": 1011.0}
    assert play.fits({**facts, "mariadb": 1.0})
    assert not play.fits({**facts, "mariadb": 0.0})


@pytest.mark.parametrize("memory", [2.0**27, 2.0**30, 2.0**37])
def test_tables_in_memory_that_fit_by_default_fit_in_the_whole_range(memory: float) -> None:
    low, high = server_catalog("mysql").knob["max_heap_table_size"].useful({**_BOUNDS, "memory": memory})
    assert 2**24 <= low < high


@pytest.mark.parametrize(
    ("when", "settings", "message"),
    [
        ("", "no_such = 1", "play='p' sets the unknown knob='no_such'"),
        ("", "sync = false", "play='p' sets knob='sync', whose safety class is locked by default"),
        ("clients >=", "cache = 1", r"wrong at play\.p: when='clients >=' cannot be evaluated"),
        ("moon == 1", "cache = 1", r"when='moon == 1' cannot be evaluated: .*unknown knob='moon'"),
        ("memory > 3s", "cache = 1", r"when='memory > 3s' cannot be evaluated"),
        (
            "clients + 1",
            "cache = 1",
            r"wrong at play\.p: when='clients \+ 1' cannot be evaluated: .*arithmetic instead",
        ),
        (
            "ssd and not cores / 2",
            "cache = 1",
            r"wrong at play\.p: when=.*arithmetic instead of a condition at character 19",
        ),
        ("", "", r"wrong at play\.p\.settings"),
        ("", "cache = 'memory / moon'", r"settings cache='memory / moon' cannot be evaluated"),
    ],
)
def test_what_is_wrong_in_a_file_of_plays_is_told(when: str, settings: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _parsed(when, settings)


@pytest.mark.parametrize(
    "sign", ["database.blks_read >", "reads > 0 and", "reads ? 3", "reads + 1", "max(reads, writes)", "2"]
)
def test_a_sign_that_cannot_be_read_is_told(sign: str) -> None:
    text = _FILE.format(when="", settings="cache = 1").replace("settings", f"sign = {sign!r}\nsettings")
    with pytest.raises(UsageError, match=r"wrong at play\.p: sign=.* cannot be evaluated"):
        parse_plays(text, {"cache"})


def test_a_play_keeps_its_sign_and_a_stack_names_its_counters_in_full() -> None:
    text = _FILE.format(when="", settings="jit = false").replace(
        "settings", "sign = 'rows.read > 50 * calls'\nsettings"
    )
    facts = play_facts(Context("any", 4), Machine(cores=2, memory_bytes=1 << 30), _BOUNDS, latency_s=1.0)
    (play,) = fitting_plays(parse_plays(text, _states().keys()).play, _states(), facts)
    assert play.sign == "rows.read > 50 * calls"
    tier = Tier(name="db", target=FakeTarget(), prefix="db.")
    assert tier.play(play).sign == "db.rows.read > 50 * db.calls"
    assert tier.play(replace(play, sign="")).sign == ""


def test_what_a_cached_read_only_load_cannot_feel_is_not_tried_on_mysql() -> None:
    """Its server reads and writes no page, logs next to nothing, and sorts nothing."""
    counts = {name: 0.0 for play in _shipped("mysql").play.values() for name in play.counts}  # type: ignore[attr-defined]
    counts |= {"Questions": 50_000.0, "Innodb_buffer_pool_read_requests": 400_000.0, "Innodb_os_log_written": 6_000.0}
    counts |= {"Innodb_buffer_pool_pages_flushed": 3.0}
    shown = {name for name, play in _shipped("mysql").play.items() if play.sign and is_shown(play.sign, counts)}  # type: ignore[attr-defined]
    assert shown == {"ssd_flushing", "no_neighbours", "slow_flushing", "early_flushing", "no_flush_bursts"}
    counts["Innodb_buffer_pool_pages_flushed"] = 0.0
    assert not any(is_shown(play.sign, counts) for play in _shipped("mysql").play.values() if play.sign)  # type: ignore[attr-defined]
    counts |= {"Innodb_buffer_pool_pages_flushed": 900.0, "Innodb_os_log_written": 3e7, "Handler_update": 5e4}
    shown = {name for name, play in _shipped("mysql").play.items() if play.sign and is_shown(play.sign, counts)}  # type: ignore[attr-defined]
    assert {"large_redo_log_mysql", "large_redo_log_mariadb", "direct_reads_and_writes", "few_purge_threads"} <= shown
    assert "most_to_the_buffer_pool" not in shown, "no page was read from a file"


def test_text_that_is_no_toml_is_told() -> None:
    with pytest.raises(UsageError, match="the file of plays is not TOML"):
        parse_plays("[play", {"cache"})


def _state(knob: Knob, lock_reason: str = "") -> KnobState:
    return KnobState(knob=knob, running=knob.default, lock_reason=lock_reason)


def _states(**locked: str) -> dict[str, KnobState]:
    knobs = [
        Knob(name="shared_buffers", kind=KnobKind.INTEGER, low=2048, high=91750, log=True, unit="8kB", default=16384),
        Knob(name="max_parallel_workers_per_gather", kind=KnobKind.INTEGER, low=0, high=4, default=2),
        Knob(name="random_page_cost", kind=KnobKind.REAL, low=0.5, high=8.0, log=True, default=4.0),
        Knob(name="jit", kind=KnobKind.BOOLEAN, default=True),
        Knob(name="io_method", kind=KnobKind.CHOICE, choices=("sync", "worker"), default="worker"),
    ]
    return {knob.name: _state(knob, locked.get(knob.name, "")) for knob in knobs}


def _fitting(clients: int, *, version: str = "PostgreSQL 18.1", disk: str = "", **locked: str) -> dict[str, object]:
    machine = Machine(cores=2, memory_bytes=1 << 30, server_version=version, disk=disk)
    facts = play_facts(Context("any", clients), machine, _BOUNDS, latency_s=1.0)
    return {
        play.name: dict(play.settings) for play in fitting_plays(_shipped("postgresql").play, _states(**locked), facts)
    }  # type: ignore[attr-defined]


def test_plays_fit_the_load_the_machine_and_the_version() -> None:
    found = _fitting(4)
    assert found["no_parallel_workers"] == {"max_parallel_workers_per_gather": 0}
    assert found["large_shared_buffers"] == {"shared_buffers": 52429}
    assert found["no_jit"] == {"jit": False}
    assert found["read_without_workers"] == {"io_method": "sync"}
    assert "io_uring" not in found, "this server lacks that label"
    assert "no_parallel_workers" not in _fitting(1)
    assert "read_without_workers" not in _fitting(4, version="PostgreSQL 16.2")
    assert "ssd_costs" in found
    assert "ssd_costs" not in _fitting(4, disk="hdd")
    assert "no_jit" not in _fitting(4, jit="locked")


@pytest.mark.parametrize(("running", "tried"), [(4.0, 1.1), (0.9, 0.9)])
def test_costs_that_are_lower_than_those_of_an_ssd_stay(running: float, tried: float) -> None:
    states = _states()
    states["random_page_cost"] = replace(states["random_page_cost"], running=running)
    facts = play_facts(Context("any", 4), Machine(cores=2, memory_bytes=1 << 30), _BOUNDS, latency_s=1.0)
    found = {play.name: play.settings for play in fitting_plays(_shipped("postgresql").play, states, facts)}  # type: ignore[attr-defined]
    assert found["ssd_costs"] == {"random_page_cost": tried}


@pytest.mark.parametrize(
    ("play", "knob", "running", "tried"),
    [
        ("large_shared_buffers", "shared_buffers", 16384, 52429),
        ("large_shared_buffers", "shared_buffers", 78643, 78643),
        ("idle_cores_for_one", "max_parallel_workers_per_gather", 1, 2),
        ("idle_cores_for_one", "max_parallel_workers_per_gather", 4, 4),
    ],
)
def test_what_is_larger_than_a_play_for_more_asks_for_stays(play: str, knob: str, running: int, tried: int) -> None:
    states = _states()
    states[knob] = replace(states[knob], running=running)
    facts = play_facts(Context("any", 1), Machine(cores=2, memory_bytes=1 << 30), _BOUNDS, latency_s=1.0)
    found = {play.name: play.settings for play in fitting_plays(_shipped("postgresql").play, states, facts)}  # type: ignore[attr-defined]
    assert found[play] == {knob: tried}


@pytest.mark.parametrize(
    ("when", "settings"),
    [("clients / (cores - 2) > 1", "jit = false"), ("", "shared_buffers = 'memory / (cores - 2)'")],
)
def test_a_play_that_means_nothing_on_this_machine_does_not_fit(when: str, settings: str) -> None:
    """A division by the cores beyond two, on a machine of two."""
    play = parse_plays(_FILE.format(when=when, settings=settings), _states().keys()).play
    facts = play_facts(Context("any", 4), Machine(cores=2, memory_bytes=1 << 30), _BOUNDS, latency_s=1.0)
    assert fitting_plays(play, _states(), facts) == ()
    assert fitting_plays(play, _states(), {**facts, "cores": 4.0}) != ()


def test_versions_of_mysql_and_mariadb_are_read() -> None:
    def facts(version: str) -> dict[str, float]:
        machine = Machine(cores=2, memory_bytes=1 << 30, server_version=version)
        return play_facts(Context("any", 4, 0.5), machine, _BOUNDS, latency_s=0.001)

    mariadb, mysql = facts("MariaDB 10.11.6"), facts("MySQL 8.0.35")
    assert (mariadb["version"], mariadb["mariadb"]) == (1011, 1)
    assert (mysql["version"], mysql["mariadb"], mysql["analytic"]) == (800, 0, 0)
