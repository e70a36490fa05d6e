"""What a tuning section costs a program: nanoseconds of CPU time of each tt_begin and tt_end (clients/c/sections/bench.c).

    python benchmarks/sections/run.py [--runs N] [--repeat N] [--quick]

The library is compiled as its Makefile does. Of several repetitions the median is kept, with the fastest and the slowest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import stamp  # noqa: E402

LIBRARY = HERE.parents[1] / "clients" / "c" / "sections"
FIGURES = {
    "clock_ns": "a read of the clock, CPU time",
    "call_ns": "`tt_begin` or `tt_end`, one thread",
    "call_ns_2_threads": "the same, two threads that share the section and do nothing else, each",
}


def table(document: Mapping[str, Any]) -> str:
    """The figures as a page shows them."""
    rows = []
    for name, what in FIGURES.items():
        middle, low, high = document["figures"][name]
        rows.append(f"| {what} | {middle:.0f} ns | {low:.0f} to {high:.0f} ns |")
    return "\n".join(["| what | median | fastest and slowest |", "| --- | --- | --- |", *rows])


def compiled(folder: Path) -> Path:
    """The benchmark as a program."""
    sources = [str(path) for path in [LIBRARY / "bench.c", *sorted(LIBRARY.glob("trimtab_*.c"))]]
    argv = ["cc", "-O2", "-g", "-std=c99", "-fPIC", f"-I{LIBRARY}", *sources, "-lm", "-lpthread", "-o", "bench"]
    subprocess.run(argv, cwd=folder, check=True)
    return folder / "bench"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000, help="runs of the section in each repetition")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="a few seconds, nothing is written")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    given = parser.parse_args()
    n_runs, repeat = (50_000, 3) if given.quick else (given.runs, given.repeat)
    making = stamp.Making()
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder))
        rows = [json.loads(subprocess.check_output([program, str(n_runs)])) for _ in range(repeat)]
    found = {
        name: [round(figure(row[name] for row in rows), 1) for figure in (statistics.median, min, max)]
        for name in FIGURES
    }
    document = {"runs": n_runs, "repeat": repeat, "figures": found}
    made = {"calls": making.stamp()}
    print(f"{table(document)}\n\n{stamp.lines(made)}")
    if not given.quick:
        stamp.write(given.results, document, made)


if __name__ == "__main__":
    main()
