"""W1, W2, W4 to W8, R6 without a server: loads that misbehave on purpose, clocks that step, noise with known truth."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.bench_modules import bench_modules
from tests.fakes import FakeStudy, equal_costs, fake
from trimtab.errors import LoadError
from trimtab.history import StudyRecord
from trimtab.measure import Buckets, SecondLog
from trimtab.records import Endpoint, Objective, Role, Status, Trial
from trimtab.report import report_text
from trimtab.space import Config, Space
from trimtab.systems import Stack
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeRatedWorkload, FakeRun, FakeWorkload
from trimtab.trial import Journal, MeasurePlan, TrialRoom
from trimtab.workload import Frame

pytestmark = pytest.mark.slow

__all__ = ["equal_costs", "fake"]

PLAN = MeasurePlan(window_s=6, window_max_s=6, warmup_floor_s=0, warmup_cap_s=20)
ROOT = Path(__file__).parents[2]
NAMES = ("cache", "sort_memory")


class Bench:
    """A target, a load that misbehaves, and the room between them."""

    def __init__(self, path: Path, workload: FakeWorkload | None = None) -> None:
        self.path = path
        self.target = FakeTarget()
        self.found = dict(self.target.values)
        self.workload = workload or FakeWorkload(self.target.speed)
        states = self.target.states()
        self.baseline = Config({name: states[name].running for name in NAMES})
        self.space = Space([states[name].knob for name in NAMES])

    @contextmanager
    def room(self) -> Iterator[TrialRoom]:
        room = TrialRoom(
            Stack.of(self.target), self.workload, self.space, self.baseline, objective=Objective("throughput"),
            state_dir=self.path, study="test",
        )  # fmt: skip
        with room:
            yield room
        assert dict(self.target.values) == self.found
        assert Journal(self.path).open_entries() == []

    def trial(self) -> Trial:
        with self.room() as room:
            return room.run(
                self.baseline.replace({"sort_memory": 8}), number=3, role=Role.SEARCH, plan=PLAN, seed=1, hand_over=True
            )


@dataclass(slots=True)
class Sleepy(FakeRun):
    """Sends a few seconds and then nothing for ever."""

    def frame(self, timeout_s: float) -> Frame | None:
        return None if self.second >= 3 else FakeRun.frame(self, timeout_s)

    @property
    def is_done(self) -> bool:
        return False


@dataclass(slots=True)
class Scripted(FakeWorkload):
    """Its runs send these frames' credits in place of their own; "sleep" hangs."""

    scripts: list[list[float] | str] = field(default_factory=list)

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> Any:
        self.seeds.append(seed)
        script = self.scripts.pop(0) if self.scripts else "well"
        if script == "sleep":
            return Sleepy(1000.0, 60, 4)
        run = FakeRun(1000.0, int(duration_s), 4)
        return run if script == "well" else Lying(1000.0, int(duration_s), 4, credits=list(script))  # type: ignore[arg-type]


@dataclass(slots=True)
class Lying(FakeRun):
    credits: list[float] = field(default_factory=list)

    def frame(self, timeout_s: float) -> Frame | None:
        frame = FakeRun.frame(self, timeout_s)
        if frame is None:
            return None
        credit = self.credits[frame.second] if frame.second < len(self.credits) else frame.credited
        return replace(frame, credited=credit, n_ok=frame.n_ok if credit else 0)

    def log(self) -> Any:
        log = FakeRun.log(self)
        if self.credits and not any(self.credits):
            n = np.zeros(0)
            return replace(
                log, stream=n.astype(np.int32), label=n.astype(np.int32), start_s=n, end_s=n, rows=n.astype(np.int64),
                outcome=n.astype(np.uint8),
            )  # fmt: skip
        return log


def test_W1_a_load_generator_that_sleeps_is_ended(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Scripted(lambda: 1000.0, scripts=["sleep"] * 3))
    with pytest.raises(LoadError, match="the load engine sent no frame for 15 s"):
        bench.trial()
    assert len(bench.workload.seeds) == 3


def test_W1_one_hang_is_nobodys_fault(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Scripted(lambda: 1000.0, scripts=["sleep"]))
    trial = bench.trial()
    assert (trial.status, len(bench.workload.seeds)) == (Status.OK, 2)


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -5.0])
def test_W2_nonsense_from_the_generator_is_no_score(tmp_path: Path, nonsense: float) -> None:
    bench = Bench(tmp_path, Scripted(lambda: 1000.0, scripts=[[1000.0, nonsense]]))
    trial = bench.trial()
    assert trial.status is Status.OK
    assert len(bench.workload.seeds) == 2
    assert "failed" in trial.cost_s
    always = Bench(tmp_path, Scripted(lambda: 1000.0, scripts=[[nonsense]] * 3))
    with pytest.raises(LoadError, match="the load engine sent invalid figures: second=0 credited="):
        always.trial()


def test_W2_a_generator_that_dies_is_run_once_more_and_gives_no_score(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.workload.dies_after_s = 4
    trial = bench.trial()
    assert (trial.status, trial.measurement, len(bench.workload.seeds)) == (Status.INFRASTRUCTURE, None, 2)


def test_W2_zero_is_looked_at_twice(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Scripted(lambda: 1000.0, scripts=[[0.0] * 30]))
    assert bench.trial().status is Status.OK
    assert len(bench.workload.seeds) == 2
    twice = Bench(tmp_path, Scripted(lambda: 1000.0, scripts=[[0.0] * 30] * 2))
    trial = twice.trial()
    assert (trial.status, trial.measurement) == (Status.TIMED_OUT, None)
    assert trial.reason.startswith("no operation succeeded in ")


def rated(path: Path, **log_changes: Any) -> Bench:
    workload = FakeRatedWorkload(lambda: 1000.0, noise_sd=0.0)
    workload.log_changes |= log_changes
    return Bench(path, workload)


def _two_mixes(n_seconds: int, early: int, late: int) -> Buckets:
    """Of 1000 operations a second `early` are reads in the first half of the window (seconds 0 to 5), `late` in the second."""
    rows = []
    for second in range(n_seconds):
        n_read = early if second < 3 else late
        rows += [(second, 0, 1000, n_read), (second, 1, 1000, 1000 - n_read)]
    return Buckets.of(rows)


def test_W4_a_workload_that_changes_half_way_is_no_measurement(tmp_path: Path) -> None:
    trial = rated(tmp_path, response=_two_mixes(8, 500, 950)).trial()
    assert (trial.status, trial.measurement) == (Status.INFRASTRUCTURE, None)
    assert trial.reason.startswith("invalid run: the workload changed half way: mix_shift=0.")
    assert not trial.status.is_config_fault


def test_W4_a_mix_that_only_wanders_is_measured(tmp_path: Path) -> None:
    assert rated(tmp_path, response=_two_mixes(8, 500, 560)).trial().status is Status.OK


def test_W5_no_traffic_decides_nothing(tmp_path: Path) -> None:
    class Night(FakeRatedWorkload):
        def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> Any:
            run = super().start(endpoint, seed=seed, duration_s=duration_s)
            return _Silent(run)

    trial = Bench(tmp_path, Night(lambda: 1000.0, rate_per_s=10.0)).trial()
    assert (trial.status, trial.measurement) == (Status.INFRASTRUCTURE, None)
    assert trial.reason == "invalid run: no traffic: no request was due in the whole window"


class _Silent:
    """A run of an open loop in which no request is due."""

    def __init__(self, run: Any) -> None:
        self._run = run

    @property
    def is_done(self) -> bool:
        return bool(self._run.is_done)

    def frame(self, timeout_s: float) -> Frame | None:
        frame = self._run.frame(timeout_s)
        return None if frame is None else Frame(frame.second, 0, 0, 0.0)

    def log(self) -> SecondLog:
        log = self._run.log()
        zeros = np.zeros(len(log.credited))
        nothing = Buckets.of()
        return replace(
            log, credited=zeros, offered=zeros.astype(np.int64), shed=zeros.astype(np.int64), response=nothing,
            service=nothing, lateness=nothing,
        )  # fmt: skip

    def stop(self) -> SecondLog:
        self._run.stop()
        return self.log()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in (2, 3))])
def test_W6_an_unstable_baseline_accepts_nothing_and_says_so(fake: FakeStudy, seed: int) -> None:
    fake.workload.noise_sd = 0.3
    fake.target._speed = lambda values: 4000.0 if not values["compile"] else 1000.0
    fake.text = fake.text.replace('budget = "12 trials"', f'budget = "12 trials"\nseed = {seed}')
    record, trials = fake.tune()
    verdict = record.verdict
    assert (record.status, verdict.result) == ("no_improvement", "no_improvement")
    assert "baseline" in verdict.refused_by
    assert {row.name for row in verdict.conditions} >= {"gain", "baseline", "stability", "durability"}
    (text,) = [row.text for row in verdict.conditions if row.name == "baseline"]
    assert text.startswith("the baseline varies by ")
    assert text.endswith("from run to run (at most 20 % for any claim)")
    assert "but it is not accepted: the baseline varies by" in " ".join(report_text(record, trials).split())


@pytest.fixture(scope="module")
def aa() -> Iterator[ModuleType]:
    with bench_modules(ROOT / "benchmarks" / "acceptance", "aa") as modules:
        yield modules["aa"]


@pytest.mark.parametrize("kind", [0, 2, *(pytest.param(kind, marks=pytest.mark.full) for kind in (1, 3, 4, 5))])
def test_W7_equal_configs_are_rarely_called_better(aa: ModuleType, kind: int) -> None:
    """Five per cent at most; in 200 proofs chance alone may show 17 of a true 5 % (binomial, 99 %)."""
    name = list(aa.MODELS)[kind]
    assert aa.false_claims(name, n=200, seed=7) <= 17
    assert len(aa.MODELS) == 6


def test_W7_real_gains_are_accepted_and_harm_is_not(aa: ModuleType) -> None:
    rng = np.random.default_rng(8)
    name = next(iter(aa.MODELS))
    assert sum(aa.accepted(name, rng, gain=1.5) for _ in range(50)) >= 45
    assert sum(aa.accepted(name, rng, gain=1.5, p99=2.25) for _ in range(50)) <= 5
    assert sum(aa.accepted(name, rng, gain=1.5, spread=6.0) for _ in range(50)) <= 25


def test_W8_a_cold_cache_is_warmed_before_it_is_measured(tmp_path: Path) -> None:
    """The rule makes both arms equal: the run that begins cold warms up longer and then shows the same."""
    cold = [1000.0 * (1 - 0.9 * math.exp(-second / 1.5)) for second in range(12)]
    found = {}
    for name, script in (("warm", "well"), ("cold", cold)):
        bench = Bench(tmp_path / name, Scripted(lambda: 1000.0, scripts=[script]))  # type: ignore[list-item]
        found[name] = bench.trial()
    assert found["cold"].cost_s["warmup"] > found["warm"].cost_s["warmup"]
    assert all(trial.status is Status.OK for trial in found.values())


def test_R6_steps_of_the_clock_change_no_result(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The wall clock jumps an hour to and fro with every look at it; order and durations come from elsewhere."""
    real, steps = time.time, itertools.cycle((0.0, 3600.0, -3600.0, 1800.0))

    def tuned(clock: Callable[[], float]) -> tuple[StudyRecord, list[Trial]]:
        monkeypatch.setattr(time, "time", clock)
        fake.workload.seeds.clear()  # the noise of a run is that of its number
        return fake.tune(again=True)

    record, trials = tuned(lambda: real() + next(steps))
    assert record.status == "proven"
    assert all(0 <= seconds < 600 for trial in trials for seconds in trial.cost_s.values())
    assert 0 <= record.verdict.wall_s["total"] < 600
    # What a trial has really taken decides a little of the baseline's track, and would differ from run to run.
    request.getfixturevalue("equal_costs")
    found = [
        [(trial.number, trial.role, trial.config, trial.loss) for trial in tuned(clock)[1]]
        for clock in (real, lambda: real() + next(steps))
    ]
    assert found[0] == found[1]
