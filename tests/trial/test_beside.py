"""The third copy of an entry, beside a private server: it outlives the state directory, and tells other ones."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.errors import TargetError
from trimtab.systems import Own, Snapshot
from trimtab.trial import Entry, Journal
from trimtab.trial.entry import APPLY, own_to_json

OWN = Own(texts={"work_mem": ("8MB",)}, values={"work_mem": (8192,)})


@pytest.fixture
def server(tmp_path: Path) -> Path:
    folder = tmp_path / "cache" / "18.1-db"
    folder.mkdir(parents=True)
    return folder


def snapshot(folder: Path) -> Snapshot:
    return Snapshot(target="db", kind="postgresql", reach={"folder": str(folder)}, files={}, values={"work_mem": 4096})


def killed(state: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """An entry with a change, by a process that is gone."""
    with monkeypatch.context() as patch:
        patch.setattr("trimtab.trial.journal.process_mark", lambda pid: "a process of before")
        entry = Journal(state).begin(snapshot(folder), study="s", purpose="tune")
    entry.note(APPLY, {"target": "db", "own": own_to_json(OWN)})
    return entry


def test_it_lies_there_while_the_entry_is_open(tmp_path: Path, server: Path) -> None:
    entry = Journal(tmp_path / "a").begin(snapshot(server), study="s", purpose="tune")
    entry.note("x")
    entry.note_if_possible("y")
    copy = server.parent / "18.1-db.open"
    assert copy.read_bytes() == entry.path.read_bytes()
    entry.close("restored")
    assert list(server.parent.iterdir()) == [server]


def test_the_entry_of_a_living_process_is_left_to_it(tmp_path: Path, server: Path) -> None:
    Journal(tmp_path / "a").begin(snapshot(server), study="s", purpose="tune")
    assert Journal(tmp_path / "b").strays([server]) == []
    shutil.rmtree(tmp_path / "a")
    assert Journal(tmp_path / "b").strays([server]) == []
    assert Journal(tmp_path / "b").open_entries() == []


def test_an_entry_in_another_state_directory_is_found(
    tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = killed(tmp_path / "a", server, monkeypatch)
    assert Journal(tmp_path / "a").strays([server]) == []
    assert Journal(tmp_path / "b").strays([server.parent / "other"]) == []
    (found,) = Journal(tmp_path / "b").strays([server, server])
    assert (found.path, found.own("db").texts) == (entry.path, OWN.texts)


@pytest.mark.parametrize("again", ["a", "b"])
def test_one_whose_state_directory_was_removed_is_taken_over(
    tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    killed(tmp_path / "a", server, monkeypatch)
    shutil.rmtree(tmp_path / "a")
    journal = Journal(tmp_path / again)
    for _ in range(2):
        assert journal.strays([server]) == []
        (found,) = journal.open_entries()
        assert (found.study, found.own("db").texts, found.is_owner_alive, found.is_lossy) == (
            "s",
            OWN.texts,
            False,
            False,
        )
    found.close("recovered")
    assert journal.strays([server]) == journal.open_entries() == []


def test_nothing_is_begun_over_it(tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(tmp_path / "a", server, monkeypatch)
    with pytest.raises(
        TargetError, match="may still hold what study='s' has set; its tune could not be undone"
    ) as told:
        Journal(tmp_path / "b").begin(snapshot(server), study="t", purpose="bench")
    assert f"`trimtab recover --state {tmp_path / 'a'} --retry s`" in str(told.value.hint)


def test_a_damaged_one_is_told(tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(tmp_path / "a", server, monkeypatch)
    shutil.rmtree(tmp_path / "a")
    copy = server.parent / "18.1-db.open"
    copy.write_bytes(b"x" + copy.read_bytes()[1:])
    with pytest.raises(
        TargetError, match="may hold what a killed study has set, and file=.* about it is damaged"
    ) as told:
        Journal(tmp_path / "b").strays([server])
    assert told.value.hint == f"remove the server's folder {server} and that file: its data is made again"


def test_a_place_that_cannot_be_written_does_no_harm(tmp_path: Path, server: Path) -> None:
    entry = Journal(tmp_path / "a").begin(
        replace(snapshot(server), reach={"folder": str(tmp_path / "none" / "db")}), study="s", purpose="tune"
    )
    entry.note("x")
    entry.close("restored")


def test_what_a_kill_has_left_of_a_copy_is_in_nobodys_way(
    tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (server.parent / "18.1-db.open-partial").write_bytes(b"half")
    entry = killed(tmp_path / "a", server, monkeypatch)
    assert (server.parent / "18.1-db.open").read_bytes() == entry.path.read_bytes()
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "b" / "journal").mkdir(parents=True)
    (tmp_path / "b" / "journal" / f"{entry.path.name}.partial").write_bytes(b"half")
    assert Journal(tmp_path / "b").strays([server]) == []
    (found,) = Journal(tmp_path / "b").open_entries()
    assert found.own("db").texts == OWN.texts


def test_an_entry_that_will_be_refused_leaves_the_copy_of_the_study_that_runs(tmp_path: Path, server: Path) -> None:
    """As that of a rollback, which is begun before it asks for the server's lock."""
    runs = Journal(tmp_path / "a").begin(snapshot(server), study="s", purpose="tune")
    for state in ("a", "b"):
        refused = Journal(tmp_path / state).begin(snapshot(server), study="t", purpose="rollback")
        refused.note(APPLY, {"target": "db", "own": own_to_json(OWN)})
        refused.close("not rolled back")
    runs.note("x")
    copy = server.parent / "18.1-db.open"
    assert copy.read_bytes() == runs.path.read_bytes()
    runs.close("restored")
    assert not copy.exists()


def test_the_end_of_an_entry_that_was_taken_over_elsewhere_leaves_the_copy_of_the_next_study(
    tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a state directory lies on a disk that comes back later."""
    killed(tmp_path / "a", server, monkeypatch)
    (tmp_path / "a").rename(tmp_path / "away")
    journal = Journal(tmp_path / "b")
    assert journal.strays([server]) == []
    (found,) = journal.open_entries()
    found.close("recovered")
    copy = server.parent / "18.1-db.open"
    assert not copy.exists()
    runs = journal.begin(snapshot(server), study="t", purpose="tune")
    (tmp_path / "away").rename(tmp_path / "a")
    (old,) = Journal(tmp_path / "a").open_entries()
    old.close("recovered")
    assert copy.read_bytes() == runs.path.read_bytes()


def test_one_that_was_damaged_while_its_entry_was_open_goes_with_it(tmp_path: Path, server: Path) -> None:
    entry = Journal(tmp_path / "a").begin(snapshot(server), study="s", purpose="tune")
    copy = server.parent / "18.1-db.open"
    copy.write_bytes(b"x" + copy.read_bytes()[1:])
    entry.close("restored")
    assert not copy.exists()
