"""`trimtab` with a bullet in it: the process kills itself (SIGKILL) at one call of one function, or at one statement.

    python killed_at.py MODULE:NAME:before|after:N ... -- bench study.toml        # the N-th call
    python killed_at.py sql:ALTER SYSTEM SET:before|after:N ... -- ...                # the N-th such statement

TT_KILL_DEADMAN=1 takes the dead-man along, as a power cut would.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil
import psycopg


def die() -> None:
    if os.environ.get("TT_KILL_DEADMAN"):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # a session of the embedded server ends when it likes
                if any("deadman_process" in word for word in child.cmdline()):
                    child.kill()
    os.kill(os.getpid(), signal.SIGKILL)


def wrapped(function: Callable[..., Any], when: str, number: int, counts: Callable[..., bool]) -> Callable[..., Any]:
    n_calls = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal n_calls
        n_calls += counts(*args)
        is_it = counts(*args) and n_calls == number
        if is_it and when == "before":
            die()
        result = function(*args, **kwargs)
        if is_it:
            die()
        return result

    return call


def _text(query: Any) -> str:
    if isinstance(query, bytes):
        return query.decode()
    return query if isinstance(query, str) else str(query.as_string(None))


def inject(where: str) -> None:
    module_name, path, when, number = where.split(":")
    if module_name == "sql":
        kind: Any = psycopg.Connection
        kind.execute = wrapped(kind.execute, when, int(number), lambda self, query, *more: path in _text(query))
        return
    holder: Any = importlib.import_module(module_name)
    *outer, name = path.split(".")
    for part in outer:
        holder = getattr(holder, part)
    setattr(holder, name, wrapped(getattr(holder, name), when, int(number), lambda *args: True))


def main(words: list[str]) -> None:
    split = words.index("--")
    for where in words[:split]:
        inject(where)
    from trimtab.cli import main as trimtab

    trimtab(words[split + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])
