"""A program that is known by its pid file stays the same program when the clock of the machine is set."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.systems.program.conftest import conf, made
from trimtab.errors import TargetError
from trimtab.host import process as host_process
from trimtab.host import process_name, process_parent, processes
from trimtab.space import Config
from trimtab.systems import pid_file
from trimtab.systems.pid_file import PidFile, run_of
from trimtab.systems.program import ProgramTarget

Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts a process of that name, and writes its pid file as a service does."""
    running: list[subprocess.Popen[bytes]] = []
    sleep = shutil.which("sleep")
    assert sleep is not None

    def start(name: str) -> subprocess.Popen[bytes]:
        (folder / name).symlink_to(sleep)
        running.append(subprocess.Popen([str(folder / name), "60"]))
        (folder / "pid").write_text(f"{running[-1].pid}\n")
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The clock is set forward by an hour, as after a suspension of a virtual machine."""

    def forward() -> None:
        monkeypatch.setattr(pid_file, "time", SimpleNamespace(time=lambda: time.time() + 3600))

    return forward


def target_of(folder: Path, **more: Any) -> ProgramTarget:
    return made(folder, pid_file="pid", restart="false", reload="true", **more)


@pytest.mark.parametrize("table", [{}, {"process": "java"}, {"process": "squeezer"}], ids=["no name", "java", "name"])
def test_a_program_that_was_seen_once_stays_the_same(
    folder: Path, start: Start, step: Callable[[], None], table: dict[str, str]
) -> None:
    process = start(table.get("process", "squeezer"))
    target = target_of(folder, **table)
    target.open()
    found = target.snapshot()
    step()
    assert target._reach.pid == process.pid
    assert not target.apply(Config({"level": 9})).restarted, "it runs: restart='false' would fail"
    assert not target.disturbances()
    target.restore(found)
    target.open()


def test_a_name_of_its_own_says_more_than_the_clock(folder: Path, start: Start, step: Callable[[], None]) -> None:
    process = start("squeezer")
    step()
    target = target_of(folder, process="squeezer")
    target.open()
    assert target._reach.pid == process.pid


@pytest.mark.parametrize("table", [{}, {"process": "java"}])
def test_the_clock_is_asked_where_the_name_says_nothing(
    folder: Path, start: Start, step: Callable[[], None], table: dict[str, str]
) -> None:
    start("java")
    step()
    with pytest.raises(TargetError, match="which is another process: it .'java'. began after the pid file was written"):
        target_of(folder, **table).open()


def test_a_restore_from_the_journal_knows_the_run(folder: Path, start: Start, step: Callable[[], None]) -> None:
    process, before = start("java"), conf(folder)
    target = target_of(folder)
    target.open()
    found = target.snapshot()
    own = target.apply(Config({"level": 9})).own
    step()
    later = ProgramTarget.from_snapshot(found, state_dir=folder / "state")
    assert later._reach.pid is None
    done = later.restore(found, own)
    assert later._reach.pid == process.pid
    assert not done.restarted
    assert conf(folder) == before


def test_another_process_of_that_number_is_not_believed(folder: Path) -> None:
    file = PidFile(str(folder / "pid"), None)
    (folder / "pid").write_text(f"{os.getpid()}\n")
    assert file.pid == os.getpid()
    os.utime(folder / "pid", (1, 1))
    file.know(f"{os.getpid()} another boot:7")
    file.know(f"{os.getpid()} ")
    assert "began after the pid file was written" in file.stranger(os.getpid())
    file.know(run_of(os.getpid()))
    assert file.stranger(os.getpid()) == ""


def test_a_thread_of_the_kernel_is_no_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pid file of a container, or of another machine, names such a one easily."""
    file = PidFile(str(folder / "pid"), None)
    (folder / "pid").write_text(f"{os.getpid()}\n")
    assert file.stranger(os.getpid()) == ""
    monkeypatch.setattr(host_process, "_KERNEL_THREAD", 0xFFFFFFFF)
    assert file.stranger(os.getpid()).endswith("is a thread of the kernel")


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process began ten days ago."""
    monkeypatch.setattr(pid_file, "process_started_s", lambda pid: 864000.0)


@pytest.mark.usefixtures("old")
@pytest.mark.parametrize("table", [{}, {"process": "java"}], ids=["no name", "java"])
def test_a_file_that_was_copied_from_another_machine_is_not_believed(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, table: dict[str, str]
) -> None:
    """Its number is that of some process here, which a reload by `kill -HUP {pid}` would end."""
    program = tmp_path_factory.mktemp("elsewhere") / "java"
    program.symlink_to(shutil.which("sleep") or "sleep")
    stranger = subprocess.Popen([program, "60"])
    try:
        (folder / "pid").write_text(f"{stranger.pid}\n")
        target = target_of(folder, **table)
        with pytest.raises(TargetError, match="another process: it .'java'. ran for more than a day when") as caught:
            target.open()
        assert "and its process name" in str(caught.value.hint)
        assert target._reach.pid is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.usefixtures("old")
def test_a_file_that_a_program_writes_again_later_is(folder: Path, start: Start) -> None:
    """As httpd does at each reload; its name, its command line or its folder is like the file's."""
    process = start("squeezer")
    assert PidFile(str(folder / "pid"), "squeezer").stranger(process.pid) == ""
    (folder / "squeezer.pid").write_text(f"{process.pid}\n")
    assert PidFile(str(folder / "squeezer.pid"), None).stranger(process.pid) == ""
    here = subprocess.Popen(["sleep", "60"], cwd=folder)
    try:
        (folder / "pid").write_text(f"{here.pid}\n")
        assert PidFile(str(folder / "pid"), None).stranger(here.pid) == ""
    finally:
        here.kill()
        here.wait()


@pytest.mark.usefixtures("old")
def test_a_late_file_of_a_program_that_was_seen_before_is_believed(folder: Path, start: Start) -> None:
    process = start("java")
    file = PidFile(str(folder / "pid"), None)
    file.know(run_of(process.pid))
    assert file.stranger(process.pid) == ""


@pytest.mark.needs("namespaces")
def test_a_number_inside_a_container_is_not_the_process_here_that_has_it_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first process of a machine that has run for a day is refused for that already.
    monkeypatch.setattr("trimtab.systems.pid_file._LATE_S", float("inf"))
    process = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "sleep", "60"])
    try:
        while not any(process_parent(n) == process.pid and process_name(n) == "sleep" for n in processes()):
            time.sleep(0.01)
        (folder / "pid").write_text("1\n")
        why = PidFile(str(folder / "pid"), None).stranger(1)
        assert why.endswith(" ('sleep'), of a container, has that number there, and began later")
        named = PidFile(str(folder / "pid"), process_name(1))
        assert named.stranger(1) == "", "no other program"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("url", "is_here"), [(None, True), ("http://127.0.0.1:8080/", True), ("http://192.0.2.1:8080/", False)]
)
def test_a_program_whose_process_does_not_show_is_where_its_address_is(
    folder: Path, start: Start, url: str | None, is_here: bool
) -> None:
    target = target_of(folder, process="squeezer", url=url)
    assert target._reach.is_here is is_here
    start("squeezer")
    assert target_of(folder, process="squeezer", url=url)._reach.is_here


def test_a_pid_file_that_shows_no_process_is_named(folder: Path) -> None:
    """The program may run, and write its number to another file."""
    target = target_of(folder, process="squeezer")
    for text, what in (("", "is not there"), ("4194303\n", "names no process that runs")):
        if text:
            (folder / "pid").write_text(text)
        with pytest.raises(TargetError, match=f"the program is down: pid_file='.*/pid' {what}") as caught:
            target.open()
        assert "give pid_file" in (caught.value.hint or "")


def test_a_restart_command_that_ends_before_the_program_does_is_waited_for(folder: Path) -> None:
    """As `systemctl --no-block restart`."""
    child = subprocess.Popen(["sleep", "60"])
    later = f"sh -c '(sleep 0.5; sleep 60 & echo $! >{folder}/pid; kill {child.pid}) >/dev/null 2>&1 &'"
    try:
        (folder / "pid").write_text(f"{child.pid}\n")
        target = made(folder, pid_file="pid", restart=later, process="sleep")
        target.open()
        target._reach.restart()
        pid = target._reach.pid
        assert pid is not None
        assert pid != child.pid
        os.kill(pid, signal.SIGKILL)
    finally:
        child.kill()
        child.wait()
