"""A server in this process, spoken to without a socket."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from trimtab.serve.api import OPERATIONS
from trimtab.serve.app import make_app
from trimtab.serve.hub import Hub
from trimtab.serve.openapi import openapi
from trimtab.serve.studies import STUDY_OPERATIONS

T = TypeVar("T")
TOKEN = "a-token-of-the-tests-0123456789"
KNOBS = [
    {"name": "x", "kind": "integer", "low": 0, "high": 20, "default": 2},
    {"name": "mode", "kind": "choice", "choices": ["slow", "fast"]},
]
BEGIN = {"name": "s", "knobs": KNOBS, "budget": "12 trials", "searcher": "random"}


_ROUTES = [
    (method.upper(), re.compile(re.sub(r"{\w+}", "[^/]+", path)), set(operation["responses"]))
    for path, operations in openapi([*OPERATIONS, *STUDY_OPERATIONS])["paths"].items()
    for method, operation in operations.items()
]
"""Method, paths and the answers that the OpenAPI document tells, of each route."""


def require_described(method: str, url: str, status: int) -> None:
    """Whether the OpenAPI document tells of that answer: all that tests get are compared with it."""
    for of_route, path, told in _ROUTES:
        if of_route == method and path.fullmatch(urlsplit(url).path):
            assert told & {str(status), f"{status // 100}XX"}, (
                f"{method} {url} gave {status}, and is to give one of {told}"
            )


class Api:
    """Requests of one test: `api.get(path)`, `api.post(path, body)`; each in a loop of its own."""

    def __init__(self, hub: Hub) -> None:
        self.hub, self.app = hub, make_app(hub)

    def call(
        self, method: str, path: str, *, token: str | None = TOKEN, headers: Any = None, **more: Any
    ) -> httpx.Response:
        sent = {} if token is None else {"Authorization": f"Bearer {token}"}

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1979") as client:
                return await client.request(method, path, headers={**sent, **(headers or {})}, **more)

        answer = run(send())
        require_described(method, path, answer.status_code)
        return answer

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.call("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return self.call("POST", path, json={} if body is None else body, **more)

    def join(self, name: str = "s") -> str:
        return str(self.post(f"/api/v1/sessions/{name}/clients", {"name": "test"}).json()["client"])


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)
