"""A target that the last run has left warm needs little warm-up; a restart or new data make it cold again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trimtab.measure import EarlyStop, Interval
from trimtab.records import Objective, Role
from trimtab.space import Config, Space
from trimtab.systems import Stack
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeWorkload
from trimtab.trial import End, MeasurePlan, TrialRoom, measure_load

PLAN = MeasurePlan(window_s=20, window_max_s=30, warmup_floor_s=5, warmup_cap_s=15)
NAMES = ("cache", "sort_memory", "compile")


def test_a_warm_up_of_a_warm_target_takes_fifteen_percent_at_most() -> None:
    for window_s in (1, 4, 10, 20, 60):
        plan = MeasurePlan(window_s=window_s, window_max_s=2 * window_s, warmup_floor_s=5, warmup_cap_s=60).warm()
        assert plan.warmup_floor_s <= plan.warmup_cap_s
        assert plan.warmup_cap_s <= max(1.0, 0.15 * (plan.warmup_cap_s + window_s))
    short = MeasurePlan(window_s=60, window_max_s=60, warmup_floor_s=0.5, warmup_cap_s=2.0)
    assert (short.warm().warmup_floor_s, short.warm().warmup_cap_s) == (0.5, 2.0), "never longer than asked for"


def test_only_a_restart_makes_the_target_cold(tmp_path: Path, plans: list[MeasurePlan]) -> None:
    target = FakeTarget()
    states = target.states()
    baseline = Config({name: states[name].running for name in NAMES})
    changes: list[dict[str, Any]] = [{}, {"sort_memory": 8}, {"cache": 256}, {"cache": 256, "compile": False}, {}]
    with TrialRoom(
        Stack.of(target), FakeWorkload(target.speed), Space([states[name].knob for name in NAMES]), baseline,
        objective=Objective.parse("throughput"), state_dir=tmp_path, study="warm",
    ) as trials:  # fmt: skip
        for number, change in enumerate(changes):
            config = baseline.replace(change)
            trials.run(config, number=number, role=Role.SEARCH, plan=PLAN, seed=1, hand_over=True)
    cold, warm = PLAN.warmup_cap_s, PLAN.warm().warmup_cap_s
    assert [plan.warmup_cap_s for plan in plans] == [cold, warm, cold, warm, cold]


def test_a_repeat_is_stopped_early_by_its_own_seconds_only() -> None:
    """As after a run from which the hypervisor took half of the machine."""
    now = [400.0]
    workload = FakeWorkload(lambda: now[0])
    plan = MeasurePlan(window_s=10.0, window_max_s=10.0, warmup_floor_s=0.0, warmup_cap_s=1.0)
    stop = EarlyStop(Interval(1000.0, 980.0, 1020.0), is_maximised=True)
    endpoint = FakeTarget("db").endpoint()
    assert measure_load(workload, endpoint, plan, seed=1, early_stop=stop).end is End.STOPPED_EARLY
    now[0] = 1000.0
    assert measure_load(workload, endpoint, plan, seed=2, early_stop=stop).end is End.COMPLETE
