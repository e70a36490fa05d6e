"""trimtab init: an explained study file for what is found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import json_option, print_json, say

if TYPE_CHECKING:
    from trimtab.target import FoundServer

__all__ = ["command", "study_text"]

_HEAD = """\
# A Trimtab study. Check it with `trimtab doctor {name}`, run it with `trimtab tune {name}`.
# Every key: docs/reference/study-file.md

[study]
name = "{study}"
objective = "throughput"        # or latency_mean, latency_p95, latency_p99, or "p99 where throughput >= 2000"
budget = "{budget}"                  # wall clock ("1h30m") or "40 trials"
seed = 1

[target.db]
kind = "{kind}"
"""

_TAIL = """\
knobs = "performance"           # a set (see `trimtab knobs`), or a list of names
# unlock = ["durability"]       # opens a class of dangerous knobs; the report repeats it

{workload}
[search]
searcher = "auto"

[measure]
window = "{window}"
window_max = "{window_max}"
"""

_WORKLOADS = {
    "tpch": """\
[workload]
kind = "tpch"                   # creates a database of its own, trimtab_tpch_..., on the server
scale = {scale}
mix = {{ q7 = 1, q8 = 1, q9 = 1, q21 = 1 }}   # so many concurrent streams of each query
""",
    "ycsb": """\
[workload]
kind = "ycsb"                   # creates a database of its own, trimtab_ycsb_..., on the server
workload = "A"                  # A to F; A: half reads, half updates of single records
records = 200_000

[workload.load]
users = 16                      # connections that are kept busy; with rate = 2000 an open loop
""",
    "pgbench": """\
[workload]
kind = "pgbench"                # creates a database of its own, trimtab_pgbench_..., on the server
script = "tpcb-like"            # or scripts = ["mine.sql@3", ...]
scale = 10

[workload.load]
users = 8                       # connections that are kept busy; with rate = 500 an open loop
""",
    "oltp": """\
[workload]
kind = "oltp"                   # creates a database of its own, trimtab_oltp_..., on the server
script = "read_write"           # or read_only, point_select, ...: docs/reference/oltp.md
tables = 4
table_size = 100_000

[workload.load]
users = 16                      # connections that are kept busy; with rate = 500 an open loop
""",
    "sql": """\
[workload]
kind = "sql"                    # your own statements; `trimtab profile {name}` writes them from a live server
database = "postgres"           # yours; nothing is created in it
folder = "queries"              # every .sql file in it is one transaction type
start_state = "rollback"        # every transaction is rolled back; "template", "undo", "none"

[workload.parameters]           # what :name in a statement is filled with
# customer = {{ type = "column", table = "customers", column = "id" }}

[workload.load]
users = 8                       # connections that are kept busy; with rate = 500 an open loop
""",
}


_DEFAULT_WORKLOADS = {"postgresql": "tpch"}
"""By kind of target; records of YCSB for the others."""


def study_text(file_name: str, server: FoundServer, workload: str | None = None) -> str:
    """The study file for `server` under a workload of that kind, or of the one that suits the target."""
    study, is_own = Path(file_name).stem, not server.url
    head = _HEAD.format(name=file_name, study=study, budget="10m" if is_own else "30m", kind=server.kind)
    scale, window, longest = ("0.1", "5s", "8s") if is_own else ("1", "15s", "30s")
    chosen = workload or _DEFAULT_WORKLOADS.get(server.kind, "ycsb")
    asked = _WORKLOADS[chosen].format(name=file_name, scale=scale)
    lines = "".join(f"{line}\n" for line in server.lines)
    return head + lines + _TAIL.format(workload=asked, window=window, window_max=longest)


@click.command("init")
@click.argument(
    "study_file", type=click.Path(path_type=Path, dir_okay=False), metavar="[STUDY.toml]", default=Path("study.toml")
)
@click.option(
    "--target", metavar="KIND", help="Kind of target; see `trimtab plugins`. Default: what is found, or PostgreSQL."
)
@click.option("--embedded", is_flag=True, help="Use an embedded server even when one is running.")
@click.option(
    "--workload",
    type=click.Choice(list(_WORKLOADS)),
    help="What is asked; default: tpch on PostgreSQL, ycsb elsewhere.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def command(
    study_file: Path, target: str | None, embedded: bool, workload: str | None, force: bool, as_json: bool
) -> int:
    """Write an explained study file for a server found running here, or for an embedded one."""
    from trimtab.errors import UsageError
    from trimtab.study import embedded_server, found_servers

    if study_file.exists() and not force:
        raise UsageError(f"file={str(study_file)!r} exists already", hint="choose another name, or use --force")
    servers = [] if embedded else found_servers(target)
    usable = [server for server in servers if not server.problem]
    for server in servers:
        say(
            f"found a server at {server.url}: "
            + (f"cannot log in: {server.problem}" if server.problem else server.what)
        )
    chosen = usable[0] if usable else embedded_server(target)
    text = study_text(study_file.name, chosen, workload)
    try:
        # Written whole or not at all, and never over a file that appeared meanwhile.
        with open(study_file, "w" if force else "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(
            f"cannot write file={str(study_file)!r}: {error.strerror}", hint="choose another directory"
        ) from error
    if as_json:
        found = [{"kind": s.kind, "url": s.url, "server": s.what, "problem": s.problem} for s in servers]
        print_json({"study_file": str(study_file), "kind": chosen.kind, "url": chosen.url or None, "found": found})
        return 0
    click.echo(f"wrote {study_file}: {'the server at ' + chosen.url if chosen.url else chosen.what}")
    click.echo(f"next: trimtab doctor {study_file}")
    return 0
