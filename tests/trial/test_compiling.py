"""A target that compiles what it runs: short loads with pauses until that is done, and only then a run that is measured."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trial.test_stack_room import Bench
from trimtab.host import ThreadClock
from trimtab.records import Role, Status, Trial
from trimtab.systems import Stack, Tier
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeRatedWorkload, FakeWorkload
from trimtab.trial import MeasurePlan, load, warmth
from trimtab.trial.compiling import Compiling

PLAN = MeasurePlan(window_s=5, window_max_s=5, warmup_floor_s=2, warmup_cap_s=90)
STARVED = 0.16
"""Share of a core that a compiler has under a load that takes all."""


class Clock:
    """Time that passes with seconds of a load and with pauses; what is to be compiled is compiled in it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.left_s: dict[str, float] = {}
        self.compiled_s: dict[str, float] = {}

    def __call__(self) -> float:
        return self.now_s

    def load(self, second: int) -> None:
        self._pass(1.0, STARVED)

    def sleep(self, seconds: float) -> None:
        self._pass(seconds, 1.0)

    def _pass(self, seconds: float, share: float) -> None:
        self.now_s += seconds
        for name, left_s in self.left_s.items():
            done_s = min(left_s, share * seconds)
            self.left_s[name] -= done_s
            self.compiled_s[name] = self.compiled_s.get(name, 0.0) + done_s


class Java(FakeTarget):
    """With a compiler that has `work_s` to do after each restart; None where its threads cannot be seen."""

    compiles = True

    def __init__(self, name: str, clock: Clock, work_s: float | None) -> None:
        super().__init__(name)
        self.clock, self.work_s = clock, work_s
        self._start()

    def _start(self) -> None:
        self.clock.left_s[self.name], self.clock.compiled_s[self.name] = self.work_s or 0.0, 0.0

    def compile_s(self) -> float | None:
        return None if self.work_s is None else self.clock.compiled_s[self.name]

    def apply(self, config: Any, *, stays: bool = False) -> Any:
        applied = super().apply(config, stays=stays)
        if applied.restarted:
            self._start()
        return applied


class Site(Bench):
    """db, app and web; `app` is a Java machine."""

    def __init__(self, path: Path, clock: Clock, work_s: float | None) -> None:
        super().__init__(path)
        db, _, web = self.stack.tiers
        self.app = Java("app", clock, work_s)
        self.stack = Stack([db, Tier(name="app", target=self.app), web])
        self.targets["app"] = self.app
        self.workload = FakeRatedWorkload(self.targets["db"].speed, on_second=clock.load)

    def trial(self, room: Any, **changes: Any) -> Trial:
        config = self.baseline.replace({name.replace("__", "."): value for name, value in changes.items()})
        trial: Trial = room.run(config, number=0, role=Role.SEARCH, plan=PLAN, seed=7, hand_over=True)
        return trial


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(warmth, "Compiling", partial(Compiling, now=clock, sleep=clock.sleep))
    monkeypatch.setattr(load, "time", SimpleNamespace(monotonic=clock))
    return clock


def compiling(clock: Clock, work_s: float | None = 5.0) -> Compiling:
    return Compiling([Tier(name="app", target=Java("app", clock, work_s))], now=clock, sleep=clock.sleep)


def test_a_pause_lasts_as_long_as_there_is_something_to_compile(clock: Clock) -> None:
    found = compiling(clock, 5.0)
    found.pause(90)
    assert found.total_s() == pytest.approx(5.0)
    assert 5.0 <= clock.now_s <= 6.0
    found.pause(90)
    assert clock.now_s <= 6.5
    endless, begun_s = compiling(clock, 500.0), clock.now_s
    endless.pause(4.0)
    assert clock.now_s - begun_s == pytest.approx(4.0), "no longer than it may"
    endless.pause(4.0, lambda: True)
    assert clock.now_s - begun_s == pytest.approx(4.0), "nor when the user stops the study"


def test_a_starved_compiler_is_seen_under_a_load_and_late_code_is_not(clock: Clock) -> None:
    found = compiling(clock, 1.0)
    seen = []
    for second in range(16):
        seen.append(found.is_busy())
        clock.load(second)
    assert seen[:8] == [True] * 8, "1 s of work takes 6 s and more"
    assert seen[11:] == [False] * 5
    clock.left_s["app"] += 0.2
    for second in range(5):
        clock.load(second)
        assert not found.is_busy(), "a method now and then"


def test_what_cannot_be_seen_is_not_waited_for(clock: Clock) -> None:
    compiling(clock, None).pause(90)
    assert clock.now_s <= 0.5


def test_short_loads_come_first_and_the_data_are_made_again(tmp_path: Path, clock: Clock) -> None:
    site = Site(tmp_path, clock, work_s=8.0)
    with site.room() as room:
        first = site.trial(room)
        seeds, resets = list(site.workload.seeds), len(site.workload.resets)
        again = site.trial(room)
    assert first.status is again.status is Status.OK
    assert seeds == [8, 9, 10, 11, 1008, 7], (
        "in the first one's pause all was compiled; three show it, one on fresh data, too"
    )
    assert resets == 3
    assert first.measurement is not None
    assert first.measurement.is_steady
    assert 10 <= first.cost_s["warmup.app"] <= 20, "with the short loads"
    assert again.measurement is not None
    ages = [trial.measurement.warmup_s for trial in (first, again)]
    assert ages == [trial.measurement.window_s[0] for trial in (first, again)], "of the data when the window began"
    assert ages[0] == ages[1], "the run after the short loads begins as any other"
    assert site.workload.seeds[6:] == [7], "the code is there until the next restart"
    assert again.cost_s["warmup"] <= 4


def test_what_fresh_data_makes_it_compile_is_compiled_before_the_run(tmp_path: Path, clock: Clock) -> None:
    """As rows that come from files again, when the code was compiled for rows in memory; once it knows both, it is done."""

    class Fresh(FakeRatedWorkload):
        def start(self, endpoint: Any, *, seed: int, duration_s: float) -> Any:
            clock.left_s["app"] += 3.0 if len(self.resets) == 2 and seed == 1008 else 0.0
            return super().start(endpoint, seed=seed, duration_s=duration_s)

    site = Site(tmp_path, clock, work_s=2.0)
    site.workload = Fresh(site.targets["db"].speed, on_second=clock.load)
    with site.room() as room:
        trial = site.trial(room)
    assert site.workload.seeds == [8, 9, 10, 11, 1008, 1009, 2008, 7]
    assert site.workload.resets[-1] == "clean"
    assert len(site.workload.resets) == 5
    assert trial.measurement is not None
    assert trial.measurement.is_steady
    assert clock.left_s["app"] == pytest.approx(0.0)


def test_data_that_always_make_it_compile_end_after_some_series(tmp_path: Path, clock: Clock) -> None:
    class Restless(FakeRatedWorkload):
        def start(self, endpoint: Any, *, seed: int, duration_s: float) -> Any:
            clock.left_s["app"] += 3.0 if seed % 1000 == 8 else 0.0
            return super().start(endpoint, seed=seed, duration_s=duration_s)

    site = Site(tmp_path, clock, work_s=2.0)
    site.workload = Restless(site.targets["db"].speed, on_second=clock.load)
    with site.room() as room:
        site.trial(room)
    assert site.workload.seeds[-3:] == [3008, 3009, 7]
    assert len(site.workload.resets) == 6, "before each of four series, before the run, and at the end"


def test_a_load_that_changes_no_data_needs_one_series(tmp_path: Path, clock: Clock) -> None:
    site = Site(tmp_path, clock, work_s=2.0)
    site.workload.writes = False
    with site.room() as room:
        site.trial(room)
    assert site.workload.seeds == [8, 9, 10, 11, 7]


def test_all_series_have_one_room(tmp_path: Path, clock: Clock) -> None:
    """A later one gets what is left of it; the run that is measured has a quarter of the longest warm-up."""
    site = Site(tmp_path, clock, work_s=60.0)
    with site.room() as room:
        trial = site.trial(room)
    assert trial.measurement is not None
    assert trial.measurement.is_steady
    assert trial.cost_s["warmup.app"] <= 0.75 * PLAN.warmup_cap_s + 12


def test_the_user_stops_short_loads_at_once(tmp_path: Path, clock: Clock) -> None:
    java = Java("app", clock, 60.0)
    found = Compiling([Tier(name="app", target=java)], now=clock, sleep=clock.sleep)
    workload = FakeRatedWorkload(java.speed, on_second=clock.load)
    result = load.warm_up_load(
        workload, java.endpoint(), PLAN, found, seed=1, room_s=60, n_calm=3, is_interrupted=lambda: clock.now_s >= 5
    )
    assert result.end is load.End.INTERRUPTED
    assert clock.now_s <= 7


def test_what_the_short_loads_have_shown_counts_where_the_run_shows_too_little(clock: Clock) -> None:
    java = Java("app", clock, 0.0)
    plan = MeasurePlan(window_s=5, window_max_s=5, warmup_floor_s=0, warmup_cap_s=2)
    for was_compiled in (True, False):
        found = Compiling([Tier(name="app", target=java)], now=clock, sleep=clock.sleep)
        workload = FakeRatedWorkload(java.speed, on_second=clock.load)
        result = load.measure_load(workload, java.endpoint(), plan, seed=1, compiling=found, was_compiled=was_compiled)
        assert result.is_compiled is was_compiled


def test_only_its_own_restart_makes_it_compile_again(tmp_path: Path, clock: Clock) -> None:
    site = Site(tmp_path, clock, work_s=2.0)
    n_loads = []
    with site.room() as room:
        for change in ({}, {"web__cache": 256}, {"app__sort_memory": 8}, {"app__cache": 256}):
            before = len(site.workload.seeds)
            site.trial(room, **change)
            n_loads.append(len(site.workload.seeds) - before)
    assert n_loads == [6, 1, 1, 6]


def test_code_that_is_never_done_ends_with_the_longest_warm_up_and_is_told(tmp_path: Path, clock: Clock) -> None:
    site = Site(tmp_path, clock, work_s=1000.0)
    with site.room() as room:
        first, again = site.trial(room), site.trial(room)
    for trial in (first, again):
        assert trial.status is Status.OK
        assert trial.measurement is not None
        assert not trial.measurement.is_steady
        assert 80 <= trial.cost_s["warmup.app"] <= 100


def test_the_run_that_is_measured_waits_for_what_is_left(tmp_path: Path, clock: Clock) -> None:
    """After pauses that were too short for all of it."""
    site = Site(tmp_path, clock, work_s=63.0)
    with site.room() as room:
        trial = site.trial(room)
    assert trial.measurement is not None
    assert trial.measurement.is_steady
    assert 68 <= trial.cost_s["warmup.app"] <= 90


def test_what_does_not_show_its_compiler_has_no_short_loads(tmp_path: Path, clock: Clock) -> None:
    site = Site(tmp_path, clock, work_s=None)
    with site.room() as room:
        site.trial(room)
    assert site.workload.seeds == [7]


def test_a_short_load_that_ends_by_itself_ends_the_trial(tmp_path: Path, clock: Clock) -> None:
    site = Site(tmp_path, clock, work_s=8.0)
    site.workload.dies_after_s = 0
    with site.room() as room:
        trial = site.trial(room, app__cache=256)
    assert trial.status is not Status.OK
    assert trial.reason
    assert trial.measurement is None
    assert 7 not in site.workload.seeds


def test_a_short_warm_up_has_no_room_for_them(tmp_path: Path, clock: Clock) -> None:
    site = Site(tmp_path, clock, work_s=8.0)
    plan = MeasurePlan(window_s=2, window_max_s=2, warmup_floor_s=0, warmup_cap_s=1)
    said: list[str] = []
    with site.room(say=said.append) as room:
        for _ in range(2):
            trial = room.run(site.baseline, number=0, role=Role.BASELINE, plan=plan, seed=7)
    assert site.workload.seeds == [7, 7]
    assert trial.measurement is not None
    assert not trial.measurement.is_steady
    warnings = [text for text in said if "still compiling" in text]
    assert len(warnings) == 1, "once in a study"
    assert "after warmup_cap='1s'" in warnings[0]


def test_a_command_is_never_ended_after_a_second(tmp_path: Path, clock: Clock) -> None:
    """Its run waits itself."""
    site = Site(tmp_path, clock, work_s=3.0)
    site.workload = FakeWorkload(site.targets["db"].speed, on_second=clock.load)
    with site.room() as room:
        trial = site.trial(room)
    assert site.workload.seeds == [7]
    assert trial.measurement is not None
    assert trial.measurement.is_steady
    assert trial.measurement.warmup_s >= 3.0 / STARVED


class Arriving(FakeRatedWorkload):
    """Its users come within five seconds."""

    arrivals_s = 5.0


def test_short_loads_without_all_users_do_not_show_that_all_is_compiled(clock: Clock) -> None:
    java = Java("app", clock, 2.0)
    endpoint, found = java.endpoint(), Compiling([Tier(name="app", target=java)], now=clock, sleep=clock.sleep)
    for workload, is_compiled in ((FakeRatedWorkload, True), (Arriving, False)):
        load_of_all = workload(java.speed, on_second=clock.load)
        result = load.warm_up_load(load_of_all, endpoint, PLAN, found, seed=1, room_s=60, n_calm=3)
        assert result.is_compiled is is_compiled
        assert result.measurement is None


class Thinking(FakeRatedWorkload):
    """Its users think for seven seconds before each operation; those of `eager` do not."""

    eager: FakeRatedWorkload
    started: list[int]

    def at_full_speed(self) -> FakeRatedWorkload:
        return self.eager

    def start(self, endpoint: Any, *, seed: int, duration_s: float) -> Any:
        self.started.append(seed)
        return super().start(endpoint, seed=seed, duration_s=duration_s)


def test_users_do_not_pause_in_short_loads(tmp_path: Path, clock: Clock) -> None:
    """A second in which all think compiles nothing, and would seem to show that nothing is left."""
    site = Site(tmp_path, clock, work_s=8.0)
    thinking = Thinking(site.targets["db"].speed, on_second=clock.load)
    thinking.eager, thinking.started, site.workload = site.workload, [], thinking
    with site.room() as room:
        trial = site.trial(room)
    assert thinking.eager.seeds == [8, 9, 10, 11, 1008]
    assert thinking.started == [7], "the run that is measured is the user's own load"
    assert trial.measurement is not None
    assert trial.measurement.is_steady


def test_time_of_threads_by_their_names() -> None:
    own = Path(f"/proc/{os.getpid()}/comm").read_text(encoding="utf-8").strip()
    sum(range(3_000_000))
    mine = ThreadClock([own[:4]]).seconds(os.getpid())
    assert mine is not None
    assert mine > 0
    assert ThreadClock(["no such"]).seconds(os.getpid()) == 0.0
    assert ThreadClock([own]).seconds(2**22 + 1) is None


def test_what_a_thread_that_has_ended_used_still_counts(tmp_path: Path) -> None:
    """Java ends a compiler's thread that had nothing to do for a while: the others' work would count for less."""

    def used(pid: int, began: int = 1, **ticks: int) -> float | None:
        for old in tmp_path.glob(f"proc/{pid}/task/*/stat"):
            old.unlink()
        for thread, each in ticks.items():
            stat = tmp_path / f"proc/{pid}/task/{thread[1:]}/stat"
            stat.parent.mkdir(parents=True, exist_ok=True)
            stat.write_text(f"{thread[1:]} (C2 CompilerThre) {'0 ' * 11}{each} 0 {'0 ' * 6}{began}\n")
        return clock.seconds(pid)

    clock, tick_s = ThreadClock(["C2"], tmp_path), 1 / os.sysconf("SC_CLK_TCK")
    assert used(7, t1=300, t2=200) == pytest.approx(500 * tick_s)
    assert used(7, t1=310) == pytest.approx(510 * tick_s)
    assert used(7, t1=310, t3=5) == pytest.approx(515 * tick_s)
    assert used(7, began=9, t1=2, t3=5) == pytest.approx(522 * tick_s), "new threads with the numbers of old ones"
    assert used(8, t4=40) == pytest.approx(40 * tick_s), "another process"
