"""What the extension costs where it has nothing to do, in instructions: point selects in a backend under valgrind.

    python benchmarks/karcher/instructions.py [--queries 1280] [--folder DIR] [--results FILE]

A server of each kind (without the extension; loaded, in the modes off, observe and tune) runs under valgrind's cachegrind, which
counts what each process executes in user space. A session with more statements, less the same with fewer, gives the instructions
of one statement. They depend on no other load of the machine. The promise is 0 in `off` and at most 0.5 % in `observe`. Needs
valgrind.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
import stamp
from server import PORT, made

from trimtab.systems.account import Account, server_account

WAYS = {"not loaded": None, "off": "off", "observe": "observe", "tune": "tune"}
PROTOCOLS = ("simple", "prepared")
FOLDER = Path("/var/tmp/trimtab-instructions")
RESULTS = Path(__file__).parent / "instructions.json"
ROWS = 100_000
FEW = 320
"""Statements of the shorter session: the backend has looked up and cached by then what it needs."""
SETTINGS = """
listen_addresses = ''
fsync = off
autovacuum = off
shared_buffers = '64MB'
max_parallel_workers = 0
track_counts = off
"""
_START_S = 120.0
_PAUSE_S = 0.003
"""Between statements, so that the backend always waits for the next one: whether it does would depend on the machine's load."""
_COUNT = re.compile(r"I\s+refs:\s+([\d,]+)")


@contextmanager
def counted(data: Path, programs: Path, library: Path, mode: str | None, account: Account) -> Iterator[Path]:
    """A server under valgrind; inside, the folder in which each process that ends leaves what it has counted."""
    lines = f"{SETTINGS}unix_socket_directories = '{data.parent}'\n"
    if mode is not None:
        lines += f"shared_preload_libraries = '{library}'\ntrimtab.file = ''\ntrimtab.mode = {mode}\n"
        lines += "trimtab.min_duration = '1000s'\n"  # under valgrind a statement takes longer than a short one may
    (data / "postgresql.auto.conf").write_text(lines)
    counts = data.parent / "counts"
    shutil.rmtree(counts, ignore_errors=True)
    counts.mkdir()
    shutil.chown(counts, account.uid, account.gid)
    argv = [
        "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", "--trace-children=yes",
        f"--log-file={counts}/%p", str(programs / "postgres"), "-D", str(data),
    ]  # fmt: skip
    server = subprocess.Popen(argv, user=account.uid, group=account.gid, stderr=subprocess.DEVNULL, cwd="/")
    try:
        until = time.monotonic() + _START_S
        while not is_up(data) and server.poll() is None and time.monotonic() < until:
            time.sleep(0.2)
        yield counts
    finally:
        server.terminate()
        server.wait()


def is_up(data: Path) -> bool:
    """Whether the server lets somebody in."""
    try:
        session(data).close()
    except psycopg.OperationalError:
        return False
    return True


def session(data: Path) -> psycopg.Connection[tuple[object, ...]]:
    """A connection to the server."""
    return psycopg.connect(host=str(data.parent), port=PORT, user="postgres", dbname="postgres", autocommit=True)


def prepare(data: Path) -> None:
    """The table, the same for all that follows: how its statistics came about would be in the counts of planning."""
    with session(data) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS accounts AS SELECT aid, 0 AS abalance, repeat(' ', 84) AS filler"
            f" FROM generate_series(1, {ROWS}) aid".encode()
        )
        connection.execute("CREATE UNIQUE INDEX IF NOT EXISTS accounts_aid ON accounts (aid)")
        connection.execute("VACUUM ANALYZE accounts")


def instructions(data: Path, counts: Path, protocol: str, n: int) -> int:
    """What a backend executes that answers `n` point selects, from its start to its end."""
    keys = random.Random(7)
    with session(data) as connection:
        number = connection.info.backend_pid
        connection.prepare_threshold = 0 if protocol == "prepared" else None
        for _ in range(n):
            key = keys.randint(1, ROWS)
            if protocol == "prepared":
                connection.execute("SELECT abalance FROM accounts WHERE aid = %s", (key,)).fetchall()
            else:
                connection.execute(f"SELECT abalance FROM accounts WHERE aid = {key}".encode()).fetchall()
            time.sleep(_PAUSE_S)
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        found = _COUNT.search((counts / str(number)).read_text())
        if found is not None:
            return int(found[1].replace(",", ""))
        time.sleep(0.05)
    raise SystemExit(f"error: valgrind has not told what process={number} executed")


def measured(folder: Path, n: int) -> dict[str, dict[str, float]]:
    """Instructions of one statement by protocol and way."""
    account = server_account()
    data, programs, library = made(folder, account)
    found: dict[str, dict[str, float]] = {protocol: {} for protocol in PROTOCOLS}
    with counted(data, programs, library, None, account):
        prepare(data)
    for way, mode in WAYS.items():
        with counted(data, programs, library, mode, account) as counts:
            for protocol in PROTOCOLS:
                few, many = (instructions(data, counts, protocol, count) for count in (FEW, FEW + n))
                found[protocol][way] = (many - few) / n
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--queries", type=int, default=1280)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--results", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("error: no valgrind on the PATH\nhint: apt-get install valgrind")
    making = stamp.Making()
    found = measured(arguments.folder, arguments.queries)
    rows = {
        protocol: {way: {"instructions": round(n), "ratio": round(n / by_way["not loaded"], 5)} for way, n in by_way.items()}
        for protocol, by_way in found.items()
    }  # fmt: skip
    document = {"schema_version": 1, "queries": arguments.queries, "instructions": rows}
    print(json.dumps({"made": making.stamp(), **document}, indent=1))
    if arguments.results is not None:
        stamp.write(arguments.results, document, {"instructions": making.stamp()})


if __name__ == "__main__":
    main()
