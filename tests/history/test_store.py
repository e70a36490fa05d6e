"""The History, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import psycopg
import pytest

from tests.commands import start_script
from tests.history.samples import CONTEXT, MACHINE, make_trial, study_values
from trimtab.errors import HistoryError
from trimtab.history import Event, History, StudyCopy, StudyRecord, read_verdict, verdict_to_json
from trimtab.records import GainInterval, KnobWorth, Role, Status, StopKind, Trial, Verdict
from trimtab.space import Config


def test_a_new_study_reads_back_as_given(history: History) -> None:
    study = history.create_study(**study_values())
    assert study == StudyRecord(
        id=study.id,
        name="tpch",
        settings={"study": {"name": "tpch", "budget": "5m"}},
        space={"knobs": [], "constraints": []},
        objective="throughput",
        baseline=Config({"work_mem": 4096, "jit": True}),
        machine=MACHINE,
        context=CONTEXT,
        created_at=1.7e9,
        status="running",
        verdict=Verdict(),
        fingerprint="f1",
    )
    assert history.find_study("tpch") == study
    assert history.studies() == [study]


def test_the_newest_study_of_a_name_is_found(history: History) -> None:
    first = history.create_study(**study_values())
    second = history.create_study(**study_values(created_at=1.0))
    assert history.find_study("tpch") == second
    assert history.studies() == [first, second]
    assert history.find_study("other") is None


@pytest.mark.parametrize(
    "name", ["a'b\"; drop table trimtab_study; --", "ünï 中文 🎏", "a/b\\c\n\t", "%s :x ?", " ", "x" * 5000]
)
def test_odd_names_are_kept(history: History, name: str) -> None:
    study = history.create_study(**study_values(name=name))
    assert history.find_study(name) == study
    assert study.name == name


@pytest.mark.parametrize("name", ["", "a\0b", "a\ud800b"])
def test_a_name_that_cannot_be_stored_is_refused(history: History, name: str) -> None:
    with pytest.raises(HistoryError, match="a study cannot have the name="):
        history.create_study(**study_values(name=name))
    assert history.find_study(name) is None


def test_settings_that_are_not_json_are_refused(history: History) -> None:
    with pytest.raises(HistoryError, match=r"cannot store a value in the history: .*type=set is not JSON"):
        history.create_study(**study_values(settings={"x": {1, 2}}))


def test_status_and_verdict_are_updated_apart(history: History, study: StudyRecord) -> None:
    found_gain = Verdict(result="better", gain=GainInterval(estimate=1.8, high=math.inf))
    history.update_study(study.id, verdict=found_gain)
    history.update_study(study.id, status="proven")
    history.update_study(study.id)
    found = history.find_study("tpch")
    assert found is not None
    assert (found.status, found.verdict) == ("proven", found_gain)


def test_an_unknown_status_is_refused(history: History, study: StudyRecord) -> None:
    with pytest.raises(HistoryError, match=r"unknown study status='done'\nhint: use one of: running, proven"):
        history.update_study(study.id, status="done")


def test_an_unknown_study_is_named(history: History) -> None:
    message = "has no study_id=77\nhint: `trimtab history list`"
    with pytest.raises(HistoryError, match=message):
        history.update_study(77, status="proven")
    with pytest.raises(HistoryError, match=message):
        history.add_trial(77, make_trial(0))
    with pytest.raises(HistoryError, match=message):
        history.add_event(77, "resume", "x", 1.0)
    assert history.trials(77) == []


def test_trials_come_back_in_number_order_and_exact(history: History, study: StudyRecord) -> None:
    trials = [
        make_trial(
            10, loss=math.nan, loss_se=math.inf, reason="FATAL: \0 \ud800 <b>", config=Config({"a": True, "b": 1})
        ),
        make_trial(2, config=Config({"a": 1.0, "b": "é"}), effective={"a": True, "b": -0.0, "c": 2**70}),
        make_trial(0, role=Role.BASELINE, status=Status.CRASHED, measurement=None, loss=None, loss_se=None),
    ]
    for trial in trials:
        history.add_trial(study.id, trial)
    # repr, because NaN is not equal to itself and True is equal to 1.
    assert [repr(trial) for trial in history.trials(study.id)] == [repr(trial) for trial in reversed(trials)]


def test_numpy_values_and_frozen_mappings_are_taken(history: History, study: StudyRecord) -> None:
    trial = make_trial(0, loss=np.float64(0.25), cost_s=MappingProxyType({"measure": np.float32(0.5)}))
    history.add_trial(study.id, trial)
    (found,) = history.trials(study.id)
    assert (found.loss, found.cost_s) == (0.25, {"measure": 0.5})


def test_a_number_is_taken_once(history: History, study: StudyRecord) -> None:
    first = make_trial(3)
    history.add_trial(study.id, first)
    with pytest.raises(HistoryError, match=r"has a trial number=3 already\nhint: another process seems to run"):
        history.add_trial(study.id, make_trial(3, loss=9.0))
    assert repr(history.trials(study.id)) == repr([first])


def test_studies_do_not_share_trials(history: History, study: StudyRecord) -> None:
    other = history.create_study(**study_values(name="other"))
    history.add_trial(study.id, make_trial(0))
    history.add_trial(other.id, make_trial(0, loss=2.0))
    assert [trial.loss for trial in history.trials(other.id)] == [2.0]


def test_events_are_kept_in_order(history: History, study: StudyRecord) -> None:
    history.add_event(study.id, "resume", "again \0 \x1b[31m", 5.5)
    history.add_event(study.id, "warning", "later", 1.0)
    assert history.events(study.id) == [Event("resume", "again \0 \x1b[31m", 5.5), Event("warning", "later", 1.0)]
    assert history.events(study.id + 1) == []


def test_everything_is_there_after_a_reopen(url: str) -> None:
    with History.open(url) as history:
        study = history.create_study(**study_values())
        history.add_trial(study.id, make_trial(0))
    with History.open(url) as history:
        assert history.studies() == [study]
        assert repr(history.trials(study.id)) == repr([make_trial(0)])


def test_every_field_of_a_trial_is_compared_by_repr() -> None:
    """Guards the tests of this file: `repr` must show what they compare, save for the raw log."""
    assert all(f"{name}=" in repr(make_trial(0)) for name in Trial.__dataclass_fields__)


def test_a_stored_verdict_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Of another version of Trimtab, or damaged: the message names the study, the key and what is wrong with it."""
    with History.open(tmp_path / "history.db") as history:
        study = history.create_study(**study_values())
        history.update_study(study.id, verdict=Verdict(result="better", gain=GainInterval(estimate=1.8)))
        for stored, wrong in (
            (
                '{"gain": {"low": 1.0}}',
                r"verdict of study id=1\.gain: key='estimate' is missing \(damaged, or written by",
            ),
            (
                '{"result": "better", "colour": 7}',
                r"verdict of study id=1: unknown key='colour' \(damaged, or written by",
            ),
            ('{"result": 7}', r"verdict of study id=1\.result=7 is not a str"),
            ('{"stop_kind": 7}', r"verdict of study id=1\.stop_kind=7 is not a StopKind"),
            ('{"stop_kind": "bored"}', r"verdict of study id=1\.stop_kind='bored' is unknown \(damaged, or written by"),
        ):
            with closing(sqlite3.connect(tmp_path / "history.db")) as raw, raw:
                raw.execute("update trimtab_study set verdict = ?", [stored])
            with pytest.raises(HistoryError, match=wrong):
                history.study(study.id)


def test_a_verdict_has_every_key_or_none() -> None:
    """Scripts may rely on keys: a verdict that says anything has them all, and nothing is lost on the way."""
    assert verdict_to_json(Verdict()) == {}
    worth = KnobWorth(verdict="proven", without=GainInterval(estimate=1.4, low=1.2, high=math.inf), without_pairs=3)
    found = Verdict(result="better", config=Config({"jit": False}), worth={"jit": worth}, pairs=((1.0, 1.8),))
    values = json.loads(json.dumps(verdict_to_json(found)))
    assert set(values) == {field.name for field in fields(Verdict)}
    assert values["worth"]["jit"]["alone"] is None
    assert read_verdict(values) == found
    assert read_verdict({"result": "no_improvement"}) == Verdict(result="no_improvement")


def test_why_a_study_of_an_older_version_ended_is_read_from_its_sentence() -> None:
    unproven = "the budget of 12 trials is used; no proof was asked for"
    assert read_verdict({"stop_reason": unproven}).stop_kind is StopKind.UNPROVEN
    assert read_verdict({"stop_reason": "stopped by the user"}).stop_kind is StopKind.UNSAID
    assert read_verdict({"stop_reason": unproven, "stop_kind": "asked"}).stop_kind is StopKind.ASKED
    found = Verdict(stop_reason="enough", stop_kind=StopKind.UNPROVEN)
    values = json.loads(json.dumps(verdict_to_json(found)))
    assert values["stop_kind"] == "unproven"
    assert read_verdict(values).stop_kind is StopKind.UNPROVEN


def test_one_process_at_a_time_holds_a_study(url: str, history: History, study: StudyRecord) -> None:
    other_study = history.create_study(**study_values())
    with History.open(url) as other:
        assert history.hold(study.id)
        assert history.hold(study.id), "who has it may ask again"
        assert not other.hold(study.id)
        assert other.hold(other_study.id)
        assert not history.hold(other_study.id)
        history.let_go(study.id)
        history.let_go(study.id)
        assert other.hold(study.id)
    assert history.hold(study.id)
    assert history.hold(other_study.id)


@pytest.mark.needs("root")
def test_root_leaves_a_history_to_its_owner(tmp_path: Path) -> None:
    """As after `sudo trimtab tune` in a user's folder."""
    path = tmp_path / "history.db"
    History.open(path).close()
    os.chown(path, 65534, 65534)
    path.chmod(0o660)
    with History.open(path) as history:
        assert history.hold(history.create_study(**study_values()).id)
        found = {
            each.name: (each.stat().st_uid, each.stat().st_gid, each.stat().st_mode & 0o777)
            for each in tmp_path.iterdir()
        }
    assert set(found) == {"history.db", *(f"history.db-{end}" for end in ("held", "shm", "wal"))}
    assert set(found.values()) == {(65534, 65534, 0o660)}


def test_a_process_that_was_killed_holds_nothing(url: str, history: History, study: StudyRecord) -> None:
    code = (
        "import os, sys\nfrom trimtab.history import History\n"
        f"assert History.open(sys.argv[1]).hold({study.id})\nprint('held', flush=True)\nsys.stdin.read()"
    )
    with start_script(code, url) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert not history.hold(study.id)
        process.kill()
        process.wait()
    until = time.monotonic() + 60
    while not history.hold(study.id):
        assert time.monotonic() < until


@pytest.mark.service
def test_studies_are_held_again_after_the_connection_was_lost(database: str) -> None:
    with History.open(database) as history, History.open(database) as other:
        first, second = (history.create_study(**study_values()).id for _ in range(2))
        assert history.hold(first)
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
                "and datname = current_database()"
            )
        assert history.hold(second)
        assert not other.hold(first)


def test_the_newest_events_and_own_studies(history: History, study: StudyRecord) -> None:
    history.add_many([], [(study.id, Event("asked", str(n), float(n))) for n in range(5)])
    assert [event.text for event in history.events(study.id, newest=2)] == ["3", "4"]
    assert [event.text for event in history.events(study.id)] == list("01234")
    second = history.create_study(**study_values(created_at=1.0))
    history.add_copies([StudyCopy(replace(study, origin="elsewhere"), [])])
    assert [each.id for each in history.own_studies(study.name)] == [second.id, study.id]
