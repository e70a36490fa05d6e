"""Each play can be tried on top of the settings as they come, on small and large machines, or its reason is named here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fetch_servers import MYSQL_8_0, require_server
from tests.needs import require
from tests.servers.embedded import provide
from tests.systems.legal_plays import UNFIT, Left, Size, left_out
from trimtab import plugins
from trimtab.space import SafetyClass
from trimtab.systems import KnobState
from trimtab.systems.file_knobs import knob_of
from trimtab.systems.knobs import knob_states
from trimtab.systems.mysql import MysqlTarget
from trimtab.systems.plays import PlayEntry, shipped_plays
from trimtab.systems.postgresql import PostgresTarget

FILES: Mapping[str, Mapping[str, str]] = {
    "httpd": {},
    "tomcat": {},
    "linux": {},
    "mongodb": {},
    "nginx": {},
    "redis": {},
    "wiredtiger": {},
    "cassandra": {
        "rows_outside_the_heap": "memory budget: .* > 1GiB",
        "cached_blocks": "fit into MaxDirectMemorySize, .*> 8GiB",  # half of its share of 128 GiB is as large
    },
}


def _heap(size: Size) -> int:
    """What the start script of a node gives its Java machine: conf/cassandra-env.sh."""
    half, quarter = (size.memory // 2, size.memory // 4)
    return max(min(half, 1 << 30), min(quarter, 8 << 30))


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_plays_of_a_catalogue_are_legal(kind: str, tmp_path: Path) -> None:
    target = plugins.load("targets", kind).from_settings("x", {}, state_dir=tmp_path)
    catalog, made = target.catalog, dict[tuple[int, int], dict[str, KnobState]]()

    def states(size: Size) -> Mapping[str, KnobState]:
        key = size.cores, size.memory
        if key not in made:
            knobs = {n: knob_of(n, entry, size.facts, must_restart=False) for n, entry in catalog.knob.items()}
            found = {name: knob.default for name, knob in knobs.items()}
            if kind == "cassandra":
                found |= {"MaxHeapSize": _heap(size), "InitialHeapSize": _heap(size)}
            if "ParallelGCThreads" in found:  # those of a machine of which the study file gives it half
                found["ParallelGCThreads"] = 2 * size.cores
            made[key] = {name: KnobState(knob=knob, running=found[name]) for name, knob in knobs.items()}
        return made[key]

    found = left_out(catalog, catalog.play, states, {"version": 0.0, "mariadb": 0.0})
    assert found.unexplained(FILES[kind]) == []
    assert catalog.play.keys() - found.tried == ({"no_io_scheduler"} if kind == "linux" else set())


def _of_server(target: Any, version: float, *, mariadb: bool = False) -> Left:
    """Of a real server: its own knobs and values, on machines of many sizes."""
    catalog = target.catalog
    readings, facts = target._look()
    made: dict[tuple[int, int], Mapping[str, KnobState]] = {}

    def states(size: Size) -> Mapping[str, KnobState]:
        key = size.cores, size.memory
        if key not in made:
            made[key] = knob_states(facts.sight(readings), catalog, size.facts, target.settings, "")
        return made[key]

    return left_out(
        catalog,
        _plays(catalog),
        states,
        {"version": version, "mariadb": float(mariadb)},
        product=target._product(),
    )


def _plays(catalog: Any) -> Mapping[str, PlayEntry]:
    locked = frozenset(name for name, knob in catalog.knob.items() if knob.safety is not SafetyClass.PERFORMANCE)
    return shipped_plays(catalog.kind, frozenset(catalog.knob), locked).play


@pytest.mark.service
def test_plays_of_postgresql_are_legal(opened: PostgresTarget) -> None:
    """Also on machines with more cores than a stock server has places for background processes."""
    with opened._reach.connect() as connection:
        major = connection.info.server_version // 10000
    found = _of_server(opened, float(major))
    # The wheel's servers were built without LZ4, a JIT compiler and liburing.
    known = dict.fromkeys(("compressed_wal", "no_jit", "late_jit", "io_uring"), UNFIT)
    assert found.unexplained(known) == []
    assert {"all_cores_for_one", "idle_cores_for_one"} <= found.tried


@pytest.fixture(scope="module", params=["mariadb", pytest.param("mysql", marks=pytest.mark.full)])
def mysql(request: pytest.FixtureRequest, cache: Path, state_dir: Path) -> Iterator[MysqlTarget]:
    if request.param == "mariadb":
        require("mariadb")
    program = "mariadb" if request.param == "mariadb" else str(require_server(MYSQL_8_0))
    table = {"kind": request.param, "embedded": program, "memory": "1GiB", "knobs": "all"}
    provide(cache, program, name="plays")
    target = MysqlTarget.from_settings("plays", table, state_dir=state_dir)
    target.open()
    yield target
    target.close()


@pytest.mark.service
def test_plays_of_mysql_and_mariadb_are_legal(mysql: MysqlTarget) -> None:
    is_mariadb = mysql._product() == "mariadb"
    found = _of_server(mysql, 1011.0 if is_mariadb else 800.0, mariadb=is_mariadb)
    known = {
        "no_query_cache": "query_cache_size: without effect",  # nothing is kept as it comes
        "large_log_buffer": UNFIT,  # the log is mapped where the data is in memory, as here
        "limited_concurrency": UNFIT,  # MariaDB no longer has it
    }
    assert found.unexplained(known if is_mariadb else {}) == []
