"""What a study took over from past ones, in lines for people."""

from __future__ import annotations

from trimtab.records import Verdict
from trimtab.report.words import clean, counted, first_line

__all__ = ["warm_lines"]


def warm_lines(verdict: Verdict) -> tuple[str, ...]:
    """Of a study with a warm start: which past studies served, and whose prior was dropped, and why."""
    warm = verdict.warm_start
    if warm is None or not warm.studies:
        return ()
    studies = warm.studies
    named = ", ".join(
        f"{clean(each.name)} (nearness {each.nearness:.2f}, {counted(each.n_trials, 'trial')})" for each in studies
    )
    first = f"warm start from {'study' if len(studies) == 1 else 'studies'} {named}"
    dropped = [f"{clean(each.name)} ({first_line(each.dropped)})" for each in studies if each.dropped]
    if dropped:
        return first, f"prior dropped: {', '.join(dropped)}"
    return (f"{first}; no prior was dropped" if warm.n_asks else first,)
