"""trimtab init: an explained study file for what is found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import json_option, print_json, say

if TYPE_CHECKING:
    from trimtab.target.postgresql.discover import FoundServer

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
kind = "postgresql"
"""

_EMBEDDED = """\
embedded = "18"                 # a real PostgreSQL of its own, from a wheel; "16" too
memory = "1GiB"                 # the budget that all memory knobs share
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


def _server_lines(server: FoundServer) -> str:
    lines = [
        f'url = "{server.url}"   # PostgreSQL {server.version or "of unknown version"}; no password here: use .pgpass'
    ]
    if server.data_dir and server.restart:
        lines += [
            f'data_dir = "{server.data_dir}"',
            f'restart = "{server.restart}"   # leave out: no knob that needs a restart',
        ]
    elif server.data_dir:
        lines += [
            f'# data_dir = "{server.data_dir}"',
            '# restart = "systemctl restart postgresql"   # with both, knobs that need a restart are tuned too',
        ]
    lines += [
        '# memory = "4GiB"              # the budget that all memory knobs share; default: RAM or the cgroup limit'
    ]
    return "\n".join(lines) + "\n"


def study_text(file_name: str, server: FoundServer | None, workload: str = "tpch") -> str:
    """The study file for `server`, or for an embedded one, under a workload of that kind."""
    study = Path(file_name).stem
    head = _HEAD.format(name=file_name, study=study, budget="10m" if server is None else "30m")
    middle = _EMBEDDED if server is None else _server_lines(server)
    scale, window, longest = ("0.1", "5s", "8s") if server is None else ("1", "15s", "30s")
    asked = _WORKLOADS[workload].format(name=file_name, scale=scale)
    return head + middle + _TAIL.format(workload=asked, window=window, window_max=longest)


@click.command("init")
@click.argument("study_file", type=click.Path(path_type=Path, dir_okay=False), default=Path("study.toml"))
@click.option("--embedded", is_flag=True, help="Use an embedded PostgreSQL even when a server is running.")
@click.option(
    "--workload", type=click.Choice(list(_WORKLOADS)), default="tpch", show_default=True, help="What is asked."
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def command(study_file: Path, embedded: bool, workload: str, force: bool, as_json: bool) -> int:
    """Write an explained study file for the PostgreSQL servers found running here, or for an embedded one."""
    from trimtab.errors import UsageError
    from trimtab.target.postgresql.discover import discover

    if study_file.exists() and not force:
        raise UsageError(f"file={str(study_file)!r} exists already", hint="choose another name, or use --force")
    servers = [] if embedded else discover()
    usable = [server for server in servers if not server.problem]
    for server in servers:
        say(
            f"found a server at {server.url}: "
            + (f"cannot log in: {server.problem}" if server.problem else f"PostgreSQL {server.version}")
        )
    text = study_text(study_file.name, usable[0] if usable else None, workload)
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
        found = [{"url": s.url, "version": s.version, "problem": s.problem} for s in servers]
        print_json({"study_file": str(study_file), "url": usable[0].url if usable else None, "found": found})
        return 0
    click.echo(f"wrote {study_file}: {'the server at ' + usable[0].url if usable else 'an embedded PostgreSQL 18'}")
    click.echo(f"next: trimtab doctor {study_file}")
    return 0
