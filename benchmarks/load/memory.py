"""Part "memory": what the engine's buffers hold, and by how much its process grows, by number of connections."""

from __future__ import annotations

from typing import Any

import data
from clients import run_ours
from pairs import spread
from plan import Plan

from servers import postgresql

CONNECTIONS = (1, 64, 1000)
_RUNS = 3


def run(plan: Plan) -> dict[str, Any]:
    """A row for each number of connections."""
    rows = []
    with postgresql(max_connections=1100) as server:
        script = data.reads(server, plan.rows)
        for connections in CONNECTIONS:
            spec = {
                "driver": server.driver("reads"), "source": {"script": script}, "users": connections,
                "duration_s": float(2 * plan.seconds),
            }  # fmt: skip
            found = [run_ours(spec) for _ in range(_RUNS)]
            rows.append(
                {"connections": connections, "ok": spread(each["ok"] for each in found),
                 "memory_bytes": spread(each["memory_bytes"] for each in found),
                 "rss_growth_bytes": spread(each["rss_growth_bytes"] for each in found)}
            )  # fmt: skip
    return {"server": server.name, "seconds": 2 * plan.seconds, "rows": rows}
