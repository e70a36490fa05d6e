"""PrivatePlace: the folder and the port of a private system that a catalogue describes."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import FileCopy, LocalHost, read_limits
from trimtab.systems.account import Account
from trimtab.systems.embedded_table import EmbeddedTable
from trimtab.systems.placeholder import filled
from trimtab.systems.private_folder import make_server_folders
from trimtab.systems.programs import find_program, installation

__all__ = ["PrivatePlace"]

_MADE = "trimtab.made"
_PORT = "trimtab.port"
_MODE = 0o644
_WAY = ""
"""In the record of what was made: the digest of what it was made by, beside those of its files."""


class PrivatePlace:
    """See the module.

    Args:
        label: of the system and its version.
        table: what the catalogue says.
        folder: where it is.
        port: that it must have; None for a free one.
        names: further {NAME}s of its files; they may hold the others.

    Attributes:
        folder: the same.
    """

    def __init__(
        self, label: str, table: EmbeddedTable, folder: Path, port: int | None, names: Mapping[str, str]
    ) -> None:
        self.folder = folder
        self._label = label
        self._table = table
        self._wanted = port
        self._more = names
        self._host = LocalHost()

    @property
    def port(self) -> int | None:
        """That it was given last; None before its first start."""
        try:
            return self._wanted or int((self.folder / _PORT).read_text())
        except (OSError, ValueError):
            return None

    @cached_property
    def _root(self) -> str:
        if self._table.module:
            _require_module(self._label, self._table)
            return ""
        root = installation(self._label, self._table)
        return "" if root == Path("/") else str(root)

    @cached_property
    def _programs(self) -> Mapping[str, str]:
        return {name: find_program(name, package) for name, package in self._table.needs.items()}

    def names(self) -> Mapping[str, str]:
        """What {NAME} means in its texts.

        Raises:
            TargetError: its programs are not installed, and cannot be fetched.
        """
        port = self.port
        return {
            "folder": str(self.folder),
            "root": self._root,
            "program": sys.executable if self._table.module else f"{self._root}/{self._table.program.lstrip('/')}",
            "machine": platform.machine(),
            **self._programs,
            **({"port": str(port)} if port is not None else {}),
            **self._more_ports(),
        }

    def _more_ports(self) -> Mapping[str, str]:
        """Those that it was given last."""
        found = {}
        for name in self._table.ports:
            with suppress(OSError):
                found[f"port.{name}"] = (self.folder / f"{_PORT}.{name}").read_text().strip()
        return found

    def make(self, account: Account) -> None:
        """Makes the folder for a user, and finds a port. Configuration that is there already stays, but for files that are made
        with other `names`, or for another number of cores, than the last time.

        Raises:
            TargetError: it cannot be made, or the port that it must have is taken.
        """
        self.names()
        make_server_folders(self.folder, [self.folder / name for name in self._table.folders], account)
        self._find_port()
        more = {**self._more, "compilers": str(_compilers())}
        texts = {name: filled(text, more) for name, text in self._table.first_files.items()}
        wanted = {_WAY: self._way(), **{name: _digest(text) for name, text in texts.items()}}
        made = self._made()
        fresh = {name: text for name, text in texts.items() if made.get(name) != wanted[name]}
        for name, text in {**fresh, **self._table.files}.items():
            self._write(name, filled(filled(text, more), self.names()))
        if made != wanted:
            self._write(_MADE, json.dumps(wanted))

    def is_as_made(self) -> bool:
        """Whether it was made for these names, this port and these programs when it was started last."""
        return self._made().get(_WAY) == self._way()

    def _way(self) -> str:
        return _digest(json.dumps([dict(self._more), self._wanted, dict(self._programs)], sort_keys=True))

    def _made(self) -> Mapping[str, str]:
        """File -> digest of what it was made from; `_WAY` too."""
        try:
            return dict(json.loads((self.folder / _MADE).read_text()))
        except (OSError, ValueError):
            return {}

    def _find_port(self) -> None:
        known = self._more_ports()
        for name in self._table.ports:
            if (old := known.get(f"port.{name}")) is None or not _is_free(int(old)):
                self._write(f"{_PORT}.{name}", f"{_free_port()}\n")
        port = self.port
        if port is not None and _is_free(port):
            return
        if self._wanted is not None:
            raise TargetError(
                f"port={self._wanted} is taken by another program",
                hint="give another port, or leave it out for a free one",
            )
        self._write(_PORT, f"{_free_port()}\n")

    def _write(self, name: str, text: str) -> None:
        copy = FileCopy(content=text.encode(), mode=_MODE, uid=os.geteuid(), gid=os.getegid())
        self._host.write_file(self.folder / name, copy)


def _compilers() -> int:
    """Threads for a Java that is to compile on all cores; of two cores it uses one for the code that runs most."""
    return read_limits().cores + 1


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _require_module(label: str, table: EmbeddedTable) -> None:
    if find_spec(table.module) is None:
        raise TargetError(
            f"{label} needs the Python module {table.module}, which is not installed",
            hint=f"pip install 'trimtab[{table.extra}]'" if table.extra else "install it with pip",
        )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
