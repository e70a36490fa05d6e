"""trimtab init: an explained study file for what is found."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

import click

from trimtab.cli.options import json_option, print_json, say
from trimtab.errors import UsageError

__all__ = ["command"]

_WORKLOADS = ("tpch", "ycsb", "pgbench", "oltp", "sql")
"""Those that trimtab.study.template has a text for; named here so that `--help` need not load it."""


@click.command("init")
@click.argument(
    "study_file", type=click.Path(path_type=Path, dir_okay=False), metavar="[STUDY.toml]", default=Path("study.toml")
)
@click.option(
    "--target",
    metavar="KIND",
    help="postgresql, mysql or mariadb; Trimtab's repository has examples for other kinds. Default: a server found here, or "
    "PostgreSQL.",
)
@click.option("--embedded", is_flag=True, help="Use an embedded server even if a server is running here.")
@click.option(
    "--workload",
    type=click.Choice(_WORKLOADS),
    help="The load; default: tpch on PostgreSQL (pgbench without the extra tpch), ycsb elsewhere.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def command(
    study_file: Path, target: str | None, embedded: bool, workload: str | None, force: bool, as_json: bool
) -> int:
    """Write a commented study file for a server found running on this machine, or for an embedded one."""
    from trimtab.study import embedded_server, found_servers, study_text, usable_server

    if study_file.exists() and not force:
        raise UsageError(f"file={str(study_file)!r} exists already", hint="choose another name, or use --force")
    servers = [] if embedded else found_servers(target, tell=say)
    for server in servers:
        say(
            f"found a server at {server.url}: "
            + (f"cannot log in: {server.problem}" if server.problem else server.what)
        )
    chosen = usable_server(servers) or embedded_server(target)
    text = study_text(study_file.name, chosen, workload)
    try:
        _write(study_file, text, force=force)
    except OSError as error:
        raise UsageError(
            f"cannot write file={str(study_file)!r}: {error.strerror}", hint="choose another directory"
        ) from error
    if as_json:
        found = [{"kind": s.kind, "url": s.url, "server": s.what, "problem": s.problem} for s in servers]
        print_json({"study_file": str(study_file), "kind": chosen.kind, "url": chosen.url or None, "found": found})
        return 0
    click.echo(f"wrote {study_file}: {'the server at ' + chosen.url if chosen.url else chosen.what}")
    click.echo(f"next: trimtab doctor {quote(str(study_file))}")
    return 0


def _write(place: Path, text: str, *, force: bool) -> None:
    """Whole or not at all, and never over a file that appeared meanwhile; with `force` one that is there stays until then.

    Raises:
        OSError: it cannot be written.
    """
    if force and place.exists() and not place.is_file():  # a pipe, or a terminal
        place.write_text(text, encoding="utf-8")
        return
    place = Path(os.path.realpath(place))  # of links that lead to each other, opening says so
    beside = place.with_name(f".{place.name}.{os.getpid()}.partial") if force and place.exists() else place
    with open(beside, "x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            if beside != place:
                os.chmod(beside, place.stat().st_mode & 0o7777)
                os.replace(beside, place)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
