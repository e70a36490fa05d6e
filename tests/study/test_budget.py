"""Where the time of a study goes: to the search first; then few settings, proven by runs that serve several ends."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest

from tests.fakes import COST_S, FakeStudy
from trimtab.flow import Budget, ProofOptions, Steps, explore, refine
from trimtab.measure import BaselineTrack, EarlyStop
from trimtab.records import Context, Objective, Play, Role, Status, Trial, Verdict
from trimtab.report import report_text
from trimtab.space import Config, Value
from trimtab.testing.fake_workload import FakeRatedWorkload

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ablated", "equal_costs")]

_SEARCH = (Role.PLAY, Role.SEARCH, Role.ADVICE, Role.REPEAT)
_COST_S = COST_S
T = TypeVar("T")


def _speed(values: Mapping[str, Value]) -> float:
    """Two knobs matter."""
    return 1000.0 * (1.0 if values["compile"] else 1.5) * (1.4 if float(values["cache"]) >= 512 else 1.0)


def _tuned(fake: FakeStudy, budget: str, *, more: str = "") -> tuple[Verdict, list[Trial]]:
    fake.target._speed = _speed
    fake.workload.noise_sd = 0.01
    fake.text = fake.text.replace("12 trials", budget) + more
    record, trials = fake.tune(again=True)
    return record.verdict, trials


_USUAL: list[tuple[Verdict, list[Trial]]] = []
"""A study of six minutes; made once by each worker."""


@pytest.fixture
def usual(fake: FakeStudy) -> tuple[Verdict, list[Trial]]:
    if not _USUAL:
        text = fake.text
        _USUAL.append(_tuned(fake, "360s"))
        fake.text = text
        fake.workload.seeds.clear()  # another study of the test has the same noise, whoever made this one
    return _USUAL[0]


@pytest.mark.parametrize("budget_s", [210, *(pytest.param(each, marks=pytest.mark.full) for each in (360, 900))])
def test_most_of_the_time_goes_to_the_search(fake: FakeStudy, budget_s: int) -> None:
    _, trials = _tuned(fake, f"{budget_s}s")
    first = next(i for i, t in enumerate(trials) if t.role in _SEARCH)
    last = max(i for i, t in enumerate(trials) if t.role in _SEARCH)
    # Its interleaved baselines are the drift's and belong to it; it may end early only when it has converged.
    share = (last - first + 1) * _COST_S / budget_s
    converged = budget_s == 900
    # A trial or two: the leaders that are thinned out next decide how many runs that takes.
    assert share >= 0.6 - 2 * _COST_S / budget_s or converged
    assert len(trials) * _COST_S <= budget_s + _COST_S


def test_the_search_goes_on_while_nothing_beats_the_baseline(fake: FakeStudy) -> None:
    """There are no leaders to measure again and no lines to take away: their time is the search's, all but the least proof."""
    fake.workload.noise_sd = 0.001
    found = dict(fake.target.disk.running)
    fake.target._speed = lambda values: 1000.0 if dict(values) == found else 700.0
    fake.text = fake.text.replace("12 trials", "210s")
    record, trials = fake.tune()
    assert record.verdict.result == "no_improvement"
    assert len(trials) * _COST_S > 210 - 6 * _COST_S - _COST_S


def test_the_time_of_a_proof_is_searched_in_when_the_best_did_not_stand_up_to_a_repeat(fake: FakeStudy) -> None:
    """Each config has luck once, and is worse than the baseline then."""
    fake.workload.noise_sd = 0.001
    found, seen = dict(fake.target.disk.running), Counter[tuple[Any, ...]]()

    def lucky_once(values: Mapping[str, Value]) -> float:
        seen[key := tuple(sorted(values.items()))] += 1
        return 1000.0 if dict(values) == found else 1300.0 if seen[key] == 1 else 900.0

    fake.target._speed = lucky_once
    fake.text = fake.text.replace("12 trials", "300s")
    record, trials = fake.tune()
    assert record.verdict.result == "no_improvement"
    assert len(trials) * _COST_S > 300 - 6 * _COST_S - 3 * _COST_S
    repeated = [i for i, trial in enumerate(trials) if trial.role is Role.REPEAT]
    assert any(trial.role is Role.SEARCH for trial in trials[repeated[0] :])
    assert any("the time kept for its proof" in text for text in fake.listener.phases)


def test_the_next_best_is_proven_in_the_time_that_is_left_when_the_pairs_show_no_gain(fake: FakeStudy) -> None:
    """What one setting brought is gone when its proof begins; without it another one helps."""

    def speed(values: Mapping[str, Value]) -> float:
        has_begun = any(phase.startswith("proving") for phase in fake.listener.phases)
        if not values["compile"]:
            return 1000.0 if has_begun else 2000.0
        return 1400.0 if float(values["cache"]) >= 512 else 1000.0

    fake.target._speed = speed
    fake.target._plays = (
        Play(name="large_cache", settings={"cache": 512}, worth=0.5),
        Play(name="no_compile", settings={"compile": False}, worth=0.1),
    )
    fake.workload.noise_sd = 0.003
    fake.text = fake.text.replace("12 trials", "600s")
    record, trials = fake.tune()
    verdict = record.verdict
    assert verdict.result == "better"
    assert "cache" in verdict.config
    assert "compile" not in verdict.config
    assert verdict.gain is not None
    assert verdict.gain.level > 0.95, "each further proof is allowed half the error"
    (refused, *_) = verdict.refused
    assert "compile = off" in refused
    assert "refused by its proof (gain: " in refused
    assert any("the winner is refused (gain: " in text for text in fake.listener.phases)
    assert "Another config was tried: " in " ".join(report_text(record, trials).split())


def test_the_winner_of_a_short_study_has_only_settings_that_earn_their_place(
    usual: tuple[Verdict, list[Trial]],
) -> None:
    verdict, _ = usual
    assert verdict.result == "better"
    config = verdict.config
    assert {"cache", "compile"} <= set(config)
    assert len(config) <= 4


def test_the_search_leaves_a_larger_share_for_the_ablation_where_the_file_asks_for_it(
    usual: tuple[Verdict, list[Trial]], fake: FakeStudy
) -> None:
    _, fewer = _tuned(fake, "360s", more="\n[proof]\nablation_share = 0.6\n")
    n_searched = [sum(t.role in _SEARCH for t in each) for each in (usual[1], fewer)]
    # Of 360 s, 195 s are kept for proof and ablation in place of 123 s.
    assert n_searched[0] - n_searched[1] >= 40 / _COST_S


def test_runs_of_the_proof_tell_the_worth_of_the_lines_as_well(usual: tuple[Verdict, list[Trial]]) -> None:
    verdict, trials = usual
    proof = [t for t in trials if t.role in (Role.PROOF_BASELINE, Role.PROOF_CANDIDATE)]
    winner = next(t.config for t in proof if t.role is Role.PROOF_CANDIDATE)
    between = [t for t in trials if t.role is Role.ABLATION and proof[0].number < t.number < proof[-1].number]
    assert between
    # Each of them lacks one line: the winner's run beside it was the proof's.
    for (name,), n in Counter(t.config.difference(winner) for t in between).items():
        assert verdict.worth[name].without is not None
        assert n <= verdict.worth[name].without_pairs


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 3))])
def test_a_gain_that_is_not_known_well_gets_one_more_pair_before_the_last_worths(fake: FakeStudy, seed: int) -> None:
    fake.target._speed = _speed
    fake.workload.noise_sd = 0.06
    fake.text = fake.text.replace('"12 trials"', f'"240s"\nseed = {seed}')
    record, trials = fake.tune()
    assert record.verdict.is_better
    pairs = record.verdict.pairs
    spread = np.std([math.log(after / before) for before, after in pairs[:3]], ddof=1)
    assert spread > 0.03, "three pairs do not tell the gain to a quarter"
    assert len(pairs) > 3
    assert sum(t.role is Role.PROOF_CANDIDATE for t in trials) > 3


def test_the_advice_is_proven_beside_the_winner_only_when_it_is_near_or_asked_for(fake: FakeStudy) -> None:
    advice = "\n[search.advice]\nsort_memory = '16MB'\n"
    _, trials = _tuned(fake, "300s", more=advice)
    assert not any(t.role is Role.PROOF_ADVICE for t in trials)
    fake.text = fake.text + "[proof]\nadvice = true\n"
    _, trials = fake.tune(again=True)
    assert any(t.role is Role.PROOF_ADVICE for t in trials)


def test_a_clearly_bad_config_ends_early_where_latency_is_the_objective(fake: FakeStudy) -> None:
    fake.target._speed = lambda values: 1000.0 if float(values["cache"]) < 300 else 200.0
    fake.text = fake.text.replace('"12 trials"', '"20 trials"\nseed = 2').replace(
        'name = "fake"', 'name = "fake"\nobjective = "latency_mean"'
    )
    _, trials = fake.tune()
    slow = [t for t in trials if t.role is Role.SEARCH and float(t.config["cache"]) >= 300]
    assert slow
    assert any(t.status is Status.STOPPED_EARLY for t in slow)


def test_no_stop_by_throughput_where_the_load_is_open(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[EarlyStop | None] = []
    watch = explore.early_stop

    def noted(*args: object) -> EarlyStop | None:
        seen.append(watch(*args))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(explore, "early_stop", noted)
    fake.text = fake.text.replace('name = "fake"', 'name = "fake"\nobjective = "latency_p99"')
    fake.workload = FakeRatedWorkload(fake.target.speed, rate_per_s=300.0)
    _tuned(fake, "100s")
    assert seen
    assert all(stop is None for stop in seen)


def _returned(steps: Steps[T]) -> T:
    """What steps return that ask for nothing."""
    with pytest.raises(StopIteration) as end:
        next(steps)
    value: T = end.value.value
    return value


@pytest.mark.parametrize(("lead", "n_settings"), [(0.03, 1), (0.2, 3)])
def test_of_configs_that_cannot_be_told_apart_the_one_of_fewest_settings_is_proven(
    lead: float, n_settings: int
) -> None:
    """Two configs, measured twice each: the larger one leads by less, or by more, than the noise can make."""
    small, large = Config({"a": 1, "b": 0, "c": 0}), Config({"a": 1, "b": 1, "c": 1})
    losses = [(small, -0.5), (large, -0.7), (small, -0.5), (large, -0.5 - lead)]
    trials = [
        Trial(number=i, role=Role.SEARCH, config=config, context=Context("any", 1), status=Status.OK, loss=loss)
        for i, (config, loss) in enumerate(losses)
    ]
    task: Any = SimpleNamespace(
        baseline=Config({"a": 0, "b": 0, "c": 0}),
        objective=Objective("throughput"),
        proof=ProofOptions(),
        budget=Budget(trials=40),
    )
    scorer: Any = SimpleNamespace(
        trials=trials,
        noise_sd=0.1,
        in_question=trials,
        par=0.0,
        track=BaselineTrack(),
        mean_cost_s=8.0,
        harms={},
        runs_of=lambda config: [],
    )
    spent: Any = SimpleNamespace(is_empty=True)
    if lead > 0.1:
        scorer.noise_sd = 0.05
    leader = _returned(refine._leader(task, scorer, spent))
    assert leader is not None
    assert len(leader.difference(task.baseline)) == n_settings
