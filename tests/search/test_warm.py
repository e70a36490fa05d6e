"""A prior from past studies: it helps where it fits, is dropped where it misleads, and is a function of what was told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from trimtab.records import Status
from trimtab.search import PastStudy, SearchProblem, create
from trimtab.search.rgpe import misranked, shares_won
from trimtab.search.warm import WarmLog, warmed
from trimtab.space import Config
from trimtab.testing.surfaces import Surface, make_surface, run

pytestmark = pytest.mark.slow

N_PAST = 80


def _past(surface: Surface, turn: float = 1.0, name: str = "past") -> PastStudy:
    """Random trials on a surface; `turn` -1: of one on which everything is the other way round."""
    rng = np.random.default_rng(5)
    configs = [c for c in surface.space.sample(N_PAST, rng) if np.isfinite(surface.loss(c))]
    return PastStudy(
        name=name, nearness=0.8, configs=tuple(configs), losses=tuple(turn * surface.loss(c) for c in configs)
    )


@pytest.fixture(scope="module")
def surface() -> Surface:
    return make_surface(20, 3)


def _problem(surface: Surface, past: PastStudy, seed: int = 0, budget: int = 30) -> SearchProblem:
    order = np.argsort(past.losses, kind="stable")[:8]
    starts = [surface.space.repair(past.configs[i]) for i in order]
    return replace(surface.problem(seed, budget, is_advised=False), past=(past,), starts=starts)


def test_a_past_that_fits_gives_early_what_takes_long_without(surface: Surface) -> None:
    past = _past(surface)
    warm = [run(surface, warmed("auto", _problem(surface, past, seed), WarmLog()), 4, seed)[-1] for seed in range(4)]
    cold = [run(surface, create("auto", surface.problem(seed, 30, is_advised=False)), 4, seed)[-1] for seed in range(4)]
    assert np.mean(warm) > np.mean(cold) + 0.05


def test_a_past_that_misleads_is_dropped(surface: Surface) -> None:
    log = WarmLog()
    searcher = warmed("auto", _problem(surface, _past(surface, turn=-1.0, name="liar")), log)
    run(surface, searcher, 12, 0)
    assert list(log.dropped) == ["liar"]
    assert log.n_asks <= 6
    (line,) = log.take()
    assert line.startswith("the prior of study='liar' is dropped: it may well put ")
    assert log.take() == []


def test_a_past_is_not_dropped_while_all_trials_are_alike(surface: Surface) -> None:
    """Within their noise: nothing speaks against it, so it keeps its weight."""
    log = WarmLog()
    searcher = warmed("auto", _problem(surface, _past(surface)), log)
    searcher.tell(replace(surface.evaluate(surface.baseline, 0, 0), loss=0.0, loss_se=0.5))
    for number in range(1, 7):
        told = surface.evaluate(searcher.ask()[0], number, 0)
        searcher.tell(replace(told, status=Status.OK, loss=0.001 * number, loss_se=0.5))
    assert log.dropped == {}
    assert log.weights == {"past": 1.0}
    assert log.n_asks >= 4


def test_a_past_is_not_dropped_while_nothing_meets_a_constraint(surface: Surface) -> None:
    """What is missed of a constraint, which counts in the loss then, past studies know nothing of."""
    log = WarmLog()
    searcher = warmed("auto", _problem(surface, _past(surface, turn=-1.0, name="liar")), log)
    searcher.tell(replace(surface.evaluate(surface.baseline, 0, 0), excess=0.3))
    for number in range(1, 12):
        searcher.tell(replace(surface.evaluate(searcher.ask()[0], number, 0), excess=0.3))
    assert log.dropped == {}
    assert log.n_asks > 0


def test_the_same_told_gives_the_same_asks(surface: Surface) -> None:
    def asked() -> list[Config]:
        searcher = warmed("gp", _problem(surface, _past(surface), 1), WarmLog())
        searcher.tell(surface.evaluate(surface.baseline, 0, 1))
        found = []
        for number in range(1, 9):
            found.append(searcher.ask()[0])
            searcher.tell(surface.evaluate(found[-1], number, 1))
        return found

    assert asked() == asked()


def test_several_asks_at_once_differ(surface: Surface) -> None:
    searcher = warmed("forest", _problem(surface, _past(surface)), WarmLog())
    searcher.tell(surface.evaluate(surface.baseline, 0, 0))
    searcher.tell(surface.evaluate(searcher.ask()[0], 1, 0))
    assert len(set(searcher.ask(5))) == 5


@pytest.mark.parametrize("name", ["random", "nelder-mead", "sobol", "tpe", "hill-climbing"])
def test_any_searcher_tries_the_starts_first(surface: Surface, name: str) -> None:
    """While they are better than the baseline."""
    problem = _problem(surface, _past(surface))
    searcher = warmed(name, problem, WarmLog())
    searcher.tell(surface.evaluate(surface.baseline, 0, 0))
    asked = []
    for number in range(1, 4):
        asked.append(searcher.ask()[0])
        searcher.tell(surface.evaluate(asked[-1], number, 0))
    assert asked == list(problem.starts[:3])


def test_the_first_simplex_is_made_of_the_starts(surface: Surface) -> None:
    problem = _problem(surface, _past(surface))
    searcher = warmed("nelder-mead", problem, WarmLog())
    searcher.tell(surface.evaluate(surface.baseline, 0, 0))
    asked = []
    for number in range(1, 9):
        asked.append(searcher.ask()[0])
        searcher.tell(surface.evaluate(asked[-1], number, 0))
    assert asked == list(problem.starts)


def test_starts_worse_than_the_baseline_are_left(surface: Surface) -> None:
    rng = np.random.default_rng(1)
    bad = [c for c in surface.space.sample(200, rng) if 0.2 < surface.loss(c) < np.inf][:3]
    searcher = create("random", replace(surface.problem(0, 30, is_advised=False), starts=bad))
    searcher.tell(surface.evaluate(surface.baseline, 0, 0))
    searcher.tell(surface.evaluate(searcher.ask()[0], 1, 0))
    assert searcher.ask()[0] not in bad


def test_misranked_pairs() -> None:
    losses, se = np.arange(6.0), np.zeros(6)
    assert misranked(losses, losses, se, (1,)).max() == 0.0
    assert misranked(-losses, losses, se, (1,)).min() == 1.0
    assert misranked(np.zeros(6), losses, se, (1,)) == pytest.approx(0.5)
    assert np.isnan(misranked(losses, np.zeros(6), se, (1,))).all()
    blurred = misranked(-losses, losses, np.full(6, 9.0), (1,))
    assert np.isnan(blurred).all(), "pairs within the noise say nothing"
    one = misranked(losses, np.array([0.0, 0, 0, 0, 0, 2.0]), np.full(6, 0.9), (1,))
    assert np.nanmax(one) == 0.0
    assert 0 < np.isnan(one).sum() < 100, "draws without the one that differs say nothing"


def test_shares_of_draws_won() -> None:
    losses, prior = np.array([[0.1, 0.2, 0.3, 0.1], [0.2, 0.2, 0.1, 0.4]]), np.array([1.0, 0.0])
    assert shares_won(losses, prior).tolist() == [0.625, 0.375]
    nothing = np.full((2, 4), np.nan)
    assert shares_won(nothing, prior).tolist() == [1.0, 0.0]
    assert shares_won(np.hstack([losses, nothing]), prior).tolist() == [0.8125, 0.1875]


@pytest.mark.parametrize("name", ["trust-region", "contextual-gp", "gp"])
def test_searchers_with_a_model_take_the_prior(surface: Surface, name: str) -> None:
    log = WarmLog()
    run(surface, warmed(name, _problem(surface, _past(surface)), log), 4, 0)
    assert log.n_asks >= 2
    assert set(log.weights) == {"past"}


@pytest.mark.parametrize(
    ("kept", "is_model"),
    [(lambda p: replace(p, configs=p.configs[:1], losses=p.losses[:1]), False), (lambda p: p, True)],
)
def test_a_past_of_one_config_is_no_model(
    surface: Surface, kept: Callable[[PastStudy], PastStudy], is_model: bool
) -> None:
    log = WarmLog()
    assert len(run(surface, warmed("forest", _problem(surface, kept(_past(surface))), log), 4, 0)) == 4
    assert (log.n_asks > 0) is is_model
