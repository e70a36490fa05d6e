"""Several trials of a search under way at once: asked for before the others are told, told in any order."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.flow.test_passes import BASELINE, additive, measured, restart_first, task
from trimtab.flow import Ask, Budget, Stopped, Stream, Study
from trimtab.flow.ask import Steps
from trimtab.flow.score import Scorer
from trimtab.flow.tuning import tuning
from trimtab.records import Context, Role, Status, Trial, Verdict

pytestmark = pytest.mark.slow

BUDGET = 41


def trial_of(ask: Ask, rng: np.random.Generator) -> Trial:
    speed = 100.0 * np.exp(additive(ask.config) + 0.003 * rng.standard_normal())
    return Trial(
        number=ask.number, config=ask.config, role=ask.role, status=Status.OK, context=Context("any", 1),
        measurement=measured(speed), cost_s={"measure": 5.0},
    )  # fmt: skip


@cache
def searched_by(n: int, *, backwards: bool = False) -> tuple[Verdict, list[list[Ask]], list[Trial]]:
    """A whole study with up to `n` trials under way; the batches of its search, and every trial in the order told."""
    chosen = task(budget=Budget(trials=BUDGET))
    study = Study(chosen, tuning(chosen))
    rng, batches = np.random.default_rng(1), list[list[Ask]]()
    while not study.is_over:
        asks = list(study.next(n))
        if any(ask.role in (Role.SEARCH, Role.ADVICE) for ask in asks):
            batches.append(asks)
        for ask in reversed(asks) if backwards else asks:
            study.tell(trial_of(ask, rng))
    return study.result, batches, study.scorer.trials


@pytest.mark.parametrize("backwards", [False, pytest.param(True, marks=pytest.mark.full)])
def test_a_search_hands_out_several_trials_at_once(backwards: bool) -> None:
    verdict, batches, trials = searched_by(4, backwards=backwards)
    searched = [ask for batch in batches for ask in batch if ask.role is Role.SEARCH]
    assert len(searched) == BUDGET, "the budget of trials counts what was asked for"
    assert sum(len(batch) == 4 for batch in batches) >= BUDGET // 4
    assert max(map(len, batches)) == 4
    assert all(
        len({ask.config for ask in batch if ask.role is Role.SEARCH}) > 1 for batch in batches if len(batch) == 4
    )
    assert len({trial.number for trial in trials}) == len(trials)
    assert verdict.result == "better"
    assert verdict.config["late"] > 0


def test_two_clients_that_end_in_any_order_drive_a_whole_study() -> None:
    """As sessions would: each asks for one trial when it is free, and the one that began later may end first."""
    chosen = task(budget=Budget(trials=BUDGET))
    study, rng = Study(chosen, tuning(chosen)), np.random.default_rng(1)
    under_way, told, n_overtaken = list[Ask](), list[int](), 0
    while not study.is_over:
        while len(under_way) < 2 and (asks := study.next(1)):
            under_way += asks
        if study.is_over:
            break
        done = under_way.pop(int(rng.integers(len(under_way))))
        n_overtaken += any(ask.number < done.number for ask in under_way)
        told.append(study.tell(trial_of(done, rng)).number)
    assert n_overtaken > BUDGET // 4, "results came out of order"
    assert sorted(told) == list(range(len(told))), "every trial has a number of its own"
    assert study.result.result == "better"
    assert study.result.config["late"] > 0


def test_the_baseline_is_measured_in_between_all_the_same() -> None:
    _, batches, _ = searched_by(4, backwards=False)
    every = task().search.baseline_every
    n_baseline = sum(ask.role is Role.BASELINE for batch in batches for ask in batch)
    assert n_baseline == (BUDGET - 1) // every


def test_a_place_that_is_free_gets_the_next_trial() -> None:
    chosen = task(budget=Budget(trials=BUDGET))
    study, rng = Study(chosen, tuning(chosen)), np.random.default_rng(1)
    while True:
        asks = study.next(3)
        if asks and asks[0].role is not Role.BASELINE:
            break
        for ask in asks:
            study.tell(trial_of(ask, rng))
    assert len(asks) == 3
    study.tell(trial_of(asks[1], rng))
    (fourth,) = study.next(1)
    assert fourth.number > asks[2].number
    assert fourth.config not in {ask.config for ask in asks}
    (fifth,) = study.next()
    assert fifth.config not in {ask.config for ask in (*asks, fourth)}


def test_it_ends_only_when_all_that_are_under_way_are_told() -> None:
    chosen = task(budget=Budget(trials=3))
    study, rng = Study(chosen, tuning(chosen)), np.random.default_rng(1)
    while (asks := study.next(9))[0].role is Role.BASELINE:
        for ask in asks:
            study.tell(trial_of(ask, rng))
    assert len(asks) == 3
    for ask in asks:
        assert study.next(9) == ()
        study.tell(trial_of(ask, rng))
    assert study.next(9)[0].role is not Role.SEARCH


def test_one_that_is_stopped_with_trials_under_way_concludes() -> None:
    chosen = task(budget=Budget(trials=BUDGET))
    study, rng = Study(chosen, tuning(chosen)), np.random.default_rng(1)
    while (asks := study.next(4))[0].role is Role.BASELINE:
        for ask in asks:
            study.tell(trial_of(ask, rng))
    study.tell(trial_of(asks[0], rng))
    assert study.stop("enough").result == "interrupted"


def test_with_one_at_a_time_every_trial_is_told_before_the_next_is_chosen() -> None:
    _, _, asks = restart_first()
    assert [ask.number for ask in asks] == list(range(len(asks)))


def test_steps_of_a_stream_hold_no_other_steps() -> None:
    def inner() -> Steps[None]:
        yield Stream(iter(()))

    def flow(scorer: Scorer) -> Steps[None]:
        yield Stream(iter([inner()]))

    with pytest.raises(Exception, match="steps that run side by side hold steps"):
        Study(task(), flow).next()


def test_a_stream_of_nothing_is_over_at_once() -> None:
    def flow(scorer: Scorer) -> Steps[int]:
        yield Stream(iter(()))
        return 7

    study = Study(task(), flow)
    assert study.next(3) == ()
    assert study.result == 7


def test_a_stream_makes_up_its_steps_only_when_they_are_wanted() -> None:
    made: list[int] = []

    def one(number: int) -> Steps[None]:
        trial = yield Ask(config=BASELINE, role=Role.BENCH)
        assert trial.role is Role.BENCH

    def flow(scorer: Scorer) -> Steps[None]:
        yield Stream(one(number) for number in range(5) if made.append(number) is None)

    study, rng = Study(task(), flow), np.random.default_rng(1)
    first = study.next(2)
    assert made == [0, 1]
    for ask in first:
        study.tell(trial_of(ask, rng))
    assert len(study.next(9)) == 3
    assert made == [0, 1, 2, 3, 4]
    with pytest.raises(Stopped):
        study.stop("enough")
