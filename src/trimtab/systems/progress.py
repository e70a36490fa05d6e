"""Progress: tells a start that takes long because the system recovers from one that stands still."""

from __future__ import annotations

import logging
import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from trimtab.systems.log import seen_text
from trimtab.systems.overlay import LogWords

__all__ = ["RECOVERY_MOST_S", "LogProgress", "Progress"]

RECOVERY_MOST_S = 3600.0
"""How long a recovery may take that shows in the log alone: who needs longer is better off without trials that crash."""

_LABELS = re.compile(r"^(\[[\w-]+\] )+")
_LOOK_S = 0.5
_TELL_S = 10.0
_log = logging.getLogger(__name__)


class Progress(ABC):
    """One start; a kind of system says where its work shows.

    Args:
        timeout_s: how long nothing may move.
        clock: seconds of a clock that never goes back.

    Attributes:
        DOES: what such a system does meanwhile, for people.
        MOST_S: how long it may take in all.
    """

    DOES = "recovering"
    MOST_S = math.inf

    def __init__(self, timeout_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._seen = self._shown = ""
        self._looked_at = -math.inf
        self._began_at = self._moved_at = self._told_at = clock()

    @abstractmethod
    def _work(self) -> tuple[str, str]:
        """What it works on, for people, and a mark that changes while it gets on; "" when it does not recover."""

    def is_under_way(self) -> bool:
        """Whether it recovers now."""
        return bool(self._work()[0])

    def has_stalled(self) -> bool:
        """Whether nothing has moved for `timeout_s`, or all of it takes more than `MOST_S`; says now and then why it waits."""
        now = self._clock()
        if now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            shown, mark = self._work()
            if shown and mark != self._seen:
                self._seen, self._shown, self._moved_at = mark, shown, now
            if shown and now - self._told_at > _TELL_S:
                self._told_at = now
                _log.warning("the server has been %s for %.0f s: %s", self.DOES, now - self._began_at, shown)
        return now - self._moved_at > self._timeout_s or now - self._began_at > self.MOST_S

    def trouble(self) -> str:
        """What to say of a start that `has_stalled`."""
        if not self._seen:
            return f"the server was not ready within timeout_s={self._timeout_s:g}"
        if self._clock() - self._began_at > self.MOST_S:
            return f"the server's crash recovery did not end within most_s={self.MOST_S:g}: {self._shown}"
        return f"the server's crash recovery makes no progress for timeout_s={self._timeout_s:g}: {self._shown}"


class LogProgress(Progress):
    """See `Progress`, of a system whose log says that it recovers, in the words of its catalogue.

    Args:
        log: the system's; None when it cannot be seen, and then there is nothing but time.
        start: byte of it where this start's lines begin.
        words: `recovers` and `recovered` of the catalogue.
        timeout_s: how long no new line of recovery may come.
        clock: seconds of a clock that never goes back.
    """

    MOST_S = RECOVERY_MOST_S

    def __init__(
        self,
        log: Path | None,
        start: int,
        words: LogWords,
        timeout_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(timeout_s, clock=clock)
        self._log = log
        self._start = start
        self._words = words

    def _work(self) -> tuple[str, str]:
        """The last line of recovery in the log, without its time; "" when there is none, or it has come to an end."""
        if self._log is None:
            return "", ""
        for line in reversed(seen_text(self._log, self._start).splitlines()):
            if re.search(self._words.recovered, line):
                break
            if any(re.search(words, line) for words in self._words.recovers):
                shown = _LABELS.sub("", re.sub(self._words.prefix, "", line, count=1)).strip()
                return shown, shown
        return "", ""
