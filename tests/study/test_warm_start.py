"""Warm start on the fakes: what is near, what is frozen, resume, and the prior that misleads."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeStudy
from trimtab.errors import HistoryError, UsageError
from trimtab.history import History, StudyCopy, open_history_at, read_space
from trimtab.records import Objective, Role, Trial, Verdict
from trimtab.study import load_study_file
from trimtab.study.near import Near
from trimtab.study.warm_start import take_over

pytestmark = pytest.mark.slow

NO_PROOF = "\n[proof]\nablate = false\nadvice = false\nmin_pairs = 2\nmax_pairs = 2\n"


def _named(study: FakeStudy, name: str, warm: str = "", searcher: str = "auto", trials: int = 12) -> str:
    text = study.text.replace('name = "fake"', f'name = "{name}"').replace("12 trials", f"{trials} trials")
    start = f"warm_start = {warm}\n" if warm else ""
    return f'{text}\n[search]\nsearcher = "{searcher}"\n{start}{NO_PROOF}'


@pytest.fixture
def past(fake: FakeStudy, tmp_path_factory: pytest.TempPathFactory) -> FakeStudy:
    """A study with a past one, of 12 trials, in its history; each worker makes that once."""
    kept = tmp_path_factory.getbasetemp() / "past-of-warm-starts"
    fake.target.disk.identifier = "the server of all tests"
    fake.text = _named(fake, "past")
    if kept.exists():
        shutil.copytree(kept, fake.path / "state")
    else:
        fake.tune()
        shutil.copytree(fake.path / "state", kept)
    fake.workload.seeds[:] = [0] * 100  # the next study has other noise than the past one, whoever made that
    fake.text = fake.text.replace('name = "past"', 'name = "new"')
    return fake


def _history(study: FakeStudy) -> History:
    return open_history_at(None, study.path / "state")


def _searched(trials: list[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.role in (Role.SEARCH, Role.ADVICE)]


def _warm(study: FakeStudy, warm: str) -> None:
    study.text = study.text.replace('searcher = "auto"\n', f'searcher = "auto"\nwarm_start = {warm}\n')


def test_off_leaves_no_trace_and_no_past(past: FakeStudy) -> None:
    record, _ = past.tune()
    assert record.verdict.warm_start is None
    assert not any("warm start" in phase for phase in past.listener.phases)


def test_auto_takes_the_near_study_and_says_so(past: FakeStudy) -> None:
    _warm(past, '"auto"')
    record, trials = past.tune()
    (found,) = record.verdict.warm_start.studies
    assert (found.name, found.overlap, found.machine) == ("past", 1.0, 1.0)
    assert len(found.digest) == 64
    assert record.verdict.warm_start.past is None
    assert any(phase.startswith("warm start from study 'past' (nearness 1.00") for phase in past.listener.phases)
    with _history(past) as history:
        before = history.find_study("past")
        assert before is not None
        best = min((t for t in history.trials(before.id) if t.is_feasible), key=lambda t: t.loss or 0.0)
    early = [trial.config for trial in _searched(trials)[:3]]
    assert best.config in early


def test_starts_serve_a_searcher_without_a_model(past: FakeStudy) -> None:
    past.text = past.text.replace('searcher = "auto"', 'searcher = "random"\nwarm_start = ["past"]')
    record, trials = past.tune()
    with _history(past) as history:
        before = history.find_study("past")
        assert before is not None
        known = {t.config for t in history.trials(before.id)}
    assert sum(trial.config in known for trial in _searched(trials)) >= 2
    assert record.verdict.warm_start.n_asks == 0


@pytest.mark.parametrize("names", ['["#1"]', '["#1", "past"]'])
def test_a_study_can_be_named_by_its_number(past: FakeStudy, names: str) -> None:
    _warm(past, names)
    record, _ = past.tune()
    assert [each.name for each in record.verdict.warm_start.studies] == ["past"]


def test_a_named_study_of_which_nothing_can_be_used_is_told(past: FakeStudy) -> None:
    """It has one config: there is no order to learn from."""
    with _history(past) as history:
        record = history.find_study("past")
        assert record is not None
        copy = history.copy(record.id)
        first = [trial for trial in copy.trials if trial.role is Role.BASELINE]
        history.add_copies([StudyCopy(replace(copy.record, name="begun"), first)])
    _warm(past, '["begun"]')
    past.text = past.text.replace("12 trials", "2 trials")
    found, _ = past.tune()
    assert found.verdict.warm_start.studies == ()
    assert [phase for phase in past.listener.phases if "search.warm_start" in phase] == [
        "search.warm_start: study='begun' is not used: fewer than 2 of its configs were measured well and differ in this space"
    ]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("update trimtab_study set body = '{'", "has a row that cannot be read: "),
        ("update trimtab_study set body = json_replace(body, '$.objective', 'speed')", "UsageError: "),
        ("update trimtab_study set body = json_replace(body, '$.space.knobs[0].kind', 'odd')", "ValueError: 'odd'"),
        ("update trimtab_trial set config = '['", "has a row that cannot be read: "),
    ],
)
def test_a_damaged_study_is_left_out(past: FakeStudy, damage: str, told: str) -> None:
    with _history(past) as history:
        record = history.find_study("past")
        assert record is not None
        history.add_copies([history.copy(record.id)])
        with history._writer.begin() as connection:
            column = "study_id" if "trial " in damage else "id"
            connection.exec_driver_sql(f"{damage} where {column} = {record.id}")
    _warm(past, '"auto"')
    past.text = past.text.replace("12 trials", "2 trials")
    found, _ = past.tune()
    assert [each.id for each in found.verdict.warm_start.studies] == [record.id + 1]
    (line,) = [text for text in past.listener.phases if "is left out" in text]
    assert line.startswith(f"warm start: study='past (id {record.id})' is left out, because it is damaged: ")
    assert told in line


def test_a_damaged_study_that_is_named_is_an_error_before_anything_is_measured(past: FakeStudy) -> None:
    with _history(past) as history, history._writer.begin() as connection:
        connection.exec_driver_sql("update trimtab_study set body = json_replace(body, '$.space.knobs[0].kind', 'odd')")
    _warm(past, '["past"]')
    past.listener.ended.clear()
    with pytest.raises(HistoryError, match="a stored space cannot be read: 'odd'"):
        past.tune()
    assert past.listener.ended == []


def test_what_missed_a_constraint_of_the_same_objective_has_failed(past: FakeStudy) -> None:
    """However fast it was: it is no start, and teaches where constraints are missed."""
    with _history(past) as history:
        record = history.find_study("past")
        assert record is not None
        copy = history.copy(record.id)
        better = [trial for trial in copy.trials if (trial.loss or 0.0) < 0 and trial.config != record.baseline]
        gained = {trial.config for trial in sorted(better, key=lambda trial: trial.loss or 0.0)[:2]}
        assert gained
        trials = [replace(trial, excess=0.2) if trial.config in gained else trial for trial in copy.trials]
        strict = "throughput where latency_p99 <= 20 ms"
        history.add_copies([StudyCopy(replace(copy.record, name="strict", objective=strict), trials)])
        other = history.find_study("strict")
        assert other is not None
        near = [Near(record=other, overlap=1.0, workload=1.0, machine=1.0)]
        space = read_space(record)
        for objective, is_failed in ((strict, True), ("throughput", False)):
            found = take_over(history, space, record.baseline, near, objective=Objective.parse(objective))
            assert gained.isdisjoint(found.starts) is is_failed
            assert gained.isdisjoint(found.past[0].configs) is is_failed
            assert (gained <= set(found.past[0].failed)) is is_failed


def test_a_resume_does_not_depend_on_the_history(past: FakeStudy, tmp_path: Path) -> None:
    """What was taken is frozen: other past studies, and the loss of the old one, change nothing."""
    _warm(past, '"auto"')
    past.target.calls.clear()
    straight_record, straight = past.tune()
    with _history(past) as history:
        for_resume = history.find_study("past")
        assert for_resume is not None
    past.text = past.text.replace('name = "new"', 'name = "again"')
    past.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == 6 else None
    record, _ = past.tune()
    assert record.status == "interrupted"
    assert record.verdict.warm_start.past
    past.listener.on_trial = lambda trial: None
    with _history(past) as history:
        frozen = [each.id for each in record.verdict.warm_start.studies]
        copy = history.copy(for_resume.id)
        other = replace(copy.record, name="other", created_at=copy.record.created_at + 1.0)
        history.add_copies([StudyCopy(other, [_turned(trial) for trial in copy.trials])])
    finished, trials = past.tune()
    assert [each.id for each in finished.verdict.warm_start.studies] == frozen
    numbers = [trial.number for trial in trials]
    assert numbers == list(range(len(numbers)))
    assert straight_record.verdict.warm_start.studies[0].digest
    assert len(_searched(trials)) == len(_searched(straight))


def test_what_was_taken_over_is_there_until_the_target_is_restored(past: FakeStudy) -> None:
    """Whoever cannot wait for that goes on later, from the same past."""
    _warm(past, '"auto"')
    past.text = past.text.replace("min_pairs = 2\nmax_pairs = 2\n", "")
    seen: list[Verdict] = []

    def look(text: str) -> None:
        if text == "restoring the target":
            with _history(past) as history:
                seen.append(history.studies()[-1].verdict)

    past.listener.on_phase = look
    record, _ = past.tune()
    assert (record.verdict.is_better, record.verdict.warm_start.past) == (True, None)
    (left,) = seen
    assert left.is_better
    assert left.warm_start is not None
    assert left.warm_start.past


def _turned(trial: Trial) -> Trial:
    return trial if trial.loss is None else replace(trial, loss=-trial.loss)


def test_a_past_that_misleads_is_dropped(past: FakeStudy) -> None:
    """What was good there is bad here: after a few trials the searcher goes on alone, and the study says why."""
    with _history(past) as history:
        record = history.find_study("past")
        assert record is not None
        copy = history.copy(record.id)
        liar = replace(copy.record, name="liar")
        history.add_copies([StudyCopy(liar, [_turned(trial) for trial in copy.trials])])
    _warm(past, '["liar"]')
    found, trials = past.tune()
    (about,) = found.verdict.warm_start.studies
    assert "in the wrong order; knowing nothing is as good" in about.dropped
    assert any(
        phase.startswith("the prior of study='liar' is dropped: it may well put ") for phase in past.listener.phases
    )
    assert found.verdict.warm_start.n_asks <= 6
    assert len(_searched(trials)) == 12


def test_bad_values(past: FakeStudy) -> None:
    text, values = past.text, 'must be "auto", "off", or a list of names of studies'
    past.listener.ended.clear()
    for number, (warm, message) in enumerate(
        (
            ('["nobody"]', "the history holds no study named 'nobody'"),
            ('["new-1"]', "the history holds no study named 'new-1'|the study itself"),
            ('"always"', values),
            ("[]", values),
            ("3", values),
        )
    ):
        past.text = text.replace('name = "new"', f'name = "new-{number}"')
        _warm(past, warm)
        with pytest.raises(UsageError, match=message):
            past.tune()
    assert past.listener.ended == []


def test_files_without_the_key_keep_their_fingerprint(fake: FakeStudy, tmp_path: Path) -> None:
    def fingerprint(table: str) -> Any:
        path = tmp_path / "s.toml"
        path.write_text(f"{fake.text}\n[search]\n{table}", encoding="utf-8")
        return load_study_file(path).fingerprint

    assert fingerprint("") == fingerprint('warm_start = "off"') != fingerprint('warm_start = "auto"')
