"""Ground: what the stateful test needs to know of a product: its settings, its files, and what an administrator does with it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from tests.wayback.model import Place
from tests.wayback.ways import MariaDbWay, PostgresWay, Way
from trimtab.space import Value

__all__ = ["Ground", "ground_of"]

_UNITS = {"B": 1, "kB": 1 << 10, "K": 1 << 10, "MB": 1 << 20, "M": 1 << 20, "GB": 1 << 30, "G": 1 << 30, "8kB": 8192}


class Ground(ABC):
    """See the module.

    Attributes:
        kinds: the places that one setting of ours has: a line in our file, and on MariaDB a value in use as well.
        theirs: setting -> values that only administrators give it.
        needs_restart: those among all settings that a restart makes effective.
        configs: what Trimtab sets: the first two are winners of studies.
    """

    kinds: ClassVar[tuple[str, ...]]
    theirs: ClassVar[Mapping[str, tuple[Value, Value]]]
    needs_restart: ClassVar[frozenset[str]]
    started: ClassVar[bytes]
    """What the log says once for each start."""

    def __init__(self, way: Way) -> None:
        self.way = way

    @property
    def configs(self) -> tuple[Mapping[str, Value], ...]:
        first = dict(self.way.config)
        second = {name: self.second[name] for name in self.way.reloaded}
        return (first, second, dict(list(second.items())[:1]))

    second: ClassVar[Mapping[str, Value]]

    @property
    @abstractmethod
    def places(self) -> dict[Place, Value | None]:
        """Every place as it is now; those of values in use only while the server runs."""

    @abstractmethod
    def in_use(self) -> dict[str, Value]:
        """The values that the running server uses."""

    @abstractmethod
    def set_by_sql(self, name: str, value: Value | None) -> Place:
        """As an administrator; the place that it is kept in. None resets it."""

    @abstractmethod
    def write_conf(self, lines: Mapping[str, Value]) -> None:
        """The administrators' own file holds these lines."""

    @abstractmethod
    def conf(self) -> dict[str, Value]:
        """The lines of that file."""

    @abstractmethod
    def set_password(self, password: str) -> None:
        """Of Trimtab's user."""

    def n_starts(self) -> int:
        """How often the server was started so far, by its own log."""
        return self.way.log_file.read_bytes().count(self.started)


class PostgresGround(Ground):
    """PostgreSQL: everything that ALTER SYSTEM sets is a line of postgresql.auto.conf."""

    kinds = ("auto",)
    theirs: ClassVar[Mapping[str, tuple[Value, Value]]] = {
        "work_mem": (9216, 10240),
        "random_page_cost": (2.5, 3.0),
        "shared_buffers": (2560, 2816),
        "maintenance_work_mem": (70000, 80000),
        "log_min_duration_statement": (1000, 2000),
    }
    needs_restart = frozenset({"shared_buffers"})
    started = b"starting PostgreSQL"
    second: ClassVar[Mapping[str, Value]] = {"work_mem": 16384, "random_page_cost": 2.0}
    _in: ClassVar[Mapping[str, int]] = {"work_mem": 1024, "shared_buffers": 8192, "maintenance_work_mem": 1024}
    way: PostgresWay

    def _value(self, name: str, text: str) -> Value:
        return _number(text, self._in.get(name, 1))

    @property
    def places(self) -> dict[Place, Value | None]:
        text = self.way.own_file.read_text()
        lines = dict(re.findall(r"^(\w+) = '([^']*)'$", text, re.MULTILINE))
        assert set(lines) <= set(self.theirs), f"lines that nobody wrote: {lines}"
        return {("auto", n): self._value(n, lines[n]) if n in lines else None for n in self.theirs}

    def in_use(self) -> dict[str, Value]:
        rows = self.way.server.query("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", list(self.theirs))
        return {str(name): _number(str(text), 1) for name, text in rows}

    def set_by_sql(self, name: str, value: Value | None) -> Place:
        with self.way.server.admin() as admin:
            what = f"SET {name} = '{value}'" if value is not None else f"RESET {name}"
            admin.execute(f"ALTER SYSTEM {what}".encode())
            admin.execute("SELECT pg_reload_conf()")
        return "auto", name

    _mark = "# an administrator's lines\n"

    def write_conf(self, lines: Mapping[str, Value]) -> None:
        path = self.way.server.data_dir / "postgresql.conf"
        head = path.read_text().partition(self._mark)[0]
        path.write_text(head + self._mark + "".join(f"{name} = '{value}'\n" for name, value in lines.items()))

    def conf(self) -> dict[str, Value]:
        text = (self.way.server.data_dir / "postgresql.conf").read_text().partition(self._mark)[2]
        return {
            name: self._value(name, value) for name, value in re.findall(r"^(\w+) = '([^']*)'$", text, re.MULTILINE)
        }

    def reload(self) -> None:
        self.way.server.query("SELECT pg_reload_conf()")

    def set_password(self, password: str) -> None:
        from tests.faults.server import set_password

        set_password(self.way.server, "postgres", password)


class MariaDbGround(Ground):
    """MariaDB: a line in Trimtab's own option file, and the value that SET GLOBAL gives, which a restart forgets."""

    kinds = ("auto", "live")
    theirs: ClassVar[Mapping[str, tuple[Value, Value]]] = {
        "sort_buffer_size": (3 << 20, 5 << 20),
        "innodb_flush_neighbors": (2, 2),
        "thread_stack": (278528, 245760),
        "read_buffer_size": (262144, 524288),
        "max_error_count": (100, 200),
    }
    needs_restart = frozenset({"thread_stack"})
    started = b"ready for connections."
    second: ClassVar[Mapping[str, Value]] = {"sort_buffer_size": 1 << 20, "innodb_flush_neighbors": 0}
    way: MariaDbWay

    @property
    def places(self) -> dict[Place, Value | None]:
        content = self.way.own_content() or b""
        lines = dict(re.findall(r"^(\w+) = (\S+)$", content.decode(), re.MULTILINE))
        found: dict[Place, Value | None] = {
            ("auto", n): _number(lines[n], 1) if n in lines else None for n in self.theirs
        }
        if self.way.pid is not None:
            live = self.in_use()
            found |= {("live", name): live[name] for name in self.theirs if name not in self.needs_restart}
        return found

    def in_use(self) -> dict[str, Value]:
        with self.way.server.admin() as admin:
            return {name: _number(str(admin.value(f"SELECT @@GLOBAL.{name}")), 1) for name in self.theirs}

    def set_by_sql(self, name: str, value: Value | None) -> Place:
        with self.way.server.admin() as admin:
            admin.rows(f"SET GLOBAL {name} = {'DEFAULT' if value is None else value}")
        return "live", name

    def write_conf(self, lines: Mapping[str, Value]) -> None:
        path = self.way.own_file.with_name("dba.cnf")
        path.write_text("[mysqld]\n" + "".join(f"{name} = {value}\n" for name, value in lines.items()))

    def conf(self) -> dict[str, Value]:
        path = self.way.own_file.with_name("dba.cnf")
        text = path.read_text() if path.exists() else ""
        return {name: _number(value, 1) for name, value in re.findall(r"^(\w+) = (\S+)$", text, re.MULTILINE)}

    def write_line(self, name: str, value: Value) -> None:
        """Into Trimtab's own file, by somebody who knows that it is read last."""
        path = self.way.own_file
        before = path.read_bytes() if path.exists() else b"[mysqld]\n"
        path.write_bytes(before + f"{name} = {value}\n".encode())

    def set_password(self, password: str) -> None:
        with self.way.server.admin() as admin:
            admin.rows("SET PASSWORD FOR tester@localhost = PASSWORD(%s)", [password])


def _number(text: str, unit: int) -> Value:
    """In units of `unit` bytes, or plain."""
    found = re.fullmatch(r"(-?[\d.]+) ?(\w*)", text)
    assert found is not None, text
    number = float(found[1]) * (_UNITS[found[2]] / unit if found[2] else 1)
    return int(number) if number == int(number) else number


def ground_of(way: Way) -> Ground:
    return PostgresGround(way) if isinstance(way, PostgresWay) else MariaDbGround(way)
