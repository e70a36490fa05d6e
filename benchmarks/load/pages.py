"""Part "pages": a page of 1 kB of a private httpd over kept connections, beside wrk (without it, ab)."""

from __future__ import annotations

import shutil
from typing import Any

from clients import Client, ab, ours, wrk
from pairs import compare
from plan import Plan

from servers import AbsentError, httpd

PAGE = "/page.html"
BYTES = 1024
CONNECTIONS = 64
GOAL = 1.3


def _peer(url: str, seconds: int) -> tuple[str, Client]:
    for name, client in (("wrk", wrk), ("ab", ab)):
        if shutil.which(name):
            return name, client(url, CONNECTIONS, seconds)
    raise AbsentError("neither wrk nor ab is installed: apt-get install wrk")


def run(plan: Plan) -> dict[str, Any]:
    """One row: 64 connections."""
    try:
        with httpd({PAGE: b"x" * (BYTES - 1) + b"\n"}, "MaxKeepAliveRequests 0") as web:
            page = {"label": "page", "path": PAGE, "headers": []}
            spec = {
                "driver": web.driver(), "source": {"kind": "pages", "pages": [page], "follow": True, "cookies": True,
                "fresh": False}, "users": CONNECTIONS, "duration_s": float(plan.seconds),
            }  # fmt: skip
            name, peer = _peer(f"http://127.0.0.1:{web.port}{PAGE}", plan.seconds)
            found = compare(ours(spec), peer, plan.pairs)
            row = {"server": web.name, "load": "page of 1 kB", "way": "TCP", "connections": CONNECTIONS, "peer": name}
            return {"rows": [{**row, "goal": {"cpu_us": GOAL}, **found}], "absent": []}
    except AbsentError as absent:
        return {"rows": [], "absent": [str(absent)]}
