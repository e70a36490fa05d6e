"""Forensics: which fault a failure is, whom it is blamed on, and that nothing is tried a third time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trimtab.errors import ForeignChangeError, RestoreError
from trimtab.records import Context, Fault, Role, Status, Trial
from trimtab.space import Config
from trimtab.systems import Evidence, Symptom, Undone
from trimtab.systems.undo import InForceError
from trimtab.trial.forensics import cleared, diagnose, retried, told

CONFIG = Symptom(fault=Fault.CONFIG, text="FATAL: invalid value")
MEMORY = Symptom(fault=Fault.RESOURCE, text="killed at its limit", is_own_demand=True, is_death=True)
DISK = Symptom(fault=Fault.RESOURCE, text="No space left on device")
KILLED = Symptom(fault=Fault.ENVIRONMENT, text="ended by signal 9", is_death=True)


@pytest.mark.parametrize(
    ("evidence", "fault", "status"),
    [
        (Evidence(symptoms=(CONFIG, DISK)), Fault.CONFIG, Status.CRASHED),
        (Evidence(symptoms=(KILLED, MEMORY)), Fault.RESOURCE, Status.CRASHED),
        (Evidence(symptoms=(DISK,)), Fault.RESOURCE, Status.INFRASTRUCTURE),
        (Evidence(symptoms=(KILLED,), is_up=False), Fault.ENVIRONMENT, Status.INFRASTRUCTURE),
        (Evidence(symptoms=(CONFIG,), is_stopped=True), Fault.ENVIRONMENT, Status.INFRASTRUCTURE),
        (Evidence(is_up=False), Fault.ENVIRONMENT, Status.INFRASTRUCTURE),
        (Evidence(is_up=True), Fault.CONFIG, Status.CRASHED),
    ],
)
def test_the_most_telling_sign_decides(evidence: Evidence, fault: Fault, status: Status) -> None:
    found = diagnose("it failed", evidence)
    assert (found.fault, found.status) == (fault, status)
    assert found.reason.startswith("it failed")


def test_what_the_target_is_sure_of_counts() -> None:
    found = diagnose("it failed", Evidence(symptoms=(CONFIG,)), known="environment")
    assert (found.fault, found.status) == (Fault.ENVIRONMENT, Status.INFRASTRUCTURE)


def test_signs_and_log_lines_stand_in_the_reason() -> None:
    found = diagnose("it failed", Evidence(symptoms=(CONFIG, CONFIG), log="one\ntwo"))
    assert found.reason == "it failed (FATAL: invalid value)\none\ntwo"


def _trial(status: Status, fault: Fault, reason: str, *, applied: bool = True) -> Trial:
    return Trial(
        number=4, role=Role.SEARCH, config=Config({"a": 1}), context=Context("w", clients=1), status=status,
        fault=fault, reason=reason, effective={"a": 1} if applied else {}, cost_s={"measure": 2.0},
    )  # fmt: skip


def _retried(first: Trial, second: Trial) -> tuple[Trial, int, list[str]]:
    left, said = [second, first], []
    trial = retried(left.pop, said.append)
    return trial, 2 - len(left), said


def test_a_config_fault_is_not_tried_again() -> None:
    bad = _trial(Status.CRASHED, Fault.CONFIG, "bad")
    assert _retried(bad, bad) == (bad, 1, [])


def test_the_second_try_counts_and_the_first_is_its_cost() -> None:
    lost = _trial(Status.INFRASTRUCTURE, Fault.ENVIRONMENT, "killed\nlog")
    trial, n_tries, said = _retried(lost, _trial(Status.OK, Fault.NONE, ""))
    assert (trial.status, n_tries) == (Status.OK, 2)
    assert trial.cost_s == {"measure": 2.0, "failed": 2.0}
    assert said == ["trial 4: environment fault: killed; it is repeated once"]


@pytest.mark.parametrize(
    ("reason", "fault", "applied", "status"),
    [
        ("killed by signal 9", Fault.ENVIRONMENT, True, Status.INFRASTRUCTURE),
        ("gone (it left no word of why)", Fault.ENVIRONMENT, True, Status.CRASHED),
        ("disk full", Fault.RESOURCE, True, Status.CRASHED),
        ("disk full before anything was applied", Fault.RESOURCE, False, Status.INFRASTRUCTURE),
    ],
)
def test_two_alike_blame_the_config_only_where_nobody_else_is_known(
    reason: str, fault: Fault, applied: bool, status: Status
) -> None:
    lost = _trial(Status.INFRASTRUCTURE, fault, reason, applied=applied)
    trial, n_tries, _ = _retried(lost, replace(lost, number=4))
    assert (trial.status, n_tries) == (status, 2)
    assert trial.reason.startswith("twice")


def test_a_reload_that_fails_is_no_target_that_does_not_run() -> None:
    told_ones = [cleared(kind("why", hint="do")).message for kind in (RestoreError, InForceError)]
    assert told_ones[0].startswith("the target does not run with the last good config either, so that the environment")
    assert told_ones[1].startswith("the reload fails with the last good config either, so that the environment")


def test_what_was_taken_back_and_what_was_left_is_told() -> None:
    error = ForeignChangeError("file='a' was changed by somebody else", hint="look")
    done = Undone(put_back=("x=1",), left=("y=2: theirs",))
    assert told(error, done).message == (
        "file='a' was changed by somebody else; our own changes were taken back: x=1; left as it is: y=2: theirs"
    )
    assert told(error, Undone()).message == error.message
