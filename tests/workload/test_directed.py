"""A generator and who directs it, without a server: signs of life, and a director that goes away."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.hand_clock import HandClock
from trimtab.errors import LoadError
from trimtab.load import MAGIC, LoadPlan, read_message, write_message
from trimtab.load import serve as serving
from trimtab.load.serve import Generator
from trimtab.workload.remote.link import Link
from trimtab.workload.remote.place import Place


class Held:
    """A load that was launched."""

    def __init__(self) -> None:
        self.n_stops = 0

    def stop(self) -> None:
        self.n_stops += 1


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    load = Held()
    monkeypatch.setattr(serving, "launch", lambda plan, part, is_held: load)
    return load


def planned() -> io.BytesIO:
    """What a director sends first."""
    plan = LoadPlan(
        protocol="fake",
        access={},
        source={},
        model={"kind": "closed"},
        users=1,
        duration_s=1.0,
        operation_timeout_s=1.0,
    )
    part = {"n_threads": 1, "first": 0, "n_all": 1}
    sent = io.BytesIO()
    write_message(sent, {"do": "plan", "plan": plan.to_json(), "part": part, "files": 10, "most_files": 10})
    sent.seek(0)
    return sent


class Gone(io.BytesIO):
    """Takes what is written until `word` is in it: then nobody listens any more."""

    def __init__(self, word: bytes) -> None:
        super().__init__()
        self.word = word

    def write(self, data: Any) -> int:
        if self.word in bytes(data):
            raise BrokenPipeError("nobody listens")
        return super().write(data)


def test_no_load_is_left_when_its_director_has_gone(held: Held) -> None:
    """Whoever owns the sessions of the load closes them next."""
    with pytest.raises(BrokenPipeError):
        Generator(planned(), Gone(b'"connected"'), "1").run()
    assert held.n_stops == 1


def test_a_director_that_goes_before_all_is_ready_ends_that(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_ALIVE_S", 0.0)

    def forever(plan: LoadPlan, alive: Callable[[], None]) -> None:
        while True:
            alive()

    with pytest.raises(BrokenPipeError):
        Generator(planned(), Gone(b'"alive"'), "1", forever).run()
    assert held.n_stops == 0


def test_signs_of_life_come_while_something_is_made_ready(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HandClock()
    monkeypatch.setattr(serving, "time", clock)

    def slowly(plan: LoadPlan, alive: Callable[[], None]) -> None:
        for _ in range(100):
            alive()
            clock.sleep(1 / 16)

    out = io.BytesIO()
    Generator(planned(), out, "1", slowly).run()
    out.seek(len(MAGIC))
    told = []
    while (message := read_message(out)) is not None:
        told.append(message[0]["is"])
    assert told == ["hello", *["alive"] * 6, "connected"], "one a second"


class Wire:
    """One end of a pair of sockets."""

    errors, hint, fate = None, "", "ended"

    def __init__(self, mine: socket.socket) -> None:
        self.mine, self.incoming, self.outgoing = mine, mine.makefile("rb"), mine.makefile("wb")

    def end(self, patience_s: float) -> None:
        self.mine.shutdown(socket.SHUT_RDWR)
        self.outgoing.close()
        self.mine.close()


@pytest.mark.parametrize("lives", [True, False])
def test_who_says_that_it_is_alive_is_waited_for(monkeypatch: pytest.MonkeyPatch, lives: bool) -> None:
    mine, theirs = socket.socketpair()
    clock = HandClock()
    monkeypatch.setattr("trimtab.workload.remote.link.open_wire", lambda place: Wire(mine))
    monkeypatch.setattr("trimtab.workload.remote.link.time", clock)
    link = Link(Place.parse("local"))
    take = link.take

    def a_quarter_of_a_second_apart(timeout_s: float) -> Any:
        clock.sleep(min(timeout_s, 0.25))
        return take(60.0) if timeout_s >= 0.25 else None

    monkeypatch.setattr(link, "take", a_quarter_of_a_second_apart)
    with theirs.makefile("wb") as out:
        out.write(MAGIC)
        for _ in range(6):
            write_message(out, {"is": "alive" if lives else "frame"})
        write_message(out, {"is": "connected"})
    try:
        if lives:
            assert link.wait("connected", 1.0)[0] == {"is": "connected"}
            assert clock.now_s == 1.75
        else:
            with pytest.raises(LoadError, match="is silent for 1s"):
                link.wait("connected", 1.0)
            assert clock.now_s == 1.0
    finally:
        link.close()
        theirs.close()
