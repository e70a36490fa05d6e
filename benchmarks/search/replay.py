"""Tasks from recorded trials: measured tables looked up by the nearest row, and forests fitted to what optimisers tried.

The folder's README says where the tables are from; none of them is part of Trimtab. Knobs that guard data or change what
a client sees stay at the recorded default, so no gain here is bought with durability.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import NearestNeighbors
from tasks import Task

from trimtab.space import Config, Knob, KnobKind, Space, Value

Row = dict[str, str]
NOISE = 0.03
LOCKED = (
    "innodb_doublewrite", "innodb_flush_log_at_trx_commit", "innodb_flush_log_at_timeout", "sync_binlog", "sync_frm",
    "innodb_support_xa", "flush", "flush_time", "autocommit", "skip_networking", "completion_type", "binlog_format",
    "binlog_row_image", "binlog_error_action", "innodb_checksum_algorithm", "low_priority_updates", "sql_mode",
    "innodbDoubleWrite", "delayedInnodbLogFlush", "delayedInnodbLogWrite", "binaryLog", "nojournal",
)  # fmt: skip
"""Durability, data loss and semantics."""

_WIDE = 100.0
"""Ranges whose ends differ by more than this factor are searched on a log scale."""

_LARGE = 2**31
_GROUPS = {
    "journalling": ("journalCompression", "journalCompressionSnappy", "journalCompressionZlib"),
    "network_compression": ("networkCompression", "networkCompressionSnappy", "networkCompressionZlib"),
    "data_compression": ("dataCompression", "dataCompressionSnappy", "dataCompressionZlib"),
    "flush_method": ("fsyncFlush", "dsyncFlush", "directFlush"),
}
"""Columns of 0 and 1 that are one choice."""

EXACT = {
    "dbtune JOB, 20 knobs": ("dbtune/JOB_20knob.csv.gz", "lat", False),
    "dbtune JOB, 5 knobs": ("dbtune/JOB_5knob.csv.gz", "lat", False),
    "MongoDB grid": ("model4tune/MongoDB.csv", "<$performance", False),
    "Storm grid": ("model4tune/storm.csv", "<$throughput", True),
}
"""Name -> file, metric, whether more is better. Left out for want of anything to gain once the doublewrite buffer, or the log's
flush, is held on: dbtune's Sysbench (7 %) and MariaDB."""

FORESTS = {
    f"opadviser {number}": (f"opadviser/{number}_{metric}.csv.gz", metric, metric == "tps")
    for number, metric in (
        ("w02", "lat"), ("w04", "tps"), ("w06", "tps"), ("w08", "tps"), ("w14", "tps"), ("w22", "lat"), ("w34", "tps"),
    )
}  # fmt: skip
"""Left out: w10, w12, w16, w28 (nothing recorded is more than 7 % better than the default), w24 (as w04 and w34)."""

SLOW = ("dbtune JOB, 20 knobs", "opadviser w04")
"""What peers run on that take half a second or more for one ask."""


def names() -> list[str]:
    """All tasks."""
    return [*EXACT, *FORESTS]


def load(name: str, data: Path, seed: int) -> Task:
    """The task called `name` from the folder `data`; `seed` draws the start where the table has no default."""
    if name in FORESTS:
        return _forest(data / FORESTS[name][0], name)
    file, metric, is_more_better = EXACT[name]
    return _exact(data / file, name, metric, is_more_better, seed)


@cache
def _read(path: Path) -> list[Row]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [_grouped(row) for row in csv.DictReader(file)]


def _grouped(row: Row) -> Row:
    merged = dict(row)
    merged.pop("", None)
    for name, columns in _GROUPS.items():
        if all(column in row for column in columns):
            merged[name] = "-".join(merged.pop(column) for column in columns)
    return merged


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _knob(name: str, texts: Sequence[str], default: str) -> Knob:
    """The knob that the recorded values speak of: 0 of a wide range is a special value, wide ranges are on a log scale."""
    distinct = sorted(set(texts))
    if not all(map(_is_number, distinct)):
        return Knob(name=name, kind=KnobKind.CHOICE, choices=tuple(distinct), default=default)
    numbers = sorted({_number(text) for text in distinct})
    if len(numbers) == 2:
        return Knob(name=name, kind=KnobKind.ORDINAL, choices=tuple(map(str, numbers)), default=str(_number(default)))
    above = [n for n in numbers if n > 0]
    is_wide = above[-1] / above[0] > _WIDE
    special = tuple(n for n in numbers if n <= 0) if is_wide else ()
    inside = above if is_wide else numbers
    is_whole = all(float(n).is_integer() for n in numbers) and inside[-1] < _LARGE
    cast: Callable[[float], float] = int if is_whole else float
    return Knob(
        name=name, kind=KnobKind.INTEGER if is_whole else KnobKind.REAL, low=cast(inside[0]), high=cast(inside[-1]),
        log=is_wide, special=tuple(map(cast, special)), default=cast(_number(default)),
    )  # fmt: skip


def _number(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


def _value(knob: Knob, text: str) -> Value:
    if knob.kind is KnobKind.CHOICE:
        return text
    if knob.kind is KnobKind.ORDINAL:
        return str(_number(text))
    return int(float(text)) if knob.kind is KnobKind.INTEGER else float(text)


def _space(rows: Sequence[Row], columns: Sequence[str], start: Row) -> Space:
    return Space([_knob(c.removeprefix("k:"), [row[c] for row in rows], start[c]) for c in columns])


def _configs(space: Space, rows: Sequence[Row], prefix: str = "") -> list[Config]:
    knobs = space.knobs.items()
    return [Config({name: _value(knob, row[prefix + name]) for name, knob in knobs}) for row in rows]


def _varying(rows: Sequence[Row], columns: Iterator[str]) -> list[str]:
    return [column for column in columns if len({row[column] for row in rows}) > 1]


def _exact(path: Path, name: str, metric: str, is_more_better: bool, seed: int) -> Task:
    """The nearest measured row answers."""
    rows = [row for row in _read(path) if float(row[metric]) > 0]
    sign = -1.0 if is_more_better else 1.0
    losses = sign * np.log([float(row[metric]) for row in rows])
    start = 0 if "dbtune" in path.parts else _middling(losses, seed)
    kept = [i for i, row in enumerate(rows) if all(row.get(n, "") == rows[start].get(n, "") for n in LOCKED)]
    rows, losses, first = [rows[i] for i in kept], losses[kept] - losses[start], rows[start]
    columns = _varying(rows, (c for c in rows[0] if c != metric))
    space = _space(rows, columns, first)
    baseline = _configs(space, [first])[0]
    index = NearestNeighbors(n_neighbors=1).fit(space.features(_configs(space, rows)))

    def true_loss(config: Config) -> float:
        return float(losses[index.kneighbors(space.features([config]), return_distance=False)[0, 0]])

    return Task(name, space, baseline, (), NOISE, true_loss, float(losses.min()))


def _middling(losses: NDArray[np.float64], seed: int) -> int:
    """A row from the middle fifth: grids record no default."""
    order = np.argsort(losses, kind="stable")
    middle = order[int(0.4 * len(order)) : int(0.6 * len(order))]
    return int(np.random.default_rng([seed, 5]).choice(middle))


def recorded(name: str, data: Path, optimizer: str) -> tuple[list[Config], list[float], list[Config]]:
    """What one of the recorded optimisers measured on a workload of `FORESTS`: configs, losses, and configs that failed."""
    file, metric, is_more_better = FORESTS[name]
    every = _read(data / file)
    start = next(row for row in every if row["iter"] == "0")
    space = _space(every, _varying(every, (c for c in every[0] if c.startswith("k:"))), start)
    rows = [row for row in every if row["optimizer"] == optimizer]
    worked = [row["trial_state"] == "0" and float(row[metric] or 0) > 0 for row in rows]
    configs = _configs(space, rows, "k:")
    sign = -1.0 if is_more_better else 1.0
    losses = [sign * math.log(float(row[metric])) for row, ok in zip(rows, worked, strict=True) if ok]
    good = [config for config, ok in zip(configs, worked, strict=True) if ok]
    return good, losses, [config for config, ok in zip(configs, worked, strict=True) if not ok]


@cache
def _forest(path: Path, name: str) -> Task:
    """A forest of the log performance answers, another one says what fails; neither is shown to a contender."""
    rows = _read(path)
    metric, is_more_better = FORESTS[name][1:]
    start = next(row for row in rows if row["iter"] == "0")
    full = _space(rows, _varying(rows, (c for c in rows[0] if c.startswith("k:"))), start)
    configs = _configs(full, rows, "k:")
    worked = np.array([row["trial_state"] == "0" and float(row[metric] or 0) > 0 for row in rows])
    sign = -1.0 if is_more_better else 1.0
    y = sign * np.log([float(row[metric]) for row, ok in zip(rows, worked, strict=True) if ok])
    x = full.features(configs)
    loss = RandomForestRegressor(60, min_samples_leaf=2, random_state=0).fit(x[worked], y)
    works = RandomForestClassifier(60, random_state=0).fit(x, worked)
    baseline = configs[rows.index(start)]
    zero = float(loss.predict(full.features([baseline]))[0])
    space = full.subspace([n for n in full.knobs if n not in LOCKED], baseline)

    def losses(configs: Sequence[Config]) -> NDArray[np.float64]:
        seen = full.features([baseline.replace(config) for config in configs])
        return np.where(works.predict_proba(seen)[:, 1] >= 0.5, loss.predict(seen) - zero, np.inf)

    own = [Config({n: config[n] for n in space.knobs}) for config in configs]
    least = _climbed(space, losses, own)
    return Task(
        name, space, Config({n: baseline[n] for n in space.knobs}), (), NOISE, lambda c: float(losses([c])[0]), least
    )


def _climbed(space: Space, losses: Callable[[Sequence[Config]], NDArray[np.float64]], starts: list[Config]) -> float:
    """The least loss found from the recorded configs by changing few knobs at a time."""
    rng = np.random.default_rng(0)
    pool, found = starts, losses(starts)
    for _ in range(12):
        best = [pool[i] for i in np.argsort(found, kind="stable")[:8]]
        near = [config for b in best for config in space.neighbours(b, rng, 40, radius=0.3)]
        pool = [*best, *near]
        found = losses(pool)
    return float(found.min())
