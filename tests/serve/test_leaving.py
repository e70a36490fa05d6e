"""What a client of Python does when its program ends in the middle of a run, and when the server is away or has lost a point."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, ClassVar

import httpx
import pytest

from tests.serve.asking import BEGIN, KNOBS, TOKEN, Api
from trimtab.client import AsyncServer, Server, ServerError
from trimtab.client.asynchronous import AsyncPoint

_URL = "http://127.0.0.1:1979"
_OPTIONS: dict[str, Any] = {"budget": BEGIN["budget"], "searcher": "random"}


class Wire:
    """Reaches a server without a socket."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def request(self, method: str, url: str, **more: Any) -> httpx.Response:
        return self._api.call(method, url.removeprefix(_URL), **more)


def _is_given_back(api: Api) -> bool:
    """Whether the only point waits for anybody, at once and not when its lease is over."""
    shown = api.get("/api/v1/sessions/s").json()
    return shown["clients"] == [] and [row["client"] for row in shown["running"]] == [""]


def test_a_program_that_fails_gives_its_point_back(api: Api) -> None:
    def work() -> None:
        with Server(_URL, TOKEN, http=Wire(api)) as server:
            for _ in server.session("s", KNOBS, **_OPTIONS):
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert _is_given_back(api)


def test_a_program_with_an_event_loop_gives_its_point_back(api: Api) -> None:
    async def work() -> None:
        http = httpx.AsyncClient(transport=httpx.ASGITransport(api.app))
        async with http, AsyncServer(_URL, TOKEN, http=http) as server:
            async for _ in await server.session("s", KNOBS, **_OPTIONS):
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(work())
    assert _is_given_back(api)


def test_who_has_reported_asks_nothing_more_at_the_end(api: Api) -> None:
    with Server(_URL, TOKEN, http=Wire(api)) as server:
        point = server.session("s", KNOBS, **_OPTIONS).fetch()
        assert point is not None
        point.report(1.0)
    assert len(api.get("/api/v1/sessions/s").json()["clients"]) == 1


def test_who_joins_again_because_the_answer_was_lost_is_there_once(api: Api) -> None:
    """The other one would never ask, and hold a place as long as the session runs."""

    def fails(request: str, lost: list[str]) -> bool:
        """The first answer to each request to join."""
        if not request.endswith("/clients"):
            return False
        lost.append(request)
        return len(lost) == 1

    class Lossy(Wire):
        lost: ClassVar[list[str]] = []

        def request(self, method: str, url: str, **more: Any) -> httpx.Response:
            answer = super().request(method, url, **more)
            if fails(url, self.lost):
                raise httpx.ReadError("lost")
            return answer

    class AsyncLossy(httpx.ASGITransport):
        lost: ClassVar[list[str]] = []

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            answer = await super().handle_async_request(request)
            if fails(request.url.path, self.lost):
                raise httpx.ReadError("lost")
            return answer

    with Server(_URL, TOKEN, http=Lossy(api)) as server:
        assert server.session("s", KNOBS, **_OPTIONS).fetch() is not None
        assert (len(Lossy.lost), _joined(api)) == (2, 1)
        server.join("s")
        assert _joined(api) == 2, "another client"

    async def work() -> None:
        http = httpx.AsyncClient(transport=AsyncLossy(api.app))
        async with http, AsyncServer(_URL, TOKEN, http=http) as server:
            await server.join("s")

    asyncio.run(work())
    assert (len(AsyncLossy.lost), _joined(api)) == (2, 2), "the first client has left with its point"


def test_who_has_left_leaves_without_a_word(api: Api) -> None:
    """The answer to its first try was lost, or the server was started anew."""
    with Server(_URL, TOKEN, http=Wire(api)) as server:
        session = server.session("s", KNOBS, **_OPTIONS)
        for _ in range(2):
            session.leave()
        with pytest.raises(ServerError):
            server.request("DELETE", "/sessions/s/clients/nobody")

    async def work() -> None:
        http = httpx.AsyncClient(transport=httpx.ASGITransport(api.app))
        async with http, AsyncServer(_URL, TOKEN, http=http) as server:
            joined = await server.join("s")
            for _ in range(2):
                await joined.leave()

    asyncio.run(work())


def _lose(api: Api) -> None:
    """The point that is out, as a server that was killed before it had written it down."""
    with api.hub.sessions.use("s") as session:
        session._opens.clear()
        session._most_lost = -1


def _joined(api: Api) -> int:
    return len(api.get("/api/v1/sessions/s").json()["clients"])


def test_a_point_that_the_server_has_lost_makes_nobody_join_twice(api: Api) -> None:
    """The client that is there twice would make the proof, and never come."""
    with Server(_URL, TOKEN, http=Wire(api)) as server:
        point = server.session("s", KNOBS, **_OPTIONS).fetch()
        assert point is not None
        _lose(api)
        point.report(1.0)
        assert point.is_late
        assert _joined(api) == 1

    async def work() -> None:
        http = httpx.AsyncClient(transport=httpx.ASGITransport(api.app))
        async with http, AsyncServer(_URL, TOKEN, http=http) as server:
            session = await server.join("s")
            point = AsyncPoint(session, "1.7.1.x", {}, "search", "quick")
            await point.report(1.0)
            assert point.is_late

    asyncio.run(work())
    assert _joined(api) == 2


def test_a_session_that_goes_on_after_a_restart_has_no_result(api: Api) -> None:
    with Server(_URL, TOKEN, http=Wire(api)) as server:
        session = server.session("s", KNOBS, **_OPTIONS)
        session.control("stop")
        assert session.fetch() is None
        assert session.result == "interrupted"
        before = session.control("restart")["study_id"]
        assert session.control("restart")["study_id"] > before
        assert session.fetch() is not None
        assert session.result == ""

    async def work() -> list[str]:
        http = httpx.AsyncClient(transport=httpx.ASGITransport(api.app))
        async with http, AsyncServer(_URL, TOKEN, http=http) as server:
            session, found = await server.join("s"), []
            for what in ("stop", "restart"):
                await session.control(what)
                await session.fetch(wait_s=0)
                found.append(session.result)
            return found

    assert asyncio.run(work()) == ["interrupted", ""]


def test_a_server_is_waited_for_from_its_first_failure_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch may have waited for a point for most of that time before."""
    now, pauses = [0.0], []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    class Killed:
        def request(self, method: str, url: str, **more: Any) -> httpx.Response:
            if not pauses:
                now[0] += 55.0
            raise httpx.RemoteProtocolError("the server has gone")

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: now[0], perf_counter=time.perf_counter)
    monkeypatch.setattr("trimtab.client.synchronous.time", clock)
    with pytest.raises(ServerError, match="cannot be reached: the server has gone"):
        Server(_URL, TOKEN, http=Killed()).request("GET", "/sessions")
    assert 50 < sum(pauses) <= 60
