"""What SET GLOBAL does behind one's back on a real MariaDB."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab.space import Config
from trimtab.target.mysql import MysqlTarget
from trimtab.target.mysql.process import find_program

pytestmark = [pytest.mark.service]


@pytest.fixture(scope="module")
def target(cache: Path, state_dir: Path) -> Iterator[MysqlTarget]:
    if find_program("mariadbd") is None:
        reason = "needs Debian's mariadb-server (tests/install-servers.sh installs it)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    table = {"kind": "mariadb", "embedded": "mariadb", "memory": "1GiB", "knobs": "all"}
    target = MysqlTarget.from_settings("change", table, state_dir=state_dir)
    target.open()
    yield target
    target.close()


def _running(target: MysqlTarget, name: str) -> object:
    return target.states()[name].running


def test_the_pools_variables_are_left_alone_without_a_pool(target: MysqlTarget) -> None:
    found = target.snapshot()
    size = _running(target, "thread_pool_size")
    assert size != 0
    target.apply(Config({"thread_pool_size": 3, "sort_buffer_size": 1 << 20}))
    assert _running(target, "thread_pool_size") == size
    target.restore(found)
    assert _running(target, "thread_pool_size") == size


def test_the_pool_gets_its_size_with_the_restart_that_makes_it(target: MysqlTarget) -> None:
    found = target.snapshot()
    applied = target.apply(Config({"thread_handling": "pool-of-threads", "thread_pool_size": 3}))
    assert applied.restarted
    assert applied.effective == {"thread_handling": "pool-of-threads", "thread_pool_size": 3}
    target.apply(Config({"thread_handling": "pool-of-threads", "thread_pool_size": 5}))
    assert _running(target, "thread_pool_size") == 5
    target.restore(found)
    assert _running(target, "thread_handling") == "one-thread-per-connection"
