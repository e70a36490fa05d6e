"""What SET PERSIST has written into mysqld-auto.cnf counts at MySQL's next start, whatever its tables call the source today."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.systems.mysql_shapes import MYSQL_ROWS
from tests.systems.test_mysql_catalogue import BOUNDS, MYSQL
from trimtab.systems.knobs import Reading, knob_states
from trimtab.systems.mysql import pending
from trimtab.systems.mysql.catalogue import CATALOG, Facts, curated_for
from trimtab.systems.mysql.pending import lost_by_restart, unsettled
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.settings import read_settings
from trimtab.systems.mysql.variables import from_mysql, live_range, persisted_text

REACH = cast(Reach, SimpleNamespace(include_file=None, argv=(), pid=None, data_dir=None, account=None))
SESSION = cast(Session, SimpleNamespace(rows=lambda _: [("Uptime", "100")]))
MORE = [
    ("max_execution_time", "60000", "DYNAMIC", "", "0", "4294967295"),
    ("sql_mode", "ANSI", "DYNAMIC", "", "0", "0"),
    ("back_log", "151", "COMPILED", "", "1", "65535"),
]


def _read(persisted: dict[str, str] | None, **sources: str) -> dict[str, Reading]:
    rows = [(name, value, sources.get(str(name), source), *rest) for name, value, source, *rest in [*MYSQL_ROWS, *MORE]]
    return from_mysql(rows, curated_for(MYSQL), persisted)


def test_a_value_of_set_persist_locks_its_knob_before_a_restart_too() -> None:
    variables = _read({"table_open_cache": "4000", "innodb_buffer_pool_instances": "8"}, sort_buffer_size="COMPILED")
    named = frozenset(name for name, variable in variables.items() if persisted_text(variable) is not None)
    assert named == {"table_open_cache", "innodb_buffer_pool_instances"}
    facts = Facts(MYSQL, may_set=True, has_replica=False, persisted=named)
    settings = read_settings("db", {"url": "mysql://root@localhost/"})
    found = knob_states(facts.sight(variables), CATALOG, BOUNDS, settings, "")
    assert {name for name, state in found.items() if state.lock_reason.startswith("set by SET PERSIST")} == named
    assert found["sort_buffer_size"].lock_reason == ""


def test_a_buffer_pool_of_set_persist_keeps_what_set_global_gives_of_it() -> None:
    rows = [
        (name, "2" if name == "innodb_buffer_pool_instances" else value, *rest) for name, value, *rest in MYSQL_ROWS
    ]
    pool = from_mysql(rows, curated_for(MYSQL), {"innodb_buffer_pool_size": "134217728"})["innodb_buffer_pool_size"]
    assert persisted_text(pool) == "134217728"
    assert live_range(pool) is not None


@pytest.mark.parametrize(
    ("persisted", "lost"),
    [
        ({"max_execution_time": "60000", "sql_mode": "ANSI"}, set()),
        ({"max_execution_time": "5000"}, {"max_execution_time", "sql_mode"}),
        ({}, {"max_execution_time", "sql_mode"}),
    ],
)
def test_a_restart_loses_nothing_of_set_persist(persisted: dict[str, str], lost: set[str]) -> None:
    assert set(lost_by_restart(REACH, _read(persisted), frozenset(curated_for(MYSQL)))) == lost


@pytest.mark.parametrize(
    ("name", "running", "start", "lost"),
    [
        ("time_zone", "+00:00", {"default_time_zone": "+00:00"}, []),
        ("time_zone", "+02:00", {"default_time_zone": "+00:00"}, ["time_zone"]),
        ("time_zone", "+02:00", {"default_time_zone": "(No default value)"}, ["time_zone"]),
        ("time_zone", "SYSTEM", {"default_time_zone": "(No default value)"}, []),
        ("sql_select_limit", "18446744073709551615", {"back_log": "151"}, []),
        ("sql_select_limit", "1000", {"back_log": "151"}, ["sql_select_limit"]),
    ],
)
def test_what_sessions_set_is_lost_only_where_a_start_gives_another_value(
    monkeypatch: pytest.MonkeyPatch, name: str, running: str, start: dict[str, str], lost: list[str]
) -> None:
    """MySQL calls a variable set as soon as any session has set its own, as JDBC does with the time zone, whose option has
    another name: default-time-zone."""
    monkeypatch.setattr(pending, "start_values", lambda _: start)
    variables = from_mysql([(name, running, "DYNAMIC", "", "0", "0")], curated_for(MYSQL), {})
    assert lost_by_restart(REACH, variables, frozenset(curated_for(MYSQL))) == lost


@pytest.mark.parametrize(
    ("persisted", "sources", "waiting"),
    [
        ({"sort_buffer_size": "262144", "back_log": "200"}, {}, ["back_log"]),
        ({"sort_buffer_size": "262144", "back_log": "151"}, {}, []),
        ({"sort_buffer_size": "262144", "innodb_doublewrite": "OFF"}, {}, ["innodb_doublewrite"]),
        ({"sort_buffer_size": "262144", "sql_mode": ""}, {"sql_mode": "COMPILED"}, ["sql_mode"]),
        # set by SET GLOBAL since; what a restart would make of it is told elsewhere
        ({"sort_buffer_size": "262144", "sql_mode": ""}, {}, []),
        ({"sort_buffer_size": "262144", "table_open_cache": "8000"}, {"table_open_cache": "COMPILED"}, []),  # adjusted
        # the server itself has made of it what it uses, for the file is as it read it
        ({"sort_buffer_size": "262145"}, {}, []),
        (None, {}, []),
    ],
)
def test_what_set_persist_only_has_written_waits_for_a_restart(
    persisted: dict[str, str] | None, sources: dict[str, str], waiting: list[str]
) -> None:
    assert unsettled(SESSION, REACH, _read(persisted, **sources)) == waiting


def test_what_reset_persist_has_taken_out_waits_for_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    start: dict[str, Any] = {"sort_buffer_size": "1048576"}
    monkeypatch.setattr(pending, "given_options", lambda _: {})
    monkeypatch.setattr(pending, "start_values", lambda _: start)
    assert unsettled(SESSION, REACH, _read({})) == ["sort_buffer_size"]
    start["sort_buffer_size"] = "262144"
    assert unsettled(SESSION, REACH, _read({})) == []
