"""The clients that are compared, each as a function that loads a server once and says how fast and at what cost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers import LOOPBACK, Server

OURS = Path(__file__).parent / "ours.py"
_STARTS = 3
"""Starts whose median is taken off a peer's CPU time."""
_CALIBRATION = 20_000
"""Operations that tell how many go-ycsb does in a second: it ends after a number, not after a time."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds of a process: its own code's, and the kernel's for it."""

    user_s: float
    system_s: float

    @property
    def total_s(self) -> float:
        """Both together."""
        return self.user_s + self.system_s

    def minus(self, other: Cpu) -> Cpu:
        """What is left without `other`."""
        return Cpu(self.user_s - other.user_s, self.system_s - other.system_s)


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: operations per second, and CPU microseconds of the client's process per operation, `user_us` of them its own."""

    rate: float
    cpu_us: float
    user_us: float

    @classmethod
    def of(cls, rate: float, cpu: Cpu, operations: float) -> Sample:
        """A run of so many operations."""
        return cls(rate, cpu.total_s / operations * 1e6, cpu.user_s / operations * 1e6)


Client = Callable[[], Sample]


def finished(command: Sequence[str | Path]) -> tuple[str, Cpu]:
    """What a program says, and what it took from its start to its end.

    Raises:
        RuntimeError: it fails; the message has its last words.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen([str(part) for part in command], stdout=said, stderr=subprocess.STDOUT)
        try:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
        said.seek(0)
        text = said.read()
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {text[-1000:]}")
    return text, Cpu(usage.ru_utime, usage.ru_stime)


def number(pattern: str, text: str) -> float:
    """The first group of `pattern` in `text`."""
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"no {pattern!r} in {text[-1000:]!r}")
    return float(found[1])


def _starting(command: Sequence[str | Path]) -> Cpu:
    """What a peer takes for connecting and one operation per connection."""
    return _median(finished(command)[1] for _ in range(_STARTS))


def _median(found: Iterable[Cpu]) -> Cpu:
    return sorted(found, key=lambda cpu: cpu.total_s)[_STARTS // 2]


def run_ours(
    spec: dict[str, Any], during: Callable[[], None] | None = None, wrapper: Sequence[str] = ()
) -> dict[str, Any]:
    """What one run of the engine in a process of its own measured; `during` is called when it has begun.

    `wrapper` is a command that starts that process.

    Raises:
        RuntimeError: the process fails, or operations failed.
    """
    command = [*wrapper, sys.executable, str(OURS)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("no pipes to the load's process")
        process.stdin.write(json.dumps(spec))
        process.stdin.close()
        if process.stdout.readline() and during is not None:
            during()
        said = process.stdout.read()
        process.wait()
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        raise RuntimeError(f"the load's process ended with {process.returncode}")
    found: dict[str, Any] = json.loads(said)
    if found["error"] or found["timed_out"] or found["errors"]:
        raise RuntimeError(
            f"operations failed: error={found['error']} timed_out={found['timed_out']} {found['errors']}"
        )
    return found


def ours(spec: dict[str, Any]) -> Client:
    """Trimtab's engine."""

    def measure() -> Sample:
        found = run_ours(spec)
        return Sample.of(found["ok"] / found["duration_s"], Cpu(found["user_s"], found["system_s"]), found["ok"])

    return measure


def pgbench(server: Server, database: str, script: Path, connections: int, seconds: int) -> Client:
    """pgbench of the server's own version, prepared statements, one thread, over the Unix socket."""
    load = ("-M", "prepared", "-n", "-c", str(connections), "-j", "1", "-f", script)
    entry = ("-h", server.way, "-p", str(server.port), "-U", server.user, database)
    start = _starting([server.programs / "pgbench", *load, "-t", "1", *entry])

    def measure() -> Sample:
        said, cpu = finished([server.programs / "pgbench", *load, "-T", str(seconds), *entry])
        n_done = number(r"actually processed: (\d+)", said)
        return Sample.of(number(r"tps = ([\d.]+)", said), cpu.minus(start), n_done)

    return measure


def sysbench_entry(server: Server, database: str) -> tuple[str, ...]:
    """How sysbench enters a server, over the Unix socket."""
    if server.dialect == "postgresql":
        way = (f"--pgsql-host={server.way}", f"--pgsql-port={server.port}", f"--pgsql-user={server.user}")
        return ("--db-driver=pgsql", *way, f"--pgsql-db={database}")
    way = (f"--mysql-socket={server.way}", f"--mysql-user={server.user}", f"--mysql-password={server.password}")
    return ("--db-driver=mysql", *way, f"--mysql-db={database}")


def sysbench(server: Server, database: str, rows: int, connections: int, seconds: int) -> Client:
    """sysbench's oltp_point_select: prepared statements, uniform keys, a thread for each connection."""
    load = ("sysbench", "oltp_point_select", f"--table-size={rows}", f"--threads={connections}", "--rand-type=uniform")
    entry = (*sysbench_entry(server, database), "--db-ps-mode=auto")
    start = _starting([*load, *entry, "--time=0", f"--events={connections}", "run"])

    def measure() -> Sample:
        said, cpu = finished([*load, *entry, f"--time={seconds}", "--events=0", "run"])
        n_done = number(r"total number of events: +(\d+)", said)
        elapsed_s = number(r"total time: +([\d.]+)s", said)
        return Sample.of(n_done / elapsed_s, cpu.minus(start), n_done)

    return measure


def go_ycsb(program: Path, server: Server, workload: str, records: int, connections: int, seconds: int) -> Client:
    """go-ycsb on the very rows that ours reads, over TCP: it knows no Unix socket."""
    engine, prefix = ("pg", "pg") if server.dialect == "postgresql" else ("mysql", "mysql")
    update = {"a": 0.5, "c": 0.0}[workload]
    settings = {
        "workload": "core", "recordcount": records, "fieldcount": 10, "fieldlength": 100, "insertorder": "ordered",
        "readallfields": "true", "writeallfields": "false", "requestdistribution": "zipfian", "threadcount": connections,
        "readproportion": 1 - update, "updateproportion": update, "scanproportion": 0, "insertproportion": 0,
        f"{prefix}.host": LOOPBACK, f"{prefix}.port": server.port, f"{prefix}.user": server.user,
        f"{prefix}.password": server.password or "", f"{prefix}.db": "ycsb",
    }  # fmt: skip
    command: list[str | Path] = [program, "run", engine, "--interval", "3600"]
    command += [part for name, value in settings.items() for part in ("-p", f"{name}={value}")]

    def run(operations: int) -> tuple[float, Cpu]:
        said, cpu = finished([*command, "-p", f"operationcount={operations}"])
        if "operation err" in said or "_ERROR" in said:
            raise RuntimeError(f"go-ycsb: operations failed: {said[-1000:]}")
        return number(r"TOTAL +- .*?OPS: ([\d.]+)", said), cpu

    start = _median(run(connections)[1] for _ in range(_STARTS))
    operations = int(run(_CALIBRATION)[0] * seconds)

    def measure() -> Sample:
        rate, cpu = run(operations)
        return Sample.of(rate, cpu.minus(start), operations)

    return measure


def wrk(url: str, connections: int, seconds: int) -> Client:
    """wrk with one thread: it looks at status and length only. Its start is not taken off: it connects within a millisecond."""
    command = ["wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", url]

    def measure() -> Sample:
        said, cpu = finished(command)
        if "Socket errors" in said or "Non-2xx" in said:
            raise RuntimeError(f"wrk: requests failed: {said[-1000:]}")
        n_done = number(r"(\d+) requests in", said)
        return Sample.of(number(r"Requests/sec: +([\d.]+)", said), cpu, n_done)

    return measure


def ab(url: str, connections: int, seconds: int) -> Client:
    """ApacheBench with kept connections; it speaks HTTP/1.0 and parses less than wrk."""
    command = ["ab", "-q", "-k", "-c", str(connections), "-t", str(seconds), "-n", "100000000", url]

    def measure() -> Sample:
        said, cpu = finished(command)
        if number(r"Failed requests: +(\d+)", said):
            raise RuntimeError(f"ab: requests failed: {said[-1000:]}")
        return Sample.of(
            number(r"Requests per second: +([\d.]+)", said), cpu, number(r"Complete requests: +(\d+)", said)
        )

    return measure
