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
        protocol: "postgresql", later "mysql", "mongodb", "cql", "http".
        host: a host name, an address, or (starting with "/") the directory of a unix socket.
        port: TCP port, or the number in the unix socket's name.
        user, database: as the protocol knows them.
        password: never printed; None lets the driver use the system's own files (.pgpass).
        options: further driver parameters by name ("sslmode", ...).
    """

    protocol: str
    host: str
    port: int
    user: str
    database: str
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A password that comes in here is taken out of every text from now on."""
        remember(self.password)

    def with_database(self, database: str) -> Endpoint:
        """The same server, another database."""
        return replace(self, database=database)

    def __str__(self) -> str:
        return f"{self.protocol}://{self.user}@{self.host}:{self.port}/{self.database}"
