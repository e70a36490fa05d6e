"""Histories that lie where nothing may be written: a read-only disk, a colleague's folder, a lock of somebody else."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.history.samples import make_trial, study_values
from tests.history.test_upkeep import sound_trial
from trimtab.errors import HistoryError
from trimtab.history import History, back_up, check, export_studies, load_format, merge, read_history_at


@pytest.fixture
def resting(tmp_path: Path) -> Path:
    """The file of a history whose folder takes none of the files that SQLite keeps beside it; root may write to every folder, so
    one of them leads nowhere."""
    path = tmp_path / "there" / "history.db"
    with History.open(path) as history:
        study = history.create_study(**study_values())
        history.add_trial(study.id, sound_trial(0))  # type: ignore[arg-type]
    path.with_name("history.db-shm").symlink_to("nowhere/at-all")
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connection.execute("select 1 from trimtab_meta").fetchall()
    return path


def test_it_is_read_checked_copied_and_exported(resting: Path, tmp_path: Path) -> None:
    with read_history_at(str(resting), tmp_path) as history:
        (summary,) = history.summaries()
        assert [trial.number for trial in history.trials(summary.id)] == [0]
        export_studies(history, [summary.id], load_format(None, "x.jsonl"), str(tmp_path / "x.jsonl"))
        with pytest.raises(HistoryError, match="cannot be used: attempt to write a readonly database"):
            history.add_trial(summary.id, make_trial(1))
    health = check(resting)
    assert (health.findings, health.n_studies, health.n_trials) == ((), 1, 1)
    assert back_up(resting, tmp_path / "copy.db") > 0
    with History.open(tmp_path / "mine.db") as mine:
        assert [each.kept_as for each in merge(mine, str(resting)).studies] == [summary.name]


def _looked_at(place: Path, tmp_path: Path) -> None:
    with read_history_at(str(place), tmp_path):
        pass


def _copied(place: Path, tmp_path: Path) -> None:
    back_up(place, tmp_path / "copy.db")


@pytest.mark.parametrize("is_linked", [False, True])
@pytest.mark.parametrize("read", [_looked_at, _copied])
def test_what_stands_in_the_log_beside_it_is_not_left_out(
    resting: Path, tmp_path: Path, read: Callable[[Path, Path], None], is_linked: bool
) -> None:
    resting.with_name("history.db-wal").write_bytes(b"x" * 100)
    place = resting
    if is_linked:
        place = tmp_path / "theirs.db"
        place.symlink_to(resting)
    with pytest.raises(HistoryError, match="unable to open database file"):
        read(place, tmp_path)
    assert check(place).findings == ("the file cannot be read: unable to open database file",)


def test_a_history_that_another_program_has_locked_is_read(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with History.open(path) as history:
        history.create_study(**study_values())
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        with read_history_at(str(path), tmp_path) as history:
            assert len(history.summaries()) == 1


@pytest.mark.parametrize("version", ["", "x", "²"])
def test_a_version_that_is_none_is_damage(tmp_path: Path, version: str) -> None:
    path = tmp_path / "history.db"
    History.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update trimtab_meta set value = ? where key = 'schema_version'", (version,))
        connection.commit()
    assert check(path).findings == (f"it has schema_version={version!r}, and versions are whole numbers",)
