"""What the ledger makes of trials."""

from __future__ import annotations

import math

import pytest

from trimtab.records import Status
from trimtab.search import Ledger
from trimtab.search.ledger import kept
from trimtab.space import Config, Knob, KnobKind, Space

from .problems import crash, grid, integer, trial

SPACE = grid()
HERE = Config({"a": 1, "b": 2})
THERE = Config({"a": 3, "b": 4})


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(SPACE, SPACE.default())


def test_repeats_are_weighted_by_precision(ledger: Ledger) -> None:
    ledger.tell(trial(HERE, 0, 1.0, loss_se=0.1))
    evidence = ledger.tell(trial(HERE, 1, 0.0, loss_se=0.2))
    assert evidence is not None
    assert evidence.loss == pytest.approx((1.0 * 100 + 0.0 * 25) / 125)
    assert evidence.se == pytest.approx(125**-0.5)


def test_unknown_precision_counts_like_the_least_known(ledger: Ledger) -> None:
    ledger.tell(trial(HERE, 0, 1.0, loss_se=None))
    evidence = ledger.tell(trial(HERE, 1, 0.0, loss_se=0.2))
    assert evidence is not None
    assert evidence.loss == pytest.approx(0.5)
    assert evidence.se == pytest.approx(0.2 / math.sqrt(2))


def test_no_precision_at_all_is_a_plain_mean(ledger: Ledger) -> None:
    for number, loss in enumerate((1.0, 2.0, 6.0)):
        ledger.tell(trial(HERE, number, loss, loss_se=None))
    evidence = ledger.get(HERE)
    assert evidence is not None
    assert evidence.loss == pytest.approx(3.0)
    assert evidence.se is None


@pytest.mark.parametrize("loss", [math.nan, math.inf, None])
def test_a_loss_that_is_no_number_is_a_failure(ledger: Ledger, loss: float | None) -> None:
    evidence = ledger.tell(trial(HERE, 0, loss))
    assert evidence is not None
    assert not evidence.is_acceptable
    assert not evidence.measured
    assert ledger.best() is None


def test_broken_constraint_is_measured_but_not_acceptable(ledger: Ledger) -> None:
    evidence = ledger.tell(trial(HERE, 0, -2.0, excess=0.1))
    assert evidence is not None
    assert evidence.loss == -2.0
    assert not evidence.is_acceptable
    assert ledger.best() is None


def test_infrastructure_is_not_entered(ledger: Ledger) -> None:
    assert ledger.tell(trial(HERE, 0, -9.0, status=Status.INFRASTRUCTURE)) is None
    assert HERE not in ledger


def test_a_config_of_which_three_trials_were_lost_is_given_up(ledger: Ledger) -> None:
    for number in range(3):
        assert ledger.is_new(HERE)
        ledger.tell(trial(HERE, number, None, status=Status.INFRASTRUCTURE))
    assert ledger.is_given_up(HERE)
    assert not ledger.is_new(HERE)
    assert ledger.is_new(THERE)
    ledger.tell(trial(HERE, 3, -1.0))
    best = ledger.best()
    assert best is not None
    assert best.config == HERE


def test_a_config_that_crashes_as_often_as_not_is_not_best(ledger: Ledger) -> None:
    ledger.tell(trial(HERE, 0, -1.0))
    ledger.tell(crash(HERE, 1))
    ledger.tell(trial(THERE, 2, -0.1))
    best = ledger.best()
    assert best is not None
    assert best.config == THERE
    ledger.tell(trial(HERE, 3, -1.0))
    best = ledger.best()
    assert best is not None
    assert best.config == HERE
    assert (best.n_good, best.n_bad) == (2, 1)


def test_the_representative_is_the_most_precise(ledger: Ledger) -> None:
    ledger.tell(trial(HERE, 0, -0.9, loss_se=0.5))
    ledger.tell(trial(HERE, 1, -0.5, loss_se=0.01))
    ledger.tell(trial(HERE, 2, -0.4, loss_se=None))
    best = ledger.best()
    assert best is not None
    assert best.representative().number == 1


@pytest.mark.parametrize("status", [Status.OK, Status.CRASHED, Status.INFRASTRUCTURE])
def test_what_was_asked_is_waited_for_until_something_is_told_of_it(ledger: Ledger, status: Status) -> None:
    ledger.pending.update([HERE, HERE, THERE])
    told = trial(HERE, 0, None if status is not Status.OK else 1.0, status=status)
    ledger.tell(told)
    assert dict(ledger.pending) == {HERE: 1, THERE: 1}
    ledger.tell(told)
    assert dict(ledger.pending) == {THERE: 1}
    ledger.tell(told)
    assert dict(ledger.pending) == {THERE: 1}
    assert ledger.is_new(HERE) is (status is Status.INFRASTRUCTURE)
    assert not ledger.is_new(THERE)


def test_places_and_features_of_what_is_pending(ledger: Ledger) -> None:
    assert ledger.pending_features.shape[0] == 0
    ledger.tell(trial(HERE))
    ledger.pending[THERE] += 2
    assert ledger.pending_features.tolist() == SPACE.features([THERE]).tolist()
    assert ledger.taken == {SPACE.encode(HERE).tobytes(), SPACE.encode(THERE).tobytes()}


def test_the_target_has_the_config_of_the_latest_trial(ledger: Ledger) -> None:
    assert ledger.here == SPACE.default()
    ledger.tell(trial(HERE))
    ledger.tell(crash(THERE, 1))
    assert ledger.here == THERE
    ledger.tell(trial(Config({"a": 101, "b": 2}), 2))
    assert ledger.here == THERE


@pytest.mark.parametrize("status", [Status.INFEASIBLE, Status.REJECTED])
def test_the_target_keeps_what_it_has_where_a_config_never_reached_it(ledger: Ledger, status: Status) -> None:
    """What a restart costs a prudent search is counted from there."""
    ledger.tell(trial(HERE))
    ledger.tell(trial(THERE, 1, None, status=status, loss_se=None))
    assert ledger.here == HERE


def test_foreign_knobs_are_dropped_and_missing_ones_filled_in() -> None:
    ledger = Ledger(SPACE, Config({"a": 7, "b": 8}))
    assert ledger.own(Config({"b": 2, "stranger": True})) == Config({"a": 7, "b": 2})


def test_illegal_values_are_not_entered(ledger: Ledger) -> None:
    assert ledger.own(Config({"a": 101, "b": 2})) is None
    assert ledger.tell(trial(Config({"a": 101, "b": 2}), 0, -9.0)) is None
    assert len(ledger) == 0


def test_inactive_knobs_do_not_make_configs_different() -> None:
    switch = Knob(name="switch", kind=KnobKind.BOOLEAN, default=False)
    space = Space([switch, integer("depth", condition="switch")])
    ledger = Ledger(space, space.default())
    ledger.tell(trial(Config({"switch": False, "depth": 5}), 0, 1.0))
    ledger.tell(trial(Config({"switch": False, "depth": 9}), 1, 2.0))
    assert [evidence.loss for evidence in ledger] == [1.5]


class TestABaselineThatMissesAConstraint:
    """Loss and what is missed count together, until a config meets all constraints."""

    @pytest.fixture
    def near(self) -> Ledger:
        ledger = Ledger(SPACE, SPACE.default(), nears_constraints=True)
        ledger.tell(trial(SPACE.default(), 0, 0.0, excess=0.5))
        ledger.tell(trial(HERE, 1, 0.1, excess=0.2))
        ledger.tell(trial(THERE, 2, -0.3, excess=0.8))
        return ledger

    def test_a_config_that_misses_it_by_less_is_better(self, near: Ledger) -> None:
        assert near.allowed == 0.5
        seen = {e.config: (pytest.approx(e.loss), e.is_acceptable) for e in near}
        assert seen == {SPACE.default(): (0.5, True), HERE: (0.3, True), THERE: (0.5, False)}
        best = near.best()
        assert best is not None
        assert best.config == HERE

    def test_as_soon_as_one_meets_it_only_such_configs_are_acceptable(self, near: Ledger) -> None:
        meets = Config({"a": 5, "b": 6})
        evidence = near.tell(trial(meets, 3, 0.4))
        assert near.allowed == 0.0
        assert evidence is near.best() is near.get(meets)
        assert [e.loss for e in near] == [0.0, 0.1, -0.3, 0.4]
        assert [e.is_acceptable for e in near] == [False, False, False, True]

    def test_what_only_seemed_to_meet_it_does_not_count(self, near: Ledger) -> None:
        allowed = []
        for number, excess in enumerate((0.0, 0.0, 0.1), start=3):
            near.tell(trial(HERE, number, 0.1, excess=excess))
            allowed.append(near.allowed)
        assert allowed == [0.5, 0.0, 0.5]

    def test_crashes_and_what_cannot_be_counted_stay_failures(self, near: Ledger) -> None:
        evidence = near.tell(crash(Config({"a": 7, "b": 7}), 3))
        unbounded = near.tell(trial(Config({"a": 8, "b": 8}), 4, -1.0, excess=math.inf))
        assert evidence is not None
        assert unbounded is not None
        assert not evidence.is_acceptable
        assert not unbounded.is_acceptable
        assert not unbounded.measured

    def test_other_ledgers_do_not_see_it_so(self) -> None:
        ledger = Ledger(SPACE, SPACE.default())
        ledger.tell(trial(SPACE.default(), 0, 0.0, excess=0.5))
        assert ledger.allowed == 0.0
        assert ledger.best() is None


def test_what_is_kept_of_many_has_the_best_that_meet_the_constraints(ledger: Ledger) -> None:
    """Configs that break a constraint of the objective are often faster."""
    for number in range(100):
        is_met = number in (20, 40)
        ledger.tell(
            trial(Config({"a": number, "b": 0}), number, 0.0 if is_met else -number, excess=0.0 if is_met else 0.3)
        )
    some = kept(ledger.evidence, 10)
    assert len(some) == 10
    assert [e.config["a"] for e in some if e.is_acceptable] == [20, 40]
    assert [e.config["a"] for e in some][-3:] == [97, 98, 99]
