"""An embedded PostgreSQL 18 with the extension, compiled for it; gone afterwards."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from trimtab.records import Endpoint
from trimtab.systems.account import Account, server_account
from trimtab.systems.postgresql.install import find_install

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "extensions" / "postgresql"
SECTIONS = ROOT / "clients" / "c" / "sections"
PORT = 5432
SETTINGS = """
listen_addresses = ''
fsync = off
autovacuum = off
shared_buffers = '1GB'
max_wal_size = '4GB'
max_worker_processes = 8
"""
"""As delivered, but for what keeps the machine quiet and the data in memory: the seed measured with warm caches."""


def _compiled(install: Path, folder: Path) -> Path:
    include = install / "include" / "postgresql" / "server"
    sources = [
        *EXTENSION.glob("src/*.c"),
        *(SECTIONS / f"trimtab_{name}.c" for name in ("tuner", "search", "simplex", "points")),
    ]
    argv = ["cc", "-shared", "-fPIC", "-std=gnu99", "-O2", f"-I{SECTIONS}", f"-I{EXTENSION / 'src'}", f"-I{include}"]
    goal = folder / "trimtab.so"
    subprocess.run([*argv, *map(str, sources), "-lm", "-o", str(goal)], check=True)
    goal.chmod(0o755)
    return goal


def _run(account: Account, *argv: str) -> None:
    subprocess.run(argv, check=True, user=account.uid, group=account.gid, stdout=subprocess.DEVNULL, cwd="/")


def made(folder: Path, account: Account) -> tuple[Path, Path, Path]:
    """(data directory, programs, the extension's library), all in `folder`; the data directory is kept for the next run."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    install = find_install("18", account, folder / "cache")
    data, programs, library = folder / "server" / "data", install / "bin", _compiled(install, folder)
    if not data.exists():
        data.parent.mkdir(exist_ok=True)
        shutil.chown(data.parent, account.uid, account.gid)
        _run(account, str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-N", "--no-locale")
    return data, programs, library


@contextmanager
def running(folder: Path, is_preloaded: bool = True) -> Iterator[Endpoint]:
    """The server's address inside; `folder` is made, its data directory is kept for the next run.

    With `is_preloaded` each session has the extension; else none has that does not load it.
    """
    account = server_account()
    data, programs, library = made(folder, account)
    lines = f"{SETTINGS}unix_socket_directories = '{data.parent}'\n"
    if is_preloaded:
        lines += f"shared_preload_libraries = '{library}'\ntrimtab.file = ''\ntrimtab.allow_order = on\n"
    (data / "postgresql.auto.conf").write_text(lines)
    log = str(data.parent / "log")
    _run(account, str(programs / "pg_ctl"), "-D", str(data), "-l", log, "-w", "start")
    try:
        yield Endpoint(protocol="postgresql", host=str(data.parent), port=PORT, user="postgres", database="postgres")
    finally:
        _run(account, str(programs / "pg_ctl"), "-D", str(data), "-m", "fast", "-w", "stop")


def connection(endpoint: Endpoint, database: str) -> psycopg.Connection[tuple[object, ...]]:
    """Autocommit; statements are planned each time, as a reporting tool sends them."""
    return psycopg.connect(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        dbname=database,
        autocommit=True,
        prepare_threshold=None,
    )


def views(session: psycopg.Connection[tuple[object, ...]], folder: Path) -> None:
    """The extension's views and functions, without an installation."""
    text = (EXTENSION / "trimtab--1.0.sql").read_text(encoding="utf-8")
    made = "SELECT oid::regprocedure::text FROM pg_proc WHERE proname LIKE 'trimtab\\_%'"
    for (function,) in session.execute(made.encode()).fetchall():  # of an earlier build
        session.execute(f"DROP FUNCTION {function} CASCADE".encode())
    session.execute(text.replace("MODULE_PATHNAME", str(folder / "trimtab.so")).encode())
