"""Every way of reaching a real server, behind one face: PostgreSQL, MariaDB and MySQL, embedded, by files with a restart
command, and by connection only.

A `Way` is a server of its own in a folder of its own, with what an administrator can do to it. Servers are copied from a
template that is made once per session and version.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from tests.faults import mariadb_place, server
from tests.servers import made as made_folder
from tests.servers import run_folder
from trimtab import plugins
from trimtab.errors import TargetError
from trimtab.host import process_mark
from trimtab.space import Config, Value

__all__ = ["REACHES", "MariaDbWay", "MySqlWay", "PostgresWay", "Templates", "Way", "made", "root_folder"]

REACHES = ("embedded", "files", "connection")
CANARY = "canary-Pa55-"
"""Start of every password of these tests: nothing that Trimtab writes may hold it."""


@contextmanager
def root_folder() -> Iterator[Path]:
    """A folder that the server's own user can enter (pytest's are private), in memory where there is such a place."""
    with made_folder("w") as folder:
        yield folder


class Templates:
    """Data directories to copy servers from, each made at its first use."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cache = run_folder() / "cache"

    def postgresql(self, version: str) -> Path:
        return server.make_template(version)

    def mysql(self, product: mariadb_place.Product) -> Path:
        return mariadb_place.make_template(product)


class Way(ABC):
    """A server and one way of reaching it.

    Attributes:
        reach: one of `REACHES`.
        folder: of everything: server, state directory, cache, study file.
        password: of the user that the study file names.
        environment: what a command needs, the password among it.
    """

    product: ClassVar[str]
    reloaded: ClassVar[Mapping[str, tuple[Value, Value]]]
    """Knobs that change without a restart: value as found, and the one that the tests set."""
    restarted: ClassVar[Mapping[str, tuple[Value, Value]]]
    password_variable: ClassVar[str]
    server: Any

    def __init__(self, folder: Path, reach: str, templates: Templates) -> None:
        self.folder, self.reach, self.templates = folder, reach, templates
        self.password = CANARY + secrets.token_hex(6)
        self.cache = folder / "cache"
        self.state = folder / "state"
        folder.mkdir(mode=0o755)
        self.cache.mkdir(mode=0o755)
        self.state.mkdir()
        installed = templates.cache / "install"
        if installed.exists():
            (self.cache / "install").symlink_to(installed)
        self.environment = {
            **os.environ,
            "TRIMTAB_CACHE": str(self.cache),
            "TRIMTAB_STATE": str(self.state),
            "NO_COLOR": "1",
            self.password_variable: self.password,
        }

    @property
    def is_embedded(self) -> bool:
        return self.reach == "embedded"

    @property
    def config(self) -> Config:
        """What the tests set: all knobs that this way can change."""
        tables = (self.reloaded,) if self.reach == "connection" else (self.reloaded, self.restarted)
        return Config({name: values[1] for table in tables for name, values in table.items()})

    @property
    def found(self) -> Mapping[str, Value]:
        """The values of the same knobs before."""
        return {**{n: v[0] for n, v in self.reloaded.items()}, **{n: v[0] for n, v in self.restarted.items()}}

    @abstractmethod
    def table(self, *, with_password: bool = False, **more: object) -> dict[str, object]:
        """The study file's [target] table; `with_password`: in the url, and nowhere else."""

    def target(self, state: Path | None = None, **more: object) -> Any:
        """A target from it, not open."""
        return plugins.load("targets", self.product).from_settings(
            "db", self.table(**more), state_dir=state or self.state
        )

    def reattach(self, snapshot: Any) -> Any:
        """A target from a snapshot."""
        return plugins.load("targets", self.product).from_snapshot(snapshot, state_dir=self.state)

    @property
    def pid(self) -> int | None:
        """Of the server; None when it is down."""
        return self.server.pid

    def control(self, verb: str) -> None:
        """start, stop, restart: as an administrator does it."""
        self.server.control(verb)

    def admin(self) -> Any:
        """A connection of an administrator."""
        return self.server.admin()

    @abstractmethod
    def values(self) -> dict[str, Value]:
        """The values in use of the knobs in `found`, asked of the running server by an administrator."""

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """All settings of the running server, without what differs from moment to moment."""

    @contextmanager
    def up(self) -> Iterator[None]:
        """Running for the look, and down again when it was down."""
        with self.server.up():
            yield

    def wait_up(self, timeout_s: float = 60.0) -> None:
        """A restart command goes on when the tuner that gave it is killed; an embedded server may be down."""
        until = time.monotonic() + timeout_s
        while not self.is_embedded:
            try:
                self.values()
                return
            except (psycopg.Error, TargetError):
                if time.monotonic() > until:
                    raise
            time.sleep(0.05)

    @abstractmethod
    def set_by_sql(self, name: str, value: Value) -> None:
        """As an administrator does: ALTER SYSTEM and reload, or SET GLOBAL."""

    @property
    @abstractmethod
    def own_file(self) -> Path:
        """The file that Trimtab writes when it reaches the server's files."""

    @property
    def log_file(self) -> Path:
        """The server's own log."""
        return self.server.folder / "server.log"

    @property
    def instance(self) -> str:
        """Names this run of the server: another one after each start; "" when it is down."""
        pid = self.pid
        return f"{pid} {process_mark(pid)}" if pid is not None else ""

    def own_content(self) -> bytes | None:
        return self.own_file.read_bytes() if self.own_file.exists() else None

    def put_own_content(self, content: bytes | None) -> None:
        if content is None:
            self.own_file.unlink(missing_ok=True)
        else:
            self.own_file.write_bytes(content)

    def crash(self) -> None:
        """The server, all its processes and a restart command that is under way, at once, as a power cut takes them."""
        for pid in _naming(self.server.folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        pid = self.pid
        if pid is None:
            return
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        for each in (pid, *children):
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                continue
        until = time.monotonic() + 30
        while self.pid is not None or any(_lives(each) for each in children):
            assert time.monotonic() < until, "the server outlives SIGKILL"
            time.sleep(0.005)

    def start_after_crash(self) -> None:
        """As when the machine comes up; a moment after SIGKILL the kernel may still hold what the dead processes shared."""
        until = time.monotonic() + 30
        while True:
            try:
                self.control("start")
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > until:
                    raise
            time.sleep(0.2)

    def destroy(self) -> None:
        """At the end of a test, whatever it did."""
        self.server.destroy()
        shutil.rmtree(self.folder, ignore_errors=True)


def _naming(folder: Path) -> list[int]:
    """Commands that control the server of `folder`: what a dead tuner has started goes on without it."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            is_inside = any(Path(os.fsdecode(word)).is_relative_to(folder) for word in argv if word)
            if is_inside and any(word.endswith((b"_control.py", b"/pg_ctl")) for word in argv):
                found.append(int(pid))
    return found


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class PostgresWay(Way):
    """A PostgreSQL 18 (or another version), as a server of somebody else's unless it is embedded."""

    product = "postgresql"
    reloaded: ClassVar[Mapping[str, tuple[Value, Value]]] = {"work_mem": (4096, 8192), "random_page_cost": (4.0, 1.5)}
    restarted: ClassVar[Mapping[str, tuple[Value, Value]]] = {"shared_buffers": (2048, 4096)}
    password_variable = "PGPASSWORD"

    def __init__(self, folder: Path, reach: str, templates: Templates, version: str = "18") -> None:
        super().__init__(folder, reach, templates)
        self.version = version
        home = self.cache / "postgresql" / f"{version}-db" if self.is_embedded else folder / "server"
        source = templates.postgresql(version)
        self.server = server.copy_server(source, home, version, is_embedded=self.is_embedded)
        if not self.is_embedded:
            self.control("start")
            server.set_password(self.server, "postgres", self.password)

    def table(self, *, with_password: bool = False, **more: object) -> dict[str, object]:
        base: dict[str, object] = {"kind": "postgresql", "memory": "1GiB"}
        if self.is_embedded:
            return {**base, "embedded": self.version, **more}
        user = f"postgres:{self.password}" if with_password else "postgres"
        base["url"] = f"postgresql://{user}@127.0.0.1:{self.server.port}/postgres"
        if self.reach == "files":
            base |= {"data_dir": str(self.server.data_dir), "restart": self.server.restart_command}
        return {**base, **more}

    def values(self) -> dict[str, Value]:
        with self.server.admin() as admin:
            rows = admin.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", (list(self.found),))
            return {str(name): _number(str(text)) for name, text in rows}

    def settings(self) -> dict[str, str]:
        return dict(server.settings_of(self.server))

    def set_by_sql(self, name: str, value: Value) -> None:
        with self.server.admin() as admin:
            admin.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
            admin.execute("SELECT pg_reload_conf()")

    @property
    def own_file(self) -> Path:
        return self.server.auto_conf


class MariaDbWay(Way):
    """Debian's MariaDB, as a server of somebody else's unless it is embedded."""

    product = "mariadb"
    reloaded: ClassVar[Mapping[str, tuple[Value, Value]]] = {
        "sort_buffer_size": (2 << 20, 4 << 20),
        "innodb_flush_neighbors": (1, 0),
    }
    restarted: ClassVar[Mapping[str, tuple[Value, Value]]] = {"thread_stack": (299008, 1 << 20)}
    password_variable = "MYSQL_PWD"
    memory: ClassVar[str] = "1GiB"

    @staticmethod
    def of_program() -> mariadb_place.Product:
        """The program that is run."""
        return mariadb_place.MARIADB

    def __init__(self, folder: Path, reach: str, templates: Templates) -> None:
        super().__init__(folder, reach, templates)
        self.program = self.of_program()
        home = self.cache / "mysql" / f"{self.program.label}-db" if self.is_embedded else folder / "server"
        source = templates.mysql(self.program)
        self.server = mariadb_place.copy_server(
            source, home, self.password, is_embedded=self.is_embedded, product=self.program
        )

    def table(self, *, with_password: bool = False, **more: object) -> dict[str, object]:
        base: dict[str, object] = {"kind": self.program.kind, "memory": self.memory}
        if self.is_embedded:
            return {**base, "embedded": self.program.embedded, **more}
        user = f"{mariadb_place.USER}:{self.password}" if with_password else mariadb_place.USER
        base["url"] = f"mysql://{user}@localhost/test?socket={self.server.socket}"
        if self.reach == "files":
            base |= {"include_file": str(self.server.include_file), "restart": self.server.restart_command}
        return {**base, **more}

    def values(self) -> dict[str, Value]:
        with self.server.admin() as admin:
            return {name: _number(str(admin.value(f"SELECT @@GLOBAL.{name}"))) for name in self.found}

    def settings(self) -> dict[str, str]:
        rows = self.server.query("SHOW GLOBAL VARIABLES")
        return {str(n): str(v) for n, v in rows if not str(n).startswith(mariadb_place.OF_THE_MOMENT)}

    def set_by_sql(self, name: str, value: Value) -> None:
        with self.server.admin() as admin:
            admin.rows(f"SET GLOBAL {name} = {value}")

    @property
    def own_file(self) -> Path:
        return self.server.include_file


class MySqlWay(MariaDbWay):
    """MySQL 8.0, likewise."""

    product = "mysql"
    reloaded: ClassVar[Mapping[str, tuple[Value, Value]]] = {
        "sort_buffer_size": (256 << 10, 4 << 20),
        "innodb_flush_neighbors": (0, 1),
    }
    restarted: ClassVar[Mapping[str, tuple[Value, Value]]] = {"thread_stack": (1 << 20, 2 << 20)}
    memory: ClassVar[str] = "4GiB"

    @staticmethod
    def of_program() -> mariadb_place.Product:
        return mariadb_place.mysql_80()


_WAYS: Mapping[str, type[Way]] = {"postgresql": PostgresWay, "mariadb": MariaDbWay, "mysql": MySqlWay}


def _number(text: str) -> Value:
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number == int(number) and "." not in text else number


@contextmanager
def made(product: str, reach: str, templates: Templates, **more: Any) -> Iterator[Any]:
    """One server of `product`, running unless it is embedded; gone at the end."""
    way = _WAYS[product](templates.root / secrets.token_hex(3), reach, templates, **more)
    try:
        yield way
    finally:
        way.destroy()
