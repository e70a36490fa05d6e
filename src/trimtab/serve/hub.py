"""Hub: what the operations of one server share: sessions, studies, counters, and who waits for a change."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from trimtab.errors import InternalError, TrimtabError
from trimtab.jsonable import strict
from trimtab.serve.commits import Commits
from trimtab.serve.connections import Connections
from trimtab.serve.kept import Kept
from trimtab.serve.settings import ServeSettings
from trimtab.serve.starts import Starts
from trimtab.serve.turns import Pool, Turns
from trimtab.session import Sessions
from trimtab.session.sessions import KIND
from trimtab.session.view import summary_of
from trimtab.study import running_now

__all__ = ["Bell", "Hub"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MOST_THREADS = 40
_MOST_OF_A_SESSION = 1
"""It does one thing at a time: a second request would only wait for the first, and keep a thread from another session."""

_MOST_SLOW = 4
"""Sessions that are read from the history, and studies that are drawn, at once: they compute, so more of them end no earlier."""


class Bell:
    """Wakes everybody who waits for it; used by one event loop.

    Attributes:
        n: counts up each time it rings.
    """

    def __init__(self) -> None:
        self.n = 0
        self._rings = asyncio.Event()

    def ring(self) -> None:
        """Now."""
        self.n += 1
        self._rings.set()
        self._rings = asyncio.Event()

    async def wait(self, n: int, most_s: float) -> None:
        """Until it has rung since `n` was read, `most_s` at most."""
        if self.n == n:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._rings.wait(), most_s)


class Hub:
    """Everything that is shared; used by one event loop.

    Attributes:
        connections: those of the server.
        starts: studies that the server has started.
        kept: studies that people look at.
        commits: what waits for the history.
        threads: for calls of sessions that think; Starlette's own cost as much as such a request takes otherwise.
        is_ending: whether the server is about to end.
        turns: how many of the requests of one session are in a thread at once.
        loads: for calls of sessions that the history must be read for first.
        views: for studies that people look at.
        seen: rings with every change that people are shown.
        n_reports, n_problems, n_asks, ask_s: for the metrics.
    """

    def __init__(
        self,
        sessions: Sessions,
        settings: ServeSettings,
        state_dir: Path,
        clock: Callable[[], float] = time.monotonic,
        history_url: str | None = None,
        connections: Connections | None = None,
    ) -> None:
        self.sessions, self.settings, self.state_dir, self.clock = sessions, settings, state_dir, clock
        self.connections = connections or Connections()
        self.starts = Starts(settings.studies, state_dir, history_url)
        self.kept = Kept(sessions)
        self.commits = Commits(sessions.keeper)
        self.threads = ThreadPoolExecutor(_MOST_THREADS, "trimtab-session")
        self.turns = Turns(_MOST_OF_A_SESSION)
        self.loads, self.views = Pool(_MOST_SLOW), Pool(_MOST_SLOW)
        self.seen = Bell()
        self._points: dict[str, Bell] = {}
        self.n_reports = self.n_problems = self.n_asks = 0
        self.ask_s = 0.0
        self.is_ending = False

    def close(self) -> None:
        """Waits for what was started: studies restore their targets."""
        self.starts.close()
        self.threads.shutdown()

    def end(self) -> None:
        """Nobody is to wait any longer: the server ends."""
        self.is_ending = True
        for bell in (self.seen, *self._points.values()):
            bell.ring()

    def changed(self, session: str = "") -> None:
        """Wakes who watches; and who waits for a point of that session, where one may be ready now."""
        self.seen.ring()
        if session in self._points:
            self._points[session].ring()

    def rung(self, session: str) -> int:
        """How often that bell has rung; -1 where nobody has waited for it yet."""
        return self._points[session].n if session in self._points else -1

    def points(self, session: str) -> Bell:
        """What rings when a point of a session may be ready: its clients wait for nobody else's."""
        return self._points.setdefault(session, Bell())

    async def threaded(self, name: str, call: Callable[[], T], threads: ThreadPoolExecutor | None = None) -> T:
        """What `call` gives, in a thread, so that others go on meanwhile.

        Args:
            name: of the session that it uses. While that must be read from the history first, one request does so, in one of the
                few threads for it, and its others wait without one.
            threads: for a session that is in memory; None: Starlette's.
        """
        async with self.turns.of(name):
            if not self.sessions.is_in_memory(name):
                async with self.loads.of(name):
                    if not self.sessions.is_in_memory(name):
                        return await self.loads.run(call)
            if threads is None:
                return await run_in_threadpool(call)
            return await asyncio.get_running_loop().run_in_executor(threads, call)

    def refused(self) -> None:
        """Counts it."""
        self.n_problems += 1

    def failed(self, error: TrimtabError) -> None:
        """A bug, of which the client is told next to nothing, goes into the server's log."""
        if isinstance(error, InternalError) or isinstance(error.__cause__, InternalError):
            _log.error("%s", error, exc_info=error)

    @contextmanager
    def timed_ask(self) -> Iterator[None]:
        """Counts the time that a fetch takes; of several threads at once roughly."""
        started = time.perf_counter()
        yield
        self.n_asks += 1
        self.ask_s += time.perf_counter() - started

    def session_rows(self) -> list[dict[str, Any]]:
        """All sessions: those in memory as they are, the others as they were or as the history has them."""
        live = {session.study_id: session for session in self.sessions.live()}
        rows = []
        for each in self.sessions.summaries():
            session = live.get(each.id)
            summary = self.sessions.past.get(each.id, {}) if session is None else summary_of(session)
            row = {
                "name": each.name, "study_id": each.id, "status": each.status, "n_trials": each.n_trials,
                "created_at": each.created_at, "objective": each.objective, "state": _state(each.status),
            }  # fmt: skip
            rows.append(strict({**row, **summary}))
        return rows

    def study_rows(self, *, with_sessions: bool = False) -> list[dict[str, Any]]:
        """All studies that are no session of this server; those that run here from this state directory with what they do now."""
        now = running_now(self.state_dir)
        rows = []
        for each in self.sessions.history.summaries():
            if with_sessions or each.target != KIND or each.origin:
                row, doing = strict(asdict(each)), now.get(each.id)
                is_same = doing is not None and (doing["name"], doing["created_at"]) == (each.name, each.created_at)
                rows.append({**row, "now": doing if is_same else None})
        return rows


def _state(status: str) -> str:
    return "running" if status == "running" else "ended"
