"""Runs done so far, one JSON line each, so that the benchmark goes on where it was stopped; and what they add up to."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from tasks import CHECKPOINTS

Record = dict[str, Any]
_KEY = ("part", "task", "contender", "seed")


class Store:
    """The file of runs.

    Attributes:
        records: every run, by (part, task, contender, seed).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.records: dict[tuple[Any, ...], Record] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                self.records[tuple(record[name] for name in _KEY)] = record

    def has(self, part: str, task: str, contender: str, seed: int) -> bool:
        """Whether this run is there."""
        return (part, task, contender, seed) in self.records

    def add(self, record: Record) -> None:
        """Appends a run; on disk when this returns."""
        self.records[tuple(record[name] for name in _KEY)] = record
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def forget(self, contenders: Iterable[str]) -> None:
        """Drops the runs of `contenders`, which are to be made again."""
        dropped = set(contenders)
        self.records = {key: record for key, record in self.records.items() if record["contender"] not in dropped}
        if self._path.exists():
            self._path.write_text("".join(json.dumps(r) + "\n" for r in self.records.values()), encoding="utf-8")

    def of(self, part: str) -> list[Record]:
        """The runs of a part, in the order of task, contender, seed."""
        return [record for key, record in sorted(self.records.items(), key=lambda item: str(item[0])) if key[0] == part]


def quartiles(values: Iterable[float]) -> list[float]:
    """Lower quartile, median, upper quartile, to three digits."""
    return [round(float(q), 3) for q in np.percentile(list(values), [25, 50, 75])]


def summary(records: list[Record]) -> Record:
    """Quartiles of the shares of the gain, and means of what went wrong, over runs."""
    shares = {
        str(n): quartiles(r["share"][str(n)] for r in records) for n in CHECKPOINTS if str(n) in records[0]["share"]
    }
    rates = {name: round(float(np.mean([r[name] for r in records])), 4) for name in ("failed", "worse", "restarts")}
    return {"runs": len(records), "share": shares, **rates}


def paired(records: list[Record], base: str = "auto") -> Record:
    """By contender: how much more than it `base` has on the same task and seed, with a 95 % interval of the mean.

    Runs of several tasks count alike; contenders that share fewer than three runs with `base` are left out.
    """
    own = {(r["task"], r["seed"]): r for r in records if r["contender"] == base}
    found: Record = {}
    for name in dict.fromkeys(r["contender"] for r in records if r["contender"] != base):
        pairs = [(own[key], r) for r in records if r["contender"] == name and (key := (r["task"], r["seed"])) in own]
        if len(pairs) < 3:
            continue
        found[name] = {"runs": len(pairs)}
        for n in (str(n) for n in CHECKPOINTS if str(n) in pairs[0][0]["share"]):
            gaps = np.array([ours["share"][n] - theirs["share"][n] for ours, theirs in pairs])
            half = float(stats.t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps)))
            found[name][n] = [round(float(gaps.mean()), 3), round(half, 3)]
    return found


def by_task(records: list[Record]) -> Record:
    """Summaries by task and contender."""
    found: Record = {}
    for record in records:
        found.setdefault(record["task"], {}).setdefault(record["contender"], []).append(record)
    return {task: {name: summary(own) for name, own in rows.items()} for task, rows in found.items()}


def overall(records: list[Record]) -> Record:
    """Summaries by contender over the runs of all tasks; contenders that were not run on every task are left out."""
    n_tasks = len({record["task"] for record in records})
    found: Record = {}
    for record in records:
        found.setdefault(record["contender"], []).append(record)
    return {name: summary(own) for name, own in found.items() if len({r["task"] for r in own}) == n_tasks}
