"""[search] passes in a whole study on the fakes: what it finds, what it keeps for a resume, and what the reports show."""

from __future__ import annotations

import os
import signal

import pytest

from tests.fakes import FakeStudy
from trimtab.errors import UsageError
from trimtab.records import Role, Status, Trial
from trimtab.report import render_html, report_text, to_json
from trimtab.study import StudyFile, load_study_file

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ablated")]


def _in_passes(fake: FakeStudy, kind: str, budget: str = "30 trials") -> None:
    fake.target._speed = lambda values: (
        1000.0 * (1.5 if float(values["cache"]) >= 400 else 1.0) * (1.0 if values["compile"] else 1.4)
    )
    fake.workload.noise_sd = 0.005
    fake.text = (
        fake.text.replace("12 trials", budget)
        + f'\n[search]\nsearcher = "forest"\npasses = "{kind}"\n[measure]\nwindow = "5s"\nwindow_max = "20s"\n'
    ).replace('[measure]\nwindow = "5s"\nwindow_max = "5s"\n', "", 1)


def test_a_restart_pass_and_a_reload_pass_find_both_gains(fake: FakeStudy) -> None:
    _in_passes(fake, "restart-first")
    record, trials = fake.tune()
    assert record.status == "proven"
    assert set(record.verdict.config) == {"cache", "compile"}
    passes = record.verdict.passes
    assert passes is not None
    late, soon = passes.passes
    assert (late.knobs, late.has_gained, soon.has_gained) == (("cache",), True, True)
    assert late.trials < soon.trials
    search = [trial for trial in trials if trial.role is Role.SEARCH]
    # Those that are clearly worse end early, in either pass.
    windows = [t.measurement.duration_s if t.measurement and t.status is Status.OK else 0.0 for t in search]
    assert max(windows[: late.trials]) >= 10.0 > max(windows[late.trials :])


def test_the_reports_show_what_each_pass_brought_and_cost(fake: FakeStudy) -> None:
    _in_passes(fake, "restart-first")
    record, trials = fake.tune()
    text, html, data = report_text(record, trials), render_html(record, trials), to_json(record, trials)
    assert "What each pass of the search brought and cost" in text
    assert "1 knob that need a restart" in text
    assert "What each pass of the search brought and cost" in html
    assert "5 knobs that take effect at once" in html
    rows = data["summary"]["passes"]
    assert [row["number"] for row in rows] == [1, 2]
    assert rows[0]["knobs"] == ["cache"]
    assert rows[0]["gain"] == pytest.approx(1.5, rel=0.05)
    assert rows[0]["cost_s"] > 0
    assert data["study"]["verdict"]["passes"]["plan"]["kind"] == "restart-first"


def test_a_study_that_is_cut_off_goes_on_in_its_pass_even_with_another_budget(fake: FakeStudy) -> None:
    _in_passes(fake, "alternate")

    def stop(trial: Trial) -> None:
        if trial.number == 12:
            os.kill(os.getpid(), signal.SIGINT)

    fake.listener.on_trial = stop
    cut, first = fake.tune()
    assert cut.verdict.passes is not None
    assert cut.verdict.passes.plan.room == 30
    assert cut.verdict.passes.passes[0].trials > 0
    fake.listener.on_trial = lambda trial: None
    fake.text = fake.text.replace("30 trials", "34 trials")
    record, trials = fake.tune()
    assert record.status == "proven"
    assert trials[: len(first)] == first
    assert not any("do not fit" in text for text in fake.listener.phases)
    assert record.verdict.passes is not None
    assert record.verdict.passes.plan.room == 30


def test_one_pass_is_what_there_was_before(fake: FakeStudy) -> None:
    """The key may be left out, and studies that began before there was one are resumed."""
    file = _loaded(fake, "")
    assert file.search.passes == "one"
    assert _loaded(fake, '\n[search]\npasses = "one"\n').fingerprint == file.fingerprint
    assert _loaded(fake, '\n[search]\npasses = "alternate"\n').fingerprint != file.fingerprint


def _loaded(fake: FakeStudy, more: str) -> StudyFile:
    path = fake.path / "file.toml"
    path.write_text(fake.text + more, encoding="utf-8")
    return load_study_file(path)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (
            'passes = "two"',
            r"search.passes='two' in file.toml: Input should be 'one', 'restart-first', 'alternate' or 'tiers'",
        ),
        ('passes = "tiers"', "search.passes='tiers' has nothing to divide: the study has one target"),
        ("passes = 2", "search.passes=2 in file.toml: Input should be"),
        (
            'passes = "alternate"\nprune = "auto"',
            "search.passes='alternate' and search.prune='auto' both divide the settings",
        ),
    ],
)
def test_bad_passes_are_refused(fake: FakeStudy, search: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _loaded(fake, f"\n[search]\n{search}\n")


def test_passes_over_knobs_of_one_kind_are_refused_before_anything_is_measured(fake: FakeStudy) -> None:
    _in_passes(fake, "restart-first")
    fake.target._knobs = ("compile", "workers")
    with pytest.raises(UsageError, match="search.passes has nothing to divide: all n_knobs=2 knobs"):
        fake.tune()
    assert fake.workload.seeds == []
