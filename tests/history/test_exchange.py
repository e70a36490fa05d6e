"""Import and merge: whole or not at all, known studies recognised, none overwritten."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.commands import start_script
from tests.history.samples import make_trial, study_values
from tests.needs import require
from trimtab import plugins
from trimtab.errors import HistoryError, UsageError
from trimtab.history import (
    Event,
    History,
    Imported,
    StudyCopy,
    StudyRecord,
    digest,
    export_studies,
    import_file,
    load_format,
    merge,
    take_in,
)
from trimtab.history.exchange import _origin
from trimtab.history.formats.csv import CsvFormat
from trimtab.records import Verdict


def copy_of(name: str = "tpch", n_trials: int = 2, **changes: Any) -> StudyCopy:
    measurement = make_trial(0).measurement
    assert measurement is not None
    record = StudyRecord(**{**study_values(name=name), "id": 0, "status": "proven", "verdict": Verdict(), **changes})
    trials = [make_trial(i, measurement=replace(measurement, histogram=b"")) for i in range(n_trials)]
    return StudyCopy(record, trials, [Event("warning", "slow", 2.0)])


def exported(path: Path, *copies: StudyCopy) -> str:
    load_format("jsonl", "").write(copies, str(path))
    return str(path)


def names(history: History) -> list[str]:
    return [study.name for study in history.summaries()]


def take(history: History, place: str) -> list[str | None]:
    return [arrival.kept_as for arrival in import_file(history, load_format(None, place), place).studies]


def test_an_import_keeps_everything(history: History, tmp_path: Path) -> None:
    copy = copy_of()
    assert take(history, exported(tmp_path / "colleague.jsonl", copy)) == ["tpch"]
    found = history.copy(history.summaries()[0].id)
    assert found.record == replace(copy.record, id=found.record.id, origin="colleague.jsonl")
    assert repr(found.trials) == repr(list(copy.trials))
    assert found.events == copy.events


def test_what_is_known_is_left_out(history: History, tmp_path: Path) -> None:
    place = exported(tmp_path / "a.jsonl", copy_of(), copy_of("other", created_at=5.0), copy_of())
    assert take(history, place) == ["tpch", "other", None]
    assert take(history, place) == [None, None, None]
    renamed = exported(tmp_path / "b.jsonl", copy_of("another-name"))
    assert take(history, renamed) == [None]
    assert names(history) == ["tpch", "other"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "other",
    [
        copy_of(n_trials=3),
        copy_of(status="interrupted"),
        copy_of(created_at=1.7e9 + 1e-6),
        copy_of(objective="latency_p95"),
        copy_of(verdict=Verdict(result="better")),
        replace(copy_of(), events=[]),
        replace(copy_of(), trials=[make_trial(0, measurement=None), make_trial(1)]),
    ],
)
def test_a_name_that_is_taken_is_not_taken_again(history: History, tmp_path: Path, other: StudyCopy) -> None:
    take(history, exported(tmp_path / "a.jsonl", copy_of()))
    if other.trials[-1].measurement is not None and other.trials[-1].measurement.histogram:
        measurement = replace(other.trials[-1].measurement, histogram=b"")
        other = replace(other, trials=[other.trials[0], replace(other.trials[1], measurement=measurement)])
    assert take(history, exported(tmp_path / "b.jsonl", other)) == ["tpch-2"]
    assert names(history) == ["tpch", "tpch-2"]
    assert digest(history.copy(history.summaries()[0].id)) == digest(copy_of())
    assert digest(history.copy(history.summaries()[1].id)) == digest(other)


@pytest.mark.parametrize("table", ["trimtab_study", "trimtab_trial", "trimtab_event"])
def test_a_damaged_study_is_brought_back_by_its_copy(url: str, tmp_path: Path, table: str) -> None:
    """It began when the copy did, and cannot be compared with it."""
    place = exported(tmp_path / "saved.jsonl", copy_of())
    with History.open(url) as history:
        take(history, place)
        with history._writer.begin() as connection:
            connection.exec_driver_sql(f"update {table} set body = '{{'")
        assert take(history, place) == ["tpch-2"]
        assert repr(history.trials(history.summaries()[-1].id)) == repr(list(copy_of().trials))
        assert take(history, place) == [None]


def test_studies_of_one_name_share_the_new_one(history: History, tmp_path: Path) -> None:
    history.create_study(**study_values())
    place = exported(tmp_path / "a.jsonl", copy_of(), copy_of(n_trials=3), copy_of("tpch-2", created_at=1.0))
    assert take(history, place) == ["tpch-2", "tpch-2", "tpch-2-2"]


def test_an_imported_study_is_not_resumed(history: History, tmp_path: Path) -> None:
    take(history, exported(tmp_path / "a.jsonl", copy_of()))
    assert history.find_study("tpch") is not None
    assert history.find_study("tpch", is_own=True) is None


def test_a_round_trip_changes_no_digest(history: History, tmp_path: Path) -> None:
    take(history, exported(tmp_path / "a.jsonl", copy_of()))
    for name in ("parquet", "taudb", "jsonl"):
        place = str(tmp_path / f"again-{name}")
        export_studies(history, [history.summaries()[0].id], load_format(name, ""), place)
        (found,) = load_format(name, "").read(place).studies
        assert digest(found) == digest(copy_of())


def test_a_format_that_is_broken_keeps_nobody_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(group: Any, name: str) -> Any:
        if name == "absent":
            raise UsageError("the plug-in 'absent' of formats cannot be loaded: No module named 'gone'")
        return {"blunt": object, "csv": CsvFormat}[name]

    monkeypatch.setattr(plugins, "names", lambda group: ("absent", "blunt", "csv"))
    monkeypatch.setattr(plugins, "load", load)
    assert type(load_format(None, "a.csv")) is CsvFormat
    with pytest.raises(UsageError, match=r"the format of 'a\.txt' cannot be recognised from its name") as said:
        load_format(None, "a.txt")
    whole, absent, blunt = str(said.value.hint).split("; left out: ")
    assert whole.startswith("give a name that ends in one of: .csv; ")
    assert absent == "the plug-in 'absent' of formats cannot be loaded: No module named 'gone'"
    assert blunt.startswith("'blunt' of formats cannot be made: AttributeError(")


def test_a_place_that_cannot_be_written(history: History, tmp_path: Path) -> None:
    study = history.create_study(**study_values())
    with pytest.raises(HistoryError, match=r"cannot write '.*/none/x': No such file or directory\nhint: give a path"):
        export_studies(history, [study.id], load_format("csv", ""), str(tmp_path / "none" / "x"))
    with pytest.raises(HistoryError, match="has no study_id=99"):
        export_studies(history, [99], load_format("csv", ""), str(tmp_path / "x"))


class _Meeting:
    """Studies of a file that two read at once: each goes on when the other has come as far, or does not come."""

    def __init__(self) -> None:
        self._both = threading.Barrier(2)

    def studies(self) -> Iterator[StudyCopy]:
        with suppress(threading.BrokenBarrierError):
            self._both.wait(0.3)
        yield copy_of()


@pytest.mark.parametrize("is_shared", [True, False], ids=["one history object", "two, as of two processes"])
def test_of_two_imports_of_one_file_at_once_one_keeps_it(url: str, is_shared: bool) -> None:
    meeting = _Meeting()
    with History.open(url) as first, History.open(url) as other, ThreadPoolExecutor(2) as threads:
        of_two = (first, first if is_shared else other)
        runs = [threads.submit(take_in, each, Imported(meeting.studies()), "a.jsonl") for each in of_two]
        kept = [run.result(20).studies[0].kept_as for run in runs]
        assert names(first) == ["tpch"]
        assert sorted(kept, key=str) == [None, "tpch"]


def test_while_studies_are_taken_in_others_go_on_measuring(url: str, tmp_path: Path) -> None:
    with History.open(url) as history, History.open(url) as other:
        study = other.create_study(**study_values())
        with history.importing():
            assert other.hold(study.id)
            other.add_trial(study.id, make_trial(0))
            other.let_go(study.id)
        assert take(other, exported(tmp_path / "a.jsonl", copy_of("second"))) == ["second"]


@pytest.mark.service
def test_limits_of_the_server_end_neither_a_hold_nor_the_wait_for_an_import(database: str) -> None:
    """Many servers end what is idle, or takes long."""
    with History.open(database) as history:
        study = history.create_study(**study_values())
    with psycopg.connect(database, autocommit=True) as admin:
        for limit in ("idle_session_timeout", "lock_timeout", "statement_timeout"):
            admin.execute(f"alter database {database.rpartition('/')[2]} set {limit} = '700ms'")
    with History.open(database) as first, History.open(database) as other, ThreadPoolExecutor(1) as threads:
        assert first.hold(study.id)
        with first.importing():
            waiting = threads.submit(take_in, other, Imported([copy_of()]), "a.jsonl")
            time.sleep(1.5)
            assert not waiting.done()
        assert waiting.result(20).studies[0].kept_as == "tpch-2"
        assert not other.hold(study.id)


def test_an_import_that_fails_lets_the_next_one_in(url: str, tmp_path: Path) -> None:
    def broken() -> Iterator[StudyCopy]:
        yield copy_of()
        raise HistoryError("the file ends here")

    with History.open(url) as history, History.open(url) as other:
        with pytest.raises(HistoryError, match="the file ends here"):
            take_in(history, Imported(broken()), "a.jsonl")
        for each in (history, other):
            take(each, exported(tmp_path / "a.jsonl", copy_of()))
        assert names(history) == ["tpch"]


IMPORTER = """
import sys, time
from trimtab.history import History, Imported, import_file, load_format
from trimtab.history import store

real = store.rows.trial_values
place = sys.argv[2]
with History.open(sys.argv[1]) as history:
    engine = history._writer
    from sqlalchemy import event
    def slow(connection, cursor, statement, *rest):
        if statement.lower().startswith("insert into trimtab_event"):
            print("half way", flush=True)
            time.sleep(60)
    event.listen(history._engine, "before_cursor_execute", slow)
    import_file(history, load_format(None, place), place)
"""


def test_a_killed_import_leaves_nothing(url: str, tmp_path: Path) -> None:
    """Killed after a whole study and all trials of the next have gone into the transaction."""
    place = exported(
        tmp_path / "a.jsonl", replace(copy_of(), events=[]), copy_of("second", n_trials=50, created_at=1.0)
    )
    with History.open(url) as history:
        history.create_study(**study_values(name="own"))
    with start_script(IMPORTER, url, place) as importer:
        assert importer.stdout is not None
        assert importer.stdout.readline() == "half way\n"
        importer.send_signal(signal.SIGKILL)
    with History.open(url) as history:
        deadline = time.monotonic() + 60
        assert names(history) == ["own"]
        assert take(history, place) == ["tpch", "second"]
        assert time.monotonic() < deadline
        assert [study.n_trials for study in history.summaries()] == [0, 2, 50]


def test_histories_are_merged(url: str, tmp_path: Path) -> None:
    with History.open(tmp_path / "other.db") as other:
        for name in ("tpch", "shop", "tpch"):
            study = other.create_study(**study_values(name=name, created_at=float(len(name) + len(other.summaries()))))
            other.add_trial(study.id, copy_of().trials[0])
            other.add_event(study.id, "resume", "again", 3.0)
    before = (tmp_path / "other.db").read_bytes()
    with History.open(url) as history:
        history.create_study(**study_values(name="shop"))
        arrivals = merge(history, str(tmp_path / "other.db"))
        assert [arrival.kept_as for arrival in arrivals.studies] == ["tpch", "shop-2", "tpch"]
        assert [arrival.kept_as for arrival in merge(history, str(tmp_path / "other.db")).studies] == [None] * 3
        assert [study.n_trials for study in history.summaries()] == [0, 1, 1, 1]
        assert {study.origin for study in history.summaries()[1:]} == {"other.db"}
    assert (tmp_path / "other.db").read_bytes() == before


@pytest.mark.service
def test_a_history_in_postgresql_is_merged_into_a_file(database: str, tmp_path: Path) -> None:
    with History.open(database) as other:
        study = other.create_study(**study_values())
        other.add_trial(study.id, copy_of().trials[0])
    with History.open(tmp_path / "h.db") as history:
        assert [arrival.kept_as for arrival in merge(history, database).studies] == ["tpch"]
        assert history.summaries()[0].origin == database.rpartition("/")[2]


@pytest.mark.parametrize("content", [None, b"", b"no database at all" * 100])
def test_what_is_no_history_is_not_merged(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "other.db").write_bytes(content)
    with History.open(tmp_path / "h.db") as history:
        with pytest.raises(
            HistoryError, match=r"there is no history='.*other\.db'|cannot be used: file is not a database"
        ):
            merge(history, str(tmp_path / "other.db"))
        assert names(history) == []


def test_a_disk_that_is_too_small_for_the_copy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("mounts")
    small = tmp_path / "small"
    small.mkdir()
    History.open(tmp_path / "other.db").close()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], check=True)
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(small))
        told = rf"other.db' cannot be read from a copy in {small}: database or disk is full\nhint: make room there"
        with History.open(tmp_path / "h.db") as history, pytest.raises(HistoryError, match=told):
            merge(history, str(tmp_path / "other.db"))
    finally:
        subprocess.run(["umount", small], check=True)


def test_what_cannot_be_merged_is_named_as_it_was_given(tmp_path: Path) -> None:
    """It is read from a copy, which nobody knows."""
    with History.open(tmp_path / "other.db") as other:
        other.create_study(**study_values())
        with other._writer.begin() as connection:
            connection.exec_driver_sql("update trimtab_study set body = '{'")
    with History.open(tmp_path / "h.db") as history, pytest.raises(HistoryError) as caught:
        merge(history, str(tmp_path / "other.db"))
    assert caught.value.message.startswith(f"history={str(tmp_path / 'other.db')!r} has a row that cannot be read: ")


@pytest.mark.parametrize(
    ("place", "origin"),
    [
        ("postgresql://tuner:s3cret@host:5432", "host"),
        ("postgresql://tuner:s3cret@host/studies?password=s3cret", "studies"),
        ("sqlite:////home/me/theirs.db", "theirs.db"),
        ("/home/me/theirs.jsonl", "theirs.jsonl"),
    ],
)
def test_where_a_study_came_from_holds_no_password(place: str, origin: str) -> None:
    assert _origin(place) == origin
