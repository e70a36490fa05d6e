"""Watch: looks at a target's resources from a thread of its own while a load runs, and tells the guards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from trimtab.systems import Watchable
from trimtab.trial.guard import Breach, Guardrails
from trimtab.trial.pace import Pace
from trimtab.workload import Frame

__all__ = ["Watch"]

_PATIENCE_S = 2.0
"""For a last look that is under way; one at a server that hangs is left behind."""


class Watch:
    """The guards of one run, alive inside its `with` block.

    The thread asks for vitals every `interval_s`, whatever the load does: a server that swaps keeps its load waiting, too.
    How large the target's data is, a walk over all its files, is looked at before the load begins, and again only when a
    limit of the disk is broken; no walk goes on when the block is left.
    """

    def __init__(self, guards: Guardrails, source: Watchable | None, interval_s: float) -> None:
        """Takes the guards and the target; None for a target whose resources cannot be seen."""
        self._guards = guards
        self._source = source
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._hard: Breach | None = None
        self._thread: threading.Thread | None = None
        self._walking = threading.Lock()

    def __enter__(self) -> Self:
        if self._source is not None:
            self._hard = self._guards.vitals(self._source.vitals())
            self._guards.grown_bytes = self._growth(self._source)
            # A daemon: a look at a server that hangs must not keep the tuner from ending.
            self._thread = threading.Thread(target=self._look, args=(self._source,), name="trimtab-watch", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._source is None or self._thread is None:
            return
        self._thread.join(_PATIENCE_S)
        with self._walking:  # a walk that goes on would disturb the next measurement
            self._source.unwatch()

    def _growth(self, source: Watchable) -> Callable[[], int | None]:
        before = source.data_bytes()

        def grown_bytes() -> int | None:
            with self._walking:
                now = None if self._ended.is_set() else source.data_bytes()
            return None if now is None or before is None else now - before

        return grown_bytes

    def _look(self, source: Watchable) -> None:
        while not self._ended.wait(self._interval_s):
            breach = self._guards.vitals(source.vitals())
            if breach is not None:
                self._hard = breach
                return

    def second(self, frame: Frame, *, in_window: bool) -> Breach | None:
        """The limit that is broken now, by the load's last second or by the target's resources; None when none is."""
        return self._hard or self._guards.second(frame, in_window=in_window)

    def pace(self) -> Pace:
        """For the run that it guards."""
        return self._guards.pace()

    @property
    def peaks(self) -> dict[str, float]:
        """Largest use seen so far, by name."""
        return dict(self._guards.peaks)
