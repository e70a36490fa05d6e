"""Own SQL and pgbench: their [workload] tables and generators, right and wrong."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import LoadError, UsageError
from trimtab.load import build_source
from trimtab.records import Endpoint
from trimtab.workload.pgbench import PgbenchWorkload
from trimtab.workload.pgbench.settings import parse_settings as parse_pgbench
from trimtab.workload.sql import SqlWorkload, profile
from trimtab.workload.sql.generators import AUTO_LIMIT, parse_generators
from trimtab.workload.sql.settings import parse_settings as parse_sql


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    queries = tmp_path / "queries"
    queries.mkdir()
    (queries / "list.sql").write_text("SELECT * FROM t WHERE note <> 'please update' AND id = :id; -- DELETE nothing")
    (queries / "pay.sql").write_text("UPDATE t SET x = x + 1 WHERE id = :id;")
    (tmp_path / "undo.sql").write_text("UPDATE t SET x = 0;")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_every_script_of_the_folder_is_taken(folder: Path) -> None:
    settings = parse_sql({"database": "d", "folder": "queries", "weights": {"pay": 3}}, folder)
    assert [(s.label, s.weight) for s in settings.scripts] == [("list", 1.0), ("pay", 3.0)]


def test_a_folder_may_be_anywhere_and_have_any_name(folder: Path, tmp_path: Path) -> None:
    """An @ in names that the user did not list has no weight behind it."""
    (folder / "queries").rename(folder / "mine@home")
    (folder / "mine@home" / "pay.sql").rename(folder / "mine@home" / "pay@3.sql")
    for where in ("mine@home", str(folder / "mine@home")):
        settings = parse_sql({"database": "d", "folder": where}, folder)
        assert [(s.label, s.weight) for s in settings.scripts] == [("list", 1.0), ("pay@3", 1.0)]
        assert settings.scripts[0].source == f"{where}/list.sql"


def test_words_in_texts_and_comments_do_not_write(folder: Path) -> None:
    only_read = {"database": "d", "files": ["queries/list.sql"]}
    workload = SqlWorkload.from_settings(only_read, directory=folder)
    assert workload.is_read_only
    assert workload.context.read_share == 1.0
    assert workload.database.name == "d"


@pytest.mark.parametrize(
    "text",
    [
        "REPLACE LOW_PRIORITY INTO t VALUES (1);",
        "LOAD DATA INFILE 'x' INTO TABLE t;",
        "RENAME TABLE t TO u;",
        "SELECT * INTO copied FROM t;",
        r"SELECT 'it\'s'; DELETE FROM t WHERE a = 'x';",
        "SELECT $$it's$$; DELETE FROM t WHERE a = 'x';",
        "SELECT setval('s', 1);",
        "SELECT 1 /*! INTO OUTFILE '/x' */;",
    ],
)
def test_whatever_writes_needs_a_start_state(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.sql").write_text(text)
    table = {"database": "d", "files": ["a.sql"]}
    with pytest.raises(UsageError, match="the scripts of .* write to database=d, and start_state is not set"):
        SqlWorkload.from_settings(table, directory=tmp_path)
    assert SqlWorkload.from_settings(table | {"start_state": "none"}, directory=tmp_path).context.read_share == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT replace(a, 'insert', 'delete') FROM t;",
        r"SELECT 'it\'s an update';",
        "SELECT price FROM t WHERE id = :id INTO @price;",
        "# what customers read\nSELECT 1;",
        "--what customers read\nSELECT 1;",
        "BEGIN; SELECT a FROM t FOR SHARE; COMMIT;",
    ],
)
def test_whatever_reads_needs_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.sql").write_text(text)
    workload = SqlWorkload.from_settings({"database": "d", "files": ["a.sql"]}, directory=tmp_path)
    assert workload.context.read_share == 1.0


def test_a_profile_knows_what_writes() -> None:
    """What it takes for reading gets read_only = true."""
    kinds = {
        "SELECT nextval($1)": "write",
        "WITH a AS (DELETE FROM t RETURNING x) SELECT * FROM a": "write",
        "SELECT a FROM t FOR NO KEY UPDATE": "write",
        "SELECT replace(a, $1, $2) FROM t": "read",
        "/* x */ (VALUES ($1))": "read",
        "VACUUM t": "",
    }
    assert {text: profile._kind(text) for text in kinds} == kinds


def test_scripts_that_write_need_a_start_state(folder: Path) -> None:
    table = {"database": "d", "folder": "queries"}
    with pytest.raises(UsageError, match="the scripts of .* write to database=d, and start_state is not set") as caught:
        SqlWorkload.from_settings(table, directory=folder)
    assert "rollback" in str(caught.value.hint)
    assert SqlWorkload.from_settings(table | {"start_state": "template"}, directory=folder).database.name == "d_run"
    assert SqlWorkload.from_settings(table | {"start_state": "rollback"}, directory=folder).context.read_share == 0.5
    assert SqlWorkload.from_settings(table | {"read_only": True}, directory=folder).context.read_share == 1.0
    undone = SqlWorkload.from_settings(table | {"start_state": "undo", "undo": "undo.sql"}, directory=folder)
    assert undone.settings.undo == "UPDATE t SET x = 0;"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"folder": "queries"}, r"\[workload\] lacks database"),
        ({"database": "d"}, "needs either folder or files"),
        ({"database": "d", "folder": "queries", "files": ["x.sql"]}, "needs either folder or files"),
        ({"database": "d", "folder": "nowhere"}, "folder='nowhere' is not a directory"),
        ({"database": "d", "folder": "empty"}, "folder='empty' holds no .sql file"),
        ({"database": "d", "files": []}, r"files=\[\] is out of range"),
        ({"database": "d", "folder": "queries", "start_state": "undo"}, "start_state='undo' and undo=None do not fit"),
        (
            {"database": "d", "folder": "queries", "undo": "undo.sql"},
            "start_state='none' and undo='undo.sql' do not fit",
        ),
        ({"database": "d", "folder": "queries", "parameter": {}}, "unknown key in .workload.: parameter="),
        ({"database": 7, "folder": "queries"}, "database=7 is not a text"),
    ],
)
def test_wrong_tables_are_named(folder: Path, table: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_sql(table, folder)


def test_generators_are_read_whole() -> None:
    generators = parse_generators(
        {
            "a": {"type": "int", "low": -5, "high": 5, "distribution": "gaussian"},
            "b": {"type": "text", "length": [1, 4], "nulls": 0.5, "each": True},
            "c": {"type": "choice", "values": ["x", 2, True], "weights": [1, 2, 0]},
            "d": {"type": "date", "from": "2024-01-01", "to": datetime.date(2024, 12, 31)},
            "e": {"type": "timestamp", "from": "2024-01-01", "to": "2024-01-01 12:00:00"},
            "f": {"type": "column", "table": "public.t", "column": "id", "distribution": "zipfian", "skew": 1.5},
            "g": {"type": "serial"},
            "h": {"type": "uuid"},
            "i": {"type": "bool", "share": 0.1},
            "j": {"type": "float", "low": 0, "high": 0.5},
        }
    )
    assert (generators["a"].distribution, generators["a"].skew) == ("gaussian", 2.5)
    assert generators["b"].options["low"] == 1
    assert (generators["b"].null_share, generators["b"].is_fresh) == (0.5, True)
    assert generators["c"].options == {"values": ["x", "2", True], "weights": [1.0, 2.0, 0.0]}
    assert generators["d"].options["to"] == datetime.date(2024, 12, 31)
    assert generators["e"].options["to"] == datetime.datetime(2024, 1, 1, 12)
    assert generators["f"].options == {"table": "public.t", "column": "id", "limit": AUTO_LIMIT}
    assert generators["g"].options == {"start": 1, "step": 1}


@pytest.mark.parametrize(
    ("generator", "words"),
    [
        ("5", "x='5' has no type"),
        ({}, "x={} has no type"),
        ({"type": "?"}, "x has no generator yet: type='\\?'"),
        ({"type": "number"}, "x type='number' is not known"),
        ({"type": "int", "low": 1}, "x lacks high"),
        ({"type": "int", "low": 5, "high": 1}, "high=1 is out of range"),
        ({"type": "int", "low": 1, "high": 2, "max": 3}, r"unknown key in .* x: max=3"),
        ({"type": "int", "low": 1, "high": 2, "distribution": "zipfian", "skew": 1}, "skew=1 is out of range"),
        ({"type": "int", "low": 1, "high": 2, "nulls": 2}, "nulls=2 is out of range"),
        ({"type": "serial", "step": 0}, "step=0 is out of range"),
        ({"type": "text", "length": [5, 1]}, r"length=\[5, 1\] is out of range"),
        ({"type": "text", "length": "5"}, "length='5' is out of range"),
        ({"type": "choice", "values": []}, r"values=\[\] is out of range"),
        ({"type": "choice", "values": ["a"], "weights": [0]}, r"weights=\[0\] is out of range"),
        ({"type": "choice", "values": ["a"], "weights": [1, 2]}, r"weights=\[1, 2\] is out of range"),
        ({"type": "choice", "values": ["a"], "weights": 3}, r"weights=3 is out of range"),
        ({"type": "choice", "values": ["a"], "weights": [10**300]}, r"weights=\[10+\] is out of range"),
        (
            {"type": "timestamp", "from": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), "to": "2024-12-31"},
            r"from=.* is out of range",
        ),
        ({"type": "date", "from": "yesterday", "to": "2024-01-01"}, "from='yesterday' is out of range"),
        ({"type": "date", "from": 5, "to": "2024-01-01"}, "from=5 is out of range"),
        ({"type": "date", "from": "2025-01-01", "to": "2024-01-01"}, "to='2024-01-01' is out of range"),
        ({"type": "column", "table": "t"}, "x lacks column"),
        ({"type": "column", "table": "t", "column": "c", "distribution": "gaussian"}, "='gaussian' is not known"),
    ],
)
def test_wrong_generators_are_named(generator: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_generators({"x": generator})


def test_each_script_comes_with_what_it_uses_alone(folder: Path) -> None:
    """The engine keeps all values of a sample for each script that it comes with: thirty with all of theirs took gigabytes."""
    (folder / "queries" / "find.sql").write_text("SELECT x FROM t WHERE note = :note::text OR id IN (:id_2, :prix_€);")
    names = {"id": 1, "id_2": 2, "note": 3, "prix_€": 4}
    table = {
        "database": "d",
        "folder": "queries",
        "start_state": "rollback",
        "parameters": {name: {"type": "int", "low": low, "high": 9} for name, low in names.items()}
        # Of what is not used nothing is read, either: nobody answers there.
        | {"idle": {"type": "column", "table": "t", "column": "c"}},
    }
    there = Endpoint(protocol="postgresql", host="127.0.0.1", port=1, user="me", password="horse", database="d")
    source = SqlWorkload.from_settings(table, directory=folder).source(there, 10.0)
    used = {script["label"]: [each["name"] for each in script["parameters"]] for script in source["scripts"]}
    assert used == {"find": ["id_2", "note", "prix_€"], "list": ["id"], "pay": ["id"]}
    assert build_source(source) is not None


def test_generators_that_are_no_table() -> None:
    with pytest.raises(UsageError, match=r"\[workload.parameters\] is \[\] and no table"):
        parse_generators([])


def test_pgbench_tables_are_trimtabs_own_unless_a_database_is_named(folder: Path) -> None:
    own = PgbenchWorkload.from_settings({"script": "tpcb-like", "scale": 3})
    assert own.database.name == "trimtab_pgbench_3_run"
    assert own.context.workload == "pgbench tpcb-like scale 3"
    assert PgbenchWorkload.from_settings({"script": "select-only"}).database.name == "trimtab_pgbench_1"
    theirs = PgbenchWorkload.from_settings({"scripts": ["undo.sql@2"], "database": "shop"}, directory=folder)
    assert theirs.database.name == "shop"
    assert theirs.context.workload.startswith("pgbench 1 scripts ")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "needs either script or scripts"),
        ({"script": "tpcb-like", "scripts": ["undo.sql"]}, "needs either script or scripts"),
        ({"script": "tpcc"}, "script='tpcc' is not known"),
        ({"scripts": "undo.sql"}, "scripts='undo.sql' is out of range"),
        ({"script": "tpcb-like", "scale": 0}, "scale=0 is out of range"),
        ({"script": "tpcb-like", "scale": 2, "database": "d"}, "database='d' and scale=2 exclude each other"),
        ({"script": "tpcb-like", "variables": {"a b": 1}}, "variables a b=1 is not a variable"),
        ({"script": "tpcb-like", "variables": {"a": [1]}}, r"variables a=\[1\] is not a variable"),
        ({"script": "tpcb-like", "variables": 3}, "variables=3 is not a table"),
        ({"script": "tpcb-like", "max_tries": 0}, "max_tries=0 is out of range"),
        ({"script": "tpcb-like", "protocol": "extended"}, "protocol='extended' is not known"),
        ({"script": "tpcb-like", "weights": {"a": 2}}, "weights={'a': 2} has no meaning with script='tpcb-like'"),
    ],
)
def test_wrong_pgbench_tables_are_named(folder: Path, table: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_pgbench(table, folder)


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ({"start_state": "rollback"}, 'start_state="rollback"'),
        ({"start_state": "undo", "undo": "undo.sql"}, 'start_state="undo"'),
        ({"transaction": True}, "transaction=true"),
        ({"parameters": {"id": {"type": "column", "table": "t", "column": "k"}}}, 'parameter=id of type="column"'),
    ],
)
def test_what_cassandra_does_not_have_is_refused(folder: Path, table: dict[str, Any], what: str) -> None:
    there = Endpoint(protocol="cql", host="127.0.0.1", port=1, user="", database="")
    own = {"database": "d", "files": ["queries/list.sql"], "parameters": {"id": {"type": "int", "low": 1, "high": 9}}}
    workload = SqlWorkload.from_settings({**own, **table}, directory=folder)
    with pytest.raises(LoadError, match=re.escape(f"[workload] {what} is not possible on Cassandra")) as caught:
        workload.prepare(there, lambda text: None)
    assert caught.value.hint
