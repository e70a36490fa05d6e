"""Copies of data on a server: in the journal before they are there, and gone however the tuner ends."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.trial.test_room import PLAN, Bench
from trimtab.errors import LoadError
from trimtab.records import Role
from trimtab.systems import Stack
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeRatedWorkload
from trimtab.trial import Journal, take_news, undo
from trimtab.trial.copies import copies_of, copies_while_preparing, note_copies, note_dropped
from trimtab.workload import CopyingWorkload


class Copying(FakeRatedWorkload):
    """Its runs use a copy of the data."""

    copies = ("shop_run",)


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was dropped; "stuck" cannot be, and "unmade" was never there."""
    done: list[str] = []

    def drop(endpoint: Any, name: str) -> bool:
        if name == "stuck":
            raise LoadError("cannot drop database=stuck: somebody uses it")
        done.append(name)
        return name != "unmade"

    monkeypatch.setattr("trimtab.workload.database.drop_clone", drop)
    return done


def test_a_copy_is_in_the_journal_before_the_first_run_and_until_it_is_dropped(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.workload = workload = Copying(lambda: 1000.0)
    assert isinstance(workload, CopyingWorkload)
    seen: list[tuple[int, tuple[str, ...]]] = []

    class Watching(Copying):
        def clean_up(self, endpoint: Any) -> None:
            (entry,) = Journal(tmp_path).open_entries()
            seen.append((-1, copies_of(entry, "fake")))
            super().clean_up(endpoint)

    bench.workload = Watching(lambda: 1000.0)
    with bench.room() as room:
        (entry,) = Journal(tmp_path).open_entries()
        seen.append((len(bench.workload.resets), copies_of(entry, "fake")))
        room.run(bench.baseline, number=0, role=Role.SEARCH, plan=PLAN, seed=7)
    assert seen == [(0, ("shop_run",)), (-1, ("shop_run",))]
    assert bench.workload.resets[-1] == "clean"
    assert Journal(tmp_path).open_entries() == []


def test_a_room_that_is_left_before_its_first_run_drops_what_the_preparation_has_tried_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.workload = Copying(lambda: 1000.0)
    with bench.room():
        pass
    assert bench.workload.resets == ["clean"]


def test_a_copy_that_a_failed_preparation_cannot_drop_is_named(tmp_path: Path, dropped: list[str]) -> None:
    """No entry keeps it, and the study may never be begun again."""

    def prepare() -> None:
        with copies_while_preparing(Stack.of(FakeTarget()), ["shop_run", "stuck"], tmp_path, "s"):
            raise LoadError("the server went away")

    with pytest.raises(LoadError, match="the server went away"):
        prepare()
    assert dropped == ["shop_run"]
    assert Journal(tmp_path).open_entries() == []
    (news,) = take_news(tmp_path)
    assert news.startswith(
        "study s: dropped database=shop_run, a copy that runs used; database=stuck, a copy that runs used, is"
    )


def test_whoever_undoes_a_dead_tuners_entry_drops_its_copies(
    tmp_path: Path, dropped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = FakeTarget()
    monkeypatch.setattr(import_module("trimtab.trial.undo"), "reattach", lambda snapshot, state_dir: target)
    entry = Journal(tmp_path).begin(target.snapshot(), study="s", purpose="tune")
    note_copies(entry, "fake", ["gone", "shop_run"])
    note_dropped(entry, "fake")
    note_copies(entry, "fake", ["shop_run", "stuck", "unmade"])
    assert (
        undo(entry, holder="a test", is_tuner_gone=False)
        == "restored as it was found; its journal shows no change before the end"
    )
    assert dropped == [], "a tuner that is only stopped still uses them"
    told = undo(entry, holder="a test")
    assert dropped == ["shop_run", "unmade"]
    assert told == (
        "restored as it was found; dropped database=shop_run, a copy that runs used; database=stuck, a copy that runs used, is"
        " still there and yours to drop: cannot drop database=stuck: somebody uses it; its journal shows no change before the end"
    )
    assert copies_of(entry, "fake") == ("stuck",)
