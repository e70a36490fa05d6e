"""The kernel of this machine as a target: the conformance suite on the real one, kill -9, and what cannot be written."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.commands import start_trimtab
from trimtab import plugins
from trimtab.errors import ApplyError, UsageError
from trimtab.space import Config, KnobKind
from trimtab.systems.catalog_file import catalog_faults
from trimtab.systems.kinds import kind_of_catalog
from trimtab.testing.target_suite import Subject, TargetSuite

SYSCTL = Path("/proc/sys")
CHANGES = Config({"page_cluster": 1, "transparent_hugepage": "never"})
OTHER = Config({"stat_interval": 7, "tcp_slow_start_after_idle": False})
TOUCHED = ("vm/page-cluster", "vm/stat_interval", "net/ipv4/tcp_slow_start_after_idle")

on_the_kernel = pytest.mark.needs("sysctl")


@contextmanager
def alone() -> Iterator[None]:
    """There is one kernel for all workers of a test run: one of them has it at a time."""
    with (Path(tempfile.gettempdir()) / "trimtab-tests-kernel.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def kernel() -> Iterator[None]:
    """The kernel for one test."""
    with alone():
        yield


def linux(state_dir: Path, **table: Any) -> Any:
    return plugins.load("targets", "linux").from_settings("os", {"knobs": "all", **table}, state_dir=state_dir)


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
    thp = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return [(SYSCTL / name).read_text() for name in TOUCHED] + [thp.read_text()]


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
            file = SYSCTL / "vm/page-cluster"
            found = file.read_text()
            file.write_text("5\n")
            return lambda: file.write_text(found) and None

        yield Subject(
            target=target,
            again=lambda: linux(state_dir / "other"),
            reattach=lambda snapshot: type(target).from_snapshot(snapshot, state_dir=state_dir),
            changes=CHANGES,
            other=OTHER,
            refused=("swappiness", 100_000),
            locked=("tcp_syncookies", False),
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
    for name, state in states.items():
        if not state.lock_reason:
            assert state.source == "configuration file", name
    assert states["swappiness"].running == int((SYSCTL / "vm/swappiness").read_text())


@on_the_kernel
def test_each_setting_can_be_changed_and_comes_back(opened: Any) -> None:
    """The catalogue's word for every range and choice is tried on the kernel itself, end by end."""
    found, n_tried = opened.snapshot(), 0
    for name, state in opened.states().items():
        knob = state.knob
        ends = (False, True) if knob.kind is KnobKind.BOOLEAN else knob.choices or (knob.low, knob.high, *knob.special)
        for value in () if state.lock_reason else ends:
            opened.apply(Config({name: value}))
            assert opened.states()[name].running == value
            n_tried += 1
    assert n_tried > 50
    opened.restore(found)
    assert opened.snapshot().values == found.values


@on_the_kernel
def test_a_config_cannot_stay_and_the_lines_that_would_make_it_are_shown(opened: Any) -> None:
    with pytest.raises(ApplyError, match="is empty again after a restart of the machine") as caught:
        opened.apply(OTHER, stays=True)
    assert caught.value.hint == "put the printed lines into a file of /etc/tmpfiles.d"
    assert opened.fragment(OTHER).splitlines() == [
        "# stat_interval",
        "w /proc/sys/vm/stat_interval - - - - 7",
        "# tcp_slow_start_after_idle",
        "w /proc/sys/net/ipv4/tcp_slow_start_after_idle - - - - 0",
    ]


STUDY = """
[study]
name = "kernel"
objective = "throughput"
budget = "5m"
[target.os]
kind = "linux"
knobs = ["page_cluster", "stat_interval", "transparent_hugepage"]
[workload]
kind = "command"
command = "sleep 0.05"
[measure]
window = "1s"
window_max = "1s"
warmup_floor = "1s"
warmup_cap = "1s"
"""


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


def test_what_only_root_may_write_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode, **_: False)
    target = kind_of_catalog(KERNEL, where=str(tmp_path / "k.toml")).from_settings("os", {}, state_dir=tmp_path)
    assert (
        target.states()["stat_interval"].lock_reason == "file='/proc/sys/vm/stat_interval' may only be written by root"
    )
    assert {name: is_fine for name, is_fine, _ in target.doctor()}["kernel"] is False


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
    _, faults = catalog_faults(KERNEL.replace("vm/no_such_setting", address))
    assert len(faults) == 1
    assert f"[knob.gone] address='value' may not be changed: forbidden: {harm}" in faults[0][0]
    other = KERNEL.replace('path = "/proc/sys/{address}"', 'path = "x"').replace('address = "vm/no_such_setting"\n', "")
    one = other[: other.index("[knob.stat_interval]")]
    with pytest.raises(UsageError, match=f"may not be changed: forbidden: {harm}"):
        kind_of_catalog(one, where=str(tmp_path / "k.toml")).from_settings(
            "os", {"files": {"sysctl": f"/proc/sys/{address}"}}, state_dir=tmp_path
        )
