"""How long a change takes: apply with a reload, apply with a restart, restore, restart; this checkout beside another one.

    python benchmarks/apply.py --against ../other [--kind postgresql | mariadb] [--rounds N]

Both checkouts need an environment of their own (`.venv`, made by `make dev`). Their rounds alternate, in processes of their own,
each on an embedded server of its own. Shown are medians in seconds, and the median of the ratios of the pairs with the interval
that holds it with 95 % (by order statistics). Run it alone on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

_ROUND = """
import json, sys, time
from pathlib import Path
from trimtab import plugins
from trimtab.space import Config
kind, folder = sys.argv[1], Path(sys.argv[2])
embedded, soon, late = {
    "postgresql": ("18", {"work_mem": 8192}, {"work_mem": 8192, "shared_buffers": 32768}),
    "mariadb": ("mariadb", {"sort_buffer_size": 4194304}, {"sort_buffer_size": 4194304, "innodb_log_buffer_size": 33554432}),
}[kind]
table = {"kind": kind, "embedded": embedded, "memory": "512MiB", "knobs": "all"}
target = plugins.load("targets", kind).from_settings("bench", table, state_dir=folder)
took = {}
def timed(name, act):
    began = time.perf_counter()
    found = act()
    took[name] = time.perf_counter() - began
    return found
target.open()
try:
    found = target.snapshot()
    timed("apply, reload", lambda: target.apply(Config(soon)))
    timed("apply, restart", lambda: target.apply(Config(late)))
    timed("restore", lambda: target.restore(found))
    timed("snapshot", target.snapshot)
    timed("restart", lambda: target._reach.restart())
finally:
    target.close()
print(json.dumps(took))
"""


def round_of(checkout: Path, kind: str, folder: Path) -> dict[str, float]:
    """Seconds by step, of one round."""
    python = checkout / ".venv" / "bin" / "python"
    environment = {**os.environ, "TRIMTAB_CACHE": str(folder / "cache"), "PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(
        [str(python), "-c", _ROUND, kind, str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr.strip()[-2000:]}")
    took: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return took


def median_interval(values: list[float]) -> tuple[float, float]:
    """The order statistics that hold the median with 95 %; the extremes where there are too few."""
    ordered, n = sorted(values), len(values)
    half = 0.98 * n**0.5
    low, high = max(0, round(n / 2 - half)), min(n - 1, round(n / 2 + half))
    return ordered[low], ordered[high]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, required=True, help="the other checkout")
    parser.add_argument("--kind", choices=["postgresql", "mariadb"], default="postgresql")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    sides = {"ours": Path(__file__).parents[1], "other": given.against.resolve()}
    rounds: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory(prefix="apply-") as base:
        folders = {side: Path(base) / side for side in sides}
        for folder in folders.values():
            folder.mkdir()
            folder.chmod(0o755)  # a server's user must get through
        Path(base).chmod(0o755)
        for number in range(given.rounds + 1):
            order = list(sides) if number % 2 else list(reversed(sides))
            for side in order:
                took = round_of(sides[side], given.kind, folders[side])
                if number:  # the first one makes the data
                    rounds[side].append(took)
    print(f"{given.kind}, {given.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    print(f"{'step':<16} {'ours s':>8} {'other s':>8}  ours/other")
    for step in rounds["ours"][0]:
        ours, other = ([took[step] for took in rounds[side]] for side in sides)
        ratios = [a / b for a, b in zip(ours, other, strict=True)]
        low, high = median_interval(ratios)
        print(
            f"{step:<16} {statistics.median(ours):8.3f} {statistics.median(other):8.3f}"
            f"  {statistics.median(ratios):.2f} [{low:.2f}, {high:.2f}]"
        )


if __name__ == "__main__":
    main()
