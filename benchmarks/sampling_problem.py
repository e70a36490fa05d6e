"""How much steadier throughput is when queries are credited by share instead of counted at their commit.

Zhou (2013, section 5.4.1) calls it the sampling problem: the same config under the same load shows another throughput
in every window, because a query counts wholly for the window in which it commits. This program cuts one long run into
windows and compares how far their throughputs scatter, counted and credited. Part of the scatter is real (queries do
take longer at times), so even a perfect estimate has some.

    python benchmarks/sampling_problem.py                          simulated: 4Q6 + 4Q9 + 4Q13, one hour
    python benchmarks/sampling_problem.py --dsn "host=… dbname=…"  measured: three sizes of aggregate on that server
    python benchmarks/sampling_problem.py --dsn "…" --sleep        measured: the simulated durations as pg_sleep
    python benchmarks/sampling_problem.py --json

The measured load only reads generate_series; it needs no tables and changes nothing. On a machine that does other work
as well, real scatter hides the difference; `edge_sd` shows what counting alone adds, --sleep leaves the machine out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError, UsageError
from trimtab.measure import Outcome, QueryLog, credited_series
from trimtab.records import Endpoint

SCHEMA_VERSION = 1
WINDOWS_S = (5, 10, 30, 60)
MIN_WINDOWS = 4
"""Fewer windows do not tell a scatter."""

N_RESAMPLES = 1000
WARMUP_S = 5
TIMEOUT_S = 600.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """Throughput per window, counted and credited.

    Attributes:
        window_s: length of a window.
        n_windows: how many the run had.
        mean_per_s: mean credited throughput.
        counted_sd, credited_sd: standard deviation over the windows, relative to the mean.
        edge_sd: standard deviation of counted minus credited, relative to the mean: the error made at the edges.
        ratio: counted_sd / credited_sd; more than 1: crediting is steadier.
        ratio_low, ratio_high: 95 % interval of the ratio (bootstrap over windows).
    """

    window_s: int
    n_windows: int
    mean_per_s: float
    counted_sd: float
    credited_sd: float
    edge_sd: float
    ratio: float
    ratio_low: float
    ratio_high: float


def counted_series(log: QueryLog, window_s: float, until_s: float) -> Floats:
    """Commits per second in each whole window, as `xact_commit` would show them."""
    n_windows = int(until_s / window_s)
    if n_windows == 0:
        return np.zeros(0)
    ends = log.end_s[log.outcome == Outcome.OK]
    counts, _ = np.histogram(ends, bins=np.arange(n_windows + 1) * window_s)
    # numpy closes the last bin on both sides; a commit on that edge belongs to the next window.
    counts[-1] -= np.count_nonzero(ends == n_windows * window_s)
    return np.asarray(counts / window_s, dtype=np.float64)


def scatter(log: QueryLog, window_s: int, rng: np.random.Generator) -> Scatter | None:
    """The scatter over windows of `window_s` after warm-up; None when the run is too short for them."""
    skip = -(-WARMUP_S // window_s)
    credited = credited_series(log, window_s)[skip:]
    counted = counted_series(log, window_s, log.duration_s)[skip:]
    n = min(len(credited), len(counted))
    if n < MIN_WINDOWS:
        return None
    both = np.stack([counted[:n], credited[:n]])
    resampled = both[:, rng.integers(0, n, (N_RESAMPLES, n))].std(axis=2, ddof=1)
    # A resample of one window alone has no scatter and no ratio.
    ratios = resampled[0][resampled[1] > 0] / resampled[1][resampled[1] > 0]
    sd = both.std(axis=1, ddof=1)
    mean = float(both[1].mean())
    low, high = np.percentile(ratios, [2.5, 97.5])
    return Scatter(
        window_s=window_s,
        n_windows=n,
        mean_per_s=mean,
        counted_sd=float(sd[0]) / mean,
        credited_sd=float(sd[1]) / mean,
        edge_sd=float((both[0] - both[1]).std(ddof=1)) / mean,
        ratio=float(sd[0] / sd[1]),
        ratio_low=float(low),
        ratio_high=float(high),
    )


def simulate(means_s: Sequence[float], *, streams: int, cv: float, duration_s: float, seed: int) -> QueryLog:
    """Closed-loop streams that each repeat one query; durations are log-normal around the query's mean."""
    rng = np.random.default_rng(seed)
    sigma = np.sqrt(np.log1p(cv**2))
    columns: list[tuple[Floats, Floats, int]] = []
    for label, mean in enumerate(means_s):
        for _ in range(streams):
            n = int(duration_s / mean * (1 + cv)) + 100
            ends = np.cumsum(rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, n))
            starts = np.concatenate([[0.0], ends[:-1]])
            columns.append((starts[starts < duration_s], ends[starts < duration_s], label))
    start, end = (np.concatenate([c[i] for c in columns]) for i in (0, 1))
    labels = np.concatenate([np.full(len(c[0]), c[2]) for c in columns])
    stream = np.concatenate([np.full(len(c[0]), i) for i, c in enumerate(columns)])
    outcome = np.where(end <= duration_s, Outcome.OK, Outcome.CANCELLED)
    end = np.minimum(end, duration_s)
    order = np.argsort(end, kind="stable")
    return QueryLog(
        labels=tuple(f"{mean:g} s" for mean in means_s),
        stream=stream[order].astype(np.int32),
        label=labels[order].astype(np.int32),
        start_s=start[order],
        end_s=end[order],
        rows=np.zeros(len(order), dtype=np.int64),
        outcome=outcome[order].astype(np.uint8),
        duration_s=duration_s,
    )


def aggregates(n_rows: Sequence[int]) -> dict[str, str]:
    """Queries that hash and sort so many generated rows, by label."""
    sql = "SELECT count(DISTINCT md5(i::text)) FROM generate_series(1, {}) AS s(i)"
    return {f"{n} rows": sql.format(n) for n in n_rows}


def sleeps(means_s: Sequence[float], cv: float) -> dict[str, str]:
    """Queries that only wait, evenly distributed around their means."""
    width = cv * 12**0.5
    return {f"{mean:g} s": f"SELECT pg_sleep({mean} * (1 + {width} * (random() - 0.5)))" for mean in means_s}


def measure(dsn: str, queries: Mapping[str, str], *, streams: int, duration_s: float) -> QueryLog:
    """A run of real queries: `streams` connections for each."""
    from trimtab._native import Operation, Stream
    from trimtab.workload.sql_run import start_sql_load

    operations = [Operation(label, [sql]) for label, sql in queries.items()]
    run = start_sql_load(
        endpoint_of(dsn),
        [Stream([operation]) for operation in operations for _ in range(streams)],
        duration_s=duration_s,
        operation_timeout_s=TIMEOUT_S,
    )
    while not run.is_done:
        frame = run.frame(timeout_s=10.0)
        if frame is not None:
            print(f"\r{frame.second + 1:4d} s of {duration_s:g} s", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return run.stop()


def endpoint_of(dsn: str) -> Endpoint:
    """The endpoint that a libpq connection string names; passwords come from .pgpass."""
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(dsn)
    return Endpoint(
        protocol="postgresql",
        host=str(parts.get("host") or "localhost"),
        port=int(parts.get("port") or 5432),
        user=str(parts.get("user") or "postgres"),
        database=str(parts.get("dbname") or "postgres"),
    )


def table(rows: Sequence[Scatter]) -> str:
    """The rows as text."""
    lines = ["window  windows  throughput  counted sd  credited sd  edge sd  counted / credited (95 %)"]
    lines += [
        f"{r.window_s:4d} s  {r.n_windows:7d}  {r.mean_per_s:8.2f}/s  {r.counted_sd:9.1%}  {r.credited_sd:10.1%}"
        f"  {r.edge_sd:7.1%}  {r.ratio:6.2f}  ({r.ratio_low:.2f} to {r.ratio_high:.2f})"
        for r in rows
    ]
    return "\n".join(lines)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="credited against counted throughput (the sampling problem)")
    parser.add_argument("--dsn", help="measure on this PostgreSQL server (libpq connection string)")
    parser.add_argument("--streams", type=int, default=4, help="streams per query (4)")
    parser.add_argument("--duration", type=float, help="seconds of the run (3600 simulated, 300 measured)")
    parser.add_argument(
        "--means", type=float, nargs="+", default=[1.5, 6.0, 3.0], help="mean seconds of each query, simulated or slept"
    )
    parser.add_argument("--cv", type=float, default=0.1, help="scatter of these durations, sd over mean (0.1)")
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[400_000, 1_600_000, 800_000], help="measured: rows of each query"
    )
    parser.add_argument("--sleep", action="store_true", help="measured: sleep for --means instead of working")
    parser.add_argument("--seed", type=int, default=1, help="of the simulation (1)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    options = parse(argv)
    duration_s = options.duration or (300.0 if options.dsn else 3600.0)
    try:
        if options.dsn:
            queries = sleeps(options.means, options.cv) if options.sleep else aggregates(options.rows)
            log = measure(options.dsn, queries, streams=options.streams, duration_s=duration_s)
        else:
            log = simulate(
                options.means, streams=options.streams, cv=options.cv, duration_s=duration_s, seed=options.seed
            )
        rng = np.random.default_rng(options.seed)
        rows = [row for window in WINDOWS_S if (row := scatter(log, window, rng)) is not None]
        if not rows:
            raise UsageError(f"duration={duration_s:g} is too short for {MIN_WINDOWS} windows", hint="use 60 or more")
    except TrimtabError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    how = "measured" if options.dsn else "simulated"
    if options.json:
        print(
            json.dumps(
                {"schema_version": SCHEMA_VERSION, "how": how, "windows": [asdict(row) for row in rows]}, indent=2
            )
        )
    else:
        print(f"{how}: {options.streams} streams of each of {len(log.labels)} queries, {log.duration_s:.0f} s")
        print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
