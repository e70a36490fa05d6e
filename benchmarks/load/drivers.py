"""Part "drivers": the engine's own drivers beside tokio-postgres and mysql_async behind the same trait, in the same engine.

Decides whether the wire protocols of the measured path are worth writing by hand: they are if they take at most 0.85 of the
peer's CPU time. Builds the program in `peers/` with cargo, which takes a few minutes the first time.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import data
from clients import Client, Sample, finished
from pairs import compare
from plan import Plan

from servers import AbsentError, Server, mariadb, postgresql

CONNECTIONS = (1, 16, 64)
_FOLDER = Path(__file__).parent / "peers"
_BUILT = Path(__file__).parents[2] / "target" / "peers"
_CASES: tuple[tuple[Callable[[], AbstractContextManager[Server]], str, str], ...] = (
    (postgresql, "own-postgresql", "tokio-postgres"),
    (mariadb, "own-mysql", "mysql_async"),
)


@cache
def program() -> Path:
    """The clients, built.

    Raises:
        AbsentError: they cannot be built here.
    """
    build = ["cargo", "build", "--release", "--quiet", "--locked", "--target-dir", str(_BUILT)]
    try:
        subprocess.run(build, cwd=_FOLDER, check=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise AbsentError("cargo is not on the PATH: install a Rust toolchain") from error
    except subprocess.CalledProcessError as error:
        raise AbsentError(f"the peers of the drivers cannot be built (exit code {error.returncode})") from error
    return _BUILT / "release" / "trimtab-bench-drivers"


def client(name: str, entry: tuple[str, ...], rows: int, connections: int, seconds: int) -> Client:
    """A driver; `entry` is host, port, user, password and database."""
    command: list[str | Path] = [program(), name, *entry, str(connections), str(seconds), str(rows)]

    def measure() -> Sample:
        said, cpu = finished(command)
        found = json.loads(said)
        return Sample.of(found["ok"] / found["wall_s"], cpu, found["ok"])

    return measure


def run(plan: Plan) -> dict[str, Any]:
    """A row for each server and number of connections."""
    rows: list[dict[str, Any]] = []
    absent: list[str] = []
    for start, own, peer in _CASES:
        try:
            program()
            with start() as server:
                data.wide(server, plan.rows)
                entry = (server.way, str(server.port), server.user, server.password or "-", data.WIDE)
                for connections in CONNECTIONS:
                    both = [client(name, entry, plan.rows, connections, plan.seconds) for name in (own, peer)]
                    rows.append(
                        {"server": server.name, "load": "prepared read of a 1 kB row", "way": "socket",
                         "connections": connections, "peer": peer, "goal": {"cpu_us": 0.85},
                         **compare(both[0], both[1], plan.pairs)}
                    )  # fmt: skip
        except AbsentError as error:
            absent.append(str(error))
    return {"rows": rows, "absent": absent}
