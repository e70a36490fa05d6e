"""What makes a run begin cold, and how long it warms up for that: after a restart of a tier that compiles, or of caches alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.trial.test_stack_room import Bench
from trimtab.records import Context, Fault, Status, Trial, seconds_of
from trimtab.systems import Disturbance, Stack, Tier
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeRatedWorkload, FakeWorkload
from trimtab.trial import MeasurePlan
from trimtab.trial.warmth import Warmth

PLAN = MeasurePlan(window_s=10, window_max_s=10, warmup_floor_s=4, warmup_cap_s=45)
WARM = PLAN.warm()


def warmth(**floors_s: float) -> Warmth:
    """Of a stack with such tiers."""
    return Warmth(
        Stack([Tier(name=name, target=FakeTarget(name, warmup_floor_s=s)) for name, s in floors_s.items()]).tiers
    )


class Load(FakeWorkload):
    """With a name, and users who come within so many seconds."""

    def __init__(self, name: str = "bidding", arrivals_s: float = 0.0) -> None:
        super().__init__(speed=lambda: 1.0)
        self.name, self.arrivals_s = name, arrivals_s

    @property
    def context(self) -> Context:
        return Context(workload=self.name, clients=4)


BIDDING, BROWSING = Load(), Load("browsing")


def floor(found: Warmth, load: Load = BIDDING, plan: MeasurePlan = PLAN) -> tuple[float, str]:
    used, step = found.plan(plan, load)
    assert used.warmup_floor_s <= used.warmup_cap_s <= plan.warmup_cap_s
    return used.warmup_floor_s, step


def test_what_ran_before_is_not_known_at_first() -> None:
    assert floor(warmth(db=0, app=30)) == (30, "warmup.app")
    assert floor(warmth(db=0, app=0)) == (4, "warmup")


def test_fresh_data_empty_the_caches_and_unload_no_code() -> None:
    found = warmth(db=0, app=30)
    found.ran(BIDDING, 40)
    assert floor(found) == (WARM.warmup_floor_s, "warmup")
    found.has_fresh_data()
    assert floor(found) == (4, "warmup")
    assert found.plan(PLAN, BIDDING)[0] == PLAN, "until the load is steady"


def test_a_restart_of_another_tier_unloads_no_code() -> None:
    found = warmth(db=0, app=30)
    found.ran(BIDDING, 40)
    found.restarted(["db"])
    assert floor(found) == (4, "warmup")
    found.restarted(["app"])
    assert floor(found) == (30, "warmup.app")


def test_a_change_without_a_restart_leaves_all_warm() -> None:
    found = warmth(db=0, app=30)
    found.ran(BIDDING, 40)
    found.restarted([])
    assert found.plan(PLAN, BIDDING) == (WARM, "warmup")


def test_a_run_that_ended_too_soon_is_made_up_for() -> None:
    found = warmth(db=0, app=30)
    found.ran(BIDDING, 12)
    assert floor(found) == (18, "warmup.app")
    found.ran(BIDDING, 17)
    assert floor(found) == (WARM.warmup_floor_s, "warmup")


def test_another_load_runs_other_code() -> None:
    found = warmth(db=0, app=30)
    found.ran(BIDDING, 40)
    assert floor(found, BROWSING) == (30, "warmup.app")
    found.ran(BROWSING, 40)
    assert floor(found) == (4, "warmup"), "the caches hold the pages of the other one, the code is there"


def test_after_what_nobody_saw_all_is_cold() -> None:
    found = warmth(db=0, app=30)
    found.ran(BIDDING, 40)
    found.lost()
    assert floor(found) == (30, "warmup.app")


def test_the_slowest_tier_counts_and_the_cap_stands() -> None:
    found = warmth(db=20, app=60)
    assert floor(found) == (45, "warmup.app")
    found.ran(BIDDING, 60)
    found.restarted(["db"])
    assert floor(found) == (20, "warmup.db")


def test_the_plans_own_floor_counts_where_it_is_longer() -> None:
    plan = MeasurePlan(window_s=10, window_max_s=10, warmup_floor_s=40, warmup_cap_s=45)
    assert floor(warmth(db=0, app=30), plan=plan) == (40, "warmup")


def test_a_run_on_what_is_warm_waits_until_all_users_are_there() -> None:
    found, comers = warmth(db=0), Load(arrivals_s=5)
    found.ran(comers, 20)
    plan = MeasurePlan(window_s=10, window_max_s=10, warmup_floor_s=8, warmup_cap_s=45)
    assert floor(found, comers, plan) == (WARM.warmup_floor_s + 5, "warmup")
    assert floor(found, comers) == (4, "warmup"), "never longer than asked for"
    assert found.plan(PLAN, comers)[0].warmup_cap_s == WARM.warmup_cap_s + 5, "but until it is steady"


class Site(Bench):
    """db, app and web, of which app compiles what it runs; each run starts from fresh data."""

    def __init__(self, path: Path, *, writes: bool, follows: bool = False) -> None:
        super().__init__(path, app={"warmup_floor_s": 12.0})
        self.workload = FakeRatedWorkload(self.targets["db"].speed, writes=writes)
        db, app, web = self.stack.tiers
        self.stack = Stack([db, Tier(name="app", target=app.target, follows=follows), web])


def floors(plans: list[MeasurePlan]) -> list[float]:
    return [plan.warmup_floor_s for plan in plans]


def steps(trial: Trial) -> set[str]:
    return {step for step in trial.cost_s if step.startswith("warmup")}


def test_the_trials_of_a_stack_wait_for_what_they_have_restarted(tmp_path: Path, plans: list[MeasurePlan]) -> None:
    site = Site(tmp_path, writes=True)
    changes: list[dict[str, Any]] = [
        {}, {"web__sort_memory": 8}, {"web__cache": 256}, {"app__sort_memory": 8}, {"app__cache": 256},
        {"app__cache": 256, "db__cache": 64}, {},
    ]  # fmt: skip
    with site.room() as trials:
        made = [site.run(trials, hand_over=True, **change) for change in changes]
    assert floors(plans) == [10, 2, 2, 2, 10, 2, 10], "the cap of the plan is 10 s"
    assert [steps(trial) for trial in made] == [
        {"warmup.app"}, {"warmup"}, {"warmup"}, {"warmup"}, {"warmup.app"}, {"warmup"}, {"warmup.app"},
    ]  # fmt: skip
    assert [seconds_of(trial.cost_s, "warmup") >= floor for trial, floor in zip(made, floors(plans), strict=True)] == [
        True
    ] * 7


def test_a_tier_that_follows_a_restart_is_cold_too(tmp_path: Path, plans: list[MeasurePlan]) -> None:
    site = Site(tmp_path, writes=False, follows=True)
    with site.room() as trials:
        for change in ({}, {"web__cache": 256}, {"db__cache": 64}):
            site.run(trials, hand_over=True, **change)
    assert floors(plans) == [10, 2, 10]


def test_what_somebody_restarts_between_two_trials_is_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plans: list[MeasurePlan]
) -> None:
    """It spoils no trial, and is told at the next look alone."""
    site = Site(tmp_path, writes=False)
    told = [Disturbance(fault=Fault.ENVIRONMENT, text="the server was restarted by somebody else", stops=False)]
    with site.room() as trials:
        sentinel = trials._sentinel
        site.run(trials, hand_over=True, web__sort_memory=8)
        monkeypatch.setattr(sentinel, "_first", lambda but=None: told.pop() if told else None)
        trial = site.run(trials, hand_over=True, web__sort_memory=8)
        site.run(trials, hand_over=True, web__sort_memory=8)
    assert trial.status is Status.OK
    assert floors(plans) == [10, 10, 1]


def test_what_the_dead_man_has_put_back_between_two_trials_is_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plans: list[MeasurePlan]
) -> None:
    site, has_fired = Site(tmp_path, writes=False), [True]
    with site.room() as trials:
        site.run(trials, hand_over=True, web__sort_memory=8)
        monkeypatch.setattr(trials._guard, "has_fired", lambda: bool(has_fired) and has_fired.pop())
        site.run(trials, hand_over=True, web__sort_memory=8)
    assert floors(plans) == [10, 10]


def test_a_trial_that_was_taken_back_leaves_nothing_known(tmp_path: Path, plans: list[MeasurePlan]) -> None:
    site = Site(tmp_path, writes=False)
    with site.room() as trials:
        site.run(trials, web__sort_memory=8)
        site.run(trials, web__sort_memory=8)
    assert floors(plans) == [10, 10]
