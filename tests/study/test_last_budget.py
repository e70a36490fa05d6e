"""With which budget a study goes on, where it is another one than before."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.fakes import STUDY, FakeStudy
from trimtab.history import open_history_at
from trimtab.records import Role, Trial

pytestmark = pytest.mark.slow


def _stopping_at(role: Role, number: int = 0) -> Callable[[Trial], None]:
    def stop(trial: Trial) -> None:
        if trial.role is role and trial.number >= number:
            os.kill(os.getpid(), signal.SIGINT)

    return stop


def _said_of_the_budget(fake: FakeStudy) -> list[str]:
    return [line for line in fake.listener.phases if "is not used: what follows the search was begun" in line]


@pytest.mark.usefixtures("equal_costs")
@pytest.mark.parametrize("role", [Role.REPEAT, Role.PROOF_CANDIDATE])
def test_less_time_comes_too_late_for_what_follows_the_search(fake: FakeStudy, role: Role) -> None:
    """The repeats, and the runs of the proof, would be measured anew: of them there is no room in the smaller budget."""

    stop = _stopping_at(role)

    def tune(budget: str) -> list[Trial]:
        fake.text = STUDY.replace("12 trials", budget)
        fake.listener.phases.clear()
        return fake.tune()[1]

    fake.listener.on_trial = stop
    before = [(trial.number, trial.role, trial.config) for trial in tune("4min")]
    told = "budget='75s' is not used: what follows the search was begun with budget='4min', and goes on with it"
    for stops in (stop, lambda trial: None):  # the second time, it is not taken for the budget by which it ran last
        fake.listener.on_trial = stops
        after = tune("75s")
        assert [(trial.number, trial.role, trial.config) for trial in after[: len(before)]] == before
        assert len([line for line in fake.listener.phases if line.startswith(told)]) == 1
        assert not [line for line in fake.listener.phases if "not fit the way" in line]
    assert len(after) > len(before)


@pytest.mark.usefixtures("equal_costs")
@pytest.mark.parametrize("role", [Role.REPEAT, Role.PROOF_CANDIDATE])
@pytest.mark.parametrize(("began", "then"), [("12 trials", "75s"), ("12 trials", "170s"), ("4min", "3 trials")])
def test_a_budget_of_the_other_kind_without_room_for_more_search_comes_too_late_as_well(
    fake: FakeStudy, role: Role, began: str, then: str
) -> None:
    """After 16 runs of the search, with its baselines, 170 seconds have some left, and keep them for what follows."""
    fake.text = STUDY.replace("12 trials", began)
    fake.listener.on_trial = _stopping_at(role)
    before = [(trial.number, trial.role, trial.config) for trial in fake.tune()[1]]
    fake.listener.phases.clear()
    fake.listener.on_trial = lambda trial: None
    fake.text = STUDY.replace("12 trials", then)
    after = fake.tune()[1]
    assert [(trial.number, trial.role, trial.config) for trial in after[: len(before)]] == before
    (told,) = _said_of_the_budget(fake)
    assert told.startswith(
        f"budget={then!r} is not used: what follows the search was begun with budget={began!r}, and "
    )
    assert not [line for line in fake.listener.phases if "not fit the way" in line]


@pytest.mark.usefixtures("equal_costs")
def test_another_kind_of_budget_that_leaves_more_to_search_is_used(fake: FakeStudy) -> None:
    fake.listener.on_trial = _stopping_at(Role.PROOF_CANDIDATE)
    _, before = fake.tune()
    fake.listener.on_trial = _stopping_at(Role.SEARCH, len(before))
    fake.text = STUDY.replace("12 trials", "20min")
    _, after = fake.tune()
    assert not _said_of_the_budget(fake)
    assert after[-1].role is Role.SEARCH


@pytest.mark.usefixtures("equal_costs")
def test_a_budget_that_was_put_right_before_anything_was_measured_does_not_stay(fake: FakeStudy) -> None:
    fake.text = STUDY.replace("12 trials", "4min")
    fake.listener.on_trial = _stopping_at(Role.PROOF_CANDIDATE)
    _, before = fake.tune()
    fake.text = STUDY.replace("12 trials", "4h")
    fake.listener.on_trial = _stopping_at(Role.BASELINE)
    fake.tune()
    fake.text = STUDY.replace("12 trials", "4min")
    fake.listener.on_trial = lambda trial: None
    _, after = fake.tune()
    assert not _said_of_the_budget(fake)
    assert [(t.number, t.role, t.config) for t in after[: len(before)]] == [
        (t.number, t.role, t.config) for t in before
    ]
    with open_history_at(None, fake.path / "state") as history:
        record = history.studies()[0]
        assert [event.text for event in history.events(record.id) if event.kind == "budget"] == ["4h", "4min"]


def test_fewer_trials_end_a_search_that_more_of_them_let_go_on_after_its_repeats(fake: FakeStudy) -> None:
    fake.listener.on_trial = _stopping_at(Role.REPEAT)
    _, before = fake.tune()
    fake.listener.on_trial = _stopping_at(Role.SEARCH, len(before))
    fake.text = STUDY.replace("12 trials", "30 trials")
    fake.tune()
    fake.listener.on_trial = lambda trial: None
    fake.text = STUDY.replace("12 trials", "14 trials")
    _, after = fake.tune()
    assert not _said_of_the_budget(fake)
    assert sum(trial.role in (Role.SEARCH, Role.ADVICE, Role.PLAY) for trial in after) == 14


def test_runs_of_a_proof_that_a_larger_budget_does_not_ask_for_are_no_sign_of_another_version(fake: FakeStudy) -> None:
    """The search goes on where its leaders were measured again."""

    fake.listener.on_trial = _stopping_at(Role.REPEAT)
    record, before = fake.tune()
    assert record.verdict.fragment, "the best so far"
    assert not (fake.path / "state" / "results").exists(), "it is no winner yet"
    fake.listener.on_trial = _stopping_at(Role.SEARCH, len(before))
    fake.text = fake.text.replace("12 trials", "16 trials")
    fake.tune()
    (told,) = [line for line in fake.listener.phases if "not fit the way this study goes now" in line]
    assert "goes now (another budget, or another version of Trimtab?): " in told
