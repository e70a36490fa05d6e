"""Reach: how a MySQL or MariaDB server is got at; one class per way (embedded, local, connection only)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from trimtab.systems.mysql.session import Session
from trimtab.systems.reach import DatabaseReach

__all__ = ["Reach"]


class Reach(DatabaseReach, Protocol):
    """One way to a server; see `DatabaseReach`.

    Attributes:
        include_file: the option file of our own that it reads last; None when there is none.
        argv: the command that started it, program first; empty when unknown.
        pid_file: the file that it leaves behind only when it dies; None when unknown.
    """

    @property
    def include_file(self) -> Path | None: ...
    @property
    def argv(self) -> Sequence[str]: ...
    @property
    def pid_file(self) -> Path | None: ...
    def connect(self) -> Session: ...
