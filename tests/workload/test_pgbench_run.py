"""pgbench on a real server: the sums that its scripts keep, script files with every command, and scripts that are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workload.runs import Leftovers, counts, execute, load, quiet, row
from trimtab.errors import LoadError, UsageError
from trimtab.records import Endpoint
from trimtab.workload.pgbench import PgbenchWorkload

pytestmark = pytest.mark.service

EXAMPLES = Path(__file__).parents[2] / "examples"
DATA = "trimtab_pgbench_1"
OWN = "notes_of_the_tests"


@pytest.fixture(scope="module")
def prepared(server: Endpoint) -> Iterator[Endpoint]:
    """The server with pgbench's tables at scale 1, and a small database of somebody's."""
    left = Leftovers(server)
    PgbenchWorkload.from_settings({"script": "select-only"}).prepare(server, quiet)
    execute(server, "postgres", f"CREATE DATABASE {OWN}")
    execute(server, OWN, "CREATE TABLE notes (name text, v bigint, at int GENERATED ALWAYS AS IDENTITY)")
    yield server
    left.drop()


def builtin(script: str, **settings: Any) -> PgbenchWorkload:
    return PgbenchWorkload.from_settings({"script": script, "load": {"users": 4, "think": "2ms"}} | settings)


def own(folder: Path, **scripts: str) -> PgbenchWorkload:
    """Script files on the small database, one user."""
    for name, text in scripts.items():
        (folder / f"{name}.sql").write_text(text)
    table = {"scripts": [f"{name}.sql" for name in scripts], "database": OWN, "load": {"users": 1, "think": "2ms"}}
    return PgbenchWorkload.from_settings(table, directory=folder)


@pytest.mark.parametrize("protocol", ["prepared", "simple"])
def test_tpcb_like_keeps_the_sums(prepared: Endpoint, protocol: str) -> None:
    workload = builtin("tpcb-like", protocol=protocol)
    log = load(workload, prepared)
    assert log.error_classes == {}, log.errors
    sums = row(
        prepared,
        workload.database.name,
        "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),"
        " (SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(delta) FROM pgbench_history),"
        " (SELECT count(*) FROM pgbench_history)",
    )
    assert sums[0] == sums[1] == sums[2] == sums[3] != 0
    # What was under way at the end was committed or not: at most one a user more than was counted.
    assert counts(log)["tpcb-like"] <= int(str(sums[4])) <= counts(log)["tpcb-like"] + 4
    assert row(prepared, DATA, "SELECT count(*) FROM pgbench_history") == (0,)


def test_simple_update_writes_accounts_and_history_alone(prepared: Endpoint) -> None:
    workload = builtin("simple-update")
    log = load(workload, prepared)
    assert log.error_classes == {}, log.errors
    sums = row(
        prepared,
        workload.database.name,
        "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history),"
        " (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(bbalance) FROM pgbench_branches)",
    )
    assert sums == (True, 0, 0)


def test_select_only_needs_no_copy(prepared: Endpoint) -> None:
    left = Leftovers(prepared)
    workload = builtin("select-only")
    assert workload.reset(prepared, quiet) is None
    log = load(workload, prepared)
    assert log.error_classes == {}
    assert counts(log)["select-only"] > 10
    assert left.databases() == set()


def test_the_ready_scripts_of_the_examples(prepared: Endpoint) -> None:
    settings = {"scripts": ["transfer.sql@9", "history.sql@1"], "load": {"users": 4, "think": "2ms"}}
    workload = PgbenchWorkload.from_settings(settings, directory=EXAMPLES)
    log = load(workload, prepared, duration_s=1.5)
    assert log.error_classes == {}, log.errors
    done = counts(log)
    assert done["transfer"] > done.get("history", 0)
    sums = row(prepared, workload.database.name, "SELECT sum(abalance), count(*) FROM pgbench_accounts")
    assert sums == (0, 100_000)
    assert row(prepared, workload.database.name, "SELECT count(*) > 0 FROM pgbench_history") == (True,)
    workload.clean_up(prepared)


EVERYTHING = r"""
-- every kind of command
\set n random(1, 100)
\set doubled \
    :n * 2
\if :n > 50
    INSERT INTO notes (name, v) VALUES ('large', :n);
\elif :n > 25
    INSERT INTO notes (name, v) VALUES ('middle', :n);
\else
    INSERT INTO notes (name, v) VALUES ('small', :n);
\endif
\sleep 1 ms
SELECT :n::int + 1 AS next, :doubled::int AS doubled \gset got_
INSERT INTO notes (name, v) VALUES ('next', :got_next::int - :n);
INSERT INTO notes (name, v) VALUES ('doubled', :got_doubled::int - 2 * :n);
SELECT 7 AS first \; SELECT 8 AS second \aset
INSERT INTO notes (name, v) VALUES ('aset', :first::int * 10 + :second);
INSERT INTO notes (name, v) VALUES ('client', :client_id);
"""


def test_every_command_of_a_script_file(prepared: Endpoint, tmp_path: Path) -> None:
    execute(prepared, OWN, "TRUNCATE notes")
    log = load(own(tmp_path, everything=EVERYTHING), prepared)
    assert log.error_classes == {}, log.errors
    assert counts(log)["everything"] > 10
    query = "SELECT min(v), max(v) FROM notes WHERE name = '{}'"
    assert row(prepared, OWN, query.format("next")) == (1, 1)
    assert row(prepared, OWN, query.format("doubled")) == (0, 0)
    assert row(prepared, OWN, query.format("aset")) == (78, 78)
    assert row(prepared, OWN, query.format("client")) == (0, 0)
    sizes = {"large": (51, 100), "middle": (26, 50), "small": (1, 25)}
    for name, (low, high) in sizes.items():
        assert row(
            prepared, OWN, f"SELECT count(*) FROM notes WHERE name = '{name}' AND v NOT BETWEEN {low} AND {high}"
        ) == (0,)


def test_aset_keeps_the_last_of_several_rows(prepared: Endpoint, tmp_path: Path) -> None:
    execute(prepared, OWN, "TRUNCATE notes")
    text = (
        "SELECT i AS last, 10 * i AS tens FROM generate_series(1, 3) i ORDER BY i \\; SELECT 5 AS kept WHERE false \\; "
        "SELECT 4 AS one \\aset\nINSERT INTO notes (name, v) VALUES ('aset', 100 * :last::int + :tens::int + :one::int);"
    )
    log = load(own(tmp_path, several=text), prepared, duration_s=0.5)
    assert log.error_classes == {}, log.errors
    assert row(prepared, OWN, "SELECT min(v), max(v), count(*) > 5 FROM notes") == (334, 334, True)
    log = load(own(tmp_path, many="SELECT i FROM generate_series(1, 3) i \\gset\nSELECT 1;"), prepared, duration_s=0.3)
    assert set(log.error_classes) == {"validation"}


def test_sleep_is_part_of_the_transaction(prepared: Endpoint, tmp_path: Path) -> None:
    log = load(own(tmp_path, nap="\\sleep 100 ms\nSELECT 1;"), prepared)
    assert 1 <= counts(log)["nap"] <= 10
    assert log.response.value_us.min() >= 100_000


def test_variables_reach_every_script(prepared: Endpoint, tmp_path: Path) -> None:
    execute(prepared, OWN, "TRUNCATE notes")
    (tmp_path / "a.sql").write_text("INSERT INTO notes (name, v) VALUES (:word, :size);")
    table = {
        "scripts": ["a.sql"],
        "database": OWN,
        "load": {"users": 1, "think": "2ms"},
        "variables": {"word": "it's", "size": 12},
    }
    log = load(PgbenchWorkload.from_settings(table, directory=tmp_path), prepared, duration_s=0.5)
    assert log.error_classes == {}, log.errors
    assert row(prepared, OWN, "SELECT min(name), max(name), min(v), max(v) FROM notes") == ("it's", "it's", 12, 12)


def test_what_another_script_sets_is_known(prepared: Endpoint, tmp_path: Path) -> None:
    workload = own(tmp_path, uses="SELECT :x + 1;", sets="\\set x 4\nSELECT :x;")
    workload.prepare(prepared, quiet)


def test_conflicts_are_tried_again(prepared: Endpoint, tmp_path: Path) -> None:
    text = "BEGIN ISOLATION LEVEL SERIALIZABLE;\nUPDATE pgbench_branches SET bbalance = bbalance + 1;\nEND;"
    (tmp_path / "clash.sql").write_text(text)
    table = {"scripts": ["clash.sql"], "load": {"users": 4}}
    once = load(PgbenchWorkload.from_settings(table, directory=tmp_path), prepared)
    assert set(once.error_classes) == {"serialization"}
    often = load(PgbenchWorkload.from_settings(table | {"max_tries": 500}, directory=tmp_path), prepared)
    assert often.attempts.value_us.max() > 1
    failed = often.error_classes.get("serialization", 0)
    assert failed < once.error_classes["serialization"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\\set x random(1,\nSELECT 1;", "bad.sql:1:17: the expression ends too early"),
        ("SELECT 1;\n\\set x 1 +* 2", "bad.sql:2:11: "),
        ("SELECT 1;\nSELECT :x;", "bad.sql:2:8: nothing sets the variable :x"),
        ("\\if 1\nSELECT 1;", "bad.sql:1:1: "),
        ("SELECT 1;\n\\endif", "bad.sql:2:1: "),
        ("\\shell rm x\nSELECT 1;", r"bad.sql:1:1: \shell runs a program on the machine that loads; it is refused"),
        ("\\startpipeline\nSELECT 1;", "bad.sql:1:1: "),
        ("\\st x 1\nSELECT 1;", r"bad.sql:1:1: there is no meta command \st"),
        ("SELECT 'x;", "bad.sql:1:8: a string or comment that does not end"),
    ],
)
def test_a_script_with_an_error_is_shown_with_line_and_column(
    server: Endpoint, tmp_path: Path, text: str, words: str
) -> None:
    left = Leftovers(server)
    (tmp_path / "bad.sql").write_text(text)
    workload = PgbenchWorkload.from_settings({"scripts": ["bad.sql"], "scale": 3}, directory=tmp_path)
    with pytest.raises(UsageError) as caught:
        workload.prepare(server, quiet)
    assert caught.value.message.startswith(words)
    assert caught.value.message.splitlines()[-1].strip() == "^"
    assert left.databases() == set(), "data was made for a script that cannot run"


def test_a_script_without_a_command_is_refused(server: Endpoint, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^bad\.sql: there is no command in the script"):
        own(tmp_path, bad="-- nothing").prepare(server, quiet)


def test_a_statement_that_the_server_refuses_is_named(prepared: Endpoint, tmp_path: Path) -> None:
    workload = own(tmp_path, good="SELECT 1;", bad="\\set x 1\nSELECT 2;\nSELECT v FROM nots WHERE v = :x;")
    with pytest.raises(
        LoadError, match="a statement of script='bad.sql': relation \"nots\" does not exist: SELECT v FROM"
    ):
        workload.prepare(prepared, quiet)


def test_an_expression_that_fails_while_it_runs_is_an_error(prepared: Endpoint, tmp_path: Path) -> None:
    log = load(own(tmp_path, zero="\\set x random(0, 0)\n\\set y 1 / :x\nSELECT :y;"), prepared, duration_s=0.5)
    assert counts(log) == {}
    assert log.errors
    assert "zero" in log.errors[0]


def test_tables_of_a_database_without_pgbench(server: Endpoint) -> None:
    workload = builtin("tpcb-like", database="postgres")
    with pytest.raises(LoadError, match=r"script='tpcb-like': relation \"pgbench_accounts\" does not exist"):
        workload.prepare(server, quiet)


def test_that_a_database_of_the_user_s_is_written_to_is_told(prepared: Endpoint, tmp_path: Path) -> None:
    lines: list[str] = []
    own(tmp_path, count="SELECT 1;").prepare(prepared, lines.append)
    (line,) = lines
    assert line.startswith(f"runs use database={OWN} itself: what the scripts write stays in it")
    table = {"scripts": ["count.sql"], "database": OWN, "start_state": "none"}
    PgbenchWorkload.from_settings(table, directory=tmp_path).prepare(prepared, lines.append)
    assert len(lines) == 1
