"""A study over the fakes: the whole loop without a server and without waiting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.needs import IS_FULL
from trimtab import plugins
from trimtab.history import StudyRecord
from trimtab.importance import RankProblem
from trimtab.model.fit import fit_among, fit_hyper
from trimtab.records import QueryClass, Role, Trial
from trimtab.report.explain import Explanation
from trimtab.search.auto import AutoSearcher
from trimtab.search.optimise import optimiser
from trimtab.study import load_study_file, tune, tuning
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeWorkload
from trimtab.trial import Entry, TrialRoom
from trimtab.workload import Frame

T = TypeVar("T")

STUDY = """
[study]
name = "fake"
budget = "12 trials"

[target.db]
kind = "fake"

[workload]
kind = "fake"

[measure]
window = "5s"
window_max = "5s"
"""


@pytest.fixture
def rough_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks from a fifth of the resamples, for what is not about how good ranks are: tests/importance is."""
    monkeypatch.setitem(RankProblem.__init__.__kwdefaults__, "n_bootstrap", 10)


def tunes_its_queries(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch, classes: list[QueryClass]) -> None:
    """From now on the target does, and has learnt these classes."""

    def hint(settings: Mapping[str, str]) -> Mapping[str, str]:
        return settings

    for name, method in (
        ("query_classes", lambda: classes), ("query_advice", str), ("hint_engine", hint), ("switch_engine", print),
        ("install_engine", list), ("watch_engine", lambda: None),
    ):  # fmt: skip
        monkeypatch.setattr(fake.target, name, method, raising=False)
    fake.text = fake.text.replace('kind = "fake"\n', 'kind = "fake"\nin_engine = true\n', 1)


class Silent:
    """A listener that counts."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.ended: list[Trial] = []
        self.on_trial: Callable[[Trial], None] = lambda trial: None
        self.on_phase: Callable[[str], None] = lambda text: None

    def study_started(self, name: str, budget_s: float | None) -> None:
        pass

    def phase(self, text: str) -> None:
        self.phases.append(text)
        self.on_phase(text)

    def step(self, name: str) -> None:
        pass

    def second(self, frame: Frame) -> None:
        pass

    def trial_started(self, number: int, role: Role, changed: dict[str, str]) -> None:
        pass

    def trial_ended(self, trial: Trial, best_gain: float | None, time_left_s: float | None) -> None:
        self.ended.append(trial)
        self.on_trial(trial)


@dataclass
class FakeStudy:
    """A target and a workload that `tune` finds under the kind "fake"."""

    path: Path
    target: FakeTarget = field(default_factory=lambda: FakeTarget("db"))
    listener: Silent = field(default_factory=Silent)
    text: str = STUDY
    is_ranked: bool = False
    """Whether the study ranks the knobs at its end, which takes most of the time of a study on fakes."""
    is_ablated: bool = True
    """Whether it looks for what is needless in its winner, where the text does not say: that is a third of its runs."""

    def __post_init__(self) -> None:
        self.workload = FakeWorkload(self.target.speed)

    @property
    def written(self) -> str:
        """The text of its file."""
        return self.text if self.is_ablated or "[proof]" in self.text else f"{self.text}\n[proof]\nablate = false\n"

    def tune(self, **options: Any) -> tuple[StudyRecord, list[Trial]]:
        file = self.path / "study.toml"
        file.write_text(self.written, encoding="utf-8")
        return tune(load_study_file(file), self.path / "state", self.listener, **options)


def cost_what_the_load_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial costs the whole seconds of its load, which pass at once on the fakes, and asks cost nothing: a baseline drifts over
    these, so that otherwise every study would go another way on a busy machine."""
    run = TrialRoom.run

    def timed(self: TrialRoom, *args: object, **options: object) -> Trial:
        trial = run(self, *args, **options)  # type: ignore[arg-type]
        return replace(trial, cost_s={step: float(int(seconds)) for step, seconds in trial.cost_s.items()})

    monkeypatch.setattr(TrialRoom, "run", timed)
    monkeypatch.setattr("trimtab.study.drive._ask_s", lambda started: 0.0)


COST_S = 7.0
"""What every trial costs under `equal_costs`."""


@pytest.fixture
def equal_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trial costs the same, whatever became of it: how many of them a budget in seconds is enough for is known."""
    run = TrialRoom.run

    def costly(self: TrialRoom, *args: object, **options: object) -> Trial:
        trial = run(self, *args, **options)  # type: ignore[arg-type]
        return replace(trial, cost_s={"measure": COST_S - 2.0, "warmup": 2.0})

    monkeypatch.setattr(TrialRoom, "run", costly)


def search_roughly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are fitted in few steps, and few candidates are scored: how good a search is, is tested in tests/search."""
    for fit in (fit_among, fit_hyper):
        monkeypatch.setitem(fit.__kwdefaults__, "max_steps", 5)
    monkeypatch.setitem(optimiser.__kwdefaults__, "rounds", 1)
    _, text = AutoSearcher.OPTIONS["candidates"]
    monkeypatch.setattr(AutoSearcher, "OPTIONS", {**AutoSearcher.OPTIONS, "candidates": (100, text)})


class _NoDeadMan:
    """Stands for the dead-man of a trial room, a process of its own, which costs more than the trials on a fake. The real one has
    tests in tests/trial, tests/faults and tests/service."""

    @classmethod
    def start(cls, entry: Entry) -> _NoDeadMan:
        return cls()

    def wait_ready(self) -> None:
        pass

    def has_fired(self) -> bool:
        return False

    def guard(self, change: Callable[[], T], *, even_alone: bool = False) -> T:
        return change()

    def paused_s(self) -> float:
        return 0.0

    def stop(self) -> None:
        pass


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeStudy:
    """In the long form it searches as a user's study does, beside a dead-man."""
    study = FakeStudy(tmp_path)
    load = plugins.load
    cost_what_the_load_takes(monkeypatch)
    if not IS_FULL:
        search_roughly(monkeypatch)
        monkeypatch.setattr("trimtab.trial.room.DeadMan", _NoDeadMan)

    class Target:
        @staticmethod
        def from_settings(name: str, settings: dict[str, Any], *, state_dir: Path, directory: Path) -> FakeTarget:
            return study.target

        @staticmethod
        def from_snapshot(snapshot: Any, *, state_dir: Path) -> FakeTarget:
            return study.target

    class Workload:
        @staticmethod
        def from_settings(settings: dict[str, Any], *, directory: Path) -> FakeWorkload:
            return study.workload

    explain = tuning.explain
    unranked = Explanation(consensus=None, text="This study was not ranked.")
    monkeypatch.setattr(
        tuning, "explain", lambda record, trials: explain(record, trials) if study.is_ranked else unranked
    )
    few = partial(RankProblem, n_bootstrap=10)  # coarser intervals of the ranks
    monkeypatch.setattr("trimtab.study.rank.RankProblem", few)
    # The state of these studies lies in memory, which each of them would say.
    monkeypatch.setattr("trimtab.study.first.mount_of", lambda folder: None)
    known: dict[str, Any] = {"targets": Target, "workloads": Workload}
    monkeypatch.setattr(
        plugins, "load", lambda group, name: known[group] if name == "fake" and group in known else load(group, name)
    )
    return study
