"""The change that every kind of system makes in the same way: what it tells of its failures, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self, cast

import pytest

from trimtab.errors import ApplyError, LockedError, TargetError
from trimtab.records import Fault
from trimtab.space import Config
from trimtab.systems.base import KnobState, Snapshot, Undone
from trimtab.systems.left_alone import left_alone
from trimtab.systems.overlay import LogWords
from trimtab.systems.parts import Parts
from trimtab.systems.picture import Picture
from trimtab.systems.session import LoginRefusedError
from trimtab.systems.system import System

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


class ToyChange:
    """A change that writes down what is asked of it, and fails at `fails_at` with `error`."""

    def __init__(self, calls: list[str], error: Exception | None, fails_at: str) -> None:
        self._calls = calls
        self._error = error
        self._fails_at = fails_at

    def __getattr__(self, name: str) -> Any:
        def call() -> Any:
            self._calls.append(name)
            if self._error is not None and name == self._fails_at:
                raise self._error
            return {} if name == "effective" else False

        return call


class ToyChannel:
    trouble = ""

    def __init__(self, calls: list[str], error: Exception | None, fails_at: str) -> None:
        self.calls = calls
        self._change = ToyChange(calls, error, fails_at)

    def change(self, *_: object, **__: object) -> ToyChange:
        return self._change


class Toy(System[Any, Any]):
    """A server whose change fails with `error`."""

    kind = "toy"

    def __init__(self, error: Exception | None, fails_at: str = "write") -> None:
        self.calls: list[str] = []
        recorder = Recorder(self.calls)
        self._toys = Parts(
            channel=cast(Any, ToyChannel(self.calls, error, fails_at)),
            identity=Picture,
            lock=cast(Any, recorder),
            log=LogWords(),
        )
        super().__init__("db", None, recorder, Path())
        self._sentry = cast(Any, recorder)

    def _parts(self, state_dir: Path) -> Parts:
        return self._toys

    @classmethod
    def _made(cls, name: str, table: Any, state_dir: Path, kept: Any) -> Self:
        raise AssertionError("a test makes the toy itself")

    def _look(self) -> None: ...
    def _version(self) -> str:
        return ""

    def states(self) -> dict[str, KnobState]:
        return {}

    def snapshot(self) -> Snapshot:
        return BASE

    def health(self) -> None:
        self.calls.append("health")


@pytest.fixture(autouse=True)
def undo(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_back(channel: ToyChannel, *_: object) -> Undone:
        channel.calls.append("take_back")
        return Undone()

    monkeypatch.setattr("trimtab.systems.system.take_back", take_back)


def test_what_does_not_fit_is_told_only_when_nobody_else_has_written() -> None:
    toy = Toy(ApplyError("not used", hint="look"), "check")
    with pytest.raises(ApplyError, match="not used"):
        toy.apply(Config({}))
    assert toy.calls[4:6] == ["check", "require_ours"]


def test_a_change_is_watched_checked_and_only_then_counts() -> None:
    toy = Toy(None)
    toy.apply(Config({}))
    assert toy.calls == [
        "changing", "write", "take_effect", "must_restart", "check", "effective", "health", "changed", "renew",
    ]  # fmt: skip


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
    assert toy.calls == ["changing", "write", "log_excerpt", "failed", "take_back", "restored", "renew"]
    assert (caught.value.message, caught.value.hint, caught.value.fault) == (error.message, "look", fault)
    assert caught.value.log_excerpt == "the server's own words"


def test_a_restart_that_left_the_server_alone_and_works_as_found_is_the_configs_fault() -> None:
    """Nothing else may cause a restart more: see the faults of the environment above."""
    toy = Toy(left_alone("failed", hint="look", has_restarted=True))
    with pytest.raises(ApplyError, match="failed; with the settings as found the same command restarts it") as caught:
        toy.apply(Config({}))
    assert toy.calls[4:7] == ["take_back", "restart", "restored"]
    assert caught.value.fault == Fault.CONFIG


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
