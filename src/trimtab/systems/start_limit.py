"""The limit of systemd: it starts a service five times in ten seconds at most, whoever asks, and has stopped it by then.

See StartLimitBurst in systemd.unit(5). A service with `Restart=always` that cannot run with a config uses up its starts itself.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence

from trimtab.errors import TargetError
from trimtab.host import CommandResult
from trimtab.systems.left_alone import is_left_alone

__all__ = ["OF_SYSTEMD", "WAIT_S", "later_s", "once_it_may", "started"]

WAIT_S = 11.0
"""Longer than the usual StartLimitIntervalSec."""

_REFUSED = "attempted too often"
"""What systemctl says of it. Of a service that has failed before it says only why that was (`service_enter_dead` of systemd's
service.c keeps the first reason)."""

OF_SYSTEMD = ("systemctl", "service", "pg_ctlcluster")
"""Programs that restart a server of systemd, for which they ask for root."""


def once_it_may(run: Callable[[], CommandResult]) -> CommandResult:
    """What a command says that starts a service; one that systemd refuses for this reason is run again when the time is over."""
    result = run()
    if result.exit_code == 0 or _REFUSED not in result.output:
        return result
    time.sleep(WAIT_S)
    return run()


def later_s(command: str) -> Sequence[float]:
    """Seconds after which a start that failed is tried again on the way back; none where the command does not ask systemd."""
    is_asked = any(os.path.basename(word) in OF_SYSTEMD for word in shlex.split(command))
    return (WAIT_S,) if is_asked else ()


def started(start: Callable[[], None], pauses_s: Sequence[float]) -> None:
    """Starts a system; where that fails, again after each pause.

    Raises:
        TargetError: the last trouble; at once where the command has left the system as it was.
    """
    try:
        start()
    except TargetError as error:
        if not pauses_s or is_left_alone(error):
            raise
    else:
        return
    time.sleep(pauses_s[0])
    started(start, pauses_s[1:])
