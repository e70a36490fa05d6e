"""A program's process: started, reloaded, restarted, rescued, and never taken for another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.commands import PYTHON
from tests.systems.program.conftest import CATALOG, CONF, PROGRAM, conf, made
from trimtab.errors import ApplyError, ForeignChangeError, NoRestartError, TargetError, UsageError
from trimtab.records import Fault
from trimtab.space import Config
from trimtab.systems import Stack, Tier, command_lifecycle, own_lifecycle
from trimtab.systems.program import ProgramTarget
from trimtab.systems.progress import LogProgress
from trimtab.systems.user_lifecycle import CommandLifecycle


def test_a_reload_and_a_restart_are_made_where_they_are_needed(folder: Path, running: ProgramTarget) -> None:
    found, pid = running.snapshot(), running._reach.pid
    assert not running.apply(Config({"level": 9})).restarted
    assert running._reach.pid == pid
    assert running.apply(Config({"level": 9, "threads": 2})).restarted
    assert (folder / "seen").read_text() == "2"
    assert running._reach.pid != pid
    assert running.restore(found).restarted
    assert (folder / "seen").read_text() == "None"
    assert not running.restore(found).restarted
    assert (folder / "reloads").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "n_failures", "fault"),
    [(1, 1, None), (1, 2, ""), (126, 2, Fault.ENVIRONMENT), (127, 2, Fault.ENVIRONMENT)],
)
def test_a_reload_command_that_fails_is_told_from_a_config_that_does(
    folder: Path, code: int, n_failures: int, fault: str | None
) -> None:
    """A moment's trouble is passed over. Of the command's failure only the evidence can tell; one that is not there says so."""
    (folder / "again.sh").write_text(f"echo >> n; [ $(wc -l < n) -gt {n_failures} ] || exit {code}\n")
    target = made(
        folder, run=f"{PYTHON} program.py {folder}", health=f"test -f {folder}/seen", reload="/bin/sh again.sh"
    )
    target.open()
    try:
        if fault is None:
            target.apply(Config({"level": 9}))
            return
        with pytest.raises(ApplyError, match=f"failed with exit_code={code}") as caught:
            target.apply(Config({"level": 9}))
        assert caught.value.fault == fault
        assert target.states()["level"].running == 3
    finally:
        target.close()


def test_a_reload_command_that_is_missing_is_no_fault_of_the_config(folder: Path) -> None:
    (folder / "again.sh").write_text("#!/bin/sh\n")
    again = folder / "again.sh"
    again.chmod(0o700)
    target = made(folder, run=f"{PYTHON} program.py {folder}", health=f"test -f {folder}/seen", reload=str(again))
    target.open()
    try:
        again.unlink()
        with pytest.raises(ApplyError, match="cannot run command=") as caught:
            target._reach.reload()
        assert caught.value.fault == Fault.ENVIRONMENT
    finally:
        target.close()


def test_a_setting_without_a_place_of_its_own_has_the_value_of_another(folder: Path) -> None:
    burst = """
        [knob.burst]
        doc = "How hard it squeezes what comes first."
        type = "integer"
        low = 1
        high = 19
        default = 5
        default_of = "level"
        hard = [1, 22]
        restart = "restart"
    """
    more = burst.replace("burst", "surge").replace("default = 5", "default = 7").replace('"level"', '"burst"')
    more = more.replace("default_of", "default_times = 1.5\n        default_of")
    (folder / "catalog.toml").write_text(CATALOG + burst + more)
    run = f"{PYTHON} program.py {folder}"
    target = made(folder, run=run, health=f"test -f {folder}/seen", reload="true", restart_timeout_s=10)
    target.open()
    found = target.snapshot()
    state = target.states()["burst"]
    assert (state.running, state.source) == (3, "default"), "as level, not as the default of both"
    applied = target.apply(Config({"burst": 5}))
    assert applied.restarted, "5 is another value than that of level"
    assert dict(applied.effective) == {"burst": 5}
    assert target.states()["surge"].running == 7, "half as much again"
    assert target.restore(found).restarted
    assert conf(folder) == CONF
    target.apply(Config({"level": 9}))
    assert target.states()["burst"].running == 9
    assert target.states()["surge"].running == 13, "by way of the one whose default is level"
    target.restore(found)
    assert target.states()["burst"].running == 3
    target.close()


def test_a_file_that_the_program_has_read_is_removed_with_a_restart(folder: Path, running: ProgramTarget) -> None:
    (folder / "squeeze.conf").unlink()
    found = running.snapshot()
    (folder / "program.py").write_text(
        PROGRAM.replace("values = dict", "(folder / 'squeeze.conf').touch()\nvalues = dict")
    )
    assert running.apply(Config({"threads": 2})).restarted
    assert (folder / "seen").read_text() == "2"
    assert running.restore(found).restarted
    assert (folder / "seen").read_text() == "None"


def test_configuration_management_that_reverts_at_once_is_not_the_configs_fault(folder: Path) -> None:
    (folder / "backup").write_text(CONF)
    target = made(
        folder,
        run=f"{PYTHON} program.py {folder}",
        health=f"test -f {folder}/seen",
        reload="cp backup squeeze.conf",
    )
    target.open()
    try:
        target.snapshot()
        with pytest.raises(ForeignChangeError, match="was changed by somebody else while Trimtab changed it"):
            target.apply(Config({"level": 9}))
        assert conf(folder) == CONF
    finally:
        target.close()


def test_a_restart_is_not_made_for_the_changes_of_others(folder: Path, running: ProgramTarget) -> None:
    found = running.snapshot()
    running.apply(Config({"threads": 2}))
    pid = running._reach.pid
    (folder / "squeeze.conf").write_text(conf(folder) + "extra = 1\n")
    done = running.restore(found)
    assert running._reach.pid == pid
    assert done.left == (
        "threads=(not in the file): waits for a restart, which was not made because it would put changes of somebody else's"
        " into effect",
    )
    assert conf(folder) == CONF + "extra = 1\n"


def test_a_program_that_does_not_come_up_is_rescued(folder: Path, running: ProgramTarget) -> None:
    running.snapshot()
    with pytest.raises(ApplyError) as caught:
        running.apply(Config({"level": 13, "threads": 2}))
    assert "FATAL: level 13 brings bad luck" in caught.value.log_excerpt
    assert conf(folder) == CONF
    running.health()
    symptoms = running.evidence().symptoms
    assert [each.text for each in symptoms] == ["the program ended by itself with exit_code=7"]


def test_what_ran_already_is_found_again_and_stopped(folder: Path, running: ProgramTarget) -> None:
    pid = running._reach.pid
    assert pid is not None
    again = made(folder, run=f"{PYTHON} program.py {folder}", health=f"test -f {folder}/seen")
    assert again._reach.pid == pid
    running.close()
    assert again._reach.pid is None


def test_a_pid_file_of_another_process_is_refused(folder: Path) -> None:
    (folder / "pid").write_text(f"{os.getpid()}\n")
    more = {"pid_file": "pid", "restart": "true", "process": "squeezer"}
    with pytest.raises(
        TargetError, match=r"names pid=\d+, which is another process: its name is '.+', not process='squeezer'"
    ):
        made(folder, **more).open()
    assert made(folder, **more)._reach.pid is None
    del more["process"]
    os.utime(folder / "pid", (1, 1))
    with pytest.raises(TargetError, match="began after the pid file was written"):
        made(folder, **more).open()


def test_a_restart_command_that_restarts_nothing_is_told(folder: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        (folder / "pid").write_text(f"{child.pid}\n")
        target = made(folder, pid_file="pid", restart="true", process="sleep")
        target.open()
        with pytest.raises(NoRestartError, match="was not restarted: it is still pid="):
            target._reach.restart()
    finally:
        child.kill()
        child.wait()


@pytest.fixture
def commanded(folder: Path) -> Iterator[Callable[[str], ProgramTarget]]:
    """A program that runs already; its restart command goes through a script, which looks first whether it may."""
    start = f"({PYTHON} {folder}/program.py {folder} >/dev/null 2>&1 &)"
    script = folder / "again"

    def target(may: str) -> ProgramTarget:
        gone, there = (f"while {no}test -e {folder}/seen; do sleep 0.02; done" for no in ("", "! "))
        script.write_text(
            f"#!/bin/sh\n{may} || {{ echo refused; exit 5; }}\nkill $(cat {folder}/pid)\n{gone}\n{start}\n{there}\n"
        )
        script.chmod(0o755)
        made_ = made(folder, pid_file="pid", restart=str(script), health=f"test -f {folder}/seen", restart_timeout_s=10)
        made_.open()
        return made_

    subprocess.run(
        ["/bin/sh", "-c", f"{start}; while ! test -s {folder}/pid; do sleep 0.02; done"], check=True, timeout=60
    )
    yield target
    os.kill(int((folder / "pid").read_text()), signal.SIGKILL)


def test_a_restart_command_that_never_works_blames_no_config(
    folder: Path, commanded: Callable[[str], ProgramTarget]
) -> None:
    target, before = commanded("false"), conf(folder)
    pid = target._reach.pid
    with pytest.raises(NoRestartError, match="failed with exit_code=5") as caught:
        target.apply(Config({"threads": 2}))
    assert str(caught.value.hint).endswith("it has left the program as it was")
    assert (conf(folder), target._reach.pid) == (before, pid)
    assert not target.disturbances()


def test_a_restart_command_that_refuses_a_config_blames_it(
    folder: Path, commanded: Callable[[str], ProgramTarget]
) -> None:
    """It works with the settings as found."""
    target, before = commanded(f"! grep -q 'threads = 2' {folder}/squeeze.conf"), conf(folder)
    with pytest.raises(ApplyError, match="exit_code=5: refused; with the settings as found .* restarts it") as caught:
        target.apply(Config({"threads": 2}))
    assert caught.value.fault == Fault.CONFIG
    assert conf(folder) == before
    assert target.apply(Config({"threads": 3})).restarted
    assert (folder / "seen").read_text() == "3"


def test_a_restart_command_that_works_no_more_is_not_the_configs_fault(
    folder: Path, commanded: Callable[[str], ProgramTarget]
) -> None:
    target = commanded(f"! test -e {folder}/refused")
    assert target.apply(Config({"threads": 3})).restarted
    (folder / "refused").touch()
    with pytest.raises(ApplyError, match="failed with exit_code=5") as caught:
        target._reach.restart()
    assert caught.value.fault == Fault.ENVIRONMENT


def test_a_start_command_that_fails_is_told(folder: Path) -> None:
    target = made(folder, pid_file="pid", start="false", stop="true")
    with pytest.raises(TargetError, match="the program is down"):
        target.open()
    with pytest.raises(TargetError, match="start='false' failed with exit_code=1"):
        target._reach.ensure_up()
    with pytest.raises(TargetError, match="cannot run command='/no/such'"):
        made(folder, run="/no/such").open()


def test_health_that_never_comes_is_told(folder: Path) -> None:
    target = made(folder, run=f"{PYTHON} program.py {folder}", health="false", restart_timeout_s=0.3)
    started = time.monotonic()
    with pytest.raises(TargetError, match="health='false' ended with exit_code=1: .*restart_timeout_s=0.3"):
        target.open()
    assert time.monotonic() - started < 10
    target.close()


class Pace:
    """The clock of a start and of the program that loads: it goes on by a tenth of a second with each look at the program, which
    loads one more part for each. So it loads for three seconds, on the slowest machine too."""

    N_PARTS = 30
    PROGRAM = """
for part in range({n}):
    while (folder / "looks").stat().st_size <= part:
        time.sleep(0.001)
    print("loading part", part, flush=True)
    (folder / "parts").write_text(str(part + 1))
(folder / "seen")"""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now_s = folder, 1000.0
        for name, text in (("looks", ""), ("parts", "0")):
            (folder / name).write_text(text)
        self.program = PROGRAM.replace('(folder / "seen")', self.PROGRAM.format(n=self.N_PARTS).strip(), 1)
        self.health = f"/bin/sh -c 'printf x >> {folder}/looks; test -f {folder}/seen'"

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        until = time.monotonic() + 60
        while int((self.folder / "parts").read_text() or "0") < min(
            (self.folder / "looks").stat().st_size, self.N_PARTS
        ):
            assert time.monotonic() < until, "the program loads nothing"
            time.sleep(0.001)
        self.now_s += 0.1


@pytest.mark.parametrize(("words", "comes_up"), [("loading part", True), ("never said", False)])
def test_one_that_loads_is_waited_for_while_its_log_shows_that_it_gets_on(
    folder: Path, words: str, comes_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes about three times as long as a start may take without a sign of life."""
    pace = Pace(folder)
    (folder / "program.py").write_text(pace.program)
    (folder / "catalog.toml").write_text(f'{CATALOG}\n[log]\nrecovers = ["{words}"]\n')
    monkeypatch.setattr(command_lifecycle, "LogProgress", partial(LogProgress, clock=pace.monotonic))
    for module in (command_lifecycle, own_lifecycle):
        monkeypatch.setattr(module, "time", pace)
    target = made(folder, run=f"{PYTHON} program.py {folder}", health=pace.health, restart_timeout_s=1.0)
    try:
        if comes_up:
            target.open()
            assert pace.now_s > 1002
            assert "loading part 29" in target.log_excerpt()
        else:
            with pytest.raises(TargetError, match="restart_timeout_s=1"):
                target.open()
    finally:
        target.close()


def test_one_that_died_is_started_again_by_the_restore(folder: Path, running: ProgramTarget) -> None:
    found = running.snapshot()
    running.apply(Config({"threads": 2}))
    pid = running._reach.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while running._reach.pid is not None:
        time.sleep(0.01)
    (folder / "seen").unlink()
    assert running.restore(found).restarted
    assert (folder / "seen").read_text() == "None"


def test_two_targets_over_one_process_are_one_server(folder: Path) -> None:
    """Whatever their files and names are."""
    (folder / "other.conf").write_text("level = 3\n")
    with subprocess.Popen([sys.executable, str(folder / "program.py"), str(folder)]) as process:
        try:
            until = time.monotonic() + 60
            while not (folder / "pid").exists() or not (folder / "pid").read_text().strip():
                assert time.monotonic() < until
                time.sleep(0.01)
            table = {"pid_file": "pid", "restart": "true"}
            one, other = made(folder, **table), made(folder, **table, files={"conf": "other.conf"})
            other.name = "other"
            with pytest.raises(UsageError, match="targets 'zip' and 'other' are one server"):
                Stack([Tier(name="zip", target=one), Tier(name="other", target=other)]).open()
        finally:
            process.kill()


def test_files_that_were_written_just_before_the_start_were_read(tmp_path: Path) -> None:
    """The kernel rounds the start of a process down to whole ticks: it would seem to be older than the file."""
    file = tmp_path / "conf"
    for _ in range(20):
        file.write_text("level = 1")
        child = subprocess.Popen(["sleep", "60"])
        try:
            assert CommandLifecycle.began_after(cast(CommandLifecycle, SimpleNamespace(pid=child.pid)), [file])
        finally:
            child.kill()
            child.wait()
    assert not CommandLifecycle.began_after(cast(CommandLifecycle, SimpleNamespace(pid=child.pid)), [file])
    os.utime(file, (time.time() + 5, time.time() + 5))
    assert not CommandLifecycle.began_after(cast(CommandLifecycle, SimpleNamespace(pid=os.getpid())), [file])


def test_a_program_without_a_process_is_where_its_address_is(folder: Path) -> None:
    near, far = (made(folder, url=f"http://{host}:80/") for host in ("127.0.0.1", "192.0.2.1"))
    assert near.machine().cores >= 1
    assert near.vitals().available_bytes
    with pytest.raises(
        TargetError, match="the server at host=192.0.2.1 does not show as a process of this machine: its cores are"
    ):
        far.machine()
    known = made(folder, url="http://192.0.2.1/", cores=7)
    assert (known.machine().cores, known.machine().hostname) == (7, "192.0.2.1")
    assert known.vitals().available_bytes is None, "this machine's says nothing of another"
    assert made(folder).machine().cores >= 1, "without an address there is nothing to say otherwise"


def test_without_a_memory_budget_the_machines_is_watched(folder: Path) -> None:
    run = f"{PYTHON} program.py {folder}"
    target = made(folder, memory=None, run=run, health=f"test -f {folder}/seen", restart_timeout_s=10)
    target.open()
    try:
        vitals = target.vitals()
        assert vitals.memory_bytes
        assert vitals.memory_limit_bytes == target.budget_bytes == target.limits.memory_bytes
    finally:
        target.close()


def test_a_program_whose_process_cannot_be_recorded_is_ended_again(folder: Path) -> None:
    """As on a full disk: nobody would find it later."""
    target = made(folder, run="/bin/sleep 60")
    process = cast(own_lifecycle.OwnLifecycle, target._reach)._process
    process._record.mkdir(parents=True)
    with pytest.raises(
        TargetError, match=r"the record of the program's process, file='.*program\.pid', cannot be"
    ) as caught:
        target.open()
    assert "make room on its disk" in (caught.value.hint or "")
    assert process.exit_code == -signal.SIGKILL
    process._record.rmdir()
    target.close()


@pytest.mark.parametrize("more", [{"run": "/bin/sleep 60"}, {"health": "/bin/true"}, {"read": "/bin/echo 1 {address}"}])
def test_a_folder_that_is_not_there_is_told_instead_of_the_command(folder: Path, more: dict[str, str]) -> None:
    table = {"kind": "program", "catalog": "catalog.toml", "folder": "nowhere", **more}
    target = ProgramTarget.from_settings("zip", table, state_dir=folder / "state", directory=folder)
    with pytest.raises(TargetError, match=f"there is no folder='{folder}/nowhere'"):
        target.open()
    target.close()
