"""Table 2 of Karcher and Landhaeusser 2018: each TPC-H query with PostgreSQL's defaults, in sections, and by the extension.

    python benchmarks/karcher/run.py [--scale 1] [--query 3 ...] [--executions 50] [--rounds 10] [--folder DIR] [--quick]

For each query an arm and the defaults run in turns, each in a session of its own, from the first execution on: what probing
costs is in the ratio. Arm "sections" tunes the seed's parameters inside a running query, in sections of 200,000 tuples (two of
its four mean nothing to a query: temp_buffers and maintenance_work_mem); arm "classes" tunes the query's settings from one
execution to the next. Then a stream of all queries, in turns again. Which settings matter to which query, the seed's Table 1:
benchmarks/importance/tpch_sard.py. Results go to results.json after each query, and the same command goes on where it was
stopped; alone on the machine. The figures are derived from TPC-H and are not comparable with published TPC-H results.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
import stamp
from server import connection, running, views

from trimtab.measure import compare_pairs
from trimtab.workload.tpch.prepare import prepare
from trimtab.workload.tpch.queries import validation_query

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
FOLDER = Path("/var/tmp/trimtab-karcher")
PUBLISHED = {
    1: 0.997, 3: 3.905, 5: 1.012, 7: 0.995, 8: 0.968, 9: 0.977, 10: 0.902, 11: 0.908, 13: 0.636, 14: 1.057, 15: 1.012, 17: 1.086,
    18: 1.095, 20: 1.018, 21: 1.004, 22: 0.935,
}  # fmt: skip
"""Query -> the seed's speed-up; the others gave it no useful result."""
QUERIES = tuple(range(1, 23))
ARMS = ("sections", "classes")

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


def pairs(one: Session, other: Session, statements: Sequence[bytes], n: int) -> tuple[list[float], list[float]]:
    """Times of all statements in each session, `n` times, in turns; the answers must be the same."""
    first, second = [], []
    for i in range(n):
        sums = [0.0, 0.0]
        for sql in statements:
            order = (0, 1) if i % 2 == 0 else (1, 0)
            answers: dict[int, list[tuple[object, ...]]] = {}
            for which in order:
                ms, answers[which] = timed((one, other)[which], sql)
                sums[which] += ms
            if sorted(map(repr, answers[0])) != sorted(map(repr, answers[1])):
                raise SystemExit("error: the answers differ")
        first.append(sums[0])
        second.append(sums[1])
    return first, second


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


def found(session: Session) -> dict[str, Any]:
    """What the server has learnt of the classes with most calls."""
    rows = session.execute(
        "SELECT settings, probes, gain, left_alone, plans_compared, same_plan FROM trimtab_sections "
        "ORDER BY total_ms DESC LIMIT 1"
    ).fetchall()
    names = ("settings", "probes", "gain", "left_alone", "plans_compared", "same_plan")
    return dict(zip(names, rows[0], strict=True)) if rows else {}


class Run:
    """One scale, in one server."""

    def __init__(self, connect: Callable[[], Session], results: dict[str, Any], say: Callable[[str], None]) -> None:
        self._connect, self.results, self._say = connect, results, say

    def query(self, query: int, n: int) -> None:
        """Both arms of a query, where they are not there yet."""
        sql = validation_query(query).encode()
        row = self.results.setdefault(f"q{query}", {})
        for arm in (arm for arm in ARMS if arm not in row):
            with self._connect() as admin, self._connect() as plain, self._connect() as ours:
                admin.execute("SELECT trimtab_reset()")
                for session in (plain, ours):  # both fill the caches, the server's and their own
                    session.execute(arm_settings("default").encode())
                    timed(session, sql)
                ours.execute(arm_settings(arm).encode())
                making = stamp.Making()
                row[arm] = summary(*pairs(plain, ours, [sql], n)) | found(admin) | {"made": making.stamp()}
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
            times = pairs(plain, ours, [validation_query(query).encode() for query in queries], n)
            self.results["stream"] = summary(*times) | {"made": making.stamp()}
        self._say(f"stream of {len(queries)} queries: {self.results['stream']['ratio']:.3f}")


def table(scale: str, results: dict[str, Any]) -> str:
    """As Markdown."""
    lines = [
        f"Scale {scale}",
        "",
        "| query | published | sections | classes | interval | at its end | pays from | settings |",
    ]
    lines.append("| --- " * 8 + "|")
    for name, row in results.items():
        if name == "stream" or "classes" not in row:
            continue
        ours, sections = row["classes"], row["sections"]
        cells = [
            name,
            str(PUBLISHED.get(int(name[1:]), "")),
            f"{sections['ratio']:.3f}",
            f"{ours['ratio']:.3f}",
            "{:.3f} to {:.3f}".format(*ours["interval"]),
            f"{ours['settled_ratio']:.3f}",
            str(ours["amortised_at"] or "-"),
            ours.get("settings") or ours.get("left_alone", ""),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if "stream" in results:
        lines.append(f"\nA stream of all: {results['stream']['ratio']:.3f} times as fast, probing included.")
    return "\n".join(lines)


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
    with running(arguments.folder) as endpoint:
        database = f"tpch_{arguments.scale:g}".replace(".", "_")
        prepare(endpoint, database=database, scale=arguments.scale, schema="standard", report=say)
        with connection(endpoint, database) as session:
            views(session, arguments.folder)
        run = Run(lambda: connection(endpoint, database), results.setdefault(f"{arguments.scale:g}", {}), say)
        for query in queries:
            run.query(query, arguments.executions)
            keep(arguments.results, results)
        run.stream(queries, arguments.rounds)
        keep(arguments.results, results)
    print(table(f"{arguments.scale:g}", run.results))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--query", type=int, nargs="*", choices=QUERIES)
    parser.add_argument("--executions", type=int, default=50)
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
