"""Plays are measured early, kept where they help, told where they harm, and never break a study."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping

import pytest

from tests.fakes import FakeStudy
from trimtab.errors import UsageError
from trimtab.records import Play, Role, Trial, TriedPlay, Verdict
from trimtab.report import report_text
from trimtab.space import Value

pytestmark = pytest.mark.slow

_GOOD = Play(name="no_compile", settings={"compile": False}, reason="Compiling takes longer than it saves.", worth=0.3)
_BAD = Play(name="many_workers", settings={"workers": 16}, reason="More workers do more at once.", worth=0.2)
_BIG = Play(name="large_cache", settings={"cache": 512}, reason="Hot pages stay in memory.", worth=0.1)
_CRASHING = Play(name="ring", settings={"method": "ring"}, reason="A ring needs no worker.", worth=0.05)


def _speed(values: Mapping[str, Value]) -> float:
    speed = 1000.0 * (1.0 if values["compile"] else 1.5)
    return speed * (0.5 if values["workers"] == 16 else 1.0) * (1.3 if values["cache"] == 512 else 1.0)


def _planted(fake: FakeStudy, *plays: Play, budget: str = "16 trials") -> None:
    fake.target._speed = _speed
    fake.target._plays = plays
    fake.workload.noise_sd = 0.01
    fake.text = fake.text.replace("12 trials", budget)


def _tried(verdict: Verdict) -> dict[str, TriedPlay]:
    assert verdict.plays is not None
    return {row.play: row for row in verdict.plays.tried}


def test_what_helps_is_kept_and_what_harms_is_told(fake: FakeStudy) -> None:
    _planted(fake, _GOOD, _BAD, _BIG, _CRASHING)
    fake.target._crash_when = lambda values: values["method"] == "ring"
    record, trials = fake.tune()
    rows = _tried(record.verdict)
    assert {name: row.verdict for name, row in rows.items()} == {
        "no_compile": "helps", "many_workers": "harms", "large_cache": "helps", "ring": "failed",
    }  # fmt: skip
    assert rows["large_cache"].beside == ("no_compile",)
    worth = rows["no_compile"].worth
    assert worth is not None
    assert worth.low < 1.5 < worth.high
    assert [t.role for t in trials[:7]] == [Role.BASELINE] * 3 + [Role.PLAY] * 4
    assert {"cache", "compile"} <= set(record.verdict.config)
    text = report_text(record, trials)
    assert "What was tried and what it brought" in text
    for words in ("no compile", "helps", "many workers", "harms", "failed", "compile = off"):
        assert words in text


def test_a_play_is_compared_with_runs_of_its_own_time(fake: FakeStudy) -> None:
    """What is kept becomes faster after the plays, the baseline does not: that says nothing of a play without effect."""
    _planted(fake, _GOOD, Play(name="pages", settings={"page_cost": 2.0}, reason="Pages cost less."))
    n_runs = 0

    def speed(values: Mapping[str, Value]) -> float:
        nonlocal n_runs
        n_runs += 1
        return 1000.0 * (1.0 if values["compile"] else 1.5 if n_runs <= 5 else 2.0)

    fake.target._speed = speed
    record, _ = fake.tune()
    assert _tried(record.verdict)["pages"].verdict == "not_told_apart"


def test_plays_take_half_of_the_trials_at_most_and_count_in_the_budget(fake: FakeStudy) -> None:
    plays = [Play(name=f"cache_{n}", settings={"cache": n}) for n in (16, 32, 64, 256, 384, 512, 768)]
    _planted(fake, *plays, budget="8 trials")
    record, trials = fake.tune()
    assert sum(t.role is Role.PLAY for t in trials) == 4
    # Trials of the thinning, which comes after the budget's trials, are of the role SEARCH as well: they follow the repeats.
    last = max((t.number for t in trials if t.role is Role.REPEAT), default=len(trials))
    assert sum(t.role in (Role.PLAY, Role.SEARCH, Role.ADVICE) for t in trials[:last]) <= 8
    left_out = record.verdict.plays.left_out
    assert left_out["cache_512"] == "the plays' share of the budget was used"


def test_no_play_is_tried_once_the_regression_budget_is_spent(fake: FakeStudy) -> None:
    _planted(fake, _GOOD, _BAD, _BIG)
    fake.text += '\n[guard]\nregression_budget = "1ms"\n'
    record, trials = fake.tune()
    assert [trial.role for trial in trials if trial.role in (Role.PLAY, Role.SEARCH)] == [Role.PLAY] * 2
    assert record.verdict.plays is not None
    assert record.verdict.plays.left_out == {"large_cache": "the regression budget is spent"}


def test_the_baseline_is_measured_between_plays(fake: FakeStudy) -> None:
    """The machine may drift while they are tried."""
    sizes = (16, 32, 64, 256, 384, 512, 768, 1024)
    _planted(fake, *[Play(name=f"cache_{n}", settings={"cache": n}) for n in sizes])
    _, trials = fake.tune()
    assert [t.role for t in trials[3:11]] == [Role.PLAY] * 6 + [Role.BASELINE, Role.PLAY]


def test_plays_that_cannot_be_tried_are_left_out_with_the_reason(fake: FakeStudy) -> None:
    fake.text += '\n[search]\nplays = "on"\nconstraints = ["cache <= 160MB"]\n'
    _planted(
        fake,
        Play(name="locked", settings={"sync": False}),
        Play(name="unknown", settings={"no_such_knob": 1}),
        Play(name="same", settings={"compile": True}),
        Play(name="too_large", settings={"cache": 512}),
        Play(name="no_label", settings={"method": "telepathy"}),
        budget="6 trials",
    )
    record, trials = fake.tune()
    assert not any(t.role is Role.PLAY for t in trials)
    assert record.verdict.plays.left_out == {
        "locked": "it sets what is not among the study's knobs: sync",
        "unknown": "it sets what is not among the study's knobs: no_such_knob",
        "same": "your settings have it already",
        "too_large": "it contradicts a constraint: " + record.verdict.plays.left_out["too_large"].partition(": ")[2],
        "no_label": "its settings are not legal here: method='telepathy' is not a choice",
    }
    assert "cache" in record.verdict.plays.left_out["too_large"]


def test_a_play_that_breaks_a_constraint_is_tried_as_far_as_it_may_go(
    fake: FakeStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole cache does not fit, 384 of the way from 128 to 512 do: once for this knob, and not less than half of the way."""
    fake.text += '\n[search]\nplays = "on"\nconstraints = ["cache <= 400MB"]\n'
    larger = Play(name="larger_cache", settings={"cache": 768}, worth=0.01)
    _planted(fake, _BIG, larger, budget="8 trials")
    fake.target._speed = lambda values: 1000.0 * (1.3 if values["cache"] >= 256 else 1.0)
    record, trials = fake.tune()
    assert [t.config["cache"] for t in trials if t.role is Role.PLAY] == [384]
    row = _tried(record.verdict)["large_cache"]
    assert (row.settings, row.kept, row.verdict) == ({"cache": "384MB"}, True, "helps")
    assert row.note.startswith(
        "a part of the play; the whole: it contradicts a constraint: search.constraints[0]: 512MiB > 400MiB"
    )
    assert record.verdict.plays.left_out["larger_cache"].startswith("it contradicts a constraint: ")
    assert "a part of the play" in report_text(record, trials)


def test_found_settings_that_break_a_constraint_are_made_legal_first(fake: FakeStudy) -> None:
    fake.text += '\n[search]\nplays = "on"\nconstraints = ["cache <= 32MB"]\n'
    _planted(fake, _GOOD, _BAD, budget="8 trials")
    record, trials = fake.tune()
    rows = _tried(record.verdict)
    assert list(rows) == ["within_limits", "no_compile", "many_workers"]
    assert (rows["within_limits"].settings, rows["within_limits"].kept) == ({"cache": "32MB"}, True)
    assert rows["within_limits"].reason.startswith("Your settings break a constraint of the study (")
    assert rows["no_compile"].beside == ("within_limits",)
    assert [t.config["cache"] for t in trials if t.role is Role.PLAY] == [32, 32, 32]


def test_nothing_is_made_legal_where_no_play_is_to_be_tried(fake: FakeStudy) -> None:
    fake.text += '\n[search]\nplays = "on"\nconstraints = ["cache <= 32MB"]\n'
    _planted(fake, budget="6 trials")
    _, trials = fake.tune()
    assert not any(t.role is Role.PLAY for t in trials)


@pytest.mark.parametrize(
    ("plays", "searcher", "is_played"),
    [
        pytest.param("auto", "auto", True, marks=pytest.mark.full),
        ("auto", "random", False),
        ("on", "random", True),
        ("off", "auto", False),
    ],
)
def test_the_study_file_says_whether_plays_are_tried(
    fake: FakeStudy, plays: str, searcher: str, is_played: bool
) -> None:
    _planted(fake, _GOOD, budget="6 trials")
    fake.text += f'\n[search]\nplays = "{plays}"\nsearcher = "{searcher}"\n'
    record, trials = fake.tune()
    assert any(t.role is Role.PLAY for t in trials) is is_played
    assert (record.verdict.plays is not None) is is_played


def test_a_study_killed_among_its_plays_goes_on_where_it_was(fake: FakeStudy) -> None:
    _planted(fake, _GOOD, _BAD, _BIG)

    def stop(trial: Trial) -> None:
        if trial.role is Role.PLAY:
            os.kill(os.getpid(), signal.SIGINT)

    fake.listener.on_trial = stop
    record, trials = fake.tune()
    assert record.status == "interrupted"
    before = [t.number for t in trials if t.role is Role.PLAY]
    fake.listener.on_trial = lambda trial: None
    fake.target._plays = ()  # what fits may change meanwhile; what was settled holds
    record, trials = fake.tune()
    assert set(_tried(record.verdict)) == {"no_compile", "many_workers", "large_cache"}
    assert [t.number for t in trials if t.role is Role.PLAY][: len(before)] == before
    assert len({t.number for t in trials}) == len(trials)


def test_a_space_of_one_config_ends_without_a_search(fake: FakeStudy) -> None:
    fake.text = fake.text.replace('kind = "fake"\n', 'kind = "fake"\nknobs = ["compile"]\n', 1)
    fake.target._knobs = ["compile"]
    fake.text += '\n[search]\nconstraints = ["compile"]\n'
    record, trials = fake.tune()
    assert record.status == "no_improvement"
    assert {t.role for t in trials} == {Role.BASELINE}
    assert record.verdict.stop_reason == "the searcher has tried everything there is"


def test_a_budget_too_small_for_a_baseline_is_refused_before_anything_runs(fake: FakeStudy) -> None:
    fake.text = fake.text.replace("12 trials", "10s")
    with pytest.raises(UsageError) as caught:
        fake.tune()
    what = r"budget=10s is too short: 3 runs of the baseline, one config and its proof take at least 1min[ 0-9a-z.]*"
    assert re.fullmatch(what, caught.value.message)
    assert caught.value.hint == (
        "give it more time (a hundred runs are better than ten), or shorten [measure] window='5s'"
    )
    assert "snapshot" not in fake.target.calls


def test_a_play_that_sets_what_another_has_set_is_not_measured_again(fake: FakeStudy) -> None:
    _planted(fake, _BAD, Play(name="workers_by_clients", settings={"workers": 16}, reason="One for each.", worth=0.1))
    record, trials = fake.tune()
    assert sum(trial.role is Role.PLAY for trial in trials) == 1
    assert record.verdict.plays is not None
    assert record.verdict.plays.left_out["workers_by_clients"] == "it sets here what the play many_workers sets"
