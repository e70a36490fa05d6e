"""A server with its files at hand and no restart command: they go back, and one that is down is left for its owner to start."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.servers import free_port
from tests.servers.postgresql import Server, started
from trimtab.errors import RestoreError, TargetError
from trimtab.space import Config
from trimtab.systems.mysql.remote import LocalReach as MysqlReach
from trimtab.systems.mysql.settings import read_settings as read_mysql
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.remote import LocalReach as PostgresReach
from trimtab.systems.postgresql.settings import read_settings as read_postgres

DOWN = "the server is down, and the study file gives no restart command to start it with"


def postgres(folder: Path) -> PostgresReach:
    url = f"postgresql://postgres@127.0.0.1:{free_port()}/postgres"
    return PostgresReach(read_postgres("own", {"kind": "postgresql", "url": url, "data_dir": str(folder)}))


def mysql(folder: Path) -> MysqlReach:
    url = f"mysql://root@127.0.0.1:{free_port()}/test"
    return MysqlReach(read_mysql("own", {"kind": "mysql", "url": url, "include_file": str(folder / "zz.cnf")}))


@pytest.mark.parametrize("made", [postgres, mysql])
def test_a_reach_without_the_command_says_so(made: Any, tmp_path: Path) -> None:
    reach = made(tmp_path)
    with pytest.raises(TargetError) as caught:
        reach.ensure_up()
    assert caught.value.message == DOWN
    assert caught.value.hint == "start it by hand, then run `trimtab recover`"
    with pytest.raises(TargetError, match="cannot be restarted: needs a restart, and the study file gives no restart"):
        reach.restart()


@pytest.fixture
def own() -> Iterator[Server]:
    with started("18") as server:
        yield server


@pytest.mark.service
def test_a_server_that_died_is_left_down_with_its_files_as_found(
    own: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", own.password)
    table = {"kind": "postgresql", "url": own.url(), "memory": "1GiB", "data_dir": str(own.data_dir)}
    target = PostgresTarget.from_settings("own", table, state_dir=tmp_path)
    target.open()
    before, found = own.auto_conf.read_bytes(), target.snapshot()
    mine = target.apply(Config({"work_mem": 8192})).own
    assert own.auto_conf.read_bytes() != before
    pid = own.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while own.pid is not None:
        time.sleep(0.01)
    asked: list[str] = []
    with pytest.raises(RestoreError, match=DOWN) as caught:
        target.restore(found, mine, restarts=lambda: asked.append("a restart"))
    assert str(caught.value.hint).startswith("start it by hand, then run `trimtab recover`")
    assert own.auto_conf.read_bytes() == before
    assert own.pid is None
    assert not asked, "it would count as a restart that did not help"
    own.control("start")
    again = PostgresTarget.from_snapshot(type(found)(**asdict(found)), state_dir=tmp_path)
    assert not again.restore(found, mine).left
    assert own.query("SHOW work_mem") == [("4MB",)]
    target.close()
