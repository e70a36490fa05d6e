"""Part "select": prepared reads of one row of 1 kB on PostgreSQL, beside pgbench."""

from __future__ import annotations

from typing import Any

import data
from clients import ours, pgbench
from pairs import compare
from plan import Plan

from servers import postgresql

CONNECTIONS = (1, 16, 64)


def run(plan: Plan) -> dict[str, Any]:
    """A row for each number of connections."""
    rows = []
    with postgresql() as server:
        script = data.reads(server, plan.rows)
        for connections in CONNECTIONS:
            spec = {
                "driver": server.driver("reads"), "source": {"script": script}, "users": connections,
                "duration_s": float(plan.seconds),
            }  # fmt: skip
            peer = pgbench(server, "reads", data.script_file(server, script), connections, plan.seconds)
            found = compare(ours(spec), peer, plan.pairs)
            rows.append(
                {"server": server.name, "load": "prepared read of a 1 kB row", "way": "socket",
                 "connections": connections, "peer": "pgbench", "goal": {"cpu_us": 1.05, "rate": 1.0}, **found}
            )  # fmt: skip
    return {"rows": rows, "absent": []}
