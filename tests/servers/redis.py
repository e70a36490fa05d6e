"""A Redis of a test's own: Debian's program in a folder of its own, started and stopped by its commands."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.run import free_port, made

__all__ = ["CATALOG", "Redis", "started"]

CATALOG = Path(__file__).parents[2] / "src" / "trimtab" / "catalog" / "kinds" / "redis.toml"

_CONF = """# a configuration by hand
port {port}
bind 127.0.0.1
daemonize yes
pidfile {folder}/redis.pid
logfile {folder}/redis.log
dir {folder}
save ""
# the next line was measured in March
hz 10
maxmemory 64mb
"""

_LEFT_OUT = ("maxmemory_policy", "io_threads_do_reads", "dynamic_hz", "maxclients", "hash_max_listpack_entries",
             "lazyfree_lazy_user_del")  # fmt: skip
"""Each knob costs a command at each look."""


def _without(catalog: str, names: tuple[str, ...]) -> str:
    parts = re.split(r"(?m)^(?=\[)", catalog)
    left_out = (
        "[lifecycle]",
        "[play.",
        *(f"[knob.{name}]" for name in names),
    )  # a server of a test's own is not run as a package's
    return "".join(part for part in parts if not part.startswith(left_out))


@dataclass(frozen=True)
class Redis:
    """A server that runs by itself.

    Attributes:
        folder: of everything.
        port: of 127.0.0.1.
    """

    folder: Path
    port: int

    @property
    def conf(self) -> Path:
        return self.folder / "redis.conf"

    @property
    def cli(self) -> str:
        return f"redis-cli -e -h 127.0.0.1 -p {self.port}"

    @property
    def pid(self) -> int | None:
        try:
            return int((self.folder / "redis.pid").read_text())
        except (OSError, ValueError):
            return None

    def table(self, **more: object) -> dict[str, object]:
        """Its [target.NAME] table: by commands, with its values read back."""
        return {
            "kind": "program",
            "catalog": str(self.folder / CATALOG.name),
            "files": {"conf": str(self.conf)},
            "start": f"redis-server {self.conf}",
            "stop": f"{self.cli} shutdown nosave",
            "health": f"{self.cli} ping",
            "read": f"{self.cli} config get {{addresses}}",
            "pid_file": str(self.folder / "redis.pid"),
            "process": "redis-server",
            "log_file": str(self.folder / "redis.log"),
            "restart_timeout_s": 10,
            "memory": "256MB",
            "unlock": ["data_loss"],
            **more,
        }

    def own_table(self, **more: object) -> dict[str, object]:
        """The same, run by Trimtab itself."""
        left_out = ("start", "stop", "pid_file", "process", "log_file")
        table = {key: value for key, value in self.table().items() if key not in left_out}
        return {**table, "run": f"redis-server {self.conf} --daemonize no --logfile ''", **more}

    def asked(self, address: str) -> str:
        """The value in use."""
        argv = [*self.cli.split(), "config", "get", address]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()[-1]

    def start(self) -> None:
        subprocess.run(["redis-server", str(self.conf)], check=True, capture_output=True)
        until = time.monotonic() + 60
        while subprocess.run([*self.cli.split(), "ping"], capture_output=True, check=False).returncode != 0:
            assert time.monotonic() < until
            time.sleep(0.01)

    def stop(self) -> None:
        subprocess.run([*self.cli.split(), "shutdown", "nosave"], capture_output=True, check=False)
        self.wait_gone()

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        pid = self.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self.wait_gone()

    def wait_gone(self) -> None:
        until = time.monotonic() + 60
        while subprocess.run([*self.cli.split(), "ping"], capture_output=True, check=False).returncode == 0:
            assert time.monotonic() < until
            time.sleep(0.01)


@contextmanager
def started(*, runs: bool = True) -> Iterator[Redis]:
    """A running Redis (or the files of one), gone at the end."""
    with made("redis") as folder:
        redis = Redis(folder, free_port())
        redis.conf.write_text(_CONF.format(port=redis.port, folder=folder))
        # Wider limits than Redis has: values that it refuses, or makes others of, are let through to it.
        text = (
            CATALOG.read_text()
            .replace("hard = [1, 128]", "hard = [1, 1000]")
            .replace("hard = [1, 500]", "hard = [1, 5000]")
        )
        (folder / CATALOG.name).write_text(_without(text, _LEFT_OUT))
        if runs:
            redis.start()
        try:
            yield redis
        finally:
            redis.stop()
