"""What a study leaves for its resume when it does not end as it should, and which studies of earlier versions are resumed."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from functools import partial

import pytest

from tests.fakes import FakeStudy
from trimtab.errors import HistoryError, LoadError, UsageError
from trimtab.history import StudyRecord, open_history_at
from trimtab.records import Play, Role, Status, StopKind, Trial, Verdict
from trimtab.report import report_text
from trimtab.study import apply_winner, load_study_file, rollback, winner_of
from trimtab.study.begin import fingerprints_of
from trimtab.trial import Interrupted, TrialRoom

pytestmark = pytest.mark.slow


def test_a_second_ctrl_c_leaves_a_study_that_is_interrupted(fake: FakeStudy) -> None:
    def stop(trial: Trial) -> None:
        if trial.number == 4:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    found = dict(fake.target.values)
    fake.listener.on_trial = stop
    with pytest.raises(Interrupted, match="stopped by the user") as asked:
        fake.tune()
    assert asked.value.hint == "`trimtab recover` makes sure that nothing is left changed; the same command resumes"
    assert dict(fake.target.values) == found
    with open_history_at(None, fake.path / "state") as history:
        assert [(study.status, study.n_trials) for study in history.summaries()] == [("interrupted", 5)]
    fake.listener.on_trial = lambda trial: None
    assert fake.tune()[0].status in ("proven", "no_improvement")


def _stopped_twice_after_its_proof(fake: FakeStudy) -> tuple[StudyRecord, list[Trial]]:
    """Ctrl-C, and again while the run that is under way is ended."""

    def stop(step: str) -> None:
        if fake.listener.phases[-1] == "measuring the gain more closely":
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    fake.workload.noise_sd = 0.03
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake.listener, "step", stop)
        return fake.tune()


@pytest.mark.usefixtures("ablated")
def test_a_second_ctrl_c_after_the_proof_leaves_the_winner(fake: FakeStudy) -> None:
    found = dict(fake.target.values)
    record, trials = _stopped_twice_after_its_proof(fake)
    assert (record.status, record.verdict.result, record.verdict.is_stopped) == ("proven", "better", True)
    assert dict(fake.target.values) == found
    resumed, resumed_trials = fake.tune()
    assert (resumed.id, resumed.status, resumed.verdict.is_stopped) == (record.id, "proven", False)
    assert resumed_trials[: len(trials)] == trials


@pytest.mark.usefixtures("ablated")
def test_a_resume_that_comes_to_nothing_leaves_the_winner_that_was_proven_before(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, _ = _stopped_twice_after_its_proof(fake)

    def refuse(*arguments: object) -> float:
        raise LoadError("the data cannot be prepared")

    with monkeypatch.context() as broken:
        broken.setattr("trimtab.study.tuning.prepared", refuse)
        with pytest.raises(LoadError, match="cannot be prepared"):
            fake.tune()
    with open_history_at(None, fake.path / "state") as history:
        kept = history.study(record.id)
    assert (kept.status, kept.verdict) == ("proven", record.verdict)
    fake.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == 2 else None
    again, _ = fake.tune()
    assert (again.status, again.verdict.result, again.verdict.config) == ("proven", "better", record.verdict.config)
    assert again.verdict.is_stopped


@pytest.mark.usefixtures("ablated")
def test_a_load_that_cannot_be_run_any_more_after_the_proof_leaves_the_winner(fake: FakeStudy) -> None:
    fake.workload.noise_sd = 0.03
    run = TrialRoom.run

    def broken(self: TrialRoom, *args: object, **options: object) -> Trial:
        if fake.listener.phases[-1] == "measuring the gain more closely":
            raise LoadError("the load cannot be run although the target is well")
        return run(self, *args, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrialRoom, "run", broken)
        with pytest.raises(LoadError, match="cannot be run although") as caught:
            fake.tune()
    assert caught.value.hint == "its winner was proven before that: see `trimtab report fake`"
    with open_history_at(None, fake.path / "state") as history:
        record = history.studies()[0]
    assert (record.status, record.verdict.is_stopped) == ("proven", True)
    assert record.verdict.stop_reason == "the load cannot be run although the target is well"
    winner = winner_of(record)
    resumed, _ = fake.tune()
    assert (resumed.status, resumed.verdict.is_stopped, resumed.verdict.config) == ("proven", False, winner)


@pytest.mark.usefixtures("ablated")
def test_a_winner_is_kept_as_soon_as_it_is_proven(fake: FakeStudy) -> None:
    """What the history holds at any moment of a study is what a `kill -9` leaves."""
    fake.workload.noise_sd = 0.03
    left: dict[str, StudyRecord] = {}

    def look(trial: Trial) -> None:
        with open_history_at(None, fake.path / "state") as history:
            left[fake.listener.phases[-1]] = history.studies()[0]

    fake.listener.on_trial = look
    record, _ = fake.tune()
    assert not left["proving the winner in alternating pairs"].verdict.is_better
    killed = left["measuring the gain more closely"]
    assert (killed.status, winner_of(killed)) == ("running", record.verdict.config)
    assert killed.verdict.apply_command == record.verdict.apply_command == "trimtab apply fake"
    text = report_text(killed, [])
    assert "times as fast as yours" in text
    assert "ended because" not in text


def test_who_cannot_wait_for_the_way_back_after_the_proof_has_the_winner(fake: FakeStudy) -> None:
    """The target is put back all the same, and takes its time."""
    found = dict(fake.target.values)

    def stop(said: str) -> None:
        if fake.listener.phases[-1] == "restoring the target":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake.listener, "on_phase", stop)
        patch.setattr(fake.listener, "step", stop)
        with pytest.raises(Interrupted, match="stopped by the user"):
            fake.tune()
    assert dict(fake.target.values) == found
    with open_history_at(None, fake.path / "state") as history:
        record = history.studies()[0]
    assert (record.status, record.verdict.is_stopped) == ("proven", True)
    winner = winner_of(record)
    assert fake.tune()[0].verdict.config == winner


@pytest.mark.usefixtures("ablated")
def test_a_winner_that_was_proven_before_is_there_while_its_study_goes_on(fake: FakeStudy) -> None:
    """What the history holds at any moment of a resume is what a `kill -9` leaves."""
    record, _ = _stopped_twice_after_its_proof(fake)
    seen: list[StudyRecord] = []

    def look(trial: Trial) -> None:
        with open_history_at(None, fake.path / "state") as history:
            seen.append(history.study(record.id))

    fake.listener.on_trial = look
    fake.tune()
    assert {left.status for left in seen} == {"running"}
    assert [left.verdict for left in seen] == [record.verdict] * len(seen)
    assert winner_of(seen[-1]) == record.verdict.config
    assert "times as fast as yours" in report_text(seen[-1], [])


@pytest.mark.usefixtures("ablated")
def test_a_study_that_was_killed_after_its_winner_was_proven_goes_on_with_the_same_command(fake: FakeStudy) -> None:
    record, trials = _stopped_twice_after_its_proof(fake)
    with open_history_at(None, fake.path / "state") as history:
        left = replace(record.verdict, stop_reason="", stop_kind=StopKind.UNSAID)
        history.update_study(record.id, status="running", verdict=left)
    fake.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == 2 else None
    again, _ = fake.tune()
    assert (again.status, again.verdict) == ("proven", record.verdict)
    fake.listener.on_trial = lambda trial: None
    resumed, resumed_trials = fake.tune()
    assert (resumed.id, resumed.status, resumed.verdict.is_stopped) == (record.id, "proven", False)
    assert resumed_trials[: len(trials)] == trials


@pytest.mark.usefixtures("ablated")
@pytest.mark.parametrize("is_asked", [True, False])
def test_a_winner_that_fails_in_further_pairs_is_none_whatever_ends_the_study_then(
    fake: FakeStudy, is_asked: bool
) -> None:
    """The next best config is brought to a proof, and that takes its time."""
    if is_asked:
        assert _stopped_twice_after_its_proof(fake)[0].verdict.is_better
    fake.workload.noise_sd = 0.03
    run = TrialRoom.run

    def crashing(self: TrialRoom, *args: object, **options: object) -> Trial:
        trial = run(self, *args, **options)  # type: ignore[arg-type]
        if "refused (" in "".join(fake.listener.phases) and not is_asked:
            raise LoadError("the load cannot be run although the target is well")
        if fake.listener.phases[-1] != "measuring the gain more closely" or trial.role is not Role.PROOF_CANDIDATE:
            return trial
        return replace(trial, status=Status.CRASHED, measurement=None, loss=None, reason="out of memory")

    def stop(trial: Trial) -> None:
        if "refused (" in "".join(fake.listener.phases):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrialRoom, "run", crashing)
        if is_asked:
            patch.setattr(fake.listener, "on_trial", stop)
            record, _ = fake.tune()
        else:
            with pytest.raises(LoadError, match="cannot be run although"):
                fake.tune()
            with open_history_at(None, fake.path / "state") as history:
                record = history.studies()[0]
    assert (record.status, record.verdict.is_better) == ("interrupted", False)
    with pytest.raises(UsageError, match="has no proven winner"):
        winner_of(record)


@pytest.mark.usefixtures("ablated")
def test_the_ready_file_of_a_winner_that_a_killed_study_has_left_is_written_when_it_is_stopped(fake: FakeStudy) -> None:
    seen: list[Verdict] = []

    def look(trial: Trial) -> None:
        with open_history_at(None, fake.path / "state") as history:
            seen.append(history.studies()[0].verdict)

    fake.workload.noise_sd = 0.03
    fake.listener.on_trial = look
    whole, _ = fake.tune()
    results = fake.path / "state" / "results"
    (written,) = [path.read_text() for path in results.iterdir()]
    for path in results.iterdir():
        path.unlink()
    with open_history_at(None, fake.path / "state") as history:
        history.update_study(whole.id, status="running", verdict=seen[-1])
    fake.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == 2 else None
    record, _ = fake.tune()
    assert (record.status, record.verdict.is_stopped, record.verdict.config) == ("proven", True, whole.verdict.config)
    assert (record.verdict.fragment, record.verdict.memory) == (whole.verdict.fragment, whole.verdict.memory)
    assert [path.read_text() for path in results.iterdir()] == [written]


@pytest.mark.usefixtures("ablated")
def test_a_stopped_study_does_not_go_on_while_its_winner_is_applied(fake: FakeStudy) -> None:
    record, _ = _stopped_twice_after_its_proof(fake)
    apply_winner(record, load_study_file(fake.path / "study.toml"), fake.path / "state")
    with pytest.raises(HistoryError, match="was stopped before its end, and its winner is applied now: ") as caught:
        fake.tune()
    assert str(caught.value.hint).startswith("`trimtab rollback fake` takes it back, and then the study goes on")
    rollback("fake", fake.path / "state")
    assert fake.tune()[0].id == record.id


def test_a_study_that_an_earlier_version_has_begun_elsewhere_is_the_same(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fingerprint counted where the history is."""
    place = fake.path / "there.db"
    fake.text = fake.text.replace('budget = "12 trials"', f'budget = "3 trials"\nhistory = "{place}"')
    (fake.path / "study.toml").write_text(fake.written)
    now, earlier = fingerprints_of(load_study_file(fake.path / "study.toml"), fake.workload)
    assert now != earlier
    with monkeypatch.context() as before:
        before.setattr("trimtab.study.tuning.fingerprints_of", lambda file, workload: (earlier,))
        record, _ = fake.tune()
    assert record.fingerprint == earlier
    assert fake.tune()[0].id == record.id


@pytest.mark.parametrize(
    "slip",
    [
        'searcher = "magic"', 'ranks = "other"\nprune = "auto"', 'warm_start = ["other"]',
        'passes = "restart-first"\nsearcher = "gp"\ninitail = 5',
        # Two of the above again, in another way to search.
        pytest.param('passes = "restart-first"\nsearcher = "magic"', marks=pytest.mark.full),
        pytest.param('prune = 2\nsearcher = "gp"\ninitail = 5', marks=pytest.mark.full),
        pytest.param('prune = "auto"\nsearcher = "magic"', marks=pytest.mark.full),
    ],
)  # fmt: skip
def test_a_slip_in_the_search_leaves_no_study_behind(fake: FakeStudy, slip: str) -> None:
    right = fake.text.replace("12 trials", "3 trials")
    for _ in range(2):
        fake.text = f"{right}\n[search]\n{slip}\n"
        with pytest.raises(UsageError):
            fake.tune(again=True)
        with open_history_at(None, fake.path / "state") as history:
            assert history.summaries() == []
    fake.text = right
    assert fake.tune()[0].status in ("proven", "no_improvement")


def test_a_kill_switch_that_is_on_leaves_no_study_behind(fake: FakeStudy) -> None:
    (fake.path / "state").mkdir(exist_ok=True)
    switch = fake.path / "state" / "stop"
    switch.touch()
    with pytest.raises(UsageError, match="the kill switch is on: file="):
        fake.tune()
    with open_history_at(None, fake.path / "state") as history:
        assert history.summaries() == []


def test_a_study_that_is_resumed_runs_again_in_every_word(fake: FakeStudy) -> None:
    """What was settled when it began stays."""
    fake.text = fake.text.replace("12 trials", "6 trials") + '\n[search]\nwarm_start = "auto"\nplays = "on"\n'
    fake.target._plays = (Play(name="less", settings={"cache": 64}, reason="It is less.", worth=0.1),)
    fake.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == 5 else None
    before, _ = fake.tune()
    assert before.verdict.result == "interrupted"
    seen: list[Verdict] = []

    def look(trial: Trial) -> None:
        with open_history_at(None, fake.path / "state") as history:
            seen.append(history.study(before.id).verdict)

    fake.listener.on_trial = look
    fake.tune()
    assert {(verdict.result, verdict.stop_reason) for verdict in seen} == {("", "")}
    settled = before.verdict
    assert settled.plays is not None
    assert settled.warm_start is not None
    assert (seen[0].plays, seen[0].warm_start) == (settled.plays, settled.warm_start)


@pytest.mark.parametrize("budget", ["30 trials", "5 trials"])
def test_another_budget_loses_no_trial(fake: FakeStudy, budget: str) -> None:
    """Plays have a share of the budget, and the first configs of a search are fewer where it expects few trials."""

    def stop(trial: Trial) -> None:
        if trial.number == 7:
            os.kill(os.getpid(), signal.SIGINT)

    fake.target._plays = tuple(
        Play(name=f"cache_of_{size}", settings={"cache": size}, reason="It is another size.", worth=0.1)
        for size in (128, 256, 384, 512, 640)
    )
    fake.text = fake.text.replace("12 trials", "6 trials") + '[search]\nplays = "on"\n'
    fake.listener.on_trial = stop
    _, before = fake.tune()
    assert [t.role for t in before] == [Role.BASELINE] * 3 + [Role.PLAY] * 3 + [Role.ADVICE, Role.SEARCH]
    fake.listener.on_trial = lambda trial: None
    fake.text = fake.text.replace("6 trials", budget)
    _, after = fake.tune()
    assert [(t.number, t.role, t.config) for t in after[:8]] == [(t.number, t.role, t.config) for t in before]
    assert not [line for line in fake.listener.phases if "do not fit" in line]
    n_searched = sum(trial.role is Role.SEARCH for trial in after)
    assert n_searched == 1 if budget == "5 trials" else n_searched >= 20


@pytest.mark.usefixtures("equal_costs")
@pytest.mark.parametrize(
    ("role", "began", "budget"),
    [
        (Role.SEARCH, "12 trials", "3 trials"),
        (Role.PROOF_CANDIDATE, "12 trials", "3 trials"),
        (Role.SEARCH, "4min", "75s"),
    ],
)
def test_what_was_searched_counts_when_less_is_left_of_the_budget(
    fake: FakeStudy, role: Role, began: str, budget: str
) -> None:
    """Whoever wants a study to end sooner keeps its best config, and the runs of its proof."""

    def stop(trial: Trial) -> None:
        if trial.role is role and trial.number >= 10:
            os.kill(os.getpid(), signal.SIGINT)

    fake.text = fake.text.replace("12 trials", began)
    fake.listener.on_trial = stop
    _, before = fake.tune()
    fake.listener.on_trial = lambda trial: None
    fake.text = fake.text.replace(began, budget)
    record, after = fake.tune()
    assert not [line for line in fake.listener.phases if "do not fit" in line or "does not fit" in line]
    assert [(t.number, t.role, t.config) for t in after[: len(before)]] == [
        (t.number, t.role, t.config) for t in before
    ]
    searched = [sum(trial.role in (Role.SEARCH, Role.ADVICE) for trial in trials) for trials in (before, after)]
    assert searched[0] == searched[1] > 3
    assert record.verdict.result == "better"


@pytest.mark.parametrize(("memory_mib", "is_said"), [(1021, False), (700, True)])
def test_a_study_keeps_the_ranges_and_the_advice_with_which_it_began(
    fake: FakeStudy, memory_mib: int, is_said: bool
) -> None:
    """Both depend on the memory of the machine, of which a new kernel keeps a little more for itself."""
    fake.text = fake.text.replace("12 trials", "5 trials") + '[search]\nplays = "off"\nround_values = false\n'

    def stop(trial: Trial) -> None:
        if trial.number == 5:
            os.kill(os.getpid(), signal.SIGINT)

    fake.listener.on_trial = stop
    begun, before = fake.tune()
    assert [trial.role for trial in before[3:]] == [Role.ADVICE, Role.SEARCH, Role.SEARCH]
    fake.listener.on_trial = lambda trial: None
    fake.target._memory_mib = memory_mib
    record, after = fake.tune()
    assert record.id == begun.id
    assert [(t.number, t.config) for t in after[:6]] == [(t.number, t.config) for t in before]
    assert not [line for line in fake.listener.phases if "not fit the way" in line]
    assert sum(trial.role in (Role.ADVICE, Role.SEARCH) for trial in after) == 5
    said = [line for line in fake.listener.phases if line.startswith(f"the machine has memory={memory_mib}MiB now")]
    assert len(said) == is_said


def test_that_the_server_has_another_version_now_is_told(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(trial: Trial) -> None:
        if trial.number == 2:
            os.kill(os.getpid(), signal.SIGINT)

    fake.listener.on_trial = stop
    fake.tune()
    machine = fake.target.machine()
    for version, n_told in (("", 0), ("Fake 2.0", 1)):
        monkeypatch.setattr(fake.target, "machine", partial(replace, machine, server_version=version))
        fake.listener.phases.clear()
        fake.tune()
        told = "the server has version='Fake 2.0' now, and had 'Fake 1.0' when study='fake' began: "
        lines = [line for line in fake.listener.phases if line.startswith("the server has version=")]
        assert [line.startswith(told) for line in lines] == [True] * n_told
