"""Consensus: rankers together, the knee, what is not worth tuning, doubts, and carried ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.importance.problems import flat_space, sampled
from trimtab import plugins
from trimtab.errors import UsageError
from trimtab.importance import (
    KnobRank,
    Ranking,
    RankProblem,
    check_ranks,
    default_rankers,
    knee_of,
    rank_knobs,
    sard_design,
)
from trimtab.importance.lasso import LassoRanker
from trimtab.importance.permutation import PermutationRanker
from trimtab.importance.sard import SardRanker
from trimtab.space import Config
from trimtab.testing.ranker_suite import planted_problem

pytestmark = pytest.mark.slow

QUICK = (LassoRanker(), PermutationRanker())
LINES = sampled(lambda c: 0.6 * c["a"] + 0.4 * c["b"], flat_space(8), 60)


class Said:
    """A ranker that always says the same."""

    def __init__(self, name: str, order: str, verdict: str = "") -> None:
        self.name, self._order, self._verdict = name, order, verdict

    def rank(self, problem: RankProblem) -> Ranking:
        n = len(self._order)
        knobs = [
            KnobRank(knob=knob, score=s, score_low=s, score_high=s, rank=i, rank_low=i, rank_high=i)
            for i, (knob, s) in enumerate(zip(self._order, np.arange(n, 0, -1) / (n * (n + 1) / 2), strict=True), 1)
        ]
        return Ranking(ranker=self.name, knobs=tuple(knobs), n_trials=60, verdict=self._verdict)


def test_ranks_with_everything_that_is_there() -> None:
    found = rank_knobs(LINES, QUICK)
    assert found.names[:2] == ("a", "b")
    assert found.knee == 2
    assert found.verdict == ""
    assert found.n_trials == 60
    assert found.r2 > 0.9
    assert [ranking.ranker for ranking in found.rankings] == ["lasso", "permutation"]
    assert sum(entry.score for entry in found.knobs) == pytest.approx(1.0)
    assert all(e.rank_low <= e.rank <= e.rank_high and e.score_low <= e.score <= e.score_high for e in found.knobs)
    assert rank_knobs(LINES, QUICK) == found


def test_sard_is_asked_where_there_is_its_design() -> None:
    names = [ranker.name for ranker in default_rankers(LINES)]
    assert names == ["fanova", "forest", "lasso", "permutation", "shapley"]
    space = flat_space(7)
    configs = sard_design(space, space.default()).configs
    designed = planted_problem(space, configs, lambda _, c: float(c["a"]))
    assert "sard" in [ranker.name for ranker in default_rankers(designed)]


def test_a_ranker_that_cannot_is_said() -> None:
    found = rank_knobs(LINES, [SardRanker(), LassoRanker()])
    assert [ranking.ranker for ranking in found.rankings] == ["lasso"]
    assert any(note.startswith("sard takes no part: no two-level design") for note in found.notes)
    with pytest.raises(UsageError, match="no ranker can rank n_trials=60: sard takes no part"):
        rank_knobs(LINES, [SardRanker()])


def test_a_broken_ranker_takes_no_part() -> None:
    """A plug-in's mistake does not cost the ranks of the others, nor a study its report."""

    class Broken:
        name = "broken"

        def rank(self, problem: RankProblem) -> Ranking:
            raise ZeroDivisionError("division by zero")

    found = rank_knobs(LINES, [Broken(), Said("partial", "abc"), LassoRanker()])
    assert [ranking.ranker for ranking in found.rankings] == ["lasso"]
    assert "broken takes no part, for it failed: ZeroDivisionError: division by zero" in found.notes
    assert "partial takes no part: it has not ranked each knob of the space once" in found.notes


def test_a_ranker_that_cannot_be_loaded_or_made_takes_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(group: str, name: str) -> Callable[[], Said]:
        if name == "gone":
            raise UsageError("the plug-in 'gone' of rankers cannot be loaded: No module named 'gone'")
        return Said if name == "odd" else lambda: Said(name, "abcdefgh")  # type: ignore[return-value]

    monkeypatch.setattr(plugins, "names", lambda group: ("gone", "odd", "sure"))
    monkeypatch.setattr(plugins, "load", load)
    found = rank_knobs(LINES)
    assert [ranking.ranker for ranking in found.rankings] == ["sure"]
    gone, odd = (note for note in found.notes if "takes no part" in note)
    assert gone == "gone takes no part: the plug-in 'gone' of rankers cannot be loaded: No module named 'gone'"
    assert odd.startswith("odd takes no part: it cannot be made: TypeError: ")


def test_a_baseline_outside_the_space_leaves_the_ranks() -> None:
    """Ranges that were narrowed since: the trials still tell, only nothing is compared with the baseline."""
    beyond = replace(LINES, baseline=LINES.baseline.replace({"a": 7.0}))
    found = rank_knobs(beyond, QUICK)
    assert found.names[:2] == ("a", "b")
    assert found.not_worth == {}
    (note,) = (note for note in found.notes if "the baseline" in note)
    assert note.startswith("which knobs gain nothing over the baseline is not known: a=7.0 ")


def test_disagreement_widens_intervals_and_has_no_veto() -> None:
    agree = rank_knobs(LINES, [Said(f"r{i}", "abcdefgh") for i in range(5)])
    one_differs = rank_knobs(LINES, [*[Said(f"r{i}", "abcdefgh") for i in range(4)], Said("other", "hgfedcba")])
    assert one_differs.names[:2] == agree.names[:2] == ("a", "b")
    width = {e.knob: e.rank_high - e.rank_low for e in agree.knobs}
    assert all(value == 0 for value in width.values())
    assert any(e.rank_high > e.rank_low for e in one_differs.knobs)


def test_doubtful_rankers_are_left_out_while_others_are_sure() -> None:
    found = rank_knobs(LINES, [Said("sure", "abcdefgh"), Said("unsure", "hgfedcba", "not enough data to tell: ...")])
    assert found.names[0] == "a"
    assert "unsure is left out: not enough data to tell: ...." in found.notes
    assert (
        rank_knobs(LINES, [Said("unsure", "hgfedcba", "not enough data to tell: so")]).verdict
        == "not enough data to tell: so"
    )


def test_noise_is_called_noise() -> None:
    found = rank_knobs(sampled(lambda c: 0.0, noise=0.1, seed=2), QUICK)
    assert found.verdict.startswith("not enough data to tell: a model of the ")
    assert found.verdict.endswith(" measured configs does not predict their losses better than the mean does")
    assert found.not_worth == {}
    assert found.r2 < 0.2


def test_a_knob_that_is_best_as_it_is_is_not_worth_tuning() -> None:
    """`a` matters most, but is at its best value; `b` is at its worst."""
    problem = replace(LINES, baseline=LINES.baseline.replace({"a": 0.0, "b": 1.0}))
    found = rank_knobs(problem, QUICK)
    assert found.names[0] == "a"
    assert found.not_worth == {"a": "its best value is the one it has (0)"}


def test_a_gain_that_few_configs_do_not_prove_is_worth_tuning() -> None:
    """`b` brings 14 %, `c` is best as it is; an order that waits for proof tunes `b` after all that do nothing."""

    def loss(c: Config) -> float:
        return -0.4 * float(c["a"]) - 0.2 * float(c["b"]) + 0.4 * abs(float(c["c"]) - 0.3)

    problem = sampled(loss, flat_space(8), runs=40, noise=0.06, seed=2)
    found = rank_knobs(replace(problem, baseline=problem.baseline.replace({"a": 0.3, "b": 0.3, "c": 0.3})), QUICK)
    assert {"a", "b", "c"} <= set(found.names[: found.knee])
    assert set(found.not_worth) == {"c"}


@pytest.mark.parametrize(
    ("scores", "knee"),
    [
        ([0.5, 0.3, 0.15, 0.02, 0.01, 0.01, 0.01], 3),
        ([0.9, 0.05, 0.05], 1),
        ([0.25, 0.25, 0.25, 0.25], 4),
        ([1.0], 1),
        ([0.0, 0.0], 0),
        ([], 0),
        ([0.3, 0.25, 0.2, 0.15, 0.1 * 0.6, *[0.04 / 195] * 195], 5),
    ],
)
def test_knee_is_where_knobs_add_less_than_the_average(scores: list[float], knee: int) -> None:
    assert knee_of(scores) == knee


def test_a_long_tail_does_not_move_the_knee() -> None:
    front = [0.4, 0.3, 0.1]
    assert knee_of([*front, *[0.2 / 197] * 197]) == knee_of([*front, *[0.2 / 17] * 17]) == 3


def test_carried_ranks_that_agree_are_confirmed() -> None:
    found = check_ranks(LINES, list("abcdefgh"), QUICK)
    assert found.is_confirmed
    assert 0.0 < found.correlation_low <= found.correlation <= found.correlation_high <= 1.0
    assert found.verdict.startswith("the carried ranks are confirmed: their correlation")


def test_carried_ranks_that_disagree_are_not() -> None:
    found = check_ranks(LINES, list("hgfedcba"), QUICK)
    assert not found.is_confirmed
    assert found.missing == ("a", "b")
    assert found.verdict == "the carried ranks are not confirmed: they miss a, b, which matter here"
    without = check_ranks(LINES, ["b", "c", "d", "unknown"], QUICK)
    assert without.missing == ("a",)


def test_carried_ranks_cannot_be_checked_by_noise() -> None:
    found = check_ranks(sampled(lambda c: 0.0, noise=0.1, seed=2), list("abcdef"), QUICK)
    assert not found.is_confirmed
    assert found.verdict.startswith("the carried ranks cannot be checked: not enough data to tell")


def test_carried_ranks_must_fit() -> None:
    with pytest.raises(UsageError, match="n_common=2 knobs of the carried ranks are in this space; 3 are needed"):
        check_ranks(LINES, ["a", "b", "x", "y"])
    with pytest.raises(UsageError, match="knob='a' comes twice in the carried ranks"):
        check_ranks(LINES, ["a", "b", "a"])
