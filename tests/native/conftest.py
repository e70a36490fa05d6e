"""A real PostgreSQL 18 of the tests' own, and a short way to run a load against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.servers.postgresql import set_password, started
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


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    settings = "fsync = off\nmax_connections = 60\nshared_buffers = '32MB'\n"
    with started("18", settings=settings, password=PASSWORD) as mine:
        set_password(mine, "postgres", PASSWORD, n_rounds=4096)  # as a server's own: the drivers are tested here
        yield Server(str(mine.sockets), mine.port)
