"""Selection: which knobs `knobs = ...` asks for, among those that a live server lets change."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from trimtab.errors import UsageError
from trimtab.systems.base import KnobState
from trimtab.systems.overlay import Overlay

__all__ = ["require_named", "select"]


def select(
    choice: str | Sequence[str],
    states: Mapping[str, KnobState],
    overlay: Overlay[Any],
    *,
    reads_only: bool,
    skips_absent: bool,
    unfelt: Collection[str] = (),
) -> tuple[str, ...]:
    """The changeable knobs that `knobs = ...` asks for: of a set those that are not locked, named ones all.

    Args:
        choice: a set, or names and sets.
        states: the live catalogue.
        overlay: the curated one, which names the sets.
        reads_only: whether the workload only reads; a set other than "all" then leaves out what only writes feel.
        skips_absent: whether a named knob that the overlay knows and this server lacks is passed over.
        unfelt: knobs that make no difference here; a set other than "all" leaves them out.

    Raises:
        UsageError: an unknown name, or one that is locked or not curated.
    """
    sets = overlay.sets
    chosen: dict[str, None] = {}
    for name in (choice,) if isinstance(choice, str) else choice:
        if name in sets:
            free = [n for n in sets[name] if n in states and not states[n].lock_reason]
            if name != "all":
                free = [n for n in free if n not in unfelt and not (reads_only and overlay.knob[n].only_writes)]
            chosen.update(dict.fromkeys(free))
        elif name in states or name not in overlay.knob or not skips_absent:
            require_named(name, states, sets)
            chosen[name] = None
    return tuple(chosen)


def require_named(name: str, states: Mapping[str, KnobState], sets: Mapping[str, Sequence[str]]) -> None:
    """That a knob which the study file names may be changed.

    Raises:
        UsageError: there is no such knob, or it is locked or not curated.
    """
    if name not in states:
        close = difflib.get_close_matches(name, [*states, *sets], n=1)
        raise UsageError(
            f"unknown knob or set={name!r} in knobs",
            hint=f"did you mean {close[0]!r}?" if close else f"the sets are: {', '.join(sorted(sets))}",
        )
    reason = states[name].lock_reason
    if reason == "not curated":
        raise UsageError(
            f"knob={name!r} is not curated: Trimtab knows no useful range for it",
            hint="an explicit range for such a knob cannot be given yet; see `trimtab knobs` for the curated ones",
        )
    if reason:
        raise UsageError(f"knob={name!r} is locked: {reason}", hint="see `trimtab knobs` for what may change")
