"""A server on its way up: whether it gets on with its crash recovery, as far as its log shows."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from trimtab.systems.log import open_log
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.progress import Progress

__all__ = ["MOST_S", "Recovery"]

MOST_S = 3600.0
"""How long a recovery may take in all: who needs longer is better off without trials that crash the server."""

_TAIL_BYTES = 64 * 1024
_PREFIX = re.compile(r"^\S+ +(\S+ +)?\d+ (\[\w+\] )+(\[MY-\d+\] )?")


class Recovery(Progress):
    """See `Progress`; MariaDB writes a line every 15 seconds.

    Args:
        log: the server's; None when it cannot be seen, and then there is nothing but time.
        start: byte of it where this start's lines begin.
        timeout_s: how long no new line of recovery may come.
        clock: seconds of a clock that never goes back.
    """

    MOST_S = MOST_S

    def __init__(
        self, log: Path | None, start: int, timeout_s: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(timeout_s, clock=clock)
        self._log = log
        self._start = start

    def _work(self) -> tuple[str, str]:
        """The last line of recovery in the log, without its time; "" when there is none, or it has come to an end."""
        if self._log is None:
            return "", ""
        try:
            with open_log(self._log) as file:
                size = file.seek(0, 2)
                file.seek(max(self._start if self._start <= size else 0, size - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return "", ""
        for line in reversed(lines):
            if re.search(CATALOG.log.recovered, line):
                break
            if any(re.search(words, line) for words in CATALOG.log.recovers):
                shown = _PREFIX.sub("", line).strip()
                return shown, shown
        return "", ""
