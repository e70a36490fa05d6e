"""The conformance suite of stacks: what holds for targets that are tuned as one, whatever kinds they are of.

    class TestMyTargetBesideAnother(StackSuite):
        @pytest.fixture
        def subject(self, tmp_path) -> Iterator[StackSubject]:
            ...
            yield StackSubject(targets=[mine, FakeTarget("cache")], changes={"mine.speed": 3, "cache.cache": 256}, ...)

A target that passes `TargetSuite` and stands in a stack that passes this one can be a tier of any study.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from trimtab.errors import ApplyError, LockedError, SpaceError, TargetError
from trimtab.records import Context
from trimtab.space import Config, Space, Value
from trimtab.systems import Own, Snapshot, Stack, Target, Tier
from trimtab.testing.fake_target import FakeTarget
from trimtab.trial import Journal, commit, take_back

__all__ = ["StackSubject", "StackSuite"]

CONTEXT = Context(workload="conformance suite", clients=2, read_share=0.5)
_BROKEN = "suite_top"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSubject:
    """A stack and what can be done with it.

    Attributes:
        targets: two or more, open, from the bottom up.
        changes: legal values other than the running ones, by the stack's names; of every target at least one.
        state_dir: empty.
    """

    targets: Sequence[Target]
    changes: Config
    state_dir: Path

    @property
    def stack(self) -> Stack:
        """Of its targets."""
        return Stack([Tier(name=target.name, target=target) for target in self.targets])


class StackSuite:
    """Subclass it, and give the fixture `subject`."""

    def test_every_knob_has_its_targets_name_before_it(self, subject: StackSubject) -> None:
        states = subject.stack.states()
        assert {name.partition(".")[0] for name in states} == {target.name for target in subject.targets}
        assert all(state.knob.name == name for name, state in states.items())
        parts = subject.stack.split(subject.changes)
        assert {f"{tier}.{name}": v for tier, part in parts.items() for name, v in part.items()} == dict(
            subject.changes
        )
        with pytest.raises(SpaceError):
            subject.stack.split(Config({"nobody.knob": 1}))

    def test_the_running_config_and_the_advice_lie_in_one_space(self, subject: StackSubject) -> None:
        stack = subject.stack
        states, names = stack.states(), stack.selection(CONTEXT)
        running = {name: states[name].running for name in names}
        knobs = [states[name].knob for name in names]
        space = Space(knobs, stack.constraints(names, CONTEXT), also_legal={n: (v,) for n, v in running.items()})
        space.require_feasible()
        advice = {name: value for name, value in stack.advise(CONTEXT).items() if name in names}
        assert not space.violations(space.repair(space.canonical(Config({**running, **advice}))))

    def test_memory_is_the_sum_of_the_targets(self, subject: StackSubject) -> None:
        model = subject.stack.memory(CONTEXT)
        assert all(target.memory(CONTEXT).total({}) > 0 for target in subject.targets)
        assert model.total({}) == pytest.approx(sum(target.memory(CONTEXT).total({}) for target in subject.targets))

    def test_no_prefix_hides_a_dangerous_name(self, subject: StackSubject) -> None:
        before = _values(subject)
        for target in subject.targets:
            for name in ("skip_grant_tables", "archive_command", "load_module"):
                with pytest.raises(ApplyError):
                    subject.stack.preflight(Config({f"{target.name}.{name}": 1}))
        assert _values(subject) == before

    def test_all_are_changed_to_stay_and_taken_back(self, subject: StackSubject) -> None:
        before, found, ours = _values(subject), list[Snapshot](), list[Own]()
        file = subject.state_dir / "rollback-of-the-suite"

        def keep(snapshots: Sequence[Snapshot], owns: Sequence[Own]) -> None:
            found.extend(snapshots)
            ours.extend(owns)

        effective = commit(
            subject.stack, subject.changes, study="suite", state_dir=subject.state_dir, keep=keep, file=file
        )
        assert dict(effective) == dict(subject.changes)
        assert _values(subject) == {**before, **subject.changes}
        for target in subject.targets:
            target.close()
        take_back(found, ours, study="suite", state_dir=subject.state_dir, file=file)
        for target in subject.targets:
            target.open()
        assert _values(subject) == before

    def test_one_that_fails_takes_all_back(self, subject: StackSubject) -> None:
        """A tier on top that cannot take its config: those below it, already changed, are as they were found."""
        before = _values(subject)
        top = FakeTarget(_BROKEN, crash_when=lambda values: values["method"] == "ring")
        tiers = [Tier(name=target.name, target=target) for target in (*subject.targets, top)]
        config = subject.changes.replace({f"{_BROKEN}.method": "ring"})
        with pytest.raises(TargetError, match="did not start"):
            commit(
                Stack(tiers), config, study="suite", state_dir=subject.state_dir, keep=lambda found, owns: None,
                file=subject.state_dir / "none",
            )  # fmt: skip
        assert _values(subject) == before
        assert Journal(subject.state_dir).open_entries() == []

    def test_all_are_locked_or_none(self, subject: StackSubject) -> None:
        other = FakeTarget(_BROKEN)
        other.disk.holder = "another tuner"
        tiers = [Tier(name=target.name, target=target) for target in (*subject.targets, other)]
        with pytest.raises(LockedError), Stack(tiers).lock("the suite"):
            pass
        with subject.stack.lock("the suite"):
            pass


def _values(subject: StackSubject) -> dict[str, Value]:
    """Running values of the knobs that the subject changes."""
    states = subject.stack.states()
    return {name: states[name].running for name in subject.changes}
