"""The winner beside the advice, in a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.conftest import BASELINE, WINNER, Study, changed
from trimtab.history import read_verdict
from trimtab.records import Role, Status, Verdict
from trimtab.report import report_text, summarise
from trimtab.report.against_advice import advice_line
from trimtab.space import Config


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        ((1.25, 1.2, 1.31), "Compared with the advice the tuned config is 1.25 (1.20 to 1.31) times as fast."),
        (
            (0.9, 0.85, 0.95),
            "Compared with the advice the tuned config is 0.90 (0.85 to 0.95) times as fast: the advice was faster.",
        ),
        (
            (0.95, 0.87, 1.04),
            "Compared with the advice the tuned config is 0.95 (0.87 to 1.04) times as fast: not told apart.",
        ),
    ],
)
def test_what_the_blocks_told_is_said(figures: tuple[float, float, float], line: str) -> None:
    beside = dict(zip(("estimate", "low", "high"), figures, strict=True))
    assert advice_line(read_verdict({"result": "better", "beside_advice": beside}), ()) == line


def test_nothing_is_said_without_a_winner_or_without_figures() -> None:
    beside = {"estimate": 1.1, "low": 1.0, "high": 1.2}
    assert advice_line(read_verdict({"result": "no_improvement", "beside_advice": beside}), ()) == ""
    assert advice_line(Verdict(result="better"), ()) == ""


def test_the_report_says_how_many_settings_the_advice_has(better: Study) -> None:
    study, trials = better
    assert summarise(study, trials).beside_advice == ""
    winner = next(trial for trial in trials if trial.role is Role.PROOF_CANDIDATE)
    advice = Config({**BASELINE, "work_mem": WINNER["work_mem"]})
    trials = [*trials, replace(winner, number=len(trials), role=Role.PROOF_ADVICE, config=advice)]
    beside = {"estimate": 1.25, "low": 1.2, "high": 1.31, "level": 0.95}
    study = changed(study, beside_advice=beside)
    line = "Compared with the advice, which changes 1 setting, the tuned config is 1.25 (1.20 to 1.31) times as fast."
    assert summarise(study, trials).beside_advice == line
    assert line in " ".join(report_text(study, trials).split())


def test_a_candidate_of_a_study_that_was_stopped_is_not_called_refused(better: Study) -> None:
    """Its proof may even have been done: it was stopped while the worth of its settings was measured."""
    study, trials = better
    rows = {row.name: row.basis for row in summarise(changed(study, result="interrupted"), trials).contenders}
    assert rows["best candidate"] == "6 alternating pairs, not finished"


def test_what_has_crashed_once_is_not_the_best_so_far(better: Study) -> None:
    study, trials = better
    study, trials = changed(study, result="interrupted"), [t for t in trials if t.role is not Role.PROOF_CANDIDATE]
    first = summarise(study, trials).best
    assert first is not None
    again = next(trial for trial in trials if trial.number == first.number)
    crashed = replace(
        again, number=len(trials), status=Status.CRASHED, measurement=None, loss=None, reason="out of memory"
    )
    second = summarise(study, [*trials, crashed])
    assert second.best is not None
    assert first.gain is not None
    assert second.best.number != first.number
    assert first.gain.short_text not in second.headline
