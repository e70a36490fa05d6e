"""What the extension costs where it has nothing to do: pgbench's select in each mode beside a session without it.

    python benchmarks/karcher/overhead.py [--rounds 40] [--blocks 30] [--folder DIR] [--results FILE]

In each round four sessions of one server (without the extension; with it in the modes off, observe and tune) answer blocks of
selects by primary key, in turns and in an order that changes: the client is libpq, as pgbench's. A block gives the time of its
round trips and the CPU time that the kernel has counted for the session's backend, to the nanosecond. Client and backends share
one core: waking a backend on another core costs more than what is looked for, and differs from second to second. A round's means
are one pair with those of the session without the extension, and each round has new backends, because two of the same kind
differ by where their memory lies. Statements this short are no class: in `observe` and `tune` a hook looks one number up and lets
them pass. Alone on the machine; the promise is 0 in `off` and at most 0.5 % in `observe`. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
import stamp
from server import connection, running

from trimtab.measure import compare_pairs
from trimtab.records import Endpoint

PLAIN = "not loaded"
WAYS = {PLAIN: None, "off": "off", "observe": "observe", "tune": "tune"}
PROTOCOLS = ("simple", "prepared")
FOLDER = Path("/var/tmp/trimtab-karcher")
ROWS = 1_000_000
"""As many as pgbench has at scale 10."""
CORE = max(os.sched_getaffinity(0))
BLOCK = 200
"""Statements of a session before the next session has its turn."""


@dataclass(slots=True)
class Way:
    """A session of a kind.

    Attributes:
        wall_s, cpu_s: of each block.
    """

    session: psycopg.Connection[tuple[object, ...]]
    wall_s: list[float]
    cpu_s: list[float]

    def block(self, protocol: str, keys: list[bytes]) -> None:
        """One block of selects."""
        link, schedule = self.session.pgconn, Path(f"/proc/{self.session.info.backend_pid}/schedstat")
        cpu, began = _ran_s(schedule), time.perf_counter()
        if protocol == "prepared":
            for key in keys:
                link.exec_prepared(b"one", [key])
        else:
            for key in keys:
                link.exec_(b"SELECT abalance FROM accounts WHERE aid = " + key)
        self.wall_s.append(time.perf_counter() - began)
        self.cpu_s.append(_ran_s(schedule) - cpu)


def _ran_s(schedule: Path) -> float:
    return int(schedule.read_text(encoding="ascii").split()[0]) / 1e9


def opened(endpoint: Endpoint, library: Path, mode: str | None) -> psycopg.Connection[tuple[object, ...]]:
    """A session with the extension in that mode; None: without it."""
    options = "" if mode is None else f"-c session_preload_libraries={library} -c trimtab.mode={mode}"
    session = psycopg.connect(
        host=endpoint.host, port=endpoint.port, user=endpoint.user, dbname="postgres", options=options, autocommit=True
    )
    session.pgconn.prepare(b"one", b"SELECT abalance FROM accounts WHERE aid = $1")
    if mode is not None:
        (found,) = session.execute(f"SELECT current_setting('trimtab.mode') = '{mode}'".encode()).fetchall()
        assert found == (True,), mode
    return session


def one_round(
    endpoint: Endpoint, library: Path, protocol: str, n_blocks: int, seed: int
) -> dict[str, tuple[float, float]]:
    """(microseconds of a round trip, of the backend's CPU) of one select, by way."""
    chance = random.Random(seed)
    with ExitStack() as stack:
        ways = {name: Way(stack.enter_context(opened(endpoint, library, mode)), [], []) for name, mode in WAYS.items()}
        for i in range(n_blocks + 3):
            order = list(ways)
            chance.shuffle(order)
            keys = [str(chance.randint(1, ROWS)).encode() for _ in range(BLOCK)]
            for name in order:
                ways[name].block(protocol, keys)
            if i == 2:  # each backend has looked up and cached by then what it needs
                for way in ways.values():
                    way.wall_s.clear()
                    way.cpu_s.clear()
        return {name: (_typical(way.wall_s), _typical(way.cpu_s)) for name, way in ways.items()}


def _typical(seconds: list[float]) -> float:
    """Microseconds of one statement: the mean without the slowest tenth of the blocks, which an interrupt may have met."""
    kept = sorted(seconds)[: max(1, len(seconds) * 9 // 10)]
    return sum(kept) / len(kept) / BLOCK * 1e6


def measured(endpoint: Endpoint, library: Path, n_rounds: int, n_blocks: int) -> dict[str, Any]:
    """By protocol and way: microseconds, and their ratio to those without the extension."""
    found: dict[str, Any] = {}
    for protocol in PROTOCOLS:
        rounds = [one_round(endpoint, library, protocol, n_blocks, seed) for seed in range(n_rounds)]
        found[protocol] = {}
        for name in WAYS:
            row: dict[str, Any] = {}
            for place, figure in enumerate(("round_trip", "backend_cpu")):
                own, plain = ([each[way][place] for each in rounds] for way in (name, PLAIN))
                ratio = compare_pairs(own, plain, False).ratio
                row[f"{figure}_us"] = round(sum(own) / len(own), 3)
                row[f"{figure}_ratio"] = [round(value, 5) for value in (ratio.estimate, ratio.low, ratio.high)]
            found[protocol][name] = row
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--blocks", type=int, default=30)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--results", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    making, cores = stamp.Making(), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CORE})  # the server's processes inherit it
    with running(arguments.folder, is_preloaded=False) as endpoint:
        with connection(endpoint, "postgres") as session:
            session.execute("DROP TABLE IF EXISTS accounts")
            session.execute(
                "CREATE TABLE accounts AS SELECT aid, 0 AS abalance, repeat(' ', 84) AS filler"
                f" FROM generate_series(1, {ROWS}) aid".encode()
            )
            session.execute("CREATE UNIQUE INDEX accounts_aid ON accounts (aid)")
            session.execute("VACUUM ANALYZE accounts")
        found = measured(endpoint, arguments.folder / "trimtab.so", arguments.rounds, arguments.blocks)
        os.sched_setaffinity(0, cores)
        made = making.stamp()  # while the server lives: its CPU time is this run's own
    document = {"schema_version": 1, "rounds": arguments.rounds, "blocks": arguments.blocks, "overhead": found}
    print(json.dumps({"made": made, **document}, indent=1))
    if arguments.results is not None:
        stamp.write(arguments.results, document, {"overhead": made})


if __name__ == "__main__":
    main()
