"""Hub: what the operations of one server share: sessions, studies, counters, and who waits for a change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trimtab.errors import TrimtabError
from trimtab.jsonable import strict
from trimtab.serve.settings import ServeSettings
from trimtab.serve.starts import Starts
from trimtab.session import Sessions
from trimtab.session.view import summary_of

__all__ = ["Hub"]


class Hub:
    """Everything that is shared; used by one event loop.

    Attributes:
        starts: studies that the server has started.
        is_ending: whether the server is about to end.
        version: counts up with every change.
        n_reports, n_problems, n_asks, ask_s: for the metrics.
    """

    def __init__(
        self, sessions: Sessions, settings: ServeSettings, state_dir: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.sessions, self.settings, self.state_dir, self.clock = sessions, settings, state_dir, clock
        self.starts = Starts(settings.studies, state_dir)
        self.version = 0
        self.n_reports = self.n_problems = self.n_asks = 0
        self.ask_s = 0.0
        self.is_ending = False
        self._changed = asyncio.Event()

    def end(self) -> None:
        """Nobody is to wait any longer: the server ends."""
        self.is_ending = True
        self.changed()

    def changed(self) -> None:
        """Wakes whoever waits."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def next_change(self, seen: int, most_s: float) -> None:
        """Waits until `version` is no longer `seen`, `most_s` at most."""
        if self.version != seen:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), most_s)

    def failed(self, error: TrimtabError) -> None:
        """Counts a refusal."""
        self.n_problems += 1

    @contextmanager
    def timed_ask(self) -> Iterator[None]:
        """Counts the time that a fetch takes; of several threads at once roughly."""
        started = time.perf_counter()
        yield
        self.n_asks += 1
        self.ask_s += time.perf_counter() - started

    def session_rows(self) -> list[dict[str, Any]]:
        """All sessions: those in memory as they are, the others as the history has them."""
        live = {session.study_id: session for session in self.sessions.live()}
        rows = []
        for each in self.sessions.summaries():
            session = live.get(each.id)
            row = {
                "name": each.name, "study_id": each.id, "status": each.status, "n_trials": each.n_trials,
                "created_at": each.created_at, "objective": each.objective, "state": _state(each.status),
            }  # fmt: skip
            rows.append(strict({**row, **summary_of(session)} if session is not None else row))
        return rows


def _state(status: str) -> str:
    return "running" if status == "running" else "ended"
