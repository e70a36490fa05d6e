"""Embedded servers of Trimtab's own: their data is what Trimtab itself makes, once in a test run, and copied."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from tests.servers.run import copy_folder, template
from trimtab import plugins
from trimtab.systems import Target
from trimtab.systems.account import server_account

__all__ = ["provide"]


@contextmanager
def opened_in(cache: Path, program: str) -> Iterator[Target]:
    """The server of the target `db` in a cache, while it runs; `program` as `embedded` in a study file."""
    kind = "postgresql" if program.isdigit() else "mysql" if "mysql" in program else "mariadb"
    with mock.patch.dict(os.environ, {"TRIMTAB_CACHE": str(cache)}):
        table = {"kind": kind, "embedded": program, "memory": "1GiB"}
        target: Target = plugins.load("targets", kind).from_settings("db", table, state_dir=cache / "state")
        target.open()
        try:
            yield target
        finally:
            target.close()


def short_template(prefix: str, program: str, make: Callable[[Path], None]) -> Path:
    """See `template`. The path of a socket in it has 107 bytes at most, else it lies elsewhere and a copy is not reached."""
    return template(f"{prefix}-{hashlib.sha256(program.encode()).hexdigest()[:6]}", make)


def _new(program: str) -> Path:
    """A cache with a server as Trimtab makes it."""

    def make(cache: Path) -> None:
        with opened_in(cache, program):
            pass

    return short_template("n", program, make)


def provide(cache: Path, program: str, *, name: str = "db") -> None:
    """Gives a cache the data of the target `name`, unless it has it: that of a new server."""
    for home in _new(program).glob("*/*-db"):
        goal = cache / home.parent.name / f"{home.name.removesuffix('-db')}-{name}"
        if not goal.exists():
            copy_folder(home, goal, server_account())
