"""Ways to programs that a catalogue describes: httpd and Tomcat, private ("embedded") or Debian's own ("files"), a private
Cassandra, and a stack of the first two with PostgreSQL below them.

What they use is asked of them in their own protocol: answers' headers, httpd's status page, `jcmd`, CQL.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from tests.fetch_servers import PROGRAMS
from tests.needs import IS_FULL
from tests.servers import free_port, packaged
from tests.wayback.ways import PostgresWay, Templates, Way
from trimtab.errors import TargetError
from trimtab.host import process_mark
from trimtab.space import Config, Value
from trimtab.systems.cql import cql_rows

__all__ = ["CassandraWay", "HttpdWay", "ProgramWay", "StackWay", "TomcatWay", "write_program_study"]

_SETTLES_S = 20.0
_STUDY = """[study]
name = "one"
budget = "2 trials"
{tables}
[workload]
{load}

[search]
searcher = "random"

[proof]
advice = false
"""


class ProgramWay(Way):
    """One program; `tier` is the name of its target."""

    version: ClassVar[str]
    tier: ClassVar[str]
    names: ClassVar[Mapping[str, str]] = {}
    load: ClassVar[str] = 'kind = "http"\npages = ["/"]'
    """The study's [workload]."""
    password_variable = "TRIMTAB_NO_PASSWORD"

    def __init__(self, folder: Path, reach: str, templates: Templates, *, cache: Path | None = None) -> None:
        super().__init__(folder, reach, templates)
        if cache is not None:
            self.cache = cache
        if os.path.isdir(PROGRAMS) and not (self.cache / "programs").exists():
            (self.cache / "programs").symlink_to(PROGRAMS)
        self._port = free_port()
        self._packaged = {} if self.is_embedded else self._made()
        if self.is_embedded:
            with self.up():
                """Its files are made at its first start."""
            self._as_administrator()
        else:
            self.control("start")
            self.wait_up()

    @abstractmethod
    def _made(self) -> dict[str, Any]:
        """Debian's, in the folder; what its table says."""

    def _as_administrator(self) -> None:
        """Writes into the private one's files what is found there then."""

    @property
    @abstractmethod
    def _own_files(self) -> tuple[Path, ...]:
        """What Trimtab writes."""

    @property
    def home(self) -> Path:
        """Of the private one."""
        return self.cache / self.product / f"{self.version}-{self.tier}"

    def table(self, *, with_password: bool = False, **more: object) -> dict[str, object]:
        private = {"kind": self.product, "embedded": self.version, "port": self._port, "names": dict(self.names)}
        return {**(private if self.is_embedded else self._packaged), "memory": "1GiB", **more}

    def tables(self) -> dict[str, dict[str, object]]:
        """Target -> its table in a study file."""
        return {self.tier: self.table(knobs=list(self.config))}

    def _target(self) -> Any:
        from trimtab import plugins

        table = self.table(knobs="all")
        return plugins.load("targets", self.product).from_settings(self.tier, table, state_dir=self.folder / "look")

    @contextmanager
    def _here(self) -> Iterator[None]:
        with mock.patch.dict(os.environ, {"TRIMTAB_CACHE": str(self.cache)}):
            yield

    @property
    def pid(self) -> int | None:
        if not self.is_embedded:
            pid_file = Path(str(self._packaged["pid_file"]))
            text = pid_file.read_text().strip() if pid_file.exists() else ""
            return int(text) if text and process_mark(int(text)) else None
        for record in self.cache.glob(f"{self.product}/{self.tier}-*/program.pid"):
            pid, mark = record.read_text().split()
            if process_mark(int(pid)) == mark:
                return int(pid)
        return None

    @contextmanager
    def up(self) -> Iterator[None]:
        if self.pid is not None:
            yield
            return
        assert self.is_embedded, "a server of somebody else's is down"
        with self._here():
            target = self._target()
            target.open()
            try:
                yield
            finally:
                target.close()

    def control(self, verb: str) -> None:
        if self.is_embedded:
            if verb != "start" and self.pid is not None:
                with self._here():
                    target = self._target()
                    target.open()
                    target.close()
            return
        for each in ("stop", "start") if verb == "restart" else (verb,):
            if each == "start" or self.pid is not None:
                command = str(self._packaged[each]).split()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)

    def settings(self) -> dict[str, str]:
        """In the quick form `values` and the bytes of the files must do: each question costs a run of the program."""
        if not IS_FULL:
            return {}
        with self._here():
            return {name: str(state.running) for name, state in self._target().states().items()}

    def own_content(self) -> bytes | None:
        files = {str(path): _packed(path) for path in self._own_files}
        return json.dumps(files).encode()

    def put_own_content(self, content: bytes | None) -> None:
        for name, packed in json.loads(content or b"{}").items():
            Path(name).unlink(missing_ok=True) if packed is None else Path(name).write_bytes(base64.b64decode(packed))

    def set_by_sql(self, name: str, value: Value) -> None:
        raise AssertionError("no SQL here")

    @property
    def own_file(self) -> Path:
        return self._own_files[0]

    def answer(self, path: str) -> tuple[HTTPResponse, str]:
        """Of one request that asks for a lasting connection.

        Raises:
            TargetError: nobody answers.
        """
        connection = HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            connection.request("GET", path, headers={"Connection": "keep-alive"})
            response = connection.getresponse()
            return response, response.read().decode()
        except (OSError, HTTPException) as error:
            raise TargetError(f"no answer: {error}", hint="look at its log") from error
        finally:
            connection.close()

    def kept_alive(self) -> dict[str, int]:
        """What it says of how long, and for how many requests, it keeps a connection."""
        response, _ = self.answer("/")
        assert response.status == 200
        text = response.headers.get("Keep-Alive", "")
        return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", text)}

    def destroy(self) -> None:
        self.control("stop")
        import shutil

        shutil.rmtree(self.folder, ignore_errors=True)


class HttpdWay(ProgramWay):
    """Settings that a graceful restart changes, and some that need a restart; of the private one its MPM, in a second file."""

    product, version, tier = "httpd", "2.4", "web"
    reloaded: ClassVar[Mapping[str, tuple[Value, Value]]] = {
        "KeepAliveTimeout": (5, 20),
        "MaxKeepAliveRequests": (100, 500),
    }
    names: ClassVar[Mapping[str, str]] = {
        "directives": "<Location /server-status>\n  SetHandler server-status\n</Location>"
    }
    _MOST = 400
    """Workers that the ServerLimit as found allows: 16 processes of 25 threads."""

    @property
    def restarted(self) -> Mapping[str, tuple[Value, Value]]:  # type: ignore[override]
        workers = {"ServerLimit": (16, 20), "MaxRequestWorkers": (self._MOST if self.is_embedded else 150, 500)}
        return {**workers, **({"mpm": ("event", "worker")} if self.is_embedded else {})}

    def _made(self) -> dict[str, Any]:
        return packaged.httpd(self.folder, self._port)

    @property
    def _own_files(self) -> tuple[Path, ...]:
        if self.is_embedded:
            return self.home / "conf.d/trimtab.conf", self.home / "httpd.conf"
        return tuple(Path(path) for path in self._packaged["files"].values())

    def values(self) -> dict[str, Value]:
        """What the file says is awaited: after a graceful restart a child with the config before may answer for a moment."""
        until = time.monotonic() + _SETTLES_S
        conf = self._own_files[0].read_text() if self._own_files[0].exists() else ""
        told = {n: v[1] if f"{n} {v[1]}\n" in conf else v[0] for n, v in self.reloaded.items()}
        while True:
            now = self._now()
            if all(now[name] == value for name, value in told.items()) or time.monotonic() > until:
                return now
            time.sleep(0.02)

    def _now(self) -> dict[str, Value]:
        kept, (_, status) = self.kept_alive(), self.answer("/server-status?auto")
        lines = dict(line.split(": ", 1) for line in status.splitlines() if ": " in line)
        found: dict[str, Value] = {
            "KeepAliveTimeout": kept["timeout"],
            "MaxKeepAliveRequests": kept["max"],
            "ServerLimit": 20 if len(lines["Scoreboard"]) > self._MOST else 16,
            "MaxRequestWorkers": len(lines["Scoreboard"]),
            "mpm": lines["ServerMPM"],
        }
        return {name: found[name] for name in self.found}


class TomcatWay(ProgramWay):
    """One setting in each of two files: of the connector, and of the Java machine."""

    product, version, tier = "tomcat", "10.1", "app"
    reloaded: ClassVar[Mapping[str, tuple[Value, Value]]] = {}
    # A small Java machine that starts quickly.
    _OPTIONS = "-XX:MaxHeapSize=64m\n-XX:+UseSerialGC\n-XX:TieredStopAtLevel=1\n"

    @property
    def restarted(self) -> Mapping[str, tuple[Value, Value]]:  # type: ignore[override]
        # Without a keepAliveTimeout that of the connection counts; Debian's file has one.
        kept = 60_000 if self.is_embedded else 20_000
        return {"keepAliveTimeout": (kept, 30_000), "MinHeapFreeRatio": (40, 30)}

    def _as_administrator(self) -> None:
        with self._own_files[-1].open("a") as options:
            options.write(self._OPTIONS)

    def _made(self) -> dict[str, Any]:
        return packaged.tomcat(self.folder, self._port, options=self._OPTIONS)

    @property
    def _own_files(self) -> tuple[Path, ...]:
        conf = self.home / "conf" if self.is_embedded else self.folder / "tomcat/conf"
        return conf / "server.xml", conf / "context.xml", conf / "jvm.options"

    def values(self) -> dict[str, Value]:
        return {"keepAliveTimeout": self.kept_alive()["timeout"] * 1000, "MinHeapFreeRatio": _free_ratio(self.pid)}


class CassandraWay(ProgramWay):
    """One setting in each of two files: of the node, and of its Java machine."""

    product, version, tier = "cassandra", "5.0", "db"
    load = 'kind = "ycsb"\nworkload = "C"\nrecords = 10'
    reloaded: ClassVar[Mapping[str, tuple[Value, Value]]] = {}
    restarted: ClassVar[Mapping[str, tuple[Value, Value]]] = {
        "concurrent_reads": (32, 50),
        "MinHeapFreeRatio": (40, 30),
    }

    def table(self, *, with_password: bool = False, **more: object) -> dict[str, object]:
        return super().table(with_password=with_password, **{"memory": "2GiB", "restart_timeout_s": 300, **more})

    def _as_administrator(self) -> None:
        with self._own_files[-1].open("a") as options:
            options.write("-XX:TieredStopAtLevel=1\n")

    def _made(self) -> dict[str, Any]:
        raise AssertionError("there is no package of it")

    @property
    def _own_files(self) -> tuple[Path, ...]:
        return self.home / "conf/cassandra.yaml", self.home / "conf/jvm.options"

    def values(self) -> dict[str, Value]:
        asked = "SELECT value FROM system_views.settings WHERE name = 'concurrent_reads'"
        ((reads,),) = cql_rows(f"cql://127.0.0.1:{self._port}/", asked)
        return {"concurrent_reads": int(reads or 0), "MinHeapFreeRatio": _free_ratio(self.pid)}


def _free_ratio(pid: int | None) -> int:
    """A flag of a Java machine, as that says itself."""
    flags = subprocess.run(["jcmd", str(pid), "VM.flags", "-all"], capture_output=True, text=True, timeout=60)
    ratio = re.search(r" MinHeapFreeRatio +:?= (\d+)", flags.stdout)
    if ratio is None:
        raise TargetError(f"no flags: {flags.stdout[-500:]}{flags.stderr}", hint="is it there?")
    return int(ratio[1])


class StackWay(Way):
    """httpd, Tomcat and a PostgreSQL with its files, as targets `web`, `app` and `db`; Tomcat follows the database."""

    product = "httpd, tomcat, postgresql"
    load = ProgramWay.load
    reloaded: ClassVar[Mapping[str, tuple[Value, Value]]] = {}
    restarted: ClassVar[Mapping[str, tuple[Value, Value]]] = {}
    password_variable = "PGPASSWORD"

    def __init__(self, folder: Path, reach: str, templates: Templates) -> None:
        super().__init__(folder, reach, templates)
        self.db = PostgresWay(folder / "db", "files", templates)
        self.app = TomcatWay(folder / "app", reach, templates, cache=self.cache)
        self.web = HttpdWay(folder / "web", reach, templates, cache=self.cache)
        self.environment["PGPASSWORD"] = self.db.password
        self._tiers: dict[str, Any] = {"web": self.web, "app": self.app, "db": self.db}

    def table(self, *, with_password: bool = False, **more: object) -> dict[str, object]:
        raise AssertionError("it has several tables")

    def tables(self) -> dict[str, dict[str, object]]:
        """Of all tiers, the highest first; one budget for their memory."""
        db = {"db": self.db.table(knobs=list(self.db.config))}
        found = {**self.web.tables(), **self.app.tables(), **db}
        for table in found.values():
            table.pop("memory")
        found["app"]["follows"] = True
        return found

    @property
    def config(self) -> Config:
        return Config(self._of_all(lambda way: way.config))

    @property
    def found(self) -> Mapping[str, Value]:
        return self._of_all(lambda way: way.found)

    def _of_all(self, what: Any) -> dict[str, Any]:
        return {f"{tier}.{name}": value for tier, way in self._tiers.items() for name, value in what(way).items()}

    @contextmanager
    def up(self) -> Iterator[None]:
        with self.db.up(), self.app.up(), self.web.up():
            yield

    def values(self) -> dict[str, Value]:
        return self._of_all(lambda way: way.values())

    def settings(self) -> dict[str, str]:
        return self._of_all(lambda way: way.settings())

    def control(self, verb: str) -> None:
        for way in (self.db, self.app, self.web):
            if way is not self.db or self.db.pid is None or verb != "stop":
                way.control(verb)

    def own_content(self) -> bytes | None:
        return json.dumps({tier: _text(way.own_content()) for tier, way in self._tiers.items()}).encode()

    def put_own_content(self, content: bytes | None) -> None:
        for tier, packed in json.loads(content or b"{}").items():
            self._tiers[tier].put_own_content(None if packed is None else base64.b64decode(packed))

    def set_by_sql(self, name: str, value: Value) -> None:
        self.db.set_by_sql(name, value)

    @property
    def own_file(self) -> Path:
        return self.db.own_file

    def destroy(self) -> None:
        for way in self._tiers.values():
            way.destroy()


def write_program_study(way: ProgramWay | StackWay) -> Path:
    """The study file of `way`."""
    tables = "".join(f"\n[target.{name}]\n{_toml(table)}" for name, table in way.tables().items())
    if isinstance(way, StackWay):
        tables += '\n[stack]\nmemory = "2GiB"\n'
    text = _STUDY.format(tables=tables, load=way.load)
    path = way.folder / "one.toml"
    path.write_text(text.replace('pages = ["/"]', 'pages = ["/"]\ntarget = "web"') if "[stack]" in text else text)
    return path


def _toml(table: Mapping[str, object]) -> str:
    def value(each: object) -> str:
        if isinstance(each, dict):
            return "{ " + ", ".join(f"{name} = {json.dumps(text)}" for name, text in each.items()) + " }"
        return json.dumps(each)

    return "".join(f"{name} = {value(each)}\n" for name, each in table.items())


def _packed(path: Path) -> str | None:
    return _text(path.read_bytes()) if path.exists() else None


def _text(content: bytes | None) -> str | None:
    return base64.b64encode(content).decode() if content is not None else None
