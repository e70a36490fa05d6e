"""What is written and not used: a file that the program does not read is no config's fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.redis import Redis, started
from trimtab.errors import ApplyError
from trimtab.space import Config
from trimtab.systems.program import ProgramTarget


@pytest.fixture
def redis() -> Iterator[Redis]:
    with started() as server:
        yield server


@pytest.mark.service
@pytest.mark.needs("redis")
def test_a_file_that_the_program_does_not_read_is_named_and_no_config_is_blamed(redis: Redis) -> None:
    other = redis.folder / "other.conf"
    other.write_bytes(redis.conf.read_bytes())
    table = redis.table(knobs="all", files={"conf": str(other)})
    target = ProgramTarget.from_settings("cache", table, state_dir=redis.folder / "state", directory=redis.folder)
    target.open()
    found = target.snapshot()
    for config, fault in ((Config({"hz": 50, "tcp_backlog": 300}), "environment"), (Config({"tcp_backlog": 300}), "")):
        with pytest.raises(
            ApplyError, match=r"the program still uses \w+=\d+, not \d+: it may not read file='.*other.conf'"
        ) as caught:
            target.apply(config)
        assert caught.value.fault == fault
        target.restore(found)
    assert other.read_bytes() == redis.conf.read_bytes()
    target.close()
