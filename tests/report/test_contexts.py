"""Studies over several contexts: what was measured under one of them says nothing beside what was under another."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.report.conftest import BASELINE, CONTEXT, Study
from trimtab.records import ContextResult, CycleSummary, GainInterval, Trial
from trimtab.report import report_text, summarise
from trimtab.report.html import report_figures
from trimtab.space import Config


def in_turns(trials: list[Trial], n_contexts: int) -> list[Trial]:
    """The trials as of a cycle of so many contexts."""
    return [replace(t, context=replace(t.context, clients=1 + t.number % n_contexts)) for t in trials]


def test_the_drift_of_contexts_that_were_measured_once_is_not_known(better: Study) -> None:
    study, trials = better
    assert summarise(study, in_turns(trials[:2], 2)).drift.text == (
        "2 baseline measurements span 0 % at most within one of 2 contexts, none of which was measured twice: the machine's "
        "drift is not known."
    )
    text = summarise(study, in_turns(trials, 2)).drift.text
    assert re.fullmatch(
        r"11 baseline measurements span [\d.]+ % at most within one of 2 contexts: no drift beyond the noise\.", text
    )


@pytest.mark.parametrize("name", ["running", "better"])
def test_trials_of_different_contexts_are_not_compared(name: str, request: pytest.FixtureRequest) -> None:
    """While a study over a cycle runs, no verdict tells that it is one."""
    study, trials = request.getfixturevalue(name)
    whole, mixed = summarise(study, trials), summarise(study, in_turns(trials, 2))
    assert (bool(whole.contenders), bool(whole.labels)) == (True, True)
    assert (mixed.contenders, mixed.labels) == ((), ())
    figures = report_figures(study, in_turns(trials, 2), mixed)
    assert "latency" not in figures
    assert figures["drift"]["data"][0]["mode"] == "markers"


def test_names_of_contexts_are_shown_as_they_are(running: Study) -> None:
    """Brackets are markup for what lays the tables out."""
    study, trials = running
    contexts = tuple(
        ContextResult(
            name=name, context=CONTEXT, trials=4, failed=0, cost_s=80.0, apply_s=4.0, baseline=11.0,
            config=Config({"jit": is_on}), gain=GainInterval(estimate=1.2, low=1.1, high=1.3), is_proven=True, reason="",
            search_gain=1.2, shared=None, best=(1.2,), mean=(1.0,), regret=(0.1,),
        )
        for name, is_on in (("day [peak]", not BASELINE["jit"]), ("night [/]", bool(BASELINE["jit"])))
    )  # fmt: skip
    cycle = CycleSummary(contexts=contexts, cycles=1, searcher="gp", differing=("jit",))
    cycled = replace(study, verdict=replace(study.verdict, cycle=cycle))
    lines = report_text(cycled, trials).splitlines()
    assert any(re.fullmatch(r" *knob +day \[peak\] +night \[/\]", line) for line in lines)
