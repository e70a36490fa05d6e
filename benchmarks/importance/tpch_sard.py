"""SARD's ranking of TPC-H queries on a real PostgreSQL, beside the published one.

    python benchmarks/importance/tpch_sard.py [--quick] [--folder DIR] [--scale 0.1] [--window 2s] [--query q1 ...]

Each query alone under a Plackett-Burman design with fold-over of the ten knobs (24 runs). Everything is kept in the folder's
history, so the same command goes on where it was stopped. About 15 minutes on two cores. The figures are derived from TPC-H
and are not comparable with published TPC-H results.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import kendalltau
from studies import designed, machine_of, ranks, study

FOLDER = Path(".trimtab") / "importance-sard"
QUERIES = ("q1", "q8", "q9", "q13", "q16")
SCALE, WINDOW = 0.1, "2s"

PUBLISHED: dict[str, tuple[int, ...]] = {
    "cpu_tuple_cost": (15, 6, 15, 15, 15),
    "effective_cache_size": (15, 15, 11, 1, 15),
    "geqo": (15, 6, 7, 15, 15),
    "maintenance_work_mem": (15, 2, 3, 15, 15),
    "deadlock_timeout": (15, 6, 15, 15, 15),
    "max_connections": (15, 6, 5, 15, 15),
    "random_page_cost": (15, 12, 1, 15, 15),
    "shared_buffers": (15, 12, 3, 2, 2),
    "temp_buffers": (15, 12, 7, 15, 15),
    "work_mem": (1, 1, 13, 3, 1),
}
"""Knob -> its rank for each of `QUERIES` (Zhou 2013, table 5.1, after SARD); 15 stands for no effect."""


def run(
    *, quick: bool, say: Callable[[str], None], folder: Path = FOLDER, scale: float = SCALE, window: str = WINDOW,
    queries: Sequence[str] = QUERIES,
) -> dict[str, Any]:  # fmt: skip
    """All queries; JSON values. `quick` makes one of them small."""
    if quick:
        return run(quick=False, say=say, folder=folder / "quick", scale=0.01, window="1s", queries=QUERIES[:1])
    rows = [_query(query, say, folder, scale, {"window": window, "window_max": window}) for query in queries]
    machine = machine_of(folder, f"importance-sard-{queries[0]}.rank-sard")
    return {"machine": machine, "scale": scale, "window": window, "rows": rows}


def _query(
    query: str, say: Callable[[str], None], folder: Path, scale: float, measure: dict[str, Any]
) -> dict[str, Any]:
    say(f"{query} alone: a Plackett-Burman design of {len(PUBLISHED)} knobs with fold-over")
    asked = {"mix": {query: 1}, "scale": scale}
    file = study("tpch-sard", study={"name": f"importance-sard-{query}"}, workload=asked, measure=measure)
    consensus = designed(file, folder, "sard", None, ("sard",))
    ranking = consensus.rankings[0]
    published = {knob: places[QUERIES.index(query)] for knob, places in PUBLISHED.items()}
    ours = {entry.knob: entry.rank for entry in consensus.knobs}
    tau = kendalltau([published[knob] for knob in PUBLISHED], [ours[knob] for knob in PUBLISHED])
    return {
        "query": query,
        "ranks": ranks(consensus),
        "effects": dict(ranking.effects),
        "notes": list(ranking.notes),
        "published": published,
        "tau": float(tau.statistic) if tau.statistic == tau.statistic else None,
        "tau_p": float(tau.pvalue) if tau.pvalue == tau.pvalue else None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one query, small, to see that it works")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="journal and history")
    parser.add_argument("--scale", type=float, default=SCALE, help="scale factor of the data")
    parser.add_argument("--window", default=WINDOW, help="measuring window of a run")
    parser.add_argument("--query", dest="queries", action="append", choices=QUERIES, help="repeatable; default: all")
    options = vars(parser.parse_args())
    options["queries"] = options["queries"] or QUERIES
    found = run(say=lambda text: print(text, file=sys.stderr, flush=True), **options)
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
