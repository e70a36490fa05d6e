"""A history that is reached by a symbolic link is the one that the link leads to: what stands beside it does, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.history.samples import make_trial, study_values
from trimtab.history import History


@pytest.fixture
def link(tmp_path: Path) -> Path:
    """Leads to a file in another folder, which is not there yet."""
    for name in ("disk", "home"):
        (tmp_path / name).mkdir()
    path = tmp_path / "home" / "history.db"
    path.symlink_to(tmp_path / "disk" / "history.db")
    return path


def test_who_goes_on_with_a_study_is_seen_by_either_name(link: Path) -> None:
    with History.open(link) as one, History.open(link.resolve()) as other:
        study = one.create_study(**study_values())
        assert one.hold(study.id)
        assert not other.hold(study.id)
    assert os.listdir(link.parent) == ["history.db"]


def test_what_was_added_without_waiting_for_the_disk_is_written_to_it(
    link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    with History.open(link) as history:
        study = history.create_study(**study_values())
        history.add_many([(study.id, make_trial(0))], [], is_synced=False)
        monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
        history.sync()
    assert synced == [f"{link.resolve()}-wal"]


def test_a_new_file_behind_a_link_is_its_owner_s_alone(link: Path) -> None:
    History.open(link).close()
    assert link.stat().st_mode & 0o777 == 0o600
