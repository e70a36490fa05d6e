"""Now: what a running study does this second, in a file beside its journal for whoever watches; and their wish that it stops.

The file is written whole and put in place, so readers see one moment. A disk that refuses it does not disturb the study.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from trimtab.history import StudyRecord
from trimtab.host import process_mark
from trimtab.jsonable import strict
from trimtab.records import Role, Trial
from trimtab.study.drive import StudyListener
from trimtab.study.running import FOLDER, STOP
from trimtab.trial import TrialListener
from trimtab.workload import Frame

__all__ = ["RunListener", "shown_now"]

_SECONDS = 120
"""Seconds of load that are shown."""

_APART_S = 0.2
"""A second of load that comes sooner after the one that was written last, as after a pause, is written with what comes next."""


class RunListener(StudyListener, TrialListener, Protocol):
    """Who is told of a study and of its trials."""


def _json(value: Any) -> str:
    return json.dumps(strict(value))


class _Now:
    """A listener that passes everything on and writes down where the study is.

    Args:
        folder: where the file lies.
        record: the study.
        listener: who is told everything as before.
        clock: seconds since the epoch.
    """

    def __init__(
        self, folder: Path, record: StudyRecord, listener: RunListener, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder, self._study, self._listener, self._clock = folder, record, listener, clock
        # With the process: studies of several histories may run at once, and have one id.
        self._path = folder / f"{record.id}-{os.getpid()}.json"
        self._beside = self._path.with_suffix(".new")
        self.stop_path = self._path.with_suffix(STOP)
        self._trial: dict[str, Any] | None = None
        self._mark = process_mark(os.getpid())
        self._seconds: deque[str] = deque(maxlen=_SECONDS)  # as JSON: each is written 120 times and more
        self._phase = self._step = ""
        self._left_s: float | None = None
        self._second_at = -math.inf

    def open(self) -> None:
        """A wish that an earlier run did not see is none of this one's."""
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.stop_path.unlink(missing_ok=True)
        self._write()

    def close(self) -> None:
        """Nothing runs any more."""
        for path in (self._path, self._beside, self.stop_path):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _write(self) -> None:
        said = {
            "study_id": self._study.id, "name": self._study.name, "created_at": self._study.created_at,
            "pid": os.getpid(), "mark": self._mark, "phase": self._phase, "step": self._step,
            "trial": self._trial, "left_s": self._left_s,
        }  # fmt: skip
        text = f'{_json(said)[:-1]}, "seconds": [{", ".join(self._seconds)}]}}'
        try:
            handle = os.open(self._beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
            os.replace(self._beside, self._path)
        except OSError:
            with suppress(OSError):
                self._beside.unlink(missing_ok=True)

    def phase(self, text: str) -> None:
        self._phase = text[:200]
        self._write()
        self._listener.phase(text)

    def step(self, name: str) -> None:
        self._step = name
        self._write()
        self._listener.step(name)

    def second(self, frame: Frame) -> None:
        p50, p95, p99 = (us / 1e3 for us in (frame.response_p50_us, frame.response_p95_us, frame.response_p99_us))
        shown = (round(self._clock(), 1), frame.credited, p50, p95, p99, frame.n_error, frame.steal_s)
        self._seconds.append(_json(shown))
        if (now := time.monotonic()) - self._second_at >= _APART_S:
            self._second_at = now
            self._write()
        self._listener.second(frame)

    def trial_started(self, number: int, role: Role, changed: dict[str, str]) -> None:
        self._trial = {"number": number, "role": str(role), "changed": dict(changed), "since": self._clock()}
        self._write()
        self._listener.trial_started(number, role, changed)

    def trial_ended(self, trial: Trial, best_gain: float | None, time_left_s: float | None) -> None:
        self._trial, self._step, self._left_s = None, "", time_left_s
        self._write()
        self._listener.trial_ended(trial, best_gain, time_left_s)


@contextmanager
def shown_now(
    state_dir: Path, record: StudyRecord, listener: RunListener, is_interrupted: Callable[[], bool]
) -> Iterator[tuple[RunListener, Callable[[], bool]]]:
    """While inside, others see what the study does; the listener and the question to use instead of those given."""
    now = _Now(state_dir / FOLDER, record, listener)
    now.open()
    try:
        yield now, lambda: is_interrupted() or now.stop_path.exists()
    finally:
        now.close()
