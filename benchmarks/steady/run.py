"""How steady this machine is, for four kinds of work: each alone for a while, counted second by second.

    python benchmarks/steady/run.py [--seconds 120] [--quick]

A server of many processes is as noisy as what these share: system calls and messages to each other. Printed for each kind: the
standard deviation from second to second, and from window to window of ten seconds, as shares of the mean.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import stamp  # noqa: E402
import tables  # noqa: E402

WINDOW_S = 10
KINDS = {
    "arithmetic": "arithmetic",
    "memory": "reads of 64 MB in random order",
    "one_core": "messages between two processes on one core, there and back",
    "free": "the same, on whatever core the kernel chooses",
}

Work = Callable[[], object]
"""A piece of work that takes about a millisecond."""


def spread(rates: Sequence[float], window_s: int = WINDOW_S) -> tuple[float, float]:
    """Standard deviations of rates a second, from second to second and from window to window, as shares of the mean; NaN where
    there are fewer than two."""
    mean = statistics.mean(rates)
    starts = range(0, len(rates) - window_s + 1, window_s)
    windows = [statistics.mean(rates[start : start + window_s]) for start in starts]
    return _deviation(rates) / mean, _deviation(windows) / mean


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else float("nan")


def rates_of(work: Work, seconds: int) -> list[float]:
    """How often a second `work` was done, for each of so many seconds."""
    rates = []
    for _ in range(seconds):
        n, start = 0, time.perf_counter()
        while (took := time.perf_counter() - start) < 1.0:
            work()
            n += 1
        rates.append(n / took)
    return rates


def arithmetic() -> Work:
    """Nothing but the processor."""
    numbers = np.arange(1.0, 4_000.0)
    return lambda: [float(np.sum(np.sqrt(numbers) * numbers)) for _ in range(40)]


def memory() -> Work:
    """More than the caches hold."""
    rng = np.random.default_rng(1)
    cells = np.zeros(16 * 2**20, dtype=np.uint32)
    places = rng.integers(0, len(cells), 100_000)
    return lambda: int(cells[places].sum())


@contextmanager
def messages() -> Iterator[Work]:
    """A byte to another process and back, 20 times."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        while byte := theirs.recv(1):
            theirs.send(byte)
        os._exit(0)
    theirs.close()

    def talk() -> None:
        for _ in range(20):
            ours.send(b".")
            ours.recv(1)

    try:
        yield talk
    finally:
        ours.close()
        os.waitpid(child, 0)


@contextmanager
def on_one_core() -> Iterator[None]:
    """This process, and what it starts."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def measured(kind: str, seconds: int) -> list[float]:
    """Rates a second of one kind."""
    if kind == "one_core":
        with on_one_core(), messages() as talk:
            return rates_of(talk, seconds)
    if kind == "free":
        with messages() as talk:
            return rates_of(talk, seconds)
    return rates_of({"arithmetic": arithmetic, "memory": memory}[kind](), seconds)


def table(document: Mapping[str, Any]) -> str:
    """The figures as a page shows them."""
    rows = []
    for kind, what in KINDS.items():
        rates = document["rates_per_s"][kind]
        second, window = spread(rates)
        mean = statistics.mean(rates)
        rows.append((what, f"{second:.1%}", f"{window:.1%}", f"{min(rates) / mean:.2f} to {max(rates) / mean:.2f}"))
    head = (
        "work",
        "from second to second",
        f"from window to window ({WINDOW_S} s)",
        "slowest and fastest second, by the mean",
    )
    return "\n".join(tables.markdown(head, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=120, help="of each kind")
    parser.add_argument("--quick", action="store_true", help="a few seconds, nothing is written")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    given = parser.parse_args()
    making = stamp.Making()
    rates = {kind: [round(rate, 1) for rate in measured(kind, 3 if given.quick else given.seconds)] for kind in KINDS}
    document = {"rates_per_s": rates}
    print(table(document))
    if not given.quick:
        stamp.write(given.results, document, {"all": making.stamp()}, indent=1)
        print(stamp.line(stamp.former(given.results)["made"]["all"]))


if __name__ == "__main__":
    main()
