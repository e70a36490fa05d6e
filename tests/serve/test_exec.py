"""`trimtab exec --server`: it leaves, however it ends, and has its points for as long as a run may take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.serve.asking import TOKEN, Api
from trimtab.cli import main
from trimtab.client import Server
from trimtab.session.program import Program

_URL = "http://127.0.0.1:1979"
_PASS = ("--", sys.executable, "-c", "pass")


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> Callable[[Api], None]:
    """Has the command line reach that server without a socket."""

    def reach(api: Api) -> None:
        class Wire:
            def request(self, method: str, url: str, **more: Any) -> httpx.Response:
                return api.call(method, url.removeprefix(_URL), **more)

        monkeypatch.setattr("trimtab.client.Server", lambda url, **more: Server(url, TOKEN, http=Wire(), **more))

    return reach


def interrupted(*rest: object) -> None:
    """As Ctrl-C during a run."""
    raise KeyboardInterrupt


def run_exec(*code: str) -> int:
    words = ["exec", "--server", _URL, "--name", "x", "--int", "level=1:9", "--budget", "2 trials", "--no-proof"]
    with pytest.raises(SystemExit) as end:
        main([*words, *code, "{level}"])
    assert isinstance(end.value.code, int)
    return end.value.code


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, none of which is waited for."""
    now, found = [0.0], []

    def sleep(seconds: float) -> None:
        found.append(seconds)
        now[0] += seconds

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: now[0], perf_counter=time.perf_counter)
    monkeypatch.setattr("trimtab.client.synchronous.time", clock)
    return found


def test_a_server_that_is_not_there_is_said_at_once_and_given_up_soon(
    hurried: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Dead:
        def request(self, method: str, url: str, **more: Any) -> httpx.Response:
            raise httpx.ConnectError("[Errno 111] Connection refused")

    monkeypatch.setattr("trimtab.client.Server", lambda url, **more: Server(url, TOKEN, http=Dead(), **more))
    assert run_exec(*_PASS) == 2
    away = f"server='{_URL}' cannot be reached: [Errno 111] Connection refused"
    assert capsys.readouterr().err.splitlines() == [
        f"{away}; trying again for up to 10s",
        f"error: {away}",
        "hint: is `trimtab serve` running there? if not, start it, or give the address of one that runs",
    ]
    assert sum(hurried) <= 10


def test_a_server_that_is_away_for_a_while_is_waited_for(
    api: Api, reached: Callable[[Api], None], hurried: list[float], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    reached(api)
    call, asked = api.call, []

    def seldom(method: str, path: str, **more: Any) -> httpx.Response:
        asked.append(path)
        if path.endswith("/report") and sum(each == path for each in asked) < 10:
            raise httpx.ConnectError("no answer")
        return call(method, path, **more)

    monkeypatch.setattr(api, "call", seldom)
    assert run_exec(*_PASS) == 0
    told = capsys.readouterr().err
    assert f"server='{_URL}' cannot be reached: no answer; trying again for up to 1min\n" in told
    assert told.endswith(f"report: {_URL}, or `trimtab report x` where that server runs\n")
    assert 10 < sum(hurried) < 60


def test_it_leaves_when_it_is_interrupted(
    api: Api, reached: Callable[[Api], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    reached(api)
    with monkeypatch.context() as patched:
        patched.setattr(Program, "run", interrupted)
        assert run_exec("--timeout", "2h", *_PASS) == 130
    shown = api.get("/api/v1/sessions/x").json()
    assert shown["clients"] == []
    assert [row["client"] for row in shown["running"]] == [""]
    with api.hub.sessions.use("x") as session:
        assert session.spec.lease_s > 2 * 3600
    assert run_exec(*_PASS) == 0


def test_it_says_that_it_waits(api: Api, reached: Callable[[Api], None], monkeypatch: pytest.MonkeyPatch) -> None:
    reached(api)
    with monkeypatch.context() as patched:
        patched.setattr(Program, "run", interrupted)
        assert run_exec(*_PASS) == 130
    api.post("/api/v1/sessions/x/fetch", {"client": api.join("x")})
    lines = []

    def say(text: str) -> None:
        lines.append(text)
        api.post("/api/v1/sessions/x/stop")

    monkeypatch.setattr("trimtab.cli.exec_command._QUIET_S", 0.0)
    monkeypatch.setattr("trimtab.cli.exec_command.say", say)
    assert run_exec(*_PASS) == 130, "it was stopped, which is not the end that --no-proof asks for"
    assert lines[0] == "session x has no point ready (other clients have them, or it is paused): waiting"


def test_a_session_that_failed_says_so_after_a_restart_of_the_server(
    served: Callable[..., Api], reached: Callable[[Api], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        reached(served())
        assert run_exec("--", sys.executable, "-c", "raise SystemExit(3)") == 4
        assert "error: the baseline itself cannot be measured: crashed: exit code 3" in capsys.readouterr().err
