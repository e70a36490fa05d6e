"""What several backends do at once with one class, several builds with one block of memory, and two servers with one file."""

from __future__ import annotations

import shutil
import threading

import psycopg
import pytest

from tests.engine.conftest import OWN, QUERY, Session, engine, library, script, waiting
from tests.servers import new_folder
from tests.servers.postgresql import Server

pytestmark = [pytest.mark.service, pytest.mark.needs("c-compiler", "postgresql-embedded")]

N_FIRST = 3
"""Executions of each backend that are of no class yet."""


def test_two_backends_probe_one_class_at_once(tuned: tuple[Server, Session], session: Session) -> None:
    """Each execution is counted once, each answer is right, and what both lost together is within the budget."""
    n, n_backends = 150, 3
    session.rows("SET trimtab.mode = off")
    expected = session.rows(QUERY)
    gate = threading.Barrier(n_backends)
    wrong: list[object] = []

    def work() -> None:
        with tuned[0].admin() as connection:
            mine = Session(connection)
            mine.tune()
            gate.wait(30)
            for _ in range(n):
                answer = mine.rows(QUERY)
                if answer != expected or mine.connection.info.transaction_status != 0:
                    wrong.append(answer)
            if mine.value("SHOW work_mem") != "4MB":
                wrong.append("work_mem")

    threads = [threading.Thread(target=work) for _ in range(n_backends)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    (found,) = (row for row in session.classes() if row["calls"] > 20)
    assert found["calls"] == n_backends * (n - N_FIRST)
    assert found["settings"] == "work_mem=65536"
    (told,) = session.rows("SELECT count(*) FROM trimtab_history WHERE event = 'probe'")
    assert told == (found["probes"],)
    assert found["loss_ms"] <= 0.02 * found["total_ms"] + 0.25 * found["gained_ms"] + 100
    status = session.rows("SELECT memory_kb, total_ms, loss_ms, gained_ms FROM trimtab_status()")[0]
    accounts = [sum(row[name] for row in session.classes()) for name in ("total_ms", "loss_ms", "gained_ms")]
    assert status == (0, *(pytest.approx(each, rel=1e-6) for each in accounts))


def test_a_probe_that_is_under_way_is_not_made_by_another_backend(
    tuned: tuple[Server, Session], session: Session
) -> None:
    """One backend stands still in a probe: the others go on with what is known, until it is told or has failed."""
    with tuned[0].admin() as connection:
        busy = Session(connection)
        busy.tune("base=100;work_mem=65536:0.5;wait=searching")
        with waiting(tuned[0], busy, OWN):
            before = session.learn(OWN, N_FIRST)
            after = session.learn(OWN, 40)
            assert after["calls"] == before["calls"] + 40
            assert after["probes"] == before["probes"] == 0
            assert {row[0] for row in session.rows(OWN)} == {"4MB"}
        events = [row[0] for row in session.rows("SELECT event FROM trimtab_history ORDER BY at")]
        assert events.count("probe failed") == 1, "it was cancelled"
        assert session.value("SELECT memory_kb FROM trimtab_status()") == 0
    assert session.learn(OWN)["settings"] == "work_mem=65536"


def test_a_block_of_another_version_is_not_read() -> None:
    """A library of the same name and size that means something else: statements run as without us, and the views say why."""
    with engine("18", preload=False) as (server, session), server.admin() as connection:
        expected = session.rows(QUERY)
        calls = session.learn(n=20)["calls"]
        other = library("18", "other", ("-O0", "-g0", "-DTRIMTAB_MAGIC=0x54724d55"))
        stranger = Session(connection)
        stranger.rows(f"LOAD '{other}'")
        stranger.tune()
        for _ in range(20):
            assert stranger.rows(QUERY) == expected
        assert stranger.rows(f"EXPLAIN {QUERY}")[-1][0].startswith("Trimtab") is False
        stranger.rows(f"CREATE SCHEMA other; SET search_path = other, public; {script(other)}")
        for sql in (
            "SELECT * FROM trimtab_sections", "SELECT * FROM trimtab_history", "SELECT * FROM trimtab_status()",
            "SELECT trimtab_export()", "SELECT trimtab_reset()", "SELECT trimtab_pin(1, '')", "SELECT trimtab_forget(1)",
            "SELECT trimtab_save()",
        ):  # fmt: skip
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
                stranger.rows(sql)
            assert caught.value.diag.message_primary == "the shared memory of trimtab is another version's"
            assert caught.value.diag.message_hint == "Restart the server."
        assert session.classes()[0]["calls"] == calls


def test_two_running_servers_with_one_file() -> None:
    """The file is the first one's; the second says so and learns all the same, for itself."""
    folder = new_folder("shared")
    path = folder / "knowledge"
    folder.chmod(0o777)
    settings = f"trimtab.file = '{path}'\n"
    try:
        with engine("18", settings) as (_, first):
            first.learn(n=20)
            assert first.value("SELECT trimtab_save()") is True
            content = path.read_bytes()
            with engine("18", settings) as (server, second):
                said = f"file={path} belongs to another server"
                assert second.value("SELECT file_problem FROM trimtab_status()") == said
                assert second.classes() == []
                assert second.learn(OWN)["settings"] == "work_mem=65536"
                assert second.value("SELECT trimtab_save()") is False
                server.control("restart")
                log = (server.folder / "server.log").read_text()
                assert f"LOG:  trimtab: {said}" in log
                assert "HINT:  Give each server a trimtab.file of its own" in log
            assert path.read_bytes() == content, "neither at a save nor at the other's end"
            first.learn(n=20)
            assert first.rows("SELECT trimtab_save(), (SELECT file_problem FROM trimtab_status())") == [(True, "")]
            assert path.read_bytes() != content
    finally:
        shutil.rmtree(folder, ignore_errors=True)
