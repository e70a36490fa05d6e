"""start_state = "rollback" on real servers: nothing stays of what scripts write, and what would make it stay is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.servers.mariadb import private_mariadb
from tests.servers.mysql import private_mysql
from tests.workload.runs import counts, execute, load, quiet, row
from trimtab._native import Statement, read_statements
from trimtab.errors import LoadError, UsageError
from trimtab.records import Endpoint
from trimtab.workload.connection import connect
from trimtab.workload.server import ServerError, server_of
from trimtab.workload.sql import SqlWorkload

pytestmark = pytest.mark.service

SHOP = "rollback_of_the_tests"
USER = "somebody@localhost"
TABLES = (
    "CREATE TABLE item (id int PRIMARY KEY, price int)",
    "INSERT INTO item VALUES (1, 10), (2, 20)",
    "CREATE TABLE seen (id int)",
)
OF_MYSQL = (
    "CREATE TABLE kept (id int) ENGINE = MyISAM",
    "CREATE PROCEDURE ends() COMMIT",
    f"CREATE USER {USER}",
    "CREATE TABLE spare (id int)",
)
STATE = "SELECT SUM(price), COUNT(*), (SELECT COUNT(*) FROM seen) FROM item"
UNTOUCHED = (30, 2, 0)
ID = {"id": {"type": "int", "low": 1, "high": 2}}


def own(folder: Path, text: str, **settings: Any) -> SqlWorkload:
    (folder / "own.sql").write_text(text)
    table = {"database": SHOP, "files": ["own.sql"], "load": {"users": 2, "think": "2ms"}, "start_state": "rollback"}
    return SqlWorkload.from_settings(table | settings, directory=folder)


def rows(endpoint: Endpoint, *statements: str) -> list[tuple[Any, ...]]:
    """Of the last statement; all over one connection."""
    found: list[tuple[Any, ...]] = []
    with server_of(endpoint).connect() as session:
        for statement in statements:
            found = session.execute(statement)
    return found


def refused(workload: SqlWorkload, endpoint: Endpoint) -> UsageError:
    """How it is refused before a run; a run that nobody has prepared is refused as well."""
    with pytest.raises(UsageError) as caught:
        load(workload, endpoint)
    with pytest.raises(LoadError, match="own.sql:"):
        workload.start(endpoint, seed=1, duration_s=1.0)
    return caught.value


@pytest.fixture(scope="module")
def postgres(server: Endpoint) -> Iterator[Endpoint]:
    """The tests' own PostgreSQL with a small database of somebody's."""
    execute(server, "postgres", f"CREATE DATABASE {SHOP}")
    execute(server, SHOP, *TABLES, "CREATE SEQUENCE numbers")
    yield server.with_database(SHOP)
    execute(server, "postgres", f"DROP DATABASE {SHOP} WITH (FORCE)")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(private_mariadb, id="mariadb"),
        pytest.param(private_mysql, id="mysql", marks=pytest.mark.full),
    ],
)
def mysql(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """A MariaDB and a MySQL with the same."""
    with request.param() as mine:
        rows(mine.endpoint, f"CREATE DATABASE {SHOP}")
        there = mine.endpoint.with_database(SHOP)
        rows(there, *TABLES, *OF_MYSQL)
        yield there


def test_nothing_stays_on_postgresql(postgres: Endpoint, tmp_path: Path) -> None:
    text = (
        "UPDATE item SET price = price + 1 WHERE id = :id;\nSAVEPOINT a;\nINSERT INTO seen VALUES (1);\nROLLBACK TO a;\n"
        "CREATE TABLE made AS SELECT 1 AS x;\nDROP TABLE seen;"
    )
    log = load(own(tmp_path, text, parameters=ID, load={"users": 1, "think": "2ms"}), postgres)
    assert not log.error_classes, log.errors
    assert counts(log)["own"] > 10
    assert row(postgres, SHOP, STATE) == UNTOUCHED
    assert row(postgres, SHOP, "SELECT to_regclass('made') IS NULL") == (True,)


@pytest.mark.parametrize(
    "text",
    [
        "BEGIN;\nUPDATE item SET price = 0;\nCOMMIT;",
        "START TRANSACTION;\nUPDATE item SET price = 0;\nEND;",
        "UPDATE item SET price = 0;\nCOMMIT AND CHAIN;",
        "UPDATE item SET price = 0;\nPREPARE TRANSACTION 'left';",
        "ROLLBACK;\nUPDATE item SET price = 0;",
    ],
)
@pytest.mark.parametrize(
    "settings", [{}, {"start_state": "none", "transaction": True}], ids=["rollback", "transaction"]
)
def test_a_script_with_a_transaction_of_its_own_is_refused(
    postgres: Endpoint, tmp_path: Path, text: str, settings: dict[str, Any]
) -> None:
    error = refused(own(tmp_path, text, **settings), postgres)
    cause = "transaction=true" if settings else 'start_state="rollback"'
    assert f"cannot be used with {cause}: it ends or begins a transaction" in error.message
    assert (error.hint or "").startswith("take BEGIN, COMMIT and ROLLBACK out: Trimtab begins each transaction itself")
    assert row(postgres, SHOP, STATE) == UNTOUCHED


def test_a_script_without_a_transaction_around_it_may_have_its_own(postgres: Endpoint, tmp_path: Path) -> None:
    text = "BEGIN;\nUPDATE item SET price = price + 0;\nCOMMIT;"
    log = load(own(tmp_path, text, start_state="none", load={"users": 1, "think": "2ms"}), postgres, duration_s=0.5)
    assert not log.error_classes, log.errors
    assert counts(log)["own"] > 0


WRITING = """
INSERT INTO seen VALUES (1)
WITH a AS (DELETE FROM seen RETURNING id) SELECT * FROM a
SELECT * INTO made FROM item
MERGE INTO seen USING item ON seen.id = item.id WHEN MATCHED THEN DELETE
SELECT nextval('numbers')
SELECT setval('numbers', 1)
TRUNCATE seen
EXPLAIN ANALYZE UPDATE seen SET id = 1
CREATE TABLE made (id int)
LOCK TABLE seen
COPY seen FROM PROGRAM 'true'
SELECT * FROM item FOR UPDATE
ANALYZE seen
COMMENT ON TABLE seen IS 'x'
""".strip().splitlines()
READING = """
SELECT 1
TABLE item
VALUES (1)
WITH a AS (SELECT 1) SELECT * FROM a
EXPLAIN UPDATE seen SET id = 1
EXPLAIN (ANALYZE, BUFFERS) SELECT 1
SELECT replace('insert into', 'a', 'b') AS update
SHOW work_mem
SET work_mem = '1MB'
""".strip().splitlines()


def one(text: str, dialect: str) -> Statement:
    (statement,) = read_statements(text, dialect)
    return statement


def test_what_postgresql_takes_for_a_write_is_one(postgres: Endpoint) -> None:
    """It says so itself: in a transaction that may only read."""
    for text in (*WRITING, *READING):
        is_refused = False
        with connect(postgres) as connection:
            connection.execute("BEGIN READ ONLY")
            try:
                connection.execute(text)
            except psycopg.errors.ReadOnlySqlTransaction:
                is_refused = True
            except psycopg.Error:
                pass
            connection.execute("ROLLBACK")
        statement = one(text, "postgresql")
        assert statement.writes or not is_refused, text
        assert statement.writes == (text in WRITING), text


def test_nothing_stays_on_mysql(mysql: Endpoint, tmp_path: Path) -> None:
    text = (
        "UPDATE item SET price = price + 1 WHERE id = :id;\nSAVEPOINT a;\nINSERT INTO seen VALUES (1);\nROLLBACK TO a;\n"
        "REPLACE INTO item VALUES (2, 99);\nINSERT INTO seen SELECT id FROM item;"
    )
    log = load(own(tmp_path, text, parameters=ID, load={"users": 1, "think": "2ms"}), mysql)
    assert not log.error_classes, log.errors
    assert counts(log)["own"] > 10
    assert rows(mysql, STATE) == [UNTOUCHED]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("BEGIN;\nUPDATE item SET price = 0;\nCOMMIT;", "it ends or begins a transaction"),
        ("SET autocommit = 0;\nUPDATE item SET price = 0;\nSET autocommit = 1;", "it ends or begins a transaction"),
        ("UPDATE item SET price = 0;\nCREATE TABLE made (a int);", "MySQL and MariaDB may commit at it"),
        ("UPDATE item SET price = 0;\nCALL ends();", "MySQL and MariaDB may commit at it"),
    ],
)
def test_a_script_at_which_mysql_commits_is_refused(mysql: Endpoint, tmp_path: Path, text: str, why: str) -> None:
    error = refused(own(tmp_path, text), mysql)
    assert f'cannot be used with start_state="rollback": {why}' in error.message
    assert 'choose start_state = "template", "undo" or "none"' in (error.hint or "")
    assert rows(mysql, STATE) == [UNTOUCHED]


def test_a_table_without_transactions_is_not_written(mysql: Endpoint, tmp_path: Path) -> None:
    workload = own(tmp_path, "INSERT INTO seen VALUES (1);\nINSERT INTO `kept` VALUES (1);")
    words = r"script='own\.sql' line=2: .* table=kept cannot be rolled back, engine=MyISAM has no transactions"
    with pytest.raises(LoadError, match=words):
        workload.prepare(mysql, quiet)
    own(tmp_path, "SELECT * FROM kept;\nINSERT INTO seen VALUES (1);").prepare(mysql, quiet)


COMMITTING = f"""
COMMIT
BEGIN
START TRANSACTION READ ONLY
SET autocommit = 0; SET autocommit = 1
CREATE TABLE made (a int)
DROP TABLE made
ALTER TABLE spare ADD x int
CREATE INDEX i ON spare (id)
CREATE TRIGGER g BEFORE INSERT ON spare FOR EACH ROW SET NEW.id = 1
CREATE OR REPLACE VIEW w AS SELECT 1
TRUNCATE spare
RENAME TABLE spare TO spared
RENAME TABLE spared TO spare
ANALYZE TABLE spare
CHECK TABLE spare
OPTIMIZE TABLE spare
LOCK TABLES seen READ
FLUSH STATUS
GRANT SELECT ON *.* TO {USER}
SET PASSWORD FOR {USER} = ''
CALL ends()
PREPARE s FROM 'COMMIT'; EXECUTE s
""".strip().splitlines()
IN_MARIADB = """
SET DEFAULT ROLE NONE
RESET QUERY CACHE
EXECUTE IMMEDIATE 'COMMIT'
SET STATEMENT max_statement_time = 9 FOR CREATE TABLE others (a int)
""".strip().splitlines()
HARMLESS = """
SELECT 1
TABLE item
WITH a AS (SELECT 1) SELECT * FROM a
REPLACE INTO item VALUES (1, 10)
SAVEPOINT a; ROLLBACK TO a
SAVEPOINT a; RELEASE SAVEPOINT a
CREATE TEMPORARY TABLE brief (a int); DROP TEMPORARY TABLE brief
PREPARE s FROM 'SELECT 1'; DEALLOCATE PREPARE s
HANDLER item OPEN; HANDLER item CLOSE
SET @a = 1
SET SESSION wait_timeout = 1000
SET ROLE NONE
EXPLAIN SELECT 1
ANALYZE FORMAT=JSON SELECT 1
DESCRIBE item
SHOW TABLES
CHECKSUM TABLE item
DO 1
SIGNAL SQLSTATE '01000'
USE test
""".strip().splitlines()


def has_committed(endpoint: Endpoint, statements: Sequence[str]) -> bool:
    """Whether a row that was inserted before them can not be rolled back after them, also when one of them failed."""
    try:
        with server_of(endpoint).connect() as session:
            for text in ("BEGIN", "INSERT INTO seen VALUES (7)"):
                session.execute(text)
            for text in statements:
                with suppress(ServerError):
                    session.execute(text)
            session.execute("ROLLBACK")
        return bool(rows(endpoint, "SELECT * FROM seen WHERE id = 7"))
    finally:
        rows(endpoint, "DELETE FROM seen")


def test_whatever_mysql_commits_at_is_known(mysql: Endpoint) -> None:
    """The server says so itself, for each kind of statement."""
    is_mariadb = "MariaDB" in str(rows(mysql, "SELECT VERSION()"))
    for texts in (*COMMITTING, *IN_MARIADB, *HARMLESS):
        found = read_statements(texts, "mysql")
        is_known = any(statement.controls or statement.commits for statement in found)
        assert is_known == (texts not in HARMLESS), texts
        if is_mariadb or texts not in IN_MARIADB:
            assert has_committed(mysql, texts.split("; ")) == is_known, texts
