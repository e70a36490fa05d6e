"""rank: designs are measured, resumed and extended; ranks come from the history alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes import FakeStudy
from tests.study.test_batches import SPACE
from trimtab.errors import HistoryError, UsageError
from trimtab.history import StudyRecord, open_history_at, space_to_json
from trimtab.records import Context, Role, Status, StopKind, Trial
from trimtab.study import load_study_file, rank_study, run_design
from trimtab.study.rank import Ranked, _require_same_task
from trimtab.trial import Journal

pytestmark = pytest.mark.slow


def _design(
    fake: FakeStudy, kind: str = "lhs", runs: int | None = 16, **options: Any
) -> tuple[StudyRecord, list[Trial]]:
    path = fake.path / "study.toml"
    path.write_text(fake.written, encoding="utf-8")
    return run_design(load_study_file(path), fake.path / "state", fake.listener, kind=kind, runs=runs, **options)


def _rank(fake: FakeStudy, name: str, **options: Any) -> Ranked:
    with open_history_at(None, fake.path / "state") as history:
        return rank_study(history, name, **options)


def _designed(trials: list[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.role is Role.DESIGN]


def _one_knob(values: Any) -> float:
    """Speed by one knob alone."""
    return 1000.0 * (1.0 + float(values["page_cost"]) / 8)


@pytest.mark.parametrize(("kind", "runs"), [("lhs", 16), ("sobol", 16), ("sard", None), ("one-at-a-time", None)])
def test_a_design_is_measured_with_the_baseline_between_and_the_target_left_as_found(
    fake: FakeStudy, kind: str, runs: int | None
) -> None:
    found = dict(fake.target.values)
    record, trials = _design(fake, kind, runs)
    assert (record.name, record.status) == (f"fake.rank-{kind}", "ranked")
    assert [trial.role for trial in trials[:3]] == [Role.BASELINE] * 3
    assert len(_designed(trials)) == record.verdict.design.n_runs
    assert sum(trial.role is Role.BASELINE for trial in trials[3:]) == (len(_designed(trials)) - 1) // 6
    assert all(trial.loss is not None for trial in _designed(trials))
    assert dict(fake.target.values) == found
    assert Journal(fake.path / "state").open_entries() == []


def test_a_design_that_is_whole_is_not_measured_again(fake: FakeStudy) -> None:
    record, trials = _design(fake)
    n_runs = len(fake.workload.seeds)
    again, stored = _design(fake, runs=12)
    assert (again.id, stored) == (record.id, trials)
    assert len(fake.workload.seeds) == n_runs


def test_an_interrupted_design_resumes_and_pays_for_no_run_twice(fake: FakeStudy) -> None:
    fake.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == 7 else None
    record, trials = _design(fake)
    assert (record.status, record.verdict.result, len(trials)) == ("interrupted", "interrupted", 8)
    n_runs = len(fake.workload.seeds)
    fake.listener.on_trial = lambda trial: None
    resumed, every = _design(fake)
    assert (resumed.id, resumed.status) == (record.id, "ranked")
    assert (record.verdict.stop_kind, resumed.verdict.stop_kind) == (StopKind.ASKED, StopKind.OVER)
    assert every[:8] == trials
    assert len(fake.workload.seeds) - n_runs == len(every) - 8


def test_the_kill_switch_ends_a_design_and_keeps_one_from_beginning(fake: FakeStudy) -> None:
    switch = fake.path / "state" / "stop"
    fake.listener.on_trial = lambda trial: switch.touch() if trial.number == 4 else None
    record, trials = _design(fake, runs=12)
    assert (record.status, len(trials)) == ("interrupted", 5)
    assert record.verdict.stop_reason == f"stopped by the kill switch: file={switch}"
    n_runs = len(fake.workload.seeds)
    with pytest.raises(UsageError, match="the kill switch is on: file="):
        _design(fake, runs=12)
    assert len(fake.workload.seeds) == n_runs
    with open_history_at(None, fake.path / "state") as history:
        assert history.study(record.id).status == "interrupted"


def test_a_dead_process_loses_the_run_in_flight_only(fake: FakeStudy) -> None:
    class KilledError(BaseException):
        pass

    def die(trial: Trial) -> None:
        if trial.number == 9:
            raise KilledError

    fake.listener.on_trial = die
    with pytest.raises(KilledError):
        _design(fake)
    with open_history_at(None, fake.path / "state") as history:
        assert [study.status for study in history.summaries()] == ["interrupted"]
    n_runs = len(fake.workload.seeds)
    fake.listener.on_trial = lambda trial: None
    record, trials = _design(fake)
    assert record.status == "ranked"
    assert len(fake.workload.seeds) - n_runs == len(trials) - 10


def test_more_runs_are_added_to_a_design(fake: FakeStudy) -> None:
    record, trials = _design(fake)
    more, every = _design(fake, runs=28)
    assert more.id == record.id
    assert every[: len(trials)] == trials
    assert len(_designed(every)) == 28
    assert len({trial.config for trial in _designed(every)}) > 20
    assert more.verdict.design.batches == (16, 12)


def test_how_a_winner_is_searched_may_change_between_two_runs_of_a_design(fake: FakeStudy) -> None:
    record, _ = _design(fake)
    fake.text += "\n[search]\nprune = 2\npatience = 5\n"
    again, _ = _design(fake)
    assert again.id == record.id


def test_a_design_of_another_load_is_refused(fake: FakeStudy) -> None:
    _design(fake)
    fake.text = fake.text.replace('window = "5s"', 'window = "4s"')
    with pytest.raises(HistoryError, match=r"holds a design named 'fake.rank-lhs' of another study file") as caught:
        _design(fake)
    assert caught.value.hint == "give the study another name, or start again with --again"
    assert _design(fake, again=True)[0].status == "ranked"


def test_a_design_does_not_stand_in_the_way_of_tune(fake: FakeStudy) -> None:
    fake.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == 5 else None
    tuned, first = fake.tune()
    fake.listener.on_trial = lambda trial: None
    _design(fake)
    resumed, trials = fake.tune()
    assert resumed.id == tuned.id
    assert trials[: len(first)] == first


def test_runs_that_crash_have_a_status_and_the_rest_is_ranked(fake: FakeStudy) -> None:
    fake.target._crash_when = lambda values: values["method"] == "ring"
    fake.target._speed = _one_knob
    _, trials = _design(fake, runs=24)
    crashed = [trial for trial in trials if trial.status is Status.CRASHED]
    assert crashed
    assert all(trial.role is Role.DESIGN and "FATAL" in trial.reason for trial in crashed)
    ranked = _rank(fake, "fake")
    assert ranked.consensus.names[0] == "page_cost"
    assert f"{len(crashed)} of {len(trials)} trials failed" in " ".join(ranked.consensus.notes)


def test_the_knob_that_matters_is_first_and_worth_tuning(fake: FakeStudy) -> None:
    fake.target._speed = _one_knob
    _design(fake, runs=24)
    ranked = _rank(fake, "fake")
    assert (ranked.consensus.names[0], ranked.consensus.verdict) == ("page_cost", "")
    assert 1 <= ranked.consensus.knee < 6
    assert ranked.consensus.knobs[0].score > 0.5
    assert ranked.record.name == "fake.rank-lhs"
    assert ranked.next_runs == 0


def test_noise_alone_is_not_ranked(fake: FakeStudy) -> None:
    fake.target._speed = lambda values: 1000.0
    _design(fake, runs=16)
    ranked = _rank(fake, "fake", rankers=["forest", "lasso"])
    assert ranked.consensus.verdict.startswith("not enough data to tell")
    assert ranked.next_runs == 30


def test_trials_of_tune_and_design_count_together_when_asked(fake: FakeStudy) -> None:
    fake.target._speed = _one_knob
    _, designed = _design(fake)
    _, tuned = fake.tune()
    assert _rank(fake, "fake").consensus.n_trials <= len(tuned)
    both = _rank(fake, "fake", beside=["fake.rank-lhs"])
    assert both.sources == ("fake", "fake.rank-lhs")
    assert len(both.trials) == len(tuned) + len(designed)
    assert both.consensus.names[0] == "page_cost"


def test_studies_of_another_target_table_are_ranked_together_and_those_of_another_objective_not(
    fake: FakeStudy,
) -> None:
    _design(fake)
    text = fake.text
    fake.text = text.replace('kind = "fake"\n\n[workload]', 'kind = "fake"\nmemory_mib = 512\n\n[workload]', 1)
    _design(fake, "one-at-a-time", None)
    beside = _rank(fake, "fake.rank-lhs", rankers=["lasso"], beside=["fake.rank-one-at-a-time"])
    assert len(beside.sources) == 2
    fake.text = text.replace('name = "fake"', 'name = "fake"\nobjective = "latency_p99"', 1)
    _design(fake, "sobol", 12)
    with pytest.raises(UsageError, match="study='fake.rank-sobol' has objective='latency_p99'") as caught:
        _rank(fake, "fake.rank-lhs", beside=["fake.rank-sobol"])
    assert caught.value.hint == "rank them separately: their trials do not measure the same thing"


def test_studies_of_another_space_are_not_mixed(fake: FakeStudy) -> None:
    _design(fake)
    fake.target._knobs = ["cache", "sort_memory", "page_cost"]
    _design(fake, "sobol")
    with pytest.raises(
        UsageError, match="another space than study='fake.rank-lhs': only one of them has compile"
    ) as caught:
        _rank(fake, "fake.rank-lhs", beside=["fake.rank-sobol"])
    assert "[search] ranks" in str(caught.value.hint)


def test_studies_of_more_clients_are_not_mixed() -> None:
    def study(name: str, clients: int) -> Any:
        return SimpleNamespace(
            name=name, space=space_to_json(SPACE), baseline=SPACE.default(), objective="throughput",
            context=Context("ycsb A", clients, 0.5),
        )  # fmt: skip

    _require_same_task(study("one", 4), study("two", 4), SPACE)
    with pytest.raises(UsageError, match="study='two' has clients=64, study='one' has clients=4"):
        _require_same_task(study("one", 4), study("two", 64), SPACE)


def test_studies_of_another_baseline_are_not_mixed(fake: FakeStudy) -> None:
    _design(fake)
    fake.target.disk.running["cache"] = 64
    _design(fake, "sobol")
    with pytest.raises(UsageError, match=r"another baseline than study='fake.rank-lhs': cache=64, not 128"):
        _rank(fake, "fake.rank-lhs", beside=["fake.rank-sobol"])


def test_changed_server_is_not_mixed_into_a_design(fake: FakeStudy) -> None:
    _design(fake)
    fake.target.disk.running["cache"] = 64
    with pytest.raises(HistoryError, match=r"running config has changed since study='fake.rank-lhs' began: cache=64"):
        _design(fake, runs=28)


_IMPOSSIBLE: tuple[tuple[Callable[[FakeStudy], object], str, str], ...] = (
    (lambda fake: _rank(fake, "nobody"), "the history holds no study named 'nobody'", "it holds: fake.rank-lhs"),
    (lambda fake: _rank(fake, "fake", beside=["nobody"]), "no study named 'nobody'", "it holds: fake.rank-lhs"),
    (lambda fake: _rank(fake, "fake", rankers=["forrest"]), "unknown ranker='forrest'", "did you mean 'forest'?"),
    (lambda fake: _design(fake, "latin"), "unknown design='latin'", "use one of: sard, lhs, sobol, one-at-a-time"),
    (lambda fake: _design(fake, "sobol", 3), "runs=3 are too few for design='sobol'", "ask for 8 or more"),
    (lambda fake: _design(fake, "sard", 3), "runs=3 are too few for design='sard'", "6 knobs need 8 runs"),
)


def test_what_cannot_be_done_is_said(fake: FakeStudy) -> None:
    _design(fake)
    for act, message, hint in _IMPOSSIBLE:
        with pytest.raises(UsageError) as caught:
            act(fake)
        assert message in caught.value.message
        assert hint in str(caught.value.hint)


def test_too_few_trials_are_said(fake: FakeStudy) -> None:
    fake.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == 5 else None
    _design(fake)
    ranked = _rank(fake, "fake")
    assert "different measured configs are too few to rank n_knobs=6: at least 8 are needed" in ranked.consensus.verdict
    assert (ranked.consensus.knobs, ranked.next_runs) == ((), 30)


def test_a_design_of_which_every_run_failed_is_said(fake: FakeStudy) -> None:
    baseline = dict(fake.target.values)
    fake.target._crash_when = lambda values: dict(values) != baseline
    record, trials = _design(fake)
    assert record.status == "ranked"
    assert {trial.status for trial in _designed(trials)} == {Status.CRASHED}
    verdict = _rank(fake, "fake").consensus.verdict
    assert verdict.startswith("not enough data to tell: n_configs=1 different measured configs are too few")
