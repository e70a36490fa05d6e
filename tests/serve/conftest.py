"""A server in the test's own process; without its libraries only the test that asks for them is collected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import needs

if TYPE_CHECKING:
    from tests.serve.asking import Api

LIBRARIES = ("starlette", "httpx", "uvicorn")
_OWN = Path(__file__).parent

if any(needs.why_missing(name) for name in LIBRARIES):
    collect_ignore = [path.name for path in _OWN.glob("test_*.py") if path.name != "test_libraries.py"]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Api]]:
    """Makes a server of those settings; the one before is closed."""
    from tests.serve.asking import TOKEN, Api
    from trimtab.history import History
    from trimtab.serve.hub import Hub
    from trimtab.serve.settings import ServeSettings
    from trimtab.session import Sessions

    made: list[tuple[Hub, History]] = []

    def close() -> None:
        while made:
            hub, history = made.pop()
            hub.close()
            hub.sessions.close()
            history.close()

    def start(**settings: Any) -> Api:
        close()
        history = History.open(tmp_path / "history.db")
        hub = Hub(Sessions(history, tmp_path), ServeSettings(**{"token": TOKEN, **settings}), tmp_path)
        made.append((hub, history))
        return Api(hub)

    yield start
    close()


@pytest.fixture
def api(served: Callable[..., Api]) -> Api:
    return served()
