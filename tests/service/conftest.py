"""The `trimtab` command in processes of its own, on real servers: an embedded one, and Debian's PostgreSQL 15."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PG_CONTROL = Path(__file__).parents[1] / "target" / "pg_control.py"

STUDY = """
[study]
name = "{name}"
budget = "{budget}"

[target.db]
kind = "postgresql"
memory = "1GiB"
{target}

[workload]
kind = "tpch"
scale = 0.01
mix = {{ q6 = 1, q13 = 1 }}

[measure]
window = "2s"
window_max = "2s"
warmup_floor = "1s"
warmup_cap = "1s"

[proof]
min_pairs = 2
max_pairs = 2
advice = false
ablate = false
"""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


class Place:
    """A directory with a study file, a state and a cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.cache.mkdir()
        self.environment = {**os.environ, "TRIMTAB_CACHE": str(self.cache), "NO_COLOR": "1"}

    def write(self, target: str, *, name: str = "e2e", budget: str = "3 trials") -> None:
        (self.folder / "study.toml").write_text(STUDY.format(name=name, budget=budget, target=target))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "trimtab", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, cwd=self.folder, env=self.environment, stdout=pipe, stderr=pipe, text=True)

    def run(self, *arguments: str) -> Ran:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        return Ran(process.returncode, out, err)

    def json(self, *arguments: str) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.run(*arguments, "--json").out)
        return data

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


@pytest.fixture
def place() -> Iterator[Place]:
    """Outside pytest's private folders: the server's own user must be able to enter it."""
    folder = Path(tempfile.mkdtemp(prefix="tt-e2e-"))
    folder.chmod(0o755)
    yield Place(folder)
    left = servers_under(folder)
    for pid in left:
        os.kill(pid, 3)
    shutil.rmtree(folder, ignore_errors=True)
    assert not left, "a server was left running"


@dataclass(frozen=True)
class Debian:
    """A cluster of Debian's PostgreSQL 15 with its socket, restarted by a command."""

    data_dir: Path
    target: str
    control: tuple[str, ...]

    def auto_conf(self) -> bytes:
        return (self.data_dir / "postgresql.auto.conf").read_bytes()


@pytest.fixture
def debian(place: Place) -> Iterator[Debian]:
    bin_dir = Path("/usr/lib/postgresql/15/bin")
    if not (bin_dir / "postgres").exists() or os.geteuid() != 0:
        reason = "needs Debian's postgresql-15 and root (tests/install-servers.sh installs it)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    import pwd

    uid = pwd.getpwnam("postgres").pw_uid
    home = place.folder / "debian"
    home.mkdir()
    os.chown(home, uid, -1)
    data = home / "data"
    subprocess.run([bin_dir / "initdb", "-D", data, "-A", "trust", "--no-locale"], check=True, user=uid, cwd="/",
                   capture_output=True, extra_groups=[], group=pwd.getpwnam("postgres").pw_gid)  # fmt: skip
    with (data / "postgresql.conf").open("a") as file:
        file.write(f"listen_addresses = ''\nport = 5999\nunix_socket_directories = '{home}'\nwork_mem = '3MB'\n")
    with (data / "postgresql.auto.conf").open("a") as file:
        file.write("random_page_cost = '3.5'\n")
    control = (sys.executable, str(PG_CONTROL), str(bin_dir), str(data), str(uid))
    subprocess.run([*control, "start"], check=True, capture_output=True)
    restart = " ".join(control) + " restart"
    target = (
        f'url = "host={home} port=5999 user=postgres dbname=postgres"\n'
        f'data_dir = "{data}"\nrestart = "{restart}"\n'
        'knobs = ["shared_buffers", "work_mem", "random_page_cost"]'
    )
    yield Debian(data, target, control)
    subprocess.run([*control, "stop"], check=True, capture_output=True)
