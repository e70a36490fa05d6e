"""Part "open": 10,000 operations per second whatever the server does, and a server that stands still for a second."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any

import data
from clients import finished, number, run_ours
from pairs import rounded
from plan import Plan

from servers import Server, postgresql

RATE = 10_000
USERS = 64
STALL_S = 1.0
TIMES = ("response", "queue", "service", "lateness", "wakeup")
_NOTHING = "\\set nothing 1\n"
"""A script that asks the server nothing: what is late then is late without any load."""
_STALL_AT_S = 4.0
_STALL_RUN_S = 10.0
_IDLE_RUN_S = 20.0


def _kept(found: dict[str, Any]) -> dict[str, Any]:
    """What the result keeps of a run."""
    kept = {name: found[name] for name in ("offered", "ok", "shed", "memory_bytes", *TIMES)}
    cpu_us = (found["user_s"] + found["system_s"]) / found["ok"] * 1e6
    share = found["lateness"]["p99"] / found["response"]["p99"]
    figures = {"duration_s": found["duration_s"], "client_cpu_us": cpu_us, "lateness_share_of_p99": share}
    return {**kept, **{name: rounded(figure) for name, figure in figures.items()}}


def _steady(spec: dict[str, Any], plan: Plan, wrapper: tuple[str, ...] = ()) -> dict[str, Any]:
    return _kept(run_ours({**spec, "duration_s": float(plan.open_s)}, wrapper=wrapper))


_AS_ORDINARY = ("setpriv", "--bounding-set", "-sys_nice")


def _ordinary(spec: dict[str, Any], plan: Plan) -> dict[str, Any] | None:
    """The steady run once more without the right to real-time priority, where there is that right to be dropped."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        return None
    return _steady(spec, plan, _AS_ORDINARY)


def _idle(spec: dict[str, Any]) -> dict[str, dict[str, int]]:
    """How late a generator is on this machine that keeps the same schedule, as an ordinary user, and asks nothing."""
    wrapper = _AS_ORDINARY if os.getuid() == 0 and shutil.which("setpriv") else ()
    found = run_ours({**spec, "source": {"script": _NOTHING}, "duration_s": _IDLE_RUN_S}, wrapper=wrapper)
    return {what: found[what] for what in ("lateness", "wakeup")}


def _beside(server: Server, script: str, plan: Plan) -> dict[str, Any]:
    """pgbench at the same rate; its latency is counted from the scheduled start as well."""
    load = ("-M", "prepared", "-n", "-c", str(USERS), "-j", "1", "-R", str(RATE), "-T", str(plan.open_s))
    entry = ("-h", server.way, "-p", str(server.port), "-U", server.user, "reads")
    said, cpu = finished([server.programs / "pgbench", *load, "-f", data.script_file(server, script), *entry])
    n_done = number(r"actually processed: (\d+)", said)
    mean_us, lag_us = number(r"latency average = ([\d.]+)", said) * 1e3, number(r"lag: avg ([\d.]+)", said) * 1e3
    cost = {"client_cpu_us": rounded(cpu.total_s / n_done * 1e6), "ok": int(n_done)}
    return {**cost, "response_mean_us": round(mean_us), "lag_mean_us": round(lag_us)}


def _stalled(server: Server, spec: dict[str, Any], seed: int) -> dict[str, Any]:
    def stall() -> None:
        time.sleep(_STALL_AT_S)
        with server.stalled():
            time.sleep(STALL_S)

    return _kept(run_ours({**spec, "duration_s": _STALL_RUN_S, "seed": seed}, stall))


def run(plan: Plan) -> dict[str, Any]:
    """The steady run beside pgbench's, and the runs with a stall."""
    with postgresql() as server:
        script = data.reads(server, plan.rows)
        spec = {"driver": server.driver("reads"), "source": {"script": script}, "users": USERS, "rate": float(RATE)}
        steady, peer, ordinary = _steady(spec, plan), _beside(server, script, plan), _ordinary(spec, plan)
        stalled = [_stalled(server, spec, seed) for seed in range(1, plan.stalls + 1)]
        idle = _idle(spec)
        facts = {"server": server.name, "rate_per_s": RATE, "users": USERS, "stall_s": STALL_S}
    return {**facts, "idle": idle, "steady": steady, "ordinary": ordinary, "pgbench": peer, "stalled": stalled}
