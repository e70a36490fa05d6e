"""EmbeddedServer: a server of our own over a data directory in the cache that outlives the study."""

from __future__ import annotations

import os
import platform
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from trimtab.errors import TargetError
from trimtab.host import FileLock, Folder, LocalHost, MemoryCgroup
from trimtab.systems.account import Account, cache_root, server_account
from trimtab.systems.private_folder import make_server_folders
from trimtab.systems.process import DatabaseProcess
from trimtab.systems.session import Session, require_answer
from trimtab.systems.visit import Visit

__all__ = ["EmbeddedServer"]


P = TypeVar("P", bound=DatabaseProcess)
C = TypeVar("C", bound=Session)


class EmbeddedServer(ABC, Generic[P, C]):
    """The part of a `Reach` that is the same for every kind of server; a kind says how its data is made and it is started.

    Args:
        name: of the target.
        which: version or program.
        memory_limit_bytes: the memory limit (cgroup) that it is put under; None for none.
        folder: where it is, when that is known; it does not follow from `name` and `which` then.
        immediate_stop: whether one that does not stop in time may be stopped by force.

    Attributes:
        KIND: of the server, the folder in the cache.
        START_S: how long a start may show no sign of life.
        host: this machine.
        folder: where everything of the server is.
        owner: the lock on the folder: who holds it started the server and stops it.
        no_restart: "".
        later_s: none: nobody else starts it.
    """

    KIND: ClassVar[str]
    START_S: ClassVar[float] = 60.0
    no_restart = ""
    later_s: Sequence[float] = ()

    def __init__(
        self,
        name: str,
        which: str,
        *,
        memory_limit_bytes: int | None = None,
        folder: Path | None = None,
        immediate_stop: bool = True,
    ) -> None:
        self.host = LocalHost()
        self._which = which
        self._limit_bytes = memory_limit_bytes
        self._immediate_stop = immediate_stop
        self._cgroup: MemoryCgroup | None = None
        safe = re.sub(r"[^A-Za-z0-9_-]", "_", f"{self._label(which)}-{name}")
        self.folder = folder if folder is not None else cache_root() / self.KIND / safe
        self.owner = FileLock(self.folder.with_suffix(".lock"))
        self._account: Account | None = None
        self._process: P | None = None
        self._visit = Visit[C]()

    def _label(self, which: str) -> str:
        """What tells servers of one name with different data apart."""
        return which

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    @property
    def log_file(self) -> Path:
        """The server's log."""
        return self.folder / "server.log"

    @property
    def account(self) -> Account | None:
        """The user the server runs as; None before `open`."""
        return self._account

    @property
    def pid(self) -> int | None:
        """The server's process; None when it is down."""
        return self._server.pid

    @property
    def is_here(self) -> bool:
        """True."""
        return True

    @property
    def exit_code(self) -> int | None:
        """How the server's process ended; None while it runs, or when an earlier Trimtab started it."""
        return self._server.exit_code

    @property
    def n_oom_kills(self) -> int:
        """Kills at the memory limit."""
        return self._cgroup.n_oom_kills() if self._cgroup is not None else 0

    @property
    def _server(self) -> P:
        if self._process is None:
            self._process = self._locate()
        return self._process

    def _locate(self) -> P:
        """Finds programs and user, makes the folders, and takes the folder when it is free; starts nothing."""
        account = self._account = server_account()
        process = self._find(account)
        make_server_folders(self.folder, self._inner_folders(), account)
        self.owner.acquire(f"pid={os.getpid()} host={platform.node()}")
        return process

    @abstractmethod
    def _find(self, account: Account) -> P:
        """The server's process, not started.

        Raises:
            TargetError: the server's programs are not installed.
        """

    @abstractmethod
    def _inner_folders(self) -> Sequence[Path]:
        """Private folders that the server needs beside its own."""

    @abstractmethod
    def _make_data(self, scratch: Path, account: Account) -> None:
        """Makes a complete data directory in `scratch`.

        Raises:
            TargetError: it cannot be made.
        """

    @abstractmethod
    def _has_data(self) -> bool:
        """Whether the data directory is made."""

    def ensure_up(self) -> None:
        """Starts the server when it is down."""
        if self._server.pid is None:
            self._server.start(self.START_S, self._limiter())

    def start_with(self, overrides: Mapping[str, str]) -> None:
        """Starts the server, stopped first when it runs, with settings that win over every file."""
        self._server.stop(immediate=self._immediate_stop)
        self._server.start(self.START_S, self._limiter(), overrides)

    def open(self) -> None:
        """Starts the server, or finds the one that still runs; makes the data directory the first time."""
        self._process = self._locate()
        if self._server.pid is None and not self.owner.is_held:
            raise TargetError(
                f"another tuner is starting or stopping the embedded server: {self.owner.holder()}",
                hint="wait for it, or give this target another name",
            )
        if self.owner.is_held and not self._has_data() and self._account is not None:
            scratch = self.folder / "data.new"
            shutil.rmtree(scratch, ignore_errors=True)
            self._make_data(scratch, self._account)
            with Folder.open(self.folder) as folder:
                folder.rename(
                    scratch.name, self.data_dir.name
                )  # a kill before this leaves data.new, never half a data directory
        self.ensure_up()

    def _install(self, argv: Sequence[str], account: Account, timeout_s: float, env: Mapping[str, str]) -> None:
        """Runs the program that makes the data directory, as the server's user.

        Raises:
            TargetError: it failed.
        """
        result = self.host.run(list(argv), timeout_s=timeout_s, user=account.uid, group=account.gid, env=dict(env))
        if result.exit_code != 0:
            raise TargetError(
                f"{Path(argv[0]).name} failed with exit_code={result.exit_code}: {result.output[-2000:]}",
                hint="is the disk full?",
            )

    def close(self) -> None:
        """Stops the server when this object started or took it over; idempotent."""
        if self._process is not None and self.owner.is_held:
            self._process.stop(immediate=self._immediate_stop)
            self.owner.release()
            if self._cgroup is not None:  # that of a server which goes on is another tuner's
                self._cgroup.remove()
        self._process = None
        self._cgroup = None

    def no_later_login(self) -> str:
        """ "": it asks for no password."""
        return ""

    def visit(self) -> AbstractContextManager[None]:
        """See `DatabaseReach`."""
        return self._visit.begun()

    @abstractmethod
    def connect(self) -> C:
        """A connection: a visit's, or a fresh one."""

    def health(self) -> None:
        """A fresh login and a query."""
        self._visit.end()
        require_answer(self.connect)

    def is_up(self) -> bool:
        """Whether the server process runs."""
        return self._server.pid is not None

    def restart(self) -> None:
        """Stops and starts the server; back when it accepts connections."""
        self._server.stop(immediate=self._immediate_stop)
        self.ensure_up()

    def _limiter(self) -> Callable[[int], None] | None:
        """Puts a process under the memory limit, which is made the first time; None when there is no limit."""
        if self._cgroup is None and self._limit_bytes is not None:
            self._cgroup = MemoryCgroup.create(f"trimtab-{self.folder.name}", self._limit_bytes)
        return self._cgroup.add if self._cgroup is not None else None

    def describe(self) -> Mapping[str, Any]:
        """Where it is."""
        return {"way": "embedded", "which": self._which, "folder": str(self.folder)}

    def log_excerpt(self, n_lines: int) -> str:
        """The last lines of the server's log since its last start, and what the kernel killed because memory ran out."""
        lines = self._server.excerpt(n_lines)
        n_kills = self.n_oom_kills
        return f"{lines}\nout-of-memory kills under the memory limit: {n_kills}" if n_kills else lines
