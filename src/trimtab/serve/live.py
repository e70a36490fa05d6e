"""Server-sent events: the state of all sessions and studies when it changes, once a second at most; made once for all viewers."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from trimtab.errors import TrimtabError
from trimtab.jsonable import strict
from trimtab.serve.hub import Hub
from trimtab.serve.problem import problem

__all__ = ["LiveView"]

_MOST_VIEWERS = 50
_SHORTEST_S = 1.0
_LONGEST_S = 2.0
"""The command line's studies are written by other processes: they are looked at this often."""
_BEAT_S = 15.0


class LiveView:
    """The stream of one server; over when its hub ends, or when the history cannot be read."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._n_viewers = 0
        self._made = ""
        self._made_at = -math.inf
        self._is_measuring = False
        self._making = threading.Lock()

    async def stream(self, request: Request) -> Response:
        """As an answer."""
        if self._n_viewers >= _MOST_VIEWERS:
            return problem(503, f"n_viewers={self._n_viewers} watch already", "close a dashboard")
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[str]:
        self._n_viewers += 1
        try:
            last, silent_s = "", 0.0
            while not self._hub.is_ending:
                n = self._hub.seen.n
                try:
                    data = await run_in_threadpool(self._state)
                except TrimtabError as error:  # a history that cannot be read now: the page says so, and asks again
                    self._hub.failed(error)
                    self._hub.refused()
                    return
                if data != last:
                    last, silent_s = data, 0.0
                    yield f"event: state\ndata: {data}\n\n"
                elif silent_s >= _BEAT_S:
                    silent_s = 0.0
                    yield ": still here\n\n"
                if not self._hub.is_ending:
                    await asyncio.sleep(_SHORTEST_S)
                if not self._is_measuring:
                    await self._hub.seen.wait(n, _LONGEST_S - _SHORTEST_S)
                silent_s += _LONGEST_S
        finally:
            self._n_viewers -= 1

    def _state(self) -> str:
        """As JSON; that of another viewer if it is fresh."""
        with self._making:
            if self._hub.clock() - self._made_at >= _SHORTEST_S / 2:
                self._made, self._made_at = json.dumps(self._looked()), self._hub.clock()
            return self._made

    def _looked(self) -> dict[str, Any]:
        running = {session.study_id: strict(session.running()) for session in self._hub.sessions.live()}
        sessions = self._hub.session_rows()
        for row in sessions:
            row["running"] = running.get(row["study_id"], [])
        studies = self._hub.study_rows()
        self._is_measuring = any(row["now"] for row in studies)
        return {"sessions": sessions, "studies": studies}
