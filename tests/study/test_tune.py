"""The loop from baseline to verdict, on fakes with known truth."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.fakes import FakeStudy
from trimtab.errors import ApplyError, ForeignChangeError, HistoryError, LoadError, LockedError, UsageError
from trimtab.history import History, StudyCopy, find_study, open_history_at, read_space
from trimtab.importance import RankProblem, rank_knobs
from trimtab.records import DriftSummary, Endpoint, Role, Status, Trial
from trimtab.report.explain import explain
from trimtab.space import Config
from trimtab.study import (
    Change,
    Proposal,
    apply_winner,
    load_study_file,
    rollback,
)
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeWorkload
from trimtab.trial import Journal
from trimtab.workload import Preparation

pytestmark = pytest.mark.slow


def _roles(trials: list[Trial]) -> Counter[Role]:
    return Counter(trial.role for trial in trials)


@pytest.mark.usefixtures("ablated")
def test_a_real_gain_is_found_proven_and_the_target_left_as_found(fake: FakeStudy) -> None:
    found = dict(fake.target.values)
    record, trials = fake.tune()
    gain = record.verdict.gain
    assert record.status == "proven"
    assert gain.low > 1.02
    truth = _speed(fake, record.verdict.config) / _speed(fake, {})
    assert gain.low * 0.97 <= truth <= gain.high * 1.03
    assert dict(fake.target.values) == found
    assert Journal(fake.path / "state").open_entries() == []
    assert _roles(trials)[Role.BASELINE] >= 3
    assert _roles(trials)[Role.PROOF_BASELINE] == _roles(trials)[Role.PROOF_CANDIDATE] >= 3


def test_the_winner_is_measured_beside_the_advice(fake: FakeStudy) -> None:
    fake.target._speed = lambda values: (
        (1000.0 if values["compile"] else 2000.0) * (1.2 if values["sort_memory"] > 8 else 1)
    )
    fake.workload.noise_sd = 0.002
    fake.text = (
        fake.text.replace("12 trials", "20 trials")
        + "\n[search.advice]\nsort_memory = '16MB'\n[proof]\nadvice = true\n"
    )
    record, trials = fake.tune()
    verdict = record.verdict
    beside = verdict.beside_advice
    assert verdict.advice_gain.estimate == pytest.approx(1.2, rel=0.02)
    assert beside.estimate == pytest.approx(verdict.gain.estimate / verdict.advice_gain.estimate, rel=0.01)
    assert 1.6 < beside.low < beside.estimate < beside.high < 2.1
    assert _roles(trials)[Role.PROOF_ADVICE] == len(verdict.advice_pairs)


def _speed(fake: FakeStudy, changes: dict[str, object]) -> float:
    twin = FakeTarget("twin")
    twin.disk.running.update(changes)  # type: ignore[arg-type]
    return twin.speed()


@pytest.mark.usefixtures("ablated")
def test_needless_knobs_are_dropped(fake: FakeStudy) -> None:
    fake.target._speed = lambda values: 2000.0 if not values["compile"] else 1000.0
    fake.workload.noise_sd = 0.002
    fake.text = fake.text.replace("12 trials", "20 trials")
    record, _ = fake.tune()
    assert record.status == "proven"
    assert dict(record.verdict.config) == {"compile": False}
    assert record.verdict.gain.estimate == pytest.approx(2.0, rel=0.03)


def test_flat_surface_gives_no_improvement(fake: FakeStudy) -> None:
    fake.target._speed = lambda values: 1000.0
    record, _ = fake.tune()
    assert record.status == "no_improvement"
    assert record.verdict.result == "no_improvement"


def test_every_trial_is_stored_before_the_next_starts(fake: FakeStudy) -> None:
    record, trials = fake.tune()
    again, stored = fake.tune()
    assert again.id == record.id
    assert [t.number for t in stored] == [t.number for t in trials] == list(range(len(trials)))
    assert [t.loss for t in stored] == [t.loss for t in trials]


def test_crashing_configs_are_results_and_do_not_end_the_study(fake: FakeStudy) -> None:
    fake.target._crash_when = lambda values: values["method"] == "ring"
    record, trials = fake.tune()
    crashed = [t for t in trials if t.status is Status.CRASHED]
    assert crashed
    assert trials[-1].number > crashed[0].number
    assert all(t.config["method"] == "ring" and "FATAL" in t.reason for t in crashed)
    assert record.verdict.config.get("method") != "ring"


def test_interrupted_study_resumes_and_pays_for_no_trial_twice(fake: FakeStudy) -> None:
    def stop(trial: Trial) -> None:
        if trial.number == 6:
            os.kill(os.getpid(), signal.SIGINT)

    fake.listener.on_trial = stop
    record, trials = fake.tune()
    assert (record.status, record.verdict.result) == ("interrupted", "interrupted")
    assert len(trials) == 7
    n_runs = len(fake.workload.seeds)
    fake.listener.on_trial = lambda trial: None
    resumed, resumed_trials = fake.tune()
    assert resumed.id == record.id
    assert resumed.status == "proven"
    assert resumed_trials[:7] == trials
    assert len(fake.workload.seeds) - n_runs == len(resumed_trials) - 7


@pytest.mark.usefixtures("ablated")
def test_a_study_stopped_after_its_proof_has_a_winner_and_can_be_resumed(fake: FakeStudy) -> None:
    def stop(phase: str) -> None:
        if phase == "measuring the gain more closely":
            os.kill(os.getpid(), signal.SIGINT)

    fake.workload.noise_sd = 0.03
    fake.listener.on_phase = stop
    record, trials = fake.tune()
    verdict = record.verdict
    assert (record.status, verdict.result, verdict.is_stopped) == ("proven", "better", True)
    assert verdict.importance is None
    assert apply_winner(record, load_study_file(fake.path / "study.toml"), fake.path / "state") is not None
    rollback("fake", fake.path / "state")
    fake.listener.on_phase = lambda text: None
    resumed, resumed_trials = fake.tune()
    assert (resumed.id, resumed.status, resumed.verdict.is_stopped) == (record.id, "proven", False)
    assert resumed_trials[: len(trials)] == trials
    assert len(resumed_trials) > len(trials)


def test_the_knobs_are_ranked_once_when_the_study_ends(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other studies on fakes skip it, since it takes most of their time."""
    monkeypatch.setattr("trimtab.report.explain._RESAMPLES", 4)
    fake.is_ranked = True
    record, trials = fake.tune()
    kept = record.verdict.importance
    assert kept is not None
    assert kept.n_trials == len(trials)
    made = rank_knobs(
        RankProblem(space=read_space(record), baseline=record.baseline, trials=tuple(trials), n_bootstrap=4)
    )
    monkeypatch.setattr("trimtab.importance.rank_knobs", lambda problem: pytest.fail("ranked again"))
    found = explain(record, trials)
    assert found.text == kept.text
    is_enough = (
        "Not enough data" not in found.text
    )  # how many configs are distinct depends on the time that a busy machine takes
    assert found.consensus == (made if is_enough and not made.verdict else None)


def test_stopped_before_the_first_baseline_is_measured(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(number: int, role: Role, changed: dict[str, str]) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(fake.listener, "trial_started", stop)
    record, trials = fake.tune()
    assert (record.status, record.verdict.stop_reason, trials) == ("interrupted", "stopped by the user", [])
    assert record.verdict.drift == DriftSummary(points=(), range=None, is_beyond_noise=False)


def test_an_imported_study_of_the_same_name_is_not_taken_for_the_result(fake: FakeStudy) -> None:
    fake.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == 4 else None
    record, trials = fake.tune()
    with open_history_at(None, fake.path / "state") as history:
        history.add_copies([StudyCopy(replace(record, origin="elsewhere"), trials)])
    fake.listener.on_trial = lambda trial: None
    resumed, _ = fake.tune()
    assert (resumed.id, resumed.status) == (record.id, "proven")


def test_what_was_measured_after_the_flow_had_changed_is_not_measured_again(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version begins with more runs of the baseline; it is interrupted as well, and goes on."""

    def stop_at(number: int) -> None:
        fake.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == number else None

    stop_at(6)
    fake.tune()
    monkeypatch.setattr("trimtab.flow.baseline.N_BASELINE_FIRST", 5)
    stop_at(11)
    _, second = fake.tune()
    assert [trial.number for trial in second] == [0, 1, 2, 7, 8, 9, 10, 11]
    told = [text for text in fake.listener.phases if "do not fit" in text]
    assert told == [
        "4 trials of the history do not fit the way this study goes now (another version of Trimtab?): they are kept, "
        "and not used"
    ]
    n_runs = len(fake.workload.seeds)
    stop_at(-1)
    record, third = fake.tune()
    assert record.status == "proven"
    assert third[: len(second)] == second
    assert len(fake.workload.seeds) - n_runs == len(third) - len(second)


def test_finished_study_is_shown_again_and_not_run(fake: FakeStudy) -> None:
    fake.text = fake.text.replace("12 trials", "3 trials")
    fake.tune()
    n_runs = len(fake.workload.seeds)
    fake.tune()
    assert len(fake.workload.seeds) == n_runs
    fake.tune(again=True)
    assert len(fake.workload.seeds) > n_runs


def test_changed_file_under_the_same_name_is_refused(fake: FakeStudy) -> None:
    fake.text = fake.text.replace("12 trials", "3 trials")
    fake.tune()
    fake.text = fake.text.replace('window = "5s"', 'window = "4s"')
    with pytest.raises(HistoryError, match="the history holds another study named 'fake'") as caught:
        fake.tune()
    assert caught.value.hint == "give the study another name, or start again with --again"


def test_slip_in_the_file_of_a_known_study_shows_as_itself(fake: FakeStudy) -> None:
    fake.text = fake.text.replace("12 trials", "3 trials")
    fake.tune()
    fake.text = fake.text.replace('[workload]\nkind = "fake"', '[workload]\nkind = "fkae"')
    with pytest.raises(UsageError, match="no plug-in 'fkae' in workloads"):
        fake.tune()


def test_changed_server_is_not_mixed_with_old_trials(fake: FakeStudy) -> None:
    fake.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == 4 else None
    fake.tune()
    fake.target.disk.running["cache"] = 64
    with pytest.raises(HistoryError, match="running config has changed since study='fake' began: cache=64"):
        fake.tune()


def test_second_tuner_is_refused(fake: FakeStudy) -> None:
    fake.target.disk.holder = "study=other pid=1"
    with pytest.raises(LockedError, match="study=other pid=1"):
        fake.tune()
    assert fake.target.counts["apply"] == 0


@pytest.mark.parametrize("n_good", [0, 2])
def test_baseline_that_cannot_be_measured_ends_the_study_and_is_measured_again(fake: FakeStudy, n_good: int) -> None:
    def fail(trial: Trial) -> None:
        fake.workload.error_share = 0.5 if trial.number >= n_good - 1 else 0.0

    fake.workload.error_share = 0.0 if n_good else 0.5
    fake.listener.on_trial = fail
    with pytest.raises(LoadError, match=r"the baseline itself cannot be measured: failed_load: error_rate=50"):
        fake.tune()
    fake.workload.error_share, fake.listener.on_trial = 0.0, lambda trial: None
    before = len(fake.workload.seeds)
    record, _ = fake.tune()
    assert record.status == "proven"
    assert len(fake.workload.seeds) > before


def test_a_target_that_somebody_changes_while_the_data_is_made_is_left_alone(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = FakeWorkload.prepare

    def beside_a_change(self: FakeWorkload, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        fake.target.disk.running["cache"] = 1024.0
        return prepare(self, endpoint, report)

    monkeypatch.setattr(FakeWorkload, "prepare", beside_a_change)
    with pytest.raises(
        ForeignChangeError, match=r"changed the target since its config was read: cache=1024.0 \(it was "
    ):
        fake.tune()
    assert fake.workload.seeds == []
    assert fake.target.disk.running["cache"] == 1024.0


def test_unknown_searcher_is_refused_before_anything_is_measured(fake: FakeStudy) -> None:
    fake.text += '\n[search]\nsearcher = "magic"\n'
    with pytest.raises(UsageError, match="no plug-in 'magic' in searchers"):
        fake.tune()
    assert fake.workload.seeds == []


def test_constraint_that_nothing_satisfies_is_refused_before_anything_is_measured(fake: FakeStudy) -> None:
    fake.text += '\n[search]\nconstraints = ["cache >= 2GiB", "cache <= 1GiB"]\n'
    with pytest.raises(UsageError, match="cache"):
        fake.tune()
    assert fake.workload.seeds == []


def test_ranges_narrow_the_space_and_must_be_accepted_by_the_target(fake: FakeStudy) -> None:
    fake.text += '\n[search.ranges]\ncache = ["64MB", "256MB"]\n'
    _, trials = fake.tune()
    tried = {int(trial.config["cache"]) for trial in trials}
    assert len(tried) > 2
    assert 64 <= min(tried) <= max(tried) <= 256
    fake.text = fake.text.replace('"64MB", "256MB"', '"64MB", "2 bananas"')
    with pytest.raises(UsageError, match="search.ranges cache='2 bananas'"):
        fake.tune(again=True)


def test_a_range_of_the_users_own_leaves_special_values_out(fake: FakeStudy) -> None:
    fake.text += '\n[search]\nsearcher = "sobol"\nranges = { workers = [4, 8] }\n[proof]\nablate = false\n'
    _, trials = fake.tune()
    tried = {trial.config["workers"] for trial in trials}
    assert len(tried) > 2, tried
    assert tried <= {2, 4, 5, 6, 7, 8}  # 2: as found; the catalogue's 0 is outside


def test_rules_that_advise_beyond_the_users_range_are_brought_into_it(fake: FakeStudy) -> None:
    fake.text += '\n[search.ranges]\ncache = ["64MB", "200MB"]\n'
    _, trials = fake.tune()
    advised = next(trial for trial in trials if trial.role is Role.ADVICE)
    assert advised.config["cache"] == 200


def test_advice_and_ranges_name_known_knobs(fake: FakeStudy) -> None:
    fake.text += "\n[search.advice]\ncashe = 3\n"
    with pytest.raises(UsageError, match="search.advice names 'cashe': there is no such knob"):
        fake.tune()


def test_apply_sets_the_winner_and_rollback_takes_it_back(fake: FakeStudy) -> None:
    found = dict(fake.target.values)
    record, _ = fake.tune()
    seen: list[Change] = []

    def refuse(proposal: Proposal) -> bool:
        seen.extend(proposal.changes)
        assert proposal.where["server"] == "a fake named db"
        return False

    file = load_study_file(fake.path / "study.toml")

    fake.target.disk.running["sort_memory"] = 5
    assert apply_winner(record, file, fake.path / "state", agrees=refuse) is None
    assert {change.knob for change in seen} == set(record.verdict.config) != set()
    assert all(change.current != change.proposed for change in seen)
    fake.target.disk.running["sort_memory"] = found["sort_memory"]
    assert dict(fake.target.values) == found
    effective = apply_winner(record, file, fake.path / "state")
    assert effective is not None
    assert dict(effective) == dict(record.verdict.config)
    assert {k: fake.target.values[k] for k in effective} == dict(record.verdict.config)
    rollback("fake", fake.path / "state")
    assert dict(fake.target.values) == found
    with pytest.raises(UsageError, match="nothing of study='fake' is applied"):
        rollback("fake", fake.path / "state")


def test_a_winner_that_no_longer_fits_the_server_is_not_applied(fake: FakeStudy) -> None:
    """The server has less memory than in the study, or gives more of it to something else: nothing is changed."""
    record, _ = fake.tune()
    record = replace(record, verdict=replace(record.verdict, config=Config({"cache": 512})))
    file = load_study_file(fake.path / "study.toml")
    fake.target._memory_mib = 256
    found, n_applied = dict(fake.target.values), fake.target.calls.count("apply")
    with pytest.raises(ApplyError, match="the winner does not fit the server of now: .*memory budget") as caught:
        apply_winner(record, file, fake.path / "state")
    assert caught.value.hint == "the server was changed since the study; tune again from what it has now"
    assert dict(fake.target.values) == found
    assert fake.target.calls.count("apply") == n_applied
    assert Journal(fake.path / "state").open_entries() == []


def test_a_number_finds_a_study_that_a_later_one_of_its_name_hides(fake: FakeStudy) -> None:
    fake.text = fake.text.replace("12 trials", "3 trials")
    first, _ = fake.tune()
    second, _ = fake.tune(again=True)
    with History.open(fake.path / "state" / "history.db") as history:
        assert find_study(history, "fake").id == second.id != first.id
        assert find_study(history, f"#{first.id}").id == first.id
        with pytest.raises(UsageError, match="the history holds no study named '#99'\nhint: it holds: "):
            find_study(history, "#99")


def test_without_a_proof_nothing_is_applied(fake: FakeStudy) -> None:
    fake.text = fake.text.replace("12 trials", "3 trials")
    fake.target._speed = lambda values: 1000.0
    record, _ = fake.tune()
    with pytest.raises(UsageError, match="study='fake' has no proven winner: its status is 'no_improvement'"):
        apply_winner(record, load_study_file(fake.path / "study.toml"), fake.path / "state")


@pytest.mark.usefixtures("ablated")
def test_noisy_gain_is_measured_on_until_it_can_be_quoted(fake: FakeStudy) -> None:
    fake.workload.noise_sd = 0.04
    fake.target._speed = lambda values: 3000.0 if not values["compile"] else 1000.0
    record, _ = fake.tune()
    gain = record.verdict.gain
    assert record.status == "proven"
    assert len(record.verdict.pairs) > 3
    assert gain.high <= 1.25 * gain.low or len(record.verdict.pairs) == 8
