"""The extension after a crash, and with files that it must not use: the statements run as without it, and a message says why."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest

from tests.engine.conftest import QUERY, Session, engine, library
from tests.servers.postgresql import Server

pytestmark = [pytest.mark.service, pytest.mark.needs("c-compiler", "postgresql-embedded")]

FILE = "pg_stat/trimtab.knowledge"


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
        (lambda content: content[:16] + b"\x07" * 4 + content[20:], "belongs to another server", False),
        (lambda content: b"something else", "is not a file of trimtab, or is damaged", False),
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
            if is_kept:
                assert session.value("SELECT trimtab_save()") is False
                assert path.read_bytes() == bad, "what may be another's is not overwritten"
        log = (learnt.folder / "server.log").read_text()
        assert f"trimtab: file={FILE} {said}" in log
    finally:
        path.write_bytes(good)


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
        session.rows("SET trimtab.file = 'no-such-folder/knowledge'")
        assert session.value("SELECT trimtab_save()") is False
        assert "cannot be written" in session.value("SELECT file_problem FROM trimtab_status()")


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
