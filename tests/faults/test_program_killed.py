"""The tuner is killed while it changes a Redis that a catalogue alone describes: the dead-man or `recover` puts it back."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.commands import start_trimtab
from tests.faults import killed_at
from tests.servers.redis import Redis, started

pytestmark = [pytest.mark.service, pytest.mark.needs("redis")]

STUDY = """
[study]
name = "redis"
budget = "2 trials"

[target.cache]
kind = "program"
catalog = "redis.toml"
files = {{ conf = "redis.conf" }}
start = "redis-server {folder}/redis.conf"
stop = "{cli} shutdown nosave"
health = "{cli} ping"
pid_file = "redis.pid"
process = "redis-server"
log_file = "redis.log"
memory = "256MB"

[workload]
kind = "command"
command = "redis-benchmark -p {port} -q -n 2000 -t set"
figure = "rate"
line = '([\\d.]+) requests per second'

[measure]
window = "1s"
window_max = "1s"
warmup_floor = "0s"
warmup_cap = "1s"
"""
BENCH = ("bench", "study.toml", "--runs", "1", "--set", "hz=50", "--set", "io_threads=2")
TARGET = "trimtab.systems.program.target:ProgramTarget"
POINTS = (
    "trimtab.systems.file_change:_Change.take_effect:before:1",
    f"{TARGET}.apply:after:1",
    "trimtab.systems.file_undo:Undo._file_back:after:1",
)
"""The file is written, and not read; all is made; the file is back, and the server not restarted."""


@dataclass(frozen=True)
class Place:
    redis: Redis
    found: bytes

    @property
    def folder(self) -> Path:
        return self.redis.folder

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "TRIMTAB_CACHE": str(self.folder / "cache"),
            "TRIMTAB_STATE": str(self.folder / "state"),
            "NO_COLOR": "1",
        }
        return {**os.environ, **own}

    def shot_at(self, point: str) -> int:
        """The exit code of a bench that kills itself there, and its dead-man with it."""
        process = start_trimtab(
            [point, "--", *BENCH], script=Path(killed_at.__file__), cwd=self.folder, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**self.environment, "TT_KILL_DEADMAN": "1"},
        )  # fmt: skip
        return process.wait(timeout=120)

    def start(self, *words: str, stream: int = subprocess.PIPE) -> subprocess.Popen[str]:
        return start_trimtab(words, cwd=self.folder, env=self.environment, stdout=stream, stderr=stream)

    def trimtab(self, *words: str) -> tuple[int, str, str]:
        """Exit code and output of a command."""
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def check(self) -> None:
        """As it was found, and running."""
        assert self.redis.conf.read_bytes() == self.found
        assert (self.redis.asked("hz"), self.redis.asked("io-threads")) == ("10", "1")
        assert not list((self.folder / "state" / "journal").glob("*.open"))


@pytest.fixture
def place() -> Iterator[Place]:
    with started() as redis:
        text = STUDY.format(folder=redis.folder, cli=redis.cli, port=redis.port)
        (redis.folder / "study.toml").write_text(text)
        yield Place(redis, redis.conf.read_bytes())


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.partition(":")[2])
def test_a_power_cut_is_undone_by_recover(place: Place, point: str) -> None:
    assert place.shot_at(point) == -signal.SIGKILL
    assert list((place.folder / "state" / "journal").glob("*.open"))
    code, out, _ = place.trimtab("recover")
    assert (code, out) == (0, "study redis: target cache restored as it was found\n")
    place.check()
    _, again, _ = place.trimtab("recover")
    assert again == "nothing to recover\n"


def test_the_dead_man_undoes_a_kill_during_the_load(place: Place) -> None:
    child = place.start(*BENCH, "--runs", "40", stream=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while place.redis.conf.read_bytes() == place.found or not _answers(place, "50"):
        assert time.monotonic() < until
        assert child.poll() is None
        time.sleep(0.05)
    child.kill()
    child.wait()
    while list((place.folder / "state" / "journal").glob("*.open")):
        assert time.monotonic() < until, "the dead-man did nothing"
        time.sleep(0.05)
    place.check()


def _answers(place: Place, hz: str) -> bool:
    try:
        return place.redis.asked("hz") == hz
    except subprocess.CalledProcessError:
        return False


def test_what_somebody_else_writes_after_a_kill_is_kept(place: Place) -> None:
    place.shot_at(POINTS[1])
    text = place.redis.conf.read_text()
    assert "hz 50" in text
    place.redis.conf.write_text(f"{text}timeout 7\n")
    code, out, err = place.trimtab("recover")
    assert code == 0, err
    assert "waits for a restart, which was not made because" in out
    assert place.redis.conf.read_bytes() == place.found + b"timeout 7\n"
