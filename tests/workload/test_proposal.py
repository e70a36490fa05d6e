"""The study file that a profile becomes: it can be read again, whatever the columns and databases are called."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from tests.servers.postgresql import TRUST, started
from trimtab.errors import TargetError
from trimtab.records import Endpoint
from trimtab.workload.sql import profile as profiles
from trimtab.workload.sql.columns import Catalogue as OfServer
from trimtab.workload.sql.columns import guess
from trimtab.workload.sql.profile import _HIDDEN, Profile, Proposal, _propose, _Seen, read_profile
from trimtab.workload.sql.proposal import study_text
from trimtab.workload.sql.samples import _parts

OF_SIZES = SimpleNamespace(table='"schöne Tabelle 😀"', name="größe", is_integer=True, is_unique=False)


class Catalogue:
    """Of one table."""

    def columns(self, table: str) -> dict[str, Any]:
        return {"größe": OF_SIZES}


def test_names_in_other_letters_are_keys_and_texts_of_a_study_file() -> None:
    text = 'SELECT * FROM "schöne Tabelle 😀" WHERE größe = $1'
    name, generator = guess(text, 1, Catalogue())  # type: ignore[arg-type]
    assert name == "gr__e"
    proposal = Proposal(
        label="s01_select", text=text, generators={f"s01_{name}": generator}, calls=7, time_ms=1.0, writes=False
    )
    profile = Profile(database="läden 😀", window_s=0.0, proposals=(proposal,), left_out=())
    workload = tomllib.loads(study_text(profile, "[study]\nname = 's'\n"))["workload"]
    assert workload["database"] == "läden 😀"
    assert workload["weights"] == {"s01_select": 7}
    expected = {"type": "column", "table": OF_SIZES.table, "column": "größe"}
    assert workload["parameters"] == {"s01_gr__e": expected}


@pytest.mark.parametrize(
    ("text", "number", "found"),
    [
        ("SELECT x FROM t LIMIT $1 OFFSET $2", 1, ("limit", 10)),
        ("SELECT x FROM t LIMIT $1 OFFSET $2", 2, ("offset", 0)),
        ("select x from t offset $1 rows fetch first $2 rows only", 1, ("offset", 0)),
        ("select x from t offset $1 rows fetch first $2 rows only", 2, ("limit", 10)),
        ("select x from t fetch next $12 rows only", 12, ("limit", 10)),
    ],
)
def test_parts_of_a_result_are_asked_for_in_the_words_of_applications(
    text: str, number: int, found: tuple[str, int]
) -> None:
    """The last ones are those of Hibernate on PostgreSQL."""
    name, value = found
    expected = name, {"type": "int", "low": value, "high": value}
    assert guess(text, number, Catalogue()) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("may_read", "found"), [(True, {"type": "serial", "start": 8}), (False, {"type": "?"})])
def test_a_key_that_this_role_may_not_read_is_left_to_the_user(may_read: bool, found: dict[str, object]) -> None:
    """A role that watches (pg_monitor) may prepare the statement all the same; the profile ended as a bug."""

    def execute(statement: str, *_: object) -> Any:
        if "pg_attribute" in statement:
            return [("id", True, "t", True)]
        if not may_read:
            raise psycopg.errors.InsufficientPrivilege("permission denied for table t")
        return SimpleNamespace(fetchone=lambda: (8,))

    catalogue = OfServer(SimpleNamespace(execute=execute))  # type: ignore[arg-type]
    assert guess("INSERT INTO t (id, a) VALUES ($1, $2)", 1, catalogue) == ("id", found)


def test_an_array_is_no_value_of_its_column() -> None:
    """The server takes a text such as {1,2,3} for it, and refuses every value of the column."""
    text = "SELECT * FROM t WHERE größe = ANY($1) AND größe IN ($2, $3)"
    guessed = [guess(text, number, Catalogue()) for number in (1, 2, 3)]  # type: ignore[arg-type]
    of_column = {"type": "column", "table": OF_SIZES.table, "column": "größe"}
    assert guessed == [("p1", {"type": "?"}), ("gr__e", of_column), ("gr__e", of_column)]


def test_a_list_whose_length_the_server_does_not_keep_is_not_taken_for_one_value() -> None:
    """PostgreSQL 18 counts IN (1, 2, 3) and longer lists as one statement, whose text has one value."""
    connection: Any = SimpleNamespace(execute=lambda *_: [])
    whole, cut = "SELECT x FROM t WHERE id = $1", "SELECT x FROM t WHERE id IN ($1 /*, ... */)"
    seen = [_Seen(cut, 9, 9.0), _Seen(whole, 1, 1.0)]
    proposals, left_out = _propose(connection, seen, 1.0, 10)
    assert [(proposal.text, proposal.calls) for proposal in proposals] == [("SELECT x FROM t WHERE id = :s01_id", 1)]
    assert [(left.calls, left.reason) for left in left_out] == [(9, "how many values its list had is not known")]


def test_values_that_begin_as_headers_do_stay_where_they_are() -> None:
    """Lines of an array in the old workload are no header of a table, and end with it."""
    source = """[study]
name = "s"
notes = '''
[workload] of May\u2028and June
'''
[workload]
kind = "sql"
[workload.load.profile]
kind = "step"
steps = [
  ["0s", 1000],
  ["60s", 2000],
]
[budget]
trials = 9
"""
    proposal = Proposal(label="s01", text="SELECT 1", generators={}, calls=7, time_ms=1.0, writes=False)
    profile = Profile(database="d", window_s=0.0, proposals=(proposal,), left_out=())
    study = tomllib.loads(study_text(profile, source))
    old = tomllib.loads(source)
    assert {key: study[key] for key in ("study", "budget")} == {key: old[key] for key in ("study", "budget")}
    assert study["workload"]["load"] == {"users": 8}


def test_an_application_may_use_functions_of_the_server() -> None:
    """What names a table of its own is its statement; what names none, or only the server's views, is monitoring."""
    columns: dict[object, Any] = {
        "orders": [("id", True, "orders", False)],
        "pg_class": [("relname", False, "pg_class", False)],
    }
    connection: Any = SimpleNamespace(execute=lambda _, values=(), **__: columns.get(*values, []) if values else [])
    texts = [
        "SELECT id, pg_notify($1, $2) FROM orders WHERE id = $3",
        "SELECT * FROM pg_class c JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid",
        "SELECT current_setting($1)",
    ]
    proposals, left_out = _propose(connection, [_Seen(text, 1, 1.0) for text in texts], 1.0, 10)
    assert [proposal.text.split(" FROM ")[1] for proposal in proposals] == ["orders WHERE id = :s01_id"]
    assert left_out == ()


def test_the_colon_of_a_slice_is_none_of_a_placeholder() -> None:
    connection: Any = SimpleNamespace(execute=lambda *_: [])
    text = """SELECT a[$1:$2], a[i:j], a[$3::int:$4], "x:y", f(n := $5) FROM t"""
    ((proposal,), _) = _propose(connection, [_Seen(text, 1, 1.0)], 1.0, 10)
    assert proposal.text == (
        """SELECT a[:s01_p1: :s01_p2], a[i: j], a[:s01_p3::int: :s01_p4], "x:y", f(n := :s01_p5) FROM t"""
    )
    assert list(proposal.generators) == [f"s01_p{n}" for n in range(1, 6)]


def test_a_word_behind_from_need_not_be_a_table() -> None:
    def refuse(*_: object) -> None:
        raise psycopg.errors.FeatureNotSupported("cross-database references are not implemented")

    connection: Any = SimpleNamespace(execute=refuse)
    assert guess("/* from 10.0.0.1 */ SELECT x WHERE a = $1", 1, OfServer(connection)) == ("a", {"type": "?"})


class OneServer:
    """A connection to a server whose pg_stat_statements has these rows, or cannot be read."""

    info = SimpleNamespace(dbname="d")

    def __init__(self, rows: list[tuple[Any, ...]] | psycopg.Error) -> None:
        self.rows = rows

    def __enter__(self) -> OneServer:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, statement: str, _: object = ()) -> Any:
        if isinstance(self.rows, psycopg.Error):
            raise self.rows
        return SimpleNamespace(fetchall=lambda: self.rows) if "pg_stat_statements" in statement else []


def profile_of(monkeypatch: pytest.MonkeyPatch, rows: list[tuple[Any, ...]] | psycopg.Error) -> Profile:
    monkeypatch.setattr(profiles, "connect", lambda _: OneServer(rows))
    there = Endpoint(protocol="postgresql", host="db", port=5432, user="u", database="d")
    return read_profile(there, window_s=0.0, coverage=0.9, most=10)


def test_what_other_roles_ask_is_counted_where_it_may_not_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the mix of our own role would pass for all that the server is asked."""
    hidden = [(None, _HIDDEN, 60, 600.0, 1), (None, _HIDDEN, 30, 300.0, 1)]
    found = profile_of(monkeypatch, [(1, "SELECT x FROM t", 10, 100.0, 1), *hidden])
    assert [proposal.text for proposal in found.proposals] == ["SELECT x FROM t"]
    assert (found.share_of_calls, found.share_of_time) == (0.1, 0.1)
    assert [(left.text, left.reason, left.calls) for left in found.left_out] == [
        (_HIDDEN, "of other roles, which may only be seen with pg_read_all_stats", 90)
    ]
    with pytest.raises(TargetError, match="user=u may not see the statements of other roles") as caught:
        profile_of(monkeypatch, hidden)
    assert caught.value.hint == 'GRANT pg_read_all_stats TO "u"'


def test_statistics_are_read_where_an_administrator_has_put_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a schema of its own, to which the search_path of no role leads."""
    asked: list[str] = []

    class Elsewhere(OneServer):
        def execute(self, statement: str, _: object = ()) -> Any:
            asked.append(statement)
            where = SimpleNamespace(fetchall=lambda: [("tools",)])
            return where if "pg_extension" in statement else super().execute(statement)

    monkeypatch.setattr(profiles, "connect", lambda _: Elsewhere([(1, "SELECT x FROM t", 10, 100.0, 1)]))
    there = Endpoint(protocol="postgresql", host="db", port=5432, user="u", database="d")
    assert read_profile(there, window_s=0.0, coverage=0.9, most=10).calls == 10
    assert " FROM tools.pg_stat_statements s " in asked[1]


def test_an_extension_that_is_older_than_the_server_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    error = psycopg.errors.UndefinedColumn('column "total_exec_time" does not exist')
    with pytest.raises(TargetError, match="pg_stat_statements in database=d is older than PostgreSQL 13") as caught:
        profile_of(monkeypatch, error)
    assert caught.value.hint == "run ALTER EXTENSION pg_stat_statements UPDATE in that database"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("orders", ["orders"]),
        ("shop.orders", ["shop", "orders"]),
        ('shop."Orders"', ["shop", "Orders"]),
        ('"a.b"."c ""d"""', ["a.b", 'c "d"']),
    ],
)
def test_a_table_is_found_by_the_name_that_the_server_writes(name: str, parts: list[str]) -> None:
    assert _parts(name) == parts


ASKED = """CREATE SCHEMA tools; GRANT USAGE ON SCHEMA tools TO PUBLIC;
CREATE EXTENSION pg_stat_statements SCHEMA tools VERSION '1.7'; CREATE ROLE app LOGIN; CREATE ROLE seer LOGIN;
CREATE TABLE orders (id int PRIMARY KEY, note text); INSERT INTO orders VALUES (1, 'a'); GRANT ALL ON orders TO app, seer;
CREATE FUNCTION noted() RETURNS text LANGUAGE sql AS 'SELECT note FROM orders WHERE id = 1'"""


@pytest.mark.service
@pytest.mark.slow
def test_a_server_that_another_role_asks() -> None:
    """Debian's PostgreSQL: what one role may see of the statements of another, and what the extension tells of itself."""
    settings = "fsync = off\nshared_preload_libraries = 'pg_stat_statements'\npg_stat_statements.track = 'all'\n"
    with started("debian", settings=settings, hba=TRUST) as mine:
        there = Endpoint(protocol="postgresql", host="127.0.0.1", port=mine.port, user="seer", database="postgres")

        def ask(user: str, text: str) -> None:
            where = f"host=127.0.0.1 port={mine.port} user={user} dbname=postgres"
            with psycopg.connect(where, autocommit=True) as asking:
                asking.execute(text.encode(), prepare=False)

        def seen() -> Profile:
            return read_profile(there, window_s=0.0, coverage=1.0, most=10)

        ask("postgres", ASKED)
        with pytest.raises(TargetError, match="is older than PostgreSQL 13"):
            seen()
        ask("postgres", "ALTER EXTENSION pg_stat_statements UPDATE")
        ask("app", "/* from 10.0.0.1 */ SELECT note, pg_notify('a', note) FROM orders WHERE id = 1")
        with pytest.raises(TargetError, match="may not see the statements of other roles"):
            seen()
        ask("postgres", "GRANT pg_read_all_stats TO seer")
        (found,) = [one for one in seen().proposals if "pg_notify" in one.text]
        number = found.label.partition("_")[0]
        assert found.text.endswith(f" pg_notify(:{number}_p1, note) FROM orders WHERE id = :{number}_id"), found.text
        assert found.unknown == (f"{number}_p1",)
        ask("app", "SELECT noted() FROM orders")
        # What the function runs is run again by whoever calls it.
        (calling,) = [one.text for one in seen().proposals if "note" in one.text and "pg_notify" not in one.text]
        assert calling.startswith("SELECT noted(")
