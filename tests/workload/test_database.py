"""Databases of Trimtab's own: made, kept, made anew, cloned; those of others are never touched. On a real PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from trimtab.errors import LoadError, UsageError
from trimtab.records import Endpoint
from trimtab.workload.connection import connect
from trimtab.workload.database import Dataset, check_name, check_their_name, clone, drop_clone, ensure
from trimtab.workload.pgbench.tables import dataset as pgbench_dataset
from trimtab.workload.run_database import RunDatabase
from trimtab.workload.server import ServerError, Session, server_of
from trimtab.workload.server.postgresql import PostgresServer

pytestmark = pytest.mark.service


def _quiet(line: str) -> None:
    pass


def _fill(there: Endpoint, report: Callable[[str], None]) -> None:
    with connect(there) as connection:
        connection.execute("CREATE TABLE t AS SELECT generate_series(1, 10) AS x")


def _check(session: Session) -> str:
    return "" if session.execute("SELECT count(*) FROM t") == [(10,)] else "rows are missing"


WANTED = Dataset(database="trimtab_thing", content={"workload": "x", "n": 10}, size_bytes=1, fill=_fill, check=_check)


@pytest.fixture
def clean(server: Endpoint) -> Iterator[Endpoint]:
    """The server without the databases that these tests make."""
    yield server
    with connect(server) as admin:
        for name in ("trimtab_thing", "trimtab_thing_run", "elsewhere"):
            admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _sql(endpoint: Endpoint, database: str, statement: str) -> None:
    with connect(endpoint.with_database(database)) as connection:
        connection.execute(statement)


def test_data_is_made_once_and_found_again(clean: Endpoint) -> None:
    lines: list[str] = []
    assert not ensure(clean, WANTED, lines.append).was_cached
    assert lines == ["creating database trimtab_thing"]
    again = ensure(clean, WANTED, _quiet)
    assert again.was_cached
    assert again.size_bytes > 1_000_000


def test_data_that_has_changed_is_made_anew(clean: Endpoint) -> None:
    ensure(clean, WANTED, _quiet)
    _sql(clean, "trimtab_thing", "DELETE FROM t WHERE x = 1")
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
        other.execute("SELECT pg_advisory_unlock_all()")
        assert not made.result(60).was_cached


def test_a_load_that_failed_leaves_nothing(clean: Endpoint) -> None:
    def broken(there: Endpoint, report: Callable[[str], None]) -> None:
        _fill(there, report)
        with server_of(there).connect() as session:
            session.execute("SELECT 1 / 0")

    with pytest.raises(LoadError, match="preparing database=trimtab_thing failed: division by zero"):
        ensure(clean, replace(WANTED, fill=broken), _quiet)
    with connect(clean) as admin:
        assert admin.execute("SELECT 1 FROM pg_database WHERE datname = 'trimtab_thing'").fetchone() is None
    assert not ensure(clean, WANTED, _quiet).was_cached


def test_a_role_without_a_schema_to_make_tables_in_is_told_so(clean: Endpoint) -> None:
    there = replace(clean, options={"options": "-c search_path=nowhere"})
    with pytest.raises(LoadError, match="failed: no schema has been selected to create in") as caught:
        ensure(there, WANTED, _quiet)
    assert "search_path names no schema that is there" in str(caught.value.hint)
    assert not ensure(replace(clean, options={"options": "-c search_path=public"}), WANTED, _quiet).was_cached


def test_a_load_that_was_killed_is_made_anew(clean: Endpoint) -> None:
    def killed(there: Endpoint, report: Callable[[str], None]) -> None:
        _fill(there, report)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure(clean, replace(WANTED, fill=killed), _quiet)
    lines: list[str] = []
    assert not ensure(clean, WANTED, lines.append).was_cached
    assert lines[0] == "trimtab_thing is created again: its last load was interrupted"


def test_a_role_that_may_make_no_database_keeps_the_one_that_it_was_given(clean: Endpoint) -> None:
    def broken(there: Endpoint, report: Callable[[str], None]) -> None:
        _fill(there, report)
        with server_of(there).connect() as session:
            session.execute("SELECT 1 / 0")

    with connect(clean) as admin:
        admin.execute("CREATE ROLE loader LOGIN")
        admin.execute("CREATE DATABASE trimtab_thing OWNER loader")
    there = replace(clean, user="loader")
    try:
        with pytest.raises(LoadError, match="preparing database=trimtab_thing failed: division by zero"):
            ensure(there, replace(WANTED, fill=broken), _quiet)
        with connect(there.with_database("trimtab_thing")) as connection:
            assert connection.execute("SELECT 1 FROM pg_tables WHERE tableowner = 'loader'").fetchone() is None
        assert not ensure(there, WANTED, _quiet).was_cached
        _sql(there, "trimtab_thing", "DELETE FROM t WHERE x = 1")
        lines: list[str] = []
        assert not ensure(there, WANTED, lines.append).was_cached
        assert lines[0] == "trimtab_thing is created again: rows are missing"
        assert ensure(there, WANTED, _quiet).was_cached
    finally:
        with connect(clean) as admin:
            admin.execute("DROP DATABASE IF EXISTS trimtab_thing WITH (FORCE)")
            admin.execute("DROP ROLE loader")


def test_what_another_user_has_made_is_said_to_be_theirs(clean: Endpoint) -> None:
    ensure(clean, WANTED, _quiet)
    clone(clean, "trimtab_thing", "trimtab_thing_run")
    with connect(clean) as admin:
        admin.execute("CREATE ROLE other LOGIN CREATEDB")
    there = replace(clean, user="other")
    try:
        with pytest.raises(LoadError, match="user=other may not use database=trimtab_thing: permission denied") as used:
            ensure(there, WANTED, _quiet)
        assert "another user has made it: log in as that one" in str(used.value.hint)
        with pytest.raises(LoadError, match="cannot drop database=trimtab_thing_run: must be owner") as dropped:
            drop_clone(there, "trimtab_thing_run")
        assert dropped.value.hint == "another user has made it: drop it as that one"
    finally:
        with connect(clean) as admin:
            admin.execute("DROP ROLE other")


def test_a_database_in_which_trimtab_s_own_sessions_are_is_not_copied(clean: Endpoint) -> None:
    """A study keeps connections in the database of the target's url."""
    ensure(clean, WANTED, _quiet)
    inside = clean.with_database("trimtab_thing")
    with (
        connect(inside),
        pytest.raises(LoadError, match="cannot be copied: it is the one of the target's url, and Trimtab") as caught,
    ):
        clone(inside, "trimtab_thing", "trimtab_thing_run")
    assert caught.value.hint == "let the target's url and [workload] name different databases"


def test_a_server_that_takes_no_writes_is_said(clean: Endpoint) -> None:
    there = replace(clean, options={"options": "-c default_transaction_read_only=on"})
    with pytest.raises(LoadError, match="database=trimtab_thing cannot be made: the server takes no writes") as caught:
        ensure(there, WANTED, _quiet)
    assert "it is a standby, or set to read-only" in str(caught.value.hint)
    ensure(clean, WANTED, _quiet)
    with pytest.raises(LoadError, match="database=trimtab_thing_run cannot be made: the server takes no writes"):
        clone(there, "trimtab_thing", "trimtab_thing_run")


def test_texts_are_compared_byte_by_byte_whatever_the_server_was_set_up_with(clean: Endpoint) -> None:
    """As one that got ICU's collations from initdb, which all its databases would have then. (This build has no ICU.)"""
    change = "UPDATE pg_database SET datlocprovider = {}, datlocale = {} WHERE datname = 'template0'"
    _sql(clean, clean.database, change.format("'i'", "'und'"))
    try:
        ensure(clean, WANTED, _quiet)
    finally:
        _sql(clean, clean.database, change.format("'c'", "NULL"))
    with connect(clean.with_database("trimtab_thing")) as connection:
        assert connection.execute("SELECT 'B' < 'a'").fetchone() == (True,)


def test_an_empty_database_is_filled(clean: Endpoint) -> None:
    with connect(clean) as admin:
        admin.execute("CREATE DATABASE trimtab_thing")
    assert not ensure(clean, WANTED, _quiet).was_cached
    assert ensure(clean, WANTED, _quiet).was_cached


def test_what_a_template_gives_every_database_is_nobodys(clean: Endpoint) -> None:
    """As a view of pg_stat_statements in template1, which a database has that an administrator makes for a user."""
    with connect(clean) as admin:
        admin.execute("CREATE DATABASE trimtab_thing")
    _sql(clean, "trimtab_thing", "CREATE TABLE of_an_extension (x int PRIMARY KEY)")
    _sql(clean, "trimtab_thing", "ALTER EXTENSION plpgsql ADD TABLE of_an_extension")
    assert not ensure(clean, WANTED, _quiet).was_cached
    assert ensure(clean, WANTED, _quiet).was_cached


def test_a_database_of_somebody_else_is_left_alone(clean: Endpoint) -> None:
    with connect(clean) as admin:
        admin.execute("CREATE DATABASE trimtab_thing")
    _sql(clean, "trimtab_thing", "CREATE TABLE theirs (x int)")
    with pytest.raises(LoadError, match="database=trimtab_thing exists and was not made by Trimtab"):
        ensure(clean, WANTED, _quiet)


def test_texts_of_a_database_without_an_encoding_are_texts(clean: Endpoint) -> None:
    made = "CREATE DATABASE elsewhere TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
    _sql(clean, clean.database, made)
    server = server_of(clean.with_database("elsewhere"))
    with server.connect() as session:
        session.execute("CREATE TABLE t AS SELECT 'é' AS a")
        assert server.sample(session, ["t"], "a", 5) == ["é"]
        assert server.tables(session, "elsewhere") == ("t",)
        session.execute(r"INSERT INTO t VALUES (E'\xe9')")
        with pytest.raises(ServerError, match="invalid byte sequence for encoding"):
            server.sample(session, ["t"], "a", 5)


def test_other_data_of_ours_is_not_overwritten(clean: Endpoint) -> None:
    ensure(clean, WANTED, _quiet)
    with pytest.raises(LoadError, match="database=trimtab_thing holds other data: n=10 and not 11"):
        ensure(clean, replace(WANTED, content={"workload": "x", "n": 11}), _quiet)


def test_a_disk_too_small_is_told_before_anything_is_made(clean: Endpoint) -> None:
    with pytest.raises(LoadError, match="disk too small for database=trimtab_thing: free=1KiB needed=1GiB"):
        ensure(clean, replace(WANTED, size_bytes=1 << 30), _quiet, free_bytes=lambda endpoint, admin: 1024)
    with connect(clean) as admin:
        assert admin.execute("SELECT 1 FROM pg_database WHERE datname = 'trimtab_thing'").fetchone() is None


def test_a_copy_is_fresh_every_time_and_goes_away(clean: Endpoint) -> None:
    ensure(clean, WANTED, _quiet)
    assert clone(clean, "trimtab_thing", "trimtab_thing_run") > 0
    _sql(clean, "trimtab_thing_run", "DELETE FROM t")
    clone(clean, "trimtab_thing", "trimtab_thing_run")
    with connect(clean.with_database("trimtab_thing_run")) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (10,)
    drop_clone(clean, "trimtab_thing_run")
    drop_clone(clean, "trimtab_thing_run")
    with pytest.raises(LoadError, match="cannot connect"):
        connect(clean.with_database("trimtab_thing_run"))


def test_a_copy_under_a_fixed_name_is_what_an_application_finds(clean: Endpoint) -> None:
    ensure(clean, WANTED, _quiet)
    database = RunDatabase("trimtab_thing", is_copied=True, fixed="elsewhere")
    assert database.name == "elsewhere"
    # The application's own way in stays the same: its server, and the name that it is wired to.
    site = Endpoint(protocol="http", host="127.0.0.1", port=80, user="", database="", data=clean)
    for _ in range(2):
        state = database.reset(site, _quiet)
        assert state is not None
        assert state.note == "trimtab_thing copied to elsewhere"
        with connect(clean.with_database("elsewhere")) as connection:
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (10,)
            connection.execute("DELETE FROM t")
    database.drop(site)
    with pytest.raises(LoadError, match="cannot connect"):
        connect(clean.with_database("elsewhere"))
    with pytest.raises(UsageError, match="database='x' cannot be the copy and the original"):
        RunDatabase("x", is_copied=True, fixed="x")


def test_the_data_of_a_site_are_in_the_database_behind_it(clean: Endpoint) -> None:
    site = Endpoint(protocol="http", host="127.0.0.1", port=80, user="", database="", data=clean)
    assert not ensure(site, WANTED, _quiet).was_cached
    assert ensure(clean, WANTED, _quiet).was_cached
    there = site.with_database("trimtab_thing")
    assert (there.protocol, there.database, there.data) == ("http", "", clean.with_database("trimtab_thing"))
    alone = Endpoint(protocol="http", host="127.0.0.1", port=80, user="", database="")
    with pytest.raises(LoadError, match="data cannot be prepared over protocol=http"):
        ensure(alone, WANTED, _quiet)


def test_a_source_in_use_cannot_be_copied(clean: Endpoint) -> None:
    ensure(clean, WANTED, _quiet)
    with (
        connect(clean.with_database("trimtab_thing")),
        pytest.raises(LoadError, match="database=trimtab_thing cannot be copied while somebody is connected"),
    ):
        clone(clean, "trimtab_thing", "trimtab_thing_run")


def test_a_copy_never_replaces_somebody_elses_database(clean: Endpoint) -> None:
    ensure(clean, WANTED, _quiet)
    with connect(clean) as admin:
        admin.execute("CREATE DATABASE elsewhere")
    for act in (lambda: clone(clean, "trimtab_thing", "elsewhere"), lambda: drop_clone(clean, "elsewhere")):
        with pytest.raises(LoadError, match="database=elsewhere exists and was not made by Trimtab"):
            act()


def test_a_copy_that_the_server_still_makes_is_waited_for_and_dropped(clean: Endpoint) -> None:
    """For a client that was killed meanwhile."""
    ensure(clean, WANTED, _quiet)
    server = server_of(clean)
    with ThreadPoolExecutor(1) as pool, server.connect() as other:  # whose lock a failure must give back first
        assert server.lock(other, "trimtab_thing_run", wait=False)
        done = pool.submit(drop_clone, clean, "trimtab_thing_run")
        server.clone(other, "trimtab_thing", "trimtab_thing_run")
        assert not done.done()
        other.__exit__(None, None, None)
        done.result(timeout=60)
    with server.connect() as admin:
        assert not server.exists(admin, "trimtab_thing_run")


def test_a_copy_that_would_fill_the_disk_is_not_made(clean: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(clean, WANTED, _quiet)
    monkeypatch.setattr(PostgresServer, "free_bytes", lambda *_: 64 << 20)
    with pytest.raises(LoadError, match=r"disk too small for a copy of database=trimtab_thing: free=64MiB needed=7\d"):
        clone(clean, "trimtab_thing", "trimtab_thing_run")
    with connect(clean) as admin:
        assert admin.execute("SELECT 1 FROM pg_database WHERE datname = 'trimtab_thing_run'").fetchone() is None
    monkeypatch.setattr(PostgresServer, "free_bytes", lambda *_: None)
    clone(clean, "trimtab_thing", "trimtab_thing_run")


def test_a_copy_has_the_settings_of_its_database(clean: Endpoint) -> None:
    """They win over the configuration files: a copy without them would run with other values than the database."""
    ensure(clean, WANTED, _quiet)
    with connect(clean) as admin:
        for what in (
            "DATABASE trimtab_thing SET work_mem = '7MB'",
            """DATABASE trimtab_thing SET search_path = '$user', "odd name", public""",
            "DATABASE trimtab_thing SET shop.mode = 'a=b'",
            "DATABASE trimtab_thing SET default_transaction_read_only = off",
            "ROLE CURRENT_USER IN DATABASE trimtab_thing SET random_page_cost = 1.5",
        ):
            admin.execute(f"ALTER {what}".encode())
    clone(clean, "trimtab_thing", "trimtab_thing_run")
    with connect(clean.with_database("trimtab_thing_run")) as connection:
        names = ("work_mem", "search_path", "shop.mode", "random_page_cost")
        found = [connection.execute("SELECT current_setting(%s)", (name,)).fetchone() for name in names]
    assert found == [("7MB",), ('"$user", "odd name", public',), ("a=b",), ("1.5",)]


def test_a_source_that_is_missing_is_said(clean: Endpoint) -> None:
    with pytest.raises(LoadError, match="cannot copy database=nowhere to trimtab_thing_run: .*nowhere"):
        clone(clean, "nowhere", "trimtab_thing_run")


@pytest.mark.parametrize("name", ["", "1a", "a b", "a;b", "x" * 60, 7, "é"])
def test_names_that_are_none_are_refused(name: object) -> None:
    with pytest.raises(UsageError, match="is not a database name"):
        check_name(name)


@pytest.mark.parametrize("name", ["shop.prod", "a b", "1a", "é", 'a"b'])
def test_a_database_of_somebody_elses_has_the_name_that_it_has(name: str) -> None:
    assert check_their_name(name) == name
    for wrong in ("", "x" * 60, "é" * 30, "a\nb", 7):
        with pytest.raises(UsageError, match="is not a database name"):
            check_their_name(wrong)


def test_pgbench_tables_are_those_of_pgbench(server: Endpoint) -> None:
    wanted = pgbench_dataset(1)
    try:
        ensure(server, wanted, _quiet)
        with connect(server.with_database(wanted.database)) as connection:
            counts = connection.execute(
                "SELECT (SELECT count(*) FROM pgbench_branches), (SELECT count(*) FROM pgbench_tellers),"
                " (SELECT count(*) FROM pgbench_accounts), (SELECT max(bid) FROM pgbench_accounts)"
            ).fetchone()
        assert counts == (1, 10, 100_000, 1)
        assert ensure(server, wanted, _quiet).was_cached
    finally:
        with connect(server) as admin:
            admin.execute(f"DROP DATABASE IF EXISTS {wanted.database}")
