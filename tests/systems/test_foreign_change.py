"""A change that somebody else makes just before or during ours: it is told, it stays, and it never counts as ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.needs import require
from tests.servers.embedded import provide
from trimtab.errors import ForeignChangeError
from trimtab.space import Config
from trimtab.systems.mysql import MysqlTarget
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.autoconf import read_entries, reload_and_wait

pytestmark = pytest.mark.service


def during(monkeypatch: pytest.MonkeyPatch, target: Any, act: Callable[[], object]) -> None:
    """Does it once, after our change was read back and before the picture of what we left is taken."""
    health, done = target.health, []

    def health_after_them() -> None:
        if not done:
            done.append(act())
        health()

    monkeypatch.setattr(target, "health", health_after_them)


def by_sql(target: PostgresTarget, statement: str) -> None:
    with target._reach.connect() as connection:
        connection.rows(statement)
    reload_and_wait(target._reach.connect)


def entries(target: PostgresTarget) -> dict[str, str]:
    with target._reach.connect() as connection:
        return read_entries(connection)


WAL = "ALTER SYSTEM SET max_wal_size = '8GB'"


def test_an_entry_set_between_the_snapshot_and_the_change_is_not_reset(target: PostgresTarget) -> None:
    found, before = target.snapshot(), entries(target)
    by_sql(target, WAL)
    with pytest.raises(
        ForeignChangeError, match="changed by somebody else since Trimtab last read it: max_wal_size"
    ) as raised:
        target.apply(Config({"work_mem": 8192}))
    assert raised.value.hint
    assert entries(target) == {**before, "max_wal_size": "8GB"}
    target.restore(found)
    assert entries(target)["max_wal_size"] == "8GB"


def test_nor_is_one_set_between_two_changes(target: PostgresTarget) -> None:
    target.snapshot()
    before = entries(target)
    target.apply(Config({"work_mem": 8192}))
    target.apply(Config({"work_mem": 16384}))
    by_sql(target, WAL)
    with pytest.raises(ForeignChangeError, match="max_wal_size"):
        target.apply(Config({"random_page_cost": 2.0}))
    assert entries(target) == {**before, "max_wal_size": "8GB"}, "and ours is taken back"


def test_one_set_during_the_change_is_told_and_not_ours(
    target: PostgresTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, before = target.snapshot(), entries(target)
    with monkeypatch.context() as patch:
        during(patch, target, lambda: by_sql(target, WAL))
        with pytest.raises(ForeignChangeError, match="while Trimtab changed it: max_wal_size"):
            target.apply(Config({"work_mem": 8192}))
    assert entries(target) == {**before, "max_wal_size": "8GB"}
    target.restore(found)
    assert entries(target) == {**before, "max_wal_size": "8GB"}


def test_one_set_after_the_change_outlives_its_undo(target: PostgresTarget) -> None:
    found, before = target.snapshot(), entries(target)
    target.apply(Config({"work_mem": 8192}))
    by_sql(target, WAL)
    assert target.disturbances()
    target.restore(found)
    assert entries(target) == {**before, "max_wal_size": "8GB"}


@pytest.fixture(scope="module")
def opened_mariadb(cache: Path, state_dir: Path) -> Iterator[MysqlTarget]:
    require("mariadb")
    table = {"kind": "mariadb", "embedded": "mariadb", "memory": "1GiB", "knobs": "all"}
    provide(cache, "mariadb", name="foreign")
    target = MysqlTarget.from_settings("foreign", table, state_dir=state_dir)
    target.open()
    yield target
    target.close()


@pytest.fixture
def mariadb(opened_mariadb: MysqlTarget) -> Iterator[MysqlTarget]:
    """An open server, as it was found after each test."""
    path, value = opened_mariadb._reach.include_file, opened_mariadb.states()["max_connections"].running
    assert path is not None
    before = path.read_bytes() if path.exists() else None
    yield opened_mariadb
    set_global(opened_mariadb, "max_connections", int(value))
    if before is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(before)


def set_global(target: MysqlTarget, name: str, value: int) -> None:
    with target._reach.connect() as session:
        session.rows(f"SET GLOBAL {name} = {value}")


def running(target: MysqlTarget, name: str) -> object:
    return target.states()[name].running


def test_what_set_global_has_set_before_the_change_is_not_undone(mariadb: MysqlTarget) -> None:
    mariadb.snapshot()
    size = running(mariadb, "sort_buffer_size")
    set_global(mariadb, "max_connections", 777)
    with pytest.raises(ForeignChangeError, match="^somebody else has used SET GLOBAL: max_connections=777\n"):
        mariadb.apply(Config({"sort_buffer_size": 1 << 20}))
    assert running(mariadb, "max_connections") == 777
    assert running(mariadb, "sort_buffer_size") == size


def test_nor_what_it_has_set_between_two_changes(mariadb: MysqlTarget) -> None:
    found = mariadb.snapshot()
    size = running(mariadb, "sort_buffer_size")
    mariadb.apply(Config({"sort_buffer_size": 1 << 20}))
    mariadb.apply(Config({"sort_buffer_size": 1 << 19}))
    set_global(mariadb, "max_connections", 777)
    with pytest.raises(ForeignChangeError, match="max_connections=777"):
        mariadb.apply(Config({"sort_buffer_size": 1 << 20}))
    assert running(mariadb, "max_connections") == 777
    mariadb.restore(found)
    assert (running(mariadb, "max_connections"), running(mariadb, "sort_buffer_size")) == (777, size)


def test_what_it_sets_while_the_file_is_written_stays_too(
    mariadb: MysqlTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own SET GLOBAL sets what is ours, and nothing else."""
    mariadb.snapshot()
    host, write = mariadb._reach.host, mariadb._reach.host.write_file

    def write_after_them(*arguments: Any) -> None:
        set_global(mariadb, "max_connections", 777)
        write(*arguments)

    monkeypatch.setattr(host, "write_file", write_after_them)
    mariadb.apply(Config({"sort_buffer_size": 1 << 20}))
    assert running(mariadb, "max_connections") == 777


def test_a_restart_of_ours_does_not_lose_it(mariadb: MysqlTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    mariadb.snapshot()
    host, write = mariadb._reach.host, mariadb._reach.host.write_file

    def write_after_them(*arguments: Any) -> None:
        set_global(mariadb, "max_connections", 777)
        write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(host, "write_file", write_after_them)
        with pytest.raises(ForeignChangeError, match="max_connections=777"):
            mariadb.apply(Config({"thread_stack": 262144}))
    assert running(mariadb, "max_connections") == 777


def test_lines_in_the_option_file_are_not_written_over(mariadb: MysqlTarget) -> None:
    found = mariadb.snapshot()
    path = Path(next(iter(found.files)))
    path.write_text("[mysqld]\nread_buffer_size = 262144\n")
    theirs = path.read_bytes()
    with pytest.raises(
        ForeignChangeError, match=r"zz-trimtab.cnf' was changed by somebody else since Trimtab last read"
    ):
        mariadb.apply(Config({"sort_buffer_size": 1 << 20}))
    assert path.read_bytes() == theirs
    mariadb.restore(found)
    assert path.read_bytes() == theirs


def test_lines_added_during_the_change_are_told_and_not_ours(
    mariadb: MysqlTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = mariadb.snapshot()
    path = Path(next(iter(found.files)))

    def add() -> None:
        with path.open("a") as file:
            file.write("read_buffer_size = 262144\n")

    with monkeypatch.context() as patch:
        during(patch, mariadb, add)
        with pytest.raises(ForeignChangeError, match=r"zz-trimtab.cnf' was changed by somebody else while Trimtab"):
            mariadb.apply(Config({"sort_buffer_size": 1 << 20}))
    assert "read_buffer_size = 262144" in path.read_text()
    mariadb.restore(found)
    assert "read_buffer_size = 262144" in path.read_text()
    assert "sort_buffer_size" not in path.read_text()


def test_our_own_values_are_known_again_after_an_undo(mariadb: MysqlTarget) -> None:
    found = mariadb.snapshot()
    for value in (1 << 20, 1 << 19):
        mariadb.apply(Config({"sort_buffer_size": value}))
        mariadb.restore(found)
    mariadb.apply(Config({}))
    mariadb.restore(found)
