"""A searcher from outside that breaks its promise: it is named, the study goes on without it, the target is as it was."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes import FakeStudy
from trimtab import plugins
from trimtab.errors import InternalError, UsageError
from trimtab.records import Role, Trial
from trimtab.search import SearchProblem
from trimtab.search.random import RandomSearcher
from trimtab.space import Config
from trimtab.trial import Journal

pytestmark = pytest.mark.slow


class RaisesInAsk(RandomSearcher):
    """Works for three asks."""

    def ask(self, n: int = 1) -> list[Config]:
        if self.n_asked == 3:
            raise ZeroDivisionError("division by zero")
        return super().ask(n)


class RaisesInTell(RandomSearcher):
    def tell(self, trial: Trial) -> None:
        raise KeyError("cost")


class RaisesAtOnce(RandomSearcher):
    def __init__(self, problem: SearchProblem) -> None:
        raise OSError("no licence server")


class RaisesInConverged(RandomSearcher):
    @property
    def is_converged(self) -> bool:
        raise ValueError("nan")


class AnswersNothing(RandomSearcher):
    def ask(self, n: int = 1) -> list[Config]:
        return []


class Refuses(RandomSearcher):
    """Raises an error of ours: it passes as it is."""

    def ask(self, n: int = 1) -> list[Config]:
        raise UsageError("this space is not for me", hint="use another searcher")


class Describes(RandomSearcher):
    def describe(self) -> str:
        return "will draw at random"


@pytest.fixture
def study(fake: FakeStudy) -> FakeStudy:
    fake.text += '\n[search]\nsearcher = "outside"\n'
    return fake


def _register(monkeypatch: pytest.MonkeyPatch, searcher_class: type[RandomSearcher]) -> None:
    load = plugins.load

    def loading(group: Any, name: str) -> Any:
        return searcher_class if (group, name) == ("searchers", "outside") else load(group, name)

    monkeypatch.setattr(plugins, "load", loading)


def test_a_searcher_that_cannot_be_made_ends_the_study_before_anything_is_measured(
    study: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    _register(monkeypatch, RaisesAtOnce)
    with pytest.raises(InternalError) as caught:
        study.tune()
    assert caught.value.message == "searcher='outside' failed in its construction: OSError: no licence server"
    assert "author" in str(caught.value.hint)
    assert study.listener.ended == []


@pytest.mark.parametrize(
    ("searcher_class", "message"),
    [
        (RaisesInAsk, "searcher='outside' failed in ask: ZeroDivisionError: division by zero"),
        # tests/search/test_plugin_guard.py: what each call may raise
        pytest.param(RaisesInTell, "searcher='outside' failed in tell: KeyError: 'cost'", marks=pytest.mark.full),
        pytest.param(
            RaisesInConverged, "searcher='outside' failed in is_converged: ValueError: nan", marks=pytest.mark.full
        ),
        (AnswersNothing, "searcher='outside' was asked for n=1 configs and gave []"),
    ],
)
def test_a_broken_searcher_is_named_and_the_study_goes_on(
    study: FakeStudy, monkeypatch: pytest.MonkeyPatch, searcher_class: type[RandomSearcher], message: str
) -> None:
    _register(monkeypatch, searcher_class)
    found = dict(study.target.values)
    record, trials = study.tune()
    assert record.status in ("proven", "no_improvement")
    assert sum(trial.role is Role.SEARCH for trial in trials) >= 11
    assert [text for text in study.listener.phases if text.startswith(message)], study.listener.phases
    assert dict(study.target.values) == found
    assert Journal(study.path / "state").open_entries() == []


def test_an_error_of_ours_passes_as_it_is(study: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    _register(monkeypatch, Refuses)
    with pytest.raises(UsageError, match="this space is not for me"):
        study.tune()


def test_what_a_searcher_plans_is_said_before_it_starts(study: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    _register(monkeypatch, Describes)
    study.tune()
    phases = study.listener.phases
    assert phases[phases.index("searching") + 1] == "will draw at random"


def test_the_size_of_a_grid_is_said_before_it_is_searched(fake: FakeStudy) -> None:
    fake.text = fake.text.replace("12 trials", "4 trials") + '\n[search]\nsearcher = "grid"\n'
    _, trials = fake.tune()
    plan = fake.listener.phases[fake.listener.phases.index("searching") + 1]
    assert plan.startswith("the grid has 2 × 2")
    assert plan.endswith("of them feasible and different")
    assert {trial.searcher for trial in trials} == {"", "grid"}


def test_a_grid_that_nobody_finishes_is_refused_before_anything_is_measured(fake: FakeStudy) -> None:
    fake.text += '\n[search]\nsearcher = "grid"\nlevels = 100\n'
    with pytest.raises(UsageError, match=r"the grid has .* configs, more than most=10000"):
        fake.tune()
    assert fake.listener.ended == []


def test_levels_of_single_knobs_in_the_study_file(fake: FakeStudy) -> None:
    fake.text += '\n[search]\nsearcher = "grid"\nlevels = 1\nlevels_of = { nonsense = 3 }\n'
    with pytest.raises(UsageError, match="nonsense"):
        fake.tune()
