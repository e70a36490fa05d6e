"""Own SQL on a real server: generators into columns of their types, weights, start states, and what the server refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.workload.runs import Leftovers, counts, execute, load, quiet, row, to_the_end
from trimtab.errors import LoadError, UsageError
from trimtab.records import Endpoint
from trimtab.workload.server import postgresql, server_of
from trimtab.workload.sql import SqlWorkload, samples
from trimtab.workload.sql.generators import parse_generators
from trimtab.workload.sql.samples import native_generators

pytestmark = pytest.mark.service

SHOP = "shop_of_the_tests"
COLUMNS = {
    "small": ("smallint", {"type": "int", "low": -5, "high": 5, "distribution": "gaussian"}),
    "whole": ("bigint", {"type": "int", "low": 2**40, "high": 2**40 + 99, "distribution": "zipfian"}),
    "real": ("double precision", {"type": "float", "low": 0.5, "high": 0.75}),
    "money": ("numeric(10, 2)", {"type": "int", "low": 1, "high": 500, "distribution": "exponential"}),
    "number": ("int UNIQUE", {"type": "serial", "start": 1000, "step": 10}),
    "note": ("varchar(12)", {"type": "text", "length": [3, 12], "alphabet": "xyz", "nulls": 0.3}),
    "kind": ("text", {"type": "choice", "values": ["often", "seldom", "never"], "weights": [9, 1, 0]}),
    "day": ("date", {"type": "date", "from": "2024-02-28", "to": "2024-03-01"}),
    "moment": ("timestamptz", {"type": "timestamp", "from": "2024-01-01 00:00:00", "to": "2024-01-01 00:00:59"}),
    "ident": ("uuid", {"type": "uuid"}),
    "flag": ("boolean", {"type": "bool", "share": 0.25}),
    "customer": ("int", {"type": "column", "table": "public.customers", "column": "id"}),
    "name": (
        "text",
        {"type": "column", "table": "customers", "column": "name", "distribution": "zipfian", "limit": 50},
    ),
}


@pytest.fixture(scope="module")
def shop(server: Endpoint) -> Iterator[Endpoint]:
    """The server with a small database of somebody's."""
    left = Leftovers(server)
    execute(server, "postgres", f"CREATE DATABASE {SHOP}")
    typed = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    execute(
        server,
        SHOP,
        "CREATE TABLE customers (id int PRIMARY KEY, name text)",
        "INSERT INTO customers SELECT 3 * i, 'name ' || i FROM generate_series(1, 200) i",
        f"CREATE TABLE typed ({typed})",
        "CREATE TABLE seen (v bigint, w bigint, at int GENERATED ALWAYS AS IDENTITY)",
        "CREATE TABLE empty (v int)",
        "CREATE FUNCTION half(v int) RETURNS int LANGUAGE sql AS 'SELECT v / 2'",
        "CREATE PROCEDURE note(v int) LANGUAGE sql AS 'INSERT INTO seen (v) VALUES (v)'",
    )
    yield server
    left.drop()


@pytest.fixture
def emptied(shop: Endpoint) -> Endpoint:
    """The same, without what other tests wrote."""
    execute(shop, SHOP, "TRUNCATE seen, typed RESTART IDENTITY")
    return shop


def own(folder: Path, scripts: Mapping[str, str], **settings: Any) -> SqlWorkload:
    queries = folder / "queries"
    queries.mkdir(exist_ok=True)
    for name, text in scripts.items():
        (queries / f"{name}.sql").write_text(text)
    table = {
        "database": SHOP,
        "folder": "queries",
        "load": {"users": 4, "think": "2ms"},
        "start_state": "none",
    } | settings
    return SqlWorkload.from_settings(table, directory=folder)


def test_every_generator_fits_a_column_of_its_type(emptied: Endpoint, tmp_path: Path) -> None:
    names = ", ".join(COLUMNS)
    values = ", ".join(f":{name}" for name in COLUMNS)
    generators = {name: generator for name, (_, generator) in COLUMNS.items()}
    workload = own(tmp_path, {"all": f"INSERT INTO typed ({names}) VALUES ({values});"}, parameters=generators)
    log = load(workload, emptied)
    assert log.error_classes == {}, log.errors
    done = counts(log)["all"]
    assert done > 50
    expectations = {
        "every row is there": f"count(*) >= {done}",
        "int": "min(small) >= -5 AND max(small) <= 5",
        "bigint": f"min(whole) >= {2**40} AND max(whole) <= {2**40 + 99}",
        "zipfian": "max(n) > sum(n) / 20 FROM (SELECT count(*) AS n FROM typed GROUP BY whole) s",
        "float": "min(real) >= 0.5 AND max(real) <= 0.75 AND count(DISTINCT real) > count(*) / 2",
        "numeric": "min(money) >= 1 AND max(money) <= 500",
        "serial": "count(DISTINCT number) = count(*) AND min(number) = 1000 AND bool_and(number % 10 = 0)",
        "text": "bool_and(note IS NULL OR note ~ '^[xyz]{3,12}$') AND count(note) BETWEEN 1 AND count(*) - 1",
        "choice": "bool_and(kind IN ('often', 'seldom')) AND count(*) FILTER (WHERE kind = 'often') > count(*) / 2",
        "date": "bool_and(day BETWEEN '2024-02-28' AND '2024-03-01') AND count(DISTINCT day) = 3",
        "timestamp": "count(DISTINCT moment) > 10 AND max(moment) - min(moment) <= interval '1 minute'",
        "uuid": "count(DISTINCT ident) = count(*)",
        "bool": "count(*) FILTER (WHERE flag) BETWEEN 1 AND count(*) / 2",
        "column": "bool_and(customer % 3 = 0 AND customer BETWEEN 3 AND 600) AND count(DISTINCT customer) > 20",
        "text column": "bool_and(name LIKE 'name %') AND count(DISTINCT name) BETWEEN 2 AND 50",
    }
    for what, expected in expectations.items():
        query = f"SELECT {expected}" if " FROM " in expected else f"SELECT {expected} FROM typed"
        assert row(emptied, SHOP, query) == (True,), what


def test_what_the_url_sets_in_a_session_holds_in_the_load(emptied: Endpoint, tmp_path: Path) -> None:
    execute(emptied, SHOP, "CREATE SCHEMA aside", "CREATE TABLE aside.mine AS SELECT 1 AS v")
    there = replace(emptied, options={**emptied.options, "options": "-c search_path=aside -c app.limit=7"})
    mine = {"a": "SELECT v / (v - (current_setting('app.limit') <> '7')::int) FROM mine;"}
    log = load(own(tmp_path, mine), there)
    assert log.error_classes == {}, log.errors
    assert counts(log)["a"] > 50


def test_scripts_are_chosen_by_weight(emptied: Endpoint, tmp_path: Path) -> None:
    workload = own(tmp_path, {"a": "SELECT 1;", "b": "SELECT 2;", "never": "SELECT 3;"}, weights={"a": 3, "never": 0})
    done = counts(load(workload, emptied))
    assert set(done) == {"a", "b"}
    total = sum(done.values())
    assert total > 100
    assert abs(done["a"] / total - 0.75) < 6 * (0.75 * 0.25 / total) ** 0.5


def test_a_name_has_one_value_within_a_transaction(emptied: Endpoint, tmp_path: Path) -> None:
    twice = "INSERT INTO seen (v, w) VALUES (:x, :x);\nINSERT INTO seen (v, w) SELECT :x, -:x::bigint;"
    generator = {"type": "int", "low": 1, "high": 10**9}
    workload = own(tmp_path, {"twice": twice}, parameters={"x": generator}, transaction=True)
    log = load(workload, emptied)
    assert log.error_classes == {}, log.errors
    assert row(emptied, SHOP, "SELECT bool_and(v = abs(w)), count(*) > 50 FROM seen") == (True, True)
    query = "SELECT bool_and(n = 2) FROM (SELECT count(*) AS n FROM seen GROUP BY v) s"
    # Of a billion values none comes twice: each is there once a statement.
    assert row(emptied, SHOP, query) == (True,)
    fresh = own(tmp_path, {"twice": twice}, parameters={"x": generator | {"each": True}}, transaction=True)
    execute(emptied, SHOP, "TRUNCATE seen")
    load(fresh, emptied)
    assert row(emptied, SHOP, "SELECT bool_and(v <> abs(w)) FROM seen") == (True,)


def test_the_seed_decides_the_values(emptied: Endpoint, tmp_path: Path) -> None:
    workload = own(
        tmp_path,
        {"one": "INSERT INTO seen (v) VALUES (:x);"},
        parameters={"x": {"type": "int", "low": 1, "high": 10**9}},
        load={"users": 1, "think": "2ms"},
    )

    def values(seed: int) -> object:
        execute(emptied, SHOP, "TRUNCATE seen RESTART IDENTITY")
        load(workload, emptied, seed=seed, duration_s=0.5)
        return row(emptied, SHOP, "SELECT array_agg(v ORDER BY at) FROM seen WHERE at <= 10")

    assert values(1) == values(1)
    assert values(1) != values(2)


def test_rollback_leaves_nothing(emptied: Endpoint, tmp_path: Path) -> None:
    workload = own(
        tmp_path,
        {"write": "INSERT INTO seen (v) VALUES (1);\nUPDATE customers SET name = 'lost' WHERE id = 3;"},
        start_state="rollback",
    )
    state = workload.reset(emptied, quiet)
    assert state is not None
    assert state.method == "every transaction is rolled back"
    log = load(workload, emptied)
    assert counts(log)["write"] > 10
    assert log.error_classes == {}, log.errors
    query = "SELECT count(*), (SELECT name FROM customers WHERE id = 3) FROM seen"
    assert row(emptied, SHOP, query) == (0, "name 1")


def test_a_sample_has_each_value_as_often_as_the_table(shop: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(
        shop,
        SHOP,
        "CREATE TABLE orders (id int, status text)",
        "INSERT INTO orders SELECT i, CASE i % 2 WHEN 0 THEN 'done' ELSE 'is ' || i % 50 END FROM generate_series(1, 50000) i",
        "ANALYZE orders",
        "CREATE VIEW of_orders AS SELECT * FROM orders",
        "CREATE VIEW in_letters AS SELECT id, status AS s FROM orders",
    )
    server = server_of(shop.with_database(SHOP))
    with server.connect() as session:
        for table, n_pages in (
            ("orders", 2000),
            ("of_orders", 2000),
            ("orders", 50),
        ):  # the last one reads a part of it
            monkeypatch.setattr(postgresql, "_SAMPLED_PAGES", n_pages)
            found = server.sample(session, [table], "status", 400)
            assert len(found) == 400
            assert len(set(found)) > 20
            assert 150 < found.count("done") < 250
            assert server.sample(session, [table], "status", 400) == found
        assert len(set(server.sample(session, ["in_letters"], "s", 400))) > 20, "by whole rows also here"
        read, size = server.sample_bytes(session, ["orders"], 100)
        assert 0 < read < 0.5 * size
        assert server.sample_bytes(session, ["of_orders"], 100) == (0, 0)
        monkeypatch.setattr(postgresql, "_SAMPLED_PAGES", 2000)
        assert server.sample_bytes(session, ["orders"], 100) == (size, size)


def test_a_key_is_asked_for_in_its_whole_range(shop: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of the keys of a large table would fit into a cache that the table does not fit into; of other columns of
    large tables the sample is larger."""
    execute(
        shop,
        SHOP,
        "CREATE TABLE bills (id int PRIMARY KEY, sparse int UNIQUE, customer int)",
        "INSERT INTO bills SELECT i, 5 * i, i % 7 FROM generate_series(1, 3000) i",
        "ANALYZE bills",
    )
    columns = {"id": 100, "sparse": 100, "customer": 100, "all": 5000}
    given = {
        name: {"type": "column", "table": "bills", "column": "id" if name == "all" else name, "limit": limit}
        for name, limit in columns.items()
    }
    made = {each["name"]: each for each in native_generators(shop.with_database(SHOP), parse_generators(given))}
    assert {key: made["id"][key] for key in ("type", "low", "high")} == {"type": "int", "low": 1, "high": 3000}
    assert [made[name]["type"] for name in ("sparse", "customer", "all")] == ["rows"] * 3
    for name, number in {"_FEWEST": 100, "_MOST": 250, "_SHARE": 0.05}.items():
        monkeypatch.setattr(samples, name, number)
    generators = parse_generators({"c": {"type": "column", "table": "bills", "column": "customer"}})
    for share, n in ((0.05, 150), (0.5, 250), (0.01, 100)):
        monkeypatch.setattr(samples, "_SHARE", share)
        assert len(native_generators(shop.with_database(SHOP), generators)[0]["values"]) == n


def test_rows_and_bytes_of_a_table_are_those_of_its_partitions(shop: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(
        shop,
        SHOP,
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (2001)",
        "CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (2001) TO (4001)",
        "INSERT INTO parts SELECT generate_series(1, 4000)",
        "ANALYZE parts_1",
        "ANALYZE parts_2",
    )
    generators = parse_generators({"id": {"type": "column", "table": "parts", "column": "id", "limit": 100}})
    (made,) = native_generators(shop.with_database(SHOP), generators)
    assert (made["type"], made["low"], made["high"]) == ("int", 1, 4000)
    monkeypatch.setattr(postgresql, "_SAMPLED_PAGES", 5)
    server = server_of(shop.with_database(SHOP))
    with server.connect() as session:
        read, size = server.sample_bytes(session, ["parts"], 10)
        assert 0 < read < 0.5 * size
        assert len(server.sample(session, ["parts"], "id", 10)) == 10


def test_columns_are_sampled_once_for_all_runs(
    emptied: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = {"id": {"type": "column", "table": "customers", "column": "id"}}
    workload = own(tmp_path, {"read": "SELECT name FROM customers WHERE id = :id;"}, parameters=parameters)
    told: list[str] = []
    workload.prepare(emptied, told.append)
    (line,) = [text for text in told if text.startswith("drawing")]
    words = r"drawing up to [\d,]+ values of customers\.id for the parameter id: reads about \d\S* of \d\S*, once for all runs"
    assert re.fullmatch(words, line)
    monkeypatch.setattr(postgresql.PostgresServer, "sample", None)
    assert counts(load(workload, emptied))["read"] > 10
    assert counts(load(workload.with_rate(200.0), emptied))["read"] > 10


def test_several_threads_share_the_users(emptied: Endpoint, tmp_path: Path) -> None:
    workload = own(tmp_path, {"read": "SELECT 1;"}, load={"users": 4, "threads": 2, "think": "2ms"})
    log = load(workload, emptied)
    assert log.n_threads == 2
    assert counts(log)["read"] > 10


def test_undo_runs_before_each_run_and_after_the_last(emptied: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "undo.sql").write_text("DELETE FROM seen; UPDATE customers SET name = 'name ' || id / 3;")
    script = {"write": "INSERT INTO seen (v) VALUES (1);\nUPDATE customers SET name = 'x' WHERE id = :id;"}
    parameters = {"id": {"type": "column", "table": "customers", "column": "id"}}
    workload = own(tmp_path, script, parameters=parameters, start_state="undo", undo="undo.sql")
    assert counts(load(workload, emptied))["write"] > 10
    state = workload.reset(emptied, quiet)
    assert state is not None
    assert state.method == "the undo script of the study"
    query = "SELECT count(*), (SELECT count(*) FROM customers WHERE name = 'x') FROM seen"
    assert row(emptied, SHOP, query) == (0, 0)
    load(workload, emptied)
    workload.clean_up(emptied)
    assert row(emptied, SHOP, query) == (0, 0)


def test_an_undo_script_that_fails_is_said(emptied: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "undo.sql").write_text("DELETE FROM nowhere;")
    workload = own(tmp_path, {"a": "INSERT INTO seen (v) VALUES (1);"}, start_state="undo", undo="undo.sql")
    with pytest.raises(LoadError, match=f'the undo script failed on database={SHOP}: .*"nowhere" does not exist'):
        workload.reset(emptied, quiet)


def test_a_template_keeps_the_users_database(emptied: Endpoint, tmp_path: Path) -> None:
    left = Leftovers(emptied)
    workload = own(tmp_path, {"write": "INSERT INTO seen (v) VALUES (1);"}, start_state="template")
    done = counts(load(workload, emptied))["write"]
    assert left.databases() == {f"{SHOP}_run"}
    (n,) = row(emptied, f"{SHOP}_run", "SELECT count(*) FROM seen")
    assert int(str(n)) >= done > 10
    assert row(emptied, SHOP, "SELECT count(*) FROM seen") == (0,)
    workload.clean_up(emptied)
    assert left.databases() == set()
    assert left.connections() == 0


@pytest.mark.parametrize("statement", ["CALL note(:v);", "TABLE seen;", "(SELECT half(:v));", "SHOW work_mem;"])
def test_statements_of_every_kind(emptied: Endpoint, tmp_path: Path, statement: str) -> None:
    parameters = {"v": {"type": "int", "low": 1, "high": 9}} if ":v" in statement else {}
    log = load(own(tmp_path, {"s": statement}, parameters=parameters), emptied, duration_s=0.3)
    assert log.error_classes == {}, log.errors
    assert counts(log)["s"] > 0


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (
            "SELECT 1;\nSELECT * FROM seen WERE v = 1;",
            r"script='queries/bad\.sql': syntax error at or near \"v\": SELECT ",
        ),
        ("SELECT colour FROM seen;", r"script='queries/bad\.sql': column \"colour\" does not exist: SELECT colour"),
        ("UPDATE nowhere SET v = 1;", r"script='queries/bad\.sql': relation \"nowhere\" does not exist: UPDATE"),
        (f"SELECT {'1 + ' * 60} x;", r"column \"x\" does not exist: SELECT (\? \+ )+\?\.\.\."),
    ],
)
def test_a_statement_that_the_server_refuses_is_named(shop: Endpoint, tmp_path: Path, bad: str, words: str) -> None:
    workload = own(tmp_path, {"good": "SELECT 1;", "bad": bad})
    with pytest.raises(LoadError, match=f"does not understand a statement of .*{words}") as caught:
        workload.prepare(shop, quiet)
    assert caught.value.hint == f"try it by hand on database {SHOP}"


def test_a_statement_that_cannot_be_prepared_fails_the_run(shop: Endpoint, tmp_path: Path) -> None:
    log = load(own(tmp_path, {"typo": "SELCT 1;"}), shop, duration_s=0.5)
    assert set(log.error_classes) == {"statement"}
    assert counts(log) == {}
    assert log.errors[0] == 'typo: 42601 syntax error at or near "SELCT"'


def test_a_statement_that_fails_only_when_it_runs(shop: Endpoint, tmp_path: Path) -> None:
    scripts = {"zero": "SELECT 1 / :x::int;", "twice": "INSERT INTO customers VALUES (3, 'x');"}
    log = load(own(tmp_path, scripts, parameters={"x": {"type": "int", "low": 0, "high": 0}}), shop, duration_s=0.5)
    assert set(log.error_classes) == {"statement", "constraint"}
    assert counts(log) == {}


def test_a_placeholder_without_a_generator_is_shown_in_its_line(shop: Endpoint, tmp_path: Path) -> None:
    workload = own(tmp_path, {"q": "SELECT 1;\nSELECT * FROM seen WHERE v = :which;"})
    with pytest.raises(UsageError) as caught:
        workload.prepare(shop, quiet)
    message, line, mark = caught.value.message.splitlines()
    assert message == "queries/q.sql:2:30: :which has no generator"
    assert line[mark.index("^") :].startswith(":which")


def test_a_generator_that_nobody_uses_is_told_and_no_error(shop: Endpoint, tmp_path: Path) -> None:
    generator = {"type": "int", "low": 1, "high": 2}
    workload = own(tmp_path, {"q": "SELECT :id::int;"}, parameters={"id": generator, "ident": generator})
    lines: list[str] = []
    workload.prepare(shop, lines.append)
    assert lines == ["no script uses the parameter ident"]


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ("customers", "nickname", 'column "nickname" does not exist'),
        ("clients", "id", 'relation "clients" does not exist'),
        ("empty", "v", "it has no values"),
    ],
)
def test_a_column_that_cannot_be_sampled_is_named(
    shop: Endpoint, tmp_path: Path, table: str, column: str, words: str
) -> None:
    generator = {"type": "column", "table": table, "column": column}
    workload = own(tmp_path, {"q": "SELECT :id::int;"}, parameters={"id": generator})
    with pytest.raises(LoadError, match=f"cannot sample parameter=id table={table} column={column}: {words}"):
        workload.prepare(shop, quiet)


def test_a_column_that_the_user_may_not_read_is_not_sampled(shop: Endpoint, tmp_path: Path) -> None:
    execute(shop, SHOP, "CREATE ROLE blind LOGIN")
    generator = {"type": "column", "table": "customers", "column": "name"}
    workload = own(tmp_path, {"q": "SELECT :id::text;"}, parameters={"id": generator})
    message = "cannot sample parameter=id table=customers column=name: permission denied for table customers"
    try:
        with pytest.raises(LoadError, match=message) as refused:
            workload.prepare(replace(shop, user="blind"), quiet)
    finally:
        execute(shop, SHOP, "DROP ROLE blind")
    assert refused.value.hint == "check the names and the role's privileges"


def test_a_database_that_is_not_there(server: Endpoint, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="cannot connect: .*nowhere.*does not exist"):
        own(tmp_path, {"q": "SELECT 1;"}, database="nowhere").prepare(server, quiet)


def test_a_run_ends_with_no_connection_left(shop: Endpoint, tmp_path: Path) -> None:
    left = Leftovers(shop)
    run = own(tmp_path, {"q": "SELECT pg_sleep(60);"}).start(shop, seed=1, duration_s=60.0)
    assert left.connections(patience_s=0.0) == 4
    run.stop()
    assert left.connections() == 0
    to_the_end(run)
