"""What a tuner that died has left of a target: it is restored, what is somebody else's stays, and all of it is told."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeStudy
from tests.host.test_folder_acl import ACL, LIST, set_or_skip
from trimtab.cli import main
from trimtab.errors import RestoreError, TargetError, UsageError
from trimtab.host import FileCopy, read_state_file
from trimtab.space import Config
from trimtab.study import (
    extract,
    leave,
    open_changes,
    recover,
    shown,
)
from trimtab.study.first import recover_first
from trimtab.study.recovery import by_hand
from trimtab.systems import Undone
from trimtab.systems.files import file_to_json
from trimtab.testing.fake_target import FakeTarget
from trimtab.trial import Entry, Journal, own_to_json
from trimtab.trial.copies import note_copies
from trimtab.trial.entry import APPLY, FAILED, TRIED
from trimtab.trial.undo import undo

pytestmark = pytest.mark.slow


def dead_entry(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch, study: str = "dead") -> Entry:
    """Of a tuner that died with cache=999 of its own on the server."""
    state, target = fake.path / "state", fake.target
    entry = Journal(state).begin(target.snapshot(), study=study, purpose="tune")
    assert open_changes(state) == []
    own = target.announce(Config({"cache": 999}))
    entry.note(APPLY, {"target": target.name, "changes": {"cache": 999}, "own": own_to_json(own)})
    target.disk.running["cache"] = target.disk.configured["cache"] = 999
    monkeypatch.setattr("trimtab.trial.entry.process_mark", lambda pid: "")
    return entry


def test_recover_restores_what_a_dead_tuner_left(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    state = fake.path / "state"
    found = dict(fake.target.values)
    dead_entry(fake, monkeypatch)
    fake.target.disk.running["workers"] = 7  # somebody else's
    half = state / "rollback" / "dead.4194303.partial"
    half.parent.mkdir(0o700)
    half.touch()
    (done,), stuck = recover(state)
    assert (stuck, half.exists()) == ([], False)
    assert (done.study, done.target, done.action) == ("dead", "db", "restored as it was found")
    assert dict(fake.target.values) == {**found, "workers": 7}
    assert recover(state) == ([], [])


def test_a_value_that_somebody_else_has_set_since_is_left_and_told(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_entry(fake, monkeypatch)
    fake.target.disk.running["cache"] = fake.target.disk.configured["cache"] = 777
    (done,), _ = recover(fake.path / "state")
    assert "cache=777: somebody else has set it meanwhile" in done.action
    assert fake.target.values["cache"] == 777


def test_an_entry_that_could_not_be_undone_restarts_nothing_again_and_waits(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = fake.path / "state"
    entry = dead_entry(fake, monkeypatch)
    entry.note(TRIED, {"target": "db"})
    entry.note(FAILED, {"error": "it did not start"})
    for _ in range(2):
        (done, (stuck,)) = recover(state)
        assert done == []
        assert "needs a restart, which was tried already and did not help: it did not start" in stuck.error.message
        assert f"`trimtab recover --state {state} --retry dead` allows one more restart" in str(stuck.error.hint)
    (open_entry,) = shown(state)
    assert (open_entry.study, open_entry.may_restart) == ("dead", False)
    assert [(k.knob, k.ours, k.now, k.action) for k in open_entry.knobs] == [
        ("cache", "999", "999", "is put back, by a restart")
    ]
    with pytest.raises(TargetError, match="may still hold what study='dead' has set") as refused:
        Journal(state).begin(fake.target.snapshot(), study="next", purpose="tune")
    assert f"`trimtab recover --state {state} --leave dead`" in str(refused.value.hint)
    other = Journal(state).begin(FakeTarget("elsewhere").snapshot(), study="next", purpose="tune")
    other.close("another server is not in its way")
    (done,), stuck_now = recover(state, retry="dead")
    assert (done.action, stuck_now) == ("restored as it was found", [])


@pytest.mark.parametrize(
    ("name", "content", "command"),
    [
        ("/proc/sys/vm/swappiness", b"60\n", "  echo 60 > /proc/sys/vm/swappiness"),
        ("/sys/block/sda/queue/scheduler", b"none [mq-deadline] bfq\n", "  echo mq-deadline > /sys/block/sda/queue/scheduler"),
        ("/proc/sys/net/ipv4/tcp_rmem", b"4096\t131072\n", "  echo '4096\t131072' > /proc/sys/net/ipv4/tcp_rmem"),
    ],
)  # fmt: skip
def test_a_setting_of_the_kernel_is_put_back_by_its_value(name: str, content: bytes, command: str) -> None:
    """No file can take the place of one of the kernel's, and a choice is written without the others."""
    copy = FileCopy(content=content, mode=0o644, uid=0, gid=0)
    assert by_hand(name, copy, "1-x") == [f"{name}: a setting of the kernel. To put it back, as root:", command]
    assert by_hand(name, None, "1-x") == [], "nothing was set in what this kernel does not have"


def test_instructions_are_for_any_path(fake: FakeStudy) -> None:
    """With a blank in it, or that is no text."""
    copy = FileCopy(content=b"", mode=0o600, uid=0, gid=0)
    lines = by_hand("/srv/my db/a.conf", copy, "1-a.conf")
    assert lines[1] == "  cp 1-a.conf '/srv/my db/a.conf'"
    assert lines[3] == "  install -m 600 -o 0 -g 0 1-a.conf '/srv/my db/a.conf'"
    odd = replace(fake.target.snapshot(), files={os.fsdecode(b"/srv/\xe4.conf"): file_to_json(None)})
    Journal(fake.path / "state").begin(odd, study="dead", purpose="tune")
    (readme,) = extract(fake.path / "state", fake.path / "out")
    assert b"/srv/\xe4.conf: there was no such file." in readme.read_bytes()


def test_what_a_person_types_keeps_the_access_control_list(tmp_path: Path) -> None:
    """A file put in the place of another one would have none, and the group what the list's mask lets others do."""
    conf = tmp_path / "a.conf"
    conf.write_text("ours")
    conf.chmod(0o640)
    set_or_skip(conf, ACL, LIST)
    copy = FileCopy(content=b"found", mode=0o660, uid=os.getuid(), gid=os.getgid())
    (tmp_path / "1-a.conf").write_bytes(copy.content)
    (tmp_path / "1-a.conf").chmod(0o600)
    subprocess.run(by_hand(str(conf), copy, "1-a.conf")[1], shell=True, check=True, cwd=tmp_path)
    assert (conf.read_text(), os.getxattr(conf, ACL), conf.stat().st_mode & 0o777) == ("found", LIST, 0o660)


def test_copies_of_data_are_told_of_when_an_entry_is_given_up(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody drops them afterwards."""
    note_copies(dead_entry(fake, monkeypatch), fake.target.name, ["shop_run"])
    folder = leave(fake.path / "state", "dead")
    told = (folder / "dead-tune-db" / "README.txt").read_text()
    assert "Copies of data that runs used, yours to drop where they are still there:\n  database=shop_run\n" in told


def test_an_entry_is_given_up_and_what_was_found_is_kept(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    state = fake.path / "state"
    dead_entry(fake, monkeypatch)
    with pytest.raises(UsageError, match="nothing of study='alive' is open") as caught:
        leave(state, "alive")
    assert caught.value.hint == "open: dead"
    written = extract(state, fake.path / "out")
    assert [path.name for path in written] == ["1-fake.conf", "README.txt"]
    assert "cache: 999; 128" in written[1].read_text()
    with pytest.raises(UsageError, match="is not empty"):
        extract(state, fake.path / "out")
    folder = leave(state, "dead")
    assert (folder / "dead-tune-db" / "1-fake.conf").read_bytes() == written[0].read_bytes()
    assert fake.target.values["cache"] == 999
    assert recover(state) == ([], [])


def test_a_study_that_goes_on_is_not_said_to_have_left_nothing_open(fake: FakeStudy) -> None:
    """Whoever has just seen it under `recover --show` would believe that the server is as it was found."""
    state = fake.path / "state"
    entry = Journal(state).begin(fake.target.snapshot(), study="alive", purpose="tune")
    for way in (lambda: leave(state, "alive"), lambda: recover(state, retry="alive")):
        with pytest.raises(UsageError) as caught:
            way()
        assert caught.value.message == f"the tune of study='alive' has not ended: pid {os.getpid()} works on it"
        assert f"`kill {os.getpid()}`" in str(caught.value.hint)
    assert entry.is_open


@pytest.mark.parametrize(
    ("name", "error", "note"),
    [
        ("open", FileNotFoundError(2, "No usable temporary directory"), "it cannot be asked: FileNotFoundError: "),
        ("states", UsageError("kind='fake' is not installed"), "it cannot be asked: kind='fake' is not installed"),
    ],
)
def test_a_server_that_cannot_be_asked_for_whatever_reason_is_shown(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch, name: str, error: Exception, note: str
) -> None:
    def fails() -> None:
        raise error

    dead_entry(fake, monkeypatch)
    monkeypatch.setattr(fake.target, name, fails)
    (found,) = shown(fake.path / "state")
    assert found.note.startswith(note)
    assert [(knob.knob, knob.now, knob.action) for knob in found.knobs] == [
        ("cache", "", "is put back where it is still ours")
    ]


def test_what_another_process_is_still_putting_back_is_no_clean_server(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a dead-man whose server replays a long log: "nothing to recover" would send the user away."""
    state = fake.path / "state"
    monkeypatch.setattr("trimtab.study.recovery._CLAIM_S", 0.2)
    with dead_entry(fake, monkeypatch).claim() as is_the_dead_mans:
        assert is_the_dead_mans
        done, (stuck,) = recover(state)
        assert (done, stuck.study, stuck.target) == ([], "dead", "db")
        assert "another process has been putting the server back for 200ms, and goes on" in stuck.error.message
        with pytest.raises(TargetError, match="another process has been putting the server back"):
            leave(state, "dead")
        assert len(open_changes(state)) == 1
    (done_now,), stuck_now = recover(state)
    assert (done_now.action, stuck_now) == ("restored as it was found", [])


def test_what_another_process_has_put_back_meanwhile_is_not_said_to_be_left(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a dead-man whose end `recover --leave` has waited for."""
    state = fake.path / "state"
    dead_entry(fake, monkeypatch)

    @contextmanager
    def ends(entry: Entry, timeout_s: float = 0.0) -> Iterator[bool]:
        entry.close("restored", by="dead-man")
        yield False

    monkeypatch.setattr(Entry, "claim", ends)
    with pytest.raises(
        UsageError, match="nothing of study='dead' is open any more: another process has put the"
    ) as caught:
        leave(state, "dead")
    assert caught.value.hint == f"{state}/journal/audit.jsonl says how it ended"
    assert not (state / "left").exists()


def test_an_entry_that_cannot_be_closed_keeps_no_other_one_from_its_way_back(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, close = fake.path / "state", Entry.close
    Journal(state).begin(FakeTarget("elsewhere").snapshot(), study="first", purpose="tune")
    dead_entry(fake, monkeypatch, "second")

    def refuse(entry: Entry, outcome: str, *, by: str = "trimtab") -> None:
        if entry.study == "first":
            raise TargetError("the audit log cannot be written", hint="free some space")
        close(entry, outcome, by=by)

    monkeypatch.setattr(Entry, "close", refuse)
    (done,), (stuck,) = recover(state)
    assert (done.study, stuck.study, stuck.error.message) == ("second", "first", "the audit log cannot be written")


def test_an_entry_that_is_damaged_twice_keeps_no_other_one_from_its_way_back(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state, found = fake.path / "state", dict(fake.target.values)
    dead_entry(fake, monkeypatch)
    broken = state / "journal" / "db-1-1.open"  # older, so that it comes first
    for suffix in (".open", ".copy"):
        broken.with_suffix(suffix).touch(0o600)
    with pytest.raises(SystemExit) as ended:
        main(["recover", "--state", str(state)])
    out, err = capsys.readouterr()
    assert ended.value.code == 3
    assert out == "study dead: target db restored as it was found\n"
    assert err.startswith(
        f"error: cannot read journal entry={broken.name}: it is damaged, and so is its copy (1 other entry recovered)\nhint: "
    )
    assert dict(fake.target.values) == found
    assert broken.exists()
    with pytest.raises(TargetError, match="it is damaged, and so is its copy"):
        recover_first(state, print)  # it may be about the server of any study


@pytest.mark.parametrize("broken", [".open", ".copy"])
def test_an_entry_that_the_disk_can_read_in_one_file_only_is_undone_by_that(
    broken: str, fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, found = fake.path / "state", dict(fake.target.values)
    dead_entry(fake, monkeypatch)
    read = read_state_file

    def failing(path: Path) -> bytes:
        if path.suffix == broken:
            raise OSError(errno.EIO, "Input/output error")
        return read(path)

    monkeypatch.setattr("trimtab.trial.entry.read_state_file", failing)
    (done,), stuck = recover(state)
    told = "; skipped: 1 damaged line of its journal" if broken == ".open" else ""
    assert (done.action, stuck) == (f"restored as it was found{told}", [])
    assert dict(fake.target.values) == found
    assert open_changes(state) == []


@pytest.mark.parametrize("broken", [".open", ".copy"])
def test_a_line_that_is_damaged_in_the_file_that_is_left_keeps_the_entry_open(
    broken: str, fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it announced nobody knows any more."""
    state, read = fake.path / "state", read_state_file
    entry = dead_entry(fake, monkeypatch)
    left = entry.path.with_suffix(".copy" if broken == ".open" else ".open")
    head, step = left.read_bytes().splitlines(keepends=True)
    left.write_bytes(head + step.replace(b"999", b"998"))

    def failing(path: Path) -> bytes:
        if path.suffix == broken:
            raise OSError(errno.EIO, "Input/output error")
        return read(path)

    monkeypatch.setattr("trimtab.trial.entry.read_state_file", failing)
    done, (stuck,) = recover(state)
    assert not done
    assert "what is ours is not known for certain" in stuck.error.message
    assert [each.path for each in open_changes(state)] == [entry.path]


def test_a_rollback_file_that_the_disk_cannot_read_is_one_that_is_damaged(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = fake.path / "state"
    (state / "rollback").mkdir(0o700, parents=True)
    (state / "rollback" / "old.json").touch(0o600)

    def failing(path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("trimtab.study.rollback_point.read_state_file", failing)
    unread: list[TargetError] = []
    assert extract(state, fake.path / "out", unread) == []
    (error,) = unread
    assert error.message.endswith("/rollback/old.json' cannot be used: its disk cannot read it")


@pytest.mark.parametrize(
    ("ways", "shown_of_others"),
    [
        (("--show",), "  cache: set to 999, found 128, now 999: is put back, by a restart\n"),
        (("--check",), "study dead: tune of db since "),
        (("--extract", "out"), "out/dead-tune-db/README.txt\n"),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_what_is_damaged_is_named_after_the_others_were_shown(
    ways: tuple[str, ...], shown_of_others: str, fake: FakeStudy, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    state = fake.path / "state"
    dead_entry(fake, monkeypatch)
    broken = [state / "journal" / "db-1-1.open", state / "journal" / "db-1-1.copy", state / "rollback" / "old.json"]
    broken[-1].parent.mkdir(0o700)
    for file in broken:
        file.touch(0o600)
    monkeypatch.chdir(fake.path)
    with pytest.raises(SystemExit) as ended:
        main(["recover", *ways, "--state", str(state)])
    out, err = capsys.readouterr()
    assert ended.value.code == 3
    assert shown_of_others in out
    assert "cannot read journal entry=db-1-1.open: it is damaged, and so is its copy" in err
    assert "remove that entry's files (.open and .copy)" in err
    assert ("/rollback/old.json' cannot be used: it is damaged" in err) == (ways != ("--check",))
    with pytest.raises(SystemExit):
        main(["recover", *([*ways[:1], "again"] if len(ways) > 1 else ways), "--state", str(state), "--json"])
    damaged = json.loads(capsys.readouterr().out)["damaged"]
    assert len(damaged) == (1 if ways == ("--check",) else 2)
    assert all(file.exists() for file in broken)


def test_two_servers_that_one_study_called_the_same_are_written_out_both(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = fake.path / "state"
    dead_entry(fake, monkeypatch)
    Journal(state).begin(FakeTarget("db").snapshot(), study="dead", purpose="tune")
    assert len(extract(state, fake.path / "out")) == 4
    folder = leave(state, "dead")
    assert sorted(path.name for path in folder.iterdir()) == ["dead-tune-db", "dead-tune-db-2"]
    assert recover(state) == ([], [])


@pytest.mark.parametrize("is_short", [True, False])
def test_an_undo_that_could_open_no_more_files_does_not_count_as_a_restart(
    is_short: bool, fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study that ran out of them is gone; `recover` has its own."""
    state = fake.path / "state"
    entry = dead_entry(fake, monkeypatch)

    def fails(entry: Entry, *_: object) -> Undone:
        entry.note(TRIED, {"target": "db"})
        raise RestoreError("the server's log cannot be written: Too many open files")

    last = os.open(os.devnull, os.O_RDONLY)
    os.close(last)
    found = resource.getrlimit(resource.RLIMIT_NOFILE)
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[undo.__module__], "_restore", fails)
        resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1 if is_short else found[0], found[1]))  # one is left
        try:
            with pytest.raises(TargetError, match="Too many open files"):
                undo(entry, holder="study")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, found)
    done, stuck = recover(state)
    assert [each.action for each in done] == (["restored as it was found"] if is_short else [])
    assert bool(stuck) is not is_short
