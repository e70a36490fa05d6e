"""Keeper: what is kept survives the process at once, and a loss of power a moment later."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.history.samples import study_values
from trimtab.errors import HistoryError, InternalError
from trimtab.history import Event, History, RefusedError, UnusableError
from trimtab.records import Context, Role, Status, Trial, Verdict
from trimtab.session import Keeper
from trimtab.session.keeper import Failed
from trimtab.space import Config


class Disk:
    """Takes what a history does; the first sync fails."""

    def __init__(self) -> None:
        self.kept: list[tuple[list[Any], bool]] = []
        self.n_syncs = 0
        self.cursed = 0
        self.curse: Exception = TypeError("what nobody foresaw")
        self.synced, self.go, self.wrote = threading.Event(), threading.Event(), threading.Event()
        self.go.set()

    def add_many(self, trials: Any, events: Any, endings: Any, *, is_synced: bool) -> None:
        self.go.wait()
        if any(study_id == self.cursed for study_id, _ in events):
            raise self.curse
        self.kept.append((list(events), is_synced))
        self.wrote.set()

    def events(self, study_id: int, *, newest: int) -> list[Event]:
        found = [event for events, _ in self.kept for each, event in events if each == study_id]
        return found[-newest:]

    def sync(self) -> None:
        self.n_syncs += 1
        if self.n_syncs == 1:
            raise HistoryError("the disk is full")
        self.synced.set()


def writing() -> tuple[Disk, Keeper, Future[Failed]]:
    """A keeper in the middle of a commit, which ends when the disk may `go`."""
    disk = Disk()
    keeper = Keeper(disk, 3600.0)  # type: ignore[arg-type]
    disk.go.clear()
    keeper.add(1, Event("asked", "1", 0.0))
    first = keeper.flush()
    while not keeper._is_writing:
        first.running()
    return disk, keeper, first


@pytest.mark.parametrize("sync_s", [0.0, 0.001])
def test_the_disk_is_asked_once_for_many(sync_s: float) -> None:
    disk = Disk()
    keeper = Keeper(disk, sync_s)  # type: ignore[arg-type]
    keeper.add(1, Event("asked", "1", 0.0))
    keeper.wait()
    assert disk.kept == [([(1, Event("asked", "1", 0.0))], sync_s == 0)]
    if sync_s:
        assert disk.synced.wait(60), "a disk that refused is asked again"
    keeper.close()
    assert (disk.n_syncs > 0) == (sync_s > 0)


def test_what_is_being_written_is_waited_for() -> None:
    disk, keeper, _ = writing()
    second = keeper.flush()  # nothing is in the queue, and nothing is kept yet
    assert not second.done()
    disk.go.set()
    second.result()
    assert len(disk.kept) == 1
    keeper.close()


def test_who_asks_before_it_is_written_waits_for_the_same_commit() -> None:
    disk, keeper, first = writing()
    keeper.add(2, Event("asked", "2", 0.0))
    second, third = keeper.flush(), keeper.flush()
    assert second is third
    assert second is not first
    disk.go.set()
    assert (first.result(), second.result()) == ({}, {})
    assert [len(events) for events, _ in disk.kept] == [1, 1]
    assert keeper.flush().done(), "nothing is left to write"
    keeper.close()


def test_what_nobody_waits_for_is_written_all_the_same() -> None:
    disk = Disk()
    keeper = Keeper(disk, 0.0)  # type: ignore[arg-type]
    for number in range(3):
        disk.wrote.clear()
        while not keeper._is_asleep:
            pass
        keeper.add(1, Event("asked", str(number), 0.0))
        assert disk.wrote.wait(60)
        assert len(disk.kept) == number + 1
    keeper.close()


def test_an_error_that_nobody_foresaw_is_told_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    keeper = Keeper(disk, 0.0)  # type: ignore[arg-type]
    disk.cursed = 1
    keeper.add(1, Event("asked", "1", 0.0))
    keeper.add(2, Event("asked", "2", 0.0))
    with pytest.raises(
        InternalError, match="what was reported of study_id=1 cannot be kept: TypeError: what nobody foresaw"
    ):
        keeper.wait(1)
    assert "rows of study_id=1 cannot be written" in caplog.text
    keeper.add(2, Event("asked", "3", 0.0))
    keeper.wait(2)  # others go on
    kept = [event for events, _ in disk.kept for study_id, event in events if study_id == 2]
    assert [event.text for event in kept] == ["2", "3"]
    disk.cursed = 0
    keeper.wait()
    assert [event.text for events, _ in disk.kept for study_id, event in events if study_id == 1] == ["1"]
    keeper.close()


def test_a_row_that_cannot_be_stored_keeps_nobody_elses_back() -> None:
    disk = Disk()
    keeper = Keeper(disk, 0.0)  # type: ignore[arg-type]
    disk.cursed, disk.curse = 1, HistoryError("cannot store a value in the history")
    keeper.add(1, Event("asked", "1", 0.0))
    keeper.add(2, Event("asked", "2", 0.0))
    with pytest.raises(HistoryError, match="cannot store a value"):
        keeper.wait(1)
    keeper.wait(2)
    assert [event.text for events, _ in disk.kept for _, event in events] == ["2"]
    disk.cursed = 0
    keeper.close()


def test_a_disk_that_is_full_is_asked_once_for_all_studies() -> None:
    disk = Disk()
    keeper = Keeper(disk, 0.0)  # type: ignore[arg-type]
    disk.cursed, disk.curse = 1, UnusableError("the disk is full")
    keeper.add(1, Event("asked", "1", 0.0))
    keeper.add(2, Event("asked", "2", 0.0))
    failed = keeper.flush().result()
    assert set(failed) == {1, 2}
    disk.cursed = 0
    keeper.wait()
    keeper.close()


def trial(number: int) -> Trial:
    return Trial(number=number, role=Role.SEARCH, config=Config({"x": 1}), context=Context("w", 1), status=Status.OK)


class Deaf(History):
    """A history whose first commits are made, and their answers lost."""

    n_lost = 0

    def add_many(self, *rows: Any, **how: Any) -> None:
        super().add_many(*rows, **how)
        if self.n_lost > 0:
            self.n_lost -= 1
            raise UnusableError("the connection was lost")


@pytest.mark.parametrize("n_lost", [1, 2])
def test_a_commit_whose_answer_was_lost_is_not_made_again(tmp_path: Path, n_lost: int) -> None:
    values = study_values()
    with Deaf.open(tmp_path / "history.db") as history:
        study_id, other = (history.create_study(**values).id for _ in range(2))
        keeper = Keeper(history, 0.0)
        keeper.linger_s = 3600.0
        keeper.add(study_id, Event("asked", "0", 1.0))
        keeper.wait()
        history.n_lost = n_lost  # type: ignore[attr-defined]
        keeper.add(study_id, trial(0), Event("told", "0", 2.0))
        keeper.add(other, Event("asked", "0", 2.0))
        with pytest.raises(UnusableError):
            keeper.wait()
        keeper.add(study_id, Event("asked", "1", 3.0), trial(1), Event("told", "1", 4.0))
        keeper.add(study_id, ("stopped", Verdict(result="interrupted")))
        while keeper.flush().result():
            pass
        keeper.close()
        assert keeper.refused == {}
        assert [event.text for event in history.events(study_id)] == ["0", "0", "1", "1"]
        assert [event.text for event in history.events(other)] == ["0"]
        assert [each.number for each in history.trials(study_id)] == [0, 1]
        assert history.study(study_id).status == "stopped"


def test_an_end_is_kept_with_the_last_trials_or_not_at_all(tmp_path: Path) -> None:
    with History.open(tmp_path / "history.db") as history:
        study_id = history.create_study(**study_values()).id
        history.add_trial(study_id, trial(0))
        with pytest.raises(RefusedError):
            history.add_many([(study_id, trial(0))], [], [(study_id, "stopped", Verdict())])
        assert history.study(study_id).status == "running"
        with pytest.raises(HistoryError, match="has no study_id=99"):
            history.add_many([(study_id, trial(1))], [], [(99, "stopped", Verdict())])
        assert len(history.trials(study_id)) == 1


def test_who_asks_after_its_end_is_told_at_once() -> None:
    """As a thread does that still loads a session when the server ends: it would wait for ever, and the process with it."""
    keeper = Keeper(Disk(), 3600.0)  # type: ignore[arg-type]
    keeper.close()
    assert keeper.flush().result(10) == {}
    keeper.add(1, Event("asked", "1", 0.0))
    with pytest.raises(HistoryError, match="the server ended before this was kept"):
        raise keeper.flush().result(10)[1]
