"""A server in this process, spoken to without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import httpx

from trimtab.serve.app import make_app
from trimtab.serve.hub import Hub

T = TypeVar("T")
TOKEN = "a-token-of-the-tests-0123456789"
KNOBS = [
    {"name": "x", "kind": "integer", "low": 0, "high": 20, "default": 2},
    {"name": "mode", "kind": "choice", "choices": ["slow", "fast"]},
]
BEGIN = {"name": "s", "knobs": KNOBS, "budget": "12 trials", "searcher": "random"}


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

        return run(send())

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.call("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return self.call("POST", path, json={} if body is None else body, **more)

    def join(self, name: str = "s") -> str:
        return str(self.post(f"/api/v1/sessions/{name}/clients", {"name": "test"}).json()["client"])


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)
