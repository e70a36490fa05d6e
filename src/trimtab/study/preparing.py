"""Data, made before the first trial or run: whoever asks to stop is obeyed at once, for nothing has been changed yet."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab.study.stage import Stage
from trimtab.trial import Interrupted, KillSwitch
from trimtab.trial.copies import copies_while_preparing
from trimtab.trial.deadman import silence_s
from trimtab.workload import CopyingWorkload, CycledWorkload

__all__ = ["prepared"]

_LOOK_S = 0.5
"""Between two looks for the stop file."""


def prepared(stage: Stage, switch: KillSwitch, state_dir: Path, say: Callable[[str], None]) -> float:
    """Makes the data of the stage's workload, or finds it there; whoever asks to stop is obeyed at once.

    Copies of the data that it tries out are in the journal before they are made, and gone afterwards.

    Args:
        stage: open, its target as it was found.
        switch: looked at while it lasts.
        state_dir: journal.
        say: told of what is done.

    Returns:
        The seconds that it took.

    Raises:
        Interrupted: somebody asked to stop. What is half made is recognised next time, and made again.
        LoadError, TargetError: the data cannot be made, or the journal cannot be written; or the dead-man could not be started
            for the trials that are to follow, before any is made.
    """
    silence_s()
    try:
        with _watched(switch):
            return _prepared(stage, state_dir, say)
    except KeyboardInterrupt:
        why = f"stopped by the kill switch: file={switch.path}" if switch.is_on else "stopped by the user"
        hint = "nothing of the server's configuration was changed"
        raise Interrupted(f"{why} while the data was prepared", hint=hint) from None


def _prepared(stage: Stage, state_dir: Path, say: Callable[[str], None]) -> float:
    workload = stage.workload
    names = workload.copies if isinstance(workload, CopyingWorkload | CycledWorkload) else ()
    with copies_while_preparing(stage.stack, names, state_dir, stage.file.study.name):
        return workload.prepare(stage.stack.endpoint(), say).duration_s


@contextmanager
def _watched(switch: KillSwitch) -> Iterator[None]:
    """While inside, the stop file is as good as a signal: the thread that prepares may wait for the server for minutes.

    A shell has what it runs in the background of a script ignore SIGINT. Here, as in the trials, it has its usual meaning.
    """
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
    is_ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    if is_ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
        if is_ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
