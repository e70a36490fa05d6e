"""The example of a cluster leaves its server as postgresql.conf has it, however it is ended."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # it loads the client and a driver

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster" / "member.py"


class Serving:
    """A server of sessions whose client is told to end while it has a point."""

    number = signal.SIGTERM

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None: ...

    def session(self, *_: object, **__: object) -> Any:
        return self

    result, best = "", SimpleNamespace(config={})

    def __iter__(self) -> Iterator[object]:
        os.kill(os.getpid(), self.number)
        time.sleep(5)
        yield None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_member_that_is_ended_resets_its_server(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """The how-to starts members in the background, where no Ctrl-C reaches them: `kill` is how they are stopped."""
    spec = importlib.util.spec_from_file_location("member", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    member = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(member)
    done: list[object] = []
    monkeypatch.setattr(Serving, "number", number)
    monkeypatch.setattr(member, "Server", Serving)
    monkeypatch.setattr(member, "set_values", lambda dsn, config: done.append(config))
    monkeypatch.setattr("sys.argv", ["member.py", "db1", "host=nowhere"])

    def missed(*_: object) -> None:
        raise AssertionError(f"{number.name} would have ended the member at once")

    before = {each: signal.signal(each, missed) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with pytest.raises(SystemExit):
            member.main()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert done == [None]
