"""What a DBA relies on: EXPLAIN shows what runs, what is locked stays as it is, and no answer and no statement is lost."""

from __future__ import annotations

import pytest

from tests.engine.conftest import Session, engine
from tests.engine.test_engine_plans import BIG
from tests.servers.postgresql import DEBIAN

pytestmark = [pytest.mark.service, pytest.mark.needs("c-compiler", "postgresql-embedded")]

SORT = "SELECT g, r FROM big ORDER BY r, g"
"""Is done on disk with 4 MB, and in memory with 64 MB."""


def explained(session: Session, sql: str, options: str = "ANALYZE, TIMING OFF") -> str:
    return "\n".join(str(row[0]) for row in session.rows(f"EXPLAIN ({options}) {sql}"))


@pytest.mark.parametrize("version", ["18", DEBIAN])
def test_what_explain_shows_is_what_runs(version: str) -> None:
    """And EXPLAIN, of whichever kind, is neither a probe nor measured."""
    notices: list[str] = []
    with engine(version, "jit = off\nmax_parallel_workers_per_gather = 0\n") as (_, session):
        session.connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        session.rows(BIG)
        query_id = session.learn(SORT, 6)["query_id"]
        session.rows(f"SELECT trimtab_pin({query_id}, 'work_mem=64MB')")
        session.rows(f"PREPARE sorted AS {SORT}")
        calls = session.classes()[0]["calls"]
        said = "Trimtab: pinned: work_mem=65536"
        text = explained(session, SORT)
        assert said in text
        assert "Sort Method: quicksort" in text
        assert session.value("SHOW work_mem") == "4MB"
        for _ in range(7):  # the plan is made for the first, and kept
            notices.clear()
            text = explained(session, "EXECUTE sorted")
            assert "Sort Method: quicksort" in text
            assert said in text + "".join(notices)
        notices.clear()
        assert said.partition(": ")[2] in explained(session, SORT, "FORMAT JSON") + "".join(notices)
        assert session.classes()[0]["calls"] == calls
        session.rows("EXECUTE sorted")
        assert session.classes()[0]["calls"] == calls + 1, "what is kept runs and is measured as before"
        made = explained(session, "CREATE TABLE made AS " + SORT) + explained(
            session, "DECLARE c CURSOR FOR " + SORT, "COSTS OFF"
        )
        assert "Trimtab" not in made, "what is left alone has no line"
        assert "external merge" in made
        session.rows("SET trimtab.memory_limit = '1MB'")
        assert "left alone: the memory limit is reached" in explained(session, "EXECUTE sorted") + "".join(notices)
        session.rows("RESET trimtab.memory_limit; SET work_mem = '1MB'")
        text = explained(session, "EXECUTE sorted") + "".join(notices)
        assert "external merge" in text
        assert "left alone: " in text


def test_explain_takes_no_probe(session: Session) -> None:
    """Neither of a statement nor of a prepared one: plans with a probe's settings are for measured executions only."""
    session.rows(BIG)
    session.rows("SET trimtab.parameters = 'work_mem'")
    session.tune("base=100;work_mem=16384:0.99")
    session.learn(SORT, 12)
    session.rows(f"PREPARE sorted AS {SORT}")
    before = session.classes()[0]
    for sql in (SORT, "EXECUTE sorted", SORT, "EXECUTE sorted"):
        assert "Trimtab: own values: nothing has been proven faster" in explained(session, sql)
        assert "external merge" in explained(session, sql)
    after = session.classes()[0]
    assert (after["calls"], after["probes"]) == (before["calls"], before["probes"])
