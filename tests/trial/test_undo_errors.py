"""A way back that meets an error of any kind on one target: the others are dealt with, and the entry stays for `recover`."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.read_only import make_read_only
from tests.trial.test_stack_follow import Following
from trimtab.errors import LockedError, RestoreError, TargetError, UsageError
from trimtab.host import FileLock
from trimtab.space import Config
from trimtab.study.recovery import recover
from trimtab.study.rollback_point import point_of
from trimtab.systems import Snapshot
from trimtab.systems.base import Restarts
from trimtab.systems.lock import ServerLock
from trimtab.testing.fake_target import FakeTarget
from trimtab.trial import Entry, Journal, own_to_json, take_back, take_news
from trimtab.trial.deadman import undo_for_tuner
from trimtab.trial.entry import APPLY

NO_PLACE = FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")
STRANGE = UsageError("targets of this kind are not installed", hint="install them")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Following:
    return Following.found_again(tmp_path, monkeypatch)


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*arguments: object, **more: object) -> None:
        raise error

    return fail


def fails(bench: Following, monkeypatch: pytest.MonkeyPatch, what: str, error: Exception) -> None:
    target, _, method = what.partition(".")
    monkeypatch.setattr(bench.targets[target], method, raising(error))


def roll_back(bench: Following) -> None:
    point = point_of(bench.path, "s")
    assert point is not None
    take_back(point.snapshots, point.owns, study="s", state_dir=bench.path, file=point.path)


@pytest.mark.parametrize(
    ("error", "told", "hint"),
    [
        (NO_PLACE, "FileNotFoundError: .*No usable temporary directory", "put that right, then run `trimtab recover`"),
        (STRANGE, "targets of this kind are not installed", "install them"),
        (KeyError("level"), "KeyError: 'level'", "put that right, then run `trimtab recover`"),
    ],
)
def test_the_others_are_put_back(
    bench: Following, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str, hint: str
) -> None:
    bench.commit(db__method="ring", app__method="ring", web__method="ring")
    with monkeypatch.context() as patch:
        fails(bench, patch, "app.restore", error)
        with pytest.raises(RestoreError, match=f"target='app' could not be put back: {told}") as caught:
            roll_back(bench)
    assert str(caught.value.hint).startswith(hint)
    assert {name for name, target in bench.targets.items() if dict(target.values) != bench.found[name]} == {"app"}
    (entry,) = Journal(bench.path).open_entries()
    assert "target='app' could not be put back" in entry.failure
    monkeypatch.setattr(Entry, "is_owner_alive", property(lambda entry: False))
    recover(bench.path)
    assert bench.values() == bench.found
    assert point_of(bench.path, "s") is None


@pytest.mark.parametrize(("number", "counts"), [(errno.EMFILE, False), (errno.EACCES, True)])
def test_a_restart_that_failed_for_want_of_descriptors_does_not_count(
    bench: Following, monkeypatch: pytest.MonkeyPatch, number: int, counts: bool
) -> None:
    """Some may be free again when the undo ends; `recover` has its own, and may restart the server."""
    bench.commit(db__method="ring")

    def restarts(*arguments: object, restarts: Restarts, **more: object) -> None:
        restarts()
        try:
            raise OSError(number, os.strerror(number))
        except OSError as error:
            raise RestoreError("its log cannot be written") from error

    with monkeypatch.context() as patch:
        patch.setattr(bench.targets["db"], "restore", restarts)
        with pytest.raises(RestoreError, match="its log cannot be written"):
            roll_back(bench)
    (entry,) = Journal(bench.path).open_entries()
    assert bool(entry.n_restarts("db")) is counts


def test_one_that_cannot_be_opened_for_such_a_reason_is_restored_closed(
    bench: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.commit(db__method="ring")
    fails(bench, monkeypatch, "db.open", NO_PLACE)
    roll_back(bench)
    assert bench.values() == bench.found


def test_one_that_is_down_for_a_restart_of_another_tuner_is_left_to_it(
    bench: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not answer cannot be locked."""
    bench.commit(db__method="ring", app__method="ring")
    point = point_of(bench.path, "s")
    assert point is not None
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)  # one that lives
        db = [snapshot for snapshot in point.snapshots if snapshot.target == "db"]
        other = Journal(bench.path).begin(*db, study="other", purpose="tune")
    told = "another tuner works on target='db', which does not answer now: study='other' pid=1; taken back already: app"
    with monkeypatch.context() as patch:
        fails(bench, patch, "db.open", TargetError("it is down"))
        with pytest.raises(LockedError, match=told):
            roll_back(bench)
    assert bench.targets["db"].values["method"] == "ring"
    assert [entry.study for entry in Journal(bench.path).open_entries()] == ["other"]
    other.close("restored")
    roll_back(bench)
    assert bench.values() == bench.found


def test_a_change_that_failed_is_taken_back_on_the_others(bench: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(bench, monkeypatch, "web.apply", STRANGE)
    fails(bench, monkeypatch, "app.restore", NO_PLACE)
    message = (
        "could not be applied .*, and not be taken back either: target='app' could not be put back: FileNotFoundError"
    )
    with pytest.raises(RestoreError, match=message):
        bench.commit(db__method="ring", app__method="ring", web__method="ring")
    assert dict(bench.targets["db"].values) == bench.found["db"]


def test_a_bug_of_one_leaves_the_others_as_found_and_the_dead_man_watching(
    bench: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes the way back with what it reads from the journal, once this process has ended."""
    rooms: list[Any] = []

    def leave() -> None:
        with bench.room() as room:
            rooms.append(room)
            bench.run(room, hand_over=True, db__method="ring", app__method="ring", web__method="ring")
            fails(bench, monkeypatch, "app.restore", KeyError("level"))

    with pytest.raises(KeyError):
        leave()
    assert {name for name, target in bench.targets.items() if dict(target.values) != bench.found[name]} == {"app"}
    assert rooms[0]._guard._process.poll() is None
    rooms[0]._guard.stop()


@pytest.mark.parametrize("error", [NO_PLACE, KeyError("level")])
def test_one_that_follows_and_cannot_be_restarted_is_told(
    bench: Following, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    bench.commit(db__cache=256)
    fails(bench, monkeypatch, "app.restart", error)
    with pytest.raises(RestoreError, match=f"target='app' could not be restarted: {type(error).__name__}: "):
        roll_back(bench)
    assert bench.values() == bench.found
    (entry,) = Journal(bench.path).open_entries()
    assert "target='app' could not be restarted" in entry.failure


@pytest.mark.parametrize("error", [NO_PLACE, KeyError("level")])
def test_so_is_one_in_a_trial(bench: Following, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def leave() -> None:
        with bench.room() as room:
            bench.run(room, hand_over=True, db__cache=256)
            fails(bench, monkeypatch, "app.restart", error)

    with pytest.raises(RestoreError, match=f"target='app' could not be restarted: {type(error).__name__}: "):
        leave()
    assert bench.values() == bench.found


def test_one_that_follows_is_not_restarted_again_and_again(bench: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart that failed in a trial counts for whoever undoes it next, as any other does."""
    calls = list[str]()

    def broken(snapshot: Snapshot) -> None:
        calls.append(snapshot.target)
        raise TargetError("its pool finds no server", hint="look into its log")

    def leave() -> None:
        with bench.room() as room:
            bench.run(room, hand_over=True, db__cache=256)
            monkeypatch.setattr(bench.targets["app"], "restart", broken)

    with pytest.raises(RestoreError, match="its pool finds no server") as caught:
        leave()
    assert str(caught.value.hint).startswith("look into its log; `trimtab recover")
    assert bench.values() == bench.found
    monkeypatch.setattr(Entry, "is_owner_alive", property(lambda entry: False))
    done, (stuck,) = recover(bench.path)
    assert not done
    assert "target='app' needs a restart, which was tried already and did not help: " in stuck.error.message
    assert calls == ["app"]


def _left(bench: Following) -> Entry:
    """The entry of a rollback that has just failed."""
    bench.commit(db__method="ring", app__method="ring")
    with pytest.raises(RestoreError):
        roll_back(bench)
    (entry,) = Journal(bench.path).open_entries()
    return entry


def test_the_dead_man_says_what_stopped_it(bench: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(bench, monkeypatch, "app.restore", NO_PLACE)
    entry = _left(bench)
    assert not undo_for_tuner(str(entry.path), is_tuner_gone=True, why="dead")
    (news,) = take_news(bench.path)
    assert "could not restore it: target='app' could not be put back: FileNotFoundError: " in news
    assert dict(bench.targets["db"].values) == bench.found["db"]


@pytest.mark.parametrize("by", ["recover", "dead-man"])
def test_what_stops_all_of_it_is_told(bench: Following, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    """Here the file of the rollback, which has to go at the end."""
    fails(bench, monkeypatch, "app.restore", NO_PLACE)
    entry = _left(bench)
    monkeypatch.undo()
    undo = import_module("trimtab.trial.undo")
    monkeypatch.setattr(undo, "reattach", lambda snapshot, state_dir: bench.targets[snapshot.target])
    monkeypatch.setattr(Path, "unlink", raising(PermissionError(13, "Permission denied")))
    told = f"entry={entry.path.name} could not be undone: PermissionError: "
    if by == "recover":
        monkeypatch.setattr(Entry, "is_owner_alive", property(lambda entry: False))
        monkeypatch.setattr("trimtab.study.recovery.sweep_points", lambda state_dir: None)
        done, (stuck,) = recover(bench.path)
        assert not done
        assert stuck.error.message.startswith(told)
    else:
        assert not undo_for_tuner(str(entry.path), is_tuner_gone=True, why="dead")
        assert dict(entry.steps())["deadman failed"]["error"].startswith(told)
    assert bench.values() == bench.found


def test_a_server_is_put_back_although_the_disk_of_the_journal_has_become_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock file lies beside the journal; only that the entry is closed cannot be written down."""

    @contextmanager
    def locked(holder: str) -> Iterator[None]:
        lock = ServerLock(FileLock(tmp_path / "locks" / "db.lock"))
        lock.acquire(holder)
        try:
            yield
        finally:
            lock.release()

    target = FakeTarget()
    found, entry = dict(target.values), Journal(tmp_path).begin(target.snapshot(), study="s", purpose="tune")
    with locked("the tuner"):
        own = target.announce(Config({"cache": 999}))
        entry.note(APPLY, {"target": target.name, "changes": {"cache": 999}, "own": own_to_json(own)})
        target.disk.running["cache"] = target.disk.configured["cache"] = 999
    monkeypatch.setattr(target, "lock", locked)
    monkeypatch.setattr(import_module("trimtab.trial.undo"), "reattach", lambda snapshot, state_dir: target)
    make_read_only(monkeypatch)
    with pytest.raises(TargetError, match="Read-only file system"):
        undo_for_tuner(str(entry.path), is_tuner_gone=True, why="dead")
    assert dict(target.values) == found
