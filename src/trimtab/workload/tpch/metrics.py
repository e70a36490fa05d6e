"""Power@Size and Throughput@Size: derived from TPC-H clause 5.4, not comparable with audited results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from trimtab.errors import LoadError
from trimtab.measure import Outcome, QueryLog
from trimtab.workload.tpch.parameters import QUERIES

__all__ = ["composite", "power_at_size", "power_of_log", "throughput_at_size", "throughput_of_log"]

_MAX_RATIO = 1000.0
"""Clause 5.4.1.4: no query may count as more than this many times faster than the slowest."""


def power_at_size(query_s: Sequence[float], refresh_s: Sequence[float], scale: float) -> float:
    """3600 x scale over the geometric mean of the 22 query times and the 2 refresh times (seconds), clause 5.4.1.

    Query times under a thousandth of the longest are lifted to that. Without refresh times the mean is over the queries
    alone.
    """
    lowest = max(query_s) / _MAX_RATIO
    times = [max(time, lowest) for time in query_s] + list(refresh_s)
    return 3600 * scale / math.exp(math.fsum(math.log(time) for time in times) / len(times))


def throughput_at_size(n_streams: int, elapsed_s: float, scale: float) -> float:
    """Queries per hour x scale: n_streams x 22 x 3600 / elapsed_s x scale, clause 5.4.2."""
    return n_streams * len(QUERIES) * 3600 / elapsed_s * scale


def composite(power: float, throughput: float) -> float:
    """The geometric mean of the two, clause 5.4.3."""
    return math.sqrt(power * throughput)


def _first_times(log: QueryLog) -> Mapping[str, float]:
    """Seconds of the first run of each label; a timed-out one counts with its time-out (a lower bound: censored)."""
    kept = np.isin(log.outcome, (Outcome.OK, Outcome.TIMED_OUT))
    times: dict[str, float] = {}
    for index in np.flatnonzero(kept)[np.argsort(log.start_s[kept], kind="stable")]:
        times.setdefault(log.labels[log.label[index]], float(log.end_s[index] - log.start_s[index]))
    return times


def power_of_log(log: QueryLog, scale: float) -> float:
    """Power@Size of the first pass of a power run.

    Raises:
        LoadError: a query, or a refresh function of the run, has not run to its end.
    """
    times = _first_times(log)
    missing = [query for query in QUERIES if f"q{query}" not in times]
    refresh = [label for label in ("rf1", "rf2") if label in log.labels]
    failed = [label for label in refresh if label not in times]
    if missing or failed:
        what = f"queries={missing}" if missing else f"refresh functions={failed}"
        raise LoadError(f"the power run is not complete: missing {what}", hint="give it a longer duration")
    return power_at_size([times[f"q{query}"] for query in QUERIES], [times[label] for label in refresh], scale)


def throughput_of_log(log: QueryLog, n_streams: int, scale: float) -> float:
    """Throughput@Size of a throughput run with `repeat = false`: from the first start to the last end of any stream.

    Raises:
        LoadError: not every stream has run its 22 queries.
    """
    is_query = np.array([label.startswith("q") for label in log.labels], dtype=np.bool_)[log.label]
    n_done = int(np.sum(is_query & np.isin(log.outcome, (Outcome.OK, Outcome.TIMED_OUT))))
    if n_done < n_streams * len(QUERIES):
        raise LoadError(
            f"the throughput run is not complete: queries={n_done} of {n_streams * len(QUERIES)}",
            hint="give it a longer duration",
        )
    return throughput_at_size(n_streams, float(log.end_s.max() - log.start_s.min()), scale)
