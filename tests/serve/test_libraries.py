"""The libraries of `trimtab[serve]`, without which nothing else here is collected; and what users are told without them."""

from __future__ import annotations

import re

import pytest

from tests.serve.conftest import LIBRARIES
from trimtab import plugins
from trimtab.errors import UsageError


@pytest.mark.needs(*LIBRARIES)
def test_they_are_installed() -> None:
    """Fails in CI where they are missing."""
    plugins.require_extra("trimtab serve", "serve", *LIBRARIES)


def test_a_missing_one_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "find_spec", lambda name: None)
    said = "trimtab serve needs the library starlette, which is not installed\nhint: pip install 'trimtab[serve]'"
    with pytest.raises(UsageError, match=re.escape(said)):
        plugins.require_extra("trimtab serve", "serve", "starlette", "uvicorn")


@pytest.mark.parametrize("url", ["http://host:port", "http://host:99999", "http://", "https://[::1", "ftp://host"])
def test_what_is_no_url_is_said_before_anything_is_asked(url: str) -> None:
    from trimtab.client import Server, ServerError

    with pytest.raises(ServerError, match="is not a URL"):
        Server(url)


def test_the_client_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from trimtab.client import AsyncServer, Server, ServerError

    monkeypatch.setitem(sys.modules, "httpx", None)
    for server in (Server, AsyncServer):
        with pytest.raises(ServerError, match=re.escape("hint: pip install 'trimtab[client]'")):
            server()
    with pytest.raises(ServerError, match="server='db:1979' is not a URL"):
        Server("db:1979")
