"""Data files of a Cassandra table as links in another folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trimtab.workload.server.sstables import keep_files, linked_files, remove_unused

FILES = ("nb-1-big-Data.db", "nb-1-big-TOC.txt", "da-3gf_1a-bti-Data.db", "da-3gf_1a-bti-Partitions.db")
OTHERS = ("nb_txn_flush_1.log", "nb-2-big-Data.db.tmp", "backups")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    source, copy = tmp_path / "source", tmp_path / "keyspace" / "copy"
    for folder in (source, copy):
        folder.mkdir(parents=True)
    for name in (*FILES, *OTHERS[:-1]):
        (source / name).write_text(name)
    (source / OTHERS[-1]).mkdir()
    return source, copy


def test_rows_are_linked_and_all_else_is_copied(folders: tuple[Path, Path]) -> None:
    source, copy = folders
    assert linked_files(source, copy)
    keep_files(copy)
    assert sorted(os.listdir(copy)) == sorted(FILES)
    for name in FILES:
        assert (copy / name).read_text() == name
        is_same = (source / name).stat().st_ino == (copy / name).stat().st_ino
        assert is_same == name.endswith("-Data.db")


def test_it_is_told_where_it_is_not_allowed(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    source, copy = folders

    def refused(_old: Path, _new: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    assert not linked_files(source, copy)
    (copy / "manifest.json").write_text("")
    remove_unused(copy.parent)
    assert os.listdir(copy) == ["manifest.json"]
    assert sorted(os.listdir(source)) == sorted([*FILES, *OTHERS])


def test_files_that_the_node_never_took_are_removed_and_no_others(folders: tuple[Path, Path]) -> None:
    source, copy = folders
    taken = copy.parent / "taken"
    taken.mkdir()
    assert linked_files(source, copy)
    assert linked_files(source, taken)
    keep_files(taken)
    remove_unused(copy.parent)
    assert os.listdir(copy) == []
    assert sorted(os.listdir(taken)) == sorted(FILES)
    assert sorted(os.listdir(source)) == sorted([*FILES, *OTHERS])
    assert linked_files(source, copy), "the folder can be used again"


def test_what_is_there_already_is_not_overwritten(folders: tuple[Path, Path]) -> None:
    source, copy = folders
    (copy / FILES[2]).write_text("another")
    assert not linked_files(source, copy)
    remove_unused(copy.parent)
    assert (copy / FILES[2]).read_text() == "another"


def test_a_folder_that_is_not_there_is_no_reason_to_fail(tmp_path: Path) -> None:
    assert not linked_files(tmp_path / "none", tmp_path)
    assert not linked_files(tmp_path, tmp_path / "none")
    keep_files(tmp_path / "none")
    remove_unused(tmp_path / "none")
