"""What the search's own runs show of what a proof refuses: another config is brought to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.flow.test_study import BASELINE, TASK, answer, config, measured
from trimtab.flow import Ask, Scorer, Steps, Study, Task, harm
from trimtab.flow.explore import early_stop
from trimtab.flow.harm import as_judged, best_harmless, is_harmful
from trimtab.flow.refine import refine
from trimtab.flow.tuning import tuning
from trimtab.measure import BaselineTrack, Interval
from trimtab.records import Role, Trial
from trimtab.search import FallbackSearcher
from trimtab.space import Config

FAST, FAIR = config(1), config(2)
NOISE = 0.03
Truth = Mapping[Config, tuple[float, Callable[[int], float]]]


def always(times: float) -> Callable[[int], float]:
    return lambda n: times


def reply(ask: Ask, value: float, p99_ms: float, n_ok: int = 1000) -> Trial:
    p99 = Interval(p99_ms, p99_ms, p99_ms)
    return replace(answer(ask), measurement=replace(measured(value), latency_ms={"p99": p99}, n_ok=n_ok))


def studied(
    truth: Truth, n_baselines: int = 5, n_ok: int = 1000, *, is_refined: bool = True, is_ablated: bool = False
) -> tuple[Config | None, Scorer]:
    """What is to be proven after a run of each config: so many times as fast, the p99 of its n-th run so many times as long."""

    def flow(scorer: Scorer) -> Steps[Config | None]:
        for _ in range(n_baselines):
            yield Ask(config=BASELINE, role=Role.BASELINE)
        for each in truth:
            yield Ask(config=each, role=Role.SEARCH)
        yield Ask(config=BASELINE, role=Role.BASELINE)
        found = (yield from refine(task, scorer)) if is_refined else None
        return None if found is None else found.config

    task = replace(TASK, proof=replace(TASK.proof, ablate=is_ablated))
    study: Study[Config | None] = Study(task, flow)
    rng, seen = np.random.default_rng(3), dict.fromkeys([*truth, BASELINE], 0)
    while asks := study.next():
        for ask in asks:
            speed, slower = {**truth, BASELINE: (1.0, always(1.0))}[ask.config]
            noise = np.exp(rng.normal(0.0, NOISE, 2))
            study.tell(reply(ask, 100 * speed * noise[0], 20 * slower(seen[ask.config]) * noise[1], n_ok))
            seen[ask.config] += 1
    return study.result, study.scorer


@pytest.mark.parametrize(("p99", "n_baselines", "n_ok", "expected"), [
    (1.3, 5, 1000, True),
    (1.04, 5, 1000, False),
    (1.3, 1, 1000, False),
    (1.3, 5, 200, False),
    (0.8, 5, 1000, False),
])  # fmt: skip
def test_a_longer_p99_shows_in_the_runs_of_the_search(p99: float, n_baselines: int, n_ok: int, expected: bool) -> None:
    _, scorer = studied({FAST: (1.3, always(p99))}, n_baselines, n_ok, is_refined=False)
    assert is_harmful(TASK, scorer, FAST) is expected
    assert not is_harmful(TASK, scorer, FAIR), "it was never measured"


def test_a_searcher_sees_what_harms_as_missing_a_constraint() -> None:
    _, scorer = studied({FAST: (1.3, always(1.5)), FAIR: (1.15, always(1.0))}, is_refined=False)
    seen = {trial.config: as_judged(TASK, scorer, trial) for trial in scorer.trials}
    assert not seen[FAST].is_feasible
    assert 0.0 < seen[FAST].excess < math.log(1.5)
    told = [trial for trial in scorer.trials if trial.config != FAST]
    assert all(seen[trial.config].excess == 0.0 for trial in told)
    assert all(trial.excess == 0.0 for trial in scorer.trials), "the history keeps what was measured"


def test_a_study_tells_its_searcher_of_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large values are fast and let clients wait."""
    told: list[Trial] = []

    class Spy(FallbackSearcher):
        def tell(self, trial: Trial) -> None:
            told.append(trial)
            super().tell(trial)

    monkeypatch.setattr("trimtab.flow.explore.FallbackSearcher", Spy)
    study, rng = Study(TASK, tuning(TASK)), np.random.default_rng(7)
    while not study.is_over:
        for ask in study.next():
            is_large = int(ask.config["a"]) >= 5
            slower = (1.6 if is_large else 1.0) * float(np.exp(rng.normal(0.0, 0.01)))
            study.tell(reply(ask, (150.0 if is_large else 100.0) * float(np.exp(rng.normal(0.0, 0.01))), 20 * slower))
    seen = {int(trial.config["a"]) >= 5 for trial in told if trial.excess > 0}
    assert seen == {True}
    assert all(trial.excess == 0.0 for trial in study.scorer.trials)


def test_no_run_is_stopped_early_for_being_slower_than_one_that_harms() -> None:
    """FAIR is the best that may be proven."""
    _, scorer = studied({FAST: (2.0, always(1.5)), FAIR: (1.15, always(1.0))}, is_refined=False)
    assert scorer.best_run is not None
    assert scorer.best_run.config == FAST
    best = best_harmless(TASK, scorer)
    assert best is not None
    assert best.config == FAIR
    stop = early_stop(TASK, scorer)
    assert stop is not None
    assert not any(stop.update(115.0) for _ in range(30))


def test_no_run_is_stopped_early_for_being_slower_than_one_before_the_machine_became_faster() -> None:
    """The best had been compared with the slow baseline, and the machine was twice as fast already."""

    def flow(scorer: Scorer) -> Steps[None]:
        yield from (Ask(config=each, role=role) for each, role in runs)

    runs = [*[(BASELINE, Role.BASELINE)] * 3, (FAIR, Role.SEARCH), (FAST, Role.SEARCH), (BASELINE, Role.BASELINE)]
    study: Study[None] = Study(TASK, flow)
    for value, cost_s in [(115.0, 50.0), (105.0, 50.0), (111.0, 50.0), (250.0, 180.0), (345.0, 40.0), (243.0, 40.0)]:
        (ask,) = study.next()
        study.tell(replace(reply(ask, value, 20.0), cost_s={"measure": cost_s}))
    best = study.scorer.best_run
    assert best is not None
    assert math.exp(-(best.loss or 0.0)) < 2.2
    stop = early_stop(TASK, study.scorer)
    assert stop is not None
    assert not any(stop.update(320.0) for _ in range(30))


def test_where_all_that_gain_harm_the_best_of_them_is_the_best() -> None:
    _, scorer = studied({FAST: (2.0, always(1.5)), FAIR: (1.15, always(1.5))}, is_refined=False)
    best = best_harmless(TASK, scorer)
    assert best is not None
    assert best.config in (FAST, BASELINE)


def test_where_the_baseline_misses_a_constraint_nothing_else_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    _, scorer = studied({FAST: (1.3, always(1.3))}, is_refined=False)
    monkeypatch.setattr(Scorer, "par", property(lambda scorer: math.inf))
    assert not is_harmful(TASK, scorer, FAST)


def test_the_next_best_that_harms_nothing_is_brought_to_the_proof() -> None:
    chosen, _ = studied({FAST: (1.3, always(1.3)), FAIR: (1.15, always(1.0))})
    assert chosen == FAIR


def test_what_only_a_repeat_shows_counts_as_well() -> None:
    chosen, scorer = studied({FAST: (1.3, lambda n: 1.0 if n == 0 else 1.6), FAIR: (1.15, always(1.0))})
    assert chosen == FAIR
    assert sum(trial.config == FAST for trial in scorer.trials) >= 2


def test_where_nothing_else_gains_its_proof_says_why_it_is_refused() -> None:
    chosen, _ = studied({FAST: (1.3, always(1.3)), FAIR: (0.9, always(1.0))})
    assert chosen == FAST


def test_a_config_that_harms_is_thinned_like_others_where_it_is_proven_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its harm has shown last, when nothing else could be measured again."""

    def leader(*_: object) -> Steps[Config]:
        yield from ()
        return FAST

    monkeypatch.setattr("trimtab.flow.refine._leader", leader)
    monkeypatch.setattr("trimtab.flow.refine.has_room_for_ablation", lambda *_: False)
    monkeypatch.setattr("trimtab.flow.refine.is_clear", lambda *_: True)
    chosen, _ = studied({FAST: (1.3, always(1.5)), FAIR: (1.15, always(1.0))}, is_ablated=True)
    assert chosen == FAST


def test_a_machine_that_has_become_slower_is_no_harm() -> None:
    """Clients wait longer from the eleventh run on, as they do with the settings as found."""
    roles = [Role.BASELINE] * 12 + [Role.SEARCH, Role.BASELINE, Role.SEARCH, Role.REPEAT, Role.BASELINE]

    def flow(scorer: Scorer) -> Steps[None]:
        for role in roles:
            yield Ask(config=BASELINE if role is Role.BASELINE else FAIR, role=role)

    study = Study(TASK, flow)
    rng = np.random.default_rng(5)
    while asks := study.next():
        for ask in asks:
            slower = (1.3 if ask.number > 10 else 1.0) * float(np.exp(rng.normal(0.0, 0.02)))
            study.tell(reply(ask, (110 if ask.config == FAIR else 100) / slower, 20 * slower))
    assert not is_harmful(TASK, study.scorer, FAIR)


def test_the_harm_of_a_config_is_worked_out_once_until_more_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study asks several times for each trial, and of each config that is fast by harm: seconds for a few hundred trials."""
    worked_out: list[Config] = []

    def noted(task: Task, scorer: Scorer, each: Config) -> float:
        worked_out.append(each)
        return found(task, scorer, each)

    found = harm._worked_out
    _, scorer = studied({FAST: (1.5, always(3.0)), FAIR: (1.2, always(1.0))}, is_refined=False)
    scorer.harms.clear()
    monkeypatch.setattr(harm, "_worked_out", noted)
    for _ in range(3):
        best = best_harmless(TASK, scorer)
        assert best is not None
        assert best.config == FAIR
    assert worked_out == [FAST, FAIR]
    once_more = Ask(config=FAST, role=Role.REPEAT, number=len(scorer.trials))
    scorer.take(reply(once_more, 150.0, 20.0))
    assert is_harmful(TASK, scorer, FAIR) is False
    is_harmful(TASK, scorer, FAST)
    assert worked_out == [FAST, FAIR, FAST], "what it has run once more"
    scorer.take(reply(Ask(config=BASELINE, role=Role.BASELINE, number=len(scorer.trials)), 100.0, 20.0))
    is_harmful(TASK, scorer, FAIR)
    assert worked_out[3:] == [FAIR], "with another run of the baseline"
    (last,) = scorer.trials[-1:]
    scorer.invalidate(last.number, "x")
    is_harmful(TASK, scorer, FAIR)
    assert worked_out[4:] == [FAIR], "without it"


def test_each_run_of_the_baseline_is_looked_at_once_for_all_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all that is fast harms, each of it is looked at after every run of the baseline: minutes for a thousand trials."""
    n_added = 0

    class Counted(BaselineTrack):
        def add(self, time: float, value: float, se: float = math.nan) -> None:
            nonlocal n_added
            n_added += 1
            super().add(time, value, se)

    monkeypatch.setattr(harm, "BaselineTrack", Counted)
    truth: Truth = {config(a): (1.2 + 0.05 * a, always(3.0)) for a in range(1, 10)}
    _, scorer = studied(truth, is_refined=False)
    best_harmless(TASK, scorer)
    scorer.take(reply(Ask(config=BASELINE, role=Role.BASELINE, number=len(scorer.trials)), 100.0, 21.0))
    best_harmless(TASK, scorer)
    n_runs = sum(trial.role is Role.BASELINE for trial in scorer.trials)
    assert n_added == 2 * n_runs, "its p99 and its mean latency"
    grown = dict(scorer.harms)
    assert all(grown[each] > 0 for each in truth)
    scorer.harms, scorer.beside, scorer.n_beside = {}, None, 0
    best_harmless(TASK, scorer)
    assert scorer.harms == grown


def test_a_metric_that_one_run_of_the_baseline_lacks_is_not_compared() -> None:
    _, scorer = studied({FAST: (1.3, always(1.5))}, is_refined=False)
    assert is_harmful(TASK, scorer, FAST)
    for n_ok in (100, 1000):
        again = Ask(config=BASELINE, role=Role.BASELINE, number=len(scorer.trials))
        scorer.take(reply(again, 100.0, 20.0, n_ok))
        assert not is_harmful(TASK, scorer, FAST)
