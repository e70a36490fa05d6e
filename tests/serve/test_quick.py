"""The two requests of every trial, which pass the framework by, are answered as it answers them; all others reach it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.serve.asking import BEGIN, TOKEN, Api
from trimtab.serve.guard import App, Guard
from trimtab.serve.quick import Quick

FETCH, REPORT = "/api/v1/sessions/s/fetch", "/api/v1/sessions/s/report"


class Framework(Api):
    """The same server without the quick way."""

    def __init__(self, api: Api) -> None:
        quick = api.app._app
        assert isinstance(quick, Quick)
        self.hub, self.app = api.hub, Guard(quick._app, api.hub.settings, api.hub.connections, api.hub.refused)


def _told(answer: httpx.Response) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    return answer.status_code, answer.headers.raw, answer.content


async def _chunks(data: bytes) -> Any:
    for at in range(0, len(data), 7):
        yield data[at : at + 7]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("POST", FETCH, b'{"client": "nobody"}', 404),
        ("POST", REPORT, b'{"client": "nobody", "ticket": "1.0.1.x", "value": 1.0}', 404),
        ("POST", FETCH, b"", 422),
        ("POST", FETCH, b"{", 422),
        ("POST", FETCH, b"\xff\xfe", 422),
        ("POST", FETCH, b"[]", 422),
        ("POST", FETCH, b'{"client": "c", "wait_s": 31}', 422),
        ("POST", FETCH, b'{"client": "c", "more": 1}', 422),
        ("POST", REPORT, b'{"client": "c", "ticket": "1.0.1.x", "value": NaN}', 422),
        ("POST", FETCH, b"x" * 2001, 413),
        ("POST", "/api/v1/sessions/nowhere/fetch", b'{"client": "c"}', 404),
        ("POST", "/api/v1/sessions/%73/fetch", b'{"client": "nobody"}', 404),
        ("POST", "/api/v1/sessions/s%2Ft/fetch", b'{"client": "c"}', 404),
        ("POST", "/api/v1/sessions//fetch", b'{"client": "c"}', 404),
        ("POST", "/api/v1/sessions/s/fetch/", b'{"client": "c"}', 307),
        ("POST", "/api/v1/sessions/s/fetched", b'{"client": "c"}', 404),
        ("POST", "/api/v2/sessions/s/fetch", b'{"client": "c"}', 404),
        ("GET", FETCH, None, 405),
        ("HEAD", FETCH, None, 405),
        ("OPTIONS", REPORT, None, 405),
        ("PUT", REPORT, b"{}", 405),
    ],
)
def test_what_is_refused_is_refused_alike(
    served: Callable[..., Api], method: str, path: str, content: bytes | None, status: int
) -> None:
    api = served(most_body=2000)
    api.post("/api/v1/sessions", BEGIN)
    answer = api.call(method, path, content=content)
    assert answer.status_code == status
    assert _told(answer) == _told(Framework(api).call(method, path, content=content))


def test_a_body_in_pieces_is_put_together_and_has_the_same_limit(served: Callable[..., Api]) -> None:
    api = served(most_body=2000)
    api.post("/api/v1/sessions", BEGIN)
    client = api.join()
    body = json.dumps({"client": client}).encode()
    assert api.call("POST", FETCH, content=_chunks(body)).json()["state"] == "point"
    large = [each.call("POST", FETCH, content=_chunks(b" " * 2001)) for each in (api, Framework(api))]
    assert large[0].status_code == 413
    assert large[0].json()["detail"] == "the body is larger than 2000 bytes"
    assert _told(large[0]) == _told(large[1])


def _headers(answer: httpx.Response) -> list[tuple[bytes, bytes]]:
    """The body is as long as it says; two leases are numbers that may differ in their digits, so bodies in their length."""
    assert answer.headers["content-length"] == str(len(answer.content))
    return [(name, b"" if name == b"content-length" else value) for name, value in answer.headers.raw]


def test_answers_are_those_of_the_framework(api: Api) -> None:
    api.post("/api/v1/sessions", BEGIN)
    client = api.join()
    points = [each.post(FETCH, {"client": client}) for each in (api, Framework(api))]
    found, other = (answer.json() for answer in points)
    assert _headers(points[0]) == _headers(points[1])
    assert {**found, "lease_until": 0} == {**other, "lease_until": 0}, "the same point again, its lease renewed"
    assert list(found) == list(other)
    said = {"client": client, "ticket": found["ticket"], "value": 20.0}
    assert api.post(REPORT, said).json()["outcome"] == "told"
    known = [each.post(REPORT, said) for each in (api, Framework(api))]
    assert known[0].json()["outcome"] == "known"
    assert _told(known[0]) == _told(known[1])
    for each in (api, Framework(api)):
        assert each.post(FETCH, {"client": client}, token="wrong").status_code == 401
        assert each.post(FETCH, {"client": client}, headers={"Host": "evil.example"}).status_code == 421
        assert each.post(FETCH, {"client": client}, headers={"Origin": "http://evil.example"}).status_code == 403


def test_a_bug_is_answered_without_its_insides_and_logged(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*rest: object) -> None:
        raise ZeroDivisionError("insides")

    monkeypatch.setattr(api.hub.sessions, "call_now", broken)
    answers = [each.post(FETCH, {"client": "c"}) for each in (api, Framework(api))]
    assert answers[0].status_code == 500
    assert answers[0].json()["detail"] == "a bug in Trimtab: ZeroDivisionError"
    assert _told(answers[0]) == _told(answers[1])


def test_a_client_that_goes_before_its_body_is_whole_changes_nothing(api: Api) -> None:
    assert _sent_to_who_has_gone(api, FETCH) == []


def test_who_goes_before_the_body_of_a_rare_request_is_whole_is_no_bug(api: Api) -> None:
    """The framework would raise it once more, into the server's log."""
    sent = _sent_to_who_has_gone(api, "/api/v1/sessions")
    assert [message.get("status") for message in sent] == [400, None]


@pytest.mark.parametrize("is_quick", [True, False])
def test_a_client_that_goes_while_it_waits_takes_no_point(api: Api, is_quick: bool) -> None:
    """Else it would have that point until its lease is over: all that waits for it would stand for ten minutes."""
    api.post("/api/v1/sessions", BEGIN)
    gone, other = api.join(), api.join()
    api.post("/api/v1/sessions/s/pause")
    body = json.dumps({"client": gone, "wait_s": 20}).encode()
    app = api.app if is_quick else Framework(api).app

    async def wait_and_go() -> list[Any]:
        waiting = asyncio.create_task(_spoken(app, FETCH, [{"type": "http.request", "body": body}]))
        while api.hub.rung("s") < 0:
            await asyncio.sleep(0.001)
        with api.hub.sessions.use("s") as session:
            session.resume()
        api.hub.changed("s")
        return await waiting

    assert [message.get("status") for message in asyncio.run(wait_and_go())] == ([] if is_quick else [400, None])
    assert api.post(FETCH, {"client": other}).json()["state"] == "point"


def _sent_to_who_has_gone(api: Api, path: str) -> list[Any]:
    return asyncio.run(_spoken(api.app, path, [{"type": "http.request", "body": b'{"cl', "more_body": True}]))


async def _spoken(app: App, path: str, messages: list[dict[str, Any]]) -> list[Any]:
    """What is sent to a client that says this and goes."""
    sent: list[Any] = []
    told = iter(messages)

    async def receive() -> Any:
        return next(told, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {TOKEN}".encode())]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
    await app(scope, receive, send)
    return sent
