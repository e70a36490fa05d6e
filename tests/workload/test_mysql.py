"""The workloads on a real MariaDB: data made and found again, every start state, and what is said when it cannot be."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.servers.mariadb import MariaDb, private_mariadb
from tests.workload.runs import counts, load, quiet
from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.database import Dataset, clone, drop_clone, ensure
from trimtab.workload.server import ServerError, Session, server_of
from trimtab.workload.sql import SqlWorkload
from trimtab.workload.ycsb import YcsbWorkload
from trimtab.workload.ycsb.settings import CORE

pytestmark = [pytest.mark.service, pytest.mark.slow]

RECORDS = 1000
DATA = f"trimtab_ycsb_{RECORDS}"


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDb]:
    with private_mariadb() as server:
        yield server


@pytest.fixture(scope="module")
def endpoint(mariadb: MariaDb) -> Endpoint:
    return mariadb.endpoint


def ycsb(**settings: Any) -> YcsbWorkload:
    return YcsbWorkload.from_settings({"records": RECORDS, "load": {"users": 4, "think": "2ms"}} | settings)


def rows(endpoint: Endpoint, database: str, statement: str) -> list[tuple[Any, ...]]:
    with server_of(endpoint).connect(database) as session:
        return session.execute(statement)


def databases(endpoint: Endpoint) -> set[str]:
    return {str(name) for (name,) in rows(endpoint, "", "SHOW DATABASES")}


def test_the_records_are_those_that_were_published(endpoint: Endpoint) -> None:
    preparation = ycsb(workload="C").prepare(endpoint, quiet)
    assert preparation.size_bytes > RECORDS * 1000
    assert rows(endpoint, DATA, "SELECT COUNT(*), COUNT(DISTINCT ycsb_key) FROM usertable") == [(RECORDS, RECORDS)]
    first = "SELECT COUNT(*) FROM usertable WHERE ycsb_key = 'user6284781860667377211'"
    assert rows(endpoint, DATA, first) == [(1,)]
    of_columns = "SELECT column_name FROM mysql.column_stats WHERE db_name = DATABASE()"
    assert rows(endpoint, DATA, of_columns) == [("ycsb_key",)]  # MariaDB keeps none of the type that the fields have
    assert ycsb(workload="C").prepare(endpoint, quiet).was_cached


@pytest.mark.parametrize(
    "workload", [pytest.param(name, marks=() if name in "AE" else pytest.mark.full) for name in sorted(CORE)]
)
def test_every_core_workload_runs(endpoint: Endpoint, workload: str) -> None:
    run = ycsb(workload=workload)
    log = load(run, endpoint)
    assert not log.error_classes, log.errors
    assert sum(counts(log).values()) > 50
    assert rows(endpoint, DATA, "SELECT COUNT(*) FROM usertable") == [(RECORDS,)]
    run.clean_up(endpoint)
    assert f"{DATA}_run" not in databases(endpoint)


def test_a_server_that_restricts_every_session_is_loaded(mariadb: MariaDb, endpoint: Endpoint) -> None:
    """Without autocommit the records that are loaded would be gone when their connections end, and a run one transaction."""
    strict = {
        "autocommit": (0, 1), "innodb_force_primary_key": (1, 0), "max_join_size": (10, "DEFAULT"),
        "max_statement_time": (5, 0), "sql_safe_updates": (1, 0), "sql_select_limit": (1, "DEFAULT"),
    }  # fmt: skip
    run = YcsbWorkload.from_settings({"records": 500, "workload": "A", "load": {"users": 2}})
    mariadb.run("; ".join(f"SET GLOBAL {name} = {value}" for name, (value, _) in strict.items()))
    try:
        log = load(run, endpoint)
        changed = rows(
            endpoint, "trimtab_ycsb_500",
            "SELECT COUNT(*), SUM(r.field0 <> u.field0) > 0 FROM trimtab_ycsb_500_run.usertable r"
            " JOIN usertable u USING (ycsb_key)",
        )  # fmt: skip
    finally:
        mariadb.run("; ".join(f"SET GLOBAL {name} = {value}" for name, (_, value) in strict.items()))
        run.clean_up(endpoint)
    assert not log.error_classes, log.errors
    assert changed == [(500, 1)]


def test_runs_that_write_leave_the_data_as_it_was(endpoint: Endpoint) -> None:
    workload = ycsb(workload="A")
    workload.prepare(endpoint, quiet)
    digest = "SELECT MD5(GROUP_CONCAT(MD5(CONCAT(ycsb_key, field0, field9)) ORDER BY ycsb_key)) FROM usertable"
    before = rows(endpoint, DATA, digest)
    load(workload, endpoint)
    assert rows(endpoint, workload.database.name, digest) != before
    assert rows(endpoint, DATA, digest) == before
    state = workload.reset(endpoint, quiet)
    assert state is not None
    assert rows(endpoint, workload.database.name, digest) == before
    workload.clean_up(endpoint)


def test_fields_longer_than_a_text_are_loaded_and_read(endpoint: Endpoint) -> None:
    workload = ycsb(workload="C", records=60, fields=2, field_length=70_000, batch=1000)
    log = load(workload, endpoint)
    assert not log.error_classes, log.errors
    lengths = "SELECT COUNT(*), MIN(LENGTH(field0)), MAX(LENGTH(field1)) FROM usertable"
    assert rows(endpoint, workload.database.data, lengths) == [(60, 70_000, 70_000)]
    with server_of(endpoint).connect() as session:
        session.execute(f"DROP DATABASE {workload.database.data}")


SHOP = """CREATE TABLE item (id int PRIMARY KEY, price int);
INSERT INTO item VALUES (1, 10), (2, 20), (3, 30), (4, 40);
CREATE TABLE seen (id int AUTO_INCREMENT PRIMARY KEY, item int);"""


@pytest.fixture
def shop(endpoint: Endpoint) -> Iterator[Endpoint]:
    with server_of(endpoint).connect() as session:
        session.execute("CREATE DATABASE shop")
    there = endpoint.with_database("shop")
    server_of(there).run_script(SHOP)
    yield there
    with server_of(endpoint).connect() as session:
        session.execute("DROP DATABASE shop")


def sql(folder: Path, text: str, **settings: Any) -> SqlWorkload:
    (folder / "own.sql").write_text(text)
    table = {"kind": "sql", "database": "shop", "files": ["own.sql"], "load": {"users": 2, "think": "2ms"}}
    return SqlWorkload.from_settings(table | settings, directory=folder)


COLUMN = {"id": {"type": "column", "table": "item", "column": "id"}}


def test_a_sample_has_each_value_as_often_as_the_table(shop: Endpoint) -> None:
    server = server_of(shop)
    numbers = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900)"
    with server.connect() as session:
        session.execute("CREATE TABLE orders (status VARCHAR(20))")
        session.execute(f"INSERT INTO orders {numbers} SELECT IF(i % 2, 'done', i % 50) FROM n")
        found = server.sample(session, ["orders"], "status", 200)
        assert len(found) == 200
        assert 70 < found.count("done") < 130
        assert len(set(found)) > 15
        assert server.sample(session, ["orders"], "status", 200) == found
        session.execute("DROP TABLE orders")


def test_bytes_that_are_no_text_are_not_sampled(shop: Endpoint) -> None:
    """Keys such as BINARY(16): what is asked for would be in no row."""
    server = server_of(shop)
    with server.connect() as session:
        session.execute("CREATE TABLE bytes (title VARBINARY(20), uid BINARY(4))")
        session.execute("INSERT INTO bytes VALUES ('Zürich', UNHEX('FF00FF00'))")
        assert server.sample(session, ["bytes"], "title", 5) == ["Zürich"]
        with pytest.raises(ServerError, match="its values are bytes, and not all of them are texts"):
            server.sample(session, ["bytes"], "uid", 5)


def test_bit_fields_are_asked_for_and_written_as_they_are(shop: Endpoint, tmp_path: Path) -> None:
    """Of the two values each has its own row, and what is written back is the same value."""
    with server_of(shop).connect() as session:
        session.execute("CREATE TABLE flagged (id int AUTO_INCREMENT PRIMARY KEY, flags BIT(10))")
        session.execute("CREATE TABLE met (flags BIT(10), n int)")
        session.execute("INSERT INTO flagged (flags) VALUES (5), (577)")
    flags = {"flags": {"type": "column", "table": "flagged", "column": "flags"}}
    text = "INSERT INTO met SELECT :flags, COUNT(*) FROM flagged WHERE flags = :flags;"
    workload = sql(tmp_path, text, parameters=flags, start_state="none")
    log = load(workload, shop)
    assert not log.error_classes, log.errors
    found = rows(shop, "shop", "SELECT DISTINCT flags + 0, n FROM met ORDER BY 1")
    assert found == [(5, 1), (577, 1)]


def test_events_are_in_no_copy_and_that_is_told(shop: Endpoint, tmp_path: Path) -> None:
    server_of(shop).run_script("CREATE EVENT tidy ON SCHEDULE EVERY 1 DAY DO DELETE FROM seen")
    workload = sql(
        tmp_path, "UPDATE item SET price = price + 1 WHERE id = :id;", parameters=COLUMN, start_state="template"
    )
    told: list[str] = []
    workload.prepare(shop, told.append)
    workload.reset(shop, told.append)
    workload.reset(shop, told.append)
    assert [line for line in told if "event" in line] == [
        "database=shop has 1 event (tidy): the copies that runs use have none; the event scheduler goes on in the original"
    ]
    assert rows(shop, "shop", "SELECT event_schema FROM information_schema.events") == [("shop",)]
    workload.clean_up(shop)


def test_own_statements_with_sampled_parameters(shop: Endpoint, tmp_path: Path) -> None:
    workload = sql(tmp_path, "SELECT price FROM item WHERE id = :id;", parameters=COLUMN)
    told: list[str] = []
    workload.prepare(shop, told.append)
    (line,) = [text for text in told if text.startswith("drawing")]
    assert re.fullmatch(
        r"drawing .* item\.id for the parameter id: reads about (\d+\S*) of \1, once for all runs", line
    )
    log = load(workload, shop)
    assert not log.error_classes, log.errors
    assert sum(counts(log).values()) > 50


@pytest.mark.parametrize(
    ("what", "statement"),
    [
        ("foreign keys", "ALTER TABLE seen ADD CONSTRAINT f FOREIGN KEY (item) REFERENCES item (id)"),
        ("triggers", "CREATE TRIGGER t BEFORE INSERT ON seen FOR EACH ROW SET NEW.item = 1"),
        ("views", "CREATE VIEW dear AS SELECT * FROM item WHERE price > 20"),
        ("procedures and functions", "CREATE PROCEDURE p() SELECT 1"),
        ("generated columns", "ALTER TABLE item ADD COLUMN twice int GENERATED ALWAYS AS (price * 2) STORED"),
        ("sequences and tables with a history", "CREATE SEQUENCE ticket"),
        ("sequences and tables with a history", "ALTER TABLE item ADD SYSTEM VERSIONING"),
    ],
)
def test_a_database_that_cannot_be_copied_whole_is_refused(
    shop: Endpoint, tmp_path: Path, what: str, statement: str
) -> None:
    server_of(shop).run_script(statement)
    workload = sql(
        tmp_path, "UPDATE item SET price = price + 1 WHERE id = :id;", parameters=COLUMN, start_state="template"
    )
    workload.prepare(shop, quiet)
    with pytest.raises(LoadError, match=rf"database=shop cannot be copied as a whole \({what}: 1\)"):
        workload.reset(shop, quiet)
    assert rows(shop, "shop", "SHOW DATABASES LIKE 'shop\\_%'") == []


def test_a_copy_has_the_columns_that_no_star_shows(shop: Endpoint) -> None:
    server_of(shop).run_script(
        "ALTER TABLE item ADD COLUMN `odd, name` int INVISIBLE, ADD COLUMN twice int AS (price * 2) VIRTUAL INVISIBLE;"
        "UPDATE item SET `odd, name` = id * 7"
    )
    clone(shop, "shop", "shop_run")
    sums = "SELECT SUM(`odd, name`), SUM(price), SUM(twice) FROM item"
    assert rows(shop, "shop_run", sums) == [(70, 100, 200)]
    drop_clone(shop, "shop_run")


@pytest.mark.parametrize(
    "settings",
    [{"start_state": "rollback"}, {"start_state": "template"}, {"start_state": "undo", "undo": "undo.sql"}],
    ids=lambda settings: settings["start_state"],
)
def test_every_start_state(shop: Endpoint, tmp_path: Path, settings: dict[str, Any]) -> None:
    (tmp_path / "undo.sql").write_text("TRUNCATE TABLE seen; UPDATE item SET price = id * 10;")
    text = "UPDATE item SET price = price + 1 WHERE id = :id;\nINSERT INTO seen (item) VALUES (:id);"
    workload = sql(tmp_path, text, parameters=COLUMN, **settings)
    log = load(workload, shop)
    assert not log.error_classes, log.errors
    workload.clean_up(shop)
    assert rows(shop, "shop", "SELECT SUM(price), (SELECT COUNT(*) FROM seen) FROM item") == [(100, 0)]


def test_a_statement_that_the_server_refuses_is_named(shop: Endpoint, tmp_path: Path) -> None:
    workload = sql(tmp_path, "SELECT colour FROM item;")
    with pytest.raises(LoadError, match=r"script='own\.sql': Unknown column 'colour' in '[^']+': SELECT colour"):
        workload.prepare(shop, quiet)


def test_an_undo_script_that_fails_is_told(shop: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "undo.sql").write_text("UPDATE item SET price = 0; DELETE FROM nowhere;")
    workload = sql(tmp_path, "UPDATE item SET price = 1;", start_state="undo", undo="undo.sql")
    with pytest.raises(LoadError, match=r"undo script failed on database=shop: Table 'shop\.nowhere' doesn't exist"):
        workload.reset(shop, quiet)


def _fill(there: Endpoint, report: Callable[[str], None]) -> None:
    with server_of(there).connect() as session:
        session.execute("CREATE TABLE t AS SELECT 1 AS x")


def _check(session: Session) -> str:
    return "" if session.execute("SELECT COUNT(*) FROM t") == [(1,)] else "rows are missing"


WANTED = Dataset(database="trimtab_thing", content={"n": 1}, size_bytes=1, fill=_fill, check=_check)


@pytest.fixture
def clean(endpoint: Endpoint) -> Iterator[Endpoint]:
    yield endpoint
    with server_of(endpoint).connect() as session:
        for name in ("trimtab_thing", "trimtab_thing_run"):
            session.execute(f"DROP DATABASE IF EXISTS {name}")


def test_data_is_made_once_and_made_anew_when_it_has_changed(clean: Endpoint) -> None:
    assert not ensure(clean, WANTED, quiet).was_cached
    assert ensure(clean, WANTED, quiet).was_cached
    rows(clean, "trimtab_thing", "DELETE FROM t")
    lines: list[str] = []
    assert not ensure(clean, WANTED, lines.append).was_cached
    assert lines[0] == "trimtab_thing is created again: rows are missing"


def test_who_loads_the_same_data_meanwhile_is_waited_for_and_told(clean: Endpoint) -> None:
    lines: list[str] = []
    server = server_of(clean)
    with ThreadPoolExecutor(1) as pool, server.connect() as other:  # whose lock a failure must give back first
        assert server.lock(other, WANTED.database, wait=False)
        made = pool.submit(ensure, clean, WANTED, lines.append)
        while not lines and not made.done():
            time.sleep(0.05)
        assert lines == ["another Trimtab is loading trimtab_thing; waiting for it"]
        other.execute("SELECT RELEASE_ALL_LOCKS()")
        assert not made.result(60).was_cached


def test_a_load_that_was_killed_is_made_anew(clean: Endpoint) -> None:
    def killed(there: Endpoint, report: Callable[[str], None]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure(clean, replace(WANTED, fill=killed), quiet)
    lines: list[str] = []
    assert not ensure(clean, WANTED, lines.append).was_cached
    assert lines[0] == "trimtab_thing is created again: its last load was interrupted"


def test_a_database_of_somebody_else_is_not_touched(clean: Endpoint) -> None:
    rows(clean, "", "CREATE DATABASE trimtab_thing")
    rows(clean, "trimtab_thing", "CREATE TABLE theirs (x int)")
    with pytest.raises(LoadError, match="database=trimtab_thing exists and was not made by Trimtab"):
        ensure(clean, WANTED, quiet)
    with pytest.raises(LoadError, match="database=trimtab_thing exists and was not made by Trimtab"):
        drop_clone(clean, "trimtab_thing")
    assert rows(clean, "trimtab_thing", "SHOW TABLES") == [("theirs",)]


def test_a_disk_that_is_too_small_is_said_before_anything_is_written(clean: Endpoint) -> None:
    with pytest.raises(LoadError, match="disk too small for database=trimtab_thing: free=1KiB needed=1GiB"):
        ensure(clean, replace(WANTED, size_bytes=1 << 30), quiet, free_bytes=lambda server, session: 1024)
    assert "trimtab_thing" not in databases(clean)


def test_a_copy_has_each_row_as_it_is(clean: Endpoint) -> None:
    """An id of 0 is no wish for the next number."""
    rows(clean, "", "CREATE DATABASE trimtab_thing")
    rows(clean, "trimtab_thing", "CREATE TABLE store (id int AUTO_INCREMENT PRIMARY KEY, name varchar(9))")
    for number, name in ((7, "admin"), (1, "main")):
        rows(clean, "trimtab_thing", f"INSERT INTO store VALUES ({number}, '{name}')")
    rows(clean, "trimtab_thing", "UPDATE store SET id = 0 WHERE id = 7")
    clone(clean, "trimtab_thing", "trimtab_thing_run")
    assert rows(clean, "trimtab_thing_run", "SELECT id, name FROM store ORDER BY id") == [(0, "admin"), (1, "main")]


def _plain_tables(clean: Endpoint) -> None:
    rows(clean, "", "CREATE DATABASE trimtab_thing")
    for name in "abcdefg":
        rows(clean, "trimtab_thing", f"CREATE TABLE {name} (id int PRIMARY KEY, CONSTRAINT small CHECK (id < 100))")
        rows(clean, "trimtab_thing", f"INSERT INTO {name} VALUES (1), (2), ({10 + ord(name) - ord('a')})")


def test_a_copy_has_every_table(clean: Endpoint) -> None:
    """More of them than there are sessions that copy."""
    _plain_tables(clean)
    clone(clean, "trimtab_thing", "trimtab_thing_run")
    assert rows(clean, "trimtab_thing_run", "SHOW TABLES") == [*((name,) for name in "abcdefg"), ("trimtab_copy",)]
    for i, name in enumerate("abcdefg"):
        assert rows(clean, "trimtab_thing_run", f"SELECT id FROM {name} ORDER BY id") == [(1,), (2,), (10 + i,)]


def test_a_table_that_cannot_be_copied_is_said_by_whichever_session_meets_it(clean: Endpoint) -> None:
    _plain_tables(clean)
    for name in "abcdefg":
        rows(clean, "trimtab_thing", f"SET STATEMENT check_constraint_checks = 0 FOR INSERT INTO {name} VALUES (500)")
        with pytest.raises(LoadError, match=r"cannot copy database=trimtab_thing to trimtab_thing_run: CONSTRAINT"):
            clone(clean, "trimtab_thing", "trimtab_thing_run")
        rows(clean, "trimtab_thing", f"DELETE FROM {name} WHERE id = 500")


def test_ctrl_c_ends_what_the_other_sessions_copy(clean: Endpoint) -> None:
    _plain_tables(clean)
    main = threading.main_thread().ident
    assert main is not None
    with server_of(clean).connect("trimtab_thing") as holder:
        holder.execute(f"LOCK TABLES {', '.join(f'{name} WRITE' for name in 'abcdefg')}")
        timer = threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            clone(clean, "trimtab_thing", "trimtab_thing_run")
        left = rows(clean, "", "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'INSERT INTO%'")
        assert left[0][0] <= 1, (
            "the server goes on with that of the session that was cut off, and is told of the others"
        )
    assert drop_clone(clean, "trimtab_thing_run")


def test_a_copy_of_nothing_is_empty_but_for_its_mark(clean: Endpoint) -> None:
    rows(clean, "", "CREATE DATABASE trimtab_thing")
    clone(clean, "trimtab_thing", "trimtab_thing_run")
    assert rows(clean, "trimtab_thing_run", "SHOW TABLES") == [("trimtab_copy",)]


def test_who_may_not_create_is_told(mariadb: MariaDb, clean: Endpoint) -> None:
    mariadb.run("CREATE USER IF NOT EXISTS small@localhost IDENTIFIED BY 'horse'")
    with pytest.raises(LoadError, match="user=small may not create database=trimtab_thing") as caught:
        ensure(replace(clean, user="small", password="horse", database=""), WANTED, quiet)
    assert caught.value.hint == "as an administrator: GRANT ALL ON `trimtab_thing`.* TO that user"


def test_a_server_that_takes_no_writes_is_said(mariadb: MariaDb, clean: Endpoint) -> None:
    mariadb.run("CREATE USER IF NOT EXISTS plain@localhost; GRANT ALL ON *.* TO plain@localhost; REVOKE READ ONLY ADMIN "
                "ON *.* FROM plain@localhost; SET GLOBAL read_only = 1")  # fmt: skip
    try:
        with pytest.raises(LoadError, match="database=trimtab_thing cannot be made: the server takes no writes"):
            ensure(replace(clean, user="plain", password=""), WANTED, quiet)
    finally:
        mariadb.run("SET GLOBAL read_only = 0")


def test_a_wrong_password_is_told_and_not_shown(endpoint: Endpoint) -> None:
    with pytest.raises(LoadError, match="cannot connect: endpoint=mysql://tester@.* Access denied") as caught:
        server_of(replace(endpoint, password="my secret")).connect()
    assert "my secret" not in str(caught.value)


def test_the_password_comes_from_the_environment_or_the_users_own_file(
    mariadb: MariaDb, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    (tmp_path / ".my.cnf").write_text(f'[client]\nuser = other\npassword = "{mariadb.password}"\n')
    without = replace(endpoint, password=None)
    assert rows(without, "", "SELECT 1") == [(1,)]
    monkeypatch.setenv("MYSQL_PWD", "wrong")
    with pytest.raises(LoadError, match="Access denied"):
        server_of(without).connect()
    monkeypatch.setenv("MYSQL_PWD", mariadb.password)
    (tmp_path / ".my.cnf").write_text("[client\nnonsense")
    assert rows(without, "", "SELECT 1") == [(1,)]
