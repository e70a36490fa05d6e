"""The time of a budget: of trials side by side it passes once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.flow.test_parallel import trial_of
from tests.flow.test_passes import task
from trimtab.flow import Ask, Budget, SearchOptions, Study
from trimtab.flow.tuning import tuning
from trimtab.records import Role

pytestmark = pytest.mark.slow

COST_S = 5.0


@pytest.mark.parametrize("n", [1, 4])
def test_several_clients_make_several_times_the_trials_of_one(n: int) -> None:
    """Each is free when its trial has ended, and takes the next one at once."""
    chosen = task(budget=Budget(seconds=300.0), search=SearchOptions(searcher="random", patience=40))
    study, rng, under_way, passed_s = Study(chosen, tuning(chosen)), np.random.default_rng(1), list[Ask](), 0.0
    while not study.is_over:
        while len(under_way) < n and (asks := study.next(1)):
            under_way += asks
        if study.is_over:
            break
        passed_s += COST_S / len(under_way)
        study.tell(trial_of(under_way.pop(0), rng))
    trials = study.scorer.trials
    n_search = sum(trial.role is Role.SEARCH for trial in trials)
    assert n_search >= 20 if n == 1 else n_search >= 60
    assert passed_s <= 300.0 + COST_S
    assert study.scorer.spent_s == pytest.approx(passed_s, rel=0.1)
    if n == 1:
        assert study.result.stop_reason.startswith("the budget of 5min is used, except ")
