"""Several targets are changed all or none, and taken back in the opposite order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from trimtab.errors import ApplyError, RestoreError
from trimtab.space import Config
from trimtab.systems import Own, Snapshot, Stack, Tier
from trimtab.testing.fake_target import FakeTarget
from trimtab.trial import Journal, commit
from trimtab.trial.lines import read_lines

CONFIG = Config({"cache": 256, "sort_memory": 8})


NOWHERE = Path("/nowhere/at/all")


def keep_nothing(snapshots: Sequence[Snapshot], owns: Sequence[Own]) -> Path:
    return NOWHERE


def stack(*targets: FakeTarget) -> Stack:
    return Stack([Tier(name=target.name, target=target) for target in targets])


def both(*names: str) -> Config:
    return Config({f"{name}.{knob}": value for name in names for knob, value in CONFIG.items()})


def outcome(state: Path) -> str:
    (line,) = read_lines((state / "journal" / "audit.jsonl").read_bytes())
    assert line is not None
    return str(line["outcome"])


def test_all_targets_are_changed(tmp_path: Path) -> None:
    first, second = FakeTarget("first"), FakeTarget("second")
    effective = commit(
        stack(first, second),
        both("first", "second"),
        study="stack",
        state_dir=tmp_path,
        keep=keep_nothing,
        file=NOWHERE,
    )
    assert dict(effective) == dict(both("first", "second"))
    assert (first.values["cache"], second.values["cache"]) == (256, 256)
    assert Journal(tmp_path).open_entries() == []
    assert outcome(tmp_path) == "applied"


def test_when_one_fails_all_are_as_they_were(tmp_path: Path) -> None:
    first, second = FakeTarget("first"), FakeTarget("second", crash_when=lambda values: values["cache"] == 256)
    third = FakeTarget("third")
    found = [dict(target.values) for target in (first, second, third)]
    with pytest.raises(ApplyError, match="the fake server did not start"):
        commit(
            stack(first, second, third), both("first", "second", "third"),
            study="stack", state_dir=tmp_path, keep=keep_nothing, file=NOWHERE,
        )  # fmt: skip
    assert [dict(target.values) for target in (first, second, third)] == found
    assert "apply" not in third.calls
    assert outcome(tmp_path).startswith("not applied: second: the fake server did not start")


class Fleeting(FakeTarget):
    """What is set on it is gone after a restart."""

    def require_lasting(self, config: Config) -> None:
        raise ApplyError("the config cannot be made to stay: it has no file", hint="give it one")


def test_a_target_on_which_nothing_stays_is_known_before_another_is_changed(tmp_path: Path) -> None:
    first, second = FakeTarget("first"), Fleeting("second")
    with pytest.raises(ApplyError, match="second: the config cannot be made to stay: it has no file"):
        commit(
            stack(first, second), both("first", "second"),
            study="stack", state_dir=tmp_path, keep=keep_nothing, file=NOWHERE,
        )  # fmt: skip
    assert "apply" not in first.calls
    assert not (tmp_path / "journal").exists()


def test_when_one_cannot_be_taken_back_the_others_are_and_the_entry_stays(tmp_path: Path) -> None:
    first = FakeTarget("first")
    second = FakeTarget("second", fail_restore=1)
    third = FakeTarget("third", crash_when=lambda values: values["cache"] == 256)
    found = dict(first.values)
    with pytest.raises(RestoreError, match="could not be applied .*, and not be taken back either: second: ") as caught:
        commit(
            stack(first, second, third), both("first", "second", "third"),
            study="stack", state_dir=tmp_path, keep=keep_nothing, file=NOWHERE,
        )  # fmt: skip
    assert f"`trimtab recover --state {tmp_path} --show`" in str(caught.value.hint)
    assert dict(first.values) == found
    (entry,) = Journal(tmp_path).open_entries()
    assert [snapshot.target for snapshot in entry.snapshots] == ["first", "second", "third"]
    entry.close("end of the test")


def test_a_rollback_point_that_cannot_be_kept_undoes_the_change(tmp_path: Path) -> None:
    target = FakeTarget("first")
    found = dict(target.values)
    file = tmp_path / "point.json"

    def full_disk(snapshots: Sequence[Snapshot], owns: Sequence[Own]) -> None:
        file.write_text("half of it")
        raise ApplyError("no room for it")

    with pytest.raises(ApplyError, match="no room for it"):
        commit(Stack.of(target), CONFIG, study="s", state_dir=tmp_path, keep=full_disk, file=file)
    assert dict(target.values) == found
    assert not file.exists()
