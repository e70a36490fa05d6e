"""Sessions with a clock of the test's own and a program that is a formula."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trimtab.history import History
from trimtab.session import Report, Session, Sessions
from trimtab.session.spec import SessionSpec, read_spec

KNOBS = [
    {"name": "x", "kind": "integer", "low": 0, "high": 20, "default": 2},
    {"name": "mode", "kind": "choice", "choices": ["slow", "fast"]},
]


def spec(**more: Any) -> SessionSpec:
    """A session of two knobs; its best config is x=14, mode=fast."""
    values = {"name": "s", "knobs": KNOBS, "budget": "12 trials", "searcher": "random", **more}
    return read_spec(json.dumps(values))


def seconds(config: Any, noise: float = 0.0) -> float:
    """What the program takes."""
    return float((10 + (config["x"] - 14) ** 2 / 20) * (2 if config["mode"] == "slow" else 1) * (1 + noise))


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(tmp_path: Path, clock: Clock) -> Iterator[Callable[[], Sessions]]:
    """Opens the sessions of one folder; what was open before is closed, as at a restart."""
    made: list[tuple[Sessions, History]] = []

    def close() -> None:
        while made:
            sessions, history = made.pop()
            sessions.close()
            history.close()

    def start() -> Sessions:
        close()
        history = History.open(tmp_path / "history.db")
        made.append((Sessions(history, tmp_path, clock=clock, timer=clock), history))
        return made[0][0]

    yield start
    close()


def measured(session: Session, client: str, n: int = 10_000, f: Callable[[Any], float] = seconds) -> int:
    """Measures up to `n` points; how many there were."""
    for number in range(n):
        found = session.fetch(client)
        if found.point is None:
            return number
        session.report(client, found.ticket, Report(value=f(found.point.config)))
    return n
