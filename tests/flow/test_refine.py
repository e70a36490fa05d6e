"""The leader of a search is thinned: what is known to matter is left alone, and settings of one play go back together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trimtab.flow import Ask, Budget, ProofOptions, Steps
from trimtab.flow.losses import fresh_mean
from trimtab.flow.refine import Refined, _leader, _Runs, refine
from trimtab.flow.weakest import behind_larger, halves, together
from trimtab.measure import BaselineTrack, Interval
from trimtab.records import Context, Objective, Play, Role, Status, Trial
from trimtab.space import Config, Knob, KnobKind, Space

CORE = ("workers", "buffers")
PLAY = ("random_cost", "scan_cost")
EXTRA = ("a", "b", "c", "d", "e")
COST_S = 8.0
OBJECTIVE = Objective.parse("throughput where p99 <= 20 ms")


def gain(config: Config) -> float:
    """Log of how many times faster: the workers and the buffers bring nearly all, and `a` a tenth, which is worth its line; one
    cost without the other harms."""
    fast = 0.47 * (config["workers"] > 0.5) + 0.5 * (config["buffers"] > 0.5)
    apart = (config["random_cost"] > 0.5) != (config["scan_cost"] > 0.5)
    return fast - 0.4 * apart + 0.1 * (config["a"] > 0.5)


class Machine:
    """A scorer whose runs answer with the truth and a little noise."""

    def __init__(self, seed: int) -> None:
        self.rng, self.trials, self.thinning = np.random.default_rng(seed), list[Any](), list[Config]()
        self.track, self.mean_cost_s, self.noise_sd, self.best_run = BaselineTrack(), COST_S, 0.01, None
        self.refused, self.refused_at_s, self.level, self.in_question = list[Config](), 0.0, 0.95, self.trials
        self.par, self.pair_run_cost_s, self.may_try_new = 0.0, COST_S, True
        self.harms = dict[Config, float]()
        self.beside, self.n_beside = None, 0

    @property
    def spent_s(self) -> float:
        return COST_S * len(self.trials)

    def say(self, line: str) -> None: ...

    def runs_of(self, config: Config, first: int = 0) -> list[Any]:
        return [trial for trial in self.trials if trial.config == config][first:]

    def measure(self, config: Config, role: Role) -> Any:
        loss = float(self.rng.normal(-gain(config), 0.005))
        trial = SimpleNamespace(
            number=len(self.trials), role=role, config=config, status=Status.OK, loss=loss, loss_se=0.01, excess=0.0,
            is_feasible=True, started_at="", measurement=None,
        )  # fmt: skip
        self.trials.append(trial)
        return trial

    def run(self, steps: Steps[Refined | None]) -> Config:
        """What the steps return, every ask of theirs measured."""
        trial = None
        while True:
            try:
                ask = next(steps) if trial is None else steps.send(trial)
            except StopIteration as end:
                return Config(end.value.config)
            if isinstance(ask, Ask):
                self.thinning += [ask.config] if ask.role is Role.SEARCH else []
                trial = self.measure(ask.config, ask.role)


def refined(seed: int, failed: Sequence[Config] = ()) -> tuple[Config, Machine, Any]:
    """The thinned leader of a study of which plays have found the core, and the search a config of nine lines and that some have
    `failed`."""
    names = [*CORE, *PLAY, *EXTRA]
    space = Space([Knob(name=name, kind=KnobKind.REAL, low=0.0, high=1.0, default=0.0) for name in names])
    baseline, machine = space.default(), Machine(seed)
    task: Any = SimpleNamespace(
        space=space, baseline=baseline, budget=Budget(seconds=60 * COST_S), proof=ProofOptions(),
        objective=OBJECTIVE, search=SimpleNamespace(baseline_every=6),
    )  # fmt: skip
    plays = [
        Play(name="workers", settings={"workers": 1.0}),
        Play(name="buffers", settings={"buffers": 1.0}),
        Play(name="costs", settings=dict.fromkeys(PLAY, 1.0)),
    ]
    core = baseline.replace(dict.fromkeys(CORE, 1.0))
    every = baseline.replace(dict.fromkeys(names, 1.0))
    machine.measure(baseline, Role.BASELINE)
    for config in (baseline.replace({"workers": 1.0}), core, core.replace(dict.fromkeys(PLAY, 1.0))):
        machine.measure(config, Role.PLAY)
    for _ in range(12):
        drawn = {name: float(machine.rng.uniform()) for name in EXTRA}
        machine.measure(core.replace({**drawn, "a": 0.4 * drawn["a"]}), Role.SEARCH)
    machine.measure(every, Role.SEARCH)
    for config in failed:
        vars(machine.measure(config, Role.SEARCH)).update(status=Status.CRASHED, loss=None, is_feasible=False)
    scorer: Any = machine
    return machine.run(refine(task, scorer, plays)), machine, task


@pytest.mark.parametrize("seed", range(3))
def test_what_is_known_to_matter_is_not_taken_away_to_see(seed: int) -> None:
    winner, machine, task = refined(seed)
    assert machine.thinning
    assert all(config[name] == 1.0 for config in machine.thinning for name in CORE)
    assert set(winner.difference(task.baseline)) >= {*CORE, "a"}
    assert len(winner.difference(task.baseline)) <= 4


def test_what_has_failed_in_the_search_is_not_run_again_to_thin() -> None:
    first = refined(0)[1].thinning[0]
    _, machine, _ = refined(0, failed=[first])
    assert machine.thinning
    assert first not in machine.thinning


@pytest.mark.parametrize("seed", range(3))
def test_settings_of_a_play_go_back_together(seed: int) -> None:
    _, machine, _ = refined(seed)
    assert {(config["random_cost"], config["scan_cost"]) for config in machine.thinning} == {(0.0, 0.0), (1.0, 1.0)}


def led(noise_sd: float, fast: float, crash_at: int = 0) -> tuple[Config, list[Config]]:
    """What is proven of a small config and one of nine lines that is `fast` as fast (log) on a machine said to be so noisy, and
    which configs were measured again; nothing is thinned. The large one crashes when it is measured again the n-th time."""
    names = [*CORE, *PLAY, *EXTRA]
    space = Space([Knob(name=name, kind=KnobKind.REAL, low=0.0, high=1.0, default=0.0) for name in names])
    baseline, machine = space.default(), Machine(0)
    machine.noise_sd = noise_sd
    task: Any = SimpleNamespace(
        space=space, baseline=baseline, budget=Budget(seconds=60 * COST_S), proof=ProofOptions(ablate=False),
        objective=OBJECTIVE, search=SimpleNamespace(baseline_every=6),
    )  # fmt: skip
    small, large = baseline.replace({"workers": 1.0}), baseline.replace(dict.fromkeys(names, 1.0))
    truth = {baseline: 0.0, small: -0.5, large: -fast}
    measured: list[Config] = []

    def measure(config: Config, role: Role) -> Any:
        trial = Machine.measure(machine, config, role)
        trial.loss = truth[config]
        measured.extend([config] if role is Role.REPEAT else [])
        if config == large and crash_at and measured.count(large) >= crash_at:
            trial.status, trial.loss = Status.CRASHED, None
        return trial

    machine.measure = measure  # type: ignore[method-assign]
    for config in (baseline, small, large):
        measure(config, Role.BASELINE if config == baseline else Role.SEARCH)
    measured.clear()
    scorer: Any = machine
    return machine.run(refine(task, scorer)), measured


def test_where_noise_alone_ties_them_the_runs_that_are_left_tell_the_better_from_the_simpler() -> None:
    winner, measured = led(noise_sd=0.14, fast=0.75)
    assert len(winner.difference(Config(dict.fromkeys(winner, 0.0)))) == 9
    assert 2 < len(measured) <= 6
    assert abs(2 * sum(config == winner for config in measured) - len(measured)) <= 1, "in turns"


def test_what_is_not_worth_its_lines_is_not_measured_again_for_it() -> None:
    winner, measured = led(noise_sd=0.1, fast=0.53)
    assert [name for name in winner if winner[name]] == ["workers"]
    assert len(measured) == 2


def test_leaders_that_noise_hides_are_measured_more_often() -> None:
    _, measured = led(noise_sd=0.17, fast=0.53)
    assert len(measured) == 4
    assert {measured.count(config) for config in measured} == {2}, "in turns"


@pytest.mark.parametrize("crash_at", [1, 2])
def test_a_leader_that_fails_when_it_is_measured_again_is_given_up(crash_at: int) -> None:
    winner, measured = led(noise_sd=0.17, fast=0.53, crash_at=crash_at)
    assert [name for name in winner if winner[name]] == ["workers"]
    assert sum(sum(config.values()) > 1 for config in measured) == crash_at


def test_where_the_best_fails_when_it_is_measured_again_the_next_best_is_looked_at() -> None:
    """Noise is small beside the difference: the small config was no contender beside the large one."""
    winner, measured = led(noise_sd=0.01, fast=0.75, crash_at=1)
    assert [name for name in winner if winner[name]] == ["workers"]
    assert [sum(config.values()) for config in measured] == [9, 1]


def test_where_the_best_was_lucky_once_the_next_best_is_looked_at() -> None:
    winner, asked = scripted({"large": [-1.15, 0.1], "small": [-0.83], "other": [0.0]}, {"small": -0.83})
    assert lines(winner) == sorted(CORE)
    repeated = [len(lines(ask.config)) for ask in asked if ask.role is Role.REPEAT]
    assert repeated[:2] == [9, 2]


def test_what_has_failed_once_does_not_lead_though_no_run_is_left() -> None:
    fast, slow = Config({"a": 1.0, "b": 0.0}), Config({"a": 0.0, "b": 1.0})
    told = [(fast, Status.OK, -0.75), (slow, Status.OK, -0.6), (fast, Status.CRASHED, None)]
    trials = [
        Trial(number=i, role=Role.SEARCH, config=config, context=Context("any", 1), status=status, loss=loss)
        for i, (config, status, loss) in enumerate(told)
    ]
    task: Any = SimpleNamespace(baseline=Config({"a": 0.0, "b": 0.0}), objective=Objective("throughput"))
    scorer: Any = SimpleNamespace(trials=trials, noise_sd=0.01, in_question=trials, par=0.0, harms={},
                                  runs_of=lambda config: [])  # fmt: skip
    spent: Any = SimpleNamespace(is_empty=True)
    with pytest.raises(StopIteration) as end:
        next(_leader(task, scorer, spent))
    assert end.value.value == slow


def test_a_constraint_that_one_run_misses_counts_on_average() -> None:
    runs = {"large": [-1.15, math.nan, -0.84], "other": [0.0]}
    winner, asked = scripted(runs, {}, missed_ms=20.5)
    assert len(lines(winner)) == 9
    assert [len(lines(ask.config)) for ask in asked if ask.role is Role.REPEAT] == [9]


def test_the_loss_of_a_run_that_misses_a_constraint_by_chance_counts() -> None:
    """Or the lucky run that chose the config would stand alone."""
    config = Config({"a": 1.0})

    def told(*runs: tuple[float, float]) -> list[Trial]:
        return [
            Trial(number=i, role=Role.SEARCH, config=config, context=Context("any", 1), status=Status.OK, loss=loss,
                  excess=excess)
            for i, (loss, excess) in enumerate(runs)
        ]  # fmt: skip

    assert fresh_mean(told((-1.0, 0.0), (-0.6, 0.02)), config) == -0.6
    assert fresh_mean(told((-1.0, 0.1), (-0.6, 0.02)), config) == math.inf, "it has never met it"


def test_what_noise_still_ties_after_all_runs_is_the_simpler_one_where_its_gain_is_as_sure() -> None:
    winner, measured = led(noise_sd=0.5, fast=0.51)
    assert [name for name in winner if winner[name]] == ["workers"]
    assert len(measured) == 5, "and a baseline between them"


def test_what_noise_still_ties_after_all_runs_is_not_given_up_for_fewer_settings() -> None:
    """Noise does not tell the two apart, yet the proof of the smaller one needs twice as many pairs."""
    winner, measured = led(noise_sd=0.3, fast=0.75)
    assert len(winner.difference(Config(dict.fromkeys(winner, 0.0)))) == 9
    assert len(measured) == 5


def scripted(runs: dict[str, list[float]], known: dict[str, float], **more: float) -> tuple[Config, list[Ask]]:
    """What is proven, as `refined_by` says, and what was asked for on the way."""
    found, asked = refined_by(runs, known, **more)
    return found.config, asked


def refined_by(
    runs: dict[str, list[float]],
    known: dict[str, float],
    seconds: float = 60 * COST_S,
    slower: float = 1.0,
    missed_ms: float = 40.0,
) -> tuple[Refined, list[Ask]]:
    """What becomes of a config of all nine lines, and what was asked for on the way.

    Args:
        runs: losses of "large", the config of nine lines, of "small", of the core, and of "other", any other: run by run, the
            last one again and again; the first of "large" is the search's. NaN: a constraint was missed; infinite: a crash.
        known: loss of the one run of "small" that was made before; "small" is absent where it was not measured.
        seconds: of the budget.
        slower: times the speed of the baseline when it is measured again.
        missed_ms: p99 of a run that misses the constraint; 15 ms of others, and 20 ms are allowed.
    """
    names = [*CORE, *PLAY, *EXTRA]
    space = Space([Knob(name=name, kind=KnobKind.REAL, low=0.0, high=1.0, default=0.0) for name in names])
    baseline, machine = space.default(), Machine(0)
    machine.noise_sd = 0.05
    task: Any = SimpleNamespace(
        space=space, baseline=baseline, budget=Budget(seconds=seconds), proof=ProofOptions(),
        objective=OBJECTIVE, search=SimpleNamespace(baseline_every=6),
    )  # fmt: skip
    names_of = {
        baseline.replace(dict.fromkeys(CORE, 1.0)): "small",
        baseline.replace(dict.fromkeys(names, 1.0)): "large",
    }
    asked: list[Ask] = []

    def take(config: Config, role: Role, loss: float) -> Any:
        trial = Machine.measure(machine, config, role)
        trial.is_feasible = not math.isnan(loss)
        p99_ms = 15.0 if trial.is_feasible else missed_ms
        even = Interval(1.0, 1.0, 1.0)
        p99 = {"p99": Interval(p99_ms, p99_ms, p99_ms)}
        trial.measurement = SimpleNamespace(throughput=even, latency_mean_ms=even, latency_ms=p99, n_ok=0)
        trial.loss = loss if math.isfinite(loss) else -0.83
        if math.isinf(loss):
            trial.loss, trial.status = None, Status.CRASHED
        if role is Role.BASELINE:
            machine.track.add(machine.spent_s, 100.0 * (slower if asked else 1.0), 1.0)
        return trial

    take(baseline, Role.BASELINE, 0.0)
    for config, name in names_of.items():
        if name == "large":
            take(config, Role.SEARCH, runs["large"].pop(0))
        elif name in known:
            take(config, Role.PLAY, known[name])
    scorer: Any = machine
    steps, trial = refine(task, scorer), None
    while True:
        try:
            ask = next(steps) if trial is None else steps.send(trial)
        except StopIteration as end:
            return end.value, asked
        assert isinstance(ask, Ask)
        asked.append(ask)
        losses = [0.0] if ask.config == baseline else runs[names_of.get(ask.config, "other")]
        trial = take(ask.config, ask.role, losses.pop(0) if len(losses) > 1 else losses[0])


def lines(config: Config) -> list[str]:
    return sorted(name for name in config if config[name])


def test_thinning_compares_with_the_runs_that_did_not_choose_the_leader() -> None:
    winner, _ = scripted({"large": [-1.15, -0.84], "other": [-0.83]}, {})
    assert len(lines(winner)) <= 1


def test_a_run_of_the_thinning_is_not_ended_early_beside_a_lucky_run() -> None:
    _, asked = scripted({"large": [-1.15, -0.84], "other": [-0.83]}, {})
    stops = [ask.early_stop for ask in asked if ask.role is Role.SEARCH]
    assert stops
    # 2.32 times the baseline's 100 a second is the leader's; 3.16 times was luck.
    assert not any(stop is not None and any(stop.update(210.0 + i % 2) for i in range(60)) for stop in stops)
    assert all(stop is not None and any(stop.update(150.0 + i % 2) for i in range(600)) for stop in stops)


def test_a_config_of_fewer_settings_that_does_as_much_when_measured_again_takes_its_place() -> None:
    winner, asked = scripted({"large": [-1.15, -0.84], "small": [-0.83], "other": [0.0]}, {"small": -0.83})
    assert lines(winner) == sorted(CORE)
    assert [ask.config for ask in asked if ask.role is not Role.BASELINE] == [asked[0].config, winner]


def test_a_config_of_fewer_settings_that_was_lucky_once_does_not() -> None:
    winner, asked = scripted({"large": [-1.15, -0.84], "small": [-0.6], "other": [0.0]}, {"small": -0.83})
    assert len(lines(winner)) == 9
    assert 1 <= sum(lines(ask.config) == sorted(CORE) for ask in asked) <= 2


def test_what_fewer_settings_seem_to_have_cost_is_told() -> None:
    found, _ = refined_by({"large": [-1.15, -0.84], "small": [-0.78], "other": [0.0]}, {"small": -0.83})
    assert lines(found.config) == sorted(CORE)
    assert found.lost == pytest.approx(0.06)
    found, _ = refined_by({"large": [-1.15, -0.84], "small": [-0.9], "other": [0.0]}, {"small": -0.83})
    assert found.lost == 0.0


@pytest.mark.parametrize("again", [math.nan, math.inf])
def test_a_config_of_fewer_settings_that_misses_a_constraint_or_crashes_does_not(again: float) -> None:
    winner, asked = scripted({"large": [-1.15, -0.84], "small": [again], "other": [0.0]}, {"small": -0.83})
    assert len(lines(winner)) == 9
    assert sum(lines(ask.config) == sorted(CORE) for ask in asked) == 1, "once"


def test_a_config_of_fewer_settings_is_better_than_the_baseline_as_well() -> None:
    winner, _ = scripted({"large": [-0.05, -0.01], "small": [0.005], "other": [0.5]}, {"small": -0.01})
    assert len(lines(winner)) == 9


def test_what_the_baseline_shows_counts_for_the_run_that_waits_for_it() -> None:
    """A machine that has become slower must not end a run early that does as well as before."""
    _, asked = scripted({"large": [-1.15, -0.84], "other": [0.0]}, {}, slower=0.5)
    first = next(i for i, ask in enumerate(asked) if ask.role is Role.BASELINE)
    stop = asked[first + 1].early_stop
    assert stop is not None
    # By two baselines, 100 and 50 a second, the leader does about 164 now; by the first alone it did 232.
    assert not any(stop.update(150.0 + i % 2) for i in range(60))


def test_the_baseline_is_measured_between_the_runs_and_leaves_the_proof_its_time() -> None:
    _, asked = scripted({"large": [-1.15, -0.84], "other": [0.0]}, {})
    roles = [ask.role for ask in asked]
    assert Role.BASELINE in roles
    # One baseline and one run of the search came before.
    at = [-2, *(i for i, role in enumerate(roles) if role is Role.BASELINE), len(roles) - 1]
    assert all(later - sooner <= 5 for sooner, later in itertools.pairwise(at))
    _, hurried = scripted({"large": [-1.15, -0.84], "other": [0.0]}, {}, seconds=14 * COST_S)
    assert 0 < len(hurried) < len(asked)
    assert 2 + len(hurried) + 2 * ProofOptions().min_pairs <= 14


def test_a_group_takes_along_what_belongs_to_it_and_is_parted_beside_it() -> None:
    assert together(["a", "random_cost"], [PLAY]) == ["a", "random_cost", "scan_cost"]
    assert halves(["a", "random_cost", "b", "scan_cost"], [PLAY]) == (["a", "random_cost", "scan_cost"], ["b"])
    assert halves(list(PLAY), [PLAY]) == (["random_cost"], ["scan_cost"])


def test_the_halves_of_a_group_that_matters_wait_for_what_is_larger() -> None:
    groups = [["e", "f", "g"], ["h", "i"], ["j"]]
    assert behind_larger(groups, (["a", "b"], ["c", "d"])) == [
        ["e", "f", "g"],
        ["a", "b"],
        ["c", "d"],
        ["h", "i"],
        ["j"],
    ]
    assert behind_larger([["e", "f"]], (["a"], ["b"])) == [["e", "f"], ["a"], ["b"]]
    assert behind_larger([], (["a"], ["b"])) == [["a"], ["b"]]


def test_a_run_that_was_lost_to_the_machine_is_made_again_and_shows_nothing_to_be_needed() -> None:
    config, lost = Config({"a": 1.0}), SimpleNamespace(status=Status.INFRASTRUCTURE)
    task: Any = SimpleNamespace(budget=Budget(trials=40), baseline=Config({"a": 0.0}))
    machine: Any = Machine(0)
    machine.measure(Config(dict.fromkeys([*CORE, *PLAY, "a"], 0.0)), Role.BASELINE)
    steps: Any = _Runs(task, machine, left=4, reserve_s=0.0).attempt(config, -0.1)
    asks = [next(steps), steps.send(lost)]
    assert [(ask.config, ask.role) for ask in asks] == [(config, Role.SEARCH)] * 2
    found = SimpleNamespace(config=config, status=Status.OK, loss=-0.2, is_feasible=True)
    machine.trials.append(found)
    with pytest.raises(StopIteration) as end:
        steps.send(found)
    assert end.value.value == -0.2
