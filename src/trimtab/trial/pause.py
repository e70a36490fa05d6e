"""A trial during which Trimtab stood still (SIGSTOP, a sleeping laptop) is made again: it shows nothing of its config.

Not one that the config has ended by taking the machine's memory or disk: that keeps Trimtab waiting as well, in every run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from trimtab.errors import LoadError, TrimtabError
from trimtab.records import Fault, Status, Trial
from trimtab.trial.deadman import DeadMan
from trimtab.units import format_duration

__all__ = ["unless_paused"]

_MAX_RUNS = 3


def unless_paused(
    deadman: DeadMan, once: Callable[[], Trial], *, resync: Callable[[], None], say: Callable[[str], None]
) -> Trial:
    """Runs `once`, and again when Trimtab stood still in it; what that took without the pause is the cost "failed" of the trial.

    Args:
        deadman: knows of pauses.
        once: one run of the trial.
        resync: called before each run, for a target that the dead-man has put back.
        say: told of a pause.

    Raises:
        LoadError: Trimtab stood still in every run.
    """
    lost_s = 0.0
    for _ in range(_MAX_RUNS):
        deadman.paused_s()
        resync()
        started = _clock_s()
        try:
            trial = once()
        except TrimtabError:
            if not (paused_s := deadman.paused_s()):
                raise
        else:
            paused_s = deadman.paused_s()
            if not paused_s or _has_taken_all(trial):
                return _with_lost(trial, lost_s) if lost_s else trial
        lost_s += max(0.0, _clock_s() - started - paused_s)  # a pause is none of the study's time
        say(f"Trimtab was suspended for {format_duration(paused_s)}: the trial is repeated")
    raise LoadError(
        "Trimtab was stopped in every run of a trial",
        hint="keep the machine from suspending, and do not stop the process; then start the command again",
    )


def _clock_s() -> float:
    """Of the clock by which a pause is known, which a sleeping machine does not stop."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _with_lost(trial: Trial, lost_s: float) -> Trial:
    """With what the runs before have taken beside what it has lost itself."""
    return replace(trial, cost_s={**trial.cost_s, "failed": trial.cost_s.get("failed", 0.0) + lost_s})


def _has_taken_all(trial: Trial) -> bool:
    """Whether the server's own demand for memory or disk was seen to be too much, which is no measure of time."""
    return (trial.status, trial.fault) == (Status.CRASHED, Fault.RESOURCE)
