"""The conformance suite of targets: a plug-in author subclasses it, gives it a `Subject`, and pytest runs every check.

    class TestMyTarget(TargetSuite):
        @pytest.fixture(scope="class")
        @classmethod
        def subject(cls) -> Iterator[Subject]:
            yield Subject(target=..., again=..., changes=Config({...}), other=Config({...}), ...)

The target stands before a real system that nobody else uses. Every check starts and ends with the system as found; a check
that the subject has no means for (no way to crash it, no setting that clamps) is skipped with that reason.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import ApplyError, LockedError, SpaceError, TargetError, UsageError
from trimtab.records import Context
from trimtab.space import Config, Space, Value
from trimtab.systems import (
    CompilingTarget,
    CountingTarget,
    ForensicTarget,
    KnobState,
    Own,
    RestartableTarget,
    Snapshot,
    Stack,
    Target,
    Watchable,
    check_harmless,
    require_open,
)
from trimtab.trial import commit, own_from_json, own_to_json, snapshot_from_json, snapshot_to_json, take_back

__all__ = ["Subject", "TargetSuite"]

CONTEXT = Context(workload="conformance suite", clients=2, read_share=0.5)
_COUNTED_S = 30.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An open target, and what can be done to the system behind it.

    Attributes:
        target: open, and not locked.
        again: another object for the same system, not open: what another process would make from the same settings.
        changes: legal, open knobs with values other than the running ones; one of them needs a restart, if any does.
        other: further legal changes, over other knobs than `changes`.
        refused: name and value that the target must refuse: beyond what the system accepts.
        locked: name of a knob that the settings leave locked, with a value of its kind.
        clamped: knobs with values that the system accepts and makes others of; None when there are none.
        fatal: a config that the catalogue lets pass and with which the system does not come up; None when unknown.
        crash: ends the system at once, as the kernel would; None when that cannot be done.
        meddle: changes the system's configuration behind the target's back, and returns how to undo that; None when
            it cannot be done.
        reattach: makes a target from a journalled snapshot.
        work: makes the system do something that it counts; None when it does not count.
        restart: restarts the system as its administrator does; None when that cannot be done.
        can_stay: whether a config outlives the system's own restart, so that `trimtab apply` may set it.
        state_dir: where `commit` and `take_back` keep their journal.
    """

    target: Target
    again: Callable[[], Target]
    changes: Config
    other: Config
    refused: tuple[str, Value]
    locked: tuple[str, Value]
    reattach: Callable[[Snapshot], Target]
    clamped: Config | None = None
    fatal: Config | None = None
    crash: Callable[[], None] | None = None
    meddle: Callable[[], Callable[[], None]] | None = None
    work: Callable[[], None] | None = None
    restart: Callable[[], None] | None = None
    can_stay: bool = True
    state_dir: Path | None = None


def _need(value: Any, what: str) -> Any:
    if value is None:
        pytest.skip(f"the subject has {what}")
    return value


def _values(states: Mapping[str, KnobState], names: tuple[str, ...]) -> dict[str, Value]:
    return {name: states[name].running for name in names}


class TargetSuite:
    """See the module. Subclasses define the fixture `subject`."""

    @pytest.fixture
    def target(self, subject: Subject) -> Iterator[Target]:
        """The target with its snapshot taken; put back afterwards, and looked at."""
        found = subject.target.snapshot()
        yield subject.target
        subject.target.restore(found)
        assert subject.target.snapshot().files == found.files, "files are not as they were found"
        assert _touched(subject, subject.target) == {name: found.values[name] for name in _names(subject)}

    # --- discover ---

    def test_every_knob_is_described(self, subject: Subject) -> None:
        states = subject.target.states()
        assert any(state.is_curated and not state.lock_reason for state in states.values())
        for name, state in states.items():
            assert state.knob.name == name
            assert not state.is_curated or state.knob.doc
            assert state.lock_reason or state.is_curated, f"{name} is open and not curated"

    def test_only_open_harmless_knobs_are_selected(self, subject: Subject) -> None:
        names, states = subject.target.selection(CONTEXT), subject.target.states()
        assert names
        assert len(set(names)) == len(names)
        require_open(names, states)
        check_harmless(Config(_values(states, names)))

    def test_the_running_config_and_the_advice_lie_in_the_space(self, subject: Subject) -> None:
        target, states = subject.target, subject.target.states()
        names = target.selection(CONTEXT)
        running = _values(states, names)
        knobs = [states[name].knob for name in names]
        space = Space(knobs, target.constraints(names, CONTEXT), also_legal={n: (v,) for n, v in running.items()})
        space.require_feasible()
        advice = {name: value for name, value in target.advise(CONTEXT).items() if name in names}
        config = space.repair(space.canonical(Config({**running, **advice})))
        assert not space.violations(config)
        target.preflight(Config({name: config[name] for name in config if config[name] != running[name]}))

    def test_memory_is_counted_against_a_budget(self, subject: Subject) -> None:
        target, states = subject.target, subject.target.states()
        model = target.memory(CONTEXT)
        assert model.budget_bytes > 0
        assert set(model.knobs) <= set(states)
        assert all(size >= 0 for size in model.use({}).values())
        assert model.total({}) == sum(model.use({}).values())
        names = target.selection(CONTEXT)
        budget = model.constraint(names)
        assert (budget is None) == (not set(names) & set(model.knobs))
        assert budget is None or budget in target.constraints(names, CONTEXT)

    def test_the_memory_model_is_the_same_as_a_part_of_a_stack(self, subject: Subject) -> None:
        model = subject.target.memory(CONTEXT)
        part = model.prefixed("tier")
        assert part.total({}) == model.total({})
        assert part.total({f"tier.{n}": value for n, value in model.running.items()}) == model.total({})
        other = model.prefixed("other")
        both = part.joined(other)
        assert both.total({}) == pytest.approx(2 * model.total({}))
        assert both.budget_bytes == model.budget_bytes
        if model.knobs:
            budget = both.constraint(tuple(both.knobs))
            assert budget is not None
            assert set(both.knobs) <= set(budget.names)

    def test_the_machine_and_the_endpoint_are_known(self, subject: Subject) -> None:
        machine, endpoint = subject.target.machine(), subject.target.endpoint()
        assert machine.cores >= 1
        assert machine.memory_bytes > 0
        assert machine.server_version
        assert endpoint.protocol

    def test_doctor_explains_and_changes_nothing(self, subject: Subject) -> None:
        before = _touched(subject, subject.target)
        lines = subject.target.doctor()
        assert lines
        assert all(check and explanation for check, _, explanation in lines)
        assert _touched(subject, subject.target) == before

    # --- check ---

    def test_preflight_changes_nothing(self, subject: Subject, target: Target) -> None:
        before = _touched(subject, target)
        target.preflight(subject.changes)
        assert _touched(subject, target) == before

    def test_what_the_system_cannot_take_is_refused_before_anything_changes(
        self, subject: Subject, target: Target
    ) -> None:
        before = _touched(subject, target)
        name, value = subject.refused
        for config in (Config({name: value}), Config({**subject.changes, name: value})):
            with pytest.raises(ApplyError):
                target.preflight(config)
            with pytest.raises(ApplyError):
                target.apply(config)
        assert _touched(subject, target) == before

    def test_names_that_are_no_open_knobs_are_refused(self, subject: Subject, target: Target) -> None:
        before = _touched(subject, target)
        for name in ("no_such_knob", "a b", "x; DROP TABLE t", "include", "init_file", ""):
            for method in (target.preflight, target.apply):
                with pytest.raises(ApplyError):
                    method(Config({name: "x"}))
        assert _touched(subject, target) == before

    def test_a_locked_knob_is_refused_and_says_why(self, subject: Subject, target: Target) -> None:
        name, value = subject.locked
        assert target.states()[name].lock_reason
        for method in (target.preflight, target.apply):
            with pytest.raises(ApplyError, match="may not be changed"):
                method(Config({name: value}))
        with pytest.raises((UsageError, SpaceError)):
            require_open((name,), target.states())

    # --- apply and read back ---

    def test_apply_sets_exactly_the_config_and_reads_it_back(self, subject: Subject, target: Target) -> None:
        before = _touched(subject, target)
        applied = target.apply(subject.changes)
        assert applied.effective == dict(subject.changes)
        assert _touched(subject, target) == {**before, **subject.changes}
        target.health()

    def test_knobs_that_are_not_named_return_to_the_snapshot(self, subject: Subject, target: Target) -> None:
        before = _touched(subject, target)
        target.apply(subject.changes)
        target.apply(subject.other)
        assert _touched(subject, target) == {**before, **subject.other}
        target.apply(Config({}))
        assert _touched(subject, target) == before

    def test_apply_twice_changes_nothing_more(self, subject: Subject, target: Target) -> None:
        target.apply(subject.changes)
        again = target.apply(subject.changes)
        assert not again.restarted
        assert again.effective == dict(subject.changes)

    def test_what_the_system_made_of_a_value_is_told(self, subject: Subject, target: Target) -> None:
        config = _need(subject.clamped, "no value that the system clamps")
        effective = target.apply(config).effective
        states = target.states()
        assert effective == {name: states[name].running for name in config}
        assert any(effective[name] != value for name, value in config.items())

    def test_the_fragment_names_every_knob(self, subject: Subject, target: Target) -> None:
        text = target.fragment(subject.changes)
        assert all(name in text for name in subject.changes)
        assert text.endswith("\n")

    # --- restore ---

    def test_restore_is_idempotent(self, subject: Subject, target: Target) -> None:
        found = target.snapshot()
        target.apply(subject.changes)
        for _ in range(2):
            target.restore(found)
            assert _touched(subject, target) == {name: found.values[name] for name in _names(subject)}
        assert target.snapshot().files == found.files

    def test_a_restart_for_another_targets_sake_keeps_what_is_set(self, subject: Subject, target: Target) -> None:
        if not isinstance(target, RestartableTarget) or target.no_restart:
            pytest.skip("the target does not restart")
        found = target.snapshot()
        target.apply(subject.changes)
        target.restart(found)
        assert {name: target.states()[name].running for name in subject.changes} == dict(subject.changes)
        if isinstance(target, ForensicTarget):
            assert not [
                each.text for each in target.disturbances() if "restarted by somebody" in each.text or each.stops
            ]
        target.restore(found)
        assert target.snapshot().files == found.files
        target.restart(found)
        assert _touched(subject, target) == {name: found.values[name] for name in _names(subject)}

    def test_a_snapshot_that_went_through_the_journal_restores(self, subject: Subject, target: Target) -> None:
        found = snapshot_from_json(snapshot_to_json(target.snapshot()))
        own = own_from_json(json.loads(json.dumps(own_to_json(target.apply(subject.changes).own))))
        # As after the tuner's death: the target's own object is gone, and another one restores without being opened.
        target.close()
        other = subject.reattach(found)
        try:
            other.restore(found, own)
        finally:
            other.close()
            target.open()
        assert _touched(subject, target) == {name: found.values[name] for name in _names(subject)}

    # --- what `trimtab apply` and `trimtab rollback` do ---

    def test_what_is_applied_outlives_a_restart_and_is_taken_back(self, subject: Subject, target: Target) -> None:
        state_dir = _need(subject.state_dir, "no state directory")
        if not subject.can_stay:
            pytest.skip("nothing that this target sets outlives a restart")
        before, files = _touched(subject, target), target.snapshot().files
        found: list[Snapshot] = []
        ours: list[Own] = []
        rollback_file: Path = state_dir / "rollback-of-the-suite"

        def keep(snapshots: Sequence[Snapshot], owns: Sequence[Own]) -> Path:
            found.extend(snapshots)
            ours.extend(owns)
            return rollback_file

        effective = commit(
            Stack.of(target), subject.changes, study="suite", state_dir=state_dir, keep=keep, file=rollback_file
        )
        assert effective == dict(subject.changes)
        if subject.restart is not None:
            subject.restart()
        assert _touched(subject, target) == {**before, **subject.changes}
        target.close()
        try:
            take_back(found, ours, study="suite", state_dir=state_dir, file=rollback_file)
        finally:
            target.open()
        assert _touched(subject, target) == before
        assert target.snapshot().files == files

    def test_what_would_not_outlive_a_restart_is_not_applied(self, subject: Subject, target: Target) -> None:
        state_dir = _need(subject.state_dir, "no state directory")
        if subject.can_stay:
            pytest.skip("what this target sets outlives a restart")
        before = _touched(subject, target)
        with pytest.raises(TargetError, match="stay"):
            commit(
                Stack.of(target),
                subject.changes,
                study="suite",
                state_dir=state_dir,
                keep=lambda found, ours: None,
                file=state_dir / "none",
            )
        assert _touched(subject, target) == before

    # --- crash and rescue ---

    def test_a_system_that_was_killed_is_put_back(self, subject: Subject, target: Target) -> None:
        crash = _need(subject.crash, "no way to kill its system")
        found = target.snapshot()
        target.apply(subject.changes)
        crash()
        with pytest.raises(TargetError):
            target.health()
        target.restore(found)
        target.health()

    def test_a_config_that_keeps_it_from_starting_is_rescued(self, subject: Subject, target: Target) -> None:
        fatal = _need(subject.fatal, "no config that keeps its system from starting")
        before = _touched(subject, target)
        with pytest.raises(ApplyError) as caught:
            target.apply(fatal)
        assert caught.value.message
        assert caught.value.log_excerpt, (caught.value.message, caught.value.hint)
        target.health()
        assert _touched(subject, target) == before

    # --- others ---

    def test_a_change_by_somebody_else_is_seen(self, subject: Subject, target: Target) -> None:
        meddle = _need(subject.meddle, "no way to change its system from outside")
        if not isinstance(target, ForensicTarget):
            pytest.skip("the target does not watch for changes of others")
        target.apply(subject.changes)
        assert not target.disturbances()
        undo = meddle()
        try:
            seen = target.disturbances()
            assert seen
            assert any(each.stops for each in seen)
            assert all(each.text for each in seen)
        finally:
            undo()

    def test_one_tuner_at_a_time(self, subject: Subject) -> None:
        other = subject.again()
        with subject.target.lock("the first"):
            _reach(other)
            with pytest.raises(LockedError, match="another tuner"), other.lock("the second"):
                pass
        _let_go(other, subject.target)
        with subject.target.lock("the first again"):
            pass

    def test_counters_only_grow(self, subject: Subject) -> None:
        target = subject.target
        first = target.counters() if isinstance(target, CountingTarget) else {}
        if not isinstance(target, CountingTarget) or (not first and subject.work is None):
            pytest.skip("the target does not count")
        if subject.work is not None:
            subject.work()
        second = target.counters()
        deadline = time.monotonic() + _COUNTED_S  # a server may hand in what a session has counted after its end
        while subject.work is not None and not _has_grown(first, second) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            second = target.counters()
        assert first
        fallen = {name: (value, second.get(name)) for name, value in first.items() if second.get(name, -1.0) < value}
        assert not fallen, f"counters that fell or went away (before, after): {fallen}"
        assert subject.work is None or _has_grown(first, second), "the work was not counted"

    def test_vitals_never_raise(self, subject: Subject) -> None:
        target = subject.target
        if not isinstance(target, Watchable):
            pytest.skip("the target cannot be watched")
        vitals = target.vitals()
        assert vitals.memory_bytes is None or vitals.memory_bytes > 0
        target.unwatch()
        target.unwatch()

    def test_only_what_compiles_tells_for_how_long(self, subject: Subject) -> None:
        target = subject.target
        seconds = target.compile_s() if isinstance(target, CompilingTarget) else None
        assert seconds is None or (isinstance(target, CompilingTarget) and target.compiles and seconds >= 0)


def _has_grown(first: Mapping[str, float], second: Mapping[str, float]) -> bool:
    return any(value > first.get(name, 0.0) for name, value in second.items())


def _names(subject: Subject) -> tuple[str, ...]:
    """The knobs that the checks touch."""
    return tuple(sorted({*subject.changes, *subject.other, *(subject.clamped or ()), *(subject.fatal or ())}))


def _touched(subject: Subject, target: Target) -> dict[str, Value]:
    return _values(target.states(), _names(subject))


def _reach(target: Target) -> None:
    """Opens a second object on a system that the first one may keep for itself."""
    try:
        target.open()
    except LockedError as error:
        pytest.skip(f"only one object at a time can reach it: {error.message}")


def _let_go(other: Target, first: Target) -> None:
    """Closes a second object, unless that would end the system under the first one."""
    other.close()
    first.health()
