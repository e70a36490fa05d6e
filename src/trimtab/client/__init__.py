"""ASK A SERVER: tune a program from within it, by a session of `trimtab serve`. Needs `trimtab[client]` and nothing else.

    from trimtab.client import Server, integer

    with Server() as server:
        session = server.session("blocks", [integer("block", 1, 1024, log=True)], budget="40 trials")
        for point in session:
            point.report(seconds_of(multiply, **point.config))
        print(session.best)

`AsyncServer` is the same with `async for` and `await`.
"""

from __future__ import annotations

from trimtab.client.asynchronous import AsyncPoint, AsyncServer, AsyncSession
from trimtab.client.knobs import boolean, choice, integer, ordinal, real
from trimtab.client.synchronous import Point, Server, Session
from trimtab.client.wire import Best, ServerError, Value

__all__ = [
    "AsyncPoint",
    "AsyncServer",
    "AsyncSession",
    "Best",
    "Point",
    "Server",
    "ServerError",
    "Session",
    "Value",
    "boolean",
    "choice",
    "integer",
    "ordinal",
    "real",
]
