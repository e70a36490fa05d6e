"""Turns: clients of a session that is busy leave threads to the other sessions."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import httpx
import pytest

from tests.serve.asking import BEGIN, TOKEN, Api, run

ONE = "/api/v1/sessions/{}"
MANY = 100
"""More requests than there are threads of either kind."""


BUSY = {**BEGIN, "name": "busy", "searcher": "gp"}
ASKED: dict[str, tuple[str, str, object]] = {
    "show": ("GET", ONE.format("busy"), None),
    "best": ("GET", ONE.format("busy") + "/best", None),
    "begin": ("POST", "/api/v1/sessions", BUSY),
    "pause": ("POST", ONE.format("busy") + "/pause", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ASKED)
@pytest.mark.parametrize("is_loading", [False, True])
def test_clients_of_a_busy_session_leave_threads_to_others(api: Api, what: str, is_loading: bool) -> None:
    for begun in (BUSY, {**BUSY, "name": "other"}):
        assert api.post("/api/v1/sessions", begun).status_code == 201
    sessions = api.hub.sessions
    if is_loading:
        del sessions._held["busy"]
    method, path, body = ASKED[what]

    async def asked() -> tuple[int, list[int], list[int]]:
        transport = httpx.ASGITransport(api.app)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1979", headers=headers) as client:
            with sessions._alone("busy") if is_loading or what == "begin" else sessions._held["busy"].lock:
                waiting = [asyncio.create_task(client.request(method, path, json=body)) for _ in range(MANY)]
                await asyncio.sleep(0.2)
                others = [await asyncio.wait_for(client.get(ONE.format(f"other{end}")), 30) for end in ("", "/best")]
                n_done = sum(task.done() for task in waiting)
            return n_done, [each.status_code for each in others], [(await task).status_code for task in waiting]

    assert run(asked()) == (0, [200, 200], [200] * MANY)
    assert len(api.hub.turns) == 0


@pytest.mark.slow
@pytest.mark.parametrize("what", ["show", "best", "fetch", "pause"])
def test_sessions_that_think_at_once_leave_threads_to_others(api: Api, what: str) -> None:
    """Eight of them, each asked by eight clients: more requests than there are threads of either kind."""
    names = [f"thinks{number}" for number in range(8)]
    for name in (*names, "other"):
        assert api.post("/api/v1/sessions", {**BUSY, "name": name}).status_code == 201
    method, path, body = ASKED[what] if what in ASKED else ("POST", ONE.format("busy") + "/fetch", {"client": "nobody"})
    other = {"client": api.join("other")}

    async def asked() -> tuple[int, list[int]]:
        transport = httpx.ASGITransport(api.app)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1979", headers=headers) as client:
            with ExitStack() as held:
                for name in names:
                    held.enter_context(api.hub.sessions._held[name].lock)
                waiting = [
                    asyncio.create_task(client.request(method, path.replace("busy", name), json=body))
                    for name in names
                    for _ in range(8)
                ]
                await asyncio.sleep(0.2)
                found = [
                    await asyncio.wait_for(client.post(ONE.format("other") + "/fetch", json=other), 30),
                    await asyncio.wait_for(client.get(ONE.format("other") + "/best"), 30),
                    await asyncio.wait_for(client.get(ONE.format("other")), 30),
                ]
                n_done = sum(task.done() for task in waiting)
            await asyncio.gather(*waiting)
            return n_done, [each.status_code for each in found]

    assert run(asked()) == (0, [200, 200, 200])
    assert len(api.hub.turns) == 0


def slow(api: Api, held: ExitStack) -> None:
    """Whatever is read of sessions that are not in memory waits, and so does whatever is drawn of studies."""
    for name in LOADING:
        del api.hub.sessions._held[name]
        held.enter_context(api.hub.sessions._alone(name))
    held.enter_context(api.hub.kept._lock)


LOADING = [f"loading{number}" for number in range(8)]
SLOW: dict[str, list[tuple[str, str, object]]] = {
    "show": [("GET", ONE.format(name), None) for name in LOADING],
    "best": [("GET", ONE.format(name) + "/best", None) for name in LOADING],
    "begin": [("POST", "/api/v1/sessions", {**BEGIN, "name": name}) for name in LOADING],
    "pause": [("POST", ONE.format(name) + "/pause", {}) for name in LOADING],
    "stop": [("POST", f"/api/v1/studies/{number}/stop", {}) for number in range(1, 9)],
    "charts": [("GET", f"/api/v1/studies/{number}/charts", None) for number in range(1, 9)],
    "compare": [("GET", f"/api/v1/studies/{number}/compare?with=1", None) for number in range(1, 9)],
}


@pytest.mark.slow
@pytest.mark.parametrize("what", SLOW)
def test_sessions_that_load_and_studies_that_are_drawn_leave_threads_to_others(api: Api, what: str) -> None:
    """Eight of them at once, each asked for by eight clients: more than there are threads of either kind."""
    for name in (*LOADING, "other"):
        assert api.post("/api/v1/sessions", {**BEGIN, "name": name}).status_code == 201

    async def asked() -> tuple[int, list[int], set[int]]:
        transport = httpx.ASGITransport(api.app)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1979", headers=headers) as client:
            with ExitStack() as held:
                slow(api, held)
                waiting = [
                    asyncio.create_task(client.request(method, path, json=body))
                    for method, path, body in SLOW[what]
                    for _ in range(8)
                ]
                await asyncio.sleep(0.2)
                paths = (ONE.format("other"), ONE.format("other") + "/best", "/api/v1/sessions", "/api/v1/studies")
                others = [await asyncio.wait_for(client.get(path), 30) for path in paths]
                n_done = sum(task.done() for task in waiting)
            return n_done, [each.status_code for each in others], {(await task).status_code for task in waiting}

    n_done, others, slow_ones = run(asked())
    assert (n_done, others) == (0, [200] * 4)
    assert slow_ones <= ({200, 409} if what == "stop" else {200})  # a session is stopped once
    assert len(api.hub.turns) == len(api.hub.loads) == len(api.hub.views) == 0


def test_a_request_that_is_cut_off_gives_its_turn_back(api: Api) -> None:
    async def seen() -> int:
        turns = api.hub.turns

        async def wait() -> None:
            async with turns.of("s"):
                await asyncio.sleep(60)

        tasks = [asyncio.create_task(wait()) for _ in range(MANY)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(turns)

    assert run(seen()) == 0
