"""Trials on several targets: order, costs, journal, failures in the middle of a change and of a way back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import RestoreError
from trimtab.records import Objective, Role, Status, Trial
from trimtab.space import Config, Space
from trimtab.systems import Stack, Tier
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeWorkload
from trimtab.trial import Journal, MeasurePlan, TrialRoom
from trimtab.trial.undo import ways_back

PLAN = MeasurePlan(window_s=5, window_max_s=5, warmup_floor_s=2, warmup_cap_s=10)
KNOBS = ("cache", "sort_memory", "method")
NAMES = ("db", "app", "web")


class Bench:
    """Three targets, a workload, and the room around them; `log` has every apply and restore in order."""

    def __init__(self, path: Path, **targets: dict[str, Any]) -> None:
        self.path = path
        self.log: list[str] = []
        self.targets = {name: self._made(name, targets.get(name, {})) for name in NAMES}
        self.stack = Stack([Tier(name=name, target=target) for name, target in self.targets.items()])
        self.workload = FakeWorkload(self.targets["db"].speed)
        states = self.stack.states()
        tuned = [f"{name}.{knob}" for name in NAMES for knob in KNOBS]
        self.baseline = Config({name: states[name].running for name in tuned})
        self.space = Space([states[name].knob for name in tuned])
        self.found = self.values()

    def _made(self, name: str, options: dict[str, Any]) -> FakeTarget:
        log = self.log

        class Logged(FakeTarget):
            def apply(self, config: Config, *, stays: bool = False) -> Any:
                log.append(f"apply {self.name}")
                return super().apply(config, stays=stays)

            def restore(self, *arguments: Any, **more: Any) -> Any:
                log.append(f"restore {self.name}")
                return super().restore(*arguments, **more)

        return Logged(name, **options)

    def values(self) -> dict[str, Any]:
        return {name: dict(target.values) for name, target in self.targets.items()}

    @contextmanager
    def room(self, **options: Any) -> Iterator[TrialRoom]:
        with TrialRoom(
            self.stack, self.workload, self.space, self.baseline, objective=Objective("throughput"),
            state_dir=self.path, study="stack", **options,
        ) as room:  # fmt: skip
            yield room

    def run(self, room: TrialRoom, hand_over: bool = False, **changes: Any) -> Trial:
        config = self.baseline.replace({name.replace("__", "."): value for name, value in changes.items()})
        return room.run(config, number=0, role=Role.SEARCH, plan=PLAN, seed=7, hand_over=hand_over)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_all_are_changed_and_put_back(bench: Bench) -> None:
    with bench.room() as room:
        trial = bench.run(room, db__cache=256, web__method="ring")
    assert trial.status is Status.OK
    assert dict(trial.effective) == {"db.cache": 256, "web.method": "ring"}
    assert {"apply.db", "apply.app", "apply.web"} <= set(trial.cost_s)
    assert "apply" not in trial.cost_s
    assert bench.values() == bench.found
    assert Journal(bench.path).open_entries() == []


def test_memory_is_given_back_before_it_is_taken_on_both_ways(bench: Bench) -> None:
    with bench.room() as room:
        bench.run(room, hand_over=True, db__cache=64, web__cache=900)
        bench.log.clear()
        bench.run(room, hand_over=True, db__cache=900, web__cache=64)
        assert bench.log == ["apply app", "apply web", "apply db"]
        bench.log.clear()
    assert bench.log == ["restore db", "restore app", "restore web"], "db shrinks, web grows on the way back"
    assert bench.values() == bench.found


def test_the_journal_orders_the_way_back_without_a_stack(bench: Bench) -> None:
    orders: list[list[str]] = []

    def look(second: int) -> None:
        (entry,) = Journal(bench.path).open_entries()
        orders.append([snapshot.target for snapshot in ways_back(entry)])

    bench.workload.on_second = look
    with bench.room() as room:
        bench.run(room, db__cache=64, app__cache=900)
    assert orders[0] == ["app", "web", "db"]


def test_a_tier_that_fails_in_the_middle_of_a_change_takes_all_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path, app={"crash_when": lambda values: values["cache"] == 300})
    with bench.room() as room:
        trial = bench.run(room, db__cache=256, app__cache=300, web__cache=256)
        assert trial.status is Status.CRASHED
        assert trial.reason.startswith("app: the fake server did not start")
        assert bench.values() == bench.found
        assert "apply web" not in bench.log
        assert bench.run(room, db__cache=256).status is Status.OK
    assert bench.values() == bench.found


def test_a_tier_that_cannot_be_restored_keeps_no_other_from_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, app={"fail_restore": 99})
    with pytest.raises(RestoreError, match="^app: the fake server could not be put back"), bench.room() as room:
        bench.run(room, db__cache=256, app__cache=256, web__cache=256)
    found = bench.values()
    assert (found["db"], found["web"]) == (bench.found["db"], bench.found["web"])
    assert found["app"]["cache"] == 256
    (entry,) = Journal(bench.path).open_entries()
    assert not entry.own("db")
    assert entry.own("app")
    entry.close("end of the test")


def test_two_tiers_that_cannot_be_restored_are_both_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path, db={"fail_restore": 99}, web={"fail_restore": 99})
    with pytest.raises(RestoreError) as caught, bench.room() as room:
        bench.run(room, db__cache=256, web__cache=256)
    assert "db: the fake server could not" in caught.value.message
    assert "web: the fake server could not" in caught.value.message
    assert "trimtab recover --state" in str(caught.value.hint)
    Journal(bench.path).open_entries()[0].close("end of the test")


def test_dangerous_names_are_refused_behind_the_name_of_a_tier(bench: Bench) -> None:
    knob = bench.space.knobs["db.cache"]
    from dataclasses import replace

    space = Space([*bench.space.knobs.values(), replace(knob, name="db.skip_grant_tables")])
    bench.space, bench.baseline = space, bench.baseline.replace({"db.skip_grant_tables": 128})
    with bench.room() as room:
        trial = bench.run(room, db__skip_grant_tables=256)
    assert trial.status is Status.REJECTED
    assert "knob='skip_grant_tables' may not be changed" in trial.reason
    assert "apply db" not in bench.log


def test_a_restart_of_each_tier_is_allowed_in_one_undo(bench: Bench) -> None:
    """Restarts count by target: three tiers that each need one are no third attempt of one."""
    with bench.room() as room:
        bench.run(room, hand_over=True, db__cache=256, app__cache=256, web__cache=256)
        (entry,) = Journal(bench.path).open_entries()
        for name in NAMES:
            entry.note("restart tried", {"target": name})
        assert [entry.n_restarts(name) for name in NAMES] == [1, 1, 1]
    assert bench.values() == bench.found
