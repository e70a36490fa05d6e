"""Part "ycsb": YCSB C and A beside go-ycsb, and one point select beside sysbench, on PostgreSQL and MariaDB."""

from __future__ import annotations

from typing import Any

import data
from clients import finished, go_ycsb, ours, sysbench, sysbench_entry
from pairs import compare
from plan import Plan

from servers import LOOPBACK, AbsentError, Server, mariadb, postgresql
from trimtab.units import counted

CONNECTIONS = 16
_GO_GOAL = 0.45
_SYSBENCH_GOAL = {"cpu_us": 1.05, "rate": 1.0}
_SHARES: dict[str, dict[str, float]] = {"c": {"read": 1.0}, "a": {"read": 0.5, "update": 0.5}}

Row = dict[str, Any]


def _beside_go_ycsb(server: Server, plan: Plan) -> list[Row]:
    if plan.go_ycsb is None:
        return []
    data.ycsb(server, plan.rows)
    rows = []
    for workload, shares in _SHARES.items():
        source = {"table": "usertable", "records": plan.rows, "hashed": False, **shares}
        peer = go_ycsb(plan.go_ycsb, server, workload, plan.rows, CONNECTIONS, plan.seconds)
        for way, host in (("TCP", LOOPBACK), ("socket; peer TCP", "")):
            spec = {
                "driver": server.driver("ycsb", host), "source": {"ycsb": source}, "users": CONNECTIONS,
                "duration_s": float(plan.seconds),
            }  # fmt: skip
            rows.append(
                {"server": server.name, "load": f"YCSB {workload.upper()}", "way": way, "connections": CONNECTIONS,
                 "peer": "go-ycsb", "goal": {"cpu_us": _GO_GOAL}, **compare(ours(spec), peer, plan.pairs)}
            )  # fmt: skip
    return rows


def _beside_sysbench(server: Server, plan: Plan) -> list[Row]:
    if not plan.has_sysbench:
        return []
    server.sql("CREATE DATABASE sbtest")
    prepare = (
        "sysbench",
        "oltp_point_select",
        f"--table-size={plan.rows}",
        *sysbench_entry(server, "sbtest"),
        "prepare",
    )
    finished(prepare)
    script = f"\\set id random(1, {plan.rows})\nSELECT c FROM sbtest1 WHERE id=:id;\n"
    spec = {
        "driver": server.driver("sbtest"), "source": {"script": script}, "users": CONNECTIONS,
        "duration_s": float(plan.seconds),
    }  # fmt: skip
    peer = sysbench(server, "sbtest", plan.rows, CONNECTIONS, plan.seconds)
    # sysbench has a thread for each connection: beside it once as many of ours, and once the one that ours needs.
    return [
        {"server": server.name, "load": f"point select, {counted(threads, 'thread')}", "way": "socket",
         "connections": CONNECTIONS, "peer": f"sysbench, {CONNECTIONS} threads",
         "goal": goal, **compare(ours({**spec, "threads": threads}), peer, plan.pairs)}
        for threads, goal in ((1, {"cpu_us": _SYSBENCH_GOAL["cpu_us"]}), (CONNECTIONS, _SYSBENCH_GOAL))
    ]  # fmt: skip


def run(plan: Plan) -> dict[str, Any]:
    """A row for each server, load and peer that is there."""
    rows, absent = [], []
    for start in (postgresql, mariadb):
        try:
            with start() as server:
                rows += _beside_go_ycsb(server, plan) + _beside_sysbench(server, plan)
        except AbsentError as error:
            absent.append(str(error))
    if plan.go_ycsb is None:
        absent.append("go-ycsb was not given: --go-ycsb PROGRAM")
    if not plan.has_sysbench:
        absent.append("sysbench is not installed: apt-get install sysbench")
    return {"rows": rows, "absent": absent}
