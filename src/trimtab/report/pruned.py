"""What a pruned search tuned and left out, in lines for people."""

from __future__ import annotations

from trimtab.records import Verdict
from trimtab.report.words import clean, counted, first_line

__all__ = ["pruned_lines"]


def pruned_lines(verdict: Verdict) -> tuple[str, ...]:
    """Of a study with [search] prune: what was searched, what not, and why; nothing for any other."""
    pruned = verdict.pruned
    if pruned is None:
        return ()
    tuned, left_out = pruned.tuned, pruned.left_out
    lines = []
    if tuned and left_out:
        steps = ", then ".join(str(level.n_knobs) for level in pruned.levels)
        named = ", ".join(clean(name) for name in tuned)
        lines.append(f"knobs searched: {steps} of {len(tuned) + len(left_out)}, by their ranks: {named}")
        lines.append(f"left out ({counted(len(left_out), 'knob')}): {', '.join(clean(name) for name in left_out)}")
    if note := first_line(pruned.note):
        lines.append(f"pruning: {note}")
    return tuple(lines)
