"""What needs no code, tuned end to end by the examples: a Redis, and the flags of a compression command."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import start_trimtab
from tests.servers import free_port, made

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = """
[measure]
window = "1s"
window_max = "1s"
warmup_floor = "0s"
warmup_cap = "0s"

[search]
searcher = "random"

[proof]
min_pairs = 2
max_pairs = 2
advice = false
ablate = false
max_noise = 5.0
"""
pytestmark = pytest.mark.service


@pytest.fixture
def folder() -> Iterator[Path]:
    with made("any") as folder:
        shutil.copytree(EXAMPLES / "catalogs", folder / "catalogs")
        yield folder


def shortened(name: str) -> str:
    """The example with the least that a study needs."""
    text = (EXAMPLES / name).read_text()
    text = re.sub(r'budget = "\d+m"', 'budget = "1 trial"', text).partition("\n[measure]")[0]
    return text + SHORT


def trimtab(folder: Path, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
    own = {"TRIMTAB_CACHE": str(folder / "cache"), "TRIMTAB_STATE": str(folder / "state"), "NO_COLOR": "1"}
    pipe = subprocess.PIPE
    process = start_trimtab(arguments, cwd=folder, env={**os.environ, **own}, stdout=pipe, stderr=pipe)
    out, err = process.communicate(timeout=240)
    assert process.returncode in codes, out + err
    return out


@pytest.mark.needs("redis")
def test_redis_is_tuned_by_a_catalogue_alone(folder: Path) -> None:
    port = str(free_port())
    conf = (EXAMPLES / "redis.conf").read_text().replace("6399", port)
    (folder / "redis.conf").write_text(conf)
    (folder / "redis.toml").write_text(shortened("redis.toml").replace("6399", port).replace("-n 50000", "-n 1000"))
    assert "ok    program: redis, pid=" in trimtab(folder, "doctor", "redis.toml")
    trimtab(folder, "tune", "redis.toml", codes=(0, 1))
    shown = json.loads(trimtab(folder, "history", "show", "redis", "--json"))
    trials = shown["trials"]
    assert {trial["status"] for trial in trials} == {"ok"}, [trial.get("reason") for trial in trials]
    tried = [trial["effective"] for trial in trials if trial["role"] == "search"]
    assert tried
    assert all(effective for effective in tried)
    assert (folder / "redis.conf").read_text() == conf
    assert subprocess.run(["redis-cli", "-p", port, "ping"], capture_output=True, check=False).returncode != 0, (
        "it still runs"
    )


@pytest.mark.full
@pytest.mark.needs("zstd")
def test_the_flags_of_a_command_are_tuned(folder: Path) -> None:
    (folder / "data").write_bytes(b"".join(b"line %d of the data\n" % (n * n % 9973) for n in range(60_000)))
    (folder / "zstd.toml").write_text(shortened("zstd.toml"))
    trimtab(folder, "tune", "zstd.toml", codes=(0, 1))
    shown = json.loads(trimtab(folder, "history", "show", "zstd", "--json"))
    assert {trial["status"] for trial in shown["trials"]} == {"ok"}, [t.get("reason") for t in shown["trials"]]
    assert (folder / "data.zst").exists()
    assert not (folder / "zstd.flags").exists()


@pytest.mark.needs("zstd")
def test_a_command_is_measured_with_other_flags(folder: Path) -> None:
    (folder / "data").write_bytes(b"".join(b"line %d of the data\n" % (n * n % 9973) for n in range(60_000)))
    (folder / "zstd.toml").write_text(shortened("zstd.toml"))
    trimtab(folder, "bench", "zstd.toml", "--runs", "1", "--set", "level=9", "--set", "window_log=20")
    assert (folder / "data.zst").exists()
    assert not (folder / "zstd.flags").exists()
