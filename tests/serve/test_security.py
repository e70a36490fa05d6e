"""Who may ask what: token, Host, Origin, sizes, rates; and the addresses that a server refuses to listen at."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.serve.asking import BEGIN, TOKEN, Api
from trimtab.errors import UsageError
from trimtab.serve.settings import ServeSettings, read_token


def test_everything_but_the_page_needs_the_token(api: Api) -> None:
    for path in (
        "/api/v1/sessions",
        "/api/v1/studies",
        "/metrics",
        "/api/v1/openapi.json",
        "/api/v1/events",
        "/nowhere",
    ):
        for token in (None, "wrong", TOKEN + "x", ""):
            answer = api.get(path, token=token)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["detail"] == "the request bears no token, or a wrong one"
    assert api.get("/health", token=None).json()["status"] == "ok"
    assert api.get("/", token=None).status_code == 200
    assert api.post("/api/v1/sessions", BEGIN, token=None).status_code == 401
    assert api.get("/api/v1/sessions").json() == {"sessions": []}


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:1979", 200), ("localhost", 200), ("[::1]:1979", 200), ("tuner.example", 200), ("evil.example", 421), ("", 421),
     ("127.0.0.1.evil.example", 421), ("[", 421)],
)  # fmt: skip
def test_the_host_header_must_name_this_server(served: Callable[..., Api], host: str, status: int) -> None:
    assert served(names=("tuner.example",)).get("/health", headers={"Host": host}).status_code == status


@pytest.mark.slow
@pytest.mark.parametrize("host", ["192.168.0.7:1979", "127.1:1979", "[2001:db8::7]:1979", "[::1]", "localhost:1979"])
@pytest.mark.parametrize("wild", ["0.0.0.0", "::"])
def test_a_server_of_all_addresses_is_called_by_any_of_them(served: Callable[..., Api], wild: str, host: str) -> None:
    api = served(host=wild, is_forced=True)
    assert api.get("/health", headers={"Host": host}).status_code == 200
    assert api.get("/health", headers={"Host": "2001.evil.example"}).status_code == 421


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://127.0.0.1:1979", 200), ("http://evil.example", 403), ("null", 403), ("http://[", 403)],
)
def test_pages_of_other_sites_are_refused(api: Api, origin: str, status: int) -> None:
    assert api.get("/api/v1/sessions", headers={"Origin": origin}).status_code == status


def test_answers_may_not_be_framed_sniffed_or_kept(api: Api) -> None:
    headers = api.get("/", token=None).headers
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"


def test_bodies_have_a_limit_with_and_without_a_length(served: Callable[..., Api]) -> None:
    api = served(most_body=1000)
    assert api.call("POST", "/api/v1/sessions", content=b"x" * 1001).status_code == 413

    async def chunks() -> Any:
        for _ in range(20):
            yield b"x" * 100

    assert api.call("POST", "/api/v1/sessions", content=chunks()).status_code == 413
    assert api.get("/health", headers={"Content-Length": "9" * 30}).status_code == 413


def test_rates_have_a_limit(served: Callable[..., Api]) -> None:
    api = served(most_per_s=10)
    found = [api.get("/health").status_code for _ in range(60)]
    assert found[:30] == [200] * 30
    assert 429 in found


def test_what_is_not_http_is_left_alone(api: Api) -> None:
    asyncio.run(api.app({"type": "websocket"}, None, None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"host": "0.0.0.0", "token": "t" * 20}, "host='0.0.0.0' can be reached from other machines, and there is no TLS"),
        ({"host": "0.0.0.0", "cert": "c", "key": "c"}, "and there is no token"),
        ({"host": "192.0.2.1"}, "and there is no token and no TLS\nhint: give --cert and --key"),
        ({"host": "db.example"}, "and there is no token and no TLS"),
        ({"cert": "c"}, "TLS needs a certificate and its key"),
        ({"cert": "nowhere", "key": "c"}, "there is no file='nowhere'"),
        ({"names": ("tuner.example", "a b")}, "--name='a b' is not the name of a host\nhint: give the name that clients have"),
        ({"names": ("",)}, "--name='' is not the name of a host"),
        ({"names": ("db.example:1979",)}, "--name='db.example:1979' is not the name of a host"),
        ({"names": ("https://db.example",)}, "is not the name of a host"),
    ],
)  # fmt: skip
def test_addresses_that_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c").touch()
    paths = {name: Path(settings[name]) for name in ("cert", "key") if name in settings}
    with pytest.raises(UsageError, match=said):
        ServeSettings(**{**settings, **paths})


def test_an_address_that_is_forced() -> None:
    assert ServeSettings(host="0.0.0.0", is_forced=True).url == "http://0.0.0.0:1979"
    assert ServeSettings(host="::1").url == "http://[::1]:1979"
    assert ServeSettings(names=("db-1.example.", "192.0.2.1", "2001:db8::1", "x")).names[2] == "2001:db8::1"


def test_the_token_is_made_once_and_kept_from_others(tmp_path: Path) -> None:
    token, is_new = read_token(tmp_path / "state", {})
    path = tmp_path / "state" / "serve.token"
    assert is_new
    assert len(token) > 40
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_token(tmp_path / "state", {}) == (token, False)
    assert read_token(tmp_path / "state", {"TRIMTAB_TOKEN": "of-the-environment-1"}) == ("of-the-environment-1", False)
    with pytest.raises(
        UsageError, match="the token of TRIMTAB_TOKEN is not a token: 5 characters\nhint: give 16 or more"
    ):
        read_token(tmp_path, {"TRIMTAB_TOKEN": "short"})
    path.chmod(0o644)
    with pytest.raises(UsageError, match="others may read the token file="):
        read_token(tmp_path / "state", {})
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="cannot read the token file="):
        read_token(tmp_path / "state", {})


def test_a_token_that_was_not_written_whole_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, *rest: object, **more: object) -> Any:
        os.close(handle)
        return Path("/dev/full").open("w")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdopen", full)
        with pytest.raises(OSError, match="No space left"):
            read_token(tmp_path, {})
    assert read_token(tmp_path, {})[1]
    (tmp_path / "serve.token").write_text("")  # the process was killed in between
    with pytest.raises(UsageError, match="is not a token: 0 characters\nhint: remove it: another one is made"):
        read_token(tmp_path, {})


def test_a_host_of_capital_letters_is_itself(served: Callable[..., Api]) -> None:
    api = served(host="Tuner.Example", is_forced=True)
    assert api.get("/health", headers={"Host": "tuner.example:1979"}).status_code == 200
    assert api.get("/health", headers={"Host": "evil.example"}).status_code == 421
