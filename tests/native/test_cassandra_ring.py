"""Loads over a ring of three Cassandra nodes: every answer is right, each request goes to a node that has the row, and one that
dies costs the operations that it was at. One ring for the whole file: its start takes half a minute of CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.servers.cassandra import CassandraRing, cassandra_ring
from trimtab._native import Load
from trimtab.load import build_driver, build_source
from trimtab.measure import SecondLog
from trimtab.records import Endpoint
from trimtab.workload.base import LoadRun
from trimtab.workload.engine_run import EngineRun, access_of, script_source
from trimtab.workload.scripts import ScriptText
from trimtab.workload.server import store_of
from trimtab.workload.ycsb import YcsbWorkload

# It takes more than a minute. The promises themselves are shown on nodes within a test: crates/load/tests/suite/cql_ring.rs.
pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.full, pytest.mark.needs("cassandra", "java")]

RECORDS = 500
PATIENCE_S = 120.0
ONE_COPY = "replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
TOKENS = {
    "313233": -7_468_325_962_851_647_638,
    "00ff10fa99" * 10: 5_837_342_703_291_459_765,
    "fe" * 8: -8_927_430_733_708_461_935,
    "0102030405060708090a0b0c0d0e0f10": -5_563_837_382_979_743_776,
    "fe" * 17: -1_672_437_813_826_982_685,
    "00ffffff": 123_573_637_386_978_882,
    "e2e7e2e7e2e701": 2_222_373_981_930_033_306,
}
"""Of some keys; those that crates/load/src/driver/cql/murmur3.rs is tested with."""


@pytest.fixture(scope="module")
def ring() -> Iterator[CassandraRing]:
    with cassandra_ring() as ring:
        yield ring


@pytest.fixture(scope="module")
def reports(ring: CassandraRing) -> list[str]:
    """What the preparation of the data says; their rows have a copy on each node."""
    said: list[str] = []
    ycsb("A").prepare(ring.endpoint, said.append)
    return said


def ycsb(letter: str, **table: Any) -> YcsbWorkload:
    table = {
        "kind": "ycsb",
        "workload": letter,
        "records": RECORDS,
        "start_state": "none",
        "operation_timeout": "60s",
        "load": {"users": 4},
        **table,
    }
    return YcsbWorkload.from_settings(table)


def run_until(run: LoadRun, is_so: Callable[[SecondLog], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so(log := second_log(run)):
        assert not run.is_done, log.errors
        assert time.monotonic() < until, (log.response.total, log.errors)
        time.sleep(0.05)


def second_log(run: LoadRun) -> SecondLog:
    log = run.log()
    assert isinstance(log, SecondLog)
    return log


def driven(workload: YcsbWorkload, endpoint: Endpoint, n_operations: int = 300) -> SecondLog:
    run = workload.start(endpoint, seed=1, duration_s=PATIENCE_S)
    try:
        run_until(run, lambda log: bool(log.errors) or log.response.total >= n_operations)
    finally:
        log = run.stop()
    assert isinstance(log, SecondLog)
    return log


def counts(ring: CassandraRing, keyspace: str, what: str) -> list[int]:
    return [node.n_asked(keyspace, what) for node in ring.nodes]


def assert_asked_and_done_by_the_same(ring: CassandraRing, keyspace: str, what: str) -> None:
    """What a load has left unfinished at its end, the nodes finish a moment later."""
    until = time.monotonic() + 10.0
    while (asked := counts(ring, keyspace, f"coordinator_{what}")) != (done := counts(ring, keyspace, f"local_{what}")):
        assert time.monotonic() < until, (what, asked, done)
        time.sleep(0.2)
    assert min(asked) > 0, (what, asked)


def test_the_tokens_of_the_driver_are_the_servers(ring: CassandraRing) -> None:
    with store_of(ring.endpoint).connect() as session:
        session.execute(f"CREATE KEYSPACE tokens WITH {ONE_COPY}")
        session.execute("CREATE TABLE tokens.t (k blob PRIMARY KEY)")
        for key in TOKENS:
            session.execute(f"INSERT INTO tokens.t (k) VALUES (0x{key})")
        rows = session.execute("SELECT k, token(k) FROM tokens.t")
    assert {key.removeprefix("0x"): int(token) for key, token in rows} == TOKENS


def test_a_ring_is_seen_and_its_rows_are_right(ring: CassandraRing, reports: list[str]) -> None:
    assert reports[-1] == "a ring of 3 nodes: the load sends each operation to a node that has the row"
    keyspace = ycsb("A").database.name
    with store_of(ring.endpoint).connect(keyspace) as session:
        assert session.execute("SELECT count(*) FROM usertable") == [(str(RECORDS),)]
        (described,) = session.execute(
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = %s", (keyspace,)
        )
    assert "replication_factor: 3" in str(described)
    before = counts(ring, keyspace, "coordinator_read")
    for letter in "AE":
        log = driven(ycsb(letter), ring.endpoint)
        assert not log.errors, log.errors
    # Each node has the first copy of a third of the rows, and gets what is asked of them.
    reads = [now - then for now, then in zip(counts(ring, keyspace, "coordinator_read"), before, strict=True)]
    assert min(reads) > sum(reads) / 10, reads


@pytest.mark.parametrize("token_aware", ["yes", "no"])
def test_each_request_goes_to_the_node_that_has_the_only_copy(ring: CassandraRing, token_aware: str) -> None:
    keyspace = f"one_{token_aware}"
    endpoint = replace(ring.endpoint, options={"token_aware": token_aware})
    with store_of(endpoint).connect() as session:
        session.execute(f"CREATE KEYSPACE {keyspace} WITH {ONE_COPY}")
    said: list[str] = []
    workload = ycsb("A", database=keyspace)
    workload.prepare(endpoint, said.append)
    assert any("a ring of 3 nodes" in text for text in said) is (token_aware == "yes")
    log = driven(workload, endpoint)
    assert not log.errors, log.errors
    for what in ("read", "write"):
        if token_aware == "yes":
            assert_asked_and_done_by_the_same(ring, keyspace, what)
        else:
            assert [n > 0 for n in counts(ring, keyspace, f"coordinator_{what}")] == [True, False, False]
            assert min(counts(ring, keyspace, f"local_{what}")) > 0


def test_a_key_of_two_columns_goes_to_its_node(ring: CassandraRing) -> None:
    with store_of(ring.endpoint).connect() as session:
        copies = "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"
        session.execute(f"CREATE KEYSPACE two WITH replication = {copies}")
        session.execute("CREATE TABLE two.usertable (a int, b text, v int, PRIMARY KEY ((a, b)))")
    text = "\\set k random(1, 1000)\nINSERT INTO usertable (v, b, a) VALUES (1, :k, :k);\n"
    parts = [("pgbench", ScriptText("put", 1.0, text, "put.sql"), (), "")]
    load = Load(
        driver=build_driver("cql", access_of(ring.endpoint.with_database("two"))),
        source=build_source(script_source(parts, dialect="cql", users=2)),
        users=2,
        duration_s=PATIENCE_S,
        operation_timeout_s=60.0,
    )
    run = EngineRun(load)
    run_until(run, lambda log: bool(log.errors) or log.response.total >= 100)
    assert not run.stop().errors
    assert_asked_and_done_by_the_same(ring, "two", "write")


def test_a_node_that_dies_costs_what_it_was_at_and_comes_back(ring: CassandraRing, reports: list[str]) -> None:
    assert reports
    workload, victim = ycsb("A"), ring.nodes[1]
    run = workload.start(ring.endpoint, seed=2, duration_s=PATIENCE_S * 3)
    try:
        run_until(run, lambda log: log.response.total >= 100)
        victim.kill()
        run_until(run, lambda log: "connect" in log.error_classes)
        n_before = second_log(run).response.total
        run_until(run, lambda log: log.response.total >= n_before + 300)
        assert f"left out: {victim.address}:{victim.port} (cannot connect to" in store_of(ring.endpoint).remark()
        victim.start()
        victim.wait(lambda: victim.n_asked(workload.database.name, "coordinator_read") > 10)
    finally:
        log = run.stop()
    assert isinstance(log, SecondLog)
    # Each user has lost one connection; what another node asks the dead one may take too long.
    assert set(log.error_classes) <= {"connect", "timeout", "resource"}, log.errors
    assert log.error_classes["connect"] <= 4, log.errors
    assert any(f"node {victim.address}:{victim.port}: connection lost" in text for text in log.errors), log.errors
