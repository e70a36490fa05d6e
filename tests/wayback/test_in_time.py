"""How long a killed tuner's server waits to be put back; by a hand clock, so that no busy machine decides."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.hand_clock import HandClock
from trimtab.errors import TargetError
from trimtab.systems import rescue
from trimtab.systems.mysql.change import OptionFile
from trimtab.systems.postgresql.change import AlterSystem
from trimtab.systems.session import NotYetError, UserFullError


class Stopping:
    """A server whose restart was cut off: it stops in order until `gone_at_s`, and nobody starts it."""

    def __init__(self, clock: HandClock, *, gone_at_s: float, back_at_s: float = float("inf")) -> None:
        self._clock, self._gone_at_s, self._back_at_s = clock, gone_at_s, back_at_s
        self.data_dir = Path("/nowhere")

    @property
    def has_process(self) -> bool:
        return self._clock.now_s < self._gone_at_s or self._clock.now_s >= self._back_at_s

    def health(self) -> None:
        if self._clock.now_s >= self._back_at_s:
            return
        if self.has_process:
            raise NotYetError("the server does not accept logins yet: it is shutting down")
        raise TargetError("connection refused")


def answers(reach: Stopping, timeout_s: float) -> bool:
    undo = AlterSystem(reach)  # type: ignore[arg-type]
    undo._pids = lambda: [os.getpid()] if reach.has_process else []  # type: ignore[method-assign]
    return undo._answers_within(timeout_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    made = HandClock(100.0)
    monkeypatch.setattr(rescue, "time", made)
    return made


def test_a_server_that_has_stopped_meanwhile_is_not_waited_for(clock: HandClock) -> None:
    reach = Stopping(clock, gone_at_s=100.3)
    assert not answers(reach, 10.0)
    assert clock.now_s < 102.0, "a second after its last process, and not ten"


def test_the_gap_in_the_middle_of_a_restart_is_waited_out(clock: HandClock) -> None:
    assert answers(Stopping(clock, gone_at_s=100.3, back_at_s=101.0), 10.0)


def test_one_that_goes_on_stopping_is_waited_for_as_long_as_said(clock: HandClock) -> None:
    assert not answers(Stopping(clock, gone_at_s=200.0), 10.0)
    assert 110.0 <= clock.now_s < 110.2


class Crowded:
    """A MySQL server whose user has all of its connections in use until `free_at_s`."""

    pid = None

    def __init__(self, clock: HandClock, free_at_s: float) -> None:
        self._clock, self._free_at_s = clock, free_at_s

    def health(self) -> None:
        if self._clock.now_s < self._free_at_s:
            raise UserFullError("this user has as many connections as max_user_connections allows")


def test_a_user_whose_connections_are_in_use_is_waited_for_and_no_server_restarted(clock: HandClock) -> None:
    """Those of a load end a moment after it: what a trial had set was left on the server. No restart would free one."""

    def is_well(free_at_s: float) -> bool:
        undo = OptionFile(Crowded(clock, free_at_s), dict, frozenset, 1.0)  # type: ignore[arg-type]
        return undo._answers_within(0.0)

    assert is_well(101.0)
    with pytest.raises(UserFullError):
        is_well(1000.0)
    assert 110.0 <= clock.now_s < 112.0
