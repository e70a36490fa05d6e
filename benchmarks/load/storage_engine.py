"""Part "wiredtiger": YCSB C and A on the storage engine beside a loop in C that makes the same calls on the same open table.

Both run in one process with the engine, so the CPU of an operation is mostly the engine's own. The loop in C measures nothing
but the time of the whole; ours measures each operation, checks what it reads, and counts it into histograms.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clients import Client, Cpu, Sample
from pairs import compare
from plan import Plan

from servers import AbsentError

_USERS = (1, 2)
_GOAL = {"rate": 0.9}
_HERE = Path(__file__).parent
_BUILT = Path(__file__).parents[2] / "target" / "peers"


def _loop() -> Path:
    """The loop in C, built.

    Raises:
        AbsentError: there is no compiler.
    """
    _BUILT.mkdir(parents=True, exist_ok=True)
    library = _BUILT / "engine_loop.so"
    build = ["cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", str(library), str(_HERE / "peers" / "engine_loop.c")]
    try:
        subprocess.run(build, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise AbsentError("the loop in C cannot be built: install a C compiler") from error
    return library


@contextmanager
def _engine(records: int) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """What the engine calls itself, and its process."""
    if importlib.util.find_spec("wiredtiger") is None:
        raise AbsentError("the Python module wiredtiger is not installed")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(_HERE / "engine_child.py"), str(_loop()), folder, str(records)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield _line(process), process
            finally:
                if process.stdin is not None:
                    process.stdin.close()
                process.wait(60)


def _line(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        raise RuntimeError("the engine's process has ended")
    return line.strip()


def _client(process: subprocess.Popen[str], side: str, users: int, update: float, seconds: int) -> Client:
    run = {"side": side, "users": users, "update": update, "seconds": float(seconds)}

    def measure() -> Sample:
        if process.stdin is None:
            raise RuntimeError("no pipe to the engine's process")
        process.stdin.write(json.dumps(run) + "\n")
        process.stdin.flush()
        found = json.loads(_line(process))
        return Sample.of(found["ok"] / found["wall_s"], Cpu(found["user_s"], found["system_s"]), found["ok"])

    return measure


def run(plan: Plan) -> dict[str, Any]:
    """A row for each load and number of users, each with a thread."""
    rows = []
    try:
        with _engine(plan.rows) as (version, process):
            name = " ".join(version.split()[:2]).rstrip(":")
            for load, update in (("YCSB C, uniform", 0.0), ("YCSB A, uniform", 0.5)):
                for users in _USERS:
                    both = [_client(process, side, users, update, plan.seconds) for side in ("ours", "c")]
                    rows.append(
                        {"server": name, "load": load, "way": "in its process", "connections": users, "peer": "loop in C",
                         "goal": _GOAL, **compare(both[0], both[1], plan.pairs)}
                    )  # fmt: skip
    except AbsentError as error:
        return {"rows": [], "absent": [str(error)]}
    return {"rows": rows, "absent": []}
