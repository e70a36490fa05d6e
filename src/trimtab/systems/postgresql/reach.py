"""Reach: how a PostgreSQL server is got at; one class per way (embedded, local, connection only)."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from trimtab.systems.postgresql.session import Connection
from trimtab.systems.reach import DatabaseReach

__all__ = ["AUTO_CONF", "Reach"]

AUTO_CONF = "postgresql.auto.conf"


class Reach(DatabaseReach, Protocol):
    """One way to a server; see `DatabaseReach`.

    Attributes:
        bin_dir: the folder of its programs; None when unknown.
        spare: a connection made in good times, for when no new login works; None where the files can be reached.

    `moved_to` says where the server takes logins now when it is ready for them and does not listen where ours go; "" otherwise.
    """

    @property
    def bin_dir(self) -> Path | None: ...
    @property
    def spare(self) -> Connection | None: ...
    def moved_to(self) -> str: ...
    def connect(self, application: str = "trimtab") -> Connection: ...
