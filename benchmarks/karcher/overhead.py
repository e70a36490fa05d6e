"""What the extension costs where it has nothing to do: pgbench, select-only, with each mode against `off`, in turns.

    python benchmarks/karcher/overhead.py [--rounds 20] [--seconds 10] [--folder DIR]

Needs a pgbench program (Debian: postgresql-contrib). Statements this short are no class: in `observe` and `tune` a hook looks one
number up and lets them pass. Alone on the machine; the promise is at most 0.5 % in `observe`. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from server import PORT, connection, running

from trimtab.measure import compare_pairs
from trimtab.records import Endpoint

MODES = ("observe", "tune")
FOLDER = Path("/var/tmp/trimtab-karcher")
PROTOCOLS = ("simple", "prepared")


def program() -> str:
    """The newest pgbench here."""
    found = shutil.which("pgbench") or max(map(str, Path("/usr/lib/postgresql").glob("*/bin/pgbench")), default=None)
    if found is None:
        raise SystemExit("error: no pgbench on the PATH\nhint: apt-get install postgresql-contrib")
    return found


def pgbench(endpoint: Endpoint, *words: str) -> str:
    """Its output."""
    argv = [program(), "-h", endpoint.host, "-p", str(PORT), "-U", endpoint.user, *words, "postgres"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def rate(endpoint: Endpoint, mode: str, protocol: str, seconds: int) -> float:
    """Statements a second in a mode."""
    with connection(endpoint, "postgres") as session:
        session.execute(f"ALTER SYSTEM SET trimtab.mode = {mode}".encode())
        session.execute("SELECT pg_reload_conf()")
    text = pgbench(endpoint, "-n", "-S", "-c", "1", "-T", str(seconds), "-M", protocol)
    found = re.search(r"tps = ([0-9.]+) \(without", text) or re.search(r"tps = ([0-9.]+)", text)
    if found is None:
        raise SystemExit(f"error: pgbench printed no rate: {text}")
    return float(found.group(1))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    making, results = stamp.Making(), {}
    with running(arguments.folder) as endpoint:
        pgbench(endpoint, "-i", "-q", "-s", "10")
        for protocol in PROTOCOLS:
            rates: dict[str, list[float]] = {mode: [] for mode in ("off", *MODES)}
            for i in range(arguments.rounds):
                order = ("off", *MODES) if i % 2 == 0 else (*reversed(MODES), "off")
                for mode in order:
                    rates[mode].append(rate(endpoint, mode, protocol, arguments.seconds))
            for mode in MODES:
                found = compare_pairs(rates["off"], rates[mode], True).ratio
                results[f"{protocol} {mode}"] = {"ratio": found.estimate, "interval": [found.low, found.high]}
    print(json.dumps({"made": making.stamp(), "rounds": arguments.rounds, "results": results}, indent=1))


if __name__ == "__main__":
    main()
