"""The winner beside the advice, in a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.conftest import BASELINE, WINNER, Study, changed
from trimtab.history import read_verdict
from trimtab.records import Role, Verdict
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
