"""The data of a study, made before its first trial: whoever asks to stop is obeyed at once, for nothing has been changed yet."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trimtab.study.stage import Stage
from trimtab.trial import Interrupted, KillSwitch

__all__ = ["prepared"]

_LOOK_S = 0.5
"""Between two looks for the stop file."""


def prepared(stage: Stage, switch: KillSwitch, say: Callable[[str], None]) -> float:
    """Makes the data of the stage's workload, or finds it there; returns the seconds that it took.

    Args:
        stage: open, its target as it was found.
        switch: looked at while it lasts.
        say: told of what is done.

    Raises:
        Interrupted: somebody asked to stop. What is half made is recognised next time, and made again.
        LoadError, TargetError: the data cannot be made.
    """
    try:
        with _watched(switch):
            return stage.workload.prepare(stage.stack.endpoint(), say).duration_s
    except KeyboardInterrupt:
        why = f"stopped by the kill switch: file={switch.path}" if switch.is_on else "stopped by the user"
        hint = "nothing of the server's configuration was changed"
        raise Interrupted(f"{why} while the data was prepared", hint=hint) from None


@contextmanager
def _watched(switch: KillSwitch) -> Iterator[None]:
    """While inside, the stop file is as good as a signal: the thread that prepares may wait for the server for minutes."""
    if threading.current_thread() is not threading.main_thread():
        yield  # it gets no signals; the stop file is looked at before the first trial
        return
    is_over = threading.Event()
    worker = threading.main_thread().ident

    def look() -> None:
        while not is_over.wait(_LOOK_S):
            if switch.is_on and worker is not None:
                signal.pthread_kill(worker, signal.SIGINT)
                return

    watcher = threading.Thread(target=look, name="stop-file", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
