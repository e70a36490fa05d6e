"""The `trimtab` command in processes of its own, on real servers: an embedded one, and Debian's PostgreSQL 15."""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.commands import start_trimtab
from tests.needs import require
from tests.servers import made
from tests.servers.embedded import provide
from tests.servers.postgresql import DEBIAN, Server, started
from tests.wayback.tuner import prove
from trimtab.systems.account import Account

STUDY = """
[study]
name = "{name}"
budget = "{budget}"

[target.db]
kind = "postgresql"
memory = "1GiB"
{target}

[workload]
{workload}

[measure]
window = "1s"
window_max = "1s"
warmup_floor = "0s"
warmup_cap = "0s"

[proof]
min_pairs = 2
max_pairs = 2
advice = false
ablate = false
"""

TPCH = 'kind = "tpch"\nscale = 0.01\nmix = { q6 = 1 }'
SLEEPING = 'kind = "sql"\ndatabase = "postgres"\nfiles = ["sleep.sql"]\nread_only = true\nload = { users = 4 }'
"""Statements that mostly sleep: for tests that are not about a kind of workload. They leave the processor to the other tests, and
no busy machine makes a run of them invalid."""
SLEEP = (
    "SELECT count(*), pg_sleep(CASE WHEN current_setting('work_mem') IN ('4MB', '3MB') THEN 0.1 ELSE 0.11 END)"
    " FROM generate_series(1, 100);\n"
)
"""Slower with another `work_mem` than found: what is tried needs no proof, which would be half of the study's runs."""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


class Place:
    """A directory with a study file, a state and a cache."""

    def __init__(self, folder: Path, *, is_new: bool = False) -> None:
        self.folder = folder
        self.is_new = is_new
        self.cache = folder / "cache"
        self.cache.mkdir()
        self.environment = {**os.environ, "TRIMTAB_CACHE": str(self.cache), "NO_COLOR": "1"}

    def write(self, target: str, *, name: str = "e2e", budget: str = "3 trials", workload: str = SLEEPING) -> None:
        text = STUDY.format(name=name, budget=budget, target=target, workload=workload)
        (self.folder / "study.toml").write_text(text)
        (self.folder / "sleep.sql").write_text(SLEEP)
        self.provide(target)

    def provide(self, target: str) -> None:
        """Gives the embedded server that `target` names its data: a copy of what Trimtab itself makes.

        A place that `is_new` has an empty cache, as a user has before the first study.
        """
        kind = re.search(r'embedded = "(.*)"', target)
        if kind is not None and not self.is_new:
            provide(self.cache, kind[1])

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return start_trimtab(arguments, cwd=self.folder, env=self.environment, stdout=pipe, stderr=pipe)

    def run(self, *arguments: str) -> Ran:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        return Ran(process.returncode, out, err)

    def json(self, *arguments: str) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.run(*arguments, "--json").out)
        return data

    def win(self, name: str, **config: object) -> None:
        """Puts the study, as if it were proven with that config, into the history."""
        with mock.patch.dict(os.environ, self.environment):
            prove(self.folder / "study.toml", self.folder / ".trimtab", {name: config})

    def auto_conf(self) -> bytes:
        """Of the embedded server."""
        (path,) = self.cache.glob("postgresql/*/data/postgresql.auto.conf")
        return path.read_bytes()


def servers_under(folder: Path) -> list[int]:
    """Pids of every postgres whose data directory lies under `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"postgres" in command and str(folder).encode() in command:
                found.append(int(entry.name))
    return found


@contextmanager
def _place(*, is_new: bool) -> Iterator[Place]:
    """Outside pytest's private folders: the server's own user must be able to enter it."""
    with made("e2e") as folder:
        yield Place(folder, is_new=is_new)
        left = servers_under(folder)
        for pid in left:
            os.kill(pid, signal.SIGQUIT)
    assert not left, "a server was left running"


@pytest.fixture
def place() -> Iterator[Place]:
    """A place whose embedded servers have their data."""
    with _place(is_new=False) as place:
        yield place


@pytest.fixture
def new_place() -> Iterator[Place]:
    """A place with an empty cache."""
    with _place(is_new=True) as place:
        yield place


@dataclass(frozen=True)
class Debian:
    """A cluster of Debian's PostgreSQL with its socket and its own user, restarted by a command."""

    server: Server
    target: str

    @property
    def data_dir(self) -> Path:
        return self.server.data_dir

    @property
    def dsn(self) -> str:
        return f"host={self.server.sockets} port={self.server.port} user=postgres"

    def auto_conf(self) -> bytes:
        return self.server.auto_conf.read_bytes()


@pytest.fixture
def debian(place: Place) -> Iterator[Debian]:
    require("root", "postgresql-debian")
    user = pwd.getpwnam("postgres")
    account = Account("postgres", user.pw_uid, user.pw_gid)
    with started(DEBIAN, settings="work_mem = '3MB'\n", account=account) as server:
        server.control("stop")
        with server.auto_conf.open("a") as file:
            file.write("random_page_cost = '3.5'\n")
        server.control("start")
        target = (
            f'url = "host={server.sockets} port={server.port} user=postgres dbname=postgres"\n'
            f'data_dir = "{server.data_dir}"\nrestart = "{server.restart_command}"\n'
            'knobs = ["shared_buffers", "work_mem", "random_page_cost"]'
        )
        yield Debian(server, target)
