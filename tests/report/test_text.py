"""The report on a terminal."""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from tests.report.conftest import (
    BASELINE,
    QUERIES,
    Study,
    better_verdict,
    changed,
    proof_trials,
    record,
    search_trials,
    trial,
)
from trimtab.importance import Consensus, KnobRank
from trimtab.measure import Interval
from trimtab.records import Context, Role, Status, Verdict
from trimtab.report import print_report, render_html, report_text, summarise, to_json
from trimtab.report.explain import Explanation
from trimtab.report.headline import headline
from trimtab.report.html import report_figures
from trimtab.report.svg import figure_svg
from trimtab.report.text import _explanation


def squeezed(text: str) -> str:
    """With runs of white space as one blank, so that wrapping does not matter."""
    return re.sub(r"\s+", " ", text)


def test_a_winner_is_told_in_one_sentence_with_its_interval(better: Study) -> None:
    assert (
        "This config is 1.82 times as fast as yours (95 % interval 1.61 to 2.05): 4 settings, proven in 6 alternating "
        "pairs." in squeezed(report_text(*better))
    )


def test_each_interval_is_given_the_level_that_it_has(better: Study) -> None:
    study, trials = better
    worth = {"work_mem": {"verdict": "proven", "alone": {"estimate": 1.2, "low": 1.1, "high": 1.3, "level": 0.95}}}
    gain = {"estimate": 1.82, "low": 1.61, "high": 2.05, "level": 0.975}
    other = changed(
        study, gain=gain, advice_gain={"estimate": 1.31, "low": 1.24, "high": 1.38, "level": 0.95}, worth=worth
    )
    text = squeezed(report_text(other, trials))
    assert "(97.5 % interval 1.61 to 2.05)" in text
    assert "config throughput (/s) times as fast interval measured in" in text
    page = squeezed(render_html(other, trials))
    assert "<dt>97.5 % interval</dt>" in page
    assert "with their interval, of 95 % where no other level is named." in page
    assert '<th class="n">interval</th><th>measured in</th>' in page
    assert "without it, with 95 % interval" in page
    alike = changed(study, gain=gain, advice_gain=gain)
    assert "times as fast 97.5 % interval measured in" in squeezed(report_text(alike, trials))
    assert '<th class="n">97.5 % interval</th><th>measured in</th>' in squeezed(render_html(alike, trials))


def test_a_run_that_a_guard_has_ended_is_not_the_best_so_far(running: Study) -> None:
    study, trials = running
    fast = trial(len(trials), Role.SEARCH, {**BASELINE, "work_mem": 8192}, 3.0, status=Status.STOPPED_EARLY)
    best = summarise(study, [*trials, fast]).best
    assert best is not None
    assert best.number < fast.number
    assert "the best so far is 1.31 times as fast as yours" in squeezed(report_text(study, [*trials, fast]))
    line = next(t for t in report_figures(study, [*trials, fast], summarise(study, [*trials, fast]))["progress"]["data"]
                if t["name"] == "best so far")  # fmt: skip
    assert max(line["y"]) < 2


def test_a_study_of_another_host_names_it(better: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    study, trials = better
    for here, expected in (("db2", "Study tpch on host db1: tpch 4Q6"), ("db1.example.com", "Study tpch: tpch 4Q6")):
        monkeypatch.setattr("platform.node", lambda here=here: here)
        assert report_text(study, trials).startswith(expected)
        assert to_json(study, trials)["summary"]["host"] == "db1"


def test_the_load_is_named_with_its_clients_and_its_rate(better: Study) -> None:
    study, trials = better
    assert report_text(study, trials).splitlines()[0].endswith(": tpch 4Q6+4Q9+4Q13 scale 0.1, 12 clients")
    rated = replace(study.context, features={"rate_per_s": 250.0})
    assert report_text(replace(study, context=rated), trials).splitlines()[0].endswith(", 12 clients, 250/s")


def test_the_reset_of_the_data_is_a_cost_of_its_own(better: Study) -> None:
    study, trials = better
    unjudged = replace(study, verdict=Verdict())
    trials = [replace(one, cost_s={**one.cost_s, "reset": 100.0}) for one in trials]
    shares = {share.name: share.seconds for share in summarise(unjudged, trials).wall}
    assert shares["reset"] == 100.0 * len(trials)


def test_what_failed_runs_took_is_time_that_has_gone() -> None:
    """While a study runs, its trials tell where the time went: all of it."""
    cost_s = {"measure": 8.0, "apply.db": 1.0, "other": 1.0, "failed": 90.0}
    text = squeezed(report_text(record({}), [trial(0, Role.BASELINE, BASELINE, 1.0, cost_s=cost_s)]))
    assert "1min40s: failed runs 90 %, measurement 8 %, changing settings 1 %, other 1 %" in text


def test_old_and_new_values_stand_with_units_restart_and_reason(better: Study) -> None:
    lines = [squeezed(line).strip() for line in report_text(*better).splitlines()]
    assert "shared_buffers 128MB 512MB on restart memory for pages shared by all connections" in lines
    assert "work_mem 4MB 64MB on reload memory that one sort or hash may use before it" in lines


@pytest.mark.slow
@pytest.mark.parametrize(
    "expected",
    [
        "random_page_cost (taking it back cost 0.2 %, less than the noise)",
        "config throughput (/s) times as fast 95 % interval measured in yours 11.2 1 the same pairs",
        "rule-based advice 14.7 1.31 1.24 to 1.38",
        "tuned 20.5 1.82 1.61 to 2.05 6 alternating pairs",
        "35 trials: 30 ok, 2 crashed, 2 stopped early, 1 infeasible",
        "by role: 17 search, 6 proof baseline, 6 proof candidate, 5 baseline, 1 advice",
        "ended because: the budget of 5min is used up",
        "11 baseline measurements span 4.2 %: no drift beyond the noise.",
        "noise of one measurement: 1.4 % (standard deviation)",
        "tuned 920MiB of the budget of 1GiB, 90 %; yours 344MiB",
        "crashed (trials 6, 11): the server did not start",
        "FATAL: could not map anonymous shared memory: Cannot allocate memory",
        "infeasible (trial 16): shared_buffers + 12 * work_mem <= 1GiB is broken",
        "6min42s: measurement 72 %",
        "preparing the data took 14s more",
        "to apply: trimtab apply tpch to undo: trimtab rollback tpch ready to include: results/tpch.conf",
        "shared_buffers = 512MB",
    ],
)
def test_the_report_says(better: Study, expected: str) -> None:
    assert expected in squeezed(report_text(*better))


def test_no_improvement_is_said_and_nothing_is_offered(no_improvement: Study) -> None:
    text = squeezed(report_text(*no_improvement))
    assert (
        "No improvement found: the best candidate is 1.01 times as fast as yours (95 % interval 0.98 to 1.04), so it "
        "is not proven to be better by more than 3 %. Keep your config." in text
    )
    assert "best candidate 11.3 1.01 0.98 to 1.04 4 alternating pairs, not accepted" in text
    assert "to apply" not in text
    assert "tuned" not in text


def test_a_gain_below_the_noise_is_called_that(no_improvement: Study) -> None:
    """Its interval lies above what is needed; only its estimate is not above what two runs may differ by."""
    study, trials = no_improvement
    gain = replace(study.verdict.gain, estimate=1.06, low=1.05, high=1.07)  # type: ignore[type-var]
    text = " ".join(report_text(replace(study, verdict=replace(study.verdict, gain=gain)), trials).split())
    assert (
        "1.06 times as fast as yours (95 % interval 1.05 to 1.07): that is less than what two runs of your config"
        in text
    )
    assert "not proven to be better" not in text


def test_a_proven_gain_that_is_refused_for_another_reason_is_not_called_none(no_improvement: Study) -> None:
    study, trials = no_improvement
    rows = [
        {"name": "gain", "is_met": True, "text": "at least 2 %"},
        {"name": "stability", "is_met": False, "text": "its runs vary more"},
    ]
    gain = {"estimate": 3.0, "low": 1.3, "high": 7.1, "level": 0.95}
    text = squeezed(report_text(changed(study, gain=gain, conditions=rows), trials))
    assert (
        "No improvement accepted: the best candidate is 3.00 times as fast as yours (95 % interval 1.30 to 7.10)"
        in text
    )
    assert "but it is not accepted: stability: its runs vary more. Keep your config." in text


@pytest.mark.parametrize(
    ("gain_is_met", "stability_is_met", "word"),
    [(True, False, "accepted"), (False, False, "found"), (True, True, "found"), (False, True, "found")],
)
def test_only_a_proven_gain_is_said_to_be_refused(
    no_improvement: Study, gain_is_met: bool, stability_is_met: bool, word: str
) -> None:
    study, trials = no_improvement
    rows = [
        {"name": "stability", "is_met": stability_is_met, "text": "its runs vary more"},
        {"name": "gain", "is_met": gain_is_met, "text": "at least 2 %"},
    ]
    text = squeezed(report_text(changed(study, conditions=rows), trials))
    assert f"No improvement {word}: " in text
    assert ("not accepted: stability: its runs vary more" in text) is not stability_is_met


def test_a_candidate_that_failed_in_the_proof_is_named(no_improvement: Study) -> None:
    study, trials = no_improvement
    study = replace(study, verdict=Verdict(result="no_improvement", failure="trial 9 ended as crashed: out of memory"))
    assert (
        "No improvement found: the best candidate failed during the proof (trial 9 ended as crashed: out of "
        "memory). Keep your config." in squeezed(report_text(study, trials))
    )


def test_nothing_found_at_all() -> None:
    study = record({"result": "no_improvement"}, status="no_improvement")
    assert "No improvement found: nothing in 0 trials beat your config. Keep it." in report_text(study, [])
    missed = [trial(n, Role.SEARCH if n else Role.BASELINE, BASELINE, 1.0 + n, excess=0.2) for n in range(2)]
    text = squeezed(report_text(study, missed))
    assert "nothing in 2 trials met the constraints of the objective, and neither does your config." in text
    assert "measured (trials 0, 1): a constraint of the objective was missed" in text


def test_a_study_without_trials_has_a_report() -> None:
    text = report_text(record({}, status="running"), [], with_trials=True)
    assert "Not finished after 0 trials: nothing better than your config so far." in text


def test_a_best_that_is_worse_is_not_offered() -> None:
    trials = [trial(0, Role.BASELINE, BASELINE, 1.0), trial(1, Role.SEARCH, BASELINE, 0.8)]
    assert "nothing better than your config so far" in report_text(record({}), trials)


def test_latency_objectives_name_their_metric(better: Study) -> None:
    study, trials = better
    text = squeezed(report_text(replace(study, objective="p95 where throughput >= 2"), trials))
    assert "is 1.82 times as fast as yours by the 95th percentile of latency (95 % interval 1.61 to 2.05)" in text


@pytest.mark.parametrize(("objective", "named"), [("score", "score"), ("cost", "cost")])
def test_what_a_program_reports_need_not_be_a_speed(better: Study, objective: str, named: str) -> None:
    study, trials = better
    text = headline(replace(study, objective=objective), trials, None)
    assert f"is 1.82 times as good as yours by the {named} that it reports (95 % interval 1.61 to 2.05)" in text


def test_an_opened_safety_class_is_repeated_loudly(better: Study) -> None:
    _, trials = better
    verdict = better_verdict(trials)
    verdict["unlocked"] = ["durability", "security"]
    verdict["knobs"]["jit"]["safety"] = "durability"
    text = squeezed(report_text(record(verdict), trials))
    assert (
        "WARNING: the safety class DURABILITY was unlocked; a crash of the machine can lose committed transactions; this "
        "config uses it: jit." in text
    )
    assert (
        "the safety class SECURITY was unlocked; it can weaken the protection of the data; this config does not" in text
    )
    assert "jit [DURABILITY]" in text


def test_memory_over_the_budget_is_red(better: Study) -> None:
    study, trials = better
    out = io.StringIO()
    print_report(
        changed(study, memory={"winner": {"shared_buffers": 3 << 30, "budget": 1 << 30}}),
        trials,
        console=Console(file=out, force_terminal=True, no_color=False, width=110),
    )
    assert "\x1b[1;31mtuned 3GiB of the budget of 1GiB, 300 %; yours 0B" in out.getvalue()


def test_every_trial_is_in_the_table(better: Study) -> None:
    out = io.StringIO()
    print_report(*better, console=Console(file=out, width=200), with_trials=True)
    rows = [squeezed(line).strip() for line in out.getvalue().splitlines()]
    first = rows.index("trial role status throughput (/s) times as fast cost changed")
    assert rows[first - 2 : first] == ["", "Every trial"], (
        "it is no part of the lines for a configuration file before it"
    )
    assert [row.split()[0] for row in rows[first:] if re.match(r"\d+ [a-z]", row)] == [str(n) for n in range(35)]
    assert "3 advice ok 14.7 1.31 (1.26 to 1.36) 11.46s shared_buffers = 256MB, work_mem = 16MB" in rows


def test_a_cost_that_a_program_reports_is_told_from_the_time_of_a_trial(better: Study) -> None:
    study, trials = better
    study = replace(study, objective="cost")
    trials = [replace(each, measurement=None) for each in trials]
    text = squeezed(report_text(study, trials, with_trials=True, width=200))
    assert "trial role status cost times as good time changed" in text
    assert 'times as good</th><th class="n">time</th><th>changed' in squeezed(render_html(study, trials))


def test_nothing_is_said_of_when_a_setting_of_a_program_takes_effect(better: Study) -> None:
    study, trials = better
    study = replace(study, settings={"session": {}, "target": {"session": {"kind": "session"}}})
    text, page = squeezed(report_text(study, trials)), squeezed(render_html(study, trials))
    assert "knob yours tuned what it does" in text
    assert "shared_buffers 128MB 512MB memory for pages shared by all connections" in text
    assert "takes effect" not in text + page
    assert "<th>tuned</th><th>what it does</th>" in page


def test_trials_that_miss_a_constraint_are_failures() -> None:
    trials = [trial(0, Role.BASELINE, BASELINE, 1.0), trial(1, Role.SEARCH, BASELINE, 2.0, excess=0.2)]
    summary = summarise(record({}), trials)
    assert [(f.status, f.reason, f.numbers) for f in summary.failures] == [
        (Status.OK, "a constraint of the objective was missed", (1,))
    ]
    assert summary.best is None


def test_hostile_text_cannot_speak_to_the_terminal(hostile: Study) -> None:
    text = report_text(*hostile, with_trials=True)
    assert "<script>alert(1)</script>" in text
    assert "owned" not in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800]", text)
    assert "[bold]" in text
    text.encode()


def test_the_terminal_report_does_not_wait_for_the_libraries_of_the_others() -> None:
    script = "import sys, trimtab.report; print([m for m in ('plotly', 'jinja2', 'sqlalchemy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "[]\n"


def test_operations_that_a_winner_made_slower_are_named(better: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Not everything gained" not in report_text(*better)
    monkeypatch.setitem(QUERIES, "q13", (0.55, 0.7))
    trials = [*search_trials(), *proof_trials(20, better[0].verdict.config, 1.82)]
    text = squeezed(report_text(better[0], trials))
    assert "Not everything gained: q13 (0.6" in text or "Not everything gained: q13 (0.7" in text
    assert "Not everything gained: q13" in render_html(better[0], trials)


def test_a_report_in_a_pipe_has_no_blanks_at_the_ends_of_lines(
    better: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    print_report(*better, with_trials=True)
    printed = capsys.readouterr().out
    assert printed == report_text(*better, with_trials=True)
    assert not [line for line in printed.splitlines() if line != line.rstrip()]


def test_baselines_of_different_contexts_are_not_compared(better: Study) -> None:
    study, trials = better
    apart = [replace(trial, context=replace(trial.context, workload=f"context {trial.number}")) for trial in trials]
    assert "11 baseline measurements span 0 %" in squeezed(report_text(study, apart))


def test_a_load_that_is_not_known_is_not_named(better: Study) -> None:
    study, trials = better
    unknown = replace(study, context=Context("", 0))
    assert report_text(unknown, trials).splitlines()[0] == "Study tpch on host db1"


def test_what_a_program_reports_is_good_and_not_fast_everywhere(running: Study) -> None:
    study, trials = running
    figured = [
        replace(each, measurement=replace(each.measurement, figure=each.measurement.throughput, by_label={}))
        if each.measurement is not None
        else each
        for each in trials
    ]
    study = replace(study, objective="score")
    for said in (report_text(study, figured, with_trials=True), render_html(study, figured)):
        assert "times as good" in said
        assert "as fast" not in said.lower()


def test_a_baseline_beyond_the_time_outs_is_no_drift(running: Study) -> None:
    study, trials = running
    lost = trial(len(trials), Role.BASELINE, BASELINE, 1.0)
    assert lost.measurement is not None
    infinite = Interval(math.inf, 5000.0, math.inf)
    lost = replace(lost, loss=None, measurement=replace(lost.measurement, throughput=infinite))
    assert summarise(study, [*trials, lost]).drift == summarise(study, trials).drift
    assert "inf" not in figure_svg(
        "drift", report_figures(study, [*trials, lost], summarise(study, [*trials, lost]))["drift"]
    )


def test_ranks_that_are_not_shown_are_counted() -> None:
    ranks = [
        KnobRank(knob=f"k{i}", rank=i + 1, rank_low=1, rank_high=10, score=0.1, score_low=0, score_high=0.2)
        for i in range(10)
    ]
    consensus = Consensus(knobs=tuple(ranks), rankings=(), knee=10, n_trials=50, r2=0.5)
    out = io.StringIO()
    Console(file=out, width=100).print(_explanation(Explanation(consensus=consensus, text="10 of 10 knobs")))
    assert "and 2 knobs more of them" in out.getvalue()
