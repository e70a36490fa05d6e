"""A history under kill -9, under two writers, and after damage."""

from __future__ import annotations

import os
import signal
import sqlite3
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import event

from tests.commands import start_script
from tests.history.samples import make_trial, study_values
from trimtab.errors import HistoryError
from trimtab.history import History, UnusableError
from trimtab.history.prepare import _write_ahead

ROOT = Path(__file__).parents[2]

WRITER = """
import sys
from tests.history.samples import make_trial
from trimtab.history import History

url, study_id, first, step, n = sys.argv[1], *map(int, sys.argv[2:])
history = History.open(url)
print("open", flush=True)
for i in range(n):
    number = first + i * step
    history.add_trial(study_id, make_trial(number))
    print(number, flush=True)
"""

OPENER = """
import sys
from tests.history.samples import study_values
from trimtab.history import History

sys.stdin.readline()
with History.open(sys.argv[1]) as history:
    history.create_study(**study_values(name=sys.argv[2]))
"""


@pytest.mark.slow  # in make check: test_sqlite_is_synced_on_every_commit
def test_what_was_committed_survives_kill_9(url: str) -> None:
    with History.open(url) as history:
        study = history.create_study(**study_values())
    with start_script(WRITER, url, study.id, 0, 1, 100_000) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline().strip() for _ in range(25)]
        writer.send_signal(signal.SIGKILL)
        told += [line.strip() for line in writer.stdout if line.endswith("\n")]
    committed = [int(line) for line in told if line != "open"]
    with History.open(url) as history:
        found = history.trials(study.id)
        assert [trial.number for trial in found][: len(committed)] == committed
        # At most the trial in flight is there beyond what the writer was told to be safe.
        assert len(committed) <= len(found) <= len(committed) + 1
        assert {repr(trial) for trial in found} == {repr(make_trial(number)) for number in range(len(found))}
        history.add_trial(study.id, make_trial(len(found)))


@pytest.mark.slow
def test_two_processes_write_at_once(url: str) -> None:
    with History.open(url) as history:
        study = history.create_study(**study_values())
    with start_script(WRITER, url, study.id, 0, 2, 50) as even, start_script(WRITER, url, study.id, 1, 2, 50) as odd:
        even.communicate(timeout=120)
        odd.communicate(timeout=120)
    assert (even.returncode, odd.returncode) == (0, 0)
    with History.open(url) as history:
        assert [trial.number for trial in history.trials(study.id)] == list(range(100))


@pytest.mark.slow
def test_several_processes_make_one_history(url: str) -> None:
    names = [f"study{i}" for i in range(3)]
    openers = [start_script(OPENER, url, name) for name in names]
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("go\n")
        opener.stdin.flush()
    for opener in openers:
        opener.communicate(timeout=120)
    assert [opener.returncode for opener in openers] == [0, 0, 0]
    with History.open(url) as history:
        assert sorted(study.name for study in history.studies()) == names


class _Busy:
    """A connection on which another process is at the file for so many tries."""

    def __init__(self, n_tries: int, code: int = sqlite3.SQLITE_BUSY_RECOVERY) -> None:
        self.n_left, self.code = n_tries, code
        self.close = lambda: None

    def cursor(self) -> _Busy:
        return self

    def execute(self, statement: str) -> None:
        assert statement == "PRAGMA journal_mode=WAL"
        if self.n_left:
            self.n_left -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = self.code
            raise error


def test_a_history_that_another_process_makes_at_the_moment_is_waited_for() -> None:
    """SQLite itself does not wait when two turn write-ahead logging on at once."""
    connection = _Busy(3)
    engine: Any = SimpleNamespace(raw_connection=lambda: connection)
    _write_ahead(engine, "'h.db'")
    assert connection.n_left == 0


def test_what_is_no_other_process_is_told_at_once() -> None:
    connection = _Busy(3, sqlite3.SQLITE_CANTOPEN)
    engine: Any = SimpleNamespace(raw_connection=lambda: connection)
    with pytest.raises(HistoryError, match="history='h.db' cannot be used: database is locked"):
        _write_ahead(engine, "'h.db'")
    assert connection.n_left == 2


def test_sqlite_is_synced_on_every_commit(tmp_path: Path) -> None:
    """A commit that is only in the page cache would be lost with the power: every connection must have FULL and WAL."""
    seen: set[tuple[object, object]] = set()
    with History.open(tmp_path / "h.db") as history:
        study = history.create_study(**study_values())

        def look(connection: object, cursor: sqlite3.Cursor, *_: object) -> None:
            other = cursor.connection.cursor()
            pragmas = (other.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode"))
            seen.add(tuple(pragmas))

        event.listen(history._writer, "before_cursor_execute", look)
        history.add_trial(study.id, make_trial(0))
    assert seen == {(2, "wal")}


def test_a_connection_that_did_not_wait_for_the_disk_waits_again(tmp_path: Path) -> None:
    seen: list[int] = []
    with History.open(tmp_path / "h.db") as history:
        study = history.create_study(**study_values())

        def look(connection: object, cursor: sqlite3.Cursor, *_: object) -> None:
            seen.append(cursor.connection.execute("PRAGMA synchronous").fetchone()[0])

        for writer in (history._writer, history._quick_writer):
            event.listen(writer, "after_cursor_execute", look)
        for number, is_synced in enumerate((False, False, True, False, True)):
            seen.clear()
            history.add_many([(study.id, make_trial(number))], [], is_synced=is_synced)
            assert seen[-1] == (2 if is_synced else 1)


@pytest.mark.service
def test_postgresql_is_synced_although_its_default_is_not(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        name = database.rpartition("/")[2]
        connection.execute(f"alter database {name} set synchronous_commit = off")
    with History.open(database) as history, history._engine.connect() as connection:
        assert connection.exec_driver_sql("show synchronous_commit").scalar() == "on"


def filled(path: Path) -> bytes:
    """A sound history file with some pages, in one file; its bytes."""
    with History.open(path) as history:
        study = history.create_study(**study_values())
        for number in range(30):
            history.add_trial(study.id, make_trial(number, reason="x" * 3000))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.read_bytes()


def test_a_damaged_file_is_reported_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    content = filled(path)
    # Every page but the first few is overwritten, as a torn copy would.
    damaged = content[:16384] + b"\xa5" * (len(content) - 16384)
    path.write_bytes(damaged)
    with pytest.raises(HistoryError, match=r"h\.db' is damaged: (?s:.*)\nhint: nothing was changed; restore a copy"):
        History.open(path)
    assert path.read_bytes() == damaged


def test_a_cut_file_is_reported_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    cut = filled(path)[: 4096 * 5 + 100]
    path.write_bytes(cut)
    with pytest.raises(HistoryError, match=r"h\.db' (is damaged|cannot be used: .*malformed)"):
        History.open(path)
    assert path.read_bytes() == cut


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all, but rather long " * 50)
    with pytest.raises(HistoryError, match="cannot be used: file is not a database\nhint: nothing was replaced"):
        History.open(path)
    assert path.read_text().startswith("not a database at all")


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table photos (id integer)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(
        HistoryError, match="is a database of another program: tables=photos\nhint: nothing was changed"
    ):
        History.open(path)
    assert path.read_bytes() == before


def change_version(url: str, version: str) -> None:
    with History.open(url) as history, history._writer.begin() as connection:
        connection.exec_driver_sql(f"update trimtab_meta set value = '{version}'")


def test_a_newer_history_is_refused(url: str) -> None:
    change_version(url, "3")
    with pytest.raises(HistoryError, match="has schema_version=3, this Trimtab knows schema_version=2\nhint: upgrade"):
        History.open(url)


def test_a_history_from_before_the_first_release_is_refused_and_left_alone(url: str) -> None:
    change_version(url, "1")
    text = "has schema_version=1, this Trimtab knows schema_version=2\nhint: it was written before the first release"
    for _ in range(2):
        with pytest.raises(HistoryError, match=text):
            History.open(url)


def test_a_version_that_is_no_number_is_refused(url: str) -> None:
    change_version(url, "one")
    with pytest.raises(HistoryError, match="has schema_version='one'\nhint: it is damaged"):
        History.open(url)


def test_a_row_that_cannot_be_read_is_an_error(history: History) -> None:
    study = history.create_study(**study_values())
    history.add_trial(study.id, make_trial(0))
    with history._writer.begin() as connection:
        connection.exec_driver_sql("update trimtab_trial set body = '{\"number\": 0}'")
    with pytest.raises(HistoryError, match="has a row that cannot be read: 'role'\nhint: it is damaged"):
        history.trials(study.id)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        HistoryError, match=r"cannot make the directory of the history: directory='.*file/sub'.*\nhint:"
    ):
        History.open(tmp_path / "file" / "sub" / "h.db")


UNPRIVILEGED = """
import os, sys
from trimtab.errors import HistoryError
from trimtab.history import History

History.open("sqlite://").close()  # what it imports may be out of reach afterwards
if os.geteuid() == 0:
    os.setuid(65534)  # root may write everywhere
try:
    History.open(sys.argv[1])
except HistoryError as error:
    print(error)
"""


def test_a_directory_without_permission_is_named() -> None:
    with tempfile.TemporaryDirectory(prefix="tthist") as directory:
        os.chmod(directory, 0o555)
        with start_script(UNPRIVILEGED, f"{directory}/h.db") as reader:
            told, _ = reader.communicate(timeout=120)
    assert "h.db' cannot be used: unable to open database file\nhint: give a path that you may write to" in told


def test_a_url_that_cannot_be_read_does_not_show_its_password() -> None:
    with pytest.raises(HistoryError, match="cannot read the history's URL\nhint: write it as postgresql://") as caught:
        History.open("postgresql://me:hunter2@host:port/x")
    assert "hunter2" not in str(caught.value)


def test_a_url_of_another_system_is_refused() -> None:
    with pytest.raises(
        HistoryError, match=r"history=mysql://me:\*\*\*@host/x is of an unknown kind\nhint: give a file"
    ):
        History.open("mysql://me:hunter2@host/x")


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(
        HistoryError, match=r"postgresql://me:\*\*\*@127.0.0.1:1/x cannot be used: (?s:.*)\nhint: check"
    ):
        History.open("postgresql://me:hunter2@127.0.0.1:1/x")


def test_a_history_whose_connections_are_all_in_use_is_no_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its server is out of reach and many wait for it: it passes, and clients send their reports again."""
    with History.open(tmp_path / "h.db") as history, ExitStack() as others:
        monkeypatch.setattr(history._engine.pool, "_timeout", 0.01)
        for _ in range(15):
            others.enter_context(history._engine.connect())
        with pytest.raises(UnusableError, match="cannot be used: all connections to it are in use"):
            history.summaries()


def test_the_directory_is_made(tmp_path: Path) -> None:
    with History.open(tmp_path / "a" / "b" / "h.db") as history:
        assert history.studies() == []
    with History.open(f"sqlite:///{tmp_path}/a/b/h.db") as history:
        assert history.studies() == []
