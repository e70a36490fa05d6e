"""The first sentence of a report: how a study stands, and what it has found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.conftest import Study
from tests.report.test_text import squeezed
from trimtab.records import BenchSummary, DesignPlan, GainInterval, StopKind, Verdict
from trimtab.report import report_text
from trimtab.report.headline import headline
from trimtab.space import Config

PLAN = DesignPlan(kind="lhs", batches=(12,), n_runs=12)


def test_a_winner_that_was_kept_before_its_study_ended_is_told_as_that(better: Study) -> None:
    study, trials = better
    sentence = "Its study has not ended."
    assert f"alternating pairs. {sentence}" in squeezed(report_text(replace(study, status="running"), trials))
    assert sentence not in squeezed(report_text(study, trials))


def test_an_unproven_best_is_never_called_proven(running: Study) -> None:
    text = squeezed(report_text(*running))
    assert "Not finished after 8 trials: the best so far is 1.31 times as fast as yours (95 % interval" in text
    assert "not proven." in text
    study = replace(running[0], status="interrupted", verdict=Verdict(result="interrupted"))
    assert "Interrupted after 8 trials: the best so far" in report_text(study, running[1])


@pytest.mark.parametrize(
    ("status", "verdict", "beginning"),
    [
        ("stopped", Verdict(), "Interrupted after 8 trials: "),
        ("running", Verdict(result="interrupted"), "Interrupted after 8 trials: "),
        ("interrupted", Verdict(result="interrupted", design=PLAN), "Interrupted after 8 trials: "),
        (
            "interrupted",
            Verdict(result="interrupted", stop_reason="enough", stop_kind=StopKind.UNPROVEN),
            "Ended without a proof after 8 trials: ",
        ),
        ("ranked", Verdict(result="design"), "Not finished after 8 trials: "),
        (
            "ranked",
            Verdict(result="design", design=PLAN),
            "A design of 12 runs to rank knobs: `trimtab rank tpch` shows",
        ),
    ],
)
def test_how_a_study_stands_is_told_first(running: Study, status: str, verdict: Verdict, beginning: str) -> None:
    study, trials = running
    assert headline(replace(study, status=status, verdict=verdict), trials, None).startswith(beginning)


def test_an_imported_study_without_an_outcome_is_not_called_interrupted(running: Study) -> None:
    """A CSV or XML file does not say how it ended, and other programs know no outcome."""
    study, trials = running
    for status, state in (("stopped", "Ended"), ("interrupted", "Interrupted"), ("running", "Not finished")):
        told = replace(study, status=status, verdict=Verdict(), origin="theirs.csv")
        assert headline(told, trials, None).startswith(f"{state} after {len(trials)} trials: ")


@pytest.mark.parametrize(
    ("bench", "sentence"),
    [
        (None, "A measurement of one config that ended before its time, after 8 runs."),
        (BenchSummary(), "Your config: throughput \N{EN DASH}/s (8 runs)."),
        (
            BenchSummary(value=GainInterval(estimate=50.0, low=45.0, high=55.0)),
            "Your config: throughput 50/s (8 runs, 45 to 55).",
        ),
        (
            BenchSummary(settings=Config({"jit": False}), value=GainInterval(estimate=50.0, low=45.0, high=55.0)),
            "Your config with jit = off: throughput 50/s (8 runs, 45 to 55).",
        ),
        (BenchSummary(slo="p99 <= 20ms", rate_per_s=900.0), "Your config keeps p99 <= 20ms up to 900/s (8 probes)."),
    ],
)
def test_a_measurement_of_one_config_is_told_in_one_sentence(
    running: Study, bench: BenchSummary | None, sentence: str
) -> None:
    study, trials = running
    verdict = Verdict(metric="throughput", unit="/s", bench=bench)
    assert headline(replace(study, status="benched", verdict=verdict), trials, None) == sentence
