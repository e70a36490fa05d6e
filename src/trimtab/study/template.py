"""Template: the explained study file that `trimtab init` writes for a server that was found."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote

from trimtab import plugins
from trimtab.errors import UsageError
from trimtab.study.tables import BENCH, RATE
from trimtab.systems import FoundServer

__all__ = ["WORKLOADS", "study_text"]

_HEAD = """\
# A Trimtab study. Check it with `trimtab doctor {name}`, run it with `trimtab tune {name}`.
# Every key: docs/reference/study-file.md in Trimtab's repository

[study]
name = "{study}"
objective = "throughput"        # or latency_mean, latency_p95, latency_p99, or "p99 where throughput >= 2000/s"
budget = "{budget}"                  # time ("1h30m") or "40 trials"
seed = 1

[target.db]
kind = "{kind}"
"""

_TAIL = """\
knobs = "performance"           # a set (the page of each target lists them), or names
# unlock = ["durability"]       # unlocks a class of dangerous knobs; the report lists it

{workload}
[search]
searcher = "auto"

[measure]
window = "{window}"
window_max = "{window_max}"
"""

WORKLOADS = {
    "tpch": """\
[workload]
kind = "tpch"                   # creates a separate database, trimtab_tpch_..., on the server
scale = {scale}
mix = {{ q7 = 1, q8 = 1, q9 = 1, q21 = 1 }}   # concurrent streams of each query
""",
    "ycsb": """\
[workload]
kind = "ycsb"                   # creates a separate database, trimtab_ycsb_..., on the server
workload = "A"                  # A to F; A: half reads, half updates of single records
records = 200_000

[workload.load]
users = 16                      # concurrent connections; add rate = 2000 for a fixed rate
""",
    "pgbench": """\
[workload]
kind = "pgbench"                # creates a separate database, trimtab_pgbench_..., on the server
script = "tpcb-like"            # or scripts = ["mine.sql@3", ...]
scale = 10

[workload.load]
users = 8                       # concurrent connections; add rate = 500 for a fixed rate
""",
    "oltp": """\
[workload]
kind = "oltp"                   # creates a separate database, trimtab_oltp_..., on the server
script = "read_write"           # or read_only, point_select, update_index, ...
tables = 4
table_size = 100_000

[workload.load]
users = 16                      # concurrent connections; add rate = 500 for a fixed rate
""",
    "sql": """\
[workload]
kind = "sql"                    # your own statements; `trimtab profile {name}` writes them from a live server
database = "postgres"           # your database; nothing is created in it
folder = "queries"              # every .sql file in it is one transaction type
start_state = "rollback"        # every transaction is rolled back; "template", "undo", "none"

[workload.parameters]           # what :name in a statement is filled with
# customer = {{ type = "column", table = "customers", column = "id" }}

[workload.load]
users = 8                       # concurrent connections; add rate = 500 for a fixed rate
""",
}


_DEFAULTS = {"postgresql": ("tpch", "pgbench")}
"""By kind of target, the best first: the first that can run here; ycsb, which needs nothing, for other kinds."""


_SPEAKS = {"mariadb": "mysql"}
"""Kind of target -> protocol, where that has another name."""


def _can_run(workload: str) -> bool:
    return workload != "tpch" or plugins.is_installed("tpchgen-cli")


def _study_name(file_name: str) -> str:
    """A legal name for the study in a file of that name."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(file_name).stem).strip("._-")[:64]
    for ending in (BENCH, RATE):
        if name.endswith(ending):
            name = f"{name.removesuffix(ending)}-{ending[1:]}"
    return name or "study"


def _require_driven(kind: str, workload: str) -> None:
    """Raises UsageError where a workload cannot drive that kind of target."""
    protocols = plugins.load("workloads", workload).protocols
    if _SPEAKS.get(kind, kind) not in protocols:
        raise UsageError(
            f"workload={workload!r} cannot drive a target of kind={kind!r}: it speaks {', '.join(protocols)}",
            hint="use ycsb, oltp or sql",
        )


def study_text(file_name: str, server: FoundServer, workload: str | None = None) -> str:
    """The study file for `server` under a workload of that kind, or of the best for the target that can run here.

    Raises:
        UsageError: the workload cannot drive it.
    """
    study, is_own, file_name = _study_name(file_name), not server.url, quote(file_name)
    head = _HEAD.format(name=file_name, study=study, budget="10m" if is_own else "30m", kind=server.kind)
    scale, window, longest = ("0.1", "5s", "8s") if is_own else ("1", "15s", "30s")
    chosen = workload or next(filter(_can_run, _DEFAULTS.get(server.kind, ())), "ycsb")
    _require_driven(server.kind, chosen)
    asked = WORKLOADS[chosen].format(name=file_name, scale=scale)
    lines = "".join(f"{line}\n" for line in server.lines)
    return head + lines + _TAIL.format(workload=asked, window=window, window_max=longest)
