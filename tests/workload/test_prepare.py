"""Preparing data on a real server: loaded once, re-used, repaired, and refused before anything is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import psycopg
import pytest
from psycopg import sql

from tests.commands import start_script
from tests.workload.conftest import SCALE
from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.connection import _TIME_OUTS, _without_time_outs, connect
from trimtab.workload.server import ServerError, Session, server_of
from trimtab.workload.server.base import MARKER_TABLE, is_local
from trimtab.workload.server.postgresql import PostgresServer
from trimtab.workload.tpch import generator, marker
from trimtab.workload.tpch.prepare import Disk, prepare
from trimtab.workload.tpch.schema import TABLES

pytestmark = pytest.mark.service

DATABASE = "trimtab_test_tpch"
OF_KEYS = {f"{name}_pkey" for name in ("trimtab_data", *(table.name for table in TABLES))}
"""Indexes of primary keys."""


@pytest.fixture
def fresh(server: Endpoint) -> Iterator[Endpoint]:
    """The server without the test's database, before and after."""
    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(DATABASE))
    with connect(server) as admin:
        admin.execute(drop)
        yield server
        admin.execute(drop)


def load(endpoint: Endpoint, lines: list[str] | None = None, *, disk: Disk | None = None, scale: float = SCALE) -> bool:
    """Prepares the test's database; whether it was there already."""
    report = (lines if lines is not None else []).append
    return prepare(endpoint, database=DATABASE, scale=scale, schema="standard", report=report, disk=disk).was_cached


def exists(endpoint: Endpoint) -> bool:
    with connect(endpoint) as admin:
        return admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone() is not None


def execute(endpoint: Endpoint, statement: str) -> None:
    with connect(endpoint.with_database(DATABASE)) as connection:
        connection.execute(statement)


@pytest.fixture(autouse=True)
def ready_files(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spares each load the second of the generator's start: a program that hands out its files."""
    program = tmp_path / "tpchgen-cli"
    program.write_text(f'#!/bin/sh\nwhile [ "$1" != --output-dir ]; do shift; done\ncp {files}/*.tbl "$2"\n')
    program.chmod(0o755)
    monkeypatch.setattr(generator, "find_generator", lambda: program)
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))


def test_the_data_is_complete_and_every_statistic_is_there(fresh: Endpoint, tables: dict[str, list[list[str]]]) -> None:
    load(fresh)
    there = server_of(fresh)
    with there.connect(DATABASE) as session:
        assert marker.count_rows(there, session, DATABASE) == {name: len(rows) for name, rows in tables.items()}
    with connect(fresh.with_database(DATABASE)) as connection:
        analysed = connection.execute("SELECT count(DISTINCT tablename) FROM pg_stats WHERE schemaname = 'public'")
        assert analysed.fetchone() == (len(TABLES),)
        unfrozen = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relname = ANY(%s) AND relallvisible < relpages",
            ([table.name for table in TABLES],),
        )
        assert unfrozen.fetchone() == (0,)
        indexes = {
            str(row[0]) for row in connection.execute("SELECT indexname FROM pg_indexes WHERE schemaname = 'public'")
        }
        assert indexes == OF_KEYS | {"lineitem_part_supp"}


def test_the_purists_schema_has_primary_keys_only(fresh: Endpoint) -> None:
    prepare(fresh, database=DATABASE, scale=SCALE, schema="pk-only", report=lambda line: None)
    with connect(fresh.with_database(DATABASE)) as connection:
        indexes = {
            str(row[0]) for row in connection.execute("SELECT indexname FROM pg_indexes WHERE schemaname = 'public'")
        }
    assert indexes == OF_KEYS


def test_rows_are_stored_in_key_order(connection: psycopg.Connection) -> None:
    keys = [row[0] for row in connection.execute("SELECT l_orderkey FROM lineitem ORDER BY ctid")]
    assert keys == sorted(keys)


def test_the_second_time_nothing_is_done(fresh: Endpoint) -> None:
    lines: list[str] = []
    assert not load(fresh, lines)
    assert lines[0] == f"creating database {DATABASE}"
    assert any(line.startswith("loaded lineitem: 60175 rows in ") for line in lines)
    again: list[str] = []
    assert load(fresh, again)
    assert again == []


def test_two_tuners_at_once_load_it_once(fresh: Endpoint) -> None:
    lines: list[str] = []
    was_cached: list[bool] = []
    threads = [threading.Thread(target=lambda: was_cached.append(load(fresh, lines))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(was_cached) == [False, True]
    assert sum(line.startswith("loaded lineitem") for line in lines) == 1


INTERRUPTED = """
import sys
from trimtab.records import Endpoint
from trimtab.workload.tpch.prepare import prepare
port = int(sys.argv[1])
endpoint = Endpoint(protocol="postgresql", host="127.0.0.1", port=port, user="postgres", database="postgres")
prepare(endpoint, database=sys.argv[2], scale=0.01, schema="standard", report=lambda line: print(line, flush=True))
"""


def test_a_killed_load_is_recognised_and_redone(fresh: Endpoint) -> None:
    with start_script(INTERRUPTED, fresh.port, DATABASE) as process:
        assert process.stdout is not None
        seen = [line for line in iter(process.stdout.readline, "") if line.startswith("loaded") and not process.kill()]
    assert seen
    assert "loaded lineitem" not in seen[0]
    lines: list[str] = []
    assert not load(fresh, lines)
    assert f"the last load of {DATABASE} was interrupted; loading again" in lines
    assert load(fresh)


def test_a_failed_generator_is_reported_and_the_load_redone(fresh: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(generator, "find_generator", lambda: Path("/bin/false"))
        with pytest.raises(LoadError, match=r"data generator failed: scale=0\.01"):
            load(fresh)
    lines: list[str] = []
    assert not load(fresh, lines)
    assert f"the last load of {DATABASE} was interrupted; loading again" in lines


def test_what_a_full_disk_cut_off_does_not_fill_it_any_longer(fresh: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(there: PostgresServer, session: Session, tables: Sequence[str]) -> None:
        if "part" in tables:
            raise ServerError("could not extend file: No space left on device", reason="disk_full")

    monkeypatch.setattr(PostgresServer, "analyse", full)
    with pytest.raises(LoadError, match=f"the server's disk is full while loading database={DATABASE}"):
        load(fresh)
    there = server_of(fresh)
    with there.connect(DATABASE) as session:
        assert there.tables(session, DATABASE) == (MARKER_TABLE,)


def test_changed_rows_are_noticed_and_loaded_again(fresh: Endpoint) -> None:
    load(fresh)
    execute(fresh, "DELETE FROM customer WHERE c_custkey = 1")
    lines: list[str] = []
    assert not load(fresh, lines)
    assert "row counts have changed ({'customer': 1499}); loading again" in lines


def test_orders_left_by_a_run_are_taken_back(fresh: Endpoint) -> None:
    load(fresh)
    execute(fresh, "INSERT INTO orders SELECT 8, 1, 'O', 1, '1995-01-01', '5-LOW', 'x', 0, 'x'")
    execute(
        fresh,
        "INSERT INTO lineitem SELECT 8, 1, 1, 1, 1, 1, 0, 0, '', '', d, d, d, '', '', ''"
        " FROM CAST('1995-01-02' AS date) d",
    )
    assert load(fresh)


def test_a_full_disk_is_refused_before_anything_is_written(fresh: Endpoint) -> None:
    with pytest.raises(LoadError) as caught:
        load(fresh, disk=Disk(server=lambda there, session: 10**8, client=lambda: 10**12), scale=0.1)
    assert caught.value.message == "disk too small for scale=0.1: on the server free=0.10 GB needed=0.26 GB"
    assert caught.value.hint == "free some space on the server or use a smaller scale"
    with pytest.raises(LoadError, match=r"disk too small for scale=0\.1: on the client free=0\.10 GB needed=0\.12 GB"):
        load(fresh, disk=Disk(server=lambda there, session: 10**12, client=lambda: 10**8), scale=0.1)
    assert not exists(fresh)


def test_what_an_interrupted_load_has_left_does_not_count_against_the_next_one(fresh: Endpoint) -> None:
    load(fresh)
    execute(fresh, "UPDATE trimtab_data SET content = replace(content, '\"loaded\"', '\"loading\"')")
    room = Disk(server=lambda there, session: 40_000_000 - there.size_bytes(session, DATABASE))
    lines: list[str] = []
    assert not load(fresh, lines, disk=room)
    assert f"the last load of {DATABASE} was interrupted; loading again" in lines
    assert load(fresh)


def test_what_another_user_has_loaded_is_said_to_be_theirs(fresh: Endpoint, weak: Endpoint) -> None:
    load(fresh)
    with pytest.raises(LoadError, match=f"user=weak may not use database={DATABASE}: permission denied for") as caught:
        load(weak)
    assert "another user has made it" in (caught.value.hint or "")


def test_a_server_disk_that_cannot_be_seen_is_said(fresh: Endpoint) -> None:
    lines: list[str] = []
    load(fresh, lines, disk=Disk(server=lambda there, session: None))
    assert "the server's free disk space cannot be seen; scale=0.01 needs 0.03 GB" in lines


def test_the_free_space_of_a_local_server_is_seen(server: Endpoint) -> None:
    with server_of(server).connect() as session:
        assert (Disk().server(server_of(server), session) or 0) > 0
        assert Disk().server(server_of(replace(server, host="db.example")), session) is None
    hosts = {"/run/postgresql": True, "localhost": True, "127.0.0.1": True, "::1": True, "10.0.0.1": False, "db": False}
    assert {host: is_local(host) for host in hosts} == hosts


@pytest.fixture
def weak(server: Endpoint) -> Iterator[Endpoint]:
    """The server as a user who may create nothing."""
    with connect(server) as admin:
        admin.execute("DROP ROLE IF EXISTS weak")
        admin.execute("CREATE ROLE weak LOGIN")
        yield replace(server, user="weak")
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(DATABASE)))
        admin.execute("DROP ROLE weak")


def test_a_missing_privilege_is_told_with_its_remedy(weak: Endpoint) -> None:
    with pytest.raises(LoadError) as caught:
        load(weak)
    assert caught.value.message == f"user=weak may not create database={DATABASE}"
    assert 'ALTER ROLE "weak" CREATEDB' in (caught.value.hint or "")


def test_the_remedy_works_without_superuser(weak: Endpoint, server: Endpoint) -> None:
    with connect(server) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} OWNER weak").format(sql.Identifier(DATABASE)))
    lines: list[str] = []
    assert not load(weak, lines)
    assert "no privilege for CHECKPOINT: the first trials may share the disk with the end of the load" in lines
    assert load(weak)


def test_a_database_of_somebody_else_is_left_alone(fresh: Endpoint) -> None:
    with connect(fresh) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    execute(fresh, "CREATE TABLE orders (precious text)")
    with pytest.raises(LoadError, match=f"database={DATABASE} exists and was not made by Trimtab"):
        load(fresh)
    execute(fresh, "SELECT precious FROM orders")
    execute(fresh, "CREATE TABLE trimtab_data AS SELECT 'mine' AS content")
    with pytest.raises(
        LoadError, match="the marker of this database cannot be read: table=trimtab_data content='mine'"
    ):
        load(fresh)


def test_another_scale_in_the_same_database_is_refused(small: Endpoint, server: Endpoint) -> None:
    with pytest.raises(LoadError) as caught:
        prepare(server, database=small.database, scale=0.02, schema="standard", report=lambda line: None)
    assert caught.value.message == (
        "database=trimtab_tpch_0_01 holds scale=0.01 schema=standard, not scale=0.02 schema=standard"
    )


def test_a_server_that_is_not_there(server: Endpoint) -> None:
    with pytest.raises(LoadError, match=r"cannot connect: endpoint=postgresql://postgres@127\.0\.0\.1:1/postgres"):
        load(replace(server, port=1))


def test_low_time_outs_of_a_config_do_not_cut_the_check_off(small: Endpoint, server: Endpoint) -> None:
    with connect(server) as admin:
        admin.execute("ALTER ROLE postgres SET statement_timeout = '1ms'")
    try:
        assert prepare(
            server, database=small.database, scale=SCALE, schema="standard", report=lambda line: None
        ).was_cached
    finally:
        with connect(server) as admin:
            admin.execute("ALTER ROLE postgres RESET statement_timeout")


@pytest.mark.parametrize(("version", "n_names"), [(90500, 2), (130000, 3), (160004, 4), (180000, 5)])
def test_no_time_out_that_the_server_knows_is_left(version: int, n_names: int) -> None:
    """One that it does not know would be an error."""
    connection = mock.Mock()
    connection.info.server_version = version
    _without_time_outs(connection)
    ((statements,), _) = connection.execute.call_args
    assert statements.decode().split("; ") == [f"SET {name} = 0" for name in tuple(_TIME_OUTS)[:n_names]]


def test_a_session_that_nothing_cuts_off(server: Endpoint) -> None:
    """As one that waits with a lock while others fill its database for an hour."""
    with connect(server) as admin:
        known = [name for name, since in _TIME_OUTS.items() if since <= admin.info.server_version]
        for name in known:
            admin.execute(f"ALTER ROLE postgres SET {name} = '7s'".encode())
    try:
        with connect(server) as admin:
            kept = admin.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", (known,)).fetchall()
    finally:
        with connect(server) as admin:
            for name in known:
                admin.execute(f"ALTER ROLE postgres RESET {name}".encode())
    assert dict(kept) == dict.fromkeys(known, "0")


def test_a_server_that_cancels_every_statement_is_told() -> None:
    connection = mock.Mock()
    connection.info.server_version = 180000
    connection.execute.side_effect = psycopg.errors.QueryCanceled("canceling statement due to statement timeout")
    with pytest.raises(LoadError, match="the server cancels every statement: canceling statement due to") as caught:
        _without_time_outs(connection)
    assert caught.value.hint == "raise statement_timeout of this role or server"
    connection.close.assert_called_once()
