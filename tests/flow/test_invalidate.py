"""A trial whose measurement is found to be invalid after it was told: the study goes on as if it had not been measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.flow.test_parallel import trial_of
from tests.flow.test_passes import SPACE, measured, task
from trimtab.errors import UsageError
from trimtab.flow import Ask, Budget, Settled, Study
from trimtab.flow.tuning import tuning
from trimtab.records import Fault, PassesPlan, Role, Status, Trial, Verdict

WRONG = 500.0
"""A speed that no config of the space has."""


def begun(searcher: str = "forest", settled: Settled | None = None) -> Study[Verdict]:
    chosen = task(budget=Budget(trials=40))
    chosen = replace(chosen, search=replace(chosen.search, searcher=searcher))
    return Study(chosen, tuning(chosen, lambda scorer: settled or Settled()))


def go_on(study: Study[Verdict], rng: np.random.Generator, n: int = 1000, role: Role | None = None) -> list[Ask]:
    """Answers up to `n` asks, or up to the first of a role, which is returned last and not told."""
    asks: list[Ask] = []
    while not study.is_over and len(asks) < n:
        for ask in study.next():
            asks.append(ask)
            if ask.role is role:
                return asks
            study.tell(trial_of(ask, rng))
    return asks


def too_good(ask: Ask, rng: np.random.Generator) -> Trial:
    return replace(trial_of(ask, rng), measurement=measured(WRONG))


@pytest.mark.parametrize("searcher", ["forest", "random", pytest.param("gp", marks=pytest.mark.full)])
@pytest.mark.slow
def test_what_was_invalid_does_not_win(searcher: str) -> None:
    study, rng = begun(searcher), np.random.default_rng(1)
    wrong = go_on(study, rng, role=Role.SEARCH)[-1]
    told = study.tell(too_good(wrong, rng))
    go_on(study, rng, 4)
    assert study.scorer.best_gain == pytest.approx(WRONG / 100, rel=0.1)
    after = study.invalidate(told.number, "the clock was set")
    assert (after.status, after.measurement, after.loss, after.fault) == (
        Status.INFRASTRUCTURE, None, None, Fault.ENVIRONMENT,
    )  # fmt: skip
    assert after.reason == "its measurement was found to be invalid: the clock was set"
    assert study.scorer.best_gain is not None
    assert study.scorer.best_gain < 3
    go_on(study, rng)
    assert study.result.result == "better"
    assert study.result.config["late"] > 0
    assert study.result.config != wrong.config


@pytest.mark.slow
def test_the_search_goes_on_where_the_rest_points() -> None:
    study, rng = begun(), np.random.default_rng(1)
    wrong = go_on(study, rng, role=Role.SEARCH)[-1]
    study.tell(too_good(wrong, rng))
    study.invalidate(wrong.number, "x")
    asks = [ask for ask in go_on(study, rng) if ask.role is Role.SEARCH]

    def distance(ask: Ask) -> float:
        return sum(abs(float(ask.config[name]) - float(wrong.config[name])) for name in SPACE.knobs)

    assert np.median([distance(ask) for ask in asks[-15:]]) > 0.5, "it does not stay round a config that was never fast"


def test_an_invalid_baseline_is_no_yardstick() -> None:
    study, rng = begun(), np.random.default_rng(1)
    (first,) = study.next()
    study.tell(replace(trial_of(first, rng), measurement=measured(WRONG)))
    go_on(study, rng, 2)
    assert study.scorer.noise_sd > 0.3
    study.invalidate(first.number, "x")
    assert study.scorer.noise_sd < 0.05
    assert len(study.scorer.baselines) == 2
    ask = go_on(study, rng, role=Role.SEARCH)[-1]
    slow = replace(trial_of(ask, rng), measurement=measured(100.0))
    assert study.tell(slow).loss == pytest.approx(0.0, abs=0.02)


def test_a_search_in_passes_goes_on_with_its_searcher() -> None:
    study = begun(settled=Settled(passes=PassesPlan(kind="alternate", room=40)))
    rng = np.random.default_rng(1)
    wrong = go_on(study, rng, role=Role.SEARCH)[-1]
    study.tell(too_good(wrong, rng))
    study.invalidate(wrong.number, "x")
    go_on(study, rng)
    assert study.result.config != wrong.config


def test_what_was_never_told_cannot_be_invalid() -> None:
    study, rng = begun(), np.random.default_rng(1)
    (ask,) = study.next()
    for number in (ask.number, 77):
        with pytest.raises(UsageError, match=f"trial={number} has no measurement that could be invalid") as caught:
            study.invalidate(number, "x")
        assert caught.value.hint
    failed = replace(trial_of(ask, rng), measurement=None, status=Status.CRASHED)
    study.tell(failed)
    with pytest.raises(UsageError, match="no measurement"):
        study.invalidate(ask.number, "x")


@pytest.mark.parametrize("searcher", ["sobol", "random"])
def test_what_is_under_way_is_not_asked_for_again(searcher: str) -> None:
    """The searcher that begins anew does not know of it."""
    study, rng = begun(searcher), np.random.default_rng(1)
    wrong = go_on(study, rng, role=Role.SEARCH)[-1]
    study.tell(too_good(wrong, rng))
    open_ones = list(study.next(4))
    study.invalidate(wrong.number, "x")
    open_ones += study.next(4)
    assert len(open_ones) == 8
    searched = [ask.config for ask in open_ones if ask.role is Role.SEARCH]
    assert len(set(searched)) == len(searched) >= 6
