"""Quick: the requests that a client sends for every trial, straight to their operations.

The framework's routing, request and layers of exception handling take several times as long as what is asked for. Whatever is not
exactly one of these requests (another method, a path with more in it) goes on to the framework, which answers it as ever.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from trimtab.errors import TrimtabError
from trimtab.serve.api import SESSIONS, HasGone, Operation
from trimtab.serve.bodies import read_body
from trimtab.serve.guard import App, Receive, Scope, Send
from trimtab.serve.hub import Hub
from trimtab.serve.problem import problem, problem_of

__all__ = ["Quick"]

_PREFIX = f"{SESSIONS}/"
_encoded = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""As the framework writes JSON."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """One of the operations: its model, and what it does for a session of that name."""

    body: type[BaseModel]
    run: Callable[[Hub, str, Any, HasGone], Awaitable[Any]]


class Quick:
    """An ASGI application around another one.

    Args:
        app: answers everything else.
        hub: for the operations.
        operations: those of them that have a `quick` form are answered here.
    """

    def __init__(self, app: App, hub: Hub, operations: Sequence[Operation]) -> None:
        self._app, self._hub = app, hub
        self._asked = {
            each.path.rpartition("/")[2]: _Asked(each.body, each.quick)
            for each in operations
            if each.quick is not None and each.body is not None
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on."""
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"].startswith(_PREFIX):
            name, _, what = scope["path"][len(_PREFIX) :].partition("/")
            asked = self._asked.get(what)
            if name and asked is not None:
                await self._answered(asked, name, scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answered(self, asked: _Asked, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        refusal: Response
        try:
            data = await _body(receive)
            answer = await asked.run(
                self._hub, name, read_body(asked.body, data), Request(scope, receive).is_disconnected
            )
            text = _encoded(answer).encode()
        except ClientDisconnect:
            return
        except TrimtabError as error:
            self._hub.failed(error)
            refusal = problem_of(error)
        except HTTPException as error:  # the guard's: there is too much of it
            refusal = problem(error.status_code, str(error.detail))
        except Exception as error:
            await problem_of(error)(scope, receive, send)
            raise  # for the server's log
        else:
            headers = [(b"content-length", b"%d" % len(text)), (b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": text})
            return
        await refusal(scope, receive, send)


async def _body(receive: Receive) -> bytes:
    """The whole body.

    Raises:
        ClientDisconnect: the client has gone.
    """
    message = await receive()
    parts = [message.get("body", b"")]
    while message["type"] == "http.request" and message.get("more_body", False):
        message = await receive()
        parts.append(message.get("body", b""))
    if message["type"] != "http.request":
        raise ClientDisconnect
    return b"".join(parts)
