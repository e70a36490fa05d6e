"""Contextual search: what is learned under one workload helps under another, and the workload can change between asks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.needs import IS_FULL
from trimtab.errors import UsageError
from trimtab.model.gaussian_process import Hyper, Posterior, covariance
from trimtab.records import Context, Trial
from trimtab.search import SearchProblem
from trimtab.search.context_kernel import ContextFeatures, ContextHyper, fit_context_hyper
from trimtab.search.contextual import ContextModel, ContextualGaussianProcessSearcher
from trimtab.space import Config

from .problems import crash, grid, problem, trial

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]
READS, WRITES = Context("reads", 8), Context("writes", 8)


def loss(config: Config, context: Context) -> float:
    """Knob a is best at 80 under any workload; b at 20 for reads and at 70 for writes."""
    best_b = 20 if context.workload == "reads" else 70
    return ((float(config["a"]) - 80) / 60) ** 2 + ((float(config["b"]) - best_b) / 120) ** 2


def driven(searcher: ContextualGaussianProcessSearcher, context: Context, n: int, start: int) -> list[float]:
    """Losses of `n` asks under `context`."""
    searcher.context = context
    found = []
    for number in range(start, start + n):
        config = searcher.ask()[0]
        found.append(loss(config, context))
        searcher.tell(trial(config, number, found[-1], context=context))
    return found


def fresh(seed: int, **options: object) -> ContextualGaussianProcessSearcher:
    """In the quick form it scores few candidates, which are enough for five knobs."""
    space, options = grid(5), options if IS_FULL else {"candidates": 200, **options}
    return ContextualGaussianProcessSearcher(
        SearchProblem(space=space, baseline=space.default(), context=READS, seed=seed, options=options)
    )


def test_a_second_workload_starts_with_what_the_first_taught() -> None:
    """Median over seeds: the first three asks under writes are better after sixteen under reads than without them."""
    warm, cold = [], []
    for seed in range(8 if IS_FULL else 5):
        searcher = fresh(seed)
        driven(searcher, READS, 16, 0)
        warm.append(float(np.mean(driven(searcher, WRITES, 3, 16))))
        cold.append(float(np.mean(driven(fresh(seed), WRITES, 3, 0))))
    assert np.median(warm) < 0.75 * np.median(cold)


def test_a_workload_under_which_the_baseline_misses_a_constraint_is_led_to_configs_that_meet_it() -> None:
    """What a config misses counts as loss under that workload, until one meets the constraint; then the models see it anew."""
    searcher, home = fresh(1), grid(5).default()
    nearer, meets = home.replace({"a": 40}), home.replace({"a": 90})
    searcher.tell(trial(home, 0, 0.0, context=READS, excess=0.5))
    searcher.tell(trial(home, 1, 0.0, context=WRITES))
    searcher.tell(trial(nearer, 2, 0.1, context=READS, excess=0.2))
    assert [(e.loss, e.is_acceptable) for e in searcher.ledger.evidence] == [
        (0.5, True),
        (0.0, True),
        (0.1 + 0.2, True),
    ]
    assert searcher.best() is None
    searcher.tell(trial(meets, 3, 0.3, context=READS))
    told = [(e.config, e.loss, e.is_acceptable) for e in searcher.ledger.evidence]
    assert told == [(home, 0.0, False), (home, 0.0, True), (nearer, 0.1, False), (meets, 0.3, True)]
    best = searcher.best()
    assert best is not None
    assert best.config == meets
    for _ in range(4):
        searcher.ask()


def test_each_workload_gets_a_best_of_its_own() -> None:
    searcher = fresh(1)
    for cycle in range(4):
        for place, context in enumerate((READS, WRITES)):
            driven(searcher, context, 6, 12 * cycle + 6 * place)
    found = {}
    for context in (READS, WRITES):
        searcher.context = context
        best = searcher.best()
        assert best is not None
        assert best.context == context
        found[context.workload] = float(best.config["b"])
        assert loss(best.config, context) < 0.15
    assert found["reads"] < 40 < 50 < found["writes"]


def test_workloads_that_differ_by_a_hair_are_one() -> None:
    searcher = fresh(1)
    near = Context("reads", 8, 0.99)
    config = searcher.ask()[0]
    searcher.tell(trial(config, 0, -0.2, context=near))
    best = searcher.best()
    assert best is not None
    assert best.config == config
    searcher.context = Context("reads", 8, 0.6)
    assert searcher.best() is None


def test_without_a_workload_the_first_trial_names_it() -> None:
    searcher = ContextualGaussianProcessSearcher(problem(grid(2)))
    searcher.tell(trial(searcher.ask()[0], 0, -0.2, context=WRITES))
    assert searcher.context == WRITES
    assert searcher.best() is not None


def test_what_was_asked_before_a_workload_was_known_is_waited_for_under_each() -> None:
    searcher = ContextualGaussianProcessSearcher(problem(grid(2)))
    first, second, third = searcher.ask(3)
    searcher.tell(trial(first, 0, -0.2, context=READS))
    assert set(searcher.pending) == {second, third}
    searcher.context = WRITES
    assert set(searcher.pending) == {second, third}
    searcher.tell(trial(second, 1, -0.2, context=READS))
    assert set(searcher.pending) == {third}


def test_an_unknown_workload_does_not_scale_the_known_ones() -> None:
    """60 and 80 clients are all that was met, so they are the ends of the range."""
    searcher = ContextualGaussianProcessSearcher(problem(grid(2)))
    for number, clients in enumerate((60, 80, 60, 80)):
        context = Context("reads", clients)
        searcher.context = context
        searcher.tell(trial(searcher.ask()[0], number, -0.1 * number, context=context))
    scaling = ContextFeatures.of(searcher.workloads.contexts)
    assert scaling.row(Context("reads", 80))[0] - scaling.row(Context("reads", 60))[0] == pytest.approx(1.0)


def test_the_design_is_not_measured_again_under_the_next_workload() -> None:
    searcher = fresh(1, initial=6)
    asked = []
    for number in range(6):
        asked += searcher.ask()
        searcher.tell(trial(asked[-1], number, loss(asked[-1], READS), context=READS))
    searcher.context = WRITES
    config = searcher.ask()[0]
    assert loss(config, READS) <= sorted(loss(each, READS) for each in asked)[2]


def test_failures_under_one_workload_warn_another() -> None:
    searcher = fresh(1)
    for number, config in enumerate(grid(5).sample(30, np.random.default_rng(2))):
        fails = float(config["a"]) > 50
        told = crash(config, number) if fails else trial(config, number, -float(config["a"]) / 100, context=READS)
        searcher.tell(told if not fails else _under(told, READS))
    searcher.context = WRITES
    asked = []
    for number in range(30, 38):
        config = searcher.ask()[0]
        asked.append(float(config["a"]))
        crashed = asked[-1] > 50
        searcher.tell(_under(crash(config, number), WRITES) if crashed else trial(config, number, 0.0, context=WRITES))
    assert sum(a > 50 for a in asked) <= 4


def _under(told: Trial, context: Context) -> Trial:
    return Trial(
        number=told.number, role=told.role, config=told.config, context=context, status=told.status, reason="told"
    )


def test_the_process_grows_by_what_is_told_and_stays_while_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fit is due at seventeen trials. What has grown is made anew once, for its last digits."""
    made: list[int] = []
    factor = Posterior._factor

    def counted(self: Posterior, v: Array) -> Array:
        made.append(len(self))
        return factor(self, v)

    searcher = fresh(1)
    driven(searcher, READS, 17, 0)
    monkeypatch.setattr(Posterior, "_factor", counted)
    searcher.ask()
    assert made == []
    searcher.ask(2)
    assert made == [17]


def test_features_of_workloads() -> None:
    contexts = [Context("a", 1, 1.0, {"scale": 10.0}), Context("b", 16, 1.0, {"scale": 30.0})]
    scaling = ContextFeatures.of(contexts)
    rows = np.array([scaling.row(context) for context in contexts])
    half = 0.5**0.5
    assert rows == pytest.approx(np.array([[0.0, 0.5, 0.0, half, 0.0], [1.0, 0.5, 1.0, 0.0, half]]))
    assert scaling.row(Context("b", 4, 1.0, {"scale": 20.0})) == pytest.approx(np.array([0.5, 0.5, 0.5, 0.0, half]))


def test_the_kernel_is_the_sum_when_all_is_shared() -> None:
    rng = np.random.default_rng(3)
    config = Hyper(np.zeros(2), np.zeros(2), -0.5, -4.0)
    x, w = rng.random((6, 2)), rng.random((6, 1))
    kernel = ContextHyper(config, 2, 1.0, 0.5, 0.2)
    r = 5**0.5 * np.abs(w - w.T) / 0.5
    expected = covariance(x, x, config) + 0.2 * (1 + r + r * r / 3) * np.exp(-r)
    found = kernel.covariance(np.hstack([x, w]), np.hstack([x, w]))
    assert found == pytest.approx(expected)
    assert kernel.variance(np.hstack([x, w])) == pytest.approx(np.diag(expected))


@pytest.mark.parametrize("is_same", [True, False])
def test_the_data_decide_how_much_workloads_share(is_same: bool) -> None:
    rng = np.random.default_rng(4)
    x, w = rng.random((80, 6)), np.repeat([[0.0], [1.0]], 40, axis=0)
    effect = 1.0 if is_same else np.where(w[:, 0] > 0, 1.0, -1.0)
    y = effect * ((2 * x - 1) @ np.array([1.0, 0.8, -0.9, 0.7, -0.6, 0.9])) + 0.05 * rng.standard_normal(80)
    found = fit_context_hyper(x, w, y / y.std(), np.full(80, 0.01), has_product=True)
    far = ContextHyper.frame(found, np.zeros((1, 1)), np.ones((1, 1))).factor[0, 0]
    assert (far > 0.6) == is_same


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("acquisition", "ucb", "acquisition must be 'ei' or 'lcb'"),
        ("bound_width", 0.0, "bound_width must be more than 0"),
        ("cap", 5, "cap must be 10 or more"),
    ],
)
def test_options_are_checked(name: str, value: object, rule: str) -> None:
    with pytest.raises(UsageError) as caught:
        ContextualGaussianProcessSearcher(problem(grid(), **{name: value}))
    assert caught.value.hint == rule


@pytest.mark.parametrize("options", [{"acquisition": "lcb"}, {"product": False}])
def test_other_acquisition_and_kernel_work(options: dict[str, object]) -> None:
    searcher = fresh(1, **options)
    driven(searcher, READS, 20, 0)
    best = searcher.best()
    assert best is not None
    assert loss(best.config, READS) < 0.25


def test_a_new_workload_after_a_failure() -> None:
    """It is one more feature for the model of what works, too."""
    searcher = fresh(1)
    driven(searcher, READS, 8, 0)
    bad = Config(dict.fromkeys("abcde", 100))
    searcher.tell(crash(bad, 8))

    def n_features() -> int:
        """Of the model of what works, after one more ask."""
        assert searcher.ask() != [bad]
        model = searcher.members[0].model
        assert isinstance(model, ContextModel)
        assert model._feasibility._hyper is not None
        return len(model._feasibility._hyper[0].effects)

    found = [n_features()]
    for name in ("writes", "scans", "mixed"):
        searcher.context = Context(name, 8)
        found.append(n_features())
    assert found == sorted(set(found)), "more with each workload"
