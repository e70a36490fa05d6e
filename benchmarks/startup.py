"""How long commands take to answer when there is nothing to do: CPU and wall seconds, the fastest of N, beside `python -c pass`.

    python benchmarks/startup.py [--repeat N] [--state DIR --study NAME]

With --state and --study, `report` and `history list` are timed on that history, too.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_CATALOG = Path(__file__).parents[1] / "examples" / "catalogs" / "zstd.toml"


def _fastest(argv: list[str], repeat: int) -> tuple[float, float]:
    """(CPU, wall) seconds: the smallest of each over the runs."""
    cpus, walls = [], []
    for _ in range(repeat):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        walls.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(cpus), min(walls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--study")
    given = parser.parse_args()
    trimtab = str(Path(sys.executable).parent / "trimtab")
    print(
        f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; fastest of {given.repeat}"
    )
    print(f"{'CPU s':>7} {'wall s':>7}  command")
    with tempfile.TemporaryDirectory() as empty:
        commands = [["--help"], ["--version"], ["tune", "--help"], ["recover", "--state", empty]]
        commands += [["catalog", "check", str(_CATALOG)], ["plugins"]]
        if given.state:
            commands.append(["history", "list", "--state", str(given.state)])
        if given.state and given.study:
            commands += [["report", given.study, *more, "--state", str(given.state)] for more in ([], ["--json"])]
        for argv in [[sys.executable, "-c", "pass"], *([trimtab, *command] for command in commands)]:
            cpu, wall = _fastest(argv, given.repeat)
            print(f"{cpu:7.3f} {wall:7.3f}  {' '.join([Path(argv[0]).name, *argv[1:]])}")


if __name__ == "__main__":
    main()
