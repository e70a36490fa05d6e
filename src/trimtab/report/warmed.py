"""What a study took over from past ones, in lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.report.words import clean, counted, first_line

__all__ = ["warm_lines"]


def warm_lines(verdict: Mapping[str, Any]) -> tuple[str, ...]:
    """Of a study with a warm start: which past studies served, and whose prior was dropped, and why."""
    warm = verdict.get("warm_start") or {}
    studies = warm.get("studies") or ()
    if not studies:
        return ()
    named = ", ".join(
        f"{clean(each['name'])} (nearness {each['nearness']:.2f}, {counted(each['n_trials'], 'trial')})"
        for each in studies
    )
    first = f"warm start from {'study' if len(studies) == 1 else 'studies'} {named}"
    dropped = [f"{clean(each['name'])} ({first_line(each['dropped'])})" for each in studies if each.get("dropped")]
    if dropped:
        return first, f"prior dropped: {', '.join(dropped)}"
    return (f"{first}; no prior was dropped" if warm.get("n_asks") else first,)
