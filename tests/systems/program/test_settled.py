"""What a program uses and what its files say may differ when Trimtab comes: it is told, or kept, and never changed by the way."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import PYTHON
from tests.servers.redis import Redis, started
from tests.systems.program.conftest import CATALOG, CONTEXT, conf, made
from tests.systems.program.test_reload_back import CONF, KEEPER, READ, used
from trimtab.errors import TargetError
from trimtab.space import Config
from trimtab.systems.program import ProgramTarget


@pytest.fixture
def redis() -> Iterator[Redis]:
    with started() as server:
        yield server


def opened(redis: Redis, **more: object) -> ProgramTarget:
    table = redis.table(knobs="all", **more)
    target = ProgramTarget.from_settings("cache", table, state_dir=redis.folder / "state", directory=redis.folder)
    target.open()
    return target


def write(redis: Redis) -> None:
    redis.conf.write_text(redis.conf.read_text().replace("maxmemory 64mb", "maxmemory 100mb"))


def move(redis: Redis) -> None:
    """A file of an old date in its place."""
    fresh = redis.folder / "fresh"
    fresh.write_text(redis.conf.read_text().replace("tcp-backlog 500", "tcp-backlog 200"))
    os.utime(fresh, (1e9, 1e9))
    fresh.rename(redis.conf)


def set_live(redis: Redis) -> None:
    subprocess.run([*redis.cli.split(), "config", "set", "maxmemory", "32mb"], check=True)


@pytest.mark.service
@pytest.mark.needs("redis")
@pytest.mark.parametrize(
    ("act", "told"),
    [
        (write, "maxmemory=64MB, and 100MB by "),
        (set_live, "maxmemory=32MB, and 64MB by "),
        (move, "tcp_backlog=500, and 200 by "),
    ],
)
def test_what_a_restart_would_change_by_itself_is_told_before_anything_is_changed(
    redis: Redis, act: object, told: str
) -> None:
    assert callable(act)
    with redis.conf.open("a") as file:
        file.write("tcp-backlog 500\n")
    redis.restart()
    target, pid = opened(redis), redis.pid
    target.snapshot()
    act(redis)
    before = redis.conf.read_bytes()
    for ask in (target.snapshot, opened(redis).snapshot):
        with pytest.raises(TargetError, match="a restart would change what the program uses, for its files say"):
            ask()
    with pytest.raises(TargetError, match=told) as caught:
        target.snapshot()
    assert "redis.conf:" in caught.value.message
    assert "allow_restart = false" in (caught.value.hint or "")
    assert told in next(text for name, is_fine, text in target.doctor() if name == "values" and not is_fine)
    opened(redis, allow_restart=False).snapshot()
    assert (redis.conf.read_bytes(), redis.pid) == (before, pid)
    redis.restart()
    target.snapshot()


def test_a_start_that_would_load_other_data_is_told_before_anything_is_changed(folder: Path) -> None:
    """By something that is no knob."""
    path = 'path = "squeeze.conf"\n'
    (folder / "catalog.toml").write_text(CATALOG.replace(path, f'{path}must_agree = ["name", "other"]\n'))
    (folder / "used").write_text("level 3\nthreads 1\nwindow 512k\nchecksum yes\nname X\n")
    run = f"{PYTHON} -IS program.py {folder}"
    target = made(folder, run=run, health=f"test -f {folder}/seen", read="sh -c 'cat used' {addresses}")
    target.open()
    try:
        target.snapshot()
        (folder / "squeeze.conf").write_text(conf(folder).replace("name = x", "name = y"))
        with pytest.raises(TargetError, match=r"what no trial may change: name=X, and y by \S+/squeeze.conf") as caught:
            target.snapshot()
        assert "set it in the running program first" in (caught.value.hint or ""), "a restart by hand is worse"
        values = next(text for name, is_fine, text in target.doctor() if name == "values" and not is_fine)
        assert values.startswith("name=X, and y by ")
        assert target._pending.differing(target.states(), can_restart=False) == ()
    finally:
        target.close()


@pytest.mark.service
@pytest.mark.needs("redis")
def test_a_redis_that_would_begin_an_empty_append_only_file_is_not_restarted(redis: Redis) -> None:
    """It would load nothing, and save that over its keys: `appendonly` is switched on in the running server first. Nor is one
    restarted that `redis-cli` does not ask."""
    redis.conf.write_text(f"{redis.conf.read_text()}appendonly yes\n")
    target, pid = opened(redis), redis.pid
    with pytest.raises(TargetError, match=r"what no trial may change: appendonly=no, and yes by \S+/redis.conf"):
        target.snapshot()
    assert redis.pid == pid
    subprocess.run([*redis.cli.split(), "config", "set", "appendonly", "yes"], check=True)
    target.snapshot()
    redis.conf.write_text(redis.conf.read_text().replace(f"port {redis.port}\n", "port 1\n"))
    with pytest.raises(TargetError, match=rf"port={redis.port}, and 1 by ") as caught:
        target.snapshot()
    assert (caught.value.hint or "").startswith("is it the program of this file that is asked, ")


@pytest.mark.service
@pytest.mark.needs("redis")
def test_a_redis_that_saves_may_have_its_data_twice(redis: Redis) -> None:
    """While a forked process writes them; one that saves nothing has no such process."""
    target = opened(redis)
    found = {}
    for key, value in (("save", "3600 1"), ("save", ""), ("appendonly", "yes"), ("appendonly", "no")):
        subprocess.run([*redis.cli.split(), "config", "set", key, value], check=True)
        found[key, value] = target.memory(CONTEXT).use({})["saving"]
    assert list(found.values()) == [64 << 20, 0, 64 << 20, 0]


@pytest.mark.service
@pytest.mark.needs("redis")
def test_another_spelling_of_what_is_in_use_is_fine(redis: Redis) -> None:
    redis.conf.write_text(redis.conf.read_text().replace("maxmemory 64mb", "MAXMEMORY   67108864"))
    opened(redis).snapshot()


@pytest.mark.service
@pytest.mark.needs("redis")
def test_a_size_without_b_is_what_redis_makes_of_it(redis: Redis) -> None:
    """64m are 64,000,000 bytes to Redis, and 64mb are 67,108,864."""
    redis.conf.write_text(redis.conf.read_text().replace("maxmemory 64mb", "maxmemory 64m"))
    redis.restart()
    target = opened(redis)
    assert target.snapshot().values["maxmemory"] == 64_000_000
    assert next(is_fine for name, is_fine, _ in target.doctor() if name == "values")


@pytest.mark.service
@pytest.mark.needs("redis")
def test_what_a_restart_loses_for_good_is_told_before_a_study(redis: Redis) -> None:
    target = opened(redis)
    (keys,) = target.notes()
    assert keys.startswith("a restart loses all its keys (save='', appendonly=no), and trials restart the program; ")
    for words in (("save", "60 1"), ("activerehashing", "no")):
        subprocess.run([*redis.cli.split(), "config", "set", *words], check=True)
    (alone,) = target.notes()
    assert alone.startswith(
        "no file names activerehashing=off (by default on): if that was set in the running program, "
    )
    assert [(is_fine, text) for name, is_fine, text in target.doctor() if name == "restart loses"] == [(False, alone)]
    assert opened(redis, allow_restart=False).notes() == ()
    target.snapshot()


@pytest.fixture
def keeper(folder: Path) -> Iterator[ProgramTarget]:
    """A program that keeps what its file names no longer, and tells what it uses."""
    ready = '(folder / "ready").write_text(f"{os.getpid()}\\n")\n    while True:'
    (folder / "squeeze.conf").write_text(CONF)
    (folder / "keeper.py").write_text(KEEPER.replace("while True:", ready))
    (folder / "read.sh").write_text(READ)
    keep = f"{PYTHON} -IS keeper.py {folder}"
    more = {"read": "sh read.sh {address}", "health": f"grep -qx {{pid}} {folder}/ready"}
    target = made(folder, run=f"{keep} run", reload=f"{keep} reload {{back}}", **more)
    target.open()
    yield target
    target.close()


@pytest.mark.slow
def test_what_was_set_in_the_program_alone_is_there_after_a_restart_of_ours(
    folder: Path, keeper: ProgramTarget
) -> None:
    """The file says 512k, and the program uses 128k: in a trial, and after the way back."""
    (folder / "used.json").write_text(json.dumps({**used(folder), "window": "128k"}))
    found = keeper.snapshot()
    assert keeper.apply(Config({"threads": 2})).restarted
    assert (used(folder)["window"], used(folder)["threads"]) == ("128k", "2")
    assert keeper.apply(Config({"threads": 3, "window": 256})).restarted
    assert used(folder)["window"] == "256k", "what a config says counts"
    assert keeper.restore(found).restarted
    assert (used(folder)["window"], used(folder)["threads"]) == ("128k", "1")
    assert conf(folder) == CONF


@pytest.mark.slow
def test_so_is_what_no_file_names_in_a_trial_too(folder: Path, keeper: ProgramTarget) -> None:
    (folder / "used.json").write_text(json.dumps({**used(folder), "level": "9"}))
    found = keeper.snapshot()
    assert keeper.apply(Config({"threads": 2})).restarted
    assert (used(folder)["level"], used(folder)["threads"]) == ("9", "2")
    assert keeper.apply(Config({"threads": 3, "level": 5})).restarted
    assert used(folder)["level"] == "5", "what a config says counts"
    assert keeper.restore(found).restarted
    assert (used(folder)["level"], used(folder)["threads"]) == ("9", "1")


@pytest.mark.slow
def test_what_the_program_makes_of_a_config_is_left_to_it(folder: Path, keeper: ProgramTarget) -> None:
    program = folder / "keeper.py"
    program.write_text(program.read_text().replace('"level": "3"', '"level": str(3 * int(named.get("threads", 1)))'))
    (folder / "squeeze.conf").write_text(f"{CONF}threads = 2\n")
    keeper._reach.restart()
    found = keeper.snapshot()
    assert used(folder)["level"] == "6"
    assert keeper.apply(Config({"threads": 4})).restarted
    assert used(folder)["level"] == "12"
    keeper.restart(found)
    assert used(folder)["level"] == "12", "restarted after a system that it follows"
    assert keeper.restore(found).restarted
    assert used(folder)["level"] == "6"


def test_what_somebody_else_has_written_meanwhile_counts_after_a_restart(folder: Path, keeper: ProgramTarget) -> None:
    (folder / "used.json").write_text(json.dumps({**used(folder), "window": "128k"}))
    found = keeper.snapshot()
    (folder / "squeeze.conf").write_text(conf(folder).replace("512k", "1024k"))
    keeper._reach.restart()
    assert keeper._files.lost(found) == {}
    (folder / "squeeze.conf").write_text(CONF)
    assert keeper._files.lost(found) == {"window": 128}
