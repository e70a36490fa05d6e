"""Endpoint: how a load reaches a target; made by the target, used by the workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trimtab.redact import remember

__all__ = ["Endpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where and as whom a load connects.

    Attributes:
        protocol: "postgresql", "mysql", "cql", "mongodb", "wiredtiger" (the process of an engine), "http" (a web server), or
            "program" (no server at all).
        host: a host name, an address, or (starting with "/") the directory of a unix socket.
        port: TCP port, or the number in the unix socket's name; 0 without one.
        user, database: as the protocol knows them.
        password: never printed; None lets the driver use the system's own files (.pgpass).
        options: further driver parameters by name: "sslmode" and others of databases, "scheme" ("https") of web servers.
        data: the database behind a site, where the data are that a workload prepares; None: here.
    """

    protocol: str
    host: str
    port: int
    user: str
    database: str
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict)
    data: Endpoint | None = None

    def __post_init__(self) -> None:
        """A password that comes in here is taken out of every text from now on."""
        remember(self.password)

    def with_database(self, database: str) -> Endpoint:
        """The same server with another database; of a site, the same site with another database behind it."""
        if self.data is not None:
            return replace(self, data=self.data.with_database(database))
        return replace(self, database=database)

    def __str__(self) -> str:
        user, port = self.user and f"{self.user}@", f":{self.port}" if self.port else ""
        return f"{self.protocol}://{user}{self.host}{port}/{self.database}"
