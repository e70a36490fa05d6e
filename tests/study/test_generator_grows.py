"""A load generator that is too small for the server gets threads, and no config is lost because it made the server faster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tests.fakes import FakeStudy
from tests.fakes import Silent as Listener
from trimtab.errors import LoadError
from trimtab.measure import SecondLog
from trimtab.records import Endpoint, Role, Status, Trial
from trimtab.testing.fake_workload import FakeRatedRun, FakeRatedWorkload
from trimtab.trial import Interrupted
from trimtab.trial.generator import Generator
from trimtab.workload import ThreadedWorkload

pytestmark = pytest.mark.slow


@dataclass(slots=True)
class Run(FakeRatedRun):
    """A run that its generator spends `busy` cores on."""

    busy: float = 0.0
    n_threads: int = 1

    def log(self) -> SecondLog:
        log = FakeRatedRun.log(self)
        return replace(log, n_threads=self.n_threads, client_cpu_s=np.full(self.second, self.busy))


@dataclass(slots=True)
class Small(FakeRatedWorkload):
    """Its generator needs `need` cores at the first speed that it sees, and `need_when_faster` above that one.

    Attributes:
        cores: of the generator's machine.
        is_fixed: whether the user has said how many threads there are.
        runs: threads of each run so far.
        slow: the first speed, once it is known.
    """

    need: float = 0.1
    need_when_faster: float = 0.1
    n_threads: int = 1
    cores: int = 8
    is_fixed: bool = False
    runs: list[int] = field(default_factory=list)
    slow: list[float] = field(default_factory=list)

    def with_threads(self, least: int) -> Small:
        n = min(least, self.cores)
        return self if self.is_fixed or n <= self.n_threads else replace(self, n_threads=n)

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> FakeRatedRun:
        speed, lasts_s = self._drawn(seed, duration_s)
        self.slow[:] = self.slow or [speed]
        self.runs.append(self.n_threads)
        need = self.need_when_faster if speed > 1.1 * self.slow[0] else self.need
        return Run(0.0, speed, lasts_s, busy=min(need, 0.98 * self.n_threads), n_threads=self.n_threads)


def threads(trials: list[Trial]) -> list[int]:
    return [trial.measurement.n_threads for trial in trials if trial.measurement is not None]


def test_threads_are_settled_at_the_baseline_and_recorded(fake: FakeStudy) -> None:
    fake.workload = small = Small(fake.target.speed, noise_sd=0.001, need=1.3, need_when_faster=1.3)
    record, trials = fake.tune()
    assert record.status == "proven"
    # Busy without end, then for 65 % of the time, then for 33 %.
    assert small.runs[:3] == [1, 2, 4]
    assert set(small.runs[3:]) == set(threads(trials)) == {4}
    assert {trial.status for trial in trials} <= {Status.OK, Status.STOPPED_EARLY}
    told = [text for text in fake.listener.phases if text.startswith("the load generator was busy")]
    assert told == [
        "the load generator was busy 98 % of the time with 1 thread: it gets more for the rest of the study, and the run is "
        "repeated",
        "the load generator was busy 65 % of the time with 2 threads: it gets more for the rest of the study, and the run is "
        "repeated",
    ]


def test_a_config_that_makes_the_server_faster_than_the_generator_is_measured_and_wins(fake: FakeStudy) -> None:
    fake.workload = small = Small(fake.target.speed, noise_sd=0.001, need=0.45, need_when_faster=1.1)
    record, trials = fake.tune()
    assert record.status == "proven"
    assert trials[0].role is Role.BASELINE
    assert (threads(trials)[0], threads(trials)[-1]) == (1, 2)
    assert sorted(small.runs) == small.runs, "what was found holds for the rest of the study"
    assert {trial.status for trial in trials} <= {Status.OK, Status.STOPPED_EARLY}


@pytest.mark.parametrize("changes", [{"cores": 1}, {"is_fixed": True}])
def test_a_generator_that_cannot_grow_is_told_as_before(fake: FakeStudy, changes: dict[str, int]) -> None:
    fake.workload = small = Small(fake.target.speed, need=1.3, **changes)  # type: ignore[arg-type]
    with pytest.raises(LoadError, match=r"the load generator used 98 % of its core \(limit 80 %\)"):
        fake.tune()
    assert small.runs == [1, 1], "one repeat, as after any run that says nothing of the server"


def test_a_generator_that_got_no_more_threads_is_not_asked_for_more_again(fake: FakeStudy) -> None:
    class Unyielding(Small):
        """Its machine is another one, whose cores nobody knows before."""

        def with_threads(self, least: int) -> Small:
            return replace(self)

    fake.workload = small = Unyielding(fake.target.speed, need=1.3)
    with pytest.raises(LoadError, match="the load generator used 98 % of its core"):
        fake.tune()
    assert small.runs == [1, 1, 1]


def test_a_study_that_resumes_has_the_threads_that_it_had(fake: FakeStudy) -> None:
    fake.workload = Small(fake.target.speed, need=1.3, need_when_faster=1.3)

    def stop(trial: Trial) -> None:
        if trial.number == 3:
            raise KeyboardInterrupt

    fake.listener.on_trial = stop
    with pytest.raises(Interrupted):
        fake.tune()
    fake.listener, fake.workload = Listener(), replace(fake.workload, runs=(runs := []))  # type: ignore[type-var]
    _, trials = fake.tune()
    assert set(runs) == set(threads(trials)) == {4}


def test_a_workload_that_drives_itself_is_left_alone() -> None:
    class Own:
        """A command of the user's, for instance."""

    generator = Generator(lambda text: pytest.fail(text))
    generator.recall([])
    workload = Own()
    assert not isinstance(workload, ThreadedWorkload)
    assert generator.sized(workload) is workload  # type: ignore[arg-type, comparison-overlap]
