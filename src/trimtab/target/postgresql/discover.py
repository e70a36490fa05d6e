"""Finds PostgreSQL servers that run on this machine, for `trimtab init`; reads only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

__all__ = ["SOCKET_DIRECTORIES", "FoundServer", "discover"]

SOCKET_DIRECTORIES = (Path("/var/run/postgresql"), Path("/tmp"))
_SOCKET = re.compile(r"^\.s\.PGSQL\.(\d+)$")
_DEBIAN_DATA = re.compile(r"^/var/lib/postgresql/(\d+)/([^/]+)$")


@dataclass(frozen=True, slots=True)
class FoundServer:
    """One running server.

    Attributes:
        url: how to reach it by its socket.
        version: its version text; "" when we may not log in.
        data_dir: "" when unknown.
        restart: a command that should restart it; "" when unknown.
        problem: why we could not log in; "" when we could.
    """

    url: str
    version: str = ""
    data_dir: str = ""
    restart: str = ""
    problem: str = ""


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
        return FoundServer(url, problem=str(error).strip().splitlines()[-1])
    data_dir = str(row[0]) if row else ""
    return FoundServer(url, str(version[0]) if version else "", data_dir, _restart_command(data_dir))


def _restart_command(data_dir: str) -> str:
    match = _DEBIAN_DATA.match(data_dir)
    return f"pg_ctlcluster {match[1]} {match[2]} restart" if match else ""
