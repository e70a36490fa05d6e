"""The change that every kind of database server makes in the same way: what it tells of its failures, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from trimtab.errors import ApplyError, LockedError, TargetError
from trimtab.records import Fault
from trimtab.space import Config, Knob, Value
from trimtab.systems.base import Applied, KnobState, Own, Restarts, Snapshot, Undone
from trimtab.systems.refusal import LoginRefusedError
from trimtab.systems.server import ServerTarget

BASE = Snapshot(target="db", kind="toy", reach={}, files={}, values={})


class Recorder:
    """Stands for sentry, lock and reach: writes down what is asked of it."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        def call(*_: object) -> str:
            self._calls.append(name)
            return "the server's own words"

        return call


class Toy(ServerTarget[Any, Any]):
    """A server whose change fails with `error`."""

    kind = "toy"

    def __init__(self, error: Exception | None) -> None:
        self.calls: list[str] = []
        recorder = Recorder(self.calls)
        super().__init__("db", None, recorder)
        self._lock, self._sentry = cast(Any, recorder), cast(Any, recorder)
        self._error = error

    def _look(self) -> None: ...
    def _version(self) -> str:
        return ""

    def states(self) -> dict[str, KnobState]:
        return {}

    def snapshot(self) -> Snapshot:
        return BASE

    def health(self) -> None:
        self.calls.append("health")

    def _texts(self, knob: Knob, value: Value) -> tuple[str, ...]:
        return (str(value),)

    def _set(self, config: Config, states: Any, base: Snapshot, *, stays: bool) -> Applied:
        self.calls.append("set")
        if self._error is not None:
            raise self._error
        return Applied(effective={}, restarted=False, duration_s=0.0)

    def _take_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> Undone:
        self.calls.append("take_back")
        return Undone()

    @property
    def _own_files(self) -> list[Path]:
        return []


def test_a_change_is_watched_checked_and_only_then_counts() -> None:
    toy = Toy(None)
    toy.apply(Config({}))
    assert toy.calls == ["changing", "set", "health", "changed", "renew"]


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (TargetError("no answer", hint="look"), ""),
        (ApplyError("not restarted", hint="look", fault=Fault.ENVIRONMENT), Fault.ENVIRONMENT),
        (LoginRefusedError("revoked", hint="look"), Fault.ENVIRONMENT),
    ],
)
def test_a_failed_change_keeps_the_evidence_before_it_is_undone(error: TargetError, fault: str) -> None:
    toy = Toy(error)
    with pytest.raises(ApplyError) as caught:
        toy.apply(Config({}))
    assert toy.calls == ["changing", "set", "log_excerpt", "failed", "take_back", "restored", "renew"]
    assert (caught.value.message, caught.value.hint, caught.value.fault) == (error.message, "look", fault)
    assert caught.value.log_excerpt == "the server's own words"


def test_another_tuner_is_not_told_as_a_fault_of_the_config() -> None:
    toy = Toy(LockedError("another tuner"))
    with pytest.raises(LockedError):
        toy.apply(Config({}))
    assert "take_back" in toy.calls


def test_a_bug_is_no_result() -> None:
    toy = Toy(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        toy.apply(Config({}))
    assert "failed" not in toy.calls
