"""False drops and false keeps of the ablation, counted over many seeds on a machine whose truth is known.

The machine answers with a number instead of a load, so that hundreds of ablations take seconds; whole studies on the fakes
are in test_ablate.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.needs import IS_FULL
from trimtab.flow import Ask, Budget, ProofOptions, Steps
from trimtab.flow.ablate import Ablation, ablate, drop_line, most_given_up, start_ablation
from trimtab.flow.pairs import Duel, Purse, fight
from trimtab.flow.weakest import groups_to_try, removal_order
from trimtab.flow.worth import Worth, WorthDuels
from trimtab.measure import BaselineTrack, Interval, PairedSequence
from trimtab.records import Role, Status
from trimtab.space import Config, Constraint, Knob, KnobKind, Space

pytestmark = pytest.mark.slow

N_CASES = 25 if IS_FULL else 6


@pytest.fixture(autouse=True)
def _rough_search() -> None:
    """What a line is expected to cost is told here by the model that users have."""


@dataclass
class Machine:
    """A scorer whose runs are exp(sum of effects) with log-normal noise."""

    effects: dict[str, float]
    noise: float
    rng: np.random.Generator
    trials: list[Any] = field(default_factory=list)
    track: BaselineTrack = field(default_factory=BaselineTrack)
    mean_cost_s: float = 10.0
    pair_run_cost_s: float = 10.0
    may_go_on: bool = True
    may_try_new: bool = True
    is_either_enough: bool = False
    saturation: float = 0.5
    par: float = 0.0
    is_spoiled: Callable[[Config, Role], bool] = lambda config, role: False
    missed: Callable[[Config, Role], float] = lambda config, role: -0.1

    @property
    def spent_s(self) -> float:
        return 10.0 * len(self.trials)

    @property
    def noise_sd(self) -> float:
        return self.track.summary().noise_sd

    def gain(self, config: Config) -> float:
        """Log of the truth: an effect is whole from `saturation` on."""
        effects = [effect * min(1.0, float(config[name]) / self.saturation) for name, effect in self.effects.items()]
        return max(effects) if self.is_either_enough else sum(effects)

    def run(self, steps: Steps[Any]) -> Any:
        """What the steps return, every ask of theirs measured."""
        trial = None
        while True:
            try:
                ask = next(steps) if trial is None else steps.send(trial)
            except StopIteration as end:
                return end.value
            assert isinstance(ask, Ask)
            trial = self.measure(ask.config, ask.role)

    def measure(self, config: Config, role: Role) -> Any:
        value = 1000 * math.exp(self.gain(config) + self.rng.normal(0, self.noise))
        if role is Role.BASELINE:
            self.track.add(self.spent_s, value, 0.005 * value)
        loss = -math.log(value / self.track.at(self.spent_s)[0])
        missed = self.missed(config, role)
        self.trials.append(
            SimpleNamespace(number=len(self.trials), role=role, config=config, status=Status.OK, loss=loss,
                            excess=max(0.0, missed), loss_se=self.noise, started_at=0.0, cost_s={}, is_feasible=True,
                            measurement=SimpleNamespace(value=value, missed=missed))
        )  # fmt: skip
        if self.is_spoiled(config, role):
            spoiled = {"status": Status.INFRASTRUCTURE, "measurement": None, "loss": None, "is_feasible": False}
            vars(self.trials[-1]).update(spoiled, reason="the disk is full")
        return self.trials[-1]


class ValueItself:
    """Of the constraints, that `missed` of a run is 0 on average."""

    is_maximised = True

    def is_met_by(self, measurements: list[Any]) -> bool:
        return bool(sum(measurement.missed for measurement in measurements) <= 0)

    def value(self, measurement: Any) -> Interval:
        return Interval(measurement.value, measurement.value, measurement.value)


@dataclass
class Case:
    machine: Machine
    task: Any
    ablation: Ablation
    worth: dict[str, Worth]

    @property
    def left(self) -> set[str]:
        return set(self.ablation.current.difference(self.task.baseline))


def worth_of(scorer: Any, task: Any, ablation: Ablation, purse: Purse) -> dict[str, Worth]:
    duels = WorthDuels(task, scorer, ablation)
    scorer.run(duels.finish(purse))
    return duels.lines()


def ablated(
    seed: int, n_knobs: int, effects: list[float], noise: float, *, n_search: int, runs: int, n_repeats: int = 0
) -> Case:
    """The ablation of a config that has all that matters and a random value of all else; `n_repeats` runs of it came before."""
    rng = np.random.default_rng(seed)
    names = [f"k{i:02d}" for i in range(n_knobs)]
    space = Space([Knob(name=name, kind=KnobKind.REAL, low=0.0, high=1.0, default=0.0) for name in names])
    baseline = space.default()
    places = rng.permutation(n_knobs)[: len(effects)]
    machine = Machine({names[place]: effect for place, effect in zip(places, effects, strict=True)}, noise, rng)
    for i in range(n_search + 3):
        if i < 3 or i % 6 == 0:
            machine.measure(baseline, Role.BASELINE)
        machine.measure(Config({name: float(rng.uniform()) for name in names}), Role.SEARCH)
    winner = Config({name: float(rng.uniform(0.55 if name in machine.effects else 0.05, 1)) for name in names})
    for _ in range(n_repeats):
        machine.measure(winner, Role.REPEAT)
    task: Any = SimpleNamespace(
        space=space,
        baseline=baseline,
        objective=ValueItself(),
        budget=Budget(trials=n_search),
        proof=ProofOptions(),
        windows_s=(5.0, 5.0),
    )
    scorer: Any = machine
    ablation = start_ablation(task, scorer, winner)
    scorer.run(ablate(task, scorer, ablation, Purse(task, scorer, seconds=0, runs=runs)))
    purse = Purse(task, scorer, seconds=0, runs=runs)
    return Case(machine, task, ablation, worth_of(scorer, task, ablation, purse))


@pytest.mark.parametrize(
    ("n_knobs", "effects", "noise", "runs", "most_needless", "least_share_kept"),
    [
        pytest.param(12, [0.3, 0.2, 0.15], 0.02, 60, 0.2, 1.0, marks=pytest.mark.full),
        (12, [0.3, 0.2, 0.15], 0.05, 60, 0.5, 0.97),
        pytest.param(25, [0.4, 0.2, 0.15, 0.1], 0.02, 100, 0.3, 0.99, marks=pytest.mark.full),
        pytest.param(25, [0.4, 0.2, 0.15, 0.1], 0.05, 100, 0.8, 0.93, marks=pytest.mark.full),
    ],
)
def test_false_drops_and_false_keeps(
    n_knobs: int, effects: list[float], noise: float, runs: int, most_needless: float, least_share_kept: float
) -> None:
    cases = [ablated(seed, n_knobs, effects, noise, n_search=60, runs=runs) for seed in range(N_CASES)]
    kept = [len(set(case.machine.effects) & case.left) / len(effects) for case in cases]
    needless = [len(case.left - set(case.machine.effects)) for case in cases]
    lost = [case.machine.gain(case.ablation.full) - case.machine.gain(case.ablation.current) for case in cases]
    assert np.mean(kept) >= least_share_kept
    assert np.mean(needless) <= most_needless
    assert np.mean(lost) <= noise / 3
    false_proofs = sum(
        case.worth[name].verdict == "proven" for case in cases for name in case.left - set(case.machine.effects)
    )
    assert false_proofs <= 2


def test_a_small_budget_drops_much_and_loses_nothing() -> None:
    cases = [ablated(seed, 25, [0.6, 0.3], 0.02, n_search=15, runs=10) for seed in range(N_CASES)]
    assert all(set(case.machine.effects) <= case.left for case in cases)
    assert np.mean([len(case.left) for case in cases]) < 10
    large = [case for case in cases if len(case.left) > 3]
    assert large
    assert {case.ablation.end for case in large} == {"budget"}


def test_on_a_noisy_machine_more_of_the_gain_is_kept_than_noise_would_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[Config, list[list[str]]] = {}

    def remembered(task: Any, trials: Any, winner: Config, tolerance: float) -> list[list[str]]:
        """They do not depend on what may be given up: those of each seed are the same both times."""
        if winner not in known:
            known[winner] = groups_to_try(task, trials, winner, tolerance)
        return list(known[winner])

    def kept() -> float:
        cases = [ablated(seed, 10, [0.1] * 4, 0.14, n_search=30, runs=16, n_repeats=3) for seed in range(4 * N_CASES)]
        full = sum(case.machine.gain(case.ablation.full) for case in cases)
        return sum(case.machine.gain(case.ablation.current) for case in cases) / full

    monkeypatch.setattr("trimtab.flow.ablate.groups_to_try", remembered)
    monkeypatch.setattr("trimtab.flow.ablate.is_as_sure", lambda *_: True)
    limited = kept()
    monkeypatch.setattr("trimtab.flow.ablate._GIVEN_UP", math.inf)
    assert kept() < 0.68 < limited


def test_what_noise_hides_is_not_taken_away_where_the_gain_would_be_less_sure() -> None:
    cases = [ablated(seed, 10, [0.1] * 4, 0.14, n_search=30, runs=16, n_repeats=3) for seed in range(4 * N_CASES)]
    full = sum(case.machine.gain(case.ablation.full) for case in cases)
    assert sum(case.machine.gain(case.ablation.current) for case in cases) > 0.8 * full


def test_what_may_be_given_up_is_a_share_of_the_gain_where_noise_would_allow_more() -> None:
    task: Any = SimpleNamespace(proof=ProofOptions(min_gain=0.02))
    assert most_given_up(task, 0.14, loss=-0.6) == pytest.approx(0.15)
    assert most_given_up(task, 0.05, loss=-0.9) == pytest.approx(2 * math.log1p(0.05)), "noise allows less"
    assert (
        most_given_up(task, 0.14, loss=-0.03) == most_given_up(task, 0.14, loss=0.1) == pytest.approx(math.log1p(0.02))
    )
    assert most_given_up(task, 0.14, loss=math.inf) == pytest.approx(2 * math.log1p(0.14)), "it was not measured"


def test_what_was_given_up_before_the_ablation_counts() -> None:
    space = Space([Knob(name="a", kind=KnobKind.REAL, low=0.0, high=1.0, default=0.0)])
    machine = Machine({"a": 0.5}, 0.0, np.random.default_rng(0))
    task: Any = SimpleNamespace(space=space, baseline=space.default(), proof=ProofOptions(min_gain=0.02))
    scorer: Any = SimpleNamespace(trials=machine.trials, noise_sd=0.3)
    winner = Config({"a": 1.0})
    for config, role in ((task.baseline, Role.BASELINE), (winner, Role.SEARCH)):
        machine.measure(config, role)
    assert start_ablation(task, scorer, winner).most == pytest.approx(0.5 / 4)
    assert start_ablation(task, scorer, winner, lost=0.06).most == pytest.approx(0.56 / 4 - 0.06), "of a larger gain"
    assert start_ablation(task, scorer, winner, lost=0.3).most == 0.0


def test_intervals_of_the_lines_cover_the_truth() -> None:
    n_lines = n_missed = 0
    for seed in range(N_CASES):
        case = ablated(seed, 8, [0.3, 0.2, 0.1], 0.03, n_search=40, runs=60)
        for name, line in case.worth.items():
            truth = math.exp(case.machine.effects.get(name, 0.0))
            for interval in (line.without, line.alone):
                assert interval is not None
                n_lines += 1
                n_missed += not interval.low <= truth <= interval.high
    assert n_missed / n_lines <= 0.05


def test_nothing_that_matters_leaves_one_line_for_the_proof_to_judge() -> None:
    cases = [ablated(seed, 12, [], 0.02, n_search=30, runs=60) for seed in range(N_CASES)]
    assert np.mean([len(case.left) for case in cases]) < 1.5


def test_what_interacts_is_not_dropped_together() -> None:
    """Either of two knobs is enough: taking one back costs nothing, taking both back costs all."""
    for seed in range(N_CASES):
        case = ablated(seed, 6, [0.3, 0.3], 0.02, n_search=40, runs=60)
        case.machine.is_either_enough = True
        scorer: Any = case.machine
        again = start_ablation(case.task, scorer, case.ablation.full)
        purse = Purse(case.task, scorer, seconds=0, runs=60)
        scorer.run(ablate(case.task, scorer, again, purse))
        assert len(set(case.machine.effects) & set(again.current.difference(case.task.baseline))) == 1


@cache
def of_twelve() -> Case:
    """For tests that only look at it."""
    return ablated(1, 12, [0.4, 0.3], 0.02, n_search=40, runs=20)


def test_knobs_that_matter_go_last() -> None:
    case = of_twelve()
    order, costs = removal_order(case.task, case.machine.trials[:40], case.ablation.full)
    assert set(order[-2:]) == set(case.machine.effects)
    assert len(costs) == 11  # without the last nothing would be left
    assert max(costs[:10]) < 0.1 < 0.2 < costs[10]


def test_the_first_group_is_all_that_seems_needless() -> None:
    case = of_twelve()
    groups = groups_to_try(case.task, case.machine.trials[:40], case.ablation.full, 0.1)
    assert len(groups[0]) == 10
    assert not set(groups[0]) & set(case.machine.effects)
    assert {name for group in groups for name in group} == set(case.ablation.full.difference(case.task.baseline))


def test_without_trials_the_groups_shrink_by_two_thirds() -> None:
    case = of_twelve()
    groups = groups_to_try(case.task, case.machine.trials[:2], case.ablation.full, 0.1)
    assert [len(group) for group in groups] == [8, 2, 1, 1]


def _shared_budget(seed: int, least_a: float) -> tuple[Case, Purse]:
    """A winner that has taken from `b`, which does nothing, what `a` wants: at most 1.2 fit together. From `least_a` on `a`
    is worth a third."""
    machine = Machine({"a": 0.3}, 0.02, np.random.default_rng(seed), saturation=least_a)
    knobs = [
        Knob(name=name, kind=KnobKind.REAL, low=0.0, high=1.0, default=d)
        for name, d in [("a", 0.2), ("b", 0.6), ("c", 0)]
    ]
    space = Space(knobs, [Constraint("a + b <= 1.2")])
    task: Any = SimpleNamespace(
        space=space,
        baseline=space.default(),
        objective=ValueItself(),
        budget=Budget(trials=20),
        proof=ProofOptions(),
        windows_s=(5.0, 5.0),
    )
    for _ in range(3):
        machine.measure(task.baseline, Role.BASELINE)
    scorer: Any = machine
    ablation = start_ablation(task, scorer, Config({"a": 0.9, "b": 0.3, "c": 0.5}))
    return Case(machine, task, ablation, {}), Purse(task, scorer, seconds=0, runs=60)


def test_what_takes_room_from_another_setting_gives_way_where_it_loses_nothing() -> None:
    for seed in range(10):
        case, purse = _shared_budget(seed, least_a=0.5)
        scorer: Any = case.machine
        scorer.run(ablate(case.task, scorer, case.ablation, purse))
        assert case.left == {"a"}
        assert case.ablation.current["a"] == pytest.approx(0.6)
        assert case.task.space.is_feasible(case.ablation.current)
        assert any(
            drop.knob == "b" and drop.reason.endswith("to make room, a to 0.6") for drop in case.ablation.dropped
        )


def test_what_takes_room_that_is_needed_stays() -> None:
    for seed in range(10):
        case, purse = _shared_budget(seed, least_a=0.9)
        scorer: Any = case.machine
        scorer.run(ablate(case.task, scorer, case.ablation, purse))
        assert case.left == {"a", "b"}
        assert case.ablation.current["a"] == 0.9


def test_the_worth_of_a_line_that_gave_way_is_not_that_of_its_old_value() -> None:
    case, _ = _shared_budget(1, least_a=0.5)
    task, full = case.task, case.ablation.full
    scorer: Any = case.machine
    # Tried on its own first, `a` is kept; then `b` goes back, and `a` has to give way.
    purse = Purse(task, scorer, seconds=0, runs=60)
    case.ablation.duels.append(
        Duel(reference=full, challenger=full.replace({"a": 0.2}), sequence=PairedSequence(is_maximised=True))
    )
    duel = case.ablation.duels[0]
    scorer.run(fight(task, scorer, duel, n_pairs=2, is_decided=lambda duel: False, may_go_on=lambda: True))
    scorer.run(ablate(task, scorer, case.ablation, purse))
    assert case.ablation.current["a"] == pytest.approx(0.6)
    worth = worth_of(scorer, task, case.ablation, Purse(task, scorer, seconds=0, runs=0))
    assert worth["a"].without is None


def test_a_run_that_the_machine_spoils_says_nothing_of_its_settings() -> None:
    """The others are tried all the same, and no line counts as needed for it."""
    case = ablated(3, 6, [0.3, 0.3], 0.02, n_search=40, runs=60)
    one, other = sorted(case.machine.effects)
    case.machine.is_spoiled = lambda config, role: role is Role.ABLATION and not config[one]
    scorer: Any = case.machine
    again = start_ablation(case.task, scorer, case.ablation.full)
    scorer.run(ablate(case.task, scorer, again, Purse(case.task, scorer, seconds=0, runs=80)))
    assert again.end == "finished"
    assert (again.kept[one], again.kept[other]) == ("not_measured", "proven")
    assert re.fullmatch(
        r"a run could not be measured: trial \d+ ended as infrastructure: the disk is full", again.reasons[one]
    )
    worth = worth_of(scorer, case.task, again, Purse(case.task, scorer, seconds=0, runs=80))
    assert worth[one].reason.endswith("the disk is full")


@cache
def of_three() -> Case:
    """Nothing of it was taken back; for a copy."""
    return ablated(1, 3, [0.3, 0.3, 0.3], 0.02, n_search=40, runs=0)


@pytest.mark.parametrize("runs", range(12))
def test_no_line_is_begun_that_the_purse_cannot_bring_to_two_pairs(runs: int) -> None:
    """One pair decides nothing; a run of the reference serves all lines of a block."""
    case = deepcopy(of_three())
    scorer: Any = case.machine
    n_before = len(scorer.trials)
    worth = worth_of(scorer, case.task, case.ablation, Purse(case.task, scorer, seconds=0, runs=runs))
    pairs = [n for line in worth.values() for n in (line.without_pairs, line.alone_pairs)]
    assert 1 not in pairs
    assert len(scorer.trials) - n_before <= runs
    assert max(pairs) >= 2 or runs < 4


def rounded(case: Case) -> Case:
    """A copy whose config has the values that the space knows: one line of it can go back alone."""
    case = deepcopy(case)
    case.ablation.full = case.ablation.current = case.task.space.canonical(case.ablation.full)
    return case


def test_a_line_that_goes_after_the_others_were_measured_is_named_beside_them() -> None:
    case = rounded(of_three())
    scorer: Any = case.machine
    duels = WorthDuels(case.task, scorer, case.ablation)
    scorer.run(duels.finish(Purse(case.task, scorer, seconds=0, runs=40)))
    assert {name: line.beside for name, line in duels.lines().items()} == {"k00": 0, "k01": 0, "k02": 0}
    drop_line(case.task, case.ablation, duels.without["k01"])
    assert {name: line.beside for name, line in duels.lines().items()} == {"k00": 1, "k02": 1}


def test_of_a_line_that_failed_both_ways_both_are_told() -> None:
    case = rounded(of_three())
    scorer: Any = case.machine
    duels = WorthDuels(case.task, scorer, case.ablation)
    duels.without["k00"].failure, duels.alone["k00"].fault = "trial 40: crashed", "trial 41: infrastructure"
    for _ in range(2):
        assert duels.lines()["k00"].reason == "without it: trial 40: crashed; alone: trial 41: infrastructure"
    assert duels.lines()["k01"].reason == ""
