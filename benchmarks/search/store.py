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
        for n in _checkpoints(records):
            found[name][n] = _interval([ours["share"][n] - theirs["share"][n] for ours, theirs in pairs])
    return found


def _checkpoints(records: list[Record]) -> list[str]:
    return [str(n) for n in CHECKPOINTS if str(n) in records[0]["share"]]


def _interval(gaps: list[float]) -> list[float]:
    """Mean and half of its 95 % interval, to three digits."""
    half = stats.t.ppf(0.975, len(gaps) - 1) * np.std(gaps, ddof=1) / np.sqrt(len(gaps))
    return [round(float(np.mean(gaps)), 3), round(float(half), 3)]


def ranks(records: list[Record]) -> Record:
    """By contender: its mean rank over tasks by the mean share over seeds, 1 the best; ties share a rank.

    Contenders that lack a task are left out; of each task only the seeds that all the others have count.
    """
    n_tasks = len({r["task"] for r in records})
    by: dict[str, dict[str, dict[int, Record]]] = {}
    for r in records:
        by.setdefault(r["contender"], {}).setdefault(r["task"], {})[r["seed"]] = r
    names = [name for name, own in by.items() if len(own) == n_tasks]
    if len(names) < 2:
        return {}
    found: Record = {name: {} for name in names}
    for n in _checkpoints(records):
        placed = []
        for task in sorted(by[names[0]]):
            seeds = set.intersection(*(set(by[name][task]) for name in names))
            if seeds:
                means = [np.mean([by[name][task][seed]["share"][n] for seed in seeds]) for name in names]
                placed.append(stats.rankdata([-round(float(mean), 3) for mean in means]))
        for name, rank in zip(names, np.mean(placed, axis=0) if placed else (), strict=False):
            found[name][n] = round(float(rank), 2)
    return found


def against_best(records: list[Record], peers: Iterable[str], base: str = "auto") -> Record:
    """By task: at each checkpoint the peer with the greatest mean share over the seeds that it has in common with `base`, and how
    much more `base` has, with a 95 % interval of the mean. Peers with fewer than three runs in common are left out."""
    found: Record = {}
    for task in dict.fromkeys(r["task"] for r in records):
        own = {r["seed"]: r for r in records if r["task"] == task and r["contender"] == base}
        pairs = {
            peer: [(own[r["seed"]], r) for r in records
                   if r["task"] == task and r["contender"] == peer and r["seed"] in own]
            for peer in peers
        }  # fmt: skip
        pairs = {peer: some for peer, some in pairs.items() if len(some) >= 3}
        for n in _checkpoints(records) if pairs else ():
            best = max(pairs, key=lambda peer: np.mean([theirs["share"][n] for _, theirs in pairs[peer]]))
            gaps = [ours["share"][n] - theirs["share"][n] for ours, theirs in pairs[best]]
            found.setdefault(task, {})[n] = [best, len(gaps), *_interval(gaps)]
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
