"""The sampler for studies of Optuna, on parameters that are no knobs as they are."""

from __future__ import annotations

import pickle
import threading
import time
from typing import Any

import pytest

from tests.needs import require
from trimtab.errors import UsageError
from trimtab.search.random import RandomSearcher
from trimtab.space import Config

pytestmark = pytest.mark.needs("optuna")


def real(low: float, high: float, step: float | None = None) -> Any:
    require("optuna")
    import optuna

    return optuna.distributions.FloatDistribution(low, high, step=step)


def sampled(kinds: dict[str, Any], n: int = 4, **options: Any) -> list[dict[str, Any]]:
    """The parameters of the trials of a study over `kinds`."""
    require("optuna")
    import optuna

    from trimtab.search.optuna_sampler import TrimtabSampler

    study = optuna.create_study(sampler=TrimtabSampler("random", seed=1, **options))
    for number in range(n):
        study.tell(study.ask(kinds), 1.0 + number)
    return [trial.params for trial in study.trials]


@pytest.mark.parametrize("name", ["learning rate", "a`b", "50%", "50%25 of it"])
def test_a_parameter_may_have_any_name(name: str) -> None:
    kind = real(0.0, 1.0)
    values = [params[name] for params in sampled({name: kind, "other": kind}, baseline={name: 0.25})]
    assert len(set(values)) == 4
    assert all(0.0 <= value <= 1.0 for value in values)


@pytest.mark.filterwarnings("ignore:The distribution is specified")
def test_steps_need_not_be_short_decimals() -> None:
    kinds = {"third": real(1 / 3, 2.0, 1 / 7), "tenth": real(0.1, 0.5, 0.1)}
    every = sampled(kinds, 12, baseline={"third": 1 / 3, "tenth": 0.3})
    for params in every:
        place = (params["third"] - 1 / 3) * 7
        assert place == pytest.approx(round(place))
        assert 0 <= round(place) <= 11
    assert {params["tenth"] for params in every[1:]} <= {0.1, 0.2, 0.3, 0.4, 0.5}
    assert len({params["third"] for params in every}) > 4


def test_a_baseline_that_is_no_step_is_named() -> None:
    with pytest.raises(UsageError, match="baseline x=inf is not a value of FloatDistribution"):
        sampled({"x": real(0.0, 1.0, 0.5)}, baseline={"x": float("inf")})


def test_processes_that_share_a_study_try_different_configs() -> None:
    """Though their samplers have the same seed."""
    require("optuna")
    import optuna

    from trimtab.search.optuna_sampler import TrimtabSampler

    storage, kinds = optuna.storages.InMemoryStorage(), {"x": real(0.0, 1.0)}
    first = optuna.create_study(study_name="shared", storage=storage, sampler=TrimtabSampler("auto"))
    first.tell(first.ask(kinds), 1.0)
    others = [optuna.load_study(study_name="shared", storage=storage, sampler=TrimtabSampler("auto")) for _ in range(3)]
    running = [study.ask(kinds) for study in (first, *others)]
    assert len({trial.params["x"] for trial in running}) == 4
    for study, trial in zip((first, *others), running, strict=True):
        study.tell(trial, 1.5)
    assert len({study.ask(kinds).params["x"] for study in (first, *others)} - {t.params["x"] for t in running}) == 4


def test_a_study_can_be_pickled_and_goes_on() -> None:
    """As those of Optuna's own samplers, which people keep in this way."""
    require("optuna")
    import optuna

    from trimtab.search.optuna_sampler import TrimtabSampler

    study = optuna.create_study(sampler=TrimtabSampler("auto", seed=1))
    for number in range(3):
        study.tell(study.ask({"x": real(0.0, 1.0)}), 1.0 + number)
    again = pickle.loads(pickle.dumps(study))
    again.tell(again.ask({"x": real(0.0, 1.0)}), 0.5)
    assert len({trial.params["x"] for trial in again.trials}) == 4


def test_a_searcher_is_asked_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Optuna runs several trials at once."""
    require("optuna")
    import optuna

    from trimtab.search.optuna_sampler import TrimtabSampler

    inside, most, asked = threading.Semaphore(1), list[bool](), list[Config]()
    ask = RandomSearcher.ask

    def slow(searcher: RandomSearcher, n: int = 1) -> list[Config]:
        most.append(inside.acquire(blocking=False))
        time.sleep(0.003)
        asked.extend(found := ask(searcher, n))
        if most[-1]:
            inside.release()
        return found

    monkeypatch.setattr(RandomSearcher, "ask", slow)
    study = optuna.create_study(sampler=TrimtabSampler("random", seed=1))
    study.optimize(lambda trial: 1.0 + trial.suggest_float("x", 0.0, 1.0), n_trials=16, n_jobs=4)
    assert len(asked) > 8
    assert all(most)
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_values_may_be_so_far_apart_that_their_ratio_is_no_number(sign: float) -> None:
    require("optuna")
    import optuna

    from trimtab.search.optuna_sampler import TrimtabSampler

    study, kinds = optuna.create_study(sampler=TrimtabSampler("random", seed=1)), {"x": real(0.0, 1.0)}
    for value in (1e5, 5e-324, 1e-300, 1e5):
        study.tell(study.ask(kinds), sign * value)
    assert len({trial.params["x"] for trial in study.trials}) == 4
