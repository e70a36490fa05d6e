"""Any program as a target: Redis by a catalogue alone, on each way of running it, under the public suite."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.redis import Redis, started
from trimtab import plugins
from trimtab.space import Config
from trimtab.systems.program import ProgramTarget
from trimtab.testing.target_suite import Subject, TargetSuite

pytestmark = [pytest.mark.service, pytest.mark.needs("redis")]

CHANGES = Config({"hz": 20, "io_threads": 2, "activerehashing": False})
OTHER = Config({"list_max_listpack_size": -3, "maxmemory": 100 << 20})


def made_target(table: dict[str, Any], state_dir: Path, **more: Any) -> ProgramTarget:
    return ProgramTarget.from_settings("cache", {"knobs": "all", **table, **more}, state_dir=state_dir)


def _subject(redis: Redis, table: dict[str, Any], state_dir: Path, **more: Any) -> Iterator[Subject]:
    target = made_target(table, state_dir)
    target.open()

    def meddle() -> Callable[[], None]:
        before = redis.conf.read_bytes()
        redis.conf.write_bytes(before + b"timeout 3\n")
        return lambda: redis.conf.write_bytes(before) and None

    yield Subject(
        target=target,
        again=lambda: made_target(table, state_dir / "other"),
        reattach=lambda snapshot: ProgramTarget.from_snapshot(snapshot, state_dir=state_dir),
        changes=CHANGES,
        other=OTHER,
        refused=("tcp_backlog", 70_000),
        locked=("appendfsync", "no"),
        clamped=Config({"hz": 1000}) if "read" in table else None,
        fatal=Config({"io_threads": 200}),
        meddle=meddle,
        state_dir=state_dir,
        **more,
    )
    target.close()


class TestByCommands(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, state_dir: Path) -> Iterator[Subject]:
        with started() as redis:
            yield from _subject(redis, redis.table(), state_dir, crash=redis.kill, restart=redis.restart)


class TestOwn(TargetSuite):
    """Run by Trimtab itself, without a command that reads values back."""

    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, state_dir: Path) -> Iterator[Subject]:
        with started(runs=False) as redis:
            table = redis.own_table()
            del table["read"]
            found: list[Subject] = []

            def crash() -> None:
                pid = found[0].target._reach.pid  # type: ignore[attr-defined]
                os.kill(pid, signal.SIGKILL)
                redis.wait_gone()

            for subject in _subject(redis, table, state_dir, crash=crash):
                found.append(subject)
                yield subject


def _shipped(redis: Redis, **more: object) -> dict[str, Any]:
    """The table of one that is asked as the catalogue says."""
    own = {key: value for key, value in redis.own_table().items() if key not in ("catalog", "health", "read")}
    return {**own, "kind": "redis", "knobs": "all", "names": {"cli": f"redis-cli -h 127.0.0.1 -p {redis.port}"}, **more}


class TestShipped(TargetSuite):
    """`kind = "redis"`, by the catalogue that Trimtab ships."""

    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, state_dir: Path) -> Iterator[Subject]:
        with started(runs=False) as redis:
            kind = plugins.load("targets", "redis")
            table = _shipped(redis)

            def again(name: str = "again") -> Any:
                return kind.from_settings("cache", table, state_dir=state_dir / name)

            target = again("shipped")
            target.open()
            yield Subject(
                target=target,
                again=again,
                reattach=lambda snapshot: kind.from_snapshot(snapshot, state_dir=state_dir),
                changes=CHANGES,
                other=OTHER,
                refused=("tcp_backlog", 70_000),
                locked=("appendfsync", "no"),
                state_dir=state_dir,
            )
            target.close()


def test_a_redis_counts_for_its_own_plays_and_for_no_other_server(state_dir: Path) -> None:
    """A study file may name `read` and `health` with another port, and `counters` would ask the usual one."""
    with started() as other, started(runs=False) as redis:
        kind = plugins.load("targets", "redis")
        target = kind.from_settings("cache", _shipped(redis), state_dir=state_dir / "counts")
        target.open()
        try:
            before = target.counters()
            subprocess.run([*redis.cli.split(), "set", "a", "1"], check=True)
            subprocess.run([*redis.cli.split(), "del", "a"], check=True)
            after = target.counters()
            asks_another = _shipped(redis, names={"cli": other.cli}, health=f"{redis.cli} ping")
            assert kind.from_settings("cache", asks_another, state_dir=state_dir / "other").counters() == {}
        finally:
            target.close()
    assert {name for play in target.catalog.play.values() for name in play.counts} <= before.keys()
    assert after["deletions"] - before["deletions"] == 1


def test_a_redis_with_a_password_is_asked_with_that_of_a_file(state_dir: Path) -> None:
    with started(runs=False) as redis:
        redis.conf.write_text(f"{redis.conf.read_text()}requirepass hush-hush\n")
        (secret := redis.folder / "password").touch(mode=0o600)
        secret.write_text("hush-hush\n")
        table = _shipped(redis, password_files={"cli": str(secret)})
        target = plugins.load("targets", "redis").from_settings("cache", table, state_dir=state_dir / "password")
        target.open()
        try:
            assert target.states()["hz"].running == 10
            assert target.counters()
        finally:
            target.close()


def test_redis_takes_the_fragment_as_its_configuration(state_dir: Path) -> None:
    with started(runs=False) as redis:
        text = made_target(redis.own_table(), state_dir).fragment(Config({**CHANGES, **OTHER}))
        redis.conf.write_text(redis.conf.read_text().replace("hz 10\nmaxmemory 64mb\n", text))
        redis.start()
        found = {name: redis.asked(name) for name in ("hz", "io-threads", "activerehashing", "maxmemory")}
    assert found == {"hz": "20", "io-threads": "2", "activerehashing": "no", "maxmemory": str(100 << 20)}


def test_a_setting_that_redis_has_by_its_earlier_name_is_changed_there(state_dir: Path) -> None:
    """And is none that somebody has set in the running server alone."""
    with started(runs=False) as redis:
        old = "hash-max-ziplist-entries 256\nlist-max-ziplist-size -1\n"
        text = redis.conf.read_text() + old
        redis.conf.write_text(text)
        redis.start()
        table = {**redis.table(), "kind": "redis", "knobs": "all"}
        del table["catalog"]
        target = plugins.load("targets", "redis").from_settings("cache", table, state_dir=state_dir / "earlier")
        target.open()
        try:
            assert not any("no file names" in note for note in target.notes())
            found = target.snapshot()
            target.apply(Config({"hash_max_listpack_entries": 64, "list_max_listpack_size": 128}))
            assert redis.conf.read_text() == text.replace("entries 256", "entries 64").replace("size -1", "size 128")
            assert (redis.asked("hash-max-listpack-entries"), redis.asked("list-max-listpack-size")) == ("64", "128")
            target.restore(found)
            assert redis.conf.read_text() == text
        finally:
            target.close()
