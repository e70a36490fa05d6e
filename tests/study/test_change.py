"""apply and rollback: what is refused before a server is asked, what is shown, and what a killed rollback leaves to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeStudy
from trimtab.errors import ApplyError, ForeignChangeError, TargetError, UsageError
from trimtab.records import Machine, Verdict
from trimtab.space import Config
from trimtab.study import apply_winner, leave_applied, load_study_file, recover, rollback
from trimtab.study.change import Proposal
from trimtab.study.recovery import Recovered
from trimtab.study.rollback_point import applied_points, file_of, keep_point, point_of
from trimtab.systems import KnobState, Own
from trimtab.trial import Entry, Journal, own_to_json
from trimtab.trial.entry import APPLIED
from trimtab.trial.undo import REMOVE


@dataclass
class Record:
    """What `apply_winner` reads of a study in the history."""

    settings: dict[str, Any]
    name: str = "fake"
    status: str = "proven"
    verdict: Verdict = field(default_factory=lambda: Verdict(result="better", config=Config({"cache": 256})))
    machine: Machine = field(default_factory=lambda: Machine(cores=1, memory_bytes=1))
    baseline: Config = field(default_factory=lambda: Config({}))


@dataclass
class File:
    """What it reads of a study file before it opens the targets."""

    target: dict[str, dict[str, str]]


class OpenedError(Exception):
    """The targets were about to be opened."""


def _apply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: dict[str, str], study: dict[str, str]) -> None:
    def opened(*arguments: object) -> None:
        raise OpenedError

    monkeypatch.setattr("trimtab.study.stage.build_stack", opened)
    file_tables, tables = ({name: {"kind": kind} for name, kind in each.items()} for each in (file, study))
    apply_winner(Record({"target": tables}), File(file_tables), tmp_path)  # type: ignore[arg-type]


PG, REDIS = "postgresql", "redis"


@pytest.mark.parametrize(
    ("file", "study"),
    [
        ({"db": PG}, {"db": PG}),
        ({"main": PG}, {"db": PG}),  # one target may have another name
        ({"cache": REDIS, "db": PG}, {"db": PG, "cache": REDIS}),
    ],
)
def test_targets_of_the_same_kinds_and_names_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: dict[str, str], study: dict[str, str]
) -> None:
    with pytest.raises(OpenedError):
        _apply(tmp_path, monkeypatch, file, study)


@pytest.mark.parametrize(
    ("file", "study", "message"),
    [
        ({"db": "mysql"}, {"db": PG}, "the study file's target is of kind=mysql, and the study's was postgresql"),
        (
            {"a": PG, "b": PG}, {"db": PG, "cache": REDIS},
            "the study file's target is of kind=postgresql, postgresql, and the study's was postgresql, redis",
        ),
        (
            {"db": PG, "cache": REDIS}, {"db": PG},
            "the study file's target is of kind=postgresql, redis, and the study's was postgresql",
        ),
        ({"a": PG, "b": REDIS}, {"db": PG, "cache": REDIS}, "the study file's targets are a, b, and the study's were cache, db"),
        ({"b": PG, "db": PG}, {"c": PG, "db": PG}, "the study file's targets are b, db, and the study's were c, db"),
    ],
)  # fmt: skip
def test_the_file_of_another_study_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: dict[str, str], study: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        _apply(tmp_path, monkeypatch, file, study)
    assert caught.value.message == message
    assert caught.value.hint == "give the file of the study whose winner is to be applied"


def _proven(fake: FakeStudy, **config: Any) -> tuple[Any, Any]:
    """A record with that winner, and the study file; nothing was measured."""
    path = fake.path / "study.toml"
    path.write_text(fake.written, encoding="utf-8")
    record: Any = Record({"target": {"db": {"kind": "fake"}}})
    record.verdict = replace(record.verdict, config=Config(config))
    return record, load_study_file(path)


def test_what_is_asked_names_each_setting_and_whether_it_needs_a_restart(fake: FakeStudy) -> None:
    asked: list[Proposal] = []

    def agrees(proposal: Proposal) -> bool:
        asked.append(proposal)
        return False

    states = fake.target.states()
    winner = {"cache": 256, "sort_memory": 8}
    needs_restart = {name: str(states[name].knob.restart) == "restart" for name in winner}
    assert set(needs_restart.values()) == {True, False}
    found = dict(fake.target.values)
    assert apply_winner(*_proven(fake, **winner), fake.path / "state", agrees=agrees) is None
    assert {change.knob: change.needs_restart for change in asked[0].changes} == needs_restart
    for change in asked[0].changes:
        knob = states[change.knob].knob
        assert (change.current, change.proposed) == (knob.format(found[change.knob]), knob.format(winner[change.knob]))
    assert dict(fake.target.values) == found


def test_what_is_not_on_the_server_as_the_study_found_it_is_shown(fake: FakeStudy) -> None:
    """The winner was proven beside what the study found; that a setting has the winner's value already is no such difference."""
    asked: list[Proposal] = []

    def told() -> str:
        assert apply_winner(record, file, fake.path / "state", agrees=refuses) is None
        return asked[-1].where.get("differs from the study", "")

    def refuses(proposal: Proposal) -> bool:
        asked.append(proposal)
        return False

    record, file = _proven(fake, cache=256, sort_memory=8)
    record.baseline, record.machine = Config(fake.target.values), fake.target.machine()
    assert told() == ""
    fake.target.disk.running |= {"cache": 512, "sort_memory": 8, "workers": 7}
    record.machine = replace(record.machine, server_version="Fake 0.9")
    assert told() == "version=Fake 1.0 (Fake 0.9 there), cache=512MB (128MB there), workers=7 (2 there)"
    record.baseline = Config(dict.fromkeys(fake.target.values, "other"))
    assert told().endswith(", and 2 more")


def test_a_winner_is_set_without_a_question_and_taken_back(fake: FakeStudy) -> None:
    found, state_dir = dict(fake.target.values), fake.path / "state"
    assert apply_winner(*_proven(fake, cache=256), state_dir) == {"cache": 256}
    assert dict(fake.target.values) == {**found, "cache": 256}
    with pytest.raises(UsageError, match="study='fake' is already applied, since "):
        apply_winner(*_proven(fake, cache=256), state_dir)
    assert rollback("fake", state_dir).target == "db"
    assert dict(fake.target.values) == found


def test_what_somebody_sets_while_the_question_waits_is_not_overwritten(fake: FakeStudy) -> None:
    def thinks(proposal: Proposal) -> bool:
        fake.target.disk.running["cache"] = fake.target.disk.configured["cache"] = 512
        return True

    with pytest.raises(ForeignChangeError) as caught:
        apply_winner(*_proven(fake, cache=256), fake.path / "state", agrees=thinks)
    assert caught.value.message.endswith("since its config was read: cache=512 (it was 128)")
    assert fake.target.values["cache"] == 512
    assert fake.target.counts["apply"] == 0


def test_what_is_applied_is_not_reported_as_a_failure_of_the_look_after_it(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = fake.target.states

    def answers_before() -> Mapping[str, KnobState]:
        if fake.target.counts["apply"]:
            raise TargetError("too many connections")
        return states()

    monkeypatch.setattr(fake.target, "states", answers_before)
    assert apply_winner(*_proven(fake, cache=256), fake.path / "state") == {"cache": 256}


def test_nothing_is_applied_beside_a_rollback_point_that_cannot_be_read(fake: FakeStudy) -> None:
    """Its own could not be ordered after it, and that is kept when the server is changed, perhaps by a restart."""
    state = fake.path / "state"
    keep_point(state, "other", [fake.target.snapshot()], [Own()]).write_bytes(b"garbage")
    with pytest.raises(TargetError, match=r"the rollback file='.*other.json' cannot be used: it is damaged") as caught:
        apply_winner(*_proven(fake, cache=256), state)
    assert str(caught.value.hint).startswith("nothing was changed")
    assert fake.target.counts["apply"] == 0


@pytest.mark.parametrize("read", [applied_points, lambda state: [point_of(state, "other")]], ids=["all", "one"])
def test_a_point_that_another_process_takes_back_meanwhile_is_none(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], list[object]]
) -> None:
    state, found = fake.path / "state", import_module("trimtab.study.rollback_point").read_state_file
    path = keep_point(state, "other", [fake.target.snapshot()], [Own()])

    def late(path: Path) -> bytes:
        path.unlink()
        return bytes(found(path))

    monkeypatch.setattr("trimtab.study.rollback_point.read_state_file", late)
    assert [each for each in read(state) if each is not None] == []
    assert not path.exists()


def test_an_applied_config_is_kept_for_good_and_what_was_found_is_on_disk_before(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut after it must not take both."""
    state, synced, fsync = fake.path / "state", set[str](), os.fsync
    apply_winner(*_proven(fake, cache=256), state)
    point = file_of(state, "fake")

    def noted(handle: int) -> None:
        if point.exists():
            synced.add(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    folder = leave_applied(state, "fake")
    assert not point.exists()
    assert {*map(str, folder.rglob("*")), str(folder), str(folder.parent), str(state)} <= synced
    assert recover(state) == ([], [])
    assert fake.target.values["cache"] == 256


@pytest.mark.parametrize(
    ("is_alive", "hint"),
    [(True, "wait for pid {pid}, which works on it"), (False, "`trimtab recover{state}` finishes it; ")],
)
def test_a_config_whose_rollback_has_not_ended_is_not_kept_for_good(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch, is_alive: bool, hint: str
) -> None:
    """The next command would finish the rollback all the same."""
    state, found = fake.path / "state", dict(fake.target.values)
    apply_winner(*_proven(fake, cache=256), state)
    point = point_of(state, "fake")
    assert point is not None
    entry = Journal(state).begin(*point.snapshots, study="fake", purpose="rollback")
    entry.note(APPLIED, {"target": "db", "own": own_to_json(point.owns[0])})
    entry.note(REMOVE, {"file": str(point.path)})
    monkeypatch.setattr(Entry, "is_owner_alive", property(lambda entry: is_alive))
    with pytest.raises(UsageError, match="the rollback of study='fake' has not ended; nothing was changed") as caught:
        leave_applied(state, "fake")
    assert str(caught.value.hint).startswith(hint.format(pid=os.getpid(), state=f" --state {state}"))
    assert point.path.exists()
    if not is_alive:
        recover(state)
        assert dict(fake.target.values) == found


def test_the_removal_of_a_rollback_point_is_on_disk_before_its_entry_is_closed(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut the study would count as applied on a server that is as found."""
    state, steps, fsync, close = fake.path / "state", list[str](), os.fsync, Entry.close
    apply_winner(*_proven(fake, cache=256), state)
    folder = file_of(state, "fake").parent

    def noted(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}") == str(folder) and not any(folder.iterdir()):
            steps.append("gone")
        fsync(handle)

    def closed(entry: Entry, outcome: str, **more: str) -> None:
        steps.append("close")
        close(entry, outcome, **more)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Entry, "close", closed)
    rollback("fake", state)
    assert steps == ["gone", "close"]


def test_a_winner_with_settings_that_the_file_does_not_tune_is_refused(fake: FakeStudy) -> None:
    fake.target._knobs = ["cache"]
    with pytest.raises(ApplyError) as caught:
        apply_winner(*_proven(fake, cache=256, sort_memory=8, page_cost=2.0), fake.path / "state")
    assert caught.value.message == "the study file does not tune page_cost, sort_memory, which the winner sets"
    assert caught.value.hint == "name them under knobs"


def test_a_winner_with_a_setting_that_the_server_does_not_have_is_refused_for_that(fake: FakeStudy) -> None:
    """One of an older version, say: to name it in the study file would not help."""
    with pytest.raises(ApplyError) as caught:
        apply_winner(*_proven(fake, cache=256, io_method="ring"), fake.path / "state")
    assert caught.value.message == "the winner sets io_method, which the target of now does not have"
    assert str(caught.value.hint).startswith("nothing was changed; it is another version than the study's")
    assert fake.target.counts["apply"] == 0


def test_a_winner_with_a_setting_that_is_locked_here_is_refused_with_the_reason(fake: FakeStudy) -> None:
    """A server that is only reached by its address takes no setting that needs a restart: naming it would not help."""
    with pytest.raises(ApplyError) as caught:
        apply_winner(*_proven(fake, sync=False), fake.path / "state")
    assert (
        caught.value.message == "the winner sets sync, which may not be changed here: safety class durability is locked"
    )
    assert str(caught.value.hint).startswith("nothing was changed: a winner is applied as a whole")


@pytest.mark.parametrize("purpose", ["rollback", "apply", "trial"])
def test_a_killed_rollback_is_finished_by_the_next_and_nothing_else_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, purpose: str
) -> None:
    left = Recovered(study="fake", target="db", action="put back", files=("postgresql.auto.conf",), purpose=purpose)
    other = Recovered(study="other", target="db", action="put back", files=(), purpose="rollback")
    monkeypatch.setattr("trimtab.study.change.recover_first", lambda state_dir, say: [other, left])
    if purpose == "rollback":
        done = rollback("fake", tmp_path)
        assert (done.target, done.files, done.action) == ("db", ("postgresql.auto.conf",), "put back")
    else:
        with pytest.raises(UsageError, match="nothing of study='fake' is applied"):
            rollback("fake", tmp_path)
