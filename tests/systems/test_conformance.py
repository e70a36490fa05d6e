"""The conformance suite on ways of reaching a server: PostgreSQL embedded and by files with a restart command, MariaDB by
connection only; the other ways of each, and other versions, in the long form; and the fake.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fetch_servers import MARIADB_11_4, require_server
from tests.needs import require
from tests.wayback.ways import REACHES, Templates, Way, made, root_folder
from trimtab.space import Config
from trimtab.systems.mysql import MysqlTarget
from trimtab.systems.mysql.program import data_label
from trimtab.testing.fake_target import Disk, FakeTarget
from trimtab.testing.target_suite import Subject, TargetSuite


class FallingTarget(FakeTarget):
    """One whose counter falls at each look."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 1000.0

    def counters(self) -> Mapping[str, float]:
        self.n -= 10
        return {"reads": self.n}


class _Probe(TargetSuite):
    """The suite's checks, to be called one by one."""


def _fake_subject(target: FakeTarget, **more: Any) -> Subject:
    return Subject(
        target=target,
        again=FakeTarget,
        reattach=lambda snapshot: FakeTarget(),
        changes=Config({"cache": 256}),
        other=Config({"method": "ring"}),
        refused=("sort_memory", 2_000_000),
        locked=("sync", False),
        **more,
    )


def test_a_counter_that_falls_is_seen() -> None:
    with pytest.raises(AssertionError, match="counters that fell"):
        _Probe().test_counters_only_grow(_fake_subject(FallingTarget()))


def test_work_that_is_not_counted_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.testing.target_suite._COUNTED_S", 0.0)
    monkeypatch.setattr(FallingTarget, "counters", lambda self: {"reads": 1.0})
    with pytest.raises(AssertionError, match="the work was not counted"):
        _Probe().test_counters_only_grow(_fake_subject(FallingTarget(), work=lambda: None))


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


@pytest.fixture(scope="session")
def templates() -> Iterator[Templates]:
    with root_folder() as folder:
        yield Templates(folder)


_LONG = pytest.mark.full


def _subject(way: Way, **more: Any) -> Iterator[Subject]:
    """The subject that stands for `way`, with its password where every process of this one finds it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TRIMTAB_CACHE", way.password_variable):
            patch.setenv(name, way.environment[name])
        target = way.target(knobs="all")
        target.open()
        is_local = way.reach != "connection"
        yield Subject(
            target=target,
            again=lambda: way.target(way.folder / "other", knobs="all"),
            reattach=way.reattach,
            changes=way.config,
            crash=way.crash if is_local else None,
            restart=target._reach.restart if way.is_embedded else lambda: way.control("restart"),
            state_dir=way.state,
            **more,
        )
        target.close()


def _postgresql(reach: str, version: str, templates: Templates) -> Iterator[Subject]:
    with made("postgresql", reach, templates, version=version) as way:
        by_file = _writer(way.own_file, b"work_mem = '3MB'\n")
        yield from _subject(
            way,
            other=Config({"geqo": False, "effective_cache_size": 200_000}),
            refused=("work_mem", -5),
            locked=("fsync", False),
            fatal=Config({"shared_buffers": 134_217_728}) if reach != "connection" else None,
            meddle=by_file if reach != "connection" else _alterer(way),
            work=lambda: way.server.query("SELECT count(*) FROM public.witness, generate_series(1, 50)"),
        )


def _mariadb(reach: str, templates: Templates, product: str = "mariadb") -> Iterator[Subject]:
    require(product if product == "mariadb" else "mysql-8.0")
    with made(product, reach, templates) as way:
        by_file = _writer(way.own_file, b"[mysqld]\nsort_buffer_size = 65536\n")
        is_local = reach != "connection"
        waits = {"binlog_commit_wait_count": 5, "binlog_commit_wait_usec": 500} if product == "mariadb" else {}
        yield from _subject(
            way,
            other=Config({"read_buffer_size": 256 << 10, "innodb_max_dirty_pages_pct": 50.0, **waits}),
            refused=("innodb_io_capacity", 1),
            locked=("innodb_doublewrite", False),
            clamped=Config({"join_buffer_size": 100_000}),
            fatal=Config({"thread_stack": 1 << 46}) if is_local else None,
            meddle=by_file if is_local else _alterer(way),
            work=lambda: way.server.query("SELECT count(*) FROM witness"),
            can_stay=is_local,
        )


# The quick form: by files, below; tests/faults starts, kills and puts back embedded servers.
@pytest.mark.service
@_LONG
class TestPostgres(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, templates: Templates) -> Iterator[Subject]:
        yield from _postgresql("embedded", "18", templates)


@pytest.mark.service
class TestPostgresByFiles(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, templates: Templates) -> Iterator[Subject]:
        yield from _postgresql("files", "18", templates)


@pytest.mark.service
@_LONG
class TestPostgresByConnection(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, templates: Templates) -> Iterator[Subject]:
        yield from _postgresql("connection", "18", templates)


@pytest.mark.service
@_LONG
class TestPostgres16(TargetSuite):
    @pytest.fixture(scope="class", params=REACHES)
    @classmethod
    def subject(cls, request: pytest.FixtureRequest, templates: Templates) -> Iterator[Subject]:
        yield from _postgresql(request.param, "16", templates)


@pytest.mark.service
@_LONG
class TestMariaDb(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, templates: Templates) -> Iterator[Subject]:
        yield from _mariadb("embedded", templates)


@pytest.mark.service
@_LONG
class TestMariaDbByFiles(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, templates: Templates) -> Iterator[Subject]:
        yield from _mariadb("files", templates)


@pytest.mark.service
class TestMariaDbByConnection(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, templates: Templates) -> Iterator[Subject]:
        yield from _mariadb("connection", templates)


@pytest.mark.service
@_LONG
class TestMariaDb114(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, cache: Path, state_dir: Path) -> Iterator[Subject]:
        yield from _fetched(
            "mariadb", str(require_server(MARIADB_11_4)), cache, state_dir,
            changes={"innodb_buffer_pool_size": 256 << 20, "table_open_cache_instances": 2, "query_cache_type": "ON"},
        )  # fmt: skip


@pytest.mark.service
@_LONG
class TestMySql80(TargetSuite):
    @pytest.fixture(scope="class", params=REACHES)
    @classmethod
    def subject(cls, request: pytest.FixtureRequest, templates: Templates) -> Iterator[Subject]:
        yield from _mariadb(request.param, templates, "mysql")


def _fetched(
    kind: str, embedded: str, cache: Path, state_dir: Path, *, changes: Mapping[str, int | str], memory: str = "1GiB"
) -> Iterator[Subject]:
    """An embedded server of a program that Debian does not have."""
    table = {"kind": kind, "embedded": embedded, "memory": memory, "knobs": "all"}
    target = MysqlTarget.from_settings("suite", table, state_dir=state_dir)
    target.open()
    include = cache / "mysql" / f"{data_label(embedded)}-suite" / "conf.d" / "zz-trimtab.cnf"

    def work() -> None:
        with target._reach.connect() as session:
            session.rows("SELECT count(*) FROM mysql.user")

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
        work=work,
        state_dir=state_dir,
    )
    target.close()


def _alterer(way: Way) -> Callable[[], Callable[[], None]]:
    """Sets one of the knobs that were changed to a third value by SQL, as another administrator would."""
    name, (found, ours) = next(iter(way.reloaded.items()))

    def meddle() -> Callable[[], None]:
        way.set_by_sql(name, 2 * int(ours))
        return lambda: way.set_by_sql(name, found)

    return meddle


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
