"""The journal: on disk before the change, exact, and readable after a death at any point."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab.errors import TargetError
from trimtab.target import Snapshot
from trimtab.trial import Journal, snapshot_from_json, snapshot_to_json

SNAPSHOT = Snapshot(
    target="db",
    kind="postgresql",
    reach={"embedded": "18"},
    files={"postgresql.auto.conf": {"content": b"work_mem = '4MB'\n\xff", "mode": 0o600}},
    values={"work_mem": 4096, "jit": True},
)


def test_snapshot_survives_json_exactly_bytes_included() -> None:
    assert snapshot_from_json(snapshot_to_json(SNAPSHOT)) == SNAPSHOT


def test_entry_is_on_disk_before_begin_returns_and_private(tmp_path: Path) -> None:
    entry = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    assert stat.S_IMODE(entry.path.stat().st_mode) == 0o600
    (found,) = Journal(tmp_path).open_entries()
    assert (found.study, found.purpose, found.snapshot) == ("s", "tune", SNAPSHOT)


def test_closed_entry_is_gone_and_audited(tmp_path: Path) -> None:
    entry = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    entry.note("apply", {"work_mem": 8192})
    entry.close("restored")
    entry.close("restored")
    assert Journal(tmp_path).open_entries() == []
    audit = (tmp_path / "journal" / "audit.jsonl").read_text().splitlines()
    assert len(audit) == 1
    assert '"outcome": "restored"' in audit[0]


def test_owner_is_alive_only_while_its_process_runs(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests_snapshot import SNAPSHOT; from trimtab.trial import Journal;"
        "Journal(Path(sys.argv[1])).begin(SNAPSHOT, study='dead', purpose='tune')"
    )
    (tmp_path / "tests_snapshot.py").write_text(
        "from trimtab.target import Snapshot\nSNAPSHOT = Snapshot(target='db', kind='fake', reach={})\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=environment)
    mine = Journal(tmp_path).begin(SNAPSHOT, study="mine", purpose="tune")
    alive = {entry.study: entry.is_owner_alive for entry in Journal(tmp_path).open_entries()}
    assert alive == {"dead": False, "mine": True}
    assert mine.is_owner_alive


def test_torn_step_does_no_harm(tmp_path: Path) -> None:
    entry = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    with entry.path.open("a") as file:
        file.write('{"step": "app')
    assert [e.snapshot for e in Journal(tmp_path).open_entries()] == [SNAPSHOT]


def test_entry_without_its_first_line_changed_nothing_and_is_dropped(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    directory.mkdir()
    (directory / "db-1-1.open").touch()
    assert Journal(tmp_path).open_entries() == []
    assert list(directory.glob("*.open")) == []


def test_damaged_entry_says_so(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    directory.mkdir()
    (directory / "db-1-1.open").write_text("garbage\n")
    with pytest.raises(TargetError, match=r"cannot read journal entry=db-1-1\.open") as caught:
        Journal(tmp_path).open_entries()
    assert caught.value.hint == "restore the target's configuration from your own backup and remove that file"


def test_unwritable_journal_stops_before_anything_changes(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("a file where the directory should be")
    with pytest.raises(TargetError, match="cannot write the journal in directory=") as caught:
        Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("nothing was changed")


def test_unreadable_snapshot_says_what_to_do() -> None:
    with pytest.raises(TargetError, match="the journal holds no readable snapshot") as caught:
        snapshot_from_json('{"target": "db"}')
    assert caught.value.hint is not None
    assert "backup" in caught.value.hint
