"""The load engine beside pgbench, sysbench, go-ycsb, wrk and other clients: CPU per operation, throughput, punctuality, memory.

    python benchmarks/load/run.py [--part PART ...] [--quick] [--go-ycsb PROGRAM] [--results FILE]

Ours and the peer load the same private server turn by turn; medians and ranges go to results.json, and its tables to
docs/measurements/load-speed.md. `--quick` only shows that everything works: it writes a file only where --results says so.
go-ycsb comes from --go-ycsb or the environment variable GO_YCSB. Half an hour on two cores.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import browsers
import cassandra
import document_store
import drivers
import memory
import open_loop
import pages
import point_read
import psutil
import stamp
import storage_engine
import table
import ycsb
from plan import Plan

from trimtab._native import __build__ as engine_build
from trimtab._native import __version__ as engine_version

PARTS: dict[str, Callable[[Plan], dict[str, Any]]] = {
    "select": point_read.run, "drivers": drivers.run, "ycsb": ycsb.run, "open": open_loop.run, "memory": memory.run,
    "pages": pages.run, "browsers": browsers.run, "cassandra": cassandra.run,
    "wiredtiger": storage_engine.run, "mongodb": document_store.run,
}  # fmt: skip
_LOOK_S = 3.0
RESULTS = Path(__file__).parent / "results.json"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _said(*command: str) -> str:
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
    return said.splitlines()[0] if said else ""


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu_model": _cpu_model(), "cores": len(os.sched_getaffinity(0)), "memory_bytes": memory_bytes,
        "kernel": platform.release(), "python": platform.python_version(), "trimtab": engine_version,
        "sysbench": _said("sysbench", "--version").removeprefix("sysbench "),
    }  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, nargs="+", default=list(PARTS), help="only these parts")
    parser.add_argument("--quick", action="store_true", help="a few minutes; the figures mean little")
    parser.add_argument("--go-ycsb", type=Path, default=os.environ.get("GO_YCSB"), help="go-ycsb's program")
    parser.add_argument("--results", type=Path, help="JSON file to write; parts that do not run stay as they are in it")
    options = parser.parse_args()
    if options.go_ycsb is not None and not os.access(options.go_ycsb, os.X_OK):
        parser.error(f"--go-ycsb={options.go_ycsb} is no program")
    return options


def _busy() -> float:
    """Share of the machine's CPU that others take while the benchmark does nothing."""
    return round(psutil.cpu_percent(_LOOK_S) / 100, 2)


def _measured(name: str, plan: Plan) -> dict[str, Any]:
    busy, begun = _busy(), time.monotonic()
    found = PARTS[name](plan)
    at = {"wall_s": round(time.monotonic() - begun), "build": engine_build}
    sizes = {"seconds": plan.seconds, "pairs": plan.pairs, "table_rows": plan.rows}
    return {**at, "busy_before_and_after": [busy, _busy()], **sizes, **found}


def main() -> int:
    """Runs the parts; exit code 0."""
    options = _arguments()
    # SIGTERM must stop the servers as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    target = options.results or (None if options.quick else RESULTS)
    old = stamp.former(target) if target else {}
    document, made = {"machine": machine(), "parts": old.get("parts", {})}, old.get("made", {})
    for name in options.part:
        making = stamp.Making()
        document["parts"][name] = _measured(name, Plan.of(options.quick, options.go_ycsb))
        made[name] = making.stamp()
        print("\n".join(table.part(name, document["parts"][name], made[name])), flush=True)
        if target is not None:
            stamp.write(target, document, made)
    if target == RESULTS:
        table.main()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
