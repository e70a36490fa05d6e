"""What the pages take for the best config of a study that is not proven."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from trimtab.records import Context, Role, Status, Trial, Verdict
from trimtab.serve.studies import _best_of, _thinned
from trimtab.space import Config

BASELINE = Config({"cache": 2})


def _trial(number: int, cache: int, loss: float, status: Status = Status.OK) -> Trial:
    return Trial(
        number=number,
        role=Role.SEARCH,
        config=Config({"cache": cache}),
        context=Context("w", 1),
        status=status,
        loss=loss,
    )


def test_a_run_that_a_guard_has_ended_is_not_the_best() -> None:
    record: Any = SimpleNamespace(verdict=Verdict(), baseline=BASELINE)
    trials = [_trial(0, 4, -0.3), _trial(1, 8, -0.9, Status.STOPPED_EARLY)]
    assert _best_of(record, trials) == {"cache": 4}
    assert _best_of(record, trials[1:]) == {"cache": 2}


def test_each_new_best_is_drawn() -> None:
    trials = [_trial(n, 3, 0.1) for n in range(40)]
    trials[7], trials[9] = _trial(7, 4, -0.3), _trial(9, 8, -0.9, Status.STOPPED_EARLY)
    drawn = {trial.number for trial in _thinned(trials, 16)}
    assert 7 in drawn
    assert 9 not in drawn


def test_the_best_is_that_of_the_mean_of_its_runs() -> None:
    record: Any = SimpleNamespace(verdict=Verdict(), baseline=BASELINE)
    losses = [(4, -0.3), (8, -0.1), (4, 0.0), (8, -0.1), (4, 0.0), (4, 0.0)]
    trials = [_trial(n, cache, loss) for n, (cache, loss) in enumerate(losses)]
    assert _best_of(record, trials[:1]) == {"cache": 4}
    assert _best_of(record, trials) == {"cache": 8}


def test_the_baseline_is_drawn_however_long_the_proof_is() -> None:
    trials = [_trial(0, 2, 0.0), *(replace(_trial(n, 3, 0.1), role=Role.PROOF_CANDIDATE) for n in range(1, 60))]
    drawn = [trial.number for trial in _thinned(trials, 16)]
    assert len(drawn) == 16
    assert (drawn[0], drawn[-1]) == (0, 59)
