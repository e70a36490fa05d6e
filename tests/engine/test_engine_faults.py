"""The extension after a crash, and with files that it must not use: the statements run as without it, and a message says why."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest

from tests.engine.conftest import OWN, QUERY, Session, engine, library, wait_for_setting
from tests.engine.test_engine_classes import HEADER, sealed
from tests.engine.test_engine_safety import limit
from tests.servers.postgresql import DEBIAN, Server

pytestmark = [pytest.mark.service, pytest.mark.needs("c-compiler", "postgresql-embedded")]

FILE = "pg_stat/trimtab.knowledge"
SIZE_OF_KEY = 32
"""Of a class, at its beginning."""


@pytest.fixture(scope="module")
def learnt() -> Iterator[Server]:
    """A server that has learnt, saved, and stopped; each test starts it with another file."""
    with engine("18") as (server, session):
        session.learn(n=60)
        assert session.value("SELECT trimtab_save()") is True
        session.connection.close()
        server.control("stop")
        yield server


def killed(server: Server, pid: int, witness: Session) -> None:
    """Kills a backend and waits until the server has ended all others for it, the witness among them, and is up again."""
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 60
    with suppress(psycopg.Error):
        while time.monotonic() < until:
            witness.rows("SELECT 1")
            time.sleep(0.02)
    while time.monotonic() < until:
        with suppress(psycopg.Error), server.admin() as connection:
            connection.execute("SELECT 1")
            return
        time.sleep(0.05)
    raise AssertionError("the server did not come back")


def damaged(content: bytes) -> bytes:
    return content[:3000] + bytes([content[3000] ^ 1]) + content[3001:]


@pytest.mark.parametrize(
    ("change", "said", "is_kept"),
    [
        (damaged, "is damaged: its checksum does not match", False),
        (lambda content: content[:4] + b"\x07" + content[5:], "is of another version of trimtab", True),
        (lambda content: content[:8] + b"\x07" * 8 + content[16:], "belongs to another server", True),
        (lambda content: content[:16] + b"\x07" * 4 + content[20:], "belongs to another server", True),
        (lambda content: b"something else", "is not a file of trimtab, or is damaged", True),
        (lambda content: bytes(len(content)), "is not a file of trimtab, or is damaged", True),
        (lambda content: content[:20], "is not a file of trimtab, or is damaged", False),
        (lambda content: b"", "is not a file of trimtab, or is damaged", False),
    ],
)
def test_a_file_that_must_not_be_used(
    learnt: Server, change: Callable[[bytes], bytes], said: str, is_kept: bool
) -> None:
    path = learnt.data_dir / FILE
    good = path.read_bytes()
    bad = change(good)
    path.write_bytes(bad)
    try:
        with learnt.up(), learnt.admin() as connection:
            session = Session(connection)
            session.tune()
            assert session.classes() == []
            assert said in session.value("SELECT file_problem FROM trimtab_status()")
            session.rows(QUERY)
            assert session.value("SELECT trimtab_save()") is (not is_kept)
            assert (path.read_bytes() == bad) is is_kept, "what may be another's is not overwritten"
            assert (session.value("SELECT file_problem FROM trimtab_status()") != "") is is_kept
        log = (learnt.folder / "server.log").read_text()
        assert f"trimtab: file={FILE} {said}" in log
    finally:
        path.write_bytes(good)


@pytest.mark.full  # test_engine_shared.py: a block of another version
def test_builds_of_two_versions_do_not_share_their_memory() -> None:
    """A session that began before the library was replaced, and one after it: each knows its own."""
    with engine("18", preload=False) as (server, session), server.admin() as connection:
        expected = session.rows(QUERY)
        calls = session.learn(n=20)["calls"]
        newer = Session(connection)
        newer.rows(f"LOAD '{library('18', 'newer', ('-O0', '-g0', '-DN_EVENTS=256'))}'")
        newer.tune()
        for _ in range(20):
            assert newer.rows(QUERY) == expected
        assert session.classes()[0]["calls"] == calls


def survives_nonsense(server: Server, seed: int, n: int = 100) -> None:
    """A file whose checksum is right and whose classes are not: those are forgotten, or go on with what they hold."""
    rng, path = random.Random(seed), server.data_dir / FILE
    with server.admin() as connection:
        session = Session(connection)
        session.tune()
        session.rows(f"CREATE TABLE wide ({', '.join(f'c{column} int' for column in range(n))})")
        for column in range(n):
            for _ in range(9):
                session.rows(f"SELECT count(c{column}) FROM wide")
        assert session.value("SELECT trimtab_save()") is True
    server.control("stop")
    content = bytearray(path.read_bytes())
    n_classes, size = HEADER.unpack_from(content)[4:6]
    for begin in range(HEADER.size, HEADER.size + n_classes * size, size):
        for _ in range(rng.randrange(1, 6)):
            content[begin + rng.randrange(SIZE_OF_KEY, rng.choice([2200, 4400, size]))] = rng.randrange(256)
    sealed(path, content)
    server.control("start")
    with server.admin() as connection:
        session = Session(connection)
        session.tune()
        assert 0 < len(session.classes()) < n_classes, "some are damaged, and some are not"
        assert session.value("SELECT file_problem FROM trimtab_status()") == ""
        for column in range(n):
            for _ in range(9):
                assert session.value(f"SELECT count(c{column}) FROM wide") == 0
        assert len(session.value("SELECT trimtab_export()")["classes"]) == len(session.classes())
        session.rows("SELECT trimtab_pin(query_id, 'work_mem=64MB') FROM trimtab_sections")
        for column in range(n):
            assert session.value(f"SELECT count(c{column}) FROM wide") == 0
        session.rows("DROP TABLE wide; SELECT trimtab_reset()")


def test_a_file_whose_checksum_is_right_and_whose_classes_are_nonsense() -> None:
    with engine("18") as (server, _):
        survives_nonsense(server, 1)


def test_no_text_of_a_statement_is_kept(learnt: Server) -> None:
    with learnt.up(), learnt.admin() as connection:
        session = Session(connection)
        session.tune()
        session.learn("SELECT k, max(r), 'open sesame' FROM t WHERE k <> 7654321 GROUP BY k ORDER BY k", 20)
        assert session.value("SELECT trimtab_save()") is True
        n_classes = len(session.classes())
    kept = (learnt.data_dir / FILE).read_bytes()
    assert n_classes >= 2
    assert not any(secret in kept for secret in (b"sesame", b"7654321", (7654321).to_bytes(4, "little"), b"SELECT"))


def test_a_file_that_cannot_be_written(learnt: Server) -> None:
    with learnt.up(), learnt.admin() as connection:
        session = Session(connection)
        problem = "SELECT file_problem FROM trimtab_status()"
        said = "file=no-such-folder/knowledge cannot be written: No such file or directory"
        session.rows("ALTER SYSTEM SET trimtab.file = 'no-such-folder/knowledge'")
        session.rows("SELECT pg_reload_conf()")
        wait_for_setting(learnt, "trimtab.file", "no-such-folder/knowledge")
        assert session.value("SELECT trimtab_save()") is False
        assert session.value(problem) == said
        with learnt.admin() as another:
            assert Session(another).value(problem) == said, "whichever session has met it"
            Session(another).rows(f"SET trimtab.file = '{FILE}'")
            assert Session(another).value(problem) == "", "of its own file nobody knows any"
        session.rows("ALTER SYSTEM RESET trimtab.file")
        session.rows("SELECT pg_reload_conf()")
        wait_for_setting(learnt, "trimtab.file", FILE)
        assert session.value("SELECT trimtab_save()") is True
        assert session.value(problem) == ""
    log = (learnt.folder / "server.log").read_text()
    assert "HINT:  What was learnt is lost when the server stops." in log


def test_a_file_that_cannot_be_read_is_not_replaced(learnt: Server) -> None:
    """It may be another server's, of another user."""
    path = learnt.data_dir / FILE
    content = path.read_bytes()
    path.chmod(0)
    try:
        with learnt.up(), learnt.admin() as connection:
            session = Session(connection)
            session.tune()
            assert session.classes() == []
            said = f"file={FILE} cannot be read: Permission denied"
            assert session.value("SELECT file_problem FROM trimtab_status()") == said
            assert session.learn(OWN)["settings"] == "work_mem=65536"
            assert session.value("SELECT trimtab_save()") is False
    finally:
        path.chmod(0o600)
    assert path.read_bytes() == content, "neither at a save nor at the server's end"
    log = (learnt.folder / "server.log").read_text()
    assert f"LOG:  trimtab: {said}" in log
    assert "HINT:  Give the server's user the right to read it, or set trimtab.file to another name." in log


@pytest.mark.parametrize("version", ["18", pytest.param(DEBIAN, marks=pytest.mark.full)])
def test_a_server_without_memory_for_what_is_known(version: str) -> None:
    """Statements run as without us, and the views say why. The build wants more than any machine has."""
    greedy = library(version, "greedy", ("-O0", "-g0", "-DN_EVENTS=2000000000"))
    with engine(version, preload=False, path=greedy) as (server, session):
        limit(server, session, 1000)
        expected = session.rows(QUERY)
        for _ in range(12):
            assert session.rows(QUERY) == expected
        session.rows("BEGIN")
        session.rows("CREATE TABLE kept AS SELECT 1 AS one")
        assert session.rows(QUERY) == expected
        session.rows("COMMIT")
        assert session.rows("SELECT one FROM kept") == [(1,)]
        for sql in ("SELECT * FROM trimtab_sections", "SELECT trimtab_export()", "SELECT * FROM trimtab_status()"):
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
                session.rows(sql)
            said = caught.value.diag
            assert str(said.message_primary).startswith("trimtab learns nothing in this session, for want of memory: ")
            assert str(said.message_hint).startswith("Statements run as without it. Add trimtab to")
        log = (server.folder / "server.log").read_text()
        assert log.count("LOG:  trimtab learns nothing in this session, for want of memory: ") == 1


def test_statements_that_fail_in_a_probe_are_not_probed_so_again() -> None:
    """Cancelled, or with an error that depends on a setting: the session goes on with its own values."""
    with engine("18", cost="base=100;work_mem=65536:0.5") as (_, session):
        fails = "SELECT count(*), sum(1 / (CASE WHEN current_setting('work_mem') = '4MB' THEN 1 ELSE 0 END)) FROM t GROUP BY k"
        failed = 0
        for _ in range(80):
            try:
                session.rows(fails)
            except psycopg.errors.DivisionByZero:
                failed += 1
        assert 1 <= failed <= 8, "each setting that fails is tried once"
        assert session.value("SHOW work_mem") == "4MB"
        found = session.classes()[0]
        assert "work_mem" not in found["settings"]
        assert failed == session.value("SELECT count(*) FROM trimtab_history WHERE event = 'probe failed'")
