"""Turns: clients of a session that is busy leave threads to the other sessions."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.serve.asking import BEGIN, TOKEN, Api, run

ONE = "/api/v1/sessions/{}"
MANY = 100
"""More requests than there are threads of either kind."""


@pytest.mark.parametrize("path", ["", "/best"])
def test_clients_of_a_busy_session_leave_threads_to_others(api: Api, path: str) -> None:
    for name in ("busy", "other"):
        assert api.post("/api/v1/sessions", {**BEGIN, "name": name, "searcher": "gp"}).status_code == 201

    async def asked() -> tuple[int, int, list[int]]:
        transport = httpx.ASGITransport(api.app)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1979", headers=headers) as client:
            with api.hub.sessions._held["busy"].lock:
                waiting = [asyncio.create_task(client.get(ONE.format("busy") + path)) for _ in range(MANY)]
                await asyncio.sleep(0.2)
                other = await asyncio.wait_for(client.get(ONE.format("other") + path), 30)
                n_done = sum(task.done() for task in waiting)
            return n_done, other.status_code, [(await task).status_code for task in waiting]

    assert run(asked()) == (0, 200, [200] * MANY)
    assert len(api.hub.turns) == 0


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
