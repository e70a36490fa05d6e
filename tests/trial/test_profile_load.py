"""A load whose rate changes over a run: all runs are measured in the same seconds of it, and no guard judges its first ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.trial.test_stack_room import PLAN, Bench
from trimtab.measure import EarlyStop, Interval
from trimtab.records import Role, Status
from trimtab.testing.fake_workload import FakeWorkload
from trimtab.trial import Yardstick
from trimtab.workload import CycledWorkload, ProfiledWorkload
from trimtab.workload.http import HttpWorkload
from trimtab.workload.oltp import OltpWorkload
from trimtab.workload.ycsb import YcsbWorkload

RAMP = {"rate": 100, "profile": {"kind": "ramp", "to": 400, "over": "60s"}}


class Changing(FakeWorkload):
    """With a profile."""

    has_profile = True


@pytest.mark.parametrize(
    ("load", "status", "window_s"),
    [(Changing, Status.OK, (10.0, 15.0)), (FakeWorkload, Status.STOPPED_EARLY, None)],
)
def test_all_runs_are_measured_in_the_same_seconds(
    tmp_path: Path, load: type[FakeWorkload], status: Status, window_s: tuple[float, float] | None
) -> None:
    """The second one finds the target warm, and would else begin earlier; both do far less than the best so far."""
    bench = Bench(tmp_path)
    bench.workload = load(bench.targets["db"].speed)
    best = EarlyStop(Interval(1e9, 1e9, 1e9), is_maximised=True)
    with bench.room() as room:
        room.guarding.yardstick = Yardstick(1e9, math.nan)
        trials = [
            room.run(bench.baseline, number=0, role=Role.SEARCH, plan=PLAN, seed=7, early_stop=best, hand_over=True)
            for _ in range(2)
        ]
    assert [trial.status for trial in trials] == [status] * 2
    if window_s is not None:
        assert [trial.measurement and trial.measurement.window_s for trial in trials] == [window_s] * 2


def test_no_guard_compares_its_seconds_with_the_baselines_mean(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.workload = Changing(bench.targets["db"].speed)
    with bench.room() as room:
        room.guarding.yardstick = Yardstick(1e9, math.nan)
        assert bench.run(room, db__cache=256).status is Status.OK
        bench.workload = FakeWorkload(bench.targets["db"].speed)
        room.use(bench.workload)
        assert bench.run(room, db__cache=256).reason.startswith("stopped: throughput=")


@pytest.mark.parametrize(
    ("load", "table"),
    [
        (YcsbWorkload, {"workload": "C"}),
        (OltpWorkload, {"script": "read_only"}),
        (HttpWorkload, {"url": "http://h", "pages": ["/"]}),
    ],
)
def test_workloads_say_whether_their_rate_changes(load: Any, table: dict[str, Any]) -> None:
    def has_profile(workload: Any) -> bool:
        assert isinstance(workload, ProfiledWorkload)
        return workload.has_profile

    ramp = load.from_settings({**table, "load": RAMP})
    assert has_profile(ramp)
    assert not has_profile(ramp.with_rate(50))
    assert not has_profile(load.from_settings(table))
    contexts = [{"name": "day", "load": RAMP}, {"name": "night"}]
    cycle = CycledWorkload.from_settings({**table, "cycle": {"contexts": contexts}}, load.from_settings)
    assert [has_profile(cycle.under(visit.context)) for visit in cycle.cycle.visits] == [True, False]
