"""Part "mongodb": reads of a 1 kB record by its key over OP_MSG, beside pymongo, on a server of that protocol that is no mongod.

mongo-java-server is an independent implementation that keeps its data in memory; Maven fetches it. It is warmed up first, for
Java compiles what it runs often. The goal is one for our own cost.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clients import Client, Sample, finished, ours, run_ours
from pairs import compare
from plan import Plan

from servers import LOOPBACK, AbsentError

_CONNECTIONS = (1, 16, 64)
_GOAL_US = 12.0
"""CPU of an operation at the most connections, at most."""
_DATABASE = "bench"
_PEERS = Path(__file__).parent / "peers"
_BUILT = Path(__file__).parents[2] / "target" / "peers" / "document-server"
_NAME = "mongo-java-server 1.47.0"
_WARM_S = 30


def _library() -> str:
    """Where Java finds the server.

    Raises:
        AbsentError: Maven is missing, or cannot fetch it.
    """
    pom = _PEERS / "document-server" / "pom.xml"
    fetch = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={_BUILT}"]
    try:
        subprocess.run(fetch, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise AbsentError(f"{_NAME} cannot be fetched: install maven and Java 17") from error
    return f"{_BUILT}/*"


@contextmanager
def _server() -> Iterator[int]:
    """Its port."""
    command = ["java", "-cp", _library(), str(_PEERS / "document-server" / "Serve.java")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(30)


def _driver(port: int) -> dict[str, Any]:
    entry = {"host": LOOPBACK, "port": port, "user": "", "database": _DATABASE, "collection": "usertable"}
    return {"kind": "mongodb", **entry}


def _pymongo(port: int, connections: int, seconds: int, records: int) -> Client:
    def command(for_s: float) -> list[str | Path]:
        return [
            sys.executable,
            _PEERS / "find_by_key.py",
            str(port),
            _DATABASE,
            str(connections),
            str(for_s),
            str(records),
        ]

    start = sorted((finished(command(0))[1] for _ in range(3)), key=lambda cpu: cpu.total_s)[1]

    def measure() -> Sample:
        said, cpu = finished(command(seconds))
        found = json.loads(said)
        return Sample.of(found["ok"] / found["wall_s"], cpu.minus(start), found["ok"])

    return measure


def _rows(port: int, plan: Plan) -> list[dict[str, Any]]:
    shape = {"table": "usertable", "records": plan.rows}
    load = {**shape, "users": 2, "batch": 100}
    run_ours({"driver": _driver(port), "source": {"rows": load}, "users": 2, "duration_s": 600.0})
    rows = []
    reads = {"driver": _driver(port), "source": {"ycsb": {**shape, "read": 1.0, "distribution": "uniform"}}}
    run_ours({**reads, "users": max(_CONNECTIONS), "duration_s": float(_WARM_S if plan.seconds > 1 else 2)})
    for connections in _CONNECTIONS:
        spec = {**reads, "users": connections, "duration_s": float(plan.seconds)}
        peer = _pymongo(port, connections, plan.seconds, plan.rows)
        goal = {"own_us": _GOAL_US} if connections == max(_CONNECTIONS) else {}
        rows.append(
            {"server": _NAME, "load": "read of a 1 kB record", "way": "TCP", "connections": connections,
             "peer": "pymongo", "goal": goal, **compare(ours(spec), peer, plan.pairs)}
        )  # fmt: skip
    return rows


def run(plan: Plan) -> dict[str, Any]:
    """A row for each number of connections."""
    if importlib.util.find_spec("pymongo") is None:
        return {"rows": [], "absent": ["the Python module pymongo is not installed"]}
    try:
        with _server() as port:
            return {"rows": _rows(port, plan), "absent": []}
    except AbsentError as error:
        return {"rows": [], "absent": [str(error)]}
