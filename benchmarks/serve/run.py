"""Round trips of a session: fetch and report by one client, and reports a second by a hundred; next to commits of SQLite alone.

    python benchmarks/serve/run.py [--quick]

Prints the median and the 99th percentile of one fetch and report, of which a random searcher takes next to nothing; the rate of
reports with 100 clients; and how many commits a second one connection of SQLite makes on the same disk, each by itself: the peer
that a server without shared commits could not beat.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from trimtab.client import Server, integer

_TOKEN = "a-token-of-the-benchmark"


def main() -> None:
    """Runs everything and prints it as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    n = 200 if parser.parse_args().quick else 2000
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        env = {**os.environ, "TRIMTAB_TOKEN": _TOKEN}
        command = [sys.executable, "-m", "trimtab", "serve", "--port", "0", "--state", folder]
        process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        url = process.stderr.readline().split()[2].rstrip(";")
        try:
            found = {**one_client(url, n), **many_clients(url, 100, 5 * n)}
        finally:
            process.terminate()
            process.communicate()
        found["sqlite_commits_per_s"] = commits(Path(folder), n // 4)
        found["ratio_to_single_commits"] = found["reports_per_s"] / found["sqlite_commits_per_s"]
    print(json.dumps({name: round(value, 2) for name, value in found.items()}, indent=2))


def _knobs() -> list[dict[str, object]]:
    return [integer(name, 0, 10**6, default=1) for name in "abcd"]


def one_client(url: str, n: int) -> dict[str, float]:
    """One after the other, with a searcher that thinks for microseconds."""
    with Server(url, _TOKEN) as server:
        session = server.session("one", _knobs(), searcher="random", budget=f"{n} trials", patience=n, proof=False)
        seconds = []
        for number in range(n):
            began = time.perf_counter()
            point = session.fetch()
            assert point is not None
            point.report(100.0 + number % 7)
            seconds.append(time.perf_counter() - began)
    ranked = sorted(1000 * each for each in seconds)
    return {"round_trip_median_ms": statistics.median(ranked), "round_trip_p99_ms": ranked[int(0.99 * n)]}


def many_clients(url: str, n_clients: int, n: int) -> dict[str, float]:
    """Each with a session of its own: a study takes its baseline one run at a time."""
    left = threading.Semaphore(n)
    together = threading.Barrier(n_clients + 1)
    done = [0] * n_clients

    def work(index: int) -> None:
        with Server(url, _TOKEN) as server:
            session = server.session(
                f"many{index}", _knobs(), searcher="random", budget=f"{n} trials", patience=n, proof=False
            )
            together.wait()
            while left.acquire(blocking=False):
                point = session.fetch()
                assert point is not None
                point.report(100.0)
                done[index] += 1

    threads = [threading.Thread(target=work, args=(index,)) for index in range(n_clients)]
    for thread in threads:
        thread.start()
    together.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return {"reports_per_s": sum(done) / (time.perf_counter() - began)}


def commits(folder: Path, n: int) -> float:
    """Commits a second of one row each, as durable as the history's."""
    with sqlite3.connect(folder / "peer.db", isolation_level=None) as database:
        database.execute("pragma synchronous=full")
        database.execute("create table t (a text)")
        began = time.perf_counter()
        for _ in range(n):
            database.execute("insert into t values (?)", ("x" * 600,))
        return n / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
