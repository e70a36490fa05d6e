"""Whether a run measured the server at all: the generator watches itself, and the open loop says when it was not kept up with."""

from __future__ import annotations

import math
from collections.abc import Callable

from trimtab.units import format_percent

__all__ = ["cpu_limit", "lateness_limit", "overload", "starvation"]

_MAX_CPU_SHARE = 0.8
"""Of one core per generator thread: above it, answers wait for the generator before they are seen."""

_MAX_LATENESS_MS = 2.0
_MAX_LATENESS_SHARE = 0.1
"""Of the median response time. The generator's lateness is not counted against the server, but it thins out the load."""

_MAX_WAIT_SHARE = 0.05
"""Of the time of one of its threads. Answers that come while it waits for a core are seen late: latencies hold the wait."""

_MAX_SHED_SHARE = 0.001
_MIN_ACHIEVED_SHARE = 0.99

_MOST_DIGITS = 9


def _beyond(value: float, limit: float, digits: int, text: Callable[[float, int], str] = format_percent) -> str:
    """`value` as `text` writes it, with as many digits as it takes to tell it from the `limit` that it is beyond."""
    while digits < _MOST_DIGITS and text(value, digits) == text(limit, digits):
        digits += 1
    return text(value, digits)


def cpu_limit(cpu_share: float, n_threads: int) -> str:
    """Why the generator's CPU was the bottleneck; "" when it was not.

    Args:
        cpu_share: CPU seconds per second of all its threads.
        n_threads: of them.
    """
    if cpu_share <= _MAX_CPU_SHARE * n_threads:
        return ""
    cores = "its core" if n_threads == 1 else f"the {n_threads} cores of its threads"
    used = _beyond(cpu_share / n_threads, _MAX_CPU_SHARE, 0)
    return f"the load generator used {used} of {cores} (limit {format_percent(_MAX_CPU_SHARE)})"


def starvation(wait_share: float | None) -> str:
    """How the generator went short of a core, so that latencies hold waits of its own; "" when it did not, or it is not known.

    Args:
        wait_share: the part of the time in which the thread that waited longest was ready to run and had no core.
    """
    if wait_share is None or wait_share <= _MAX_WAIT_SHARE:
        return ""
    waited = _beyond(wait_share, _MAX_WAIT_SHARE, 0)
    return f"waited for a core {waited} of the time (limit {format_percent(_MAX_WAIT_SHARE)})"


def lateness_limit(lateness_p99_ms: float | None, response_p50_ms: float, wakeup_p99_ms: float | None = None) -> str:
    """Why the generator was too late to be trusted; "" when it was not, or it is not known (None). NaN: nothing succeeded.

    Args:
        lateness_p99_ms: of operations for which a user was free.
        response_p50_ms: the median response.
        wakeup_p99_ms: in an open loop, of all wake-ups of the generator's timer.
    """
    share_ms = _MAX_LATENESS_SHARE * response_p50_ms if math.isfinite(response_p50_ms) else 0.0
    limit_ms = max(_MAX_LATENESS_MS, share_ms)
    for name, p99_ms in (("lateness", lateness_p99_ms), ("wake-up delay", wakeup_p99_ms)):
        if p99_ms is not None and p99_ms > limit_ms:
            late = _beyond(p99_ms, limit_ms, 3, lambda ms, digits: f"{ms:.{digits}g}")
            return f"the load generator was late itself: {name} p99={late} ms (limit {limit_ms:.3g} ms)"
    return ""


def overload(*, offered: int, shed: int, done: int, users: int) -> str:
    """Why the server did not keep up with an open loop; "" when it did.

    Args:
        offered: requests that were due within the window.
        shed: of these, dropped.
        done: operations that ended within the window, well or not.
        users: connections; so many requests may be under way at the window's end and not at its start, without overload.
    """
    if offered > 0 and shed > _MAX_SHED_SHARE * offered:
        dropped = _beyond(shed / offered, _MAX_SHED_SHARE, 1)
        return f"{dropped} of the requests were dropped (limit {format_percent(_MAX_SHED_SHARE, 1)})"
    behind = offered - shed - done
    if behind > max((1 - _MIN_ACHIEVED_SHARE) * offered, users):
        achieved, least = _beyond(done / offered, _MIN_ACHIEVED_SHARE, 1), format_percent(_MIN_ACHIEVED_SHARE)
        return f"only {achieved} of the requests that were due were done (limit {least})"
    return ""
