"""`trimtab exec --server`: it leaves, however it ends, and has its points for as long as a run may take."""

from __future__ import annotations

import sys
from collections.abc import Callable
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

        monkeypatch.setattr("trimtab.client.Server", lambda url: Server(url, TOKEN, http=Wire(), patience_s=0))

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
    assert run_exec(*_PASS) == 0
    assert lines[0] == "session x has no point ready (other clients have them, or it is paused): waiting"


def test_a_session_that_failed_says_so_after_a_restart_of_the_server(
    served: Callable[..., Api], reached: Callable[[Api], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        reached(served())
        assert run_exec("--", sys.executable, "-c", "raise SystemExit(3)") == 4
        assert "error: the baseline itself cannot be measured: crashed: exit code 3" in capsys.readouterr().err
