"""bench: the runs are a study of their own in the history, which nothing takes for more than it is."""

from __future__ import annotations

import math
from io import StringIO

import pytest
from rich.console import Console

from tests.fakes import FakeStudy
from trimtab.errors import ForeignChangeError, LoadError, UsageError
from trimtab.history import BENCHED, History, open_history_at
from trimtab.measure import Interval
from trimtab.records import Role
from trimtab.report import print_bench, render_html, report_text, to_json
from trimtab.report.headline import headline
from trimtab.space import Config
from trimtab.study import apply_winner, bench, load_study_file, rank_study
from trimtab.study.benching import BenchResult
from trimtab.trial import Interrupted


def benched(fake: FakeStudy, n_runs: int = 3, **settings: str) -> BenchResult:
    file = fake.path / "study.toml"
    file.write_text(fake.written, encoding="utf-8")
    return bench(
        load_study_file(file), fake.path / "state", settings=settings, n_runs=n_runs, listener=fake.listener,
        say=fake.listener.phase,
    )  # fmt: skip


def history_of(fake: FakeStudy) -> History:
    return open_history_at(None, fake.path / "state")


def test_every_run_is_in_the_history(fake: FakeStudy) -> None:
    result = benched(fake, cache="256MB")
    with history_of(fake) as history:
        (summary,) = history.summaries()
        record, trials = history.study(summary.id), history.trials(summary.id)
    assert (summary.name, summary.status, summary.n_trials) == ("fake.bench", BENCHED, 3)
    assert tuple(trials) == result.trials
    assert {t.role for t in trials} == {Role.BENCH}
    kept = record.verdict.bench
    assert kept is not None
    assert (kept.settings, kept.noise) == (Config({"cache": 256}), result.noise.relative_sd)
    assert kept.value is not None
    assert (kept.value.estimate, kept.value.low) == (result.value.estimate, result.value.low)


def test_a_value_of_the_users_own_need_not_be_a_round_one(fake: FakeStudy) -> None:
    """A search would try 256MB and 320MB."""
    result = benched(fake, n_runs=2, cache="300MB")
    assert result.config == Config({"cache": 300})
    assert {trial.config["cache"] for trial in result.trials} == {300}


def test_it_shows_as_what_it_is(fake: FakeStudy) -> None:
    benched(fake, n_runs=2)
    with history_of(fake) as history:
        (summary,) = history.summaries(None)
        record, trials = history.study(summary.id), history.trials(summary.id)
    sentence = headline(record, trials, None)
    assert sentence.startswith("Your config: throughput ")
    assert "2 runs" in sentence
    assert sentence in report_text(record, trials)
    assert to_json(record, trials)["study"]["status"] == "benched"
    assert sentence in render_html(record, trials)


def test_a_run_whose_percentile_is_not_known_leaves_the_least_that_it_may_be(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many time-outs that the percentile lies beyond them."""
    runs = [Interval(80.0, 70.0, 90.0, se=5.0), Interval(math.inf, 95.0, math.inf)]
    monkeypatch.setattr("trimtab.study.benching._values", lambda objective, trials: runs[: len(trials)])
    result = benched(fake, n_runs=2)
    assert (result.value.estimate, result.value.low, result.value.high) == (math.inf, 70.0, math.inf)
    assert (math.isnan(result.noise.relative_sd), result.noise.floor) == (True, math.inf)
    shown = StringIO()
    print_bench(result.trials, result.objective, result.value, result.noise, Console(file=shown), result.remarks)
    text = shown.getvalue()
    assert "throughput: ≥ 70/s (95 % interval 70 to ∞, 2 runs)" in text
    assert "noise of this machine" not in text
    with history_of(fake) as history:
        (summary,) = history.summaries()
        record = history.study(summary.id)
    kept = record.verdict.bench
    assert kept is not None
    assert (kept.value, kept.noise) == (None, None)
    assert headline(record, result.trials, None) == "Your config: throughput –/s (2 runs)."


def test_runs_before_one_that_fails_are_kept(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.workload.noise_sd = 0.0
    start = type(fake.workload).start

    def failing(self: object, *args: object, **options: object) -> object:
        fake.workload.error_share = 0.5 if len(fake.workload.seeds) else 0.0
        return start(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(type(fake.workload), "start", failing)
    with pytest.raises(LoadError, match="run 2 ended as failed_load"):
        benched(fake)
    with history_of(fake) as history:
        (summary,) = history.summaries()
        record, trials = history.study(summary.id), history.trials(summary.id)
    assert (summary.status, len(trials)) == (BENCHED, 2)
    assert headline(record, trials, None) == "A measurement of one config that ended before its time, after 2 runs."


def test_the_stop_file_ends_it_and_leaves_the_target_as_found(fake: FakeStudy) -> None:
    found = dict(fake.target.values)

    def stop(text: str) -> None:
        if text.startswith("run 1 of 3"):
            (fake.path / "state" / "stop").touch()

    fake.listener.on_phase = stop
    with pytest.raises(Interrupted, match="stopped by the kill switch"):
        benched(fake, cache="256MB")
    assert dict(fake.target.values) == found
    with history_of(fake) as history:
        (summary,) = history.summaries()
    assert (summary.status, summary.n_trials) == (BENCHED, 1)


def test_what_was_only_measured_is_not_applied(fake: FakeStudy) -> None:
    benched(fake, n_runs=1, cache="256MB")
    with history_of(fake) as history:
        record = history.study(history.summaries()[0].id)
    with pytest.raises(UsageError, match="study='fake.bench' has no proven winner: its status is 'benched'"):
        apply_winner(record, load_study_file(fake.path / "study.toml"), fake.path / "state")


@pytest.mark.slow
def test_tune_does_not_start_from_it(fake: FakeStudy) -> None:
    benched(fake)
    fake.text += '\n[search]\nwarm_start = "auto"\n'
    record, trials = fake.tune()
    assert record.status == "proven"
    assert not any(t.role is Role.BENCH for t in trials)
    assert record.verdict.warm_start is not None
    assert record.verdict.warm_start.studies == ()


def test_a_warm_start_that_names_it_is_refused(fake: FakeStudy) -> None:
    benched(fake)
    fake.text += '\n[search]\nwarm_start = ["fake.bench"]\n'
    with pytest.raises(
        UsageError, match="search.warm_start names 'fake.bench', a measurement of one config"
    ) as refused:
        fake.tune()
    assert refused.value.hint == "name studies made by `trimtab tune`"


def test_it_cannot_be_ranked(fake: FakeStudy) -> None:
    benched(fake)
    with history_of(fake) as history:
        consensus = rank_study(history, "fake.bench").consensus
    assert consensus.verdict == "not enough data to tell: none of n_trials=3 has a finite loss (ok=3)"
    assert consensus.notes[0].startswith("Measure some first: trimtab tune STUDY")


def test_each_bench_is_a_study_of_its_own(fake: FakeStudy) -> None:
    benched(fake, n_runs=1)
    benched(fake, n_runs=1)
    with history_of(fake) as history:
        assert [(s.name, s.n_trials) for s in history.summaries()] == [("fake.bench", 1)] * 2


def test_a_setting_that_somebody_changes_while_the_data_is_made_ends_it(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history would say that the runs were of other settings than they were."""

    def made(*arguments: object) -> float:
        fake.target.disk.running["workers"] = 7
        return 0.0

    monkeypatch.setattr("trimtab.study.benching.prepared", made)
    with pytest.raises(ForeignChangeError, match=r"since its config was read: workers=7 \(it was 2\)"):
        benched(fake, n_runs=1)
    with history_of(fake) as history:
        assert history.summaries() == []
