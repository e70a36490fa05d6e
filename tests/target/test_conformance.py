"""The conformance suite on PostgreSQL, on two versions of MariaDB, on MySQL, and on the fake that stands beside them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from tests.fetch_servers import MARIADB_11_4, MYSQL_8_0, require_server
from trimtab.space import Config
from trimtab.target.mysql import MysqlTarget
from trimtab.target.mysql.program import data_label, find_program
from trimtab.target.postgresql import PostgresTarget
from trimtab.testing.fake_target import Disk, FakeTarget
from trimtab.testing.target_suite import Subject, TargetSuite


class TestFake(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls) -> Subject:
        disk = Disk()

        def crash() -> None:
            disk.is_up = False

        return Subject(
            target=FakeTarget(disk=disk, crash_when=lambda values: values["cache"] == 4096),
            again=lambda: FakeTarget(disk=disk),
            reattach=lambda snapshot: FakeTarget.from_snapshot(snapshot, state_dir=Path(), disk=disk),
            changes=Config({"cache": 256, "compile": False}),
            other=Config({"method": "ring"}),
            refused=("sort_memory", 2_000_000),
            locked=("sync", False),
            fatal=Config({"cache": 4096}),
            crash=crash,
        )


@pytest.mark.service
class TestPostgres(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, cache: Path, state_dir: Path) -> Iterator[Subject]:
        table = {"kind": "postgresql", "embedded": "18", "memory": "1GiB", "knobs": "all"}
        target = PostgresTarget.from_settings("suite", table, state_dir=state_dir)
        target.open()
        conf = next(cache.glob("postgresql/18-suite/data/postgresql.auto.conf"))
        yield Subject(
            target=target,
            again=lambda: PostgresTarget.from_settings("suite", table, state_dir=state_dir / "other"),
            reattach=lambda snapshot: PostgresTarget.from_snapshot(snapshot, state_dir=state_dir),
            changes=Config({"shared_buffers": 20_000, "work_mem": 8192, "random_page_cost": 1.5}),
            other=Config({"geqo": False, "effective_cache_size": 200_000}),
            refused=("work_mem", -5),
            locked=("fsync", False),
            fatal=Config({"shared_buffers": 134_217_728}),
            crash=_killer(lambda: target._reach.pid),
            meddle=_writer(conf, b"work_mem = '3MB'\n"),
        )
        target.close()


@pytest.mark.service
class TestMariaDb(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, cache: Path, state_dir: Path) -> Iterator[Subject]:
        if find_program("mariadbd") is None:
            _missing("needs Debian's mariadb-server (tests/install-servers.sh installs it)")
        yield from _mysql(
            "mariadb", "mariadb", cache, state_dir,
            changes={"innodb_buffer_pool_size": 256 << 20, "table_open_cache_instances": 2, "query_cache_type": "ON"},
        )  # fmt: skip


@pytest.mark.service
class TestMariaDb114(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, cache: Path, state_dir: Path) -> Iterator[Subject]:
        yield from _mysql(
            "mariadb", str(require_server(MARIADB_11_4)), cache, state_dir,
            changes={"innodb_buffer_pool_size": 256 << 20, "table_open_cache_instances": 2, "query_cache_type": "ON"},
        )  # fmt: skip


@pytest.mark.service
class TestMySql80(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, cache: Path, state_dir: Path) -> Iterator[Subject]:
        yield from _mysql(
            "mysql", str(require_server(MYSQL_8_0)), cache, state_dir, memory="4GiB",
            changes={"innodb_buffer_pool_size": 256 << 20, "table_open_cache_instances": 2, "innodb_read_io_threads": 6},
        )  # fmt: skip


def _missing(reason: str) -> NoReturn:
    """In CI a missing service is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def _mysql(
    kind: str, embedded: str, cache: Path, state_dir: Path, *, changes: Mapping[str, int | str], memory: str = "1GiB"
) -> Iterator[Subject]:
    table = {"kind": kind, "embedded": embedded, "memory": memory, "knobs": "all"}
    target = MysqlTarget.from_settings("suite", table, state_dir=state_dir)
    target.open()
    include = cache / "mysql" / f"{data_label(embedded)}-suite" / "conf.d" / "zz-trimtab.cnf"
    yield Subject(
        target=target,
        again=lambda: MysqlTarget.from_settings("suite", table, state_dir=state_dir / "other"),
        reattach=lambda snapshot: MysqlTarget.from_snapshot(snapshot, state_dir=state_dir),
        changes=Config(changes),
        other=Config({"sort_buffer_size": 4 << 20, "innodb_flush_neighbors": 0, "innodb_max_dirty_pages_pct": 50.0}),
        refused=("innodb_io_capacity", 1),
        locked=("innodb_doublewrite", False),
        clamped=Config({"join_buffer_size": 100_000}),
        fatal=Config({"thread_stack": 1 << 46}),
        crash=_killer(lambda: target._reach.pid),
        meddle=_writer(include, b"[mysqld]\nsort_buffer_size = 65536\n"),
    )
    target.close()


def _killer(pid: Callable[[], int | None]) -> Callable[[], None]:
    """Kills the server with all its processes, and waits until it is gone."""

    def crash() -> None:
        found = pid()
        assert found is not None
        os.kill(found, signal.SIGKILL)
        while pid() is not None:
            pass

    return crash


def _writer(path: Path, lines: bytes) -> Callable[[], Callable[[], None]]:
    """Appends to the file, as an operator would."""

    def meddle() -> Callable[[], None]:
        before = path.read_bytes() if path.exists() else None
        path.write_bytes((before or b"") + lines)

        def undo() -> None:
            if before is None:
                path.unlink()
            else:
                path.write_bytes(before)

        return undo

    return meddle
