"""Finds PostgreSQL servers that run on this machine, for `trimtab init`; reads only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import psycopg

from trimtab.systems.capabilities import FoundServer

__all__ = ["EMBEDDED", "SOCKET_DIRECTORIES", "discover", "target_lines"]

SOCKET_DIRECTORIES = (Path("/var/run/postgresql"), Path("/tmp"))
_SOCKET = re.compile(r"^\.s\.PGSQL\.(\d+)$")
_DEBIAN_DATA = re.compile(r"^/var/lib/postgresql/(\d+)/([^/]+)$")
_KIND = "postgresql"
_MEMORY = '# memory = "4GiB"              # the budget that all memory knobs share; default: RAM or the cgroup limit'

EMBEDDED = FoundServer(
    kind=_KIND,
    what="an embedded PostgreSQL 18",
    lines=(
        'embedded = "18"                 # a private PostgreSQL from a Python package; or "16"',
        'memory = "1GiB"                 # the budget that all memory knobs share',
    ),
)


def discover(directories: Sequence[Path] = SOCKET_DIRECTORIES) -> list[FoundServer]:
    """Every server with a unix socket in `directories`, in the order of its port."""
    found = {}
    for directory in directories:
        if directory.is_dir():
            for path in directory.iterdir():
                match = _SOCKET.match(path.name)
                if match and path.is_socket():
                    found[(int(match[1]), str(directory))] = _probe(directory, int(match[1]))
    return [found[key] for key in sorted(found)]


def _probe(directory: Path, port: int) -> FoundServer:
    url = f"host={directory} port={port} dbname=postgres user=postgres"
    try:
        with psycopg.connect(url, connect_timeout=3, autocommit=True) as connection:
            version = connection.execute("SHOW server_version").fetchone()
            row = connection.execute("SELECT setting FROM pg_settings WHERE name = 'data_directory'").fetchone()
    except psycopg.Error as error:
        return FoundServer(kind=_KIND, what="PostgreSQL", url=url, problem=str(error).strip().splitlines()[-1])
    return target_lines(url, str(version[0]) if version else "", str(row[0]) if row else "")


def target_lines(url: str, version: str, data_dir: str) -> FoundServer:
    """A server as the study file names it; `data_dir` is "" when unknown."""
    what = f"PostgreSQL {version or 'of unknown version'}"
    lines = [f'url = "{url}"   # {what}; no password here: use .pgpass']
    restart = _restart_command(data_dir)
    if data_dir and restart:
        lines += [
            f'data_dir = "{data_dir}"',
            f'restart = "{restart}"   # leave out: no knob that needs a restart',
        ]
    elif data_dir:
        lines += [
            f'# data_dir = "{data_dir}"',
            '# restart = "systemctl restart postgresql"   # with both, knobs that need a restart are tuned too',
        ]
    return FoundServer(kind=_KIND, what=what, url=url, lines=(*lines, _MEMORY))


def _restart_command(data_dir: str) -> str:
    match = _DEBIAN_DATA.match(data_dir)
    return f"pg_ctlcluster {match[1]} {match[2]} restart" if match else ""
