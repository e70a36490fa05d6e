"""sysbench's oltp transactions on a real PostgreSQL and a real MariaDB: rows, statements, start state, wrong settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.mariadb import private_mariadb
from tests.servers.mysql import private_mysql
from tests.workload.runs import counts, load, quiet
from trimtab.errors import UsageError
from trimtab.records import Endpoint
from trimtab.workload.database import clone
from trimtab.workload.oltp import OltpWorkload
from trimtab.workload.oltp.scripts import SCRIPTS, text_of
from trimtab.workload.server import server_of
from trimtab.workload.ycsb import YcsbWorkload

ROWS = 1000
DATA = f"trimtab_oltp_1x{ROWS}"


QUICK = ("read_write", "update_index")
"""A transaction with every statement that the scripts have but one, and a statement by itself."""


def oltp(**settings: Any) -> OltpWorkload:
    return OltpWorkload.from_settings({"table_size": ROWS, "load": {"users": 4, "think": "2ms"}} | settings)


def rows(endpoint: Endpoint, database: str, statement: str) -> list[tuple[Any, ...]]:
    with server_of(endpoint).connect(database) as session:
        return session.execute(statement)


@pytest.fixture(scope="module", params=["postgresql", "mysql"])
def there(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """A server of each kind, without what these tests have made on it afterwards."""
    if request.param == "postgresql":
        endpoint: Endpoint = request.getfixturevalue("server")
        yield endpoint
        with server_of(endpoint).connect() as session:
            for name in (DATA, f"{DATA}_run", f"trimtab_oltp_2x{ROWS}"):
                server_of(endpoint).drop(session, name)
        return
    with private_mariadb() as maria:
        yield Endpoint(
            protocol="mysql", host=maria.socket, port=maria.port, user=maria.user, password=maria.password,
            database=maria.database,
        )  # fmt: skip


@pytest.mark.service
@pytest.mark.parametrize(
    "script", [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in SCRIPTS]
)
def test_every_script_runs_and_leaves_the_data_as_it_was(there: Endpoint, script: str) -> None:
    workload = oltp(script=script)
    log = load(workload, there)
    n = counts(log)[script]
    assert n > 20
    # On PostgreSQL two transactions that replace one row at once end in a duplicate key, as they do under sysbench.
    assert set(log.error_classes) <= {"constraint"}, log.errors
    assert log.error_classes.get("constraint", 0) < max(5, n / 100)
    workload.clean_up(there)
    digest = "SELECT COUNT(*), MIN(id), MAX(id), COUNT(DISTINCT c) FROM sbtest1"
    assert rows(there, DATA, digest) == [(ROWS, 1, ROWS, ROWS)]
    assert workload.prepare(there, quiet).was_cached


@pytest.mark.service
def test_tables_have_transactions_whatever_engine_the_server_makes_them_with_by_default() -> None:
    with private_mariadb("--default-storage-engine=MyISAM") as maria:
        for workload in (oltp(), YcsbWorkload.from_settings({"workload": "C", "records": ROWS})):
            workload.prepare(maria.endpoint, quiet)
        asked = "SELECT table_name, engine FROM information_schema.tables WHERE table_name IN ('sbtest1', 'usertable')"
        assert dict(rows(maria.endpoint, "test", asked)) == {"sbtest1": "InnoDB", "usertable": "InnoDB"}


@pytest.mark.service
def test_a_copy_has_its_rows_where_nothing_is_committed_by_itself() -> None:
    with private_mysql() as mysql:
        there = mysql.endpoint
        rows(there, "mysql", "SET GLOBAL autocommit = 0")
        oltp().prepare(there, quiet)
        for _ in range(5):  # several sessions copy; any of them may take the table
            clone(there, DATA, f"{DATA}_run")
            assert rows(there, f"{DATA}_run", "SELECT COUNT(*) FROM sbtest1") == [(ROWS,)]


@pytest.mark.service
def test_rows_are_of_sysbench_s_form_and_the_same_on_every_server(there: Endpoint) -> None:
    oltp().prepare(there, quiet)
    ((c, pad, k),) = rows(there, DATA, "SELECT c, pad, k FROM sbtest1 WHERE id = 7")
    assert [len(part) for part in c.strip().split("-")] == [11] * 10
    assert [len(part) for part in pad.strip().split("-")] == [11] * 5
    assert (c.strip()[:11], k) == ("92755880946", 76)


@pytest.mark.service
def test_the_statistics_are_those_that_the_server_can_gather(there: Endpoint) -> None:
    """Those of columns among them."""
    oltp().prepare(there, quiet)
    if there.protocol == "mysql":
        asked = "SELECT column_name FROM mysql.column_stats WHERE db_name = DATABASE() AND table_name = 'sbtest1'"
    else:
        asked = "SELECT attname FROM pg_stats JOIN pg_class ON relname = tablename WHERE tablename = 'sbtest1' AND relpages > 0"
    assert {name for (name,) in rows(there, DATA, asked)} == {"id", "k", "c", "pad"}


@pytest.mark.service
def test_several_tables_have_a_label_each(there: Endpoint) -> None:
    log = load(oltp(script="point_select", tables=2, distribution="zipfian"), there)
    assert set(counts(log)) == {"point_select sbtest1", "point_select sbtest2"}


def test_a_transaction_has_sysbench_s_statements() -> None:
    script = SCRIPTS["read_write"]
    text = text_of(script, "sbtest1", 100)
    lines = text.splitlines()
    assert len(lines) == 18
    assert sum(line.startswith("SELECT") for line in lines) == 14
    assert lines[10] == "SELECT c FROM sbtest1 WHERE id BETWEEN :first1 AND :first1 + 99;"
    assert script.read_share == pytest.approx(14 / 18)


def test_the_context_says_what_is_asked() -> None:
    context = oltp(script="read_only").context
    assert (context.workload, context.clients, context.read_share) == ("oltp read_only 1 x 1000 rows", 4, 1.0)
    assert oltp(script="read_only").reset(Endpoint(protocol="x", host="", port=0, user="", database=""), quiet) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"script": "readwrite"}, "script='readwrite' is not known"),
        ({"tables": 0}, "tables=0 is out of range"),
        ({"table_size": 10}, "table_size=10 is out of range"),
        ({"range_size": 2000}, "range_size=2000 is out of range"),
        ({"distribution": "special"}, "distribution='special' is not known"),
        ({"scale": 3}, "unknown key in [workload]: scale=3"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        oltp(**settings)
    assert message in caught.value.message
