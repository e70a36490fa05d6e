"""UnitJournal: what systemd's journal has of the unit that a restart command names: what a server says before its own log begins,
as PostgreSQL does of a configuration that it refuses, and all that one says which has no other log."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from trimtab.errors import TargetError
from trimtab.host import LocalHost
from trimtab.redact import hide_literals

__all__ = ["UnitJournal"]

_READ_S = 5.0
_VERBS = ("restart", "start", "try-restart", "reload-or-restart")


class UnitJournal:
    """The lines of the unit since its last restart by us.

    Args:
        host: where it runs.
        argv: the restart command; where it names no unit, or this user may not read the journal, there are no lines.
    """

    def __init__(self, host: LocalHost, argv: Sequence[str]) -> None:
        self._host = host
        self._option = "user-unit" if "--user" in argv else "unit"
        self._unit = _unit_of(argv)
        self._since_s: int | None = None

    def mark(self) -> None:
        """The unit is restarted now."""
        self._since_s = int(time.time()) if self._unit else None

    @property
    def is_marked(self) -> bool:
        """Whether there may be lines."""
        return self._since_s is not None

    def said(self, n_lines: int) -> str:
        """Its last lines since `mark`, without values; "" for none. Never raises."""
        if self._since_s is None:
            return ""
        which, when = f"--{self._option}={self._unit}", f"--since=@{self._since_s}"
        argv = ("journalctl", which, when, f"--lines={n_lines}", "--output=cat", "--quiet", "--no-pager")
        try:
            result = self._host.run(argv, timeout_s=_READ_S)
        except TargetError:
            return ""
        return hide_literals(result.stdout).strip() if result.exit_code == 0 else ""


def _unit_of(argv: Sequence[str]) -> str:
    """Of `systemctl restart UNIT` or `service UNIT restart`, behind sudo or not; "" for none."""
    for at, word in enumerate(argv):
        names = [each for each in argv[at + 1 :] if not each.startswith("-")]
        if os.path.basename(word) == "systemctl":
            return names[1] if len(names) > 1 and names[0] in _VERBS else ""
        if os.path.basename(word) == "service":
            return names[0] if len(names) > 1 and names[1] in _VERBS else ""
    return ""
