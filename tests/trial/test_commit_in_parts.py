"""A change of several targets when something comes between them: the dead-man, or another tuner's lock."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.trial.test_commit import both, stack
from trimtab.errors import LockedError, RestoreError
from trimtab.space import Config
from trimtab.systems import Own, Snapshot, Stack
from trimtab.testing.fake_target import Disk, FakeTarget
from trimtab.trial import DeadMan, Journal, commit, take_back, undo
from trimtab.trial.entry import APPLIED, own_to_json
from trimtab.trial.journal import Entry
from trimtab.trial.undo import REMOVE

CONFIG = Config({"cache": 256, "sort_memory": 8})


NOWHERE = Path("/nowhere/at/all")


def keep_nothing(snapshots: Sequence[Snapshot], owns: Sequence[Own]) -> None:
    """For tests that roll nothing back."""


class Interfering(FakeTarget):
    """While it is changed for the first time, the tuner stands still, and the dead-man takes `first` back."""

    def __init__(self, first: FakeTarget) -> None:
        super().__init__("second")
        self.first = first
        self.found = dict(first.values)
        self.has_fired = False

    def apply(self, config: Config, *, stays: bool = False) -> Any:
        if self.calls.count("apply") == 0:
            self.first.disk.running.update(self.found)
            self.has_fired = True
        return super().apply(config, stays=stays)


def test_what_the_dead_man_took_back_between_two_targets_is_set_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = FakeTarget("first")
    second = Interfering(first)

    def settle(self: DeadMan) -> bool:
        fired, second.has_fired = second.has_fired, False
        return fired

    monkeypatch.setattr(DeadMan, "settle", settle)
    effective = commit(
        stack(first, second),
        both("first", "second"),
        study="stack",
        state_dir=tmp_path,
        keep=keep_nothing,
        file=NOWHERE,
    )
    assert [first.values["cache"], second.values["cache"]] == [256, 256]
    assert dict(effective) == dict(both("first", "second"))
    assert Journal(tmp_path).open_entries() == []


def test_what_the_dead_man_took_back_after_the_last_target_is_set_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fires between the change and the end of the journal entry: the entry is not closed over a server taken back."""
    target = FakeTarget("first")
    found = dict(target.values)
    asked: list[bool] = []

    def is_firing(self: DeadMan) -> bool:
        if not asked:
            target.disk.running.update(found)
        asked.append(True)
        return len(asked) == 1

    monkeypatch.setattr(DeadMan, "is_firing", is_firing)
    commit(Stack.of(target), CONFIG, study="one", state_dir=tmp_path, keep=keep_nothing, file=NOWHERE)
    assert target.values["cache"] == 256
    assert len(asked) == 2
    assert Journal(tmp_path).open_entries() == []


def changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, failing: str = "", purpose: str = "apply"
) -> tuple[Entry, dict[str, Disk]]:
    """An open entry of three targets, all of them changed, as a dead tuner leaves it."""
    targets = [FakeTarget(name) for name in ("first", "second", "third")]
    disks = {target.name: target.disk for target in targets}
    entry = Journal(tmp_path).begin(*(target.snapshot() for target in targets), study="stack", purpose=purpose)
    for target in targets:
        applied = target.apply(CONFIG, stays=True)
        entry.note(APPLIED, {"target": target.name, "own": own_to_json(applied.own)})

    def reattach(snapshot: Snapshot, state_dir: Path) -> FakeTarget:
        return FakeTarget(snapshot.target, disk=disks[snapshot.target], fail_restore=snapshot.target == failing)

    module = import_module("trimtab.trial.undo")  # `trimtab.trial.undo` is also the name of its function
    monkeypatch.setattr(module, "reattach", reattach)
    monkeypatch.setattr(module, "_LOCK_PATIENCE_S", 0.0)
    return entry, disks


def test_a_rollback_that_died_while_it_was_written_down_has_taken_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the settings would go and the rollback point stay: the study would count as applied for ever."""
    point = tmp_path / "point.json"
    point.touch()
    entry, disks = changed(tmp_path, monkeypatch, purpose="rollback")
    assert undo(entry, holder="test") == "nothing was taken back yet; the config stays applied"
    assert {disk.running["cache"] for disk in disks.values()} == {256}
    entry.note(REMOVE, {"file": str(point)})  # now it was written down whole
    undo(entry, holder="test")
    assert {disk.running["cache"] for disk in disks.values()} == {FakeTarget("new").values["cache"]}
    assert not point.exists()
    entry.close("end of the test")


def test_the_rollback_point_is_noted_before_it_is_written(tmp_path: Path) -> None:
    """So that no death leaves one behind after its change is undone."""
    point, target = tmp_path / "point.json", FakeTarget("first")
    seen: list[str] = []

    def keep(snapshots: Sequence[Snapshot], owns: Sequence[Own]) -> None:
        (entry,) = Journal(tmp_path).open_entries()
        seen.extend(str(detail["file"]) for step, detail in entry.steps() if step == REMOVE)
        point.touch()

    commit(Stack.of(target), CONFIG, study="one", state_dir=tmp_path, keep=keep, file=point)
    assert seen == [str(point)]
    assert point.exists()


def test_a_locked_target_keeps_no_other_from_being_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, disks = changed(tmp_path, monkeypatch)
    disks["third"].holder = "study=other pid=1"  # the first one that is asked
    with pytest.raises(LockedError, match="another tuner holds this server: study=other pid=1"):
        undo(entry, holder="test")
    found = FakeTarget("new").values["cache"]
    assert {name: disk.running["cache"] for name, disk in disks.items()} == {
        "first": found,
        "second": found,
        "third": 256,
    }
    disks["third"].holder = ""
    undo(entry, holder="test")
    assert disks["third"].running["cache"] == found
    entry.close("end of the test")


def test_a_locked_target_beside_one_that_fails_is_told_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, disks = changed(tmp_path, monkeypatch, failing="third")
    disks["second"].holder = "study=other pid=1"
    with pytest.raises(RestoreError) as caught:
        undo(entry, holder="test")
    assert "another tuner holds this server" in caught.value.message
    assert "the fake server could not be put back" in caught.value.message
    assert disks["first"].running["cache"] == FakeTarget("new").values["cache"]
    entry.close("end of the test")


def test_a_rollback_that_waits_for_one_target_says_what_it_has_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, disks = changed(tmp_path, monkeypatch)
    snapshots, owns = entry.snapshots, [entry.own(snapshot.target) for snapshot in entry.snapshots]
    entry.close("applied")
    file = tmp_path / "point.json"
    file.touch()
    disks["second"].holder = "study=other pid=1"
    with pytest.raises(
        LockedError, match="another tuner holds this server: .*; taken back already: third, first"
    ) as caught:
        take_back(snapshots, owns, study="stack", state_dir=tmp_path, file=file)
    assert caught.value.hint == "then run `trimtab rollback stack` again"
    assert file.exists()
    assert Journal(tmp_path).open_entries() == []
    disks["second"].holder = ""
    take_back(snapshots, owns, study="stack", state_dir=tmp_path, file=file)
    found = FakeTarget("new").values["cache"]
    assert {disk.running["cache"] for disk in disks.values()} == {found}
    assert not file.exists()
