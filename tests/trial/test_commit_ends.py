"""How a change that stays ends when its last line cannot be written, and how a rollback that had done nothing yet is repeated."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.trial.test_stack_follow import Following
from trimtab.errors import TargetError
from trimtab.study import rollback
from trimtab.study.rollback_point import file_of, point_of
from trimtab.trial import Entry, Journal, own_to_json
from trimtab.trial.entry import APPLIED


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Following:
    return Following.found_again(tmp_path, monkeypatch)


def test_a_line_that_the_audit_log_does_not_take_makes_no_failure_of_what_was_applied(bench: Following) -> None:
    (bench.path / "journal" / "audit.jsonl").mkdir(parents=True)
    with pytest.raises(TargetError) as caught:
        bench.commit(db__method="ring")
    assert caught.value.message.startswith("applied; but no line about it can be written to file=")
    assert bench.targets["db"].values["method"] == "ring"
    assert "restore db" not in bench.log
    assert point_of(bench.path, "s") is not None
    assert Journal(bench.path).open_entries() == []
    (bench.path / "journal" / "audit.jsonl").rmdir()
    rollback("s", bench.path)
    assert bench.values() == bench.found


def test_what_another_process_has_just_applied_is_not_applied_over(bench: Following) -> None:
    """The file for the rollback holds what was found before that: there is nothing else that does."""
    bench.commit(db__method="ring")
    kept = file_of(bench.path, "s").read_bytes()
    with pytest.raises(TargetError, match="another process has just applied study='s'"):
        bench.commit(db__method="sync")
    assert file_of(bench.path, "s").read_bytes() == kept
    assert Journal(bench.path).open_entries() == []
    rollback("s", bench.path)
    assert bench.values() == bench.found


@pytest.mark.needs("mounts")
def test_a_state_directory_that_can_only_be_read_is_told(bench: Following) -> None:
    """As a file system is after an error of its disk: the way back is made, and the entry stays for `recover`."""
    entry = Journal(bench.path).begin(
        *(target.snapshot() for target in bench.targets.values()), study="s", purpose="tune"
    )
    journal = bench.path / "journal"
    subprocess.run(["mount", "--bind", journal, journal], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", journal], check=True)
        with pytest.raises(TargetError) as caught:
            entry.close("restored")
    finally:
        subprocess.run(["umount", journal], check=True)
    assert (
        caught.value.message == f"restored; but journal entry={entry.path.name} cannot be closed: Read-only file system"
    )
    assert caught.value.hint == f"make directory={str(journal)!r} writable again, then run `trimtab recover`"
    assert [each.path for each in Journal(bench.path).open_entries()] == [entry.path]


def test_an_entry_that_is_marked_as_closed_is_so_whatever_becomes_of_its_files(
    bench: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.suffix in (".open", ".copy"):
            raise PermissionError(13, "Permission denied")
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        bench.commit(db__method="ring")
    assert bench.targets["db"].values["method"] == "ring"
    assert "restore db" not in bench.log
    assert Journal(bench.path).open_entries() == []
    assert {path.name for path in (bench.path / "journal").iterdir()} == {"audit.jsonl"}


@pytest.mark.parametrize("is_announced", [False, True])
def test_a_rollback_that_died_before_it_took_anything_back_is_made(
    bench: Following, monkeypatch: pytest.MonkeyPatch, is_announced: bool
) -> None:
    bench.commit(db__method="ring")
    point = point_of(bench.path, "s")
    assert point is not None
    entry = Journal(bench.path).begin(*point.snapshots, study="s", purpose="rollback")
    if is_announced:
        for snapshot, own in zip(point.snapshots, point.owns, strict=True):
            entry.note(APPLIED, {"target": snapshot.target, "own": own_to_json(own)})
    alive = Entry.is_owner_alive
    monkeypatch.setattr(Entry, "is_owner_alive", property(lambda each: each.path != entry.path and alive.fget(each)))  # type: ignore[attr-defined]
    said: list[str] = []
    done = rollback("s", bench.path, say=said.append)
    assert "nothing was taken back yet; the config stays applied" in said[0]
    assert done.action == "restored as it was found"
    assert bench.values() == bench.found
    assert point_of(bench.path, "s") is None
