"""What a run of browsers showed, as TPC-W asks for it: WIPS, WIRT of each interaction, and limits of its 90th percentile."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trimtab.measure import Buckets, SecondLog
from trimtab.units import format_figure
from trimtab.workload.site.file import SiteFile

__all__ = ["Interaction", "interactions", "interactions_per_s", "remarks", "within_band"]

_P90 = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """One state in one window.

    Attributes:
        n: successes.
        share: of all successes.
        mean_s, p90_s: of the response times (WIRT): from when the page was due to the last byte of its last
            image; NaN without any. Failures that took as long as the limit or longer count in `p90_s`.
        limit_s: what `p90_s` should not exceed; 0: no limit.
    """

    state: str
    n: int
    share: float
    mean_s: float
    p90_s: float
    limit_s: float

    @property
    def is_within(self) -> bool:
        """Whether the limit is kept; true without one or without an interaction."""
        return self.limit_s == 0 or math.isnan(self.p90_s) or self.p90_s <= self.limit_s


def interactions(log: SecondLog, site: SiteFile, low: int, high: int) -> tuple[Interaction, ...]:
    """Each state of `site` in the seconds `low` (inclusive) to `high` (exclusive) of a run."""
    window, failed = log.response.within(low, high), log.error.within(low, high)
    total = window.total
    found = []
    for state in site.states:
        label = log.labels.index(state.name) if state.name in log.labels else -1
        own = window.where(window.label == label)
        late = failed.where((failed.label == label) & (failed.value_us >= state.limit_s * 1e6) & (state.limit_s > 0))
        n = own.total
        found.append(
            Interaction(
                state=state.name,
                n=n,
                share=n / total if total else 0.0,
                mean_s=float(np.dot(own.value_us, own.count)) / n / 1e6 if n else math.nan,
                p90_s=_p90_s(own, late),
                limit_s=state.limit_s,
            )
        )
    return tuple(found)


def _p90_s(*parts: Buckets) -> float:
    """Of all of them together; NaN without any."""
    value_us = np.concatenate([part.value_us for part in parts])
    count = np.concatenate([part.count for part in parts])
    if not count.sum():
        return math.nan
    order = np.argsort(value_us, kind="stable")
    so_far = np.cumsum(count[order])
    return float(value_us[order][np.searchsorted(so_far, math.ceil(so_far[-1] * _P90 / 100.0))]) / 1e6


def interactions_per_s(log: SecondLog, low: int, high: int) -> float:
    """WIPS: successful interactions that ended within the seconds, per second."""
    return log.response.within(low, high).total / (high - low)


def within_band(wips: float, users: int, think_s: float) -> bool:
    """Whether so many browsers can have made so many interactions and were kept busy: TPC-W's EBS / 14 < WIPS <= EBS / 7, for any
    mean think time."""
    return users / (2 * think_s) < wips <= users / think_s


def remarks(log: SecondLog, site: SiteFile, low: int, high: int, think_s: float) -> tuple[str, ...]:
    """What TPC-W's rules say of the seconds `low` (inclusive) to `high` (exclusive), for people.

    Args:
        think_s: the browsers' mean think time; 0 in an open loop, and where they do not think: there is no band then.
    """
    lines = []
    if think_s > 0:
        wips = interactions_per_s(log, low, high)
        ends = (format_figure(log.users / (2 * think_s)), format_figure(log.users / think_s))
        judged = "within" if within_band(wips, log.users, think_s) else "outside"
        lines.append(
            f"WIPS={format_figure(wips)}, {judged} TPC-W's band of {ends[0]} to {ends[1]} for users={log.users} that think for "
            f"{format_figure(think_s)} s"
        )
    if any(state.limit_s for state in site.states):
        slow = [row for row in interactions(log, site, low, high) if not row.is_within]
        shown = ", ".join(f"{row.state} {format_figure(row.p90_s)} s > {format_figure(row.limit_s)} s" for row in slow)
        lines.append(f"p90 above its limit: {shown}" if slow else "p90 of each interaction is within its limit")
    return tuple(lines)
