"""SecondLog: what a run of many short operations leaves: a histogram per second and operation type, not a row each.

A million operations a minute as rows would be a hundred megabytes; as sparse HDR histograms (Tene's HdrHistogram, three
significant digits) they are a few thousand buckets, and every percentile of every span of whole seconds can be had from them.
Times below half a millisecond are kept to a thousandth of themselves, not in whole microseconds: runs of an engine that answers
within ten of these would all have the same percentiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import LoadError

__all__ = ["HISTOGRAMS", "Buckets", "Latencies", "SecondLog", "merge_seconds"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

HISTOGRAMS = ("response", "service", "error", "queue", "lateness", "attempts", "wakeup", "unfinished")
"""As the load engine names them."""

Latencies = Literal["each", "means", "none"]

LATENCIES: tuple[Latencies, ...] = ("none", "means", "each")
"""From the least to the most that is known of them."""

PRIORITIES = ("", "normal", "short slices", "real-time")
"""From the least to the most that is known of a generator's threads."""

_COLUMNS: Mapping[str, type[np.generic]] = {
    "offered": np.int64,
    "shed": np.int64,
    "timed_out": np.int64,
    "credited": np.float64,
    "client_cpu_s": np.float64,
    "steal_s": np.float64,
}


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """Sparse histograms per second and label: four columns of equal length, in no order; equal rows may repeat.

    Attributes:
        second: the operation ended in [second, second + 1) after the run's start.
        label: index into the log's labels.
        value_us: microseconds (of "attempts": tries) that stand for all of the bucket.
        count: operations in the bucket.
    """

    second: Ints
    label: Ints
    value_us: Floats
    count: Ints

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, float, int]] = ()) -> Buckets:
        """From rows of (second, label, value_us, count)."""
        second, label, value_us, count = np.array(rows, dtype=np.float64).reshape(-1, 4).T
        return cls(second.astype(np.int64), label.astype(np.int64), value_us, count.astype(np.int64))

    def __len__(self) -> int:
        return len(self.second)

    @property
    def total(self) -> int:
        """Operations in all buckets."""
        return int(self.count.sum())

    def where(self, chosen: NDArray[np.bool_]) -> Buckets:
        """The rows that are `chosen`."""
        return Buckets(self.second[chosen], self.label[chosen], self.value_us[chosen], self.count[chosen])

    def within(self, low: int, high: int) -> Buckets:
        """What ended in seconds low (inclusive) to high (exclusive)."""
        return self.where((self.second >= low) & (self.second < high))

    def relabelled(self, label: Ints) -> Buckets:
        """With each label replaced by `label[label]`."""
        return Buckets(self.second, label[self.label], self.value_us, self.count)


def _none() -> Buckets:
    return Buckets.of()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SecondLog:
    """One load run, second by second.

    Attributes:
        labels: operation names.
        duration_s: length of the run.
        credited: (k,) successful operations of each second, by the share of their run inside it; k counts the
            last, partial second.
        response: from when each successful operation was due to its end: what a user waits.
        service: from when it was sent to its end: what the server took.
        error: response times of failed and of timed-out operations, which never enter `response`.
        queue: how long operations that were due waited for a free user.
        lateness: how late the generator itself was although a user was free; label 0.
        attempts: tries per successful operation.
        wakeup: how late the generator's timer fired, whether or not a user was free; label 0.
        unfinished: how long operations had run that still ran when the run stopped; their seconds are that of its end.
        offered, shed: (k,) requests that were due; those that were dropped because too many waited already.
        timed_out: (k,) operations cut off by their own time-out; they are in `error` too.
        client_cpu_s: (k,) CPU seconds of the generator's threads.
        steal_s: (k,) CPU seconds that the hypervisor took from this machine, all cores together.
        wait_s: (k, n_threads) seconds that each of the generator's threads was ready to run and had no core; None where
            the system does not say.
        priority: what all these threads had: "normal", "short slices" or "real-time"; "" when not known.
        error_classes: failed operations of the whole run by class ("serialization", "validation", ...).
        n_threads, users: of the generator; users are connections.
        is_open: whether requests came by a schedule.
        is_observed: whether they were an application's own, which this program only counted.
        errors: texts of the first errors, at most 100.
        memory_bytes: what the generator's buffers and histograms held.
        generators: of each generator in a process of its own, where it ran, with how many threads, how far its clock was ahead,
            and how long after the first it started; empty when the load came from this process.
        latencies: what is known of them: of each operation; only the mean of each second, which stands for all of its
            operations in `response`; or nothing, and `response` only counts.
    """

    labels: tuple[str, ...]
    duration_s: float
    credited: Floats
    response: Buckets
    service: Buckets = field(default_factory=_none)
    error: Buckets = field(default_factory=_none)
    queue: Buckets = field(default_factory=_none)
    lateness: Buckets = field(default_factory=_none)
    attempts: Buckets = field(default_factory=_none)
    wakeup: Buckets = field(default_factory=_none)
    unfinished: Buckets = field(default_factory=_none)
    offered: Ints
    shed: Ints
    timed_out: Ints
    client_cpu_s: Floats
    steal_s: Floats
    wait_s: Floats | None = None
    priority: str = ""
    error_classes: Mapping[str, int] = field(default_factory=dict)
    n_threads: int = 1
    users: int = 1
    is_open: bool = False
    is_observed: bool = False
    errors: tuple[str, ...] = ()
    memory_bytes: int = 0
    generators: tuple[str, ...] = ()
    latencies: Latencies = "each"

    def check(self) -> None:
        """Raises LoadError when columns that belong together differ in length or a label has no name."""
        lengths = {name: len(getattr(self, name)) for name in _COLUMNS}
        if len(set(lengths.values())) > 1:
            raise LoadError(f"the columns of the load's log differ in length: {lengths}", hint="repeat the run")
        if self.wait_s is not None and self.wait_s.shape != (len(self.credited), self.n_threads):
            raise LoadError(
                f"wait_s has {self.wait_s.shape} seconds and threads instead of {(len(self.credited), self.n_threads)}",
                hint="repeat the run",
            )
        for name in HISTOGRAMS:
            buckets: Buckets = getattr(self, name)
            lengths = {column.name: len(getattr(buckets, column.name)) for column in fields(Buckets)}
            if len(set(lengths.values())) > 1:
                raise LoadError(f"the columns of histogram={name} differ in length: {lengths}", hint="repeat the run")
            if len(buckets) and not (buckets.label.min() >= 0 and buckets.label.max() < max(len(self.labels), 1)):
                raise LoadError(f"histogram={name} has labels that have no name", hint="repeat the run")


def merge_seconds(parts: Sequence[SecondLog], hosts: Sequence[str] | None = None) -> SecondLog:
    """The log of several generators that drove the same load at the same time, as if they were one.

    Args:
        parts: their logs.
        hosts: the machine of each; None: each has its own. All generators of a machine see the CPU time that the hypervisor takes
            from it: it counts once.

    Raises:
        LoadError: no parts, or one whose columns do not fit together.
    """
    if not parts:
        raise LoadError("there is no log to merge", hint="repeat the run")
    for part in parts:
        part.check()
    labels = tuple(dict.fromkeys(label for part in parts for label in part.labels))
    k = max(len(part.credited) for part in parts)
    columns: dict[str, Any] = {name: _merged(name, parts, labels) for name in HISTOGRAMS}
    columns |= {name: _padded(name, parts, k).sum(axis=0) for name in _COLUMNS if name != "steal_s"}
    return SecondLog(
        labels=labels,
        duration_s=max(part.duration_s for part in parts),
        **columns,
        steal_s=_once_per_host(_padded("steal_s", parts, k), hosts),
        wait_s=_beside(parts, k),
        priority=min((part.priority for part in parts), key=PRIORITIES.index),
        error_classes=_counted(parts),
        n_threads=sum(part.n_threads for part in parts),
        users=sum(part.users for part in parts),
        is_open=any(part.is_open for part in parts),
        is_observed=any(part.is_observed for part in parts),
        errors=tuple(text for part in parts for text in part.errors)[:100],
        memory_bytes=sum(part.memory_bytes for part in parts),
        generators=tuple(text for part in parts for text in part.generators),
        latencies=min((part.latencies for part in parts), key=LATENCIES.index),
    )


def _merged(name: str, parts: Sequence[SecondLog], labels: tuple[str, ...]) -> Buckets:
    rows = []
    for part in parts:
        place = np.array([labels.index(label) for label in part.labels] or [0], dtype=np.int64)
        rows.append(getattr(part, name).relabelled(place))
    keys = np.concatenate([np.stack([row.second, row.label, row.value_us]) for row in rows], axis=1)
    count = np.concatenate([row.count for row in rows])
    # In one order and without repeats, so that sums of floats do not depend on how the run was split.
    order = np.lexsort(keys[::-1])  # `numpy.unique` compares rows slowly: a long run has millions of them
    keys, count = keys[:, order], count[order]
    is_first = np.ones(len(count), dtype=np.bool_)
    is_first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    unique, place = keys[:, is_first], np.cumsum(is_first) - 1
    total = np.bincount(place, count, minlength=unique.shape[1])
    return Buckets(unique[0].astype(np.int64), unique[1].astype(np.int64), unique[2], total.astype(np.int64))


def _padded(name: str, parts: Sequence[SecondLog], k: int) -> NDArray[Any]:
    """(n_parts, k) of the column."""
    rows = np.zeros((len(parts), k), dtype=_COLUMNS[name])
    for row, part in zip(rows, parts, strict=True):
        column = getattr(part, name)
        row[: len(column)] = column
    return rows


def _once_per_host(rows: Floats, hosts: Sequence[str] | None) -> Floats:
    """(k,) the sum over the machines; of each, the most that one of its generators saw in that second."""
    if hosts is None:
        return np.asarray(rows.sum(axis=0), dtype=np.float64)
    of_host = [[host == each for each in hosts] for host in dict.fromkeys(hosts)]
    return np.asarray(sum(rows[chosen].max(axis=0) for chosen in of_host), dtype=np.float64)


def _beside(parts: Sequence[SecondLog], k: int) -> Floats | None:
    """The threads of all parts side by side; None when those of one are not known."""
    columns = []
    for part in parts:
        if part.wait_s is None:
            return None
        columns.append(np.pad(part.wait_s, ((0, k - len(part.wait_s)), (0, 0))))
    return np.concatenate(columns, axis=1)


def _counted(parts: Sequence[SecondLog]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.error_classes.items():
            total[name] = total.get(name, 0) + count
    return total
