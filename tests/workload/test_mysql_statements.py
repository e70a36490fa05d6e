"""What is asked of a MySQL or MariaDB server, as its manuals have it: sizes of now, bit fields, and what copies leave out."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.database import not_prepared
from trimtab.workload.server import ServerError, server_of
from trimtab.workload.sql import SqlWorkload
from trimtab.workload.sql.generators import parse_generators
from trimtab.workload.sql.samples import native_generators

ENDPOINT = Endpoint(protocol="mysql", host="127.0.0.1", port=3306, user="me", password="horse", database="shop")
Rows = Sequence[tuple[Any, ...]]


class Connection:
    """Of the client library: it answers statements by words that they hold, [] to any other."""

    open, description = True, ()

    def __init__(self, answers: Mapping[str, Rows]) -> None:
        self.answers, self.seen, self.rows = answers, list[tuple[str, Any]](), list[tuple[Any, ...]]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cursor(self) -> Self:
        return self

    def execute(self, statement: str, parameters: Any) -> None:
        self.seen.append((statement, parameters))
        self.rows = list(next((rows for words, rows in self.answers.items() if words in statement), ()))

    def fetchall(self) -> Rows:
        return self.rows

    def nextset(self) -> bool:
        return False

    def close(self) -> None:
        pass


def answering(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Rows]) -> Connection:
    connection = Connection(answers)
    monkeypatch.setattr("trimtab.workload.server.mysql.login", lambda *_, **__: connection)
    return connection


def test_sizes_are_those_of_now_and_not_of_yesterday(monkeypatch: pytest.MonkeyPatch) -> None:
    """MySQL 8 keeps them for a day; MariaDB, which does not know the variable, reads no further than the comment."""
    connection = answering(monkeypatch, {"SUM(data_length": [(16384,)]})
    server = server_of(ENDPOINT)
    with server.connect() as session:
        assert server.size_bytes(session, "shop") == 16384
    settings = connection.seen[0][0]
    assert settings.startswith("SET SESSION wait_timeout = 28800, SESSION net_read_timeout")
    assert settings.endswith(" /*!80000 , SESSION information_schema_stats_expiry = 0 */")


def test_limits_for_statements_are_lifted_by_the_name_that_each_server_has(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = answering(monkeypatch, {})
    server_of(ENDPOINT).connect()
    mysql, mariadb = "/*!50708 , SESSION max_execution_time = 0 */", "/*M!100101 , SESSION max_statement_time = 0 */"
    assert f" {mysql} {mariadb} " in connection.seen[0][0]


def test_events_are_told_once_when_a_study_with_copies_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    events = [("purge",), ("rollup",)]
    answering(monkeypatch, {"information_schema.events": events, "SUM(data_length": [(16384,)]})
    (tmp_path / "own.sql").write_text("UPDATE item SET price = 1;")
    told: dict[str, list[str]] = {}
    for start_state in ("template", "rollback"):
        table = {"kind": "sql", "database": "shop", "files": ["own.sql"], "start_state": start_state}
        workload = SqlWorkload.from_settings({**table, "load": {"users": 1}}, directory=tmp_path)
        workload.prepare(ENDPOINT, told.setdefault(start_state, []).append)
    assert told == {
        "template": [
            "database=shop has 2 events (purge, rollup): the copies that runs use have none;"
            " the event scheduler goes on in the original"
        ],
        "rollback": [],
    }


@pytest.mark.parametrize(
    ("protocol", "texts"), [("mysql", ["1", "0", "true"]), ("postgresql", ["true", "false", "true"])]
)
def test_a_choice_among_truth_values_is_what_the_server_has_for_them(protocol: str, texts: list[str]) -> None:
    """MySQL and MariaDB take the text "true" for 0, as any word that is compared with a number."""
    generators = parse_generators({"paid": {"type": "choice", "values": [True, False, "true"]}})
    (native,) = native_generators(replace(ENDPOINT, protocol=protocol), generators)
    assert native["values"] == texts


def test_a_copy_has_the_character_set_of_its_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary tables of a load get it, and are joined with those of the copy."""
    answers: dict[str, Rows] = {"SELECT COUNT(*)": [(0,)], "default_collation_name": [("latin1", "latin1_german1_ci")]}
    connection = answering(monkeypatch, answers)
    server = server_of(ENDPOINT)
    with server.connect() as session:
        server.clone(session, "shop", "shop_run")
        server.create(session, "trimtab_thing")
    made = [statement for statement, _ in connection.seen if statement.startswith("CREATE DATABASE")]
    assert made == [
        "CREATE DATABASE `shop_run` CHARACTER SET latin1 COLLATE latin1_german1_ci",
        "CREATE DATABASE `trimtab_thing` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    ]


def test_a_database_without_events_has_nothing_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, {})
    server = server_of(ENDPOINT)
    with server.connect() as session:
        assert server.left_behind(session, "shop") == ""


GENERATOR = {"flags": {"type": "column", "table": "other.item", "column": "flags"}}


def test_bit_fields_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is one value where it is written or looked for in an index, and another where rows are read one by one."""
    answers = {"data_type": [("bit",)], "CAST(`flags` AS UNSIGNED)": [(5,), (0,), (5,)], "table_rows": [(3,)]}
    connection = answering(monkeypatch, answers)
    (made,) = native_generators(ENDPOINT, parse_generators(GENERATOR))
    assert (made["type"], made["values"]) == ("rows", [5, 0, 5])
    assert next(args for words, args in connection.seen if "data_type" in words) == ("other", "item", "flags")


def test_bit_fields_that_no_number_of_the_load_can_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, {"data_type": [("bit",)], "CAST(`flags` AS UNSIGNED)": [(1 << 63,)]})
    words = (
        "cannot sample parameter=flags .*: some of its bit fields are greater than any number that a load can ask for"
    )
    with pytest.raises(LoadError, match=words):
        native_generators(ENDPOINT, parse_generators(GENERATOR))


def test_other_columns_are_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, {"data_type": [("int",)], "CAST(`flags` AS CHAR)": [("5",), ("5",)]})
    (made,) = native_generators(ENDPOINT, parse_generators(GENERATOR))
    assert made["values"] == ["5", "5"]


def test_the_load_takes_numbers_and_texts_of_a_column() -> None:
    from trimtab._native import Script, Scripts

    shared = {"name": "flags", "each": True, "null_share": 0.0, "distribution": "uniform", "skew": 0.0}
    for values in ([5, 0], ["5", "0"]):
        generators = [{**shared, "type": "rows", "values": values}]
        text = "SELECT * FROM item WHERE flags = :flags"
        script = Script.own("own", 1.0, "own.sql", text, parameters=generators)
        assert Scripts([script], dialect="mysql").statements == ["SELECT * FROM item WHERE flags = ?"]


class Copiers:
    """Sessions of a server: all but the first wait for a lock in the middle of a table, until they are killed."""

    LONGEST_S = 5.0

    def __init__(self) -> None:
        self.killed = list[threading.Event]()

    def connect(self) -> Any:
        self.killed.append(threading.Event())
        return Copier(self, len(self.killed) - 1)


class Copier:
    def __init__(self, server: Copiers, number: int) -> None:
        self.server, self.number = server, number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, statement: str, parameters: object = ()) -> list[tuple[Any, ...]]:
        if statement.startswith("KILL"):
            self.server.killed[int(statement.split()[1])].set()
        elif statement.startswith("INSERT") and self.number > 0:
            self.server.killed[self.number].wait(Copiers.LONGEST_S)
            raise ServerError("the connection was killed")
        return [(self.number,)] if "CONNECTION_ID" in statement else []


class InterruptedAtTheStart(ThreadPoolExecutor):
    def submit(self, *arguments: Any, **more: Any) -> Future[Any]:
        if self._threads:
            raise KeyboardInterrupt
        return super().submit(*arguments, **more)


class InterruptedAtTheEnd(ThreadPoolExecutor):
    def submit(self, *arguments: Any, **more: Any) -> Future[Any]:
        def interrupted(timeout: float | None = None) -> Any:
            raise KeyboardInterrupt

        future = super().submit(*arguments, **more)
        future.result = interrupted  # type: ignore[method-assign]
        return future


@pytest.mark.parametrize("pool", [InterruptedAtTheStart, InterruptedAtTheEnd])
def test_ctrl_c_is_heard_while_other_sessions_begin_or_end_to_copy(
    monkeypatch: pytest.MonkeyPatch, pool: type[ThreadPoolExecutor]
) -> None:
    """Before its own session copies, and after that: the others would be waited for, for as long as a lock is held."""
    mine: Any = server_of(ENDPOINT)
    server = Copiers()
    monkeypatch.setattr(mine, "connect", server.connect)
    monkeypatch.setattr("trimtab.workload.server.mysql.ThreadPoolExecutor", pool)
    with server.connect() as first, pytest.raises(KeyboardInterrupt):
        mine._copy_together(first, "shop", "shop_run", list("abcdefg"))
    assert all(killed.is_set() for killed in server.killed[1:4])


def test_a_database_has_an_owner_on_postgresql_only() -> None:
    refused = ServerError("DROP command denied to user 'me'@'%' for table 'lineitem'", reason="no_privilege")
    hints = [
        not_prepared(refused, replace(ENDPOINT, protocol=name), "d").hint for name in ("mysql", "cql", "postgresql")
    ]
    assert (
        hints[0] == hints[1] == "let an administrator grant this user all rights on it, or log in as one who has them"
    )
    assert str(hints[2]).startswith("another user has made it")
