"""Pruning: ranks first, few knobs then, more while it pays; the same again on resume."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.fakes import FakeStudy
from tests.history.samples import study_values
from tests.search.registered import runnable
from trimtab.errors import UsageError
from trimtab.flow.prune import PruningSearcher
from trimtab.history import StudyRecord, open_history_at
from trimtab.importance import Consensus, KnobRank, RankProblem
from trimtab.records import PrunePlan, Role, Status, Trial, WarmStudy
from trimtab.report import render_html, report_text
from trimtab.search import Searcher, SearchProblem, create
from trimtab.search.random import RandomSearcher
from trimtab.space import Config, Knob, KnobKind, Space
from trimtab.study import load_study_file, run_design
from trimtab.study.prune_plan import _offered
from trimtab.testing.searcher_suite import CONTEXT, SearcherSuite, measured

pytestmark = pytest.mark.slow

ORDER = ("a", "b", "c", "d", "e", "f", "g", "h")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks in no time, by correlation, for what is not about how good ranks are."""

    def ranked(problem: RankProblem) -> Consensus:
        trials = [trial for trial in problem.trials if trial.is_feasible]
        if len(trials) < 3:
            raise UsageError("too few to rank")
        points = np.array([problem.space.encode(trial.config) for trial in trials])
        losses = np.array([trial.loss for trial in trials])
        spread = points - points.mean(axis=0)
        slopes = np.abs(spread.T @ (losses - losses.mean())) / np.sqrt((spread**2).sum(axis=0) + 1e-9)
        entries = [
            KnobRank(knob=name, score=float(score), score_low=0, score_high=1, rank=1, rank_low=1, rank_high=1)
            for name, score in zip(problem.space.knobs, slopes / max(slopes.sum(), 1e-9), strict=True)
        ]
        entries.sort(key=lambda entry: -entry.score)
        return Consensus(knobs=tuple(entries), rankings=(), knee=2, n_trials=len(trials), r2=0.5)

    monkeypatch.setattr("trimtab.flow.prune.rank_knobs", ranked)


class _Pruned(PruningSearcher):
    """As the conformance suite makes searchers."""

    NAME: ClassVar[str] = "random"
    OPTIONS: ClassVar = RandomSearcher.OPTIONS

    def __init__(self, problem: SearchProblem) -> None:
        RandomSearcher(problem)  # refuses options that the searcher does not know
        runs = 8 if any(problem.space.n_levels(name) > 1 for name in problem.space.knobs) else 0
        super().__init__(problem, PrunePlan(want=2, runs=runs), RandomSearcher, patience=12)


@pytest.mark.full
@pytest.mark.usefixtures("quick")
class TestPruned(SearcherSuite):
    """A pruned search is a searcher like any other."""

    searcher_class = _Pruned


def _space() -> Space:
    return Space([Knob(name=name, kind=KnobKind.REAL, low=0.0, high=1.0, default=0.0) for name in ORDER])


def _trial(config: Config, number: int, role: Role = Role.SEARCH) -> Trial:
    """Of a loss that only a and b decide."""
    base = measured(_space(), config, number)
    noise = 0.002 * ((number * 7919) % 11 - 5)
    loss = -float(config["a"]) - 0.5 * float(config["b"]) + noise
    return Trial(number=number, role=role, config=config, context=CONTEXT, status=base.status, loss=loss, loss_se=0.005)


def _drive(searcher: PruningSearcher, n: int, *, start: int = 0) -> list[Config]:
    asked = []
    for number in range(start, start + n):
        asked.append(searcher.ask()[0])
        role = Role.DESIGN if searcher.is_ranking else Role.SEARCH
        searcher.tell(_trial(asked[-1], number + 1, role))
    return asked


def _pruned(name: str = "random", *, want: int = 0, patience: int = 20, **plan: Any) -> PruningSearcher:
    space = _space()
    problem = SearchProblem(space=space, baseline=space.default(), seed=3, budget_trials=80)
    return PruningSearcher(problem, PrunePlan(want=want, **plan), partial(create, name), patience=patience)


@pytest.mark.usefixtures("quick")
def test_the_knobs_that_matter_are_tuned_and_all_others_held_at_the_baseline() -> None:
    searcher = _pruned("random", runs=24, want=2)
    searcher.tell(_trial(_space().default(), 0, Role.BASELINE))
    _drive(searcher, 24)
    asked = _drive(searcher, 3, start=24)
    assert set(searcher.tuned) == {"a", "b"}
    assert all(config[name] == 0.0 for config in asked for name in ORDER[2:])
    assert "tuning 2 of 8 knobs: a, b" in searcher.news()
    assert searcher.summary().left_out == tuple(name for name in searcher.order if name not in ("a", "b"))


def test_only_the_knobs_that_will_be_left_have_to_fit_a_grid() -> None:
    knobs = [Knob(name=f"k{i}", kind=KnobKind.REAL, low=0.0, high=1.0, default=0.0) for i in range(20)]
    space = Space(knobs)
    problem = SearchProblem(space=space, baseline=space.default(), seed=3, budget_trials=80)
    with pytest.raises(UsageError, match="more than"):
        create("grid", problem)
    PruningSearcher(problem, PrunePlan(want=3), partial(create, "grid"), patience=20)
    with pytest.raises(UsageError, match="more than"):
        PruningSearcher(problem, PrunePlan(want=20), partial(create, "grid"), patience=20)


@pytest.mark.usefixtures("rough_ranks")
def test_the_knee_says_how_many_when_nobody_does() -> None:
    searcher = _pruned("random", runs=30)
    _drive(searcher, 31)
    assert {"a", "b"} <= set(searcher.tuned)
    assert len(searcher.tuned) < len(ORDER)


@pytest.mark.usefixtures("quick")
def test_knobs_are_added_when_the_gain_stalls_and_no_more_when_they_bring_nothing() -> None:
    searcher = _pruned("random", runs=24, want=2, patience=8)
    _drive(searcher, 24)
    sizes = []
    for number in range(24, 70):
        _drive(searcher, 1, start=number)
        sizes.append(len(searcher.tuned))
    said = searcher.news()
    assert sizes[0] == 2
    assert any(line.startswith("the gain has stalled with 2 knobs: added ") for line in said)
    assert sizes == sorted(sizes)
    assert any("adding knobs has brought nothing" in line and "are left out" in line for line in said)
    assert [level.n_knobs for level in searcher.summary().levels][:2] == [2, 4]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", ["auto", "nelder-mead", "sobol", "bestconfig", "tpe", "grid"])
def test_the_same_trials_lead_to_the_same_configs(name: str) -> None:
    first, second = _pruned(name, runs=16, want=2), _pruned(name, runs=16, want=2)
    assert _drive(first, 34) == _drive(second, 34)


@pytest.mark.usefixtures("quick")
def test_what_other_knobs_did_is_passed_on_as_noise() -> None:
    seen: list[Trial] = []

    class Watching(RandomSearcher):
        def tell(self, trial: Trial) -> None:
            seen.append(trial)
            super().tell(trial)

    space = _space()
    problem = SearchProblem(space=space, baseline=space.default(), seed=3)
    searcher = PruningSearcher(problem, PrunePlan(want=1, runs=16), Watching, patience=20)
    searcher.tell(_trial(space.default(), 0, Role.BASELINE))
    _drive(searcher, 18)
    assert {tuple(trial.config) for trial in seen} == {searcher.tuned}
    by_number = {trial.number: trial for trial in seen}
    assert by_number[0].loss_se == by_number[18].loss_se == 0.005
    assert all((by_number[number].loss_se or 0) > 0.005 for number in range(1, 17))


@pytest.mark.usefixtures("quick", "rough_ranks")
def test_carried_ranks_that_hold_save_runs_of_the_first_level() -> None:
    searcher = _pruned("random", runs=24, carried=ORDER, carried_knee=2, source="study='old' (99 trials)")
    asked = _drive(searcher, 16)
    assert searcher.tuned == ("a", "b")
    assert any(line.startswith("the ranks of study='old' (99 trials) hold here: ") for line in searcher.news())
    assert all(config[name] == 0.0 for config in asked[13:] for name in ORDER[2:])


@pytest.mark.usefixtures("quick", "rough_ranks")
def test_carried_ranks_that_disagree_are_dropped() -> None:
    searcher = _pruned("random", runs=24, carried=ORDER[::-1], carried_knee=2, source="study='old' (99 trials)")
    _drive(searcher, 26)
    assert any(line.startswith("the ranks of study='old' (99 trials) are dropped: ") for line in searcher.news())
    assert searcher.order[:2] != ORDER[::-1][:2]
    assert searcher.summary().plan.source == "study='old' (99 trials)"


def test_a_budget_without_room_for_ranks_tunes_all(fake: FakeStudy) -> None:
    fake.text += '\n[search]\nprune = "auto"\n'
    record, _ = fake.tune()
    assert "the budget has no room to rank n_knobs=6 first: all are tuned" in fake.listener.phases
    assert record.verdict.pruned.left_out == ()


def _fast(values: Any) -> float:
    return 1000.0 * (1.0 + (8.0 - float(values["page_cost"])) / 8) * (1.0 if values["compile"] else 1.4)


def _tune_pruned(
    fake: FakeStudy, prune: str, *more: str, speed: Callable[[Any], float] = _fast, patience: int = 12
) -> tuple[StudyRecord, list[Trial]]:
    fake.target._speed = speed
    fake.workload.noise_sd = 0.005
    fake.text = fake.text.replace("12 trials", "48 trials").replace("[search]", "[ignored]")
    fake.text += "\n".join(["", "[search]", f"prune = {prune}", f"patience = {patience}", *more, ""])
    return fake.tune()


@pytest.mark.usefixtures("equal_costs", "rough_ranks")
def test_tune_ranks_first_and_says_what_it_left_out(fake: FakeStudy) -> None:
    record, trials = _tune_pruned(fake, "2")
    pruned = record.verdict.pruned
    assert record.status == "proven"
    assert set(pruned.order[:2]) == {"page_cost", "compile"}
    assert set(pruned.tuned) | set(pruned.left_out) == set(record.baseline)
    assert sum(trial.role is Role.DESIGN for trial in trials) == pruned.plan.runs - 1 == 15
    assert "tuning 2 of 6 knobs: " + ", ".join(pruned.order[:2]) in fake.listener.phases
    assert {"page_cost", "compile"} & set(record.verdict.config)


@pytest.mark.usefixtures("quick")
def test_an_option_by_knob_is_narrowed_with_the_knobs(fake: FakeStudy) -> None:
    levels = '{sort_memory = 2, method = ["sync", "ring"], cache = 3}'
    fake.text = fake.text.replace("12 trials", "50 trials") + (
        f'\n[search]\nsearcher = "grid"\nprune = 1\nlevels = 2\nlevels_of = {levels}\n\n[proof]\nablate = false\n'
    )
    record, trials = fake.tune()
    assert record.status == "proven"
    assert record.verdict.pruned.tuned
    assert {trial.role for trial in trials} >= {Role.DESIGN, Role.SEARCH}


@pytest.mark.usefixtures("quick", "rough_ranks")
def test_a_pruned_study_resumes_and_pays_for_no_trial_twice(fake: FakeStudy) -> None:
    whole, _ = _tune_pruned(fake, "2")
    fake.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == 25 else None
    fake.workload.seeds.clear()
    record, trials = fake.tune(again=True)
    assert record.status == "interrupted"
    assert record.verdict.pruned.plan == whole.verdict.pruned.plan
    n_runs = len(fake.workload.seeds)
    fake.listener.on_trial = lambda trial: None
    # A larger budget must not change what the study had settled.
    fake.text = fake.text.replace("48 trials", "52 trials")
    resumed, after = fake.tune()
    assert resumed.id == record.id
    assert after[: len(trials)] == trials
    assert len(fake.workload.seeds) - n_runs == len(after) - len(trials)
    assert resumed.verdict.pruned.plan == whole.verdict.pruned.plan


@pytest.mark.usefixtures("quick", "rough_ranks")
def test_a_killed_pruned_study_keeps_its_plan(fake: FakeStudy) -> None:
    class KilledError(BaseException):
        pass

    def die(trial: Trial) -> None:
        if trial.number == 20:
            raise KilledError

    fake.listener.on_trial = die
    with pytest.raises(KilledError):
        _tune_pruned(fake, '"auto"')
    with open_history_at(None, fake.path / "state") as history:
        record = history.find_study("fake")
        assert record is not None
        stored = history.trials(record.id)
    fake.listener.on_trial = lambda trial: None
    resumed, trials = fake.tune()
    assert resumed.id == record.id
    assert trials[: len(stored)] == stored
    assert resumed.verdict.pruned.plan == record.verdict.pruned.plan


def _design(fake: FakeStudy) -> None:
    path = fake.path / "study.toml"
    path.write_text(fake.written, encoding="utf-8")
    run_design(load_study_file(path), fake.path / "state", fake.listener, kind="lhs", runs=30)


@pytest.mark.usefixtures("quick", "rough_ranks")
def test_ranks_are_carried_from_another_study_and_checked(fake: FakeStudy) -> None:
    fake.target._speed = _fast
    _design(fake)
    record, trials = _tune_pruned(fake, '"auto"', 'ranks = "fake.rank-lhs"')
    plan = record.verdict.pruned.plan
    assert set(plan.carried[:2]) == {"page_cost", "compile"}
    assert plan.source.startswith("study='fake.rank-lhs' (")
    assert any(line.startswith("the ranks of study='fake.rank-lhs'") for line in fake.listener.phases)
    assert sum(trial.role is Role.DESIGN for trial in trials) <= 15


def test_an_earlier_study_of_the_same_name_offers_its_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--again` begins a study whose nearest past one has its own name, of which it is the newest itself."""
    monkeypatch.setattr(
        "trimtab.study.prune_plan._carried", lambda history, other, ranks: {"carried": (str(other.id),)}
    )
    with open_history_at(None, tmp_path) as history:
        earlier, now = (history.create_study(**study_values()) for _ in range(2))
        near = WarmStudy(id=earlier.id, study=earlier.name, name=earlier.name, n_trials=40, nearness=1.0)
        gone = replace(near, id=99)
        stage: Any = SimpleNamespace(space=SimpleNamespace(knobs={}))
        assert history.find_study(near.study) == now
        assert _offered(stage, history, [gone, near]) == {"carried": (str(earlier.id),)}


def _of_another_space(fake: FakeStudy) -> None:
    fake.target._knobs = ["cache", "page_cost"]
    _design(fake)
    fake.target._knobs = None


@pytest.mark.parametrize(
    ("before", "lines", "message", "hint"),
    [
        (None, ["prune = 50"], "search.prune=50 is more than the n_knobs=6 of study='fake'", "give fewer"),
        (None, ['prune = "some"'], 'must be "auto", "off", or how many knobs to tune', "study-file.md"),
        (None, ["prune = true"], 'must be "auto", "off", or how many knobs to tune', "study-file.md"),
        (None, ["prune = 0"], 'must be "auto", "off", or how many knobs to tune', "study-file.md"),
        (None, ['ranks = "old"'], "search.ranks='old' has no effect while search.prune is off", 'prune = "auto"'),
        (None, ['prune = "auto"', 'ranks = "old"'], "the history holds no study named 'old'", "it is empty"),
        (None, ['prune = "auto"', 'ranks = "fake"'], "search.ranks='fake' is the study itself", "name another study"),
        (_of_another_space, ['prune = "auto"', 'ranks = "fake.rank-lhs"'],
         "search.ranks='fake.rank-lhs' is a study of another space: it has no data on compile, method", "had all knobs"),
    ],
)  # fmt: skip
def test_what_cannot_be_pruned_is_said_before_anything_is_measured(
    fake: FakeStudy, before: Callable[[FakeStudy], None] | None, lines: list[str], message: str, hint: str
) -> None:
    if before is not None:
        before(fake)
    n_runs = len(fake.workload.seeds)
    fake.text += "\n".join(["", "[search]", *lines, ""])
    with pytest.raises(UsageError) as caught:
        fake.tune()
    assert message in caught.value.message
    assert hint in str(caught.value.hint)
    assert len(fake.workload.seeds) == n_runs


@pytest.mark.usefixtures("rough_ranks")
def test_ranks_of_a_study_that_cannot_tell_are_not_carried(fake: FakeStudy) -> None:
    fake.target._speed = lambda values: 1000.0
    fake.target._knobs = ["cache", "sort_memory", "page_cost"]
    path = fake.path / "study.toml"
    path.write_text(fake.written, encoding="utf-8")
    run_design(load_study_file(path), fake.path / "state", fake.listener, kind="lhs", runs=10)
    with pytest.raises(UsageError, match=r"the ranks of search.ranks='fake.rank-lhs' cannot be carried: ") as caught:
        _tune_pruned(fake, '"auto"', 'ranks = "fake.rank-lhs"', speed=fake.target._speed)
    assert "trimtab rank STUDY.toml --design lhs --runs" in str(caught.value.hint)


@pytest.mark.full  # the quick form: the six kinds of test_the_same_trials_lead_to_the_same_configs
@pytest.mark.usefixtures("quick")
def test_every_registered_searcher_can_be_pruned() -> None:
    for name in runnable():
        searcher: Searcher = _pruned(name, runs=12, want=2)
        assert isinstance(searcher, PruningSearcher)
        assert len(_drive(searcher, 18)) == 18


@pytest.mark.usefixtures("quick")
def test_the_report_says_what_was_searched_and_what_was_left_out(fake: FakeStudy) -> None:
    record, trials = _tune_pruned(fake, "2", patience=3)
    text = " ".join(report_text(record, trials).split())
    pruned = record.verdict.pruned
    assert f"knobs searched: {pruned.levels[0].n_knobs}" in text
    assert f"left out ({len(pruned.left_out)} knob" in text
    assert ", ".join(pruned.left_out) in text
    assert "Left out (" in render_html(record, trials)


@pytest.mark.usefixtures("quick", "equal_costs")
@pytest.mark.parametrize("temper", ["bold", "prudent"])
def test_bad_runs_of_a_ranking_end_early_where_the_server_has_users(fake: FakeStudy, temper: str) -> None:
    """How bad a bad config is, is worth the time of its run, but not the time of users."""
    page_cost = fake.target.values["page_cost"]

    def slower(values: Any) -> float:
        return 1000.0 if values["page_cost"] == page_cost else 700.0

    _, trials = _tune_pruned(fake, "2", f"temper = '{temper}'", speed=slower)
    bad = [t.status for t in trials if t.role is Role.DESIGN and t.config["page_cost"] != page_cost]
    assert bad
    assert set(bad) == {Status.STOPPED_EARLY if temper == "prudent" else Status.OK}


@pytest.mark.usefixtures("quick")
def test_a_prudent_search_ranks_by_small_steps() -> None:
    """And by smaller ones after a failure, which crashes here wherever c is high."""
    space = _space()
    problem = SearchProblem(space=space, baseline=space.default(), seed=3, budget_trials=80)
    searcher = PruningSearcher(
        problem, PrunePlan(want=2, runs=24), partial(create, "random"), patience=20, is_prudent=True
    )
    searcher.tell(_trial(space.default(), 0, Role.BASELINE))
    asked, n_crashed = list[Config](), 0
    for number in range(1, 25):
        asked.append(searcher.ask()[0])
        assert searcher.is_ranking
        has_crashed = float(asked[-1]["c"]) > 0.6
        n_crashed += has_crashed
        found = _trial(asked[-1], number, Role.DESIGN)
        searcher.tell(replace(found, status=Status.CRASHED, loss=None) if has_crashed else found)
    moved = [sum(config[name] != 0.0 for name in ORDER) for config in asked[:2]]
    assert max(moved) <= 4
    assert max(float(value) for value in asked[0].values()) <= 0.5
    assert n_crashed <= 3
    assert len(set(asked)) == 24
    searcher.ask()
    assert not searcher.is_ranking
