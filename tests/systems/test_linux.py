"""The kernel of this machine as a target: the conformance suite on the real one, kill -9, and what cannot be written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.commands import start_trimtab
from tests.needs import LOOP_DEVICE
from tests.systems.kernel import DISK, STUDY, alone, kernel, linux
from trimtab import plugins
from trimtab.errors import ApplyError, TargetError, UsageError
from trimtab.host import LocalHost, disk_under, mount_of
from trimtab.space import Config, Knob, KnobKind
from trimtab.study import load_study_file, open_stage
from trimtab.systems.capabilities import LastingTarget
from trimtab.systems.catalog_file import catalog_faults
from trimtab.systems.file_knobs import unknown_choice
from trimtab.systems.kinds import kind_of_catalog
from trimtab.systems.stack import Stack
from trimtab.systems.tier import Tier
from trimtab.testing.target_suite import Subject, TargetSuite

SYSCTL = Path("/proc/sys")
__all__ = ["kernel"]

QUEUE = LOOP_DEVICE / "queue"
OF_DISK = {"io_scheduler": "kyber"} if QUEUE.is_dir() else {}
CHANGES = Config({"page_cluster": 1, "transparent_hugepage": "never", **OF_DISK})
OTHER = Config({"stat_interval": 7, "tcp_slow_start_after_idle": False})
TOUCHED = ("vm/page-cluster", "vm/stat_interval", "net/ipv4/tcp_slow_start_after_idle")

on_the_kernel = pytest.mark.needs("sysctl")
on_the_disk = pytest.mark.needs("loop-device")


@pytest.fixture
def opened(kernel: None, tmp_path: Path) -> Iterator[Any]:
    """The kernel for one test, as an open target."""
    target = linux(tmp_path)
    target.open()
    try:
        yield target
    finally:
        target.close()


def values() -> list[str]:
    pages = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    disk = [(QUEUE / name).read_text() for name in ("scheduler", "nr_requests") if QUEUE.is_dir()]
    return [(SYSCTL / name).read_text() for name in TOUCHED] + [pages, *disk]


@on_the_kernel
class TestLinux(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
        with alone():
            yield from cls.made(tmp_path_factory.mktemp("linux"))

    @staticmethod
    def made(state_dir: Path) -> Iterator[Subject]:
        before, target = values(), linux(state_dir)
        target.open()

        def meddle() -> Callable[[], None]:
            found = (file := SYSCTL / "vm/page-cluster").read_text()
            file.write_text("5\n")
            return lambda: file.write_text(found) and None

        yield Subject(
            target=target,
            again=lambda: linux(state_dir / "other"),
            reattach=lambda snapshot: type(target).from_snapshot(snapshot, state_dir=state_dir),
            changes=CHANGES,
            other=OTHER,
            refused=("swappiness", 100_000),
            locked=("tcp_syncookies", "0"),
            meddle=meddle,
            can_stay=False,
            state_dir=state_dir,
        )
        target.close()
        assert values() == before


@on_the_kernel
@pytest.mark.usefixtures("kernel")
def test_every_setting_is_read_from_the_kernel(tmp_path: Path) -> None:
    states = linux(tmp_path).states()
    open_ones = {name: state.source for name, state in states.items() if not state.lock_reason}
    assert set(open_ones.values()) == {"configuration file"}, open_ones
    assert states["swappiness"].running == int((SYSCTL / "vm/swappiness").read_text())


@pytest.mark.slow  # in make check: the settings of TestLinux
@on_the_kernel
def test_each_setting_can_be_changed_and_comes_back(opened: Any) -> None:
    """The catalogue's word for every range and choice is tried on the kernel itself, end by end."""
    found, n_tried = opened.snapshot(), 0
    for name, state in opened.states().items():
        knob = state.knob
        ends = (False, True) if knob.kind is KnobKind.BOOLEAN else knob.choices or (knob.low, knob.high, *knob.special)
        with_it = (
            {"io_scheduler": "mq-deadline"} if name == "nr_requests" else {}
        )  # without a scheduler it has no effect
        for value in () if state.lock_reason else ends:
            opened.apply(Config({name: value, **with_it}))
            assert opened.states()[name].running == value
            n_tried += 1
    assert n_tried > 50
    opened.restore(found)
    assert opened.snapshot().values == found.values


def queue() -> tuple[str, int]:
    """Scheduler in use, and requests that may wait for it."""
    chosen = (QUEUE / "scheduler").read_text().partition("[")[2].partition("]")[0]
    return chosen, int((QUEUE / "nr_requests").read_text())


@pytest.mark.slow
@on_the_kernel
@on_the_disk
def test_what_the_kernel_sets_itself_with_a_scheduler_comes_back_too(opened: Any, tmp_path: Path) -> None:
    """A change of the scheduler sets nr_requests to that one's own number."""
    before = queue()
    (QUEUE / "scheduler").write_text("mq-deadline\n")
    (QUEUE / "nr_requests").write_text("77\n")
    try:
        target = linux(tmp_path / "own")
        target.open()
        found = target.snapshot()
        for config, then in (
            ({"io_scheduler": "kyber"}, ("kyber", 77)),  # as found: the kernel had made it 256
            ({"io_scheduler": "none", "read_ahead_kb": 64}, ("none", None)),
            (
                {"io_scheduler": "none", "read_ahead_kb": 32},
                ("none", None),
            ),  # it refuses 77 here: more than the disk takes
            ({"io_scheduler": "bfq", "nr_requests": 512}, ("bfq", 512)),
            ({"io_scheduler": "bfq"}, ("bfq", 77)),
            ({"nr_requests": 99}, ("mq-deadline", 99)),
        ):
            target.apply(Config(config))
            assert queue()[0] == then[0]
            assert then[1] in (None, queue()[1])
        own = target.apply(Config({"io_scheduler": "none"})).own
        target.close()
        type(target).from_snapshot(found, state_dir=tmp_path / "own").restore(found, own)
        assert queue() == ("mq-deadline", 77)
    finally:
        (QUEUE / "scheduler").write_text(before[0] + "\n")
        (QUEUE / "nr_requests").write_text(f"{before[1]}\n")


@on_the_kernel
@on_the_disk
def test_only_schedulers_that_the_kernel_offers_are_choices(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    states = opened.states()
    offered = (QUEUE / "scheduler").read_text().replace("[", "").replace("]", "").split()
    assert set(states["io_scheduler"].knob.choices) == set(offered)


def test_without_a_disk_its_settings_are_locked_with_the_way_to_name_one(tmp_path: Path) -> None:
    states = linux(tmp_path, names={}).states()
    why = 'no disk is known that the other targets use: name one, names = { disk = "sda" }'
    assert {states[name].lock_reason for name in ("io_scheduler", "nr_requests", "read_ahead_kb")} == {why}
    gone = linux(tmp_path, names={"disk": "nosuchdisk"}).states()
    assert gone["nomerges"].lock_reason == "this kernel has no file='/sys/block/nosuchdisk/queue/nomerges'"


def test_a_study_in_which_every_setting_is_locked_says_what_locks_them(tmp_path: Path) -> None:
    knobs = 'knobs = ["page_cluster", "stat_interval", "transparent_hugepage"]'
    (tmp_path / "study.toml").write_text(STUDY.replace(knobs, 'knobs = ["queue"]'))
    why = r"^the study has no knob to tune: \d+ of \d+ curated knobs may be changed; .*5 locked: no disk is known"
    with (
        pytest.raises(UsageError, match=why) as caught,
        open_stage(load_study_file(tmp_path / "study.toml"), tmp_path / "state"),
    ):
        pass
    assert caught.value.hint == "name other knobs in [target.NAME], or do what opens these"


@pytest.mark.parametrize("disk", ["/dev/sda", "../../kernel", ".."])
def test_a_path_is_not_the_name_of_a_disk(tmp_path: Path, disk: str) -> None:
    with pytest.raises(UsageError, match=r"names disk='.*' is not the name of a disk") as caught:
        linux(tmp_path, names={"disk": disk})
    assert caught.value.hint == 'write it as in /sys/block: names = { disk = "sda" }'


@pytest.fixture
def folder_on_disk() -> Iterator[Path]:
    """One that outlives restarts, which the other folders for temporary files need not."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.mark.needs("disk")
def test_the_disk_is_that_of_the_other_targets_and_recovery_knows_it(folder_on_disk: Path) -> None:
    tmp_path, disk = folder_on_disk, disk_under(folder_on_disk)
    (tmp_path / "db.toml").write_text(PROGRAM)
    (tmp_path / "db.conf").write_text("speed = 1\n")
    program = plugins.load("targets", "program").from_settings(
        "db", {"catalog": str(tmp_path / "db.toml"), "folder": str(tmp_path)}, state_dir=tmp_path / "state"
    )
    mine = {"disk": DISK, "mount": "/proc"}
    os_target, named = linux(tmp_path / "state", names={}), linux(tmp_path / "state", names=mine)
    stack = Stack([Tier(name="os", target=os_target), Tier(name="db", target=program)])
    stack.open()
    try:
        assert stack.states()["os.nomerges"].source_file == f"/sys/block/{disk}/queue/nomerges:1"
        kept = os_target.snapshot()
        again = type(os_target).from_snapshot(kept, state_dir=tmp_path / "state")
        assert again.states()["nomerges"].source_file == f"/sys/block/{disk}/queue/nomerges:1"
        mount = mount_of(tmp_path)
        assert mount is not None
        assert again.states()["lazy_times"].source_file == f"mount:{mount.point}"
    finally:
        stack.close()
    named.use_disk([tmp_path])
    assert named.settings.names == mine
    half = linux(tmp_path / "state")
    half.use_disk([tmp_path])
    assert half.settings.names == {"disk": DISK, "mount": mount.point}


def test_that_a_config_cannot_stay_is_known_before_anything_is_changed(tmp_path: Path) -> None:
    target = linux(tmp_path)
    assert isinstance(target, LastingTarget)
    with pytest.raises(ApplyError, match="cannot be made to stay: .* has the kernel's usual value again after"):
        target.require_lasting(OTHER)


@on_the_kernel
def test_a_config_cannot_stay_and_the_lines_that_would_make_it_are_shown(opened: Any) -> None:
    with pytest.raises(ApplyError, match="has the kernel's usual value again after a restart of the machine") as caught:
        opened.apply(OTHER, stays=True)
    assert caught.value.hint == "put the printed lines into a file of /etc/tmpfiles.d"
    assert opened.fragment(OTHER).splitlines() == [
        "# stat_interval",
        "w /proc/sys/vm/stat_interval - - - - 7",
        "# tcp_slow_start_after_idle",
        "w /proc/sys/net/ipv4/tcp_slow_start_after_idle - - - - 0",
    ]


@on_the_kernel
@pytest.mark.usefixtures("kernel")
@pytest.mark.service
def test_a_killed_study_leaves_the_kernel_as_found(tmp_path: Path) -> None:
    before = values()
    (tmp_path / "study.toml").write_text(STUDY)
    quiet = {"env": os.environ, "cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    tuner = start_trimtab(["tune", "study.toml"], start_new_session=True, **quiet)
    try:
        _wait(lambda: values() != before, 90)
    finally:
        os.kill(tuner.pid, signal.SIGKILL)
        tuner.wait()
    _wait(lambda: values() == before, 30)
    assert start_trimtab(["recover"], **quiet).wait(timeout=120) == 0
    assert values() == before


def _wait(is_so: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, f"not within {seconds} s"
        time.sleep(0.02)


PROGRAM = """
schema = 2
kind = "db"
[channel.conf]
codec = "keyvalue"
path = "db.conf"
[knob.speed]
doc = "How fast it works."
type = "integer"
low = 1
high = 9
default = 1
"""

KERNEL = """
schema = 2
kind = "kernel"
[channel.sysctl]
codec = "scalar"
path = "/proc/sys/{address}"
[knob.gone]
address = "vm/no_such_setting"
doc = "Not in this kernel."
type = "integer"
low = 1
high = 9
default = 1
[knob.stat_interval]
address = "vm/stat_interval"
doc = "Seconds between updates."
type = "integer"
low = 1
high = 9
default = 1
"""


def test_what_this_kernel_lacks_is_locked_and_doctor_says_so(tmp_path: Path) -> None:
    target = kind_of_catalog(KERNEL, where=str(tmp_path / "k.toml")).from_settings("os", {}, state_dir=tmp_path)
    assert target.states()["gone"].lock_reason == "this kernel has no file='/proc/sys/vm/no_such_setting'"
    lines = {name: (is_fine, text) for name, is_fine, text in target.doctor()}
    assert "this kernel has no file='/proc/sys/vm/no_such_setting'" in lines["kernel"][1]
    assert lines["kernel"][1].startswith(("1 of 2 files", "0 of 2 files"))


def test_a_number_with_a_meaning_of_its_own_locks_its_setting_only() -> None:
    """2 of numa_balancing moves pages between tiers of memory: who has set it knew what for."""
    knobs = tomllib.loads(files("trimtab.catalog").joinpath("kinds/linux.toml").read_text(encoding="utf-8"))["knob"]
    for name in ("zone_reclaim_mode", "tcp_syncookies", "numa_balancing"):
        kind = KnobKind(knobs[name]["type"])
        knob = Knob(name=name, kind=kind, choices=knobs[name]["choices"], default=knobs[name]["default"])
        assert unknown_choice(knob, "2") == "its value as found, 2, is not one that the catalogue knows"
        assert unknown_choice(knob, "1") == ""


@on_the_kernel
@pytest.mark.usefixtures("kernel")
def test_a_value_that_another_setting_rules_is_left_alone(tmp_path: Path) -> None:
    """Writing vm.dirty_ratio sets vm.dirty_bytes to 0, and no restore of the one brings the other back."""
    ratio, size = SYSCTL / "vm/dirty_ratio", SYSCTL / "vm/dirty_bytes"
    before = ratio.read_text()
    assert size.read_text() == "0\n"
    try:
        size.write_text("100000000\n")
        states = linux(tmp_path).states()
        assert states["dirty_ratio"].lock_reason == "its value as found, 0, is not one that the catalogue knows"
        assert not states["dirty_background_ratio"].lock_reason
    finally:
        ratio.write_text(before)
    assert not linux(tmp_path).states()["dirty_ratio"].lock_reason


@pytest.mark.parametrize(
    ("uid", "flag", "why"),
    [
        (1000, 0, "{} may only be written by root"),
        (0, 0, "the kernel does not let root write {}"),
        (0, os.ST_RDONLY, "{} is mounted read-only, as it is in most containers"),
    ],
)
def test_what_may_not_be_written_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, flag: int, why: str
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode == os.R_OK)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    statvfs, of_kernel = os.statvfs, SimpleNamespace(f_flag=flag)
    monkeypatch.setattr(os, "statvfs", lambda path: of_kernel if "/proc/" in str(path) else statvfs(path))
    target = kind_of_catalog(KERNEL, where=str(tmp_path / "k.toml")).from_settings("os", {}, state_dir=tmp_path)
    assert target.states()["stat_interval"].lock_reason == why.format("file='/proc/sys/vm/stat_interval'")
    assert {name: is_fine for name, is_fine, _ in target.doctor()}["kernel"] is False


def test_a_file_that_the_kernel_lets_nobody_read_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As debugfs does under lockdown, to root too."""

    def refuse(_self: object, path: Path) -> None:
        raise TargetError(f"cannot read file={str(path)!r}: Operation not permitted")

    monkeypatch.setattr(LocalHost, "read_file", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    target = kind_of_catalog(KERNEL, where=str(tmp_path / "k.toml")).from_settings("os", {}, state_dir=tmp_path)
    why = "the kernel does not let root read file='/proc/sys/vm/stat_interval'"
    assert target.states()["stat_interval"].lock_reason == why
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    why = "file='/proc/sys/vm/stat_interval' may only be read by root"
    assert target.states()["stat_interval"].lock_reason == why


def test_settings_of_debugfs_say_how_it_is_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_mount", lambda self: False)
    text = KERNEL.replace("/proc/sys/{address}", "/sys/kernel/debug/no-such-folder/{address}")
    target = kind_of_catalog(text, where=str(tmp_path / "k.toml")).from_settings("os", {}, state_dir=tmp_path)
    why = "debugfs is not mounted: mount -t debugfs none /sys/kernel/debug"
    assert target.states()["gone"].lock_reason == why


@pytest.mark.slow
@pytest.mark.needs("root")
def test_what_only_root_may_see_is_locked(tmp_path: Path) -> None:
    """debugfs belongs to root: its files are neither read nor missed by others."""
    script = f"""
import os
from pathlib import Path
from trimtab.systems.kinds import kind_of_catalog
text = Path({str(tmp_path / "k.toml")!r}).read_text()
target = kind_of_catalog(text, where="k.toml").from_settings("os", {{}}, state_dir=Path("/nowhere"))
target.states()
os.setgid(65534)
os.setuid(65534)
print(target.states()["stat_interval"].lock_reason)
"""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "stat_interval").write_text("1\n")
    tmp_path.chmod(0o755)
    text = KERNEL.replace('path = "/proc/sys/{address}"', f'path = "/proc/self/root{closed}/{{address}}"')
    (tmp_path / "k.toml").write_text(text.replace("vm/stat_interval", "stat_interval"))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"file='/proc/self/root{closed}/stat_interval' may only be read by root"


@pytest.mark.parametrize(
    ("address", "harm"),
    [
        ("kernel/core_pattern", "runs code"),
        ("kernel/modprobe", "runs code"),
        ("vm/../kernel/core_pattern", "runs code"),
        ("kernel/randomize_va_space", "opens the system"),
        ("net/ipv4/conf/all/rp_filter", "opens the system"),
        ("fs/suid_dumpable", "opens the system"),
        ("vm/min_free_kbytes", "can stop the machine"),
        ("vm/overcommit_memory", "can stop the machine"),
        ("kernel/panic_on_oops", "can stop the machine"),
        ("kernel/pid_max", "can stop the machine"),
    ],
)
def test_dangerous_files_of_the_kernel_are_refused(address: str, harm: str, tmp_path: Path) -> None:
    _, ((message, _),) = catalog_faults(KERNEL.replace("vm/no_such_setting", address))
    assert f"[knob.gone] address='value' may not be changed: forbidden: {harm}" in message
    other = KERNEL.replace('path = "/proc/sys/{address}"', 'path = "x"').replace('address = "vm/no_such_setting"\n', "")
    one = other[: other.index("[knob.stat_interval]")]
    with pytest.raises(UsageError, match=f"may not be changed: forbidden: {harm}"):
        kind_of_catalog(one, where=str(tmp_path / "k.toml")).from_settings(
            "os", {"files": {"sysctl": f"/proc/sys/{address}"}}, state_dir=tmp_path
        )
