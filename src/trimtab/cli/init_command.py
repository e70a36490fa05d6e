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

[workload]
kind = "tpch"                   # creates a database of its own, trimtab_tpch_..., on the server
scale = {scale}
mix = {{ q7 = 1, q8 = 1, q9 = 1, q21 = 1 }}   # so many concurrent streams of each query

[search]
searcher = "auto"

[measure]
window = "{window}"
window_max = "{window_max}"
"""


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


def study_text(file_name: str, server: FoundServer | None) -> str:
    """The study file for `server`, or for an embedded one."""
    study = Path(file_name).stem
    head = _HEAD.format(name=file_name, study=study, budget="10m" if server is None else "30m")
    middle = _EMBEDDED if server is None else _server_lines(server)
    scale, window, longest = ("0.1", "5s", "8s") if server is None else ("1", "15s", "30s")
    return head + middle + _TAIL.format(scale=scale, window=window, window_max=longest)


@click.command("init")
@click.argument("study_file", type=click.Path(path_type=Path, dir_okay=False), default=Path("study.toml"))
@click.option("--embedded", is_flag=True, help="Use an embedded PostgreSQL even when a server is running.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def command(study_file: Path, embedded: bool, force: bool, as_json: bool) -> int:
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
    text = study_text(study_file.name, usable[0] if usable else None)
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
