"""A server on its way up: whether it gets on with its crash recovery, as far as its log shows."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable
from pathlib import Path

from trimtab.systems.log import open_log

__all__ = ["MOST_S", "Recovery"]

MOST_S = 3600.0
"""How long a recovery may take in all: who needs longer is better off without trials that crash the server."""

_LOOK_S = 0.5
_TELL_S = 10.0
_TAIL_BYTES = 64 * 1024
_PREFIX = re.compile(r"^\S+ +(\S+ +)?\d+ (\[\w+\] )+(\[MY-\d+\] )?")

_WORK = re.compile(
    # InnoDB of MariaDB, every 15 seconds, then of MySQL
    r"InnoDB: (Starting (crash recovery|(final|a) batch)|(Read|Parsed) redo log up to|To recover|To roll back|Rolled back "
    r"recovered|Multi-batch recovery|Transaction \d+)"
    r"|\[InnoDB\] (Starting crash recovery|Starting to parse|Doing recovery|Applying a batch|Apply batch|\d+%|Rolling back|"
    r"Rollback of|Transaction )"
    # Aria, whose line grows as it works, and the coordinator of both
    r"|Aria engine: starting recovery|recovered pages: |transactions to roll back: |tables to flush: "
    r"|Recovering after a crash using|Starting (table )?crash recovery|Starting recovery for XA"
)
_END = re.compile(r"ready for connections|\[ERROR\] Aborting|Shutdown complete|got signal \d+")

_log = logging.getLogger(__name__)


class Recovery:
    """Tells a start that takes long because the server recovers from one that stands still.

    Args:
        log: the server's; None when it cannot be seen, and then there is nothing but time.
        start: byte of it where this start's lines begin.
        timeout_s: how long no new line of recovery may come. MariaDB writes one every 15 seconds.
        clock: seconds of a clock that never goes back.
    """

    def __init__(
        self, log: Path | None, start: int, timeout_s: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._clock = clock
        self._start = start
        self._timeout_s = timeout_s
        self._seen = ""
        self._looked_at = -math.inf
        self._began_at = self._moved_at = self._told_at = clock()

    def is_under_way(self) -> bool:
        """Whether the log tells of a recovery that has not come to an end."""
        return bool(self._line())

    def has_stalled(self) -> bool:
        """Whether there was no progress for `timeout_s`, or all of it takes more than `MOST_S`; says now and then what it
        waits for."""
        now = self._clock()
        if now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            line = self._line()
            if line and line != self._seen:
                self._seen, self._moved_at = line, now
            if line and now - self._told_at > _TELL_S:
                self._told_at = now
                _log.warning("the server has been recovering for %.0f s: %s", now - self._began_at, line)
        return now - self._moved_at > self._timeout_s or now - self._began_at > MOST_S

    def trouble(self) -> str:
        """What to say of a start that `has_stalled`."""
        if not self._seen:
            return f"the server was not ready within timeout_s={self._timeout_s:g}"
        took_s = self._clock() - self._began_at
        if took_s > MOST_S:
            return f"the server's crash recovery did not end within most_s={MOST_S:g}: {self._seen}"
        return f"the server's crash recovery makes no progress for timeout_s={self._timeout_s:g}: {self._seen}"

    def _line(self) -> str:
        """The last line of recovery in the log, without its time; "" when there is none, or it has come to an end."""
        if self._log is None:
            return ""
        try:
            with open_log(self._log) as file:
                size = file.seek(0, 2)
                file.seek(max(self._start if self._start <= size else 0, size - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        for line in reversed(lines):
            if _END.search(line):
                return ""
            if _WORK.search(line):
                return _PREFIX.sub("", line).strip()
        return ""
