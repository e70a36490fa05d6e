"""What a terminal has no room for is broken or left out, and never cut off; and a report has no section without sense."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.report.conftest import BASELINE, Study, changed, record, trial
from tests.report.test_text import squeezed
from trimtab.records import BenchSummary, GainInterval, PlaysSummary, Role, TriedPlay, Verdict
from trimtab.report import render_html, report_text
from trimtab.report.headline import headline
from trimtab.space import Config


@pytest.mark.parametrize("width", [80, 110, 200])
def test_settings_that_were_tried_are_broken_last(better: Study, width: int) -> None:
    study, trials = better
    settings = {"max_parallel_workers_per_gather": "0"}
    play = TriedPlay(
        play="as_many_workers_as_there_are_cores", reason="", settings=settings, beside=(), trial=1, kept=True,
        verdict="not_told_apart", worth=GainInterval(estimate=1.0, low=0.9, high=1.1), note="in 11 of 17 runs",
    )  # fmt: skip
    tried = replace(study, verdict=replace(study.verdict, plays=PlaysSummary(tried=(play,))))
    text = report_text(tried, trials, width=width)
    assert "  max_parallel_workers_per_gather " in text
    assert "in 11 of 17 runs" in text
    assert max(map(len, text.splitlines())) <= width


def test_plays_that_were_not_tried_for_one_reason_are_told_together(better: Study) -> None:
    study, trials = better
    play = TriedPlay(
        play="jit_off", reason="", settings={"jit": "off"}, beside=(), trial=1, kept=True, verdict="not_told_apart",
        worth=GainInterval(estimate=1.0, low=0.9, high=1.1), note="",
    )  # fmt: skip
    outside = "it sets what is not among the study's knobs"
    left_out = {"one_lock": f"{outside}: sync", "used_up": "the budget was used", "no_log": f"{outside}: wal, fsync"}
    tried = replace(study, verdict=replace(study.verdict, plays=PlaysSummary(tried=(play,), left_out=left_out)))
    text = squeezed(report_text(tried, trials))
    assert f"Not tried ({outside}): one lock (sync), no log (wal, fsync)" in text
    assert "Not tried (the budget was used): used up" in text
    assert "<td>one lock (sync), no log (wal, fsync)</td>" in render_html(tried, trials)


@pytest.mark.parametrize("width", [80, 110])
def test_why_a_setting_is_not_proven_is_not_cut_off(better: Study, width: int) -> None:
    study, trials = better
    gain = {"estimate": 1.2, "low": 1.1, "high": 1.3, "level": 0.95}
    why = "neither proven to bring something nor shown to be needless; the budget of the ablation was used up before"
    row = {"verdict": "undecided", "reason": why, "without": gain, "without_pairs": 2, "alone": gain, "alone_pairs": 1}
    text = report_text(changed(study, worth={"max_parallel_workers_per_gather": row}), trials, width=width)
    assert f"max_parallel_workers_per_gather: {why}" in squeezed(text)
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80])
def test_no_figure_is_cut_off(better: Study, width: int) -> None:
    """Nor is the column beside the figures left out."""
    study, trials = better
    text = report_text(study, trials, width=width)
    after = text.partition("By operation")[2].splitlines()
    (row,) = (line for line in after if line.startswith("  q6 "))
    assert re.fullmatch(r"  q6( +[\d,.]+ ms){4} +[\d,.]+", row)
    assert "mean" in " ".join(after[1:5])
    assert max(map(len, text.splitlines())) <= width


def test_a_report_of_one_config_does_not_ask_which_knob_was_it() -> None:
    """Nor how the machine drifted, which runs of the baseline between others would show."""
    trials = [trial(number, Role.BENCH, BASELINE, 1.0, loss=None, loss_se=None) for number in range(3)]
    study = replace(record({}, status="benched"), verdict=Verdict(result="bench", metric="throughput", unit="/s"))
    for told in (report_text(study, trials), render_html(study, trials)):
        assert "Which knobs explain the result" not in told
        assert "too seldom" not in told
    assert "by role: 3 bench" in report_text(study, trials)


def test_many_settings_of_a_bench_are_counted_and_not_named(running: Study) -> None:
    study, trials = running
    bench = BenchSummary(settings=Config(dict.fromkeys("abcd", 1)), slo="p99 <= 20ms", rate_per_s=900.0)
    told = headline(replace(study, status="benched", verdict=Verdict(bench=bench)), trials, None)
    assert told == "Your config with 4 other settings keeps p99 <= 20ms up to 900/s (8 probes)."


@pytest.mark.parametrize("width", [60, 80])
def test_no_value_of_a_setting_is_broken(better: Study, width: int) -> None:
    """What the setting does is below its name, where it has room."""
    study, trials = better
    about = study.verdict.knobs["shared_buffers"]
    knob = "db.autovacuum_vacuum_insert_scale_factor"
    longer = replace(study.verdict, config=Config({knob: 1}), knobs={knob: about})
    for told, name in ((study, "shared_buffers"), (replace(study, verdict=longer), knob)):
        text = report_text(told, trials, width=width)
        (row,) = (line for line in text.splitlines() if "128MB  512MB" in line)
        assert re.fullmatch(rf"  {re.escape(name[:14])}\S* +128MB  512MB  on restart", row)
        assert about.doc in squeezed(text)
        assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80])
def test_no_word_of_an_effect_is_broken(better: Study, width: int) -> None:
    study, trials = better
    gain = {"estimate": 1.2, "low": 1.1, "high": 1.3, "level": 0.95}
    row = {"verdict": "undecided", "without": gain, "without_pairs": 2, "alone": gain, "alone_pairs": 1}
    text = report_text(changed(study, worth={"max_parallel_workers_per_gather": row}), trials, width=width)
    shown = text.partition("What each setting is worth")[2].splitlines()
    first = next(line for line in shown if line.startswith("  max_parallel"))
    assert re.fullmatch(r"  max_parallel\S*( +1\.20 \(1\.10 to 1\.30\)){2}", first)
    assert "undecided" in (line.strip() for line in shown)
    assert max(map(len, text.splitlines())) <= width
