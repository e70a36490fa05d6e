"""`trimtab serve`: round trips and reports a second, and its dashboard with 1,000 sessions and a study of 10,000 trials.

    python benchmarks/serve/run.py [--quick] [--only-trials]

Prints, each with the limit that was set for it: the median and the 99th percentile of one fetch and report by one client, with
and without the time of the searcher, which is measured by itself in this process; reports a second by 100 clients, all in one
process of their own, on sessions of their own; CPU of the server and of the clients for each trial, which hardly depends on what
else the machine does; the same CPU over the first and the last trials of a long session, which are to be alike; the list
of 1,000 sessions; the facts and the plots of a study of 10,000 trials, and its first paint in a real Chromium (left out where
there is none). The peers on the same disk: commits a second of SQLite that wait for the disk, and that do not.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients import TOKEN, Client, Tuned, cpu_s, many, own_cpu_s
from searchers import searcher_ms

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

LIMITS = {
    "round_trip_beside_searcher_ms": 5.0,
    "reports_per_s": 500.0,
    "list_1000_sessions_ms": 100.0,
    "first_paint_ms": 1000.0,
}
"""What was promised; reports a second is a least, the others are mosts."""


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    url: str
    pid: int


def main() -> None:
    """Runs everything and prints it as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only-trials", action="store_true", help="no dashboard, no peers")
    options = parser.parse_args()
    n = 200 if options.quick else 2000
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        with serving(Path(folder)) as served:
            found |= one_client(served, n)
            found |= many_clients(served, 100, 5 * n)
        if not options.only_trials:
            found |= beside(Path(folder), n)
    print(json.dumps({name: round(value, 2) for name, value in found.items()}, indent=2))
    for name, limit in LIMITS.items():
        if name in found:
            is_met = found[name] >= limit if name == "reports_per_s" else found[name] <= limit
            print(f"{name}: {found[name]:.1f} ({'within' if is_met else 'BEYOND'} {limit:g})")


def beside(folder: Path, n: int) -> dict[str, float]:
    """What is not of trials alone."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as other, serving(Path(other), "--sync") as served:
        found |= {f"{name}_with_sync": value for name, value in one_client(served, n // 4).items()}
    filled = fill(folder / "history.db", 1000, 10 * n if n < 1000 else 10_000)
    with serving(folder) as served:
        found |= pages(served.url, filled, folder)
    return found | commits(folder, n // 4)


@contextmanager
def serving(folder: Path, *more: str) -> Iterator[Served]:
    """A server over that state directory."""
    command = [sys.executable, "-m", "trimtab", "serve", "--port", "0", "--state", str(folder), *more]
    env = {**os.environ, "TRIMTAB_TOKEN": TOKEN}
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        yield Served(process.stderr.readline().split()[2].rstrip(";"), process.pid)
    finally:
        process.terminate()
        process.communicate()


def timed_ms(call: Callable[[], Any]) -> float:
    """Milliseconds that `call` takes."""
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)


def one_client(served: Served, n: int) -> dict[str, float]:
    """One after the other, with a searcher that thinks for microseconds; CPU of the server over each fourth of them."""
    client = Tuned(served.url, "one", n)
    times: list[float] = []
    used_ms, own_ms = [], 1000 * own_cpu_s()
    for _ in range(4):
        began_s = cpu_s(served.pid)
        times += [timed_ms(client.trial) for _ in range(n // 4)]
        used_ms.append(1000 * (cpu_s(served.pid) - began_s) / (n // 4))
    own_ms = 1000 * own_cpu_s() - own_ms
    median, thinking = statistics.median(times), searcher_ms(n)
    return {
        "round_trip_median_ms": median,
        "round_trip_p99_ms": sorted(times)[int(0.99 * len(times))],
        "searcher_ms": thinking,
        "round_trip_beside_searcher_ms": median - thinking,
        "one_client_server_cpu_ms": statistics.mean(used_ms),
        "one_client_server_cpu_first_fourth_ms": used_ms[0],
        "one_client_server_cpu_last_fourth_ms": used_ms[-1],
        "one_client_own_cpu_ms": own_ms / len(times),
    }


def many_clients(served: Served, n_clients: int, n: int) -> dict[str, float]:
    """Reports a second; each client has a session of its own, because a study takes its baseline one run at a time."""
    context = multiprocessing.get_context("spawn")
    ready, go, told = context.Semaphore(0), context.Event(), context.Queue()
    worker = context.Process(target=many, args=(served.url, n_clients, n // n_clients, ready, go, told))
    worker.start()
    ready.acquire()
    began_s = cpu_s(served.pid)
    go.set()
    took_s, client_s = told.get()
    server_s = cpu_s(served.pid) - began_s
    worker.join()
    return {
        "reports_per_s": n / took_s,
        "many_clients_server_cpu_ms": 1000 * server_s / n,
        "many_clients_own_cpu_ms": 1000 * client_s / n,
    }


def fill(path: Path, n_sessions: int, n_trials: int) -> int:
    """Sessions that have ended, until there are `n_sessions`, and one of `n_trials` trials; the id of the study of that one."""
    with sqlite3.connect(path) as database:
        columns = "status, created_at, body, verdict, target, objective"
        (study_id,) = database.execute("select id from trimtab_study where name = 'one'").fetchone()
        (n,) = database.execute("select count(*) from trimtab_study").fetchone()
        database.execute(
            f"insert into trimtab_study (name, {columns}) with recursive n(i) as (select 1 union all select i + 1 from n "
            f"where i < {n_sessions - n}) select 's' || i, 'stopped', created_at, body, verdict, target, objective "
            f"from trimtab_study, n where id = {study_id}"
        )
        database.execute("update trimtab_study set status = 'stopped'")
        (highest,) = database.execute(f"select max(number) from trimtab_trial where study_id = {study_id}").fetchone()
        more = "study_id, number + (? + 1) * (? + 1), role, status, body, histogram, started_at, loss, config, detail"
        for i in range(n_trials // (highest + 1)):
            database.execute(f"insert into trimtab_trial select {more} from trimtab_trial where study_id = {study_id} "
                             f"and number <= {highest}", (i, highest))  # fmt: skip
        _number_bodies(database, study_id)
    return int(study_id)


def _number_bodies(database: sqlite3.Connection, study_id: int) -> None:
    """A trial's number stands in its body as well."""
    rows = database.execute(f"select number, body from trimtab_trial where study_id = {study_id}").fetchall()
    for number, body in rows:
        values = json.loads(body)
        if "number" in values:
            values["number"] = number
            database.execute(
                "update trimtab_trial set body = ? where study_id = ? and number = ?",
                (json.dumps(values), study_id, number),
            )


def pages(url: str, study_id: int, folder: Path) -> dict[str, float]:
    """The list of all sessions, and one study of many trials."""
    client = Client(url)
    found = {
        "n_sessions": float(len(client.ask("GET", "/sessions")["sessions"])),
        "list_1000_sessions_ms": statistics.median(timed_ms(lambda: client.ask("GET", "/sessions")) for _ in range(9)),
        "study_first_ms": timed_ms(lambda: client.ask("GET", f"/studies/{study_id}")),
        "study_ms": statistics.median(timed_ms(lambda: client.ask("GET", f"/studies/{study_id}")) for _ in range(5)),
        "charts_first_ms": timed_ms(lambda: client.ask("GET", f"/studies/{study_id}/charts")),
        "n_trials": float(client.ask("GET", f"/studies/{study_id}")["n_trials"]),
    }
    if shutil.which("chromium") is None:
        return found
    from tests.serve.browser import Browser

    with Browser(folder) as page:
        page.open(f"{url}/#token={TOKEN};/study/{study_id}")
        page.wait("document.querySelector('.facts')")
        page.wait("document.querySelector('#chart-progress svg')")
        found["first_paint_ms"] = page.value("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        found["facts_ms"] = page.value("performance.getEntriesByName('facts')[0].startTime")
        found["plots_ms"] = page.value("performance.getEntriesByName('plots')[0].startTime")
    return found


def commits(folder: Path, n: int) -> dict[str, float]:
    """Commits a second of one row each by SQLite alone, with and without waiting for the disk."""
    found = {}
    for name, how in (("sqlite_synced_per_s", "full"), ("sqlite_unsynced_per_s", "normal")):
        with sqlite3.connect(folder / f"{how}.db", isolation_level=None) as database:
            database.execute("pragma journal_mode=wal")
            database.execute(f"pragma synchronous={how}")
            database.execute("create table t (a text)")
            began = time.perf_counter()
            for _ in range(n):
                database.execute("insert into t values (?)", ("x" * 600,))
            found[name] = n / (time.perf_counter() - began)
    return found


if __name__ == "__main__":
    main()
