"""Signals that ask to stop, while something must be finished: they are not lost, they wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["signals_wait"]

_ASK_TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_wait() -> Iterator[None]:
    """Inside, Ctrl-C, SIGTERM and SIGHUP have no effect; they take it at the end. Processes started inside see none of this."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    before = {number: signal.signal(number, lambda n, frame: came.append((n, frame))) for number in _ASK_TO_STOP}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for what, frame in dict(came).items():
            handler = before[signal.Signals(what)]
            if callable(handler):
                handler(what, frame)
            elif handler == signal.SIG_DFL:
                signal.raise_signal(what)
