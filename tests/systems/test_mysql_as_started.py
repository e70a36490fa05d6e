"""What a MySQL or MariaDB server makes of its files when it starts, where its variables and its program do not say so."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.systems.mysql_shapes import MARIADB_ROWS, MYSQL_ROWS
from tests.systems.test_mysql_catalogue import MYSQL
from trimtab.systems.knobs import Reading
from trimtab.systems.mysql import pending
from trimtab.systems.mysql.catalogue import curated_for
from trimtab.systems.mysql.pending import lost_by_restart, unsettled
from trimtab.systems.mysql.pool import as_started
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.variables import from_mariadb, from_mysql

MIB = 1 << 20
POOL, PARTS, CLEANERS = "innodb_buffer_pool_size", "innodb_buffer_pool_instances", "innodb_page_cleaners"
CAPACITY = "innodb_redo_log_capacity"
SIZE, FILES = "innodb_log_file_size", "innodb_log_files_in_group"


def _read(values: Mapping[str, int] | None = None, sources: Mapping[str, str] | None = None) -> dict[str, Reading]:
    rows = [*MYSQL_ROWS, (FILES, "2", "COMPILED", "", "2", "100")]
    values, sources = values or {}, sources or {}
    told = [(n, str(values.get(str(n), value)), sources.get(str(n), source), *rest) for n, value, source, *rest in rows]
    return from_mysql(told, curated_for(MYSQL), {})


@pytest.mark.parametrize(
    ("sources", "capacity"),
    [
        ({}, 100 * MIB),
        ({SIZE: "GLOBAL"}, 4096 * MIB),
        ({FILES: "COMMAND_LINE"}, 4096 * MIB),
        ({SIZE: "GLOBAL", CAPACITY: "EXPLICIT"}, 100 * MIB),
        ({SIZE: "GLOBAL", CAPACITY: "DYNAMIC"}, 100 * MIB),
    ],
)
def test_the_redo_log_is_as_large_as_its_older_variables_make_it(sources: dict[str, str], capacity: int) -> None:
    """MySQL 8.0.30 and later show the default of the newer variable then, and do not use it: who gave that back by SET GLOBAL
    would leave a server that came with 4 GiB with 100 MiB."""
    found = _read({SIZE: 2048 * MIB}, sources)
    assert found[CAPACITY].value == capacity


@pytest.mark.parametrize(
    ("values", "start", "made"),
    [
        ({}, {POOL: "209715200"}, {POOL: 256 * MIB}),
        ({}, {POOL: "134217728"}, {POOL: 128 * MIB}),
        ({}, {POOL: "67108864"}, {POOL: 64 * MIB}),  # the chunk of that start would be as small
        ({}, {POOL: "209715200", PARTS: "8", CLEANERS: "4"}, {POOL: 256 * MIB, PARTS: 1, CLEANERS: 1}),
        ({PARTS: 4}, {POOL: "1153433600", PARTS: "4", CLEANERS: "8"}, {POOL: 1536 * MIB, PARTS: 4, CLEANERS: 4}),
        ({PARTS: 8}, {POOL: "1073741824", PARTS: "0", CLEANERS: "4"}, {POOL: 1024 * MIB, PARTS: 8, CLEANERS: 4}),
        ({}, {POOL: "(No default value)"}, None),
        ({}, {}, None),
    ],
)
def test_a_start_makes_whole_chunks_and_parts_of_a_buffer_pool(
    values: dict[str, int], start: dict[str, str], made: dict[str, int] | None
) -> None:
    """1100 MiB in four parts that become 1536 MiB were seen on a server 8.0.31."""
    others = {"back_log": "151"}
    expected = start if made is None else {name: str(value) for name, value in made.items()}
    assert as_started({**start, **others}, _read(values)) == {**expected, **others}


@pytest.mark.parametrize(
    ("text", "waiting"), [("209715200", []), ("268435456", []), ("402653184", [POOL]), ("67108864", [POOL])]
)
def test_what_a_server_has_rounded_waits_for_no_restart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, waiting: list[str]
) -> None:
    """As after `trimtab apply` of 200 MiB, which MySQL makes 256 MiB, whatever else the file holds."""
    file = tmp_path / "trimtab.cnf"
    file.touch()
    monkeypatch.setattr(pending, "given_options", lambda _: {POOL: text})
    monkeypatch.setattr(pending, "start_values", lambda _: {POOL: text})
    reach: Any = SimpleNamespace(include_file=file, argv=(), pid=None, data_dir=None, account=None)
    session = cast(Session, SimpleNamespace(rows=lambda _: [("Uptime", "100")]))
    assert pending._changed_at(file) > time.time() - 50, "it was written since the server's start"
    variables = _read({POOL: 256 * MIB}, {POOL: "COMPILED"})
    assert unsettled(session, cast(Reach, reach), variables) == waiting


@pytest.mark.parametrize(
    ("type_", "size", "waiting"),
    [
        ("OFF", 64 * MIB, []),
        ("OFF", 32 * MIB, ["query_cache_size"]),
        ("OFF", 0, ["query_cache_size", "query_cache_type"]),
        ("OFF", MIB, ["query_cache_size", "query_cache_type"]),  # by default, which switches nothing on
        ("DEMAND", 64 * MIB, ["query_cache_type"]),
    ],
)
def test_a_query_cache_that_is_on_because_it_has_a_size_waits_for_no_restart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, type_: str, size: int, waiting: list[str]
) -> None:
    """A server whose files say OFF, and 64 MiB, starts with ON."""
    file = tmp_path / "trimtab.cnf"
    file.touch()
    told = {"query_cache_type": type_, "query_cache_size": str(size)}
    monkeypatch.setattr(pending, "given_options", lambda _: told)
    monkeypatch.setattr(pending, "start_values", lambda _: told)
    reach: Any = SimpleNamespace(include_file=file, argv=(), pid=None, data_dir=None, account=None)
    session = cast(Session, SimpleNamespace(rows=lambda _: [("Uptime", "100")]))
    now = {"query_cache_type": "ON", "query_cache_size": str(64 * MIB)}
    rows = [(name, now[str(name)], "CONFIG", *rest) for name, _, _, *rest in MARIADB_ROWS if name in now]
    assert unsettled(session, cast(Reach, reach), from_mariadb(rows)) == waiting


@pytest.mark.parametrize(
    ("name", "kind", "running", "default", "start", "is_lost"),
    [
        ("long_query_time", "DOUBLE", "1.000000", "10.000000", "1", False),
        ("long_query_time", "DOUBLE", "1.000000", "10.000000", "10", True),
        ("long_query_time", "DOUBLE", "10.000000", "10.000000", "10", False),
        ("slow_query_log", "BOOLEAN", "ON", "OFF", "TRUE", False),
        ("slow_query_log", "BOOLEAN", "ON", "OFF", "FALSE", True),
        ("log_slow_filter", "SET", "admin", "filesort", "admin", False),
        ("log_slow_filter", "SET", "admin", "filesort", "filesort", True),
        ("report_host", "VARCHAR", "db1", "", "(No default value)", True),
        ("time_zone", "VARCHAR", "+02:00", "SYSTEM", None, True),
        ("time_zone", "VARCHAR", "+00:00", "SYSTEM", None, False),
    ],
)
def test_what_somebody_has_set_and_written_into_a_file_of_mariadb_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, name: str, kind: str, running: str, default: str, start: str | None, is_lost: bool
) -> None:
    """As one does it where a restart is to be avoided: SET GLOBAL, and the same in the option file."""
    told = {"default_time_zone": "+00:00"} | ({} if start is None else {name: start})
    monkeypatch.setattr(pending, "start_values", lambda _: told)
    row = (name, running, "SQL", default, kind, None, None, None, None, "NO", None)
    lost = lost_by_restart(cast(Reach, SimpleNamespace()), from_mariadb([row]), frozenset())
    assert lost == [name] * is_lost
