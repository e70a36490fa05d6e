"""One run of Trimtab's load engine in a process of its own: what to run comes in as JSON, what was measured goes out.

CPU is user and system time of this whole process, every thread of it, from the moment when all users are connected until
the run's log is there. Frames are read each second, as a study does.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from array import array
from bisect import bisect_left
from itertools import accumulate
from pathlib import Path
from typing import Any

from trimtab._native import Http, Load, Model, Mongodb, Mysql, Postgres, RunLog, Script, Scripts, Ycsb, YcsbRows
from trimtab.load import build_source

_LONG_US = 500_000
_SHARES = {"p50": 0.5, "p99": 0.99, "max": 1.0}


def _driver(spec: dict[str, Any]) -> Postgres | Mysql | Mongodb | Http:
    options = {name: value for name, value in spec.items() if name != "kind"}
    kinds: dict[str, Any] = {"http": Http, "mongodb": Mongodb, "mysql": Mysql, "postgresql": Postgres}
    made: Postgres | Mysql | Mongodb | Http = kinds[spec["kind"]](**options)
    return made


def _source(spec: dict[str, Any], dialect: str, users: int) -> Any:
    if dialect == "http":
        return build_source(spec)
    dialect = "pairs" if dialect == "mongodb" else dialect
    if "script" in spec:
        return Scripts([Script.pgbench("read", 1.0, "read.sql", spec["script"])], dialect=dialect, users=users)
    return Ycsb(dialect=dialect, **spec["ycsb"]) if "ycsb" in spec else YcsbRows(dialect=dialect, **spec["rows"])


def _column(log: RunLog, what: str) -> list[tuple[float, int]]:
    """(value in microseconds, count) of a whole run, ascending."""
    columns = log.buckets(what)
    values, counts = array("d", columns.value_us), array("q", columns.count)
    return sorted(zip(values, counts, strict=True))


def _summary(log: RunLog, what: str) -> dict[str, int]:
    """Percentiles in microseconds, and how many were longer than half a second."""
    buckets = _column(log, what)
    n = sum(count for _, count in buckets)
    if not n:
        return dict.fromkeys(("n", "long", "mean", *_SHARES), 0)
    upto = list(accumulate(count for _, count in buckets))
    found = {name: round(buckets[bisect_left(upto, share * n)][0]) for name, share in _SHARES.items()}
    mean = round(sum(value * count for value, count in buckets) / n)
    return {"n": n, "long": sum(count for value, count in buckets if value > _LONG_US), "mean": mean, **found}


def _rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """What the run measured."""
    driver = _driver(spec["driver"])
    source = _source(spec["source"], spec["driver"]["kind"], spec["users"])
    model = Model.closed(start_s=spec.get("start_s", 0.0))
    if spec.get("rate"):
        model = Model.open(spec["rate"], backlog_max=1_000_000)
    rss = _rss_bytes()
    load = Load(
        driver=driver, source=source, users=spec["users"], model=model, duration_s=spec["duration_s"],
        operation_timeout_s=60.0, connect_timeout_s=60.0, threads=spec.get("threads", 1), seed=spec.get("seed", 1),
    )  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_SELF)
    print("started", flush=True)
    while not load.is_done:
        load.frame(1.0)
    grown = _rss_bytes() - rss
    log = load.stop()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = {"user_s": after.ru_utime - before.ru_utime, "system_s": after.ru_stime - before.ru_stime}
    seconds = log.seconds()
    total = {name: sum(array("q", getattr(seconds, name))) for name in ("ok", "error", "timed_out", "shed", "offered")}
    times = {what: _summary(log, what) for what in ("response", "service", "queue", "lateness", "wakeup")}
    found = {"duration_s": log.duration_s, "engine_cpu_s": log.client_cpu_s, "errors": log.errors[:3]}
    return {**found, **cpu, **total, **times, "memory_bytes": log.memory_bytes, "rss_growth_bytes": grown}


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
