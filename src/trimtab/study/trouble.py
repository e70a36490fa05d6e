"""Trouble of the machine that lasts: a study ends with its reason, and goes on from there when it is over.

Trials that only trouble has ended say nothing (DESIGN, law 4). One or two are made again or passed over; where nothing else
comes any more, to go on would spend the budget on nothing and end in "no improvement", which would be false.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trimtab.errors import LoadError
from trimtab.records import Role, Status, Trial

__all__ = ["require_measurable", "without_trouble"]

_IN_SEARCH = 5
"""Trials in a row that could not be measured, of the search and what comes before and after it."""

_IN_PROOF = 3
"""Runs of one config in a row: so often a proof makes a run that an environment fault has spoilt."""

_PROOF_ROLES = (Role.PROOF_BASELINE, Role.PROOF_CANDIDATE)


def require_measurable(trials: Sequence[Trial]) -> None:
    """Returns while the latest of these trials say something.

    Raises:
        LoadError: they could not be measured, one after the other; the message has the last one's reason.
    """
    n = _n_in_vain(trials)
    if n:
        raise LoadError(
            f"nothing can be measured any more: {n} trials in a row ended as infrastructure: {trials[-1].reason}",
            hint="repair that and run the same command: the study goes on from there",
        )


def _n_in_vain(trials: Sequence[Trial]) -> int:
    """How many of the latest trials were in vain, when they are enough to end the study; else 0."""
    if not trials or trials[-1].role is Role.ABLATION:  # what a setting is worth may stay open
        return 0
    last = trials[-1]
    most = _IN_PROOF if last.role in _PROOF_ROLES else _IN_SEARCH
    tail = trials[-most:]
    is_one = last.role not in _PROOF_ROLES or all((t.role, t.config) == (last.role, last.config) for t in tail)
    return most if len(tail) == most and is_one and all(t.status is Status.INFRASTRUCTURE for t in tail) else 0


def without_trouble(trials: Iterable[Trial]) -> list[Trial]:
    """A record of a study without the trials at which it has ended for trouble: they are made again.

    Those are what `require_measurable` has refused, and first runs of the baseline that gave no value: a study ends at one.
    """
    kept: list[Trial] = []
    for trial in trials:
        is_first = all(each.role is Role.BASELINE for each in kept) and trial.role is Role.BASELINE
        if is_first and trial.status is not Status.OK:
            continue
        kept.append(trial)
        if n := _n_in_vain(kept):
            del kept[-n:]
    return kept
