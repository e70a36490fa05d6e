"""Options of mounted file systems: each on a real ext4, what others lack, and what is mounted in the place of the one found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.systems.kernel import STUDY, alone, kernel, linux
from trimtab import plugins
from trimtab.errors import ApplyError, RestoreError, TargetError, UsageError
from trimtab.host import mount_of
from trimtab.space import Config, KnobKind
from trimtab.study import checks_of, load_study_file, open_stage
from trimtab.study.recovery import by_hand
from trimtab.systems.catalog_file import catalog_faults
from trimtab.systems.files import file_from_json
from trimtab.systems.kinds import kind_of_catalog
from trimtab.testing.target_suite import Subject, TargetSuite

__all__ = ["kernel"]

NAMES = (
    "access_times", "lazy_times", "discard", "commit_interval", "max_batch_time", "min_batch_time", "extent_max_zeroout_kb",
)  # fmt: skip
EXT4_ONLY = NAMES[2:]
CHANGES = Config({"access_times": "noatime", "max_batch_time": 0, "extent_max_zeroout_kb": 64})
OTHER = Config({"discard": True})

pytestmark = [pytest.mark.needs("sysctl"), pytest.mark.needs("mounts"), pytest.mark.needs("loop-device", "ext4")]


def run(*argv: object) -> None:
    subprocess.run([str(word) for word in argv], check=True, capture_output=True)


@contextmanager
def mounted(point: Path, *argv: object) -> Iterator[Path]:
    """A file system at `point`, as the arguments of mount(8) say."""
    point.mkdir(exist_ok=True)
    run("mount", *argv, point)
    try:
        yield point
    finally:
        run("umount", point)


@pytest.fixture(scope="module")
def ext4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An ext4 with options that are not the usual ones."""
    folder = tmp_path_factory.mktemp("ext4")
    run("truncate", "-s", "64M", folder / "image")
    run("mkfs.ext4", "-q", "-F", folder / "image")
    with mounted(folder / "mnt", "-o", "loop,nosuid,nodev,noauto_da_alloc,commit=7", folder / "image") as point:
        yield point


def device(point: Path) -> str:
    mount = mount_of(point)
    assert mount is not None
    return Path("/sys/dev/block", mount.device).resolve().name


def shown(point: Path) -> tuple[Any, ...]:
    """All that the kernel says of it."""
    mount, name = mount_of(point), device(point)
    zeros = Path("/sys/fs/ext4", name, "extent_max_zeroout_kb").read_text()
    return mount, Path("/proc/fs/ext4", name, "options").read_text(), zeros


def target(state_dir: Path, point: Path | str, **table: Any) -> Any:
    return linux(state_dir, knobs=["filesystem"], names={"mount": str(point)}, **table)


class TestFileSystem(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, ext4: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
        with alone():
            yield from cls.made(ext4, tmp_path_factory.mktemp("filesystem"))

    @staticmethod
    def made(point: Path, state_dir: Path) -> Iterator[Subject]:
        before, opened = shown(point), target(state_dir, point)
        opened.open()

        def meddle() -> Callable[[], None]:
            file = Path("/sys/fs/ext4", device(point), "extent_max_zeroout_kb")
            found = file.read_text()
            file.write_text("77\n")
            return lambda: file.write_text(found) and None

        yield Subject(
            target=opened,
            again=lambda: target(state_dir / "other", point),
            reattach=lambda snapshot: type(opened).from_snapshot(snapshot, state_dir=state_dir),
            changes=CHANGES,
            other=OTHER,
            refused=("max_batch_time", 10_000_000),
            locked=("commit_interval", 10),
            meddle=meddle,
            can_stay=False,
            state_dir=state_dir,
        )
        opened.close()
        assert shown(point) == before


@pytest.mark.slow  # in make check: the options of TestFileSystem
@pytest.mark.usefixtures("kernel")
def test_each_option_can_be_changed_and_no_other_one_changes_with_it(ext4: Path, tmp_path: Path) -> None:
    before, opened, n_tried = shown(ext4), target(tmp_path, ext4, unlock=["durability"]), 0
    opened.open()
    try:
        found = opened.snapshot()
        states = opened.states()
        assert {name: states[name].lock_reason for name in NAMES if states[name].lock_reason} == {}
        assert (states["commit_interval"].running, states["access_times"].running) == (7, "relatime")
        for name in NAMES:
            knob = states[name].knob
            ends = (
                (True, False) if knob.kind is KnobKind.BOOLEAN else knob.choices or (knob.low, knob.high, *knob.special)
            )
            for value in ends:
                opened.apply(Config({name: value}))
                now = opened.states()
                assert {other for other in NAMES if now[other].running != states[other].running} <= {name}
                assert now[name].running == value
                n_tried += 1
            mount, options, _ = shown(ext4)
            assert {"nosuid", "nodev"} <= set(mount.options)
            assert "noauto_da_alloc" in options.split()
        assert n_tried > 15
        opened.restore(found)
    finally:
        opened.close()
    assert shown(ext4) == before


@pytest.mark.usefixtures("kernel")
def test_flags_that_were_found_stay_whatever_else_is_changed(ext4: Path, tmp_path: Path) -> None:
    run("mount", "-o", "remount,lazytime,discard", ext4)
    opened, before = target(tmp_path, ext4), shown(ext4)
    opened.open()
    try:
        found = opened.snapshot()
        own = opened.apply(Config({"max_batch_time": 0})).own
        mount = mount_of(ext4)
        assert mount is not None
        assert {"lazytime", "discard"} <= set(mount.fs_options)
        run("mount", "-o", "remount,ro", ext4)
        opened.restore(found, own)
        mount = mount_of(ext4)
        assert mount is not None
        assert "ro" in mount.fs_options
        run("mount", "-o", "remount,rw", ext4)
        assert shown(ext4) == before
    finally:
        opened.close()
        run("mount", "-o", "remount,rw,nolazytime,nodiscard", ext4)


@pytest.mark.usefixtures("kernel")
def test_another_file_system_has_what_every_one_has(tmp_path: Path) -> None:
    with mounted(tmp_path / "mnt", "-t", "tmpfs", "-o", "size=1m,noexec", "tmpfs") as point:
        opened = target(tmp_path / "state", point, unlock=["durability"])
        opened.open()
        try:
            found, before, states = opened.snapshot(), mount_of(point), opened.states()
            assert before is not None
            for name in EXT4_ONLY:
                why = f"tmpfs {before.device} at {point} has no option "
                assert states[name].lock_reason.startswith(why), name
            opened.apply(Config({"access_times": "noatime", "lazy_times": True}))
            now = mount_of(point)
            assert now is not None
            assert set(now.options) ^ set(before.options) == {"noatime", "relatime"}
            assert set(now.fs_options) ^ set(before.fs_options) == {"lazytime"}
            opened.restore(found)
            assert mount_of(point) == before
        finally:
            opened.close()


@pytest.mark.usefixtures("kernel")
def test_behind_another_file_system_it_is_put_back_once_that_is_gone(ext4: Path, tmp_path: Path) -> None:
    opened, before = target(tmp_path / "state", ext4), shown(ext4)
    opened.open()
    try:
        found = opened.snapshot()
        own = opened.apply(Config({"access_times": "noatime"})).own
        with mounted(ext4, "-t", "tmpfs", "-o", "size=1m,noatime", "tmpfs"):
            hiding = mount_of(ext4)
            with pytest.raises(
                RestoreError, match=f"ext4 .* at {ext4} is mounted in another place, or behind"
            ) as caught:
                opened.restore(found, own)
            assert "mount it as it was, or unmount it: that ends what was changed" in caught.value.hint
            assert mount_of(ext4) == hiding
        opened.restore(found, own)
    finally:
        opened.close()
    assert shown(ext4) == before


@pytest.mark.usefixtures("kernel")
def test_options_that_went_with_their_file_system_are_not_looked_for_in_another_one(tmp_path: Path) -> None:
    tmpfs = ("-t", "tmpfs", "-o", "size=1m,noatime", "tmpfs")
    with mounted(tmp_path / "mnt", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as point:
        opened = target(tmp_path / "state", point, unlock=["durability"])
        opened.open()
        found = opened.snapshot()
        own = opened.apply(Config({"access_times": "noatime"})).own
        with mounted(tmp_path / "other", *tmpfs):  # keeps the number of its device from being used again
            run("umount", point)
            run("mount", *tmpfs, point)
            after = mount_of(point)
            with pytest.raises(TargetError):
                opened.apply(Config({"access_times": "noatime", "lazy_times": True}))
            opened.restore(found, own)
            opened.close()
            assert mount_of(point) == after


@pytest.mark.slow  # in make check: test_what_the_kernel_refuses_is_told_and_taken_back
def test_what_cannot_be_changed_is_locked_with_the_reason(ext4: Path, tmp_path: Path) -> None:
    def why(point: Path | str) -> str:
        reasons = {state.lock_reason for name, state in target(tmp_path, point).states().items() if name in NAMES}
        assert len(reasons) == 1
        return str(reasons.pop())

    assert why(tmp_path / "gone") == f"there is no folder={str(tmp_path / 'gone')!r}"
    with mounted(tmp_path / "mnt", "-t", "tmpfs", "-o", "ro", "tmpfs") as point:
        assert why(point) == f"the file system at {point} is mounted read-only"
    unnamed = linux(tmp_path, names={}).states()["access_times"].lock_reason
    assert unnamed == (
        'no file system is known that the other targets use: name a folder on it, names = { mount = "/var/lib" }'
    )
    script = """
import os
from pathlib import Path
from tests.systems.test_linux_filesystem import target
made = target(Path("/nowhere"), "/")
os.setgid(65534)
os.setuid(65534)
print(made.states()["access_times"].lock_reason)
print([text for name, is_fine, text in made.doctor() if name == "file system" and not is_fine])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    reason = "the kernel does not let this user change options of /: Operation not permitted"
    assert done.stdout.splitlines() == [reason, str([reason])]


def test_doctor_and_the_printed_lines_say_which_file_system_it_is(ext4: Path, tmp_path: Path) -> None:
    made, mount = target(tmp_path, ext4), mount_of(ext4)
    assert mount is not None
    lines = {name: (is_fine, text) for name, is_fine, text in made.doctor()}
    assert lines["file system"] == (True, f"its settings are those of ext4 {mount.device} at {ext4}")
    assert made.fragment(Config({**CHANGES, "lazy_times": True})).splitlines() == [
        f"# access_times, lazy_times, max_batch_time: options of {ext4} in /etc/fstab",
        "# noatime,lazytime,max_batch_time=0",
        "# extent_max_zeroout_kb",
        f"w /sys/fs/ext4/{device(ext4)}/extent_max_zeroout_kb - - - - 64",
    ]


MINE = """
schema = 2
kind = "mine"
[channel.data]
codec = "keyvalue"
path = "mount:{mount}"
[knob.nobarrier]
doc = "No option that is offered."
channel = "data"
address = "atime"
type = "choice"
choices = ["relatime", "never"]
default = "relatime"
"""


@pytest.mark.usefixtures("kernel")
def test_what_the_kernel_refuses_is_told_and_taken_back(ext4: Path, tmp_path: Path) -> None:
    before = shown(ext4)
    kind = kind_of_catalog(MINE.replace("nobarrier", "times"), where=str(tmp_path / "m.toml"))
    opened = kind.from_settings("os", {"names": {"mount": str(ext4)}}, state_dir=tmp_path)
    opened.open()
    try:
        found = opened.snapshot()
        with pytest.raises(TargetError, match=rf"the kernel refuses for {ext4}: atime=never: it knows no such word"):
            opened.apply(Config({"times": "never"}))
        opened.restore(found)
        with pytest.raises(ApplyError, match="options of a mounted file system are gone after a restart") as caught:
            opened.apply(Config({"times": "relatime"}), stays=True)
        assert caught.value.hint == "put the printed ones into /etc/fstab"
    except RestoreError as error:
        pytest.fail(str(error))
    finally:
        opened.close()
    assert shown(ext4) == before


RUNNING = (
    MINE.replace("nobarrier", "times").replace('"never"', '"noatime"')
    + """
[knob.speed]
doc = "How fast it works."
channel = "conf"
type = "integer"
low = 1
high = 9
default = 1
[channel.conf]
codec = "keyvalue"
path = "db.conf"
"""
)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("read", [{}, {"read": "sed -n 's/^{address} = //p' db.conf"}])
def test_it_may_belong_to_a_program_that_runs(ext4: Path, tmp_path: Path, read: dict[str, str]) -> None:
    """Its options count at once, and the program is restarted for what is in its files alone."""
    (tmp_path / "db.conf").write_text("speed = 1\n")
    table = {"run": "sleep 600", "files": {"data": f"mount:{ext4}"}, "folder": str(tmp_path), **read}
    kind, before = kind_of_catalog(RUNNING, where=str(tmp_path / "db.toml")), shown(ext4)
    opened = kind.from_settings("db", table, state_dir=tmp_path / "state", directory=tmp_path)
    opened.open()
    try:
        assert not opened.notes()
        assert opened.doctor()
        found = opened.snapshot()
        assert not opened.apply(Config({"times": "noatime"})).restarted
        assert opened.states()["times"].running == "noatime"
        assert opened.apply(Config({"times": "noatime", "speed": 2})).restarted
        opened.restore(found)
        assert opened.states()["speed"].running == 1
    finally:
        opened.close()
    assert shown(ext4) == before


@pytest.mark.usefixtures("kernel")
def test_the_commands_that_recover_prints_put_it_back(ext4: Path, tmp_path: Path) -> None:
    opened, before, name = target(tmp_path, ext4), shown(ext4), f"mount:{ext4}"
    opened.open()
    try:
        found = opened.snapshot()
        opened.apply(CHANGES)
        head, *commands = by_hand(name, file_from_json(found.files[name]), "1-mnt")
        assert head == f"{name}: options of a mounted file system. To put them back:"
        for command in commands:
            subprocess.run(command, shell=True, check=True)
        assert shown(ext4) == before
        opened.restore(found)
    finally:
        opened.close()
    assert by_hand("mount:{mount}", None, "1-x") == []


@pytest.mark.usefixtures("kernel")
def test_it_is_put_back_without_the_folder_by_which_it_was_named(ext4: Path, tmp_path: Path) -> None:
    (ext4 / "data").mkdir()
    opened, before = target(tmp_path, ext4 / "data"), shown(ext4)
    opened.open()
    try:
        found = opened.snapshot()
        own = opened.apply(Config({"access_times": "noatime"})).own
        (ext4 / "data").rmdir()
        opened.restore(found, own)
    finally:
        opened.close()
    assert shown(ext4) == before


def test_doctor_goes_on_without_it(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    with alone(), open_stage(load_study_file(tmp_path / "study.toml"), tmp_path / "state") as stage:
        verdicts = {check.check: check.verdict for check in checks_of(stage, tmp_path / "state")}
    assert verdicts["file system"] == "note"
    assert "fail" not in verdicts.values()


def test_tuners_of_one_kernel_know_each_other_whatever_they_name(tmp_path: Path) -> None:
    named = ({}, {"disk": "loop6"}, {"disk": "loop7", "mount": "/proc"})
    assert len({linux(tmp_path, names=names)._reach.owner.path for names in named}) == 1


def test_tuners_of_one_table_know_each_other_wherever_they_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = {
        "files": {"table": "cql:shop.orders"},
        "url": "cql://127.0.0.1:9042/",
        "restart": "true",
        "pid_file": "/run/c.pid",
    }
    places = set()
    for folder in (tmp_path, Path("/")):
        monkeypatch.chdir(folder)
        places.add(
            plugins.load("targets", "cassandra").from_settings("db", table, state_dir=tmp_path)._reach.owner.path
        )
    assert len(places) == 1


def test_bad_names_and_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names mount='var/lib' is not the path of a folder") as caught:
        target(tmp_path, "var/lib")
    assert caught.value.hint == 'write a folder on the file system: names = { mount = "/var/lib" }'
    with pytest.raises(UsageError, match="files filesystem='/etc/fstab': this channel is a mounted file system"):
        linux(tmp_path, files={"filesystem": "/etc/fstab"})
    _, faults = catalog_faults(MINE.replace('"keyvalue"', '"ini"'))
    assert any('path="mount:..." goes with codec = "keyvalue"' in message for message, _ in faults)
