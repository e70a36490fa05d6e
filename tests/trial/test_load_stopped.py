"""Loads that cannot be run: what is tried again, what stops the study, and what is the config's doing."""

from __future__ import annotations

import pytest

from tests.trial.test_room import Bench, bench
from trimtab.errors import LoadError
from trimtab.records import Fault, Status
from trimtab.systems import Disturbance, Evidence, Symptom
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeWorkload
from trimtab.trial import Journal

__all__ = ["bench"]


def test_infrastructure_fault_is_retried(bench: Bench) -> None:
    faults = iter([ConnectionError("reset by peer"), None, None])

    def fault(second: int) -> None:
        if second == 1 and (error := next(faults)) is not None:
            raise error

    bench.workload.on_second = fault
    trial = bench.run(cache=256)
    assert trial.status is Status.OK
    assert "failed" in trial.cost_s


def test_infrastructure_fault_that_stays_stops_the_study_with_the_target_restored(bench: Bench) -> None:
    def fault(second: int) -> None:
        raise ConnectionError("reset by peer")

    bench.workload.on_second = fault
    with pytest.raises(LoadError, match="the load cannot be run although the target is well: reset by peer"):
        bench.run(cache=256)
    assert dict(bench.target.values) == bench.found
    assert Journal(bench.path).open_entries() == []


def test_a_config_with_which_the_users_cannot_connect_is_a_result(bench: Bench) -> None:
    def full(second: int) -> None:
        if bench.target.values["cache"] == 256:
            raise LoadError("the load cannot connect: too many users", hint="fewer")

    bench.workload.on_second = full
    trial = bench.run(cache=256)
    assert trial.status is Status.FAILED_LOAD
    assert trial.reason == "the load cannot connect: too many users; with the settings as found the load runs"
    assert dict(bench.target.values) == bench.found
    assert bench.run(cache=512).status is Status.OK


def test_what_the_log_of_the_config_says_of_a_load_that_it_stops_is_read_before_the_way_back(bench: Bench) -> None:
    class Telling(FakeTarget):
        """Like a server whose log says more than the load has seen, until it is started anew."""

        def evidence(self) -> Evidence:
            full = Symptom(fault=Fault.CONFIG, text="sorry, too many clients already")
            return Evidence(symptoms=(full,) if self.values["cache"] == 256 else ())

        def disturbances(self) -> tuple[Disturbance, ...]:
            return ()

        def notes(self) -> tuple[str, ...]:
            return ()

    def full(second: int) -> None:
        if bench.target.values["cache"] == 256:
            raise LoadError("page=/home failed: kind=refused")

    bench.target = Telling()
    bench.workload = FakeWorkload(bench.target.speed)
    bench.workload.on_second = full
    trial = bench.run(cache=256)
    assert (trial.status, trial.fault) == (Status.CRASHED, Fault.CONFIG)
    assert trial.reason == (
        "page=/home failed: kind=refused; with the settings as found the load runs (sorry, too many clients already)"
    )
    assert dict(bench.target.values) == bench.found
