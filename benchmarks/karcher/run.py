"""Table 2 of Karcher and Landhaeusser 2018: each TPC-H query with PostgreSQL's defaults, in sections, and by the extension.

    python benchmarks/karcher/run.py [--scale 1] [--query 3 ...] [--executions 50] [--seconds-per-arm S] [--rounds 10]
                                     [--folder DIR] [--quick]

For each query the arms and the defaults run in turns, each in a session of its own, from the first execution on: what probing
costs is in the ratio. With --seconds-per-arm a slow query is executed less often, 20 times at least; how often is decided before
the first of them, by a run with the defaults that is not counted, and stands in the table: fewer executions have less time to
earn back what probing cost. What another --executions gives is kept apart. Arm "sections" tunes the seed's parameters inside a
running query, in sections of 200,000 tuples, by random probes and Nelder-Mead (two of its four mean nothing to a query:
temp_buffers, maintenance_work_mem; effective_io_concurrency goes to 16, the default of PostgreSQL 18, and not to the seed's 4);
arm "classes" tunes the query's settings from one execution to the next. Then, unless --query chose some, a stream of all queries,
in turns again. Which settings matter to which query, the seed's Table 1: sard.py. Results go to
results.json after each query, and the same command goes on where it was stopped; alone on the machine. The figures are derived
from TPC-H and are not comparable with published TPC-H results.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
import stamp
from server import connection, running, views
from table import table

from trimtab.measure import compare_pairs
from trimtab.workload.tpch.prepare import prepare
from trimtab.workload.tpch.queries import validation_query

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
FOLDER = Path("/var/tmp/trimtab-karcher")
QUERIES = tuple(range(1, 23))
ARMS = ("sections", "classes")
EXECUTIONS = 50
FEWEST = 20
"""Executions of a slow query: the extension looks at several before it touches any, and a third of them shows what is left."""

Session = psycopg.Connection[tuple[object, ...]]


def arm_settings(arm: str) -> str:
    """What a session of an arm runs with."""
    if arm == "default":
        return "SET trimtab.mode = off"
    if arm == "classes":
        return "SET trimtab.mode = tune"
    return (
        "SET trimtab.mode = tune; SET trimtab.inside = alone; SET trimtab.budget = 50; "
        "SET trimtab.parameters = 'work_mem=1MB..128MB, effective_io_concurrency=1..16'"
    )


def timed(session: Session, sql: bytes) -> tuple[float, list[tuple[object, ...]]]:
    """Milliseconds until all rows are here, and the rows."""
    began = time.perf_counter()
    rows = session.execute(sql).fetchall()
    return (time.perf_counter() - began) * 1e3, rows


def turns(sessions: Sequence[Session], statements: Sequence[bytes], n: int) -> list[list[float]]:
    """By session: the times of all statements, `n` times, in an order that moves on; the answers must be the same."""
    times: list[list[float]] = [[] for _ in sessions]
    for i in range(n):
        sums = [0.0] * len(sessions)
        for sql in statements:
            answers = [""] * len(sessions)
            for which in order(len(sessions), i):
                ms, rows = timed(sessions[which], sql)
                answers[which] = str(sorted(map(repr, rows)))
                sums[which] += ms
            if len(set(answers)) > 1:
                raise SystemExit("error: the answers differ")
        for own, ms in zip(times, sums, strict=True):
            own.append(ms)
    return times


def order(n: int, turn: int) -> list[int]:
    """Who goes first in a turn: each in turn, forwards and then backwards, so that none always follows the same one."""
    first = turn % n
    forwards = [*range(first, n), *range(first)]
    return forwards if turn // n % 2 == 0 else forwards[::-1]


def executions(n: int, first_ms: float, seconds_per_arm: float | None) -> int:
    """How often a query is executed that takes `first_ms` with the defaults: `n` times, fewer where that would take too long."""
    if seconds_per_arm is None:
        return n
    return min(n, max(FEWEST, int(seconds_per_arm * 1e3 / first_ms)))


def amortised_at(default: Sequence[float], ours: Sequence[float]) -> int | None:
    """The execution (from 1) after which the sum of ours is never again above the sum of the default; None if never."""
    at, lead = 1, 0.0
    for i, (a, b) in enumerate(zip(default, ours, strict=True), 1):
        lead += a - b
        if lead < 0:
            at = i + 1
    return at if at <= len(default) else None


def summary(default: Sequence[float], ours: Sequence[float]) -> dict[str, Any]:
    """The whole run, probing included, and its last third."""
    last = len(default) - max(1, len(default) // 3)
    whole, end = compare_pairs(default, ours, False), compare_pairs(default[last:], ours[last:], False)
    return {
        "n": len(default),
        "default_ms": sum(default) / len(default),
        "ours_ms": sum(ours) / len(ours),
        "ratio": sum(default) / sum(ours),
        "pair_ratio": whole.ratio.estimate,
        "interval": [whole.ratio.low, whole.ratio.high],
        "settled_ratio": end.ratio.estimate,
        "settled_interval": [end.ratio.low, end.ratio.high],
        "amortised_at": amortised_at(default, ours),
    }


def found(admin: Session, session: Session, arm: str) -> dict[str, Any]:
    """What was learnt of the query: of its class by the server, of its sections by the arm's own session."""
    if arm == "sections":
        names = ("sections", "probes", "settings", "gain")
        text = "SELECT {} FROM trimtab_inside ORDER BY total_ms DESC LIMIT 1"
        rows = session.execute(text.format(", ".join(names)).encode()).fetchall()
    else:
        names = ("settings", "probes", "gain", "left_alone", "plans_compared", "same_plan")
        text = (
            "SELECT {} FROM trimtab_sections WHERE total_ms >= (SELECT max(total_ms) FROM trimtab_sections) / 100 "
            "ORDER BY probes DESC, plans_compared DESC LIMIT 1"
        )
        rows = admin.execute(text.format(", ".join(names)).encode()).fetchall()
    return dict(zip(names, rows[0], strict=True)) if rows else {}


class Run:
    """One scale, in one server."""

    def __init__(self, connect: Callable[[], Session], results: dict[str, Any], say: Callable[[str], None]) -> None:
        self._connect, self.results, self._say = connect, results, say

    def query(self, query: int, n: int, seconds_per_arm: float | None) -> None:
        """The arms of a query that are not there yet, all in turns with the same executions of the defaults."""
        sql = validation_query(query).encode()
        row = self.results.setdefault(f"q{query}", {})
        arms = [arm for arm in ARMS if arm not in row]
        if not arms:
            return
        with ExitStack() as stack:
            admin, *sessions = (stack.enter_context(self._connect()) for _ in range(len(arms) + 2))
            admin.execute("SELECT trimtab_reset()")
            for session in sessions:  # each fills the caches, the server's and its own
                session.execute(arm_settings("default").encode())
                first_ms, _ = timed(session, sql)
            for session, arm in zip(sessions[1:], arms, strict=True):
                session.execute(arm_settings(arm).encode())
            making = stamp.Making()
            default, *ours = turns(sessions, [sql], executions(n, first_ms, seconds_per_arm))
            for arm, session, times in zip(arms, sessions[1:], ours, strict=True):
                row[arm] = summary(default, times) | found(admin, session, arm) | {"made": making.stamp()}
                ratio, settled = row[arm]["ratio"], row[arm]["settled_ratio"]
                self._say(f"q{query} {arm}: {ratio:.3f}, at its end {settled:.3f}; {row[arm].get('settings', '')}")

    def stream(self, queries: Sequence[int], n: int) -> None:
        """All queries one after another, in turns with the defaults."""
        if "stream" in self.results:
            return
        with self._connect() as admin, self._connect() as plain, self._connect() as ours:
            admin.execute("SELECT trimtab_reset()")
            plain.execute(arm_settings("default").encode())
            ours.execute(arm_settings("classes").encode())
            making = stamp.Making()
            times = turns([plain, ours], [validation_query(query).encode() for query in queries], n)
            self.results["stream"] = summary(*times) | {"made": making.stamp()}
        self._say(f"stream of {len(queries)} queries: {self.results['stream']['ratio']:.3f}")


def keep(path: Path, results: Mapping[str, Any]) -> None:
    """All scales, with the stamp of each; nothing where `path` is no file."""
    if path == Path("/dev/null"):
        return
    made = {}
    for scale, rows in results.items():
        parts = [part for row in rows.values() for part in (row.values() if "made" not in row else [row])]
        made[f"scale {scale}"] = stamp.merged(part["made"] for part in parts)
    stamp.write(path, {"scales": results}, made, indent=1)


def measure(arguments: argparse.Namespace, results: dict[str, Any]) -> None:
    """Everything that is not there yet; kept after each query."""

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    queries = arguments.query or QUERIES
    name = f"{arguments.scale:g}" + (
        f", {arguments.executions} executions" if arguments.executions != EXECUTIONS else ""
    )
    with running(arguments.folder) as endpoint:
        database = f"tpch_{arguments.scale:g}".replace(".", "_")
        prepare(endpoint, database=database, scale=arguments.scale, schema="standard", report=say)
        with connection(endpoint, database) as session:
            views(session, arguments.folder)
        run = Run(lambda: connection(endpoint, database), results.setdefault(name, {}), say)
        for query in queries:
            run.query(query, arguments.executions, arguments.seconds_per_arm)
            keep(arguments.results, results)
        if queries == QUERIES or arguments.quick:
            run.stream(queries, arguments.rounds)
            keep(arguments.results, results)
    print(table(name, run.results))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--query", type=int, nargs="*", choices=QUERIES)
    parser.add_argument("--executions", type=int, default=EXECUTIONS)
    parser.add_argument("--seconds-per-arm", type=float, help="fewer executions of slow queries; default: no limit")
    parser.add_argument("--rounds", type=int, default=10, help="of the stream of all queries")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the server and its data, kept between runs")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--quick", action="store_true", help="scale 0.01, few queries and executions, nothing kept")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.scale, arguments.executions, arguments.rounds = 0.01, 12, 3
        arguments.query = arguments.query or [3, 6, 13]
        arguments.results = Path("/dev/null")
    kept = json.loads(arguments.results.read_text())["scales"] if arguments.results.is_file() else {}
    measure(arguments, kept)


if __name__ == "__main__":
    main()
