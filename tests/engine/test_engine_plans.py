"""Before a probe the plans are compared: what PostgreSQL would do anyway is not tried, and the least risky plan comes first."""

from __future__ import annotations

import os

import psycopg
import pytest

from tests import needs
from tests.engine.conftest import QUERY, Session, engine
from tests.servers.postgresql import DEBIAN, Server

pytestmark = [pytest.mark.service, pytest.mark.needs("c-compiler", "postgresql-embedded")]

JOIN = "SELECT a.k, count(*) FROM t a JOIN t b ON a.g = b.r WHERE a.g <= 2000 AND b.r <= 2000 GROUP BY a.k ORDER BY a.k"
"""Small, for the worst of its plans compares each row with each: seconds of CPU for those of the whole table."""

PADDED = (
    "CREATE TABLE IF NOT EXISTS padded AS SELECT g, repeat(md5(g::text), 30) AS pad FROM generate_series(1, 6000) g"
)
"""A table that is sorted by its long texts on disk, unless there is memory for them, and of which few bytes are fetched."""

BIG = "CREATE TABLE IF NOT EXISTS big AS SELECT g, (g * 7919) % 100003 AS r FROM generate_series(1, 100000) g; ANALYZE big"
"""A table that does not fit into the memory of a sort."""


def looked(session: Session) -> list[str]:
    return [row[0] for row in session.rows("SELECT settings FROM trimtab_history WHERE event = 'plans compared'")]


def test_settings_that_change_no_plan_cost_no_probe(tuned: tuple[Server, Session], session: Session) -> None:
    """A count of a small table has one way to be done, whatever the settings say."""
    session.tune("base=100;plan=0.01;work_mem=16384:0.2;random_page_cost=1.1:0.2;enable_nestloop=0:0.2")
    found = session.learn("SELECT count(*) FROM t", 60)
    assert (found["probes"], found["settings"]) == (0, "")
    assert found["plans_compared"] >= 14
    assert found["same_plan"] == found["plans_compared"]
    assert found["planning_ms"] == pytest.approx(0.01 * found["plans_compared"], rel=1.5)
    assert found["phase"] == "settled"
    n_same, n = (int(word) for word in looked(session)[0].removesuffix(": same plan").split(" of "))
    assert n_same == n >= 14


def test_a_planted_gain_is_found_within_few_probes(session: Session) -> None:
    """A join that is five times as fast without hash joins; what leaves the plan as it is would be as fast, but is not tried."""
    session.rows("SET trimtab.mode = off")
    expected = session.rows(JOIN)
    assert any("Hash Join" in row[0] for row in session.rows(f"EXPLAIN {JOIN}"))
    session.tune("base=100;plan=0.01;enable_hashjoin=0:0.2")
    for _ in range(80):
        assert session.rows(JOIN) == expected
    found = session.classes()[0]
    assert found["settings"] == "enable_hashjoin=off"
    assert found["probes"] <= 12
    assert found["gain_low"] <= 5 <= found["gain_high"]
    assert found["loss_ms"] <= 0.02 * found["total_ms"] + 0.25 * found["gained_ms"]
    tried = {row[0] for row in session.rows("SELECT settings FROM trimtab_history WHERE event = 'probe'")}
    assert "jit=off" not in tried


def test_plans_are_tried_by_what_they_are_estimated_to_cost(session: Session) -> None:
    """A plan that is estimated to take many times as long waits until the budget covers it."""
    session.tune("base=100;plan=0.01")
    session.rows("CREATE INDEX IF NOT EXISTS t_g ON t (g); ANALYZE t")
    found = session.learn("SELECT r FROM t WHERE g = 77 ORDER BY r", 60)
    assert found["settings"] == ""
    tried = {row[0] for row in session.rows("SELECT settings FROM trimtab_history WHERE event = 'probe'")}
    assert found["loss_ms"] <= 0.02 * found["total_ms"]
    session.rows("DROP INDEX t_g")
    assert len(tried) <= 3


def test_workers_without_a_core_of_their_own_are_the_first_to_go() -> None:
    """PostgreSQL takes for granted that each of three workers has a core; on two cores one worker is tried first."""
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        needs.missing("needs two cores")
    always_parallel = "min_parallel_table_scan_size = 0\nparallel_setup_cost = 0\nparallel_tuple_cost = 0\n"
    os.sched_setaffinity(0, sorted(cores)[:2])
    try:
        with engine("18", f"max_parallel_workers_per_gather = 3\n{always_parallel}") as (_, session):
            session.tune("base=100;plan=0.01;max_parallel_workers_per_gather=1:0.8")
            found = session.learn("SELECT count(*) FROM t", 60)
            tried = session.rows("SELECT settings FROM trimtab_history WHERE event = 'probe' ORDER BY at")
    finally:
        os.sched_setaffinity(0, cores)
    assert tried[0] == ("max_parallel_workers_per_gather=1",)
    assert "max_parallel_workers_per_gather=1" in found["settings"]


def test_time_of_planning_counts_as_lost(session: Session) -> None:
    """Plans that take as long to make as the statement to run are looked at as the budget allows, and no faster."""
    session.tune("base=100;plan=50;enable_hashjoin=0:0.5")
    found = session.learn(JOIN, 100)
    assert 0 < found["planning_ms"] <= 0.02 * found["total_ms"] + 200
    assert found["loss_ms"] >= found["planning_ms"]
    assert found["probes"] == 0, "all of the budget went into planning"


def test_prepared_statements_are_looked_at_too(session: Session) -> None:
    session.tune("base=100;plan=0.01;enable_hashjoin=0:0.2")
    session.rows(f"PREPARE joined AS {JOIN}")
    for _ in range(80):
        session.rows("EXECUTE joined")
    assert session.classes()[0]["settings"] == "enable_hashjoin=off"


def test_memory_is_tried_where_something_was_written_to_temporary_files(session: Session) -> None:
    big = "SELECT g FROM padded ORDER BY pad, g"
    session.rows(PADDED)
    session.tune("base=100;plan=0.01;work_mem=16384:0.5")
    session.rows("SET trimtab.parameters = 'work_mem'")
    assert session.learn(big, 50)["settings"].startswith("work_mem=")
    session.rows("SELECT trimtab_reset()")
    assert session.learn(QUERY, 50)["probes"] == 0, "this one fits into what it has"


def test_a_slow_probe_is_stopped_before_its_first_row(session: Session) -> None:
    """The statement then runs as without us: the same answer, no error, and no more lost than the limit."""
    expected = session.rows(JOIN)
    session.tune("stop=1;base=100;plan=0.01;enable_hashjoin=0:50")
    for _ in range(80):
        assert session.rows(JOIN) == expected
        assert session.value("SHOW enable_hashjoin") == "on"
    stopped = session.rows("SELECT settings, time_ms FROM trimtab_history WHERE event = 'probe stopped'")
    assert "enable_hashjoin=off" in dict(stopped)
    assert all(0 < ms <= 115 for _, ms in stopped)
    found = session.classes()[0]
    assert found["loss_ms"] <= 0.02 * found["total_ms"] + 150, "what is not covered may run as long as the budget lasts"
    assert found["calls"] >= 76, "the statement counts as one with its own settings"
    assert session.value("SELECT memory_kb FROM trimtab_status()") == 0
    session.rows("BEGIN")
    session.rows("SAVEPOINT a")
    assert session.rows(JOIN) == expected
    session.rows("ROLLBACK TO a")
    session.rows("COMMIT")


@pytest.mark.parametrize("when", [1, 2])
def test_a_cancel_at_the_moment_when_a_probe_is_stopped_is_not_lost(session: Session, when: int) -> None:
    """The statement is cancelled, and nothing is left over for the next one."""
    expected = session.rows(JOIN)
    session.tune(f"stop=1;cancel={when};base=100;plan=0.01;enable_hashjoin=0:50")
    n_cancelled = 0
    for _ in range(60):
        try:
            assert session.rows(JOIN) == expected
        except psycopg.errors.QueryCanceled:
            n_cancelled += 1
        assert session.value("SHOW enable_hashjoin") == "on"
    events = [row[0] for row in session.rows("SELECT event FROM trimtab_history")]
    assert n_cancelled == events.count("probe failed") >= 1
    assert "probe stopped" not in events
    assert session.value("SELECT memory_kb FROM trimtab_status()") == 0


def test_a_fast_probe_is_not_stopped(session: Session) -> None:
    session.rows("SET trimtab.mode = off")
    expected = session.rows(JOIN)
    session.tune("stop=1;base=100;plan=0.01;enable_hashjoin=0:0.2")
    for _ in range(80):
        assert session.rows(JOIN) == expected
    found = session.classes()[0]
    assert (found["settings"], found["loss_ms"] <= 0.02 * found["total_ms"] + 0.25 * found["gained_ms"]) == (
        "enable_hashjoin=off",
        True,
    )
    stopped = session.rows("SELECT settings FROM trimtab_history WHERE event = 'probe stopped'")
    assert ("enable_hashjoin=off",) not in stopped


def test_a_probe_whose_statement_fails_fails_it_once(session: Session) -> None:
    """An error of the statement's own is its own, whichever plan meets it first."""
    bad = "SELECT a.k, count(*), sum(1 / (a.g - 500)) FROM t a JOIN t b ON a.g = b.r GROUP BY a.k"
    session.tune("stop=1;base=100;plan=0.01;enable_hashjoin=0:0.2")
    for _ in range(30):
        with pytest.raises(psycopg.errors.DivisionByZero):
            session.rows(bad)
        assert session.value("SHOW enable_hashjoin") == "on"
    session.rows("BEGIN")
    session.rows(JOIN)
    session.rows("COMMIT")


def test_a_probe_that_runs_out_of_memory_fails_no_statement(session: Session) -> None:
    """Its settings are given up, and the statement runs as without it."""
    session.rows(PADDED)
    session.rows("""
        CREATE OR REPLACE FUNCTION starved() RETURNS bool STABLE LANGUAGE plpgsql AS $$ BEGIN
            IF current_setting('work_mem') <> '4MB' THEN RAISE 'out of memory' USING ERRCODE = '53200'; END IF;
            RETURN true;
        END $$""")
    hungry = "SELECT g FROM padded WHERE starved() ORDER BY pad, g"
    session.tune("stop=1;base=100;plan=0.01;work_mem=16384:0.5")
    session.rows("SET trimtab.parameters = 'work_mem'")
    expected = session.rows(hungry)
    for _ in range(30):
        assert session.rows(hungry) == expected
    stopped = session.rows("SELECT settings FROM trimtab_history WHERE event = 'probe stopped'")
    assert any(row[0].startswith("work_mem=") for row in stopped)
    assert session.classes()[0]["settings"] == ""
    assert session.value("SELECT memory_kb FROM trimtab_status()") == 0


def test_a_statement_whose_planning_fails_leaves_its_probe_to_no_other(session: Session) -> None:
    """A probe's plan is looked at and made, then the statement's own, which fails; what runs next has its own answer."""
    session.rows("""
        CREATE OR REPLACE FUNCTION sulks() RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$ DECLARE
            seen text := coalesce(current_setting('sulks.seen', true), '');
            is_on text := CASE current_setting('enable_hashjoin') WHEN 'on' THEN '1' ELSE '0' END;
        BEGIN
            IF seen || is_on = '001' THEN RAISE 'sulks' USING ERRCODE = '22000'; END IF;
            seen := set_config('sulks.seen', right(seen || is_on, 2), false);
            RETURN true;
        END $$""")
    sulking, limited = JOIN.replace("WHERE", "WHERE sulks() AND"), "SELECT g FROM t ORDER BY k LIMIT 3"
    session.tune("stop=1;base=100;plan=0.01;enable_hashjoin=0:0.2")
    session.rows("SET trimtab.parameters = 'enable_hashjoin'")
    expected = session.rows(limited)
    n_failed = 0
    for n in range(80):
        try:
            session.rows(sulking)
        except psycopg.errors.DataException:
            n_failed += 1
        assert session.rows(f"{limited} /* {n}: planned anew */") == expected
    assert n_failed >= 1


@pytest.mark.full
@pytest.mark.parametrize("version", ["16", DEBIAN])
def test_older_versions_compare_plans_and_stop_probes(version: str) -> None:
    """Quick for 18: `test_a_slow_probe_is_stopped_before_its_first_row`, `test_a_planted_gain_is_found_within_few_probes`."""
    with engine(version) as (_, session):
        expected = session.rows(JOIN)
        for gain, goal in (("50", ""), ("0.2", "enable_hashjoin=off")):
            session.rows("SELECT trimtab_reset()")
            session.tune(f"stop=1;base=100;plan=0.01;enable_hashjoin=0:{gain}")
            for _ in range(80):
                assert session.rows(JOIN) == expected
            assert session.classes()[0]["settings"] == goal
        session.rows("SELECT trimtab_reset()")
        found = session.learn("SELECT count(*) FROM t", 60)
        assert (found["probes"], found["phase"]) == (0, "settled"), (
            "a scan that is forbidden and has no other way is the same plan"
        )
        assert found["same_plan"] == found["plans_compared"]
