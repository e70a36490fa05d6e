"""Prudent search: reach beyond what works, blame by elimination, the price of a restart; and what they bring."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.records import Trial
from trimtab.search import RestartCost
from trimtab.search.acquisition import beyond, blamed, reach, restart_cost
from trimtab.search.auto import AutoSearcher
from trimtab.search.ledger import Evidence, Ledger
from trimtab.space import Config, Knob, KnobKind, RestartClass, Space
from trimtab.testing.rugged import make_rugged

from .problems import crash, grid, integer, problem, trial


def ledger_of(space: Space, *trials: Trial) -> Ledger:
    ledger = Ledger(space, space.default())
    for each in trials:
        ledger.tell(each)
    return ledger


def told(space: Space, *trials: Trial) -> list[Evidence]:
    """Evidence of the trials."""
    return ledger_of(space, *trials).evidence


def at(a: int, b: int, c: int) -> Config:
    return Config({"a": a, "b": b, "c": c})


def test_envelope_counts_how_far_each_feature_leaves_the_tried_range() -> None:
    space = grid(3)
    evidence = told(space, trial(at(40, 0, 10)), crash(at(90, 90, 90), 1))
    outside = beyond(evidence, space.features([space.default()])[0], np.array([1.0, 1.0, 0.5]))
    within, further, weighted = space.features([at(20, 0, 5), at(60, 10, 10), at(40, 0, 50)])
    np.testing.assert_allclose(outside(np.array([within, further, weighted])), [0.0, 0.3, 0.2])


def test_steps_beyond_what_works_get_shorter_after_more_failures_than_are_accepted() -> None:
    """One failure of four is more than a tenth of the trials; of twenty it is not."""
    space, further = grid(2), Config({"a": 30, "b": 0})
    works = [trial(Config({"a": 0, "b": n}), n) for n in range(20)]
    for known, width in ((works[:3], 1.0), ([*works[:3], crash(Config({"a": 90, "b": 0}), 20)], 0.2),
                         ([*works, crash(Config({"a": 90, "b": 0}), 20)], 1.0)):  # fmt: skip
        score = reach(1.0, 0.2, 0.1)(ledger_of(space, *known))
        np.testing.assert_allclose(score(space.features([further])), [-0.3 / width])


def test_knobs_that_went_further_than_any_that_worked_are_blamed() -> None:
    space = grid(3)
    evidence = told(space, trial(at(80, 10, 10)), crash(at(80, 60, 10), 1))
    share = blamed(evidence, space.features([space.default()])[0])
    shares = share(space.features([at(100, 10, 100), at(0, 35, 0), at(0, 60, 0), at(0, 90, 0)]))
    np.testing.assert_allclose(shares, [0.0, 0.5, 1.0, 1.0])


def test_several_suspects_share_the_blame() -> None:
    space = grid(3)
    evidence = told(space, crash(at(50, 50, 0)))
    share = blamed(evidence, space.features([space.default()])[0])
    np.testing.assert_allclose(share(space.features([at(50, 0, 0), at(50, 50, 99)])), [0.5, 1.0])


def test_a_border_of_two_knobs_is_blamed_on_what_differs() -> None:
    """Each knob worked as far out on its own."""
    space = grid(2)
    works = [trial(Config({"a": 90, "b": 0})), trial(Config({"a": 60, "b": 90}), 1)]
    evidence = told(space, *works, crash(Config({"a": 90, "b": 90}), 2))
    share = blamed(evidence, space.features([space.default()])[0])
    assert share(space.features([Config({"a": 90, "b": 80})]))[0] > 0.8
    assert share(space.features([Config({"a": 60, "b": 0})]))[0] == 0.0


def test_a_restart_has_its_price() -> None:
    space = grid(2)
    rows = space.features([Config({"a": 50, "b": 0}), Config({"a": 0, "b": 50})])
    at_home, moved = ledger_of(space), ledger_of(space, crash(Config({"a": 9, "b": 50})))
    np.testing.assert_allclose(restart_cost(1.0)(at_home)(rows), [0.0, -np.log(2.0)], atol=1e-6)
    np.testing.assert_allclose(restart_cost(1.0)(moved)(rows), [-np.log(2.0), 0.0], atol=1e-6)


def test_a_slow_restart_has_a_price_of_its_own_once_for_each_tier() -> None:
    late = RestartClass.RESTART
    space = Space([integer("a"), *(integer(name, restart=late) for name in ("app.b", "app.c", "db.d", "db.e"))])
    slow = [RestartCost(frozenset({"app.b", "app.c", "app.gone"}), 1.5), RestartCost(frozenset({"db.d"}), 0.5)]
    home, score = space.default(), restart_cost(0.0, slow)(ledger_of(space))
    moved: list[tuple[str, ...]] = [("a", "db.e"), ("app.b",), ("app.b", "app.c"), ("app.b", "db.d")]
    rows = space.features([home.replace(dict.fromkeys(names, 50)) for names in moved])
    np.testing.assert_allclose(score(rows), -np.log([1.0, 2.5, 2.5, 3.0]), atol=1e-6)


@pytest.mark.slow
def test_every_search_goes_on_with_a_slow_tier_as_it_stands_where_that_promises_as_much() -> None:
    """Two knobs matter alike; one of them restarts what must warm up for long."""
    space = Space([integer("a"), integer("app.b", restart=RestartClass.RESTART), integer("c")])
    moved = {}
    for runs in (0.0, 3.0):
        restarts = [RestartCost(frozenset({"app.b"}), runs)] if runs else []
        searcher = AutoSearcher(replace(problem(space, budget=30), restarts=restarts))
        here, moved[runs] = space.default(), 0
        searcher.tell(trial(here))
        for number in range(1, 21):
            config = searcher.ask()[0]
            moved[runs] += config["app.b"] != here["app.b"]
            loss = sum(((int(config[name]) - 60) / 100) ** 2 for name in ("a", "app.b"))
            searcher.tell(trial(config, number, loss))
            here = config
    assert moved[3.0] < moved[0.0]


@pytest.mark.parametrize("name", ["restart_cost", "blame", "caution"])
def test_weights_are_checked(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}=-1.0 of searcher 'auto'"):
        AutoSearcher(problem(grid(), **{name: -1.0}))


def test_an_unknown_temper_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        AutoSearcher(problem(grid(), temper="brave"))
    assert "temper='brave' of searcher 'auto'" in str(caught.value)
    assert caught.value.hint == "temper must be one of bold, even, prudent"


@pytest.mark.slow
def test_a_prudent_search_stays_with_the_restart_value_that_the_target_has() -> None:
    """A knob without effect that needs a restart is left alone for most of the trials."""
    space = Space(
        [
            integer("a"),
            integer("b", restart=RestartClass.RESTART),
            Knob(name="on", kind=KnobKind.BOOLEAN, default=False, restart=RestartClass.RESTART),
        ]
    )
    moved = {}
    for cost in (0.0, 3.0):
        searcher = AutoSearcher(problem(space, budget=40, temper="prudent", restart_cost=cost))
        here, moved[cost] = space.default(), 0
        searcher.tell(trial(here))
        for number in range(1, 25):
            config = searcher.ask()[0]
            moved[cost] += (config["b"], config["on"]) != (here["b"], here["on"])
            searcher.tell(trial(config, number, ((int(config["a"]) - 60) / 100) ** 2))
            here = config
    assert moved[3.0] < moved[0.0]


@pytest.mark.slow
@pytest.mark.parametrize(("n_surfaces", "n_trials"), [(4, 12), pytest.param(12, 20, marks=pytest.mark.full)])
def test_a_prudent_search_fails_less_often_than_a_bold_one(n_surfaces: int, n_trials: int) -> None:
    """On surfaces on which no constant was chosen."""
    failed = {"bold": 0, "prudent": 0}
    for temper in failed:
        for seed in range(200, 200 + n_surfaces):
            surface = make_rugged(seed)
            searcher = AutoSearcher(surface.problem(seed, n_trials, temper=temper))
            searcher.tell(surface.evaluate(surface.baseline, 0, seed))
            for number in range(1, n_trials + 1):
                answer = surface.evaluate(searcher.ask()[0], number, seed)
                failed[temper] += answer.loss is None
                searcher.tell(answer)
    assert failed["prudent"] <= 0.6 * failed["bold"]
