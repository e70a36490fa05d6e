"""A backend that is killed in each phase of the extension's work: the server comes back, knows what was saved, and owes nothing.

`wait=...` of `trimtab.test_cost` holds a statement of the victim in the phase until it is killed there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.engine.conftest import COST, QUERY, Row, Session, engine, waiting
from tests.engine.test_engine_faults import FILE, killed
from tests.engine.test_engine_plans import JOIN
from tests.servers.postgresql import Server

pytestmark = [pytest.mark.service, pytest.mark.needs("c-compiler", "postgresql-embedded")]

PEEKED = "stop=1;base=100;plan=0.01;enable_hashjoin=0:0.2"
"""Plans are compared, and probes run before the statement's own plan, to be stopped in time."""
MOST = 200
"""Executions after which the victim must have come to its phase, and its class after the crash to a setting."""
N_AFTER = 10
"""Executions after the crash at least."""


@dataclass(frozen=True)
class Phase:
    """One phase of the work.

    Attributes:
        wait: what holds the victim there.
        sql: its statement.
        cost: what that takes.
        n_learnt: executions before, by a session that is not killed.
        reserves: whether memory beyond the session's own is in use at that moment.
        mode: of the victim.
    """

    wait: str
    sql: str = QUERY
    cost: str = COST
    n_learnt: int = 0
    reserves: bool = False
    mode: str = "tune"

    def __str__(self) -> str:
        return f"{self.wait}-{self.mode}"


PHASES = [
    Phase("watching", mode="observe"),
    Phase("watching"),
    Phase("look", JOIN, PEEKED),
    Phase("peek", JOIN, PEEKED),
    Phase("searching", n_learnt=5, reserves=True),
    Phase("proving", reserves=True),
    Phase("settled", n_learnt=600, reserves=True),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with engine("18") as (started, _):
        yield started


def tune(session: Session, phase: Phase, more: str = "", mode: str = "tune") -> None:
    """More memory is what is tried first."""
    session.tune(phase.cost + more, mode)
    session.rows("SET trimtab.hints = 'work_mem=64MB'")


@contextmanager
def stuck(server: Server, phase: Phase) -> Iterator[Session]:
    """A session that waits in the middle of a statement, in that phase."""
    with server.admin() as connection:
        busy = Session(connection)
        tune(busy, phase, f";wait={phase.wait}", phase.mode)
        with waiting(server, busy, phase.sql, MOST):
            yield busy


def known(session: Session) -> list[tuple[object, ...]]:
    """What a file keeps of each class."""
    return sorted((row["query_id"], row["calls"], row["settings"], row["loss_ms"]) for row in session.classes())


def is_within_budget(row: Row) -> bool:
    """What was lost is covered, but for what one probe may cost beyond what its risk said."""
    return bool(row["loss_ms"] <= 0.02 * row["total_ms"] + 0.25 * row["gained_ms"] + 4 * 100)


@pytest.mark.parametrize("phase", PHASES, ids=str)
def test_a_backend_is_killed(server: Server, phase: Phase) -> None:
    with server.admin() as connection:
        session = Session(connection)
        session.rows("SELECT trimtab_reset(); SET trimtab.mode = off")
        expected = session.rows(phase.sql)
        tune(session, phase)
        session.rows("SELECT trimtab_reset()")
        for _ in range(phase.n_learnt):
            session.rows(phase.sql)
        with stuck(server, phase) as victim:
            assert (session.value("SELECT memory_kb FROM trimtab_status()") > 0) == phase.reserves
            assert session.value("SELECT trimtab_save()") is True, (
                "in the middle of it, a probe that is under way with it"
            )
            saved = known(session)
            assert len(saved) >= 1
            killed(server, victim.connection.info.backend_pid, session)
    with server.admin() as connection:
        after = Session(connection)
        tune(after, phase)
        assert after.rows("SELECT memory_kb, file_problem FROM trimtab_status()") == [(0, "")]
        assert known(after) == saved
        assert after.value("SHOW work_mem") == "4MB"
        for n in range(MOST):
            assert after.rows(phase.sql) == expected
            if n >= N_AFTER and (found := after.classes()[0])["settings"]:
                break
        assert found["settings"] != "", "what was under way when it was killed hinders nothing"
        assert is_within_budget(found)
        assert after.value("SELECT memory_kb FROM trimtab_status()") == 0


def test_a_backend_is_killed_while_it_writes_the_file(server: Server) -> None:
    """What was saved before is read; the half of a file that it leaves is taken away."""
    with server.admin() as connection:
        session = Session(connection)
        session.rows("SELECT trimtab_reset()")
        session.tune()
        session.learn(n=20)
        assert session.value("SELECT trimtab_save()") is True
        saved = known(session)
        session.learn(n=20)
        with stuck(server, Phase("save", "SELECT trimtab_save()")) as victim:
            path = server.data_dir / FILE
            left = path.with_name(f"{path.name}.{victim.connection.info.backend_pid}.tmp")
            assert 0 < left.stat().st_size < path.stat().st_size
            killed(server, victim.connection.info.backend_pid, session)
    with server.admin() as connection:
        after = Session(connection)
        assert known(after) == saved
        assert after.value("SELECT file_problem FROM trimtab_status()") == ""
        assert not left.exists()
        after.tune()
        after.learn(n=20)
        assert after.value("SELECT trimtab_save()") is True
