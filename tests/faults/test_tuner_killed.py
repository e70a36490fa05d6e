"""Rows T1 to T6 and T8: the tuner dies, is asked to stop, or stands still; nobody but the dead-man or `recover` helps."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.commands import start_trimtab
from tests.faults import killed_at
from tests.faults.invariants import check_invariants, check_unmixed, take_picture
from tests.faults.place import Place
from tests.needs import IS_FULL
from trimtab.host import MemoryCgroup
from trimtab.trial import Journal

pytestmark = pytest.mark.service

BENCH = ("bench", "study.toml", "--runs", "1", "--set", "work_mem=8MB", "--set", "random_page_cost=1.5",
         "--set", "shared_buffers=24MB")  # fmt: skip
APPLY = "trimtab.systems.postgresql.target:PostgresTarget.apply"
FILES_BACK = "trimtab.systems.postgresql.rescue:ServerRescue._files_back"
KILLED = -signal.SIGKILL


def run_killed(place: Place, *where: str, arguments: tuple[str, ...] = BENCH, with_deadman: bool = False) -> str:
    """Runs `trimtab` until it shoots itself at `where`; what it said."""
    environment = {**place.environment, **({"TT_KILL_DEADMAN": "1"} if with_deadman else {})}
    ended = start_trimtab(
        [*where, "--", *arguments], script=Path(killed_at.__file__), cwd=place.folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    _, err = ended.communicate(timeout=120)
    assert ended.returncode == KILLED, err
    return err


def wait_for_deadman(place: Place, timeout_s: float = 60.0) -> float:
    """Until it has closed the entry; seconds."""
    started = time.monotonic()
    while list((place.state / "journal").glob("*.open")):
        assert time.monotonic() - started < timeout_s, "the dead-man did nothing"
        time.sleep(0.02)
    return time.monotonic() - started


def test_T1_kill_before_apply(place_18: Place) -> None:
    before = take_picture(place_18.server)
    run_killed(place_18, f"{APPLY}:before:1", with_deadman=True)
    (entry,) = Journal(place_18.state).open_entries()
    assert [step for step, _ in entry.steps()] == ["apply"]
    recovered = place_18.run("recover")
    assert recovered.out == "study faults: target db restored as it was found\n"
    assert place_18.trials() == []
    check_invariants(place_18, before)


def test_T2_kill_half_way_through_apply(place: Place) -> None:
    before = take_picture(place.server)
    run_killed(place, "sql:ALTER SYSTEM SET:after:2")
    print(f"\nT2 {place.server.version}: restored by the dead-man {wait_for_deadman(place):.1f} s after the kill")
    check_unmixed(take_picture(place.server), before)
    told = place.run("recover")
    assert "the dead-man put target db back: restored as it was found" in told.err
    assert told.out == "nothing to recover\n"
    check_invariants(place, before)


def test_T3_kill_during_measurement(own_place_18: Place) -> None:
    place = own_place_18
    before = take_picture(place.server)
    child = place.start("tune", "study.toml")
    place.wait_step(child, "apply", trial=3)
    time.sleep(0.5)
    place.kill(child)
    wait_for_deadman(place)
    check_unmixed(take_picture(place.server), before)
    load = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> 'test'"
    assert place.server.query(load) == [(0,)], "the load outlived its parent"
    n_before = len(place.trials())
    resumed = place.run("tune", "study.toml")
    assert len(place.trials()) > n_before
    check_invariants(place, before, ran=resumed, code=(0, 1))


def test_T3_kill_during_a_load_leaves_no_copy_of_the_data(own_place_18: Place) -> None:
    place = own_place_18
    before = take_picture(place.server)
    place.write(workload='[workload]\nkind = "ycsb"\nworkload = "A"\nrecords = 100\n[workload.load]\nusers = 1\n')
    run_killed(place, "trimtab.workload.engine_workload:EngineWorkload.start:after:1", with_deadman=True)
    copies = "SELECT datname FROM pg_database WHERE datname LIKE '%\\_run'"
    ((copy,),) = place.server.query(copies)
    assert f"  copy of data that runs use: database={copy}: is dropped\n" in place.run("recover", "--show").out
    assert f"dropped database={copy}, a copy that runs used" in place.run("recover").out
    assert place.server.query(copies) == []
    check_invariants(place, before)


@pytest.mark.needs("memory-cgroup")
def test_D5_a_tuner_that_the_kernel_kills_for_its_memory_is_undone(own_place_18: Place) -> None:
    """The load generator runs in the tuner's process, and dies with it."""
    place = own_place_18
    before = take_picture(place.server)
    group = MemoryCgroup.create(f"trimtab-test-{os.getpid()}", 2 << 20)
    try:
        child = place.start("tune", "study.toml")
        place.wait_step(child, "apply", trial=3)
        group.add(child.pid)
        child.communicate(timeout=60)
        assert child.returncode == KILLED
        assert group.n_oom_kills() > 0
        wait_for_deadman(place)
    finally:
        group.remove()
    check_unmixed(take_picture(place.server), before)
    told = place.run("recover")
    assert "the dead-man put target db back: restored as it was found" in told.err
    check_invariants(place, before)


def test_T1_kill_while_a_config_is_checked_leaves_no_copy_of_the_servers_files(place_18: Place) -> None:
    before = take_picture(place_18.server)
    run_killed(place_18, "trimtab.systems.postgresql.preflight:program_says:before:1", with_deadman=True)
    (left,) = (place_18.folder / "tmp").iterdir()
    assert {path.name for path in left.iterdir()} == {"PG_VERSION", "postgresql.conf", "global"}
    place_18.run("recover")
    check_invariants(place_18, before)


@pytest.mark.parametrize("with_deadman", [False, True], ids=["deadman", "alone"])
def test_T4_kill_during_restore_is_finished_by_the_next(place_18: Place, with_deadman: bool) -> None:
    before = take_picture(place_18.server)
    run_killed(place_18, f"{FILES_BACK}:after:1", with_deadman=with_deadman)
    if not with_deadman:
        wait_for_deadman(place_18)
    check_invariants(place_18, before)


def run_altered(place: Place, script: Path, text: str, arguments: tuple[str, ...]) -> tuple[int, str]:
    """Runs `trimtab` from `script`, whose `text` alters it first; exit code, and what it said."""
    script.write_text(text)
    pipe = subprocess.PIPE
    ended = start_trimtab(arguments, script=script, cwd=place.folder, env=place.environment, stdout=pipe, stderr=pipe)
    _, err = ended.communicate(timeout=120)
    return ended.returncode, err


BROKEN = """
import sys
from trimtab.trial import room

def broken(*arguments, **more):
    raise KeyError("a bug")

room.put_back = broken
from trimtab.cli import main
main(sys.argv[1:])
"""


def test_T4_a_way_back_that_a_bug_cuts_off_is_made_by_the_dead_man(place_18: Place, tmp_path: Path) -> None:
    before = take_picture(place_18.server)
    code, err = run_altered(place_18, tmp_path / "broken.py", BROKEN, BENCH)
    assert code == 70, err
    wait_for_deadman(place_18)
    check_unmixed(take_picture(place_18.server), before)
    assert "the dead-man put target db back: restored as it was found" in place_18.run("recover").err
    (report,) = (place_18.folder / "tmp").glob("trimtab-bug-*.txt")
    report.unlink()
    check_invariants(place_18, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM] if IS_FULL else [signal.SIGINT])
def test_T5_signal_twice_still_restores(own_place_18: Place, number: signal.Signals) -> None:
    place = own_place_18
    before = take_picture(place.server)
    child = place.start("tune", "study.toml")
    place.wait_step(child, "apply", trial=3)
    time.sleep(0.3)
    child.send_signal(number)
    time.sleep(0.05)
    child.send_signal(number)
    ran = place.end(child)
    assert ran.code == 130, ran.err
    check_unmixed(take_picture(place.server), before)
    assert Journal(place.state).open_entries() == []
    check_invariants(place, before, ran=ran, code=130)


INTERRUPTED = """
import os, signal, sys
from trimtab.systems.postgresql.rescue import ServerRescue
from trimtab.trial import TrialRoom

def interrupting(once, *, after):
    def wrapped(*arguments):
        done = once(*arguments)
        if after(arguments, done) and len(sent) < 2:
            sent.append(os.kill(os.getpid(), signal.SIGINT))
        return done

    return wrapped

sent = []
TrialRoom._apply = interrupting(TrialRoom._apply, after=lambda arguments, _: arguments[1].number == 3)
ServerRescue._files_back = interrupting(ServerRescue._files_back, after=lambda _, is_changed: bool(sent) and is_changed)
from trimtab.cli import main
main(sys.argv[1:])
"""


def test_T5_second_signal_half_way_back_is_no_change_of_somebody_elses(place_18: Place, tmp_path: Path) -> None:
    before = take_picture(place_18.server)
    code, err = run_altered(place_18, tmp_path / "interrupted.py", INTERRUPTED, ("tune", "study.toml"))
    assert code == 130, err
    assert "stopped by the user; `trimtab recover` makes sure" in err
    assert "somebody else" not in err
    check_unmixed(take_picture(place_18.server), before)
    assert Journal(place_18.state).open_entries() == []
    check_invariants(place_18, before)


def test_T6_stopped_tuner_is_undone_and_its_trial_made_again(own_place_18: Place) -> None:
    place = own_place_18
    place.environment["TRIMTAB_DEADMAN"] = "2"
    place.write(budget="2 trials", window="3s", search='[search]\nsearcher = "random"\n')
    before = take_picture(place.server)
    child = place.start("tune", "study.toml")
    changed = place.wait_step(child, "apply", trial=3)
    assert changed["changes"]
    time.sleep(1.0)
    child.send_signal(signal.SIGSTOP)
    place.wait_step(child, "deadman restored")
    check_unmixed(take_picture(place.server), before)
    time.sleep(1.0)
    child.send_signal(signal.SIGCONT)
    ran = place.end(child)
    assert "Trimtab was suspended for" in ran.err, ran.err
    check_invariants(place, before, ran=ran, code=(0, 1))
    # A run from which the hypervisor took much is made again, too, and may be an earlier one.
    disturbed = [trial for trial in place.trials() if "failed" in trial.cost_s and trial.number >= 3]
    assert disturbed
    assert all(trial.status in ("ok", "stopped_early") for trial in disturbed)


def test_T8_reboot_first_command_restores(place_18: Place) -> None:
    before = take_picture(place_18.server)
    run_killed(place_18, f"{APPLY}:after:1", with_deadman=True)
    for process in psutil.process_iter(["cwd"]):
        if process.info["cwd"] == str(place_18.server.data_dir):
            # The power is gone for everybody; the server's children end with it.
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    ran = place_18.run("bench", "study.toml", "--runs", "1")
    assert "a killed study='faults' had left target='db' changed: restored as it was found" in ran.err
    check_invariants(place_18, before, ran=ran, code=0)


def test_T8_deadman_is_of_its_own_session_and_holds_nothing(own_place_18: Place) -> None:
    child = own_place_18.start(*BENCH)
    own_place_18.wait_step(child, "apply")
    (deadman,) = [p for p in psutil.Process(child.pid).children() if "deadman_process" in " ".join(p.cmdline())]
    assert os.getsid(deadman.pid) == deadman.pid
    handles = [os.readlink(f"/proc/{deadman.pid}/fd/{name}") for name in os.listdir(f"/proc/{deadman.pid}/fd")]
    others = [name for name in handles if not name.startswith(("pipe:", "anon_inode:", "/dev/null"))]
    assert others == [], "a lock or a connection was inherited"
    rss = deadman.memory_info().rss
    print(f"\nT8: the dead-man takes {rss / 2**20:.1f} MiB while it waits")
    assert rss < 40 << 20
    ran = own_place_18.end(child)
    assert ran.code == 0, ran.err
    assert not psutil.pid_exists(deadman.pid)
