"""The web applications on a real Tomcat and a real database, each in a folder of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.cache import own_cache
from trimtab import plugins


@pytest.fixture(scope="session", autouse=True)
def cache() -> Iterator[Path]:
    with own_cache() as folder:
        yield folder


@pytest.fixture(scope="session")
def state_dir(cache: Path) -> Path:
    return cache / "state"


def target(kind: str, name: str, state_dir: Path, **table: Any) -> Any:
    """A private server of that kind, not open."""
    made = plugins.load("targets", kind)
    return made.from_settings(name, {"kind": kind, "memory": "1GiB", "knobs": "all", **table}, state_dir=state_dir)
