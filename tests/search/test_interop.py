"""Optuna, SMAC3 and ConfigSpace: as searchers, as a sampler, as a space; skipped where the library is missing."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.needs import require
from trimtab.errors import SpaceError, UsageError
from trimtab.records import Status
from trimtab.search import GuardedSearcher, Searcher, SearcherBase, create
from trimtab.search.configspace import from_configspace, to_configspace
from trimtab.search.optuna import OptunaSearcher
from trimtab.search.parameters import ParameterSpace
from trimtab.search.smac import SmacSearcher
from trimtab.space import Constraint, Knob, KnobKind, Space
from trimtab.testing.searcher_suite import PROBLEMS, SearcherSuite, mixed_knobs

from .problems import grid, integer, problem, trial

needs_optuna, needs_configspace = pytest.mark.needs("optuna"), pytest.mark.needs("configspace")


@needs_optuna
class TestOptunaRandom(SearcherSuite):
    searcher_class = OptunaSearcher
    options: ClassVar = {"sampler": "NSGAIISampler", "sampler_options": {"population_size": 4}}


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_flat_space_there_and_back(name: str) -> None:
    space = PROBLEMS[name]()
    flat = ParameterSpace(space)
    for config in space.sample(40, np.random.default_rng(3)):
        back = flat.config(flat.values(config))
        for knob in space.knobs:
            assert back[knob] == config[knob] or (
                isinstance(config[knob], float) and back[knob] == pytest.approx(config[knob])
            )


def test_a_label_that_a_library_does_not_know_has_a_name_all_the_same() -> None:
    """The server's own value, which is legal in the space and none of the choices that are tried."""
    mode = Knob(name="mode", kind=KnobKind.CHOICE, choices=("a", "b"), default="own")
    level = Knob(name="level", kind=KnobKind.CHOICE, choices=("low", "high"), default="high")
    space = Space([mode, level], also_legal={"level": ["odd"]})
    flat = ParameterSpace(space)
    assert flat.values(space.canonical({"mode": "own", "level": "odd"})) == {"mode": "a", "level": "high"}


def test_flat_space_repairs() -> None:
    space = grid(2, 100, "a + b <= 50")
    assert space.is_feasible(ParameterSpace(space).config({"a": 90, "b": 80}))


@needs_optuna
def test_unknown_sampler_is_named() -> None:
    with pytest.raises(UsageError, match="sampler='NoSuchSampler' is none of Optuna's") as caught:
        create("optuna", problem(grid(), sampler="NoSuchSampler"))
    assert "TPESampler" in str(caught.value.hint)


@needs_optuna
def test_a_sampler_that_cannot_be_made_leaves_the_users_verbosity() -> None:
    require("optuna")
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.DEBUG)
    try:
        with pytest.raises(UsageError):
            create("optuna", problem(grid(), sampler="NoSuchSampler"))
        assert optuna.logging.get_verbosity() == optuna.logging.DEBUG
    finally:
        optuna.logging.set_verbosity(before)


@needs_optuna
def test_options_that_the_sampler_refuses_are_named() -> None:
    with pytest.raises(UsageError, match=r"sampler='TPESampler' with sampler_options=\{'no_such': 1\} cannot be made"):
        create("optuna", problem(grid(), sampler_options={"no_such": 1}))


@needs_optuna
@pytest.mark.parametrize(("sampler", "library"), [("CmaEsSampler", "cmaes"), ("GPSampler", "torch")])
def test_a_library_that_a_sampler_imports_late_is_missed_at_the_start(
    sampler: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first proposals are random ones, which need no library."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=f"sampler='{sampler}' of Optuna needs the library {library}: ") as caught:
        create("optuna", problem(grid(), sampler=sampler))
    assert caught.value.hint == f"pip install {library}, or give another sampler"


@pytest.mark.parametrize(("name", "module"), [("optuna", "optuna"), ("smac", "smac")])
def test_a_missing_library_is_named_with_its_extra(name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=f"searcher '{name}' needs the library {module}") as caught:
        create(name, problem(grid()))
    assert f"trimtab[{name}]" in str(caught.value.hint)


def test_missing_configspace_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ConfigSpace", None)
    with pytest.raises(UsageError, match="ConfigSpace is not installed") as caught:
        to_configspace(grid())
    assert "trimtab[configspace]" in str(caught.value.hint)


def gained(searcher: Searcher, n: int) -> float:
    """Least squared distance from (70, 30) that `n` asks find."""
    best = 2.0
    for number in range(n):
        config = searcher.ask()[0]
        loss = ((int(config["a"]) - 70) / 100) ** 2 + ((int(config["b"]) - 30) / 100) ** 2
        best = min(best, loss)
        searcher.tell(trial(config, number, loss))
    return best


@pytest.mark.slow
@needs_optuna
def test_the_sampler_learns() -> None:
    """TPE's first ten asks are random; the best of forty is closer than that of any ten random ones is likely to be."""
    found = [gained(create("optuna", problem(grid(), seed=seed)), 40) for seed in range(5)]
    assert float(np.median(found)) < 0.003


@needs_optuna
@pytest.mark.parametrize(
    ("sampler", "options"), [("GridSampler", {"search_space": {"a": [0, 50], "b": [7]}}), ("BruteForceSampler", {})]
)
def test_a_sampler_that_has_tried_everything_ends_the_search(sampler: str, options: dict[str, Any]) -> None:
    """Optuna lets it stop a study in its own loop only, and raises elsewhere."""
    space = grid(2, 100) if sampler == "GridSampler" else grid(1, 3)
    searcher = create("optuna", problem(space, sampler=sampler, sampler_options=options))
    asked = set()
    while not searcher.is_exhausted:
        config = searcher.ask()[0]
        asked.add(config)
        searcher.tell(trial(config, len(asked), 0.1))
    assert {tuple(config.values()) for config in asked} == (
        {(0, 7), (50, 7)} if sampler == "GridSampler" else {(0,), (1,), (2,), (3,)}
    )
    assert space.is_feasible(searcher.ask()[0])


@pytest.mark.slow
@pytest.mark.needs("smac")
class TestSmac:
    """A few promises of the suite: SMAC takes half a second for an ask."""

    def test_asks_feasible_new_and_learns(self) -> None:
        space = Space(mixed_knobs(4), [Constraint("knob_00 >= knob_01")])
        searcher = SmacSearcher(problem(space, initial=4))
        asked = searcher.ask(2)
        for number in range(6):
            asked += searcher.ask()
            loss = None if number == 2 else float(number)
            searcher.tell(trial(asked[number], number, loss))
        assert len(set(asked)) == len(asked)
        assert all(space.is_feasible(config) for config in asked)
        best = searcher.best()
        assert best is not None
        assert best.loss == 0.0

    @pytest.mark.full  # the suite's replay compares the same asks
    def test_the_same_seed_asks_the_same(self) -> None:
        def asked() -> list[Any]:
            searcher = create("smac", problem(grid(), initial=3))
            configs = []
            for number in range(5):
                configs += searcher.ask()
                searcher.tell(trial(configs[-1], number, float(number)))
            return configs

        assert asked() == asked()

    def test_a_space_with_one_config(self) -> None:
        space = Space([Knob(name="fixed", kind=KnobKind.INTEGER, low=5, high=5, default=5)])
        assert create("smac", problem(space)).ask()[0] == space.default()

    def test_initial_is_checked(self) -> None:
        with pytest.raises(UsageError, match="initial=0 of searcher 'smac'"):
            create("smac", problem(grid(), initial=0))


@needs_configspace
def test_configspace_there_and_back() -> None:
    knobs = [*mixed_knobs(8), integer("r", 999, low=1, log=True, is_round=True, default=9)]
    exported = to_configspace(Space(knobs, [Constraint("knob_00 + knob_01 <= 9000")]))
    assert exported.left_out == ("knob_00 + knob_01 <= 9000",)
    back = from_configspace(exported.configspace)
    assert back.knobs == {knob.name: knob for knob in knobs}


@needs_configspace
def test_what_configspace_draws_is_understood() -> None:
    space = Space(mixed_knobs(8), [Constraint("knob_00 + knob_01 <= 900")])
    exported = to_configspace(space, seed=4)
    for drawn in exported.configspace.sample_configuration(20):
        assert space.is_feasible(exported.parameter_space.config(dict(drawn)))


@needs_configspace
def test_conditions_and_forbidden_clauses_are_imported() -> None:
    require("configspace")
    import ConfigSpace

    given = ConfigSpace.ConfigurationSpace(seed=1)
    mode = ConfigSpace.CategoricalHyperparameter("mode", ["flat", "deep"])
    depth, low, high = (
        ConfigSpace.Integer("depth", (1, 9)),
        ConfigSpace.Integer("low", (1, 9), default=2),
        ConfigSpace.Float("high", (1.0, 9.0), log=True),
    )
    given.add(mode, depth, low, high, ConfigSpace.Constant("fixed", 7))
    given.add(ConfigSpace.EqualsCondition(depth, mode, "deep"))
    given.add(ConfigSpace.ForbiddenGreaterThanRelation(low, high))
    given.add(
        ConfigSpace.ForbiddenAndConjunction(
            ConfigSpace.ForbiddenEqualsClause(mode, "flat"), ConfigSpace.ForbiddenEqualsClause(low, 3)
        )
    )
    space = from_configspace(given)
    assert space.knobs["depth"].condition == "(mode == 'deep')"
    assert sorted((c.text for c in space.constraints), reverse=True) == ["mode != 'flat' or low != 3", "low <= high"]
    assert space.canonical({**space.default(), "mode": "flat", "depth": 9})["depth"] == space.knobs["depth"].default
    assert space.knobs["fixed"].choices == ("7",)


@needs_configspace
@pytest.mark.parametrize(("choices", "kind"), [([False, True], KnobKind.BOOLEAN), ([0, 1], KnobKind.CHOICE)])
def test_conditions_on_switches_are_imported(choices: list[Any], kind: KnobKind) -> None:
    """False and True are a boolean, 0 and 1 are two choices; both may decide about another knob."""
    require("configspace")
    import ConfigSpace

    given = ConfigSpace.ConfigurationSpace(seed=1)
    switch = ConfigSpace.CategoricalHyperparameter("switch", choices, default_value=choices[1])
    depth = ConfigSpace.Integer("depth", (1, 9), default=4)
    given.add(switch, depth, ConfigSpace.EqualsCondition(depth, switch, choices[1]))
    space = from_configspace(given)
    knob = space.knobs["switch"]
    assert (knob.kind, knob.default) == (kind, knob.labels[1])
    off = space.canonical({"switch": knob.labels[0], "depth": 9})
    assert off["depth"] == 4
    assert space.canonical({"switch": knob.labels[1], "depth": 9})["depth"] == 9


@needs_configspace
def test_names_that_are_no_words_of_the_constraint_language_are_quoted() -> None:
    """As auto-sklearn names its own."""
    require("configspace")
    import ConfigSpace

    given = ConfigSpace.ConfigurationSpace(seed=1)
    mode = ConfigSpace.CategoricalHyperparameter("forest:mode", ["flat", "deep"])
    depth, low, high = (ConfigSpace.Integer(name, (1, 9), default=2) for name in ("max-depth", "a:low", "a:high"))
    given.add(mode, depth, low, high)
    given.add(ConfigSpace.InCondition(depth, mode, ["deep"]), ConfigSpace.ForbiddenGreaterThanRelation(low, high))
    given.add(ConfigSpace.ForbiddenEqualsClause(low, 9))
    space = from_configspace(given)
    assert space.knobs["max-depth"].condition == "(`forest:mode` == 'deep')"
    assert {c.text for c in space.constraints} == {"`a:low` <= `a:high`", "`a:low` != 9"}
    assert not space.is_feasible({**space.default(), "a:low": 3})


@needs_configspace
def test_kinds_without_counterpart_are_named() -> None:
    require("configspace")
    import ConfigSpace

    given = ConfigSpace.ConfigurationSpace(seed=1)
    given.add(ConfigSpace.Float("x", (0.0, 1.0), distribution=ConfigSpace.Normal(0.5, 0.1)))
    with pytest.raises(SpaceError, match="hyper-parameter x: NormalFloatHyperparameter has no counterpart"):
        from_configspace(given)


def objective(trial: Any) -> float:
    x = trial.suggest_float("x", 1e-4, 1.0, log=True)
    n = trial.suggest_int("n", 0, 100, step=5)
    kind = trial.suggest_categorical("kind", [None, 1, "1"])
    return float((np.log10(x) + 2) ** 2 + ((n - 60) / 50) ** 2 + (0.0 if kind == "1" else 0.5))


def sampled(searcher: str, n: int, **options: Any) -> Any:
    require("optuna")
    import optuna

    from trimtab.search.optuna_sampler import TrimtabSampler

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=TrimtabSampler(searcher, seed=3, **options))
    study.optimize(objective, n_trials=n)
    return study


@pytest.mark.slow
@needs_optuna
def test_sampler_learns_in_a_study_of_optuna() -> None:
    study = sampled("gp", 30)
    assert study.best_value < 0.1
    assert study.best_params["kind"] == "1"


@needs_optuna
def test_a_baseline_that_is_no_value_of_a_parameter_is_named() -> None:
    with pytest.raises(UsageError, match="baseline kind='2' is not a value of CategoricalDistribution"):
        sampled("random", 2, baseline={"kind": "2"})


@pytest.mark.slow
@needs_optuna
@pytest.mark.parametrize("baseline", [{}, {"x": 0.01, "n": 50, "kind": None}])
def test_the_unit_of_the_values_does_not_matter_to_the_sampler(baseline: dict[str, Any]) -> None:
    """Searchers know what half or twice the throughput is: a value in milliseconds is none of that for being large."""
    require("optuna")
    import optuna

    from trimtab.search.optuna_sampler import TrimtabSampler

    def asked(unit: float) -> list[Any]:
        study = optuna.create_study(sampler=TrimtabSampler("auto", seed=3, baseline=baseline))
        if baseline:
            study.enqueue_trial(baseline)
        study.optimize(lambda trial: unit * (5.0 + objective(trial)), n_trials=9)
        return [trial.params for trial in study.trials]

    assert asked(2.0**-10) == asked(2.0**10)


@needs_optuna
@pytest.mark.parametrize(
    ("direction", "values", "losses"),
    [
        ("minimize", [4.0, 8.0, 1.0], [0.0, np.log(2), -np.log(4)]),
        ("maximize", [4.0, 8.0, 1.0], [0.0, -np.log(2), np.log(4)]),
        ("minimize", [-4.0, -8.0], [0.0, -np.log(2)]),
        ("minimize", [4.0, 8.0, -2.0], [0.0, 1.0, -1.5]),
        ("maximize", [0.0, 8.0], [0.0, -8.0]),
    ],
)
def test_values_count_relative_to_the_first(direction: str, values: list[float], losses: list[float]) -> None:
    """As log ratios; where a value is 0 or values are of both signs, as differences, also those that were told before."""
    require("optuna")
    import optuna

    from trimtab.search.optuna_sampler import TrimtabSampler

    sampler = TrimtabSampler("random", seed=1)
    study = optuna.create_study(direction=direction, sampler=sampler)
    kind = {"x": optuna.distributions.FloatDistribution(0.0, 1.0)}
    for value in values:
        study.tell(study.ask(kind), value)
    study.ask(kind)
    guarded = sampler._searcher
    assert isinstance(guarded, GuardedSearcher)
    assert isinstance(guarded.inner, SearcherBase)
    assert [told.loss for told in guarded.inner.ledger] == pytest.approx(losses)


@needs_optuna
def test_sampler_is_deterministic() -> None:
    first, second = ([t.params for t in sampled("gp", 8).trials] for _ in range(2))
    assert first == second


@pytest.mark.slow  # in make check: test_sampler_learns_in_a_study_of_optuna
@needs_optuna
def test_sampler_maximises_and_learns_from_failures() -> None:
    require("optuna")
    import optuna

    from trimtab.search.optuna_sampler import TrimtabSampler

    study = optuna.create_study(direction="maximize", sampler=TrimtabSampler("gp", seed=1, baseline={"x": 0.9}))
    for _ in range(25):
        asked = study.ask({"x": optuna.distributions.FloatDistribution(0.0, 1.0)})
        if asked.params["x"] > 0.8:
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(asked, -((asked.params["x"] - 0.6) ** 2))
    assert study.best_value > -1e-3
    assert sum(t.state is optuna.trial.TrialState.FAIL for t in study.trials) < 10


@needs_optuna
def test_a_pruned_trial_is_no_failure() -> None:
    """A median pruner prunes half of the trials: that half of the space fails would be a wrong lesson."""
    require("optuna")
    import optuna

    from trimtab.search.optuna_sampler import TrimtabSampler

    sampler = TrimtabSampler("random", seed=1)
    study = optuna.create_study(sampler=sampler)
    kind = {"x": optuna.distributions.FloatDistribution(0.0, 1.0)}
    for x, reported, state in ((0.1, 7.0, "PRUNED"), (0.2, None, "PRUNED"), (0.3, None, "FAIL")):
        values = {} if reported is None else {1: reported}
        state = optuna.trial.TrialState[state]
        study.add_trial(
            optuna.trial.create_trial(params={"x": x}, distributions=kind, intermediate_values=values, state=state)
        )
    told = [sampler._trial(done, kind, 1.0) for done in study.trials]
    assert [(each.status, each.loss) for each in told] == [
        (Status.STOPPED_EARLY, 7.0),
        (Status.INFRASTRUCTURE, None),
        (Status.CRASHED, None),
    ]


@needs_optuna
def test_the_searcher_does_not_wait_for_what_a_trial_has_not_tried() -> None:
    """A trial with an enqueued value, and one that fails before it has suggested everything; it would never be asked again."""
    require("optuna")
    import optuna

    from trimtab.search.optuna_sampler import TrimtabSampler

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        if trial.number == 2:
            raise ValueError
        return 1.0 + x + trial.suggest_float("y", 0.0, 1.0)

    sampler = TrimtabSampler("random", seed=1)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=1)
    study.enqueue_trial({"x": 0.25})
    study.optimize(objective, n_trials=3, catch=ValueError)
    inner = sampler._searcher.inner  # type: ignore[union-attr]
    assert len(inner.pending) == 1
    assert next(iter(inner.pending))["x"] == study.trials[-1].params["x"]


@needs_optuna
def test_sampler_refuses_several_objectives() -> None:
    require("optuna")
    import optuna

    from trimtab.search.optuna_sampler import TrimtabSampler

    study = optuna.create_study(directions=["minimize", "minimize"], sampler=TrimtabSampler())
    with pytest.raises(UsageError, match="study with directions=2"):
        study.ask({"x": optuna.distributions.FloatDistribution(0.0, 1.0)})
