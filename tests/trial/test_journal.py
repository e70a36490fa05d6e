"""The journal: on disk before the change, exact, and readable after a death at any point."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.read_only import make_read_only
from trimtab.errors import TargetError
from trimtab.systems import Snapshot
from trimtab.trial import Journal, snapshot_from_json, snapshot_to_json
from trimtab.trial.entry import _merged
from trimtab.trial.lines import encode_line, read_lines, write_new_file

SNAPSHOT = Snapshot(
    target="db",
    kind="postgresql",
    reach={"embedded": "18"},
    files={"postgresql.auto.conf": {"content": b"work_mem = '4MB'\n\xff", "mode": 0o600}},
    values={"work_mem": 4096, "jit": True},
)


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)


def test_snapshot_survives_json_exactly_bytes_included() -> None:
    assert snapshot_from_json(snapshot_to_json(SNAPSHOT)) == SNAPSHOT


def test_entry_is_on_disk_before_begin_returns_and_private(tmp_path: Path) -> None:
    entry = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    assert stat.S_IMODE(entry.path.stat().st_mode) == 0o600
    (found,) = Journal(tmp_path).open_entries()
    assert (found.study, found.purpose, found.snapshots) == ("s", "tune", (SNAPSHOT,))


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
        "from trimtab.systems import Snapshot\nSNAPSHOT = Snapshot(target='db', kind='fake', reach={})\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=environment)
    mine = Journal(tmp_path).begin(SNAPSHOT, study="mine", purpose="tune")
    alive = {entry.study: entry.is_owner_alive for entry in Journal(tmp_path).open_entries()}
    assert alive == {"dead": False, "mine": True}
    assert mine.is_owner_alive


def test_torn_step_does_no_harm_and_the_next_one_is_read(tmp_path: Path) -> None:
    entry = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    with entry.path.open("a") as file:
        file.write('0123456789abcdef {"step": "app')
    entry.note("restore", {"n": 1})
    (found,) = Journal(tmp_path).open_entries()
    assert found.snapshots == (SNAPSHOT,)
    assert (found.steps(), found.n_damaged) == ([("restore", {"n": 1})], 1)


@pytest.mark.parametrize("suffix", [".open", ".copy"])
@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "gone"])
def test_one_damaged_file_of_two_is_survived(tmp_path: Path, suffix: str, damage: str) -> None:
    entry = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    path = entry.path.with_suffix(suffix)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    changed = {"empty": b"", "cut": bytes(content[:40]), "flipped": bytes(content)}
    path.unlink() if damage == "gone" else path.write_bytes(changed[damage])
    (found,) = Journal(tmp_path).open_entries()
    assert found.snapshots == (SNAPSHOT,)
    found.close("recovered")
    assert [p.name for p in (tmp_path / "journal").iterdir()] == ["audit.jsonl"]


def test_entry_damaged_twice_is_never_dropped(tmp_path: Path) -> None:
    entry = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    for suffix in (".open", ".copy"):
        entry.path.with_suffix(suffix).write_bytes(b"")
    with pytest.raises(TargetError, match=r"cannot read journal entry=db-.*\.open: it is damaged, and so is its copy"):
        Journal(tmp_path).open_entries()
    assert entry.path.exists()


def test_no_single_flipped_bit_goes_unseen(tmp_path: Path) -> None:
    line = encode_line({"step": "apply", "detail": {"changes": {"work_mem": 8192}}})
    for index in range(len(line) - 1):
        for bit in range(8):
            flipped = bytearray(line)
            flipped[index] ^= 1 << bit
            assert {"step": "apply", "detail": {"changes": {"work_mem": 8192}}} not in read_lines(bytes(flipped))


def test_leftovers_of_a_begin_that_died_are_swept(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    directory.mkdir()
    for name in ("db-4194303-1.open.partial", "db-4194303-1.reserve"):
        (directory / name).touch()
    assert Journal(tmp_path).open_entries() == []
    assert list(directory.iterdir()) == []


def test_entry_that_died_while_it_was_closed_is_tidied_away(tmp_path: Path) -> None:
    entry = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="apply")
    entry.note("close", {"outcome": "applied"})
    assert Journal(tmp_path).open_entries() == []
    assert not entry.is_open
    (line,) = read_lines((tmp_path / "journal" / "audit.jsonl").read_bytes())
    assert line is not None
    assert (line["outcome"], line["uid"]) == ("applied", os.getuid())


@pytest.mark.parametrize("version", [1, 2, 4, None, "3"])
def test_entry_of_another_schema_is_refused_and_kept(tmp_path: Path, version: object) -> None:
    directory = tmp_path / "journal"
    directory.mkdir(0o700)
    write(directory / "db-1-1.open", encode_line({"schema_version": version, "anything": True}))
    with pytest.raises(TargetError, match=f"is of schema_version={version}; this Trimtab reads 3") as caught:
        Journal(tmp_path).open_entries()
    assert caught.value.hint == "run `trimtab recover` of the version that wrote it"
    assert (directory / "db-1-1.open").exists()


def test_entry_holds_several_targets_and_their_hashes(tmp_path: Path) -> None:
    other = replace(SNAPSHOT, target="web", files={"/etc/web.conf": {"content": None}})
    entry = Journal(tmp_path).begin(SNAPSHOT, other, study="stack", purpose="apply")
    (found,) = Journal(tmp_path).open_entries()
    assert found.snapshots == (SNAPSHOT, other)
    head = read_lines(entry.path.read_bytes())[0]
    assert head is not None
    assert head["sha256"] == {
        "postgresql.auto.conf": hashlib.sha256(b"work_mem = '4MB'\n\xff").hexdigest(),
        "/etc/web.conf": None,
    }


def test_one_restorer_at_a_time(tmp_path: Path) -> None:
    mine = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    (other,) = Journal(tmp_path).open_entries()
    with mine.claim() as is_mine:
        assert is_mine
        with other.claim(0.1) as is_others:
            assert not is_others
        mine.close("restored")
    with other.claim(5.0) as is_others:
        assert not is_others


def _full_disk(monkeypatch: pytest.MonkeyPatch, is_full: Callable[[], bool]) -> None:
    """Writes fail half way, as on a disk that fills up, while `is_full`."""
    write = os.write

    def fails(handle: int, data: bytes) -> int:
        if is_full():
            if len(data) > 8:
                return write(handle, data[:8])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data)

    monkeypatch.setattr("trimtab.trial.lines.os.write", fails)


def test_full_disk_stops_a_change_and_lets_the_restore_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    reserve = entry.path.with_suffix(".reserve")
    assert reserve.stat().st_size == 65536
    _full_disk(monkeypatch, reserve.exists)
    with pytest.raises(
        TargetError, match="cannot write the journal in directory=.*: No space left on device"
    ) as caught:
        entry.note("apply", {"changes": {"work_mem": 1}})
    assert (
        caught.value.hint == "step=apply was not made; free space there, or give another state directory with --state"
    )
    entry.note_if_possible("restore")
    assert entry.steps() == [("restore", {})]
    entry.close("restored")
    assert not entry.is_open


def test_full_disk_leaves_nothing_of_a_new_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune").close("restored")
    _full_disk(monkeypatch, lambda: True)
    with pytest.raises(TargetError, match="cannot write the journal") as caught:
        Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    assert str(caught.value.hint).startswith("nothing was changed")
    assert [p.name for p in (tmp_path / "journal").iterdir()] == ["audit.jsonl"]


def test_a_rollback_on_a_full_disk_is_sent_to_no_state_directory_that_knows_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="rollback")
    _full_disk(monkeypatch, lambda: True)
    with pytest.raises(TargetError, match="No space left on device") as noting:
        entry.note("applied")
    assert noting.value.hint == "step=applied was not made; free space there"
    with pytest.raises(TargetError, match="No space left on device") as beginning:
        Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="rollback")
    assert beginning.value.hint == "nothing was changed; make that directory writable, or free space there"


def test_damaged_entry_says_so(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    directory.mkdir(0o700)
    write(directory / "db-1-1.open", b"garbage\n")
    with pytest.raises(TargetError, match=r"cannot read journal entry=db-1-1\.open") as caught:
        Journal(tmp_path).open_entries()
    assert caught.value.hint == (
        "restore the target's configuration from your own backup, then remove that entry's files (.open and .copy) from the"
        " folder journal of the state directory"
    )


def test_unwritable_journal_stops_before_anything_changes(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("a file where the directory should be")
    with pytest.raises(TargetError, match="cannot write the journal in directory=") as caught:
        Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("nothing was changed")


def test_a_file_system_without_locks_stops_before_anything_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Lustre's without the option for them: nobody could claim the entry to take the change back."""

    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("trimtab.trial.entry.fcntl.flock", refuse)
    with pytest.raises(TargetError, match="files there cannot be locked .Function not implemented.") as caught:
        Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    assert str(caught.value.hint).startswith("nothing was changed; give a writable state directory")
    assert list((tmp_path / "journal").iterdir()) == []


def test_a_state_directory_on_nfs_is_as_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client locks a file for one process alone only through a descriptor that may write (flock(2))."""
    flock = fcntl.flock

    def as_nfs(handle: int, operation: int) -> None:
        if operation & fcntl.LOCK_EX and fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(handle, operation)

    monkeypatch.setattr("trimtab.trial.entry.fcntl.flock", as_nfs)
    entry = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    with entry.claim() as is_ours, entry.claim() as is_anothers:
        assert (is_ours, is_anothers) == (True, False)


def test_a_file_system_whose_locks_keep_everybody_out_stops_before_anything_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SMB's: what is locked through one descriptor cannot be read through another (flock(2))."""
    locked = list[int]()

    def read(path: Path) -> bytes:
        if locked:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return path.read_bytes()

    monkeypatch.setattr("trimtab.trial.entry.fcntl.flock", lambda handle, operation: locked.append(handle))
    monkeypatch.setattr("trimtab.trial.journal.read_state_file", read)
    with pytest.raises(TargetError, match="files there cannot be locked .Permission denied."):
        Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    assert list((tmp_path / "journal").iterdir()) == []


def test_an_entry_can_be_claimed_where_its_disk_has_become_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an error of the disk: the server's own may be well."""
    entry = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    make_read_only(monkeypatch)
    with entry.claim() as is_ours:
        assert is_ours


@pytest.mark.parametrize("what", ["files", "folders"])
def test_a_file_system_without_modes_stops_before_anything_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """As a Windows drive's or a shared folder's: what others may write is not obeyed, so that nobody could take a change back."""

    def write_open(path: Path, content: bytes, partial: Path) -> None:
        write_new_file(path, content, partial)
        (path if what == "files" else path.parent).chmod(0o777)

    monkeypatch.setattr("trimtab.trial.journal.write_new_file", write_open)
    with pytest.raises(
        TargetError, match=r"is not obeyed: others may write it \(mode=777\); does its file system keep modes"
    ) as caught:
        Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    assert str(caught.value.hint).startswith("nothing was changed; give a writable state directory")
    assert list((tmp_path / "journal").iterdir()) == []


def test_unreadable_snapshot_says_what_to_do() -> None:
    with pytest.raises(TargetError, match="the journal holds no readable snapshot") as caught:
        snapshot_from_json('{"target": "db"}')
    assert caught.value.hint is not None
    assert "backup" in caught.value.hint


def test_the_reserve_takes_room_where_files_are_compressed(tmp_path: Path) -> None:
    entry = Journal(tmp_path).begin(SNAPSHOT, study="s", purpose="tune")
    assert len(zlib.compress(entry.path.with_suffix(".reserve").read_bytes())) >= 64 * 1024


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12))
def test_two_files_with_gaps_give_all_lines_in_order(kept: list[tuple[bool, bool]]) -> None:
    files = [[{"step": number} if is_whole[i] else None for number, is_whole in enumerate(kept)] for i in (0, 1)]
    steps = [line["step"] for line in _merged(*files)]
    assert sorted(steps) == [number for number, is_whole in enumerate(kept) if any(is_whole)]
    for file in files:
        mine = [line["step"] for line in file if line is not None]
        assert [step for step in steps if step in mine] == mine


class _Counted(dict[str, Any]):
    """A line that counts how often it is compared."""

    n_compared = 0
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        _Counted.n_compared += 1
        return dict.__eq__(self, other)


@pytest.mark.parametrize("n_lost", [0, 1])
def test_a_long_journal_is_read_in_proportion_to_its_length(n_lost: int) -> None:
    """The last line may be in one file only, where a kill came between the two."""
    first, second = ([_Counted(step=number) for number in range(500)] for _ in range(2))
    _Counted.n_compared = 0
    assert len(_merged(first, second[: len(second) - n_lost])) == 500
    assert _Counted.n_compared <= 2 * 500
