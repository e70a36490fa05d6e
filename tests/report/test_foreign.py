"""What an imported history says of its outcome is text, too: it does not speak to the terminal, and a page can be written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.conftest import Study
from trimtab.records import BenchSummary, Condition, KeptRanks, Verdict
from trimtab.report import render_html, report_text

EVIL = "\x1b[2J\x1b]0;owned\x07\ud800<b>"

VERDICTS = {
    "ranks": Verdict(importance=KeptRanks(n_trials=5, text=EVIL, consensus=None)),
    "harm": Verdict(result="no_improvement", conditions=(Condition(name=EVIL, is_met=False, text=EVIL),)),
    "constraint": Verdict(result="better", is_by_constraints=True, conditions=(Condition("constraints", True, EVIL),)),
    "bench": Verdict(result="bench", metric=EVIL, unit=EVIL, bench=BenchSummary(slo=EVIL, rate_per_s=3.0)),
    "value": Verdict(result="bench", metric=EVIL, unit=EVIL, bench=BenchSummary()),
}


@pytest.mark.parametrize("name", list(VERDICTS))
def test_a_foreign_outcome_stays_text(hostile: Study, name: str) -> None:
    study, trials = hostile
    verdict = replace(VERDICTS[name], gain=study.verdict.gain)
    status = "benched" if verdict.bench is not None else study.status
    told = replace(study, status=status, verdict=verdict)
    text, page = report_text(told, trials), render_html(told, trials)
    for shown in (text, page):
        shown.encode()
        assert "\x1b" not in shown
        assert "owned" not in shown
    assert "\ufffd<b>" in text
