"""Held: a session in memory, with the lock of whoever calls it, and whether its calls are quick."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from trimtab.search import may_fit_model
from trimtab.session.members import Timer
from trimtab.session.session import Session

__all__ = ["SHORT_S", "Door", "Held"]

T = TypeVar("T")

SHORT_S = 0.005
"""A call that thinks for less may keep everybody else waiting: handing it to a thread would cost others nearly as much."""

_ELSEWHERE_S = 0.05
"""What a call may take beyond its own thinking: on a busy machine it waits for a core, and for the interpreter's lock, which is
not its fault. What is more than that, it waited for something of its own."""

_FORGOTTEN = 0.95
"""What counts of a long call after each further one: 45 of them after one of 50 ms a session is taken for quick again."""


class Held:
    """A session with the lock that whoever calls it must hold.

    Attributes:
        long_s: how long the longest call of late has thought; a session begins as slow where its searcher may fit a model, and
            nobody knows which call does so first, or a layer may do anything.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lock = threading.Lock()
        is_quick = not (may_fit_model(session.spec.chosen_searcher) or session.spec.layers)
        self.long_s = 0.0 if is_quick else 4 * SHORT_S

    def call(self, call: Callable[[Session], T], timers: tuple[Timer, Timer]) -> T:
        """What `call` gives of the session; the lock is held. `timers`: seconds, and CPU seconds of this thread."""
        wall, cpu = timers
        began, began_cpu = wall(), cpu()
        try:
            return call(self.session)
        finally:
            thought_s = max(cpu() - began_cpu, wall() - began - _ELSEWHERE_S)
            self.long_s = max(thought_s, _FORGOTTEN * self.long_s)


class Door:
    """One thread at a time loads, begins or ends the session of a name; `n` are inside or wait."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.n = 0
