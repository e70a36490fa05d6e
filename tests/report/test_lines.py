"""What each setting is worth, what was taken back, and the gain by number of settings."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.report.conftest import (
    BASELINE,
    WINNER,
    Study,
    better_verdict,
    changed,
    proof_trials,
    record,
    search_trials,
    trial,
)
from tests.report.test_html import drawn, figures_of, read
from trimtab.history import read_verdict
from trimtab.measure import LabelStats
from trimtab.records import Role, Trial, Verdict
from trimtab.report import render_html, report_text, summarise, to_json
from trimtab.report.explain_charts import worth_figure
from trimtab.report.facts import Gain, LineWorth
from trimtab.report.lines import ablation_text, line_worths, path_points
from trimtab.space import Value

FULL: dict[str, Value] = {**WINNER, "random_page_cost": 1.1, "effective_io_concurrency": 64}


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _gain(estimate: float, low: float, high: float) -> dict[str, float]:
    return {"estimate": estimate, "low": low, "high": high, "level": 0.95}


def _line(verdict: str, **changes: Any) -> dict[str, Any]:
    row = {
        "verdict": verdict,
        "reason": "",
        "without": None,
        "without_pairs": 0,
        "beside": 0,
        "alone": None,
        "alone_pairs": 0,
    }
    return {**row, **changes}


WORTH = {
    "jit": _line(
        "proven", without=_gain(1.31, 1.2, 1.43), without_pairs=3, alone=_gain(1.28, 1.11, 1.47), alone_pairs=2
    ),
    "max_parallel_workers_per_gather": _line(
        "needed", reason="without it the config fails: trial 30 ended as crashed: FATAL"
    ),
    "shared_buffers": _line(
        "undecided", without=_gain(1.03, 0.97, 1.1), without_pairs=4, beside=1, reason="not settled"
    ),
    "work_mem": _line("not_measured", reason="the budget of the ablation was used up before"),
}
DROPPED_NAMES = ("random_page_cost", "effective_io_concurrency")
DROPPED = [
    {"knob": name, "reason": "all 2 together worth +0.4 % (95 % interval -1.8 % to +2.6 %, 3 pairs): not told apart",
     "verdict": "not_told_apart", "group": ["random_page_cost", "effective_io_concurrency"],
     "worth": _gain(1.004, 0.982, 1.026), "pairs": 3}
    for name in DROPPED_NAMES
]  # fmt: skip
ABLATION = {
    "end": "budget",
    "tolerance": 0.02,
    "runs": 14,
    "went_back": "",
    "full": {name: FULL[name] for name in FULL if FULL[name] != BASELINE[name]},
}


def ablated_trials() -> list[Trial]:
    """Search, runs of the ablation over configs of 6, 4 and 1 settings, and the proof."""
    trials = search_trials()
    for config, speed in ((FULL, 1.83), (WINNER, 1.82), (FULL, 1.81), (WINNER, 1.8), ({**BASELINE, "jit": False}, 1.3)):
        trials.append(trial(len(trials), Role.ABLATION, config, speed))
    return [*trials, *proof_trials(len(trials), WINNER, 1.82)]


@pytest.fixture
def ablated() -> Study:
    trials = ablated_trials()
    return record({**better_verdict(trials), "worth": WORTH, "dropped": DROPPED, "ablation": ABLATION}), trials


@pytest.mark.slow
@pytest.mark.parametrize(
    "expected",
    [
        "jit 1.31 (1.20 to 1.43) 1.28 (1.11 to 1.47) proven",
        "max_parallel_workers_per_gather needed work_mem not measured",
        "max_parallel_workers_per_gather: without it the config fails: trial 30 ended as crashed: FATAL",
        "shared_buffers 1.03 (0.97 to 1.10) undecided",
        "shared_buffers: measured with 1 setting more, dropped later",
        "work_mem: the budget of the ablation was used up before",
        "The search's winner changed 6 settings; 14 runs in pairs left 4. Settings worth less than 2 % were reset.",
        "The budget ended before all were tried: some of these may bring nothing.",
        "Times as fast by number of settings (best measured): 1: 1.2",
        "Left unchanged: random_page_cost, effective_io_concurrency (all 2 together worth +0.4 %",
    ],
)
def test_the_text_says_what_each_line_is_worth(ablated: Study, expected: str) -> None:
    assert expected in squeezed(report_text(*ablated))


def test_many_that_were_not_measured_for_one_reason_are_named_in_a_sentence() -> None:
    trials = ablated_trials()
    unmeasured = _line("not_measured", reason="the budget was used up before")
    some = {"jit": WORTH["jit"], **dict.fromkeys(("work_mem", "shared_buffers", "random_page_cost"), unmeasured)}
    sentence = "Not measured, because the budget was used up before: random_page_cost, shared_buffers, work_mem."
    for worth in (some, {name: line for name, line in some.items() if name != "jit"}):
        study = record({**better_verdict(trials), "worth": worth, "dropped": [], "ablation": ABLATION})
        text, page = squeezed(report_text(study, trials)), render_html(study, trials)
        assert text.count("What each setting is worth") == 1
        assert sentence in text
        assert "Not measured, because the budget was used up before" in page
        assert page.count('<td class="code">work_mem</td>') <= 1


def test_a_budget_that_ended_after_each_setting_was_compared_is_no_reservation() -> None:
    trials = ablated_trials()
    without = {"without": {"estimate": 1.2, "low": 1.1, "high": 1.3}, "without_pairs": 2}
    worth = {name: {**line, **without} for name, line in WORTH.items()}
    study = record({**better_verdict(trials), "worth": worth, "dropped": [], "ablation": ABLATION})
    text = squeezed(report_text(study, trials))
    assert "14 runs in pairs left 4. Settings worth less than 2 % were reset." in text
    assert "before all were tried" not in text


def test_what_was_reset_is_told_as_it_was(ablated: Study) -> None:
    study, _ = ablated
    assert "were reset. So were those for which the pairs showed no worth." in ablation_text(study.verdict)
    assert study.verdict.ablation is not None
    needless = changed(study, dropped=[{**row, "verdict": "needless"} for row in DROPPED])
    assert "showed no worth" not in ablation_text(needless.verdict)
    whole = changed(study, dropped=[], ablation={**ABLATION, "full": dict(study.verdict.config), "end": "finished"})
    assert (
        ablation_text(whole.verdict) == "The search's winner changed 4 settings; 14 runs in pairs reset none of them."
    )
    one = changed(study, config={"jit": False}, ablation={**ABLATION, "runs": 0, "end": "finished"})
    assert ablation_text(one.verdict) == "The search's winner changed 6 settings; 1 is left."


def test_a_winner_that_was_never_thinned_is_told_as_it_is() -> None:
    trials = ablated_trials()
    study = record({**better_verdict(trials), "worth": WORTH, "dropped": [], "ablation": {**ABLATION, "runs": 0}})
    text = squeezed(report_text(study, trials))
    assert "The search's winner changed 6 settings; 4 are left. The budget ended before all were tried" in text
    assert "in pairs left" not in text


def test_the_page_says_the_same_and_draws_it(ablated: Study) -> None:
    page = render_html(*ablated)
    text = squeezed(read(page).text)
    for expected in ("jit 1.31 1.20 to 1.43 1.28 1.11 to 1.47 proven", "measured with 1 more setting, dropped later",
                     "Gain by number of settings", "Left unchanged"):  # fmt: skip
        assert expected in text
    figures = figures_of(ablated)
    assert set(drawn(page)) == set(figures)
    assert {trace["name"]: trace["y"] for trace in figures["worth"]["data"]} == {
        "alone against yours": ["jit"],
        "with the others": ["shared_buffers", "jit"],
    }
    path = figures["by_knobs"]["data"][0]
    assert path["x"] == [0, 1, 4, 6]
    assert path["y"][2] == 1.82
    assert path["marker"]["symbol"][2] == "star"


def test_half_of_an_interval_is_not_drawn() -> None:
    """After one pair nothing is known of how much more a setting may be worth."""
    line = LineWorth("shared_buffers", "undecided", Gain(1.66, 0.0, math.nan), 1, 0, Gain(1.04, 0.54, 1.98), 2, "")
    drawn_worth = worth_figure([line], "times as fast")
    assert drawn_worth is not None
    alone, without = (trace["error_x"] for trace in drawn_worth["data"])
    assert (without["array"], without["arrayminus"]) == ([0.0], [0.0])
    assert (alone["array"], alone["arrayminus"]) == ([pytest.approx(0.94)], [pytest.approx(0.5)])


def test_the_path_takes_the_winners_values_only(ablated: Study) -> None:
    study, trials = ablated
    other = trial(len(trials), Role.SEARCH, {**BASELINE, "work_mem": 999}, 3.0)
    short = trial(len(trials) + 1, Role.SEARCH, {"jit": False}, 3.0)  # as an imported file may have it
    points = path_points(study, [*trials, other, short])
    assert [point.n_knobs for point in points] == [0, 1, 4, 6]
    assert points[1].knobs == ("jit",)
    six = points[-1]
    assert six.n_runs == 2
    assert math.log(six.gain.high / six.gain.low) == pytest.approx(2 * 1.96 * 0.018 / math.sqrt(2), rel=0.01)


def test_a_path_of_runs_that_tell_nothing_has_no_ends(ablated: Study) -> None:
    """A run whose own interval is a thousand times as wide as its value."""
    study, trials = ablated
    wide = [replace(each, loss_se=1000.0) for each in trials]
    points = path_points(study, wide)
    assert [point.n_knobs for point in points] == [0, 1, 4, 6]
    assert (points[-1].gain.low, points[-1].gain.high) == (0.0, math.inf)
    assert points[-1].gain.range_text == ""


def test_a_lucky_single_run_does_not_lead_the_path(ablated: Study) -> None:
    study, trials = ablated
    lucky = trial(len(trials), Role.ABLATION, {**BASELINE, "work_mem": 65536}, 3.0)
    twice = [trial(len(trials) + 1 + i, Role.ABLATION, {**BASELINE, "jit": False}, 1.3) for i in range(2)]
    (one,) = [point for point in path_points(study, [*trials, lucky, *twice]) if point.n_knobs == 1]
    assert one.knobs == ("jit",)


def test_the_star_is_the_printed_config_whatever_others_of_as_many_settings_showed(ablated: Study) -> None:
    study, trials = ablated
    four = {**BASELINE, **{name: FULL[name] for name in (*DROPPED_NAMES, "jit", "work_mem")}}
    lucky = [trial(len(trials) + i, Role.ABLATION, four, 3.0) for i in range(2)]
    star = next(point for point in path_points(study, [*trials, *lucky]) if point.n_knobs == 4)
    assert (star.is_winner, star.gain.estimate, set(star.knobs)) == (True, 1.82, set(study.verdict.config))


def test_a_winner_whose_values_gave_way_is_the_star_and_not_the_config_that_it_comes_from(ablated: Study) -> None:
    """To make room for an old value, `work_mem` was lowered: the search's winner without the two others had more of it."""
    study, trials = ablated
    moved = {**WINNER, "work_mem": 32768}
    study = changed(study, candidate=moved, config={**dict(study.verdict.config), "work_mem": 32768})
    points = {point.n_knobs: point for point in path_points(study, trials)}
    assert (points[4].is_winner, points[4].gain.estimate == 1.82) == (False, False), "it was never proven"
    points = {point.n_knobs: point for point in path_points(study, [*trials, *proof_trials(90, moved, 1.82)])}
    assert (points[4].is_winner, points[4].gain.estimate, points[4].n_runs) == (True, 1.82, 6)


def test_the_text_says_which_figure_is_proven_and_which_settings_are_not(ablated: Study) -> None:
    undecided = "Undecided, but stays, because the gain was proven with it in place: shared_buffers."
    text, page = squeezed(report_text(*ablated)), squeezed(read(render_html(*ablated)).text)
    assert "4: 1.82 (this config, proven), 6: 1.8" in text
    assert "All but this config are the best of a few runs, which look better than they are." in text
    assert "all others are the best of a few runs, which look better than they are." in page
    assert undecided in text
    assert undecided in page
    study, trials = ablated
    both = changed(study, worth={**WORTH, "jit": _line("undecided", without=_gain(1.0, 0.9, 1.1), without_pairs=2)})
    assert "Undecided, but stay, because the gain was proven with them in place: jit, shared_buffers." in squeezed(
        report_text(both, trials)
    )
    assert "Undecided, but" not in report_text(changed(study, worth={"jit": WORTH["jit"]}), trials)


def test_json_has_the_lines_and_the_path(ablated: Study) -> None:
    summary = to_json(*ablated)["summary"]
    assert summary["lines"][0]["knob"] == "jit"
    assert summary["lines"][0]["without"] == {"estimate": 1.31, "low": 1.2, "high": 1.43, "level": 0.95}
    assert summary["path"][1]["n_knobs"] == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"end": "off"}, "The winner was not ablated: settings that bring nothing may be among these."),
        (
            {"end": "finished", "went_back": "the smaller config failed its proof"},
            "the smaller config failed its proof.",
        ),
        ({"end": "failed"}, "It ended early, because the winner itself could not be measured any more."),
    ],
)
def test_other_ends_are_told(changes: dict[str, Any], expected: str) -> None:
    assert expected in ablation_text(read_verdict({"ablation": {**ABLATION, **changes}, "config": {"jit": False}}))


def test_studies_of_older_versions_have_no_such_section(better: Study) -> None:
    text = report_text(*better)
    assert "What each setting is worth" not in text
    assert summarise(*better).path == ()
    assert line_worths(Verdict()) == ()


def test_without_a_winner_nothing_is_called_worth(no_improvement: Study) -> None:
    study, trials = no_improvement
    study = changed(study, worth=WORTH, dropped=DROPPED, ablation=ABLATION)
    text = report_text(study, trials)
    assert "What each setting is worth" not in text
    assert "Left unchanged" not in text
    assert "What each setting is worth" not in read(render_html(study, trials)).text


def test_the_larger_of_two_proven_configs_is_the_one_compared() -> None:
    trials = ablated_trials()
    trials += proof_trials(len(trials), FULL, 2.4)
    verdict = {**better_verdict(trials), "candidate": FULL, "config": ABLATION["full"], "ablation": ABLATION}
    shown = summarise(record(verdict), trials)
    q13 = next(label for label in shown.labels if label.label == "q13")
    assert q13.times_faster > 3


def test_operations_that_were_never_done_are_not_compared(better: Study) -> None:
    study, trials = better
    nothing: dict[str, Any] = dict.fromkeys(
        ("latency_mean_ms", "latency_p50_ms", "latency_p95_ms", "latency_max_ms"), math.nan
    )
    never = LabelStats(n_ok=0, n_error=0, n_timed_out=0, throughput_per_s=0.0, **nothing)
    trials = [
        replace(t, measurement=replace(t.measurement, by_label={**t.measurement.by_label, "never": never}))
        if t.measurement is not None
        else t
        for t in trials
    ]
    shown = [label.label for label in summarise(study, trials).labels]
    assert shown
    assert "never" not in shown


def test_conditions_are_listed_with_their_figures(no_improvement: Study) -> None:
    study, trials = no_improvement
    rows = [
        {"name": "latency_p99", "is_met": False, "text": "p99 +31.0 %"},
        {"name": "gain", "is_met": True, "text": "1.2 times"},
    ]
    study = changed(study, conditions=rows)
    assert "latency p99 not met p99 +31.0 %" in squeezed(report_text(study, trials))
    assert "latency p99 not met p99 +31.0 %" in squeezed(read(render_html(study, trials)).text)


def test_hostile_lines_stay_text(hostile: Study) -> None:
    study, trials = hostile
    (evil,) = study.verdict.config
    worth = {evil: _line("proven", without=_gain(1.3, 1.2, 1.4), reason=evil)}
    rows = [{"name": evil, "is_met": True, "text": evil}]
    about = {**ABLATION, "went_back": evil, "full": {evil: evil}}
    study = changed(study, worth=worth, ablation=about, conditions=rows)
    page = render_html(study, trials)
    assert "<script>alert(1)" not in page
    assert "owned" not in report_text(study, trials)
    assert "&lt;script&gt;" in drawn(page)["worth"]


def test_what_settings_of_a_program_are_worth_is_no_speed(better: Study) -> None:
    study, trials = better
    study = replace(changed(study, worth={"jit": _line("proven", without=_gain(1.3, 1.2, 1.4))}), objective="cost")
    page = squeezed(read(render_html(study, [replace(each, measurement=None) for each in trials])).text)
    assert "With the others: how many times as good the whole config is with this setting as without it." in page
    assert "many times as fast" not in page
