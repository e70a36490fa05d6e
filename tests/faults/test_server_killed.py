"""D3, D5, D8: the server is killed, runs out of memory or hangs in a trial; who is blamed, and what becomes of the trial."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from unittest import mock

import pytest

from tests.faults.invariants import check_invariants, take_picture
from tests.faults.place import Place
from tests.faults.rooms import PLAN, killed, open_bench
from tests.needs import require
from trimtab.records import Fault, Status
from trimtab.trial import MeasurePlan

pytestmark = pytest.mark.service


def stand_still(place: Place) -> None:
    pid = place.server.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)


def kill_session(place: Place, number: int) -> None:
    """One of the load's."""
    asked = "SELECT max(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()"
    ((pid,),) = place.server.query(asked)
    killed(int(str(pid)), number)


@pytest.mark.full  # the next one: the same trial, without a whole study
def test_D3_kill_of_the_server_in_a_study_is_survived(place_18: Place) -> None:
    place_18.write(budget="1 trials")
    before = take_picture(place_18.server)
    child = place_18.start("tune", "study.toml")
    first = place_18.wait_until(child, lambda: place_18.server.pid, "a server")
    place_18.wait_step(child, "apply", trial=3)
    place_18.wait_until(child, lambda: place_18.server.pid not in (None, first), "a server with the new config")
    killed(place_18.server.pid, signal.SIGKILL)
    ran = place_18.end(child)
    check_invariants(place_18, before, ran=ran, code=(0, 1), recovers=False)
    trial = place_18.trials()[3]
    assert (trial.status, trial.fault) == (Status.OK, Fault.NONE)
    assert "trial 3: environment fault: " in ran.err


def test_D3_one_kill_is_forgotten_and_the_trial_made_again(place: Place) -> None:
    before = take_picture(place.server)
    with open_bench(place) as bench:
        bench.on_second = lambda: killed(place.server.pid, signal.SIGKILL)
        trial = bench.run()
    assert (trial.status, trial.fault) == (Status.OK, Fault.NONE)
    assert trial.cost_s["failed"] > 0
    assert any("ended by signal 9, sent by somebody else" in said for said in bench.said), bench.said
    check_invariants(place, before, recovers=False)


def test_D3_a_kill_at_the_end_of_a_change_is_forgotten_too(place_18: Place) -> None:
    """The values are read back, and the lock inside the server is to be taken again."""
    before = take_picture(place_18.server)
    with open_bench(place_18) as bench:
        renew = bench.target._lock.renew
        kills = iter([lambda: killed(place_18.server.pid, signal.SIGKILL)])

        def renew_late() -> None:
            next(kills, lambda: None)()
            renew()

        with mock.patch.object(bench.target._lock, "renew", renew_late):
            trial = bench.run()
    assert (trial.status, trial.fault) == (Status.OK, Fault.NONE), bench.said
    assert any("environment fault: cannot connect to the server" in said for said in bench.said), bench.said
    check_invariants(place_18, before, recovers=False)


def test_D3_two_kills_teach_nothing_and_end_the_trial(own_place_18: Place) -> None:
    """Of a server that is not our child nobody knows how it ended; a killed session is named in its log."""
    place = own_place_18
    before = take_picture(place.server)

    def kill_one() -> None:
        kill_session(place, signal.SIGKILL)
        bench.at["load"] = arm

    def arm() -> None:
        bench.on_second = kill_one

    with open_bench(place) as bench:
        bench.at["load"] = arm
        trial = bench.run()
    assert (trial.status, trial.fault) == (Status.INFRASTRUCTURE, Fault.ENVIRONMENT), bench.said
    assert not trial.status.is_config_fault
    assert trial.reason.startswith("twice: ")
    assert "was terminated by signal 9: Killed" in trial.reason
    assert bench.n_loads == 2, "no endless loop"
    check_invariants(place, before, recovers=False)


def test_D3_a_crash_by_itself_is_the_configs_fault_at_once(place_18: Place) -> None:
    before = take_picture(place_18.server)
    with open_bench(place_18) as bench:
        bench.on_second = lambda: kill_session(place_18, signal.SIGSEGV)
        trial = bench.run()
    assert (trial.status, trial.fault) == (Status.CRASHED, Fault.CONFIG)
    assert "was terminated by signal 11" in trial.reason
    assert bench.n_loads == 1
    check_invariants(place_18, before, recovers=False)


def test_D3_a_server_that_does_not_come_back_with_last_good_either_stops_everything(place_18: Place) -> None:
    place_18.write(budget="1 trials")
    before = take_picture(place_18.server)
    child = place_18.start("tune", "study.toml")
    place_18.wait_step(child, "apply", trial=1)
    control = place_18.server.data_dir / "global" / "pg_control"
    content = control.read_bytes()
    control.write_bytes(b"")
    killed(place_18.server.pid, signal.SIGKILL)
    ran = place_18.end(child)
    control.write_bytes(content)
    check_invariants(place_18, before, ran=ran, code=3, cause="the environment is at fault and not the config")


@pytest.fixture
def limited(place_18: Place) -> Place:
    """An embedded server under a memory limit."""
    require("memory-cgroup")
    workload = """
[workload]
kind = "sql"
database = "postgres"
files = ["read.sql"]
read_only = true

[workload.load]
users = 1
"""
    place_18.write(target='memory_limit = "512MiB"', workload=workload)
    hog = "SELECT length(repeat(repeat('x', 1000000), 900));\n"  # byte by byte, it takes a busy machine longer than a window
    (place_18.folder / "read.sql").write_text(hog)
    return place_18


def test_D5_kill_by_the_memory_limit_is_the_configs_demand(limited: Place) -> None:
    before = take_picture(limited.server)
    with open_bench(limited) as bench:
        trial = bench.run(
            work_mem=8192, plan=MeasurePlan(window_s=12, window_max_s=12, warmup_floor_s=0, warmup_cap_s=0)
        )
    assert (trial.status, trial.fault) == (Status.CRASHED, Fault.RESOURCE)
    assert trial.status.is_config_fault, "the region is penalised"
    assert "of the server's processes at its memory limit (cgroup)" in trial.reason
    assert "was terminated by signal 9" in trial.reason, "the server's own lines stand in the reason"
    assert bench.n_loads == 1, bench.said
    check_invariants(limited, before, recovers=False)


def test_D8_a_server_that_hangs_is_brought_back_without_sql(place_18: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.systems.postgresql.session.CONNECT_TIMEOUT_S", 2)
    before = take_picture(place_18.server)
    with open_bench(place_18) as bench:
        bench.on_second = lambda: stand_still(place_18)
        trial = bench.run()
    assert (trial.status, trial.fault) == (Status.OK, Fault.NONE)
    assert any("its process was stopped (SIGSTOP)" in said for said in bench.said), bench.said
    check_invariants(place_18, before, recovers=False)


def test_D8_every_process_of_the_server_hangs(own_place_18: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.systems.postgresql.session.CONNECT_TIMEOUT_S", 2)
    monkeypatch.setattr("trimtab.systems.postgresql.session._ANSWER_S", 3.0)
    place = own_place_18
    before = take_picture(place.server)

    def stop_all() -> None:
        parent = place.server.pid
        stand_still(place)
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                os.kill(int(stat.parent.name), signal.SIGSTOP)

    with open_bench(place) as bench:
        bench.on_second = stop_all
        trial = bench.run(plan=PLAN)
    assert (trial.status, trial.fault) == (Status.OK, Fault.NONE)
    assert any("its process was stopped (SIGSTOP)" in said for said in bench.said), bench.said
    check_invariants(place, before, recovers=False)
