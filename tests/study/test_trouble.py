"""Trouble of the machine that lasts ends a study with its reason, not with a verdict; the same command goes on from there."""

from __future__ import annotations

import pytest

from tests.fakes import FakeStudy
from trimtab.errors import LoadError
from trimtab.records import Context, Role, Status, Trial
from trimtab.space import Config
from trimtab.study.trouble import require_measurable, without_trouble
from trimtab.trial.guarding import Guarding

LETTERS = {
    "b": Role.BASELINE,
    "s": Role.SEARCH,
    "p": Role.PROOF_CANDIDATE,
    "o": Role.PROOF_BASELINE,
    "a": Role.ABLATION,
}


def trials(text: str) -> list[Trial]:
    """One for each word: its role's letter, its config, and "!" when it could not be measured, "x" when its load has failed."""
    made = []
    for number, word in enumerate(text.split()):
        status = {"!": Status.INFRASTRUCTURE, "x": Status.FAILED_LOAD}.get(word[-1], Status.OK)
        config = Config({"knob": word[1]})
        context = Context(workload="w", clients=1)
        made.append(
            Trial(number=number, role=LETTERS[word[0]], config=config, context=context, status=status, reason="no disk")
        )
    return made


@pytest.mark.parametrize(
    ("text", "is_hopeless"),
    [
        ("", False),
        ("b0 b0 b0 s1 s2! s3! s4! s5!", False),
        ("b0 b0 b0 s1 s2! s3! s4! s5! s6!", True),
        ("b0 b0 b0 s1 s2! s3! s4 s5! s6! s7!", False),
        ("b0 b0 b0 s1! b0! s2! s3! s4!", True),
        ("o0 p1 p1! p1!", False),
        ("o0 p1 p1! p1! p1!", True),
        ("p1! p1! o0!", False),
        ("o0! o0! o0!", True),
        ("a1! a1! a1! a1! a1!", False),
        ("s1x s2x s3x s4x s5x s6x", False),
    ],
)
def test_many_runs_in_vain_in_a_row_are_too_many(text: str, is_hopeless: bool) -> None:
    if not is_hopeless:
        require_measurable(trials(text))
        return
    with pytest.raises(LoadError, match=r"nothing can be measured any more: \d trials in a row .*: no disk") as caught:
        require_measurable(trials(text))
    assert "the same command" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("b0! b0 b0 b0 s1", [1, 2, 3, 4]),
        ("b0 b0x b0 b0 s1 b0x s2", [0, 2, 3, 4, 5, 6]),
        ("b0 b0 b0 s1 s2! s3! s4! s5! s6! s2 s3", [0, 1, 2, 3, 9, 10]),
        ("b0 s1 o0 p1! p1! p1! p1", [0, 1, 2, 6]),
        ("b0 s1! s2! s3", [0, 1, 2, 3]),
    ],
)
def test_a_record_goes_on_before_the_trouble(text: str, kept: list[int]) -> None:
    assert [trial.number for trial in without_trouble(trials(text))] == kept


@pytest.mark.slow  # in make check: test_a_record_goes_on_before_the_trouble
def test_a_disk_that_becomes_full_ends_the_study_which_goes_on_when_there_is_room(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = {"from": 7}
    monkeypatch.setattr(
        Guarding, "shortage", lambda self, stack: "the disk is full" if len(fake.listener.ended) >= full["from"] else ""
    )
    fake.text = fake.text.replace("12 trials", "30 trials")
    with pytest.raises(LoadError, match="nothing can be measured any more: 5 trials in a row .*the disk is full"):
        fake.tune()
    in_vain = fake.listener.ended[-5:]
    assert [trial.status for trial in in_vain] == [Status.INFRASTRUCTURE] * 5
    n_before, full["from"] = len(fake.listener.ended), 10**6
    record, _ = fake.tune()
    assert record.status == "proven"
    assert any("5 trials that could not be measured" in text for text in fake.listener.phases)
    again = fake.listener.ended[n_before:]
    assert {trial.number for trial in in_vain}.isdisjoint(trial.number for trial in again)
