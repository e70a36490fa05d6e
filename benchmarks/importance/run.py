"""Which knobs matter, measured: planted truth, recorded tables, and real servers.

    python benchmarks/importance/run.py [--part PART ...] [--data FOLDER] [--quick] [--results FILE]

Parts are planted (half an hour), recorded (a quarter), ycsb and tpch (hours: real PostgreSQL). Each replaces its part of
results.json, from which table.py writes the tables of docs/measurements/importance.md. `--quick` only shows that everything
works: it writes a file only where --results says so.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before numpy is loaded: one thread, as on the one core that a ranker is given.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

sys.path.insert(0, str(Path(__file__).parents[1]))

import planted  # noqa: E402
import stamp  # noqa: E402
import table  # noqa: E402

HERE = Path(__file__).parent
DATA = HERE.parents[2] / "shared" / "data" / "replay"
PARTS = ("planted", "recorded", "ycsb", "tpch")
_SERVER_PARTS = {"ycsb": "ycsb", "tpch": "tpch_sard"}
"""Part -> module with `run(quick, say)`: they need real servers and are loaded only when they are asked for."""


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _planted(args: argparse.Namespace) -> dict[str, Any]:
    if args.quick:
        planted.LADDERS, planted.SPACES = {30: (40,)}, {30: 1}
    return planted.part(_say)


def _recorded(args: argparse.Namespace) -> dict[str, Any]:
    if not args.data.is_dir():
        raise SystemExit(
            f"no recorded tables in {args.data}: name their folder with --data (see docs/measurements/search.md)"
        )
    import recorded

    if args.quick:
        recorded.TABLES = recorded.TABLES[1:2]
    return recorded.part(range(1, 2 if args.quick else 6), args.data, _say)


def _made(part: str, args: argparse.Namespace) -> dict[str, Any]:
    made: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {"planted": _planted, "recorded": _recorded}
    if part in made:
        return made[part](args)
    found: dict[str, Any] = importlib.import_module(_SERVER_PARTS[part]).run(quick=args.quick, say=_say)
    return found


def main() -> int:
    """Runs the parts asked for; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="default: all")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the recorded tables")
    parser.add_argument("--quick", action="store_true", help="a small piece of each part")
    parser.add_argument("--results", type=Path, help="file of the results (default: the committed one, unless --quick)")
    args = parser.parse_args()
    path = args.results or (None if args.quick else HERE / "results.json")
    for part in args.part or PARTS:
        making = stamp.Making()
        found = _made(part, args)
        if path is None:
            continue
        # Read again before each write: parts may run at the same time.
        document = stamp.former(path)
        made = {**document.get("made", {}), part: making.stamp()}
        stamp.write(path, {"parts": {**document.get("parts", {}), part: found}}, made, indent=1)
    if path == HERE / "results.json":
        table.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
