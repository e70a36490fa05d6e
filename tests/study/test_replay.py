"""A stored study as a target: what was recorded answers; searchers side by side on it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.flow import start
from trimtab.history import History, StudyRecord, load_format, space_to_json
from trimtab.records import Machine, Role, Status, Trial
from trimtab.search import SearchProblem, create
from trimtab.search.warm import WarmLog
from trimtab.space import Knob, KnobKind, Space
from trimtab.study.replay import Replay, find_recorded, make_replay
from trimtab.study.search_bench import bench_search, chances
from trimtab.testing.surfaces import CONTEXT

pytestmark = pytest.mark.slow

SPACE = Space([Knob(name=name, kind=KnobKind.REAL, low=0.0, high=1.0, default=0.5) for name in ("a", "b", "c")])
BASE = SPACE.default()


def _trial(number: int, values: dict[str, Any], rng: np.random.Generator) -> Trial:
    """A bowl around a = 0.9, b = 0.2; a below 0.15 crashes."""
    role = Role.SEARCH if number else Role.BASELINE
    config = SPACE.canonical(values)
    trial = Trial(number=number, role=role, config=config, context=CONTEXT, status=Status.CRASHED)
    if values["a"] < 0.15:
        return trial
    loss = (values["a"] - 0.9) ** 2 + (values["b"] - 0.2) ** 2 - 0.25 + float(rng.normal(0.0, 0.01))
    return replace(trial, status=Status.OK, loss=loss, loss_se=0.01)


def _trials(n: int = 60) -> list[Trial]:
    rng = np.random.default_rng(1)
    first = [_trial(i, dict(BASE), rng) for i in range(3)]
    return [*first, *(_trial(3 + i, dict(config), rng) for i, config in enumerate(SPACE.sample(n, rng)))]


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    return _trials()


@pytest.fixture
def history(tmp_path: Path, trials: list[Trial]) -> History:
    found = History.open(tmp_path / "h.db")
    record = found.create_study(
        name="past", settings={}, space=space_to_json(SPACE), objective="throughput", baseline=BASE,
        machine=Machine(cores=1, memory_bytes=1), context=CONTEXT, fingerprint="f", created_at=1.0,
    )  # fmt: skip
    for trial in trials:
        found.add_trial(record.id, trial)
    return found


@pytest.fixture
def record(history: History) -> StudyRecord:
    return find_recorded(history, "past").record


def test_exact_answers_with_what_was_measured(record: StudyRecord, trials: list[Trial]) -> None:
    replay = make_replay(record, trials, is_exact=True)
    zero = float(np.mean([t.loss or 0.0 for t in trials[:3]]))
    for trial in trials[3:20]:
        found = replay.true_loss(trial.config)
        assert found == (math.inf if trial.loss is None else pytest.approx(trial.loss - zero))
    assert replay.true_loss(BASE) == pytest.approx(0.0)
    assert replay.optimum == pytest.approx(min(t.loss for t in trials if t.loss is not None) - zero)


def test_surrogate_follows_the_trials_and_fails_where_they_failed(record: StudyRecord, trials: list[Trial]) -> None:
    replay = make_replay(record, trials)
    good, bad = SPACE.canonical({"a": 0.9, "b": 0.2, "c": 0.5}), SPACE.canonical({"a": 0.02, "b": 0.2, "c": 0.5})
    assert replay.true_loss(good) < -0.1
    assert replay.true_loss(bad) == math.inf
    assert replay.true_loss(BASE) == pytest.approx(0.0)
    crashed = replay.trial(bad, 5, np.random.default_rng(0))
    assert (crashed.status, crashed.loss, crashed.reason) == (Status.CRASHED, None, "as recorded")
    assert replay.n_failed == sum(t.loss is None for t in trials) > 0


def test_noise_is_that_of_the_repeats(record: StudyRecord, trials: list[Trial]) -> None:
    replay = make_replay(record, trials)
    assert replay.noise == pytest.approx(np.std([t.loss or 0.0 for t in trials[:3]], ddof=1))
    draws = [replay.trial(BASE, i, np.random.default_rng(i)).loss or 0.0 for i in range(200)]
    assert np.std(draws) == pytest.approx(replay.noise, rel=0.2)
    without = make_replay(record, trials[2:])
    assert without.noise == 0.01


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (lambda t: t.number < 9, "are too few"),
        (lambda t: t.loss is None, "none was measured well"),
        (lambda t: t.number < 3 or (t.loss or 0.0) > 0.2, "nothing in it is better than its baseline"),
    ],
)
def test_what_cannot_be_replayed(record: StudyRecord, trials: list[Trial], kept: object, message: str) -> None:
    assert callable(kept)
    with pytest.raises(UsageError, match=f"study='past' cannot be replayed: .*{message}"):
        make_replay(record, [t for t in trials if kept(t)], is_exact=True)


def test_a_recorded_table_is_as_good_as_a_study(history: History, tmp_path: Path, trials: list[Trial]) -> None:
    place = str(tmp_path / "table.parquet")
    copy = find_recorded(history, "past")
    load_format(None, place).write([copy], place)
    found = find_recorded(history, place)
    assert [t.loss for t in found.trials] == [t.loss for t in trials]
    replay = make_replay(found.record, found.trials, is_exact=True)
    assert replay.optimum == make_replay(copy.record, copy.trials, is_exact=True).optimum
    with pytest.raises(UsageError, match="holds no study='other'"):
        find_recorded(history, place, "other")


def test_a_file_of_several_studies_wants_a_choice(history: History, tmp_path: Path) -> None:
    place = str(tmp_path / "two.jsonl")
    copy = find_recorded(history, "past")
    other = replace(copy, record=replace(copy.record, name="other"))
    load_format(None, place).write([copy, other], place)
    with pytest.raises(UsageError, match="holds 2 studies") as error:
        find_recorded(history, place)
    assert error.value.hint == "choose one with --study: other, past"
    assert find_recorded(history, place, "other").record.name == "other"


@pytest.mark.parametrize("chosen", [None, "past"])
def test_of_studies_of_one_name_in_a_file_the_newest_serves(
    history: History, tmp_path: Path, chosen: str | None
) -> None:
    place = str(tmp_path / "again.jsonl")
    copy = find_recorded(history, "past")
    older = replace(copy, record=replace(copy.record, created_at=0.5))
    load_format(None, place).write([copy, older], place)
    assert find_recorded(history, place, chosen).record.created_at == 1.0


def test_unknown_study(history: History) -> None:
    with pytest.raises(UsageError, match="the history holds no study named 'nobody'"):
        find_recorded(history, "nobody")


@pytest.fixture
def replay(record: StudyRecord, trials: list[Trial]) -> Replay:
    return make_replay(record, trials)


def test_the_better_searcher_is_found_to_be_better(replay: Replay) -> None:
    found = bench_search(replay, searchers=("lhs", "gp"), n_trials=12, n_repeats=8)
    assert found.best == "gp"
    assert found.p_values["lhs"] < 0.05  # a difference that is no chance
    assert set(found.scores[0].share) == {10, 12}
    assert found.scores[0].share[12][1] > found.scores[1].share[12][1]


def test_the_same_benchmark_gives_the_same_scores(replay: Replay) -> None:
    once, again = (bench_search(replay, searchers=("lhs", "forest"), n_trials=10, n_repeats=2) for _ in range(2))
    assert [score.final for score in once.scores] == [score.final for score in again.scores]


def test_a_searcher_is_not_better_than_its_equal(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same searcher under two names: no difference, and none is claimed."""

    def same(name: str, problem: SearchProblem, log: WarmLog) -> object:
        return create("random", problem)

    monkeypatch.setattr(start, "warmed", same)
    found = bench_search(replay, searchers=("random", "lhs"), n_trials=10, n_repeats=6)
    assert found.beaten == ()
    assert found.p_values == {"random": 1.0}


def test_equal_searchers_are_told_apart_by_chance_only() -> None:
    """The best of five was chosen by the same runs."""
    rng, n_claims = np.random.default_rng(1), 0
    for _ in range(300):
        finals = rng.random((5, 6))
        finals = finals[np.argsort(-finals.mean(axis=1))]
        n_claims += min(chances(finals.tolist(), 256)) < 0.05
    assert n_claims <= 300 * 0.05 + 2 * math.sqrt(300 * 0.05)


def test_a_bad_searcher_hides_no_difference_between_good_ones() -> None:
    noise = 0.02 * np.random.default_rng(2).standard_normal((4, 8))
    found = chances((noise + np.array([[0.9], [0.8], [0.8], [0.1]])).tolist())
    assert max(found) < 0.05
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"searchers": ("auto", "best")}, "unknown searcher='best'"),
        ({"searchers": ()}, "unknown searcher=''"),
        ({"searchers": ("auto", "auto")}, "a searcher is named twice"),
        ({"n_trials": 0}, "trials=0 is too few"),
        ({"n_repeats": 1}, "repeats=1 is too few"),
    ],
)
def test_bad_input(replay: Replay, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        bench_search(replay, **arguments)  # type: ignore[arg-type]
