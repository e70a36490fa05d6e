"""Which settings of execution matter to which query: SARD's ranks, from which Table 1 of Karcher and Landhaeusser 2018 is taken.

    python benchmarks/karcher/sard.py [--scale 1] [--query 3 ...] [--repeats 3] [--folder DIR] [--quick]

Eleven settings that act while a statement runs, the seed's four among them, at two levels each in a Plackett-Burman design with
fold-over: 24 configs. Each is set in a session of its own that executes every query `--repeats` times; its time is their median.
The ranks are those of `trimtab rank --design sard`, by query, on the logarithm of the time. Results go to sard.json; 20 minutes,
alone on the machine. The figures are derived from TPC-H and are not comparable with published TPC-H results.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from run import timed
from server import connection, running
from table import ranks_table

from trimtab.importance import RankProblem, sard_design
from trimtab.importance.sard import SardRanker
from trimtab.records import Context, Endpoint, Role, Status, Trial
from trimtab.space import Config, Knob, KnobKind, Space
from trimtab.workload.tpch.prepare import prepare
from trimtab.workload.tpch.queries import validation_query

HERE = Path(__file__).parent
RESULTS = HERE / "sard.json"
FOLDER = Path("/var/tmp/trimtab-karcher")
QUERIES = tuple(range(1, 23))
SEED = ("work_mem", "effective_io_concurrency", "temp_buffers", "maintenance_work_mem")
"""The seed's top four, with its ranges but for effective_io_concurrency: it ends at 4 there."""
LEVELS = {
    "work_mem": (1_024, 131_072), "effective_io_concurrency": (1, 256), "temp_buffers": (1_024, 131_072),
    "maintenance_work_mem": (4_096, 524_288), "hash_mem_multiplier": (1, 8), "maintenance_io_concurrency": (1, 256),
    "io_combine_limit": (1, 32), "backend_flush_after": (0, 256), "commit_delay": (0, 1_000), "synchronize_seqscans": (0, 1),
    "logical_decoding_work_mem": (64, 524_288),
}  # fmt: skip
"""In PostgreSQL's own units (kB, or pages of 8 kB for temp_buffers, io_combine_limit and backend_flush_after)."""


def space() -> Space:
    """All settings, none of which needs a restart."""
    return Space(
        [
            Knob(name=name, kind=KnobKind.INTEGER, low=low, high=high, default=low)
            for name, (low, high) in LEVELS.items()
        ]
    )


def times_of(
    endpoint: Endpoint, database: str, config: Config, queries: Sequence[int], repeats: int
) -> dict[int, list[float]]:
    """Milliseconds of each query's executions under these settings, in a session of its own."""
    with connection(endpoint, database) as session:
        for name, value in config.items():
            session.execute(f"SET {name} = {value}".encode())
        return {
            query: [timed(session, validation_query(query).encode())[0] for _ in range(repeats)] for query in queries
        }


def ranked(found: Space, configs: Sequence[Config], runs: Sequence[Sequence[float]]) -> dict[str, dict[str, float]]:
    """Rank, its 90 % interval and effect (from low to high, in percent of the time) of each setting for one query."""
    losses = [math.log(statistics.median(times)) for times in runs]
    spread = statistics.fmean(statistics.pvariance([math.log(ms) for ms in times]) for times in runs)
    error = max(math.sqrt(spread / len(runs[0])), 1e-6)
    trials = [
        Trial(
            number=i,
            role=Role.DESIGN,
            config=config,
            context=Context("tpch", 1),
            status=Status.OK,
            loss=loss,
            loss_se=error,
        )
        for i, (config, loss) in enumerate(zip(configs, losses, strict=True))
    ]
    ranking = SardRanker().rank(RankProblem(space=found, baseline=found.default(), trials=trials))
    return {
        entry.knob: {
            "rank": entry.rank, "low": entry.rank_low, "high": entry.rank_high,
            "effect_percent": 100 * math.expm1(ranking.effects[entry.knob]),
        }
        for entry in ranking.knobs
    }  # fmt: skip


def measure(endpoint: Endpoint, scale: float, queries: Sequence[int], repeats: int) -> dict[str, Any]:
    """All configs with all queries; JSON values."""
    database = f"tpch_{scale:g}".replace(".", "_")
    prepare(
        endpoint, database=database, scale=scale, schema="standard", report=lambda text: print(text, file=sys.stderr)
    )
    found = space()
    design = sard_design(found, found.default())
    times_of(endpoint, database, found.default(), queries, 1)  # fills the caches
    runs = []
    for number, config in enumerate(design.configs, 1):
        runs.append(times_of(endpoint, database, config, queries, repeats))
        print(f"config {number} of {len(design.configs)}", file=sys.stderr, flush=True)
    rows: Mapping[str, Any] = {
        f"q{query}": ranked(found, design.configs, [run[query] for run in runs]) for query in queries
    }
    return {"scale": scale, "repeats": repeats, "n_configs": len(design.configs), "seed": list(SEED), "queries": rows}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--query", type=int, nargs="*", choices=QUERIES)
    parser.add_argument("--repeats", type=int, default=3, help="executions of a query with each config")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the server and its data, kept between runs")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--quick", action="store_true", help="scale 0.01, three queries, nothing kept")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.scale, arguments.repeats, arguments.query = 0.01, 2, arguments.query or [3, 6, 13]
    making = stamp.Making()
    with running(arguments.folder, is_preloaded=False) as endpoint:
        results = measure(endpoint, arguments.scale, arguments.query or QUERIES, arguments.repeats)
        made = making.stamp()  # while the server runs: what one has used that is gone would count as others'
    if not arguments.quick:
        stamp.write(arguments.results, results, {"ranks": made}, indent=1)
    print(ranks_table(results))


if __name__ == "__main__":
    main()
