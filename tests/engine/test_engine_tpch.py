"""All queries of TPC-H, tuned as a whole and in sections: on plans as people have them, the answers stay the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.conftest import Session, library, script
from tests.servers.postgresql import TRUST, started
from tests.workload.conftest import with_tpch
from trimtab.workload.tpch.parameters import QUERIES
from trimtab.workload.tpch.queries import validation_query

pytestmark = [pytest.mark.service, pytest.mark.slow]

N = {"off": 20, "on": 18, "alone": 6}
"""Executions of each: after the first ten or so a class may have probes; alone there are none."""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    path = library("18")
    loaded = f"fsync = off\nshared_preload_libraries = '{path}'\n"
    with (
        started("18", settings=loaded, hba=TRUST, source=with_tpch()) as server,
        server.admin(database="trimtab_tpch_0_01") as connection,
    ):
        fresh = Session(connection)
        fresh.rows(script(path))
        yield fresh


def answers(session: Session, mode: str, n: int) -> list[list[str]]:
    """By query: its rows in any order, the same `n` times."""
    session.rows(f"SET trimtab.mode = {mode}")
    found = []
    for query in QUERIES:
        texts = [sorted(map(repr, session.rows(validation_query(query)))) for _ in range(n)]
        assert all(text == texts[0] for text in texts), f"Q{query}"
        found.append(texts[0])
    return found


ONLY_LONG = [pytest.param(inside, marks=pytest.mark.full) for inside in ("alone", "off")]
"""Of sections alone and of whole statements alone: the quick form has both at once."""


@pytest.mark.parametrize("inside", ["on", *ONLY_LONG])
def test_every_query_has_its_answer(session: Session, inside: str) -> None:
    session.rows("SELECT trimtab_reset(); SET trimtab.min_duration = '0.1ms'; SET trimtab.allow_order = on")
    session.rows("SET trimtab.budget = 50; SET trimtab.server_budget = 50; SET trimtab.inside_tuples = 1000")
    right = answers(session, "off", 1)
    session.rows(f"SET trimtab.inside = {inside}")
    assert answers(session, "tune", N[inside]) == right
    (classes,) = session.rows("SELECT count(*), coalesce(sum(probes), 0) FROM trimtab_sections WHERE calls > 3")
    (sections,) = session.rows("SELECT coalesce(sum(sections), 0), count(*) FROM trimtab_inside")
    if inside == "alone":
        assert classes[1] == 0
    else:  # how many of them are probed depends on how even their times are: 21 on a quiet machine, 7 on a busy one
        assert classes[0] > 0 < classes[1]
    assert (sections[0] > 100) == (inside != "off"), sections
