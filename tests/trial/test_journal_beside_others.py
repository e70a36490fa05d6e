"""The journal read by one process while another closes an entry, or while that of another study is damaged."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import TargetError
from trimtab.systems import Snapshot
from trimtab.testing.fake_target import FakeTarget
from trimtab.trial import Entry, Journal, take_news
from trimtab.trial.beside import begin_beside, forget_beside, read_beside
from trimtab.trial.deadman import undo_for_tuner


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    return Journal(tmp_path).begin(Snapshot(target="db", kind="fake", reach={}), study="s", purpose="tune")


def after(act: Callable[[], object], function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, before whose first call somebody does `act`."""
    waiting = [act]

    def called(*arguments: Any) -> Any:
        while waiting:
            waiting.pop()()
        return function(*arguments)

    return called


@pytest.mark.parametrize("moment", ["journal.lines_of", "entry.read_state_file"], ids=["looked up", "about to be read"])
def test_an_entry_that_is_closed_meanwhile_is_not_open(
    entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    module, name = moment.split(".")
    function = getattr(import_module(f"trimtab.trial.{module}"), name)
    monkeypatch.setattr(f"trimtab.trial.{moment}", after(lambda: entry.close("restored"), function))
    assert Journal(tmp_path).open_entries() == []


def test_one_that_is_closed_after_its_first_line_was_read_is_not_open(
    entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Entry, "steps", after(lambda: entry.close("restored"), Entry.steps))
    assert Journal(tmp_path).open_entries() == []


@pytest.mark.parametrize("pid", [1, os.getpid()], ids=["of one that lives", "of this process"])
def test_one_whose_end_is_written_is_tidied_away_but_not_under_another_who_is_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int
) -> None:
    """The audit log would have two lines about it."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: pid)
        entry = Journal(tmp_path).begin(Snapshot(target="db", kind="fake", reach={}), study="s", purpose="tune")
    entry.note("close", {"outcome": "restored"})
    assert Journal(tmp_path).open_entries() == []
    assert entry.is_open == (pid == 1)
    assert (tmp_path / "journal" / "audit.jsonl").exists() == (pid != 1)


def test_so_is_the_copy_beside_a_private_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = Snapshot(target="db", kind="fake", reach={"folder": str(tmp_path / "server")})
    begin_beside([snapshot], b"damaged\n")
    read = import_module("trimtab.trial.beside").read_state_file
    end = after(lambda: forget_beside([snapshot], tmp_path / "x.open"), read)
    monkeypatch.setattr("trimtab.trial.beside.read_state_file", end)
    assert read_beside(tmp_path / "server") is None


def test_the_dead_man_restores_whatever_has_become_of_other_entries(
    entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "journal" / "other-1-1.open").write_bytes(b"garbage\n")
    (tmp_path / "journal" / "other-1-1.open").chmod(0o600)
    undo = import_module("trimtab.trial.undo")
    monkeypatch.setattr(undo, "reattach", lambda snapshot, state_dir: FakeTarget(snapshot.target))
    assert undo_for_tuner(str(entry.path), is_tuner_gone=True, why="dead")
    assert not entry.is_open


def test_a_dead_man_that_is_at_it_leaves_nothing_of_one_that_the_tuner_closes(
    entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an entry would be taken for a damaged one by every command that follows."""

    def goes_on(snapshot: Snapshot, state_dir: Path) -> FakeTarget:
        entry.close("restored")
        return FakeTarget(snapshot.target)

    monkeypatch.setattr(import_module("trimtab.trial.undo"), "reattach", goes_on)
    assert undo_for_tuner(str(entry.path), is_tuner_gone=False, why="silent")
    assert {path.name for path in entry.path.parent.iterdir()} == {"audit.jsonl", "news.jsonl"}
    assert Journal(tmp_path).open_entries() == []


def test_no_change_is_announced_in_one_whose_files_are_gone(entry: Entry) -> None:
    for path in entry.path.parent.iterdir():
        path.unlink()
    with pytest.raises(TargetError, match=f"journal entry={entry.path.name} is gone"):
        entry.note("apply", {"target": "db"})
    assert not entry.is_open


def test_the_dead_man_says_that_it_cannot_read_its_own(entry: Entry, tmp_path: Path) -> None:
    for suffix in (".open", ".copy"):
        entry.path.with_suffix(suffix).write_bytes(b"garbage\n")
    assert not undo_for_tuner(str(entry.path), is_tuner_gone=True, why="dead")
    (news,) = take_news(tmp_path)
    assert news.startswith("Trimtab was dead; the dead-man could not restore: cannot read journal entry=db-")
    assert entry.path.exists()
