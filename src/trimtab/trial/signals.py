"""Signals that ask to stop: waiting while something must be finished, or as Ctrl-C where nothing needs to be."""

from __future__ import annotations

import errno
import os
import signal
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["leave_lost_terminal", "signals_interrupt", "signals_wait"]

_ASK_TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_wait() -> Iterator[None]:
    """Inside, Ctrl-C, SIGTERM and SIGHUP have no effect; they take it at the end. Processes started inside see none of this."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        leave_lost_terminal()
        came.append((number, frame))

    before = {number: signal.signal(number, on_signal) for number in _ASK_TO_STOP}
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


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP do as Ctrl-C: they raise KeyboardInterrupt. Once: those that follow change nothing. What is
    ignored (nohup), or has a handler already, stays so."""
    came: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        leave_lost_terminal()
        came.append(number)
        if len(came) == 1:
            raise KeyboardInterrupt

    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    for number in numbers:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def leave_lost_terminal() -> None:
    """What is still said to a terminal that was closed goes nowhere: an error of writing must not stand in the way of an undo."""
    for stream in (1, 2):
        try:
            termios.tcgetattr(stream)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream)
                os.close(nowhere)
