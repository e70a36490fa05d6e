"""A load of the user's own CQL, on the node of test_cassandra.py."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.systems.cassandra_tables import ONE_COPY, quiet
from trimtab.errors import LoadError
from trimtab.workload.server import store_of
from trimtab.workload.sql import SqlWorkload

__all__ = ["CqlChecks", "own_cql"]


def own_cql(folder: Path, text: str, **table: Any) -> SqlWorkload:
    (folder / "own.cql").write_text(text)
    generators = {"k": {"type": "int", "low": 1, "high": 9}, "c": {"type": "text", "length": 3}}
    table = {
        "kind": "sql", "database": "mine", "files": ["own.cql"], "start_state": "template", "parameters": generators,
        "load": {"users": 2}, **table,
    }  # fmt: skip
    return SqlWorkload.from_settings(table, directory=folder)


class CqlChecks:
    """On the fixture `endpoint`."""

    def test_own_statements_are_run_on_a_copy_of_the_keyspace(self, endpoint: Any, tmp_path: Path) -> None:
        with store_of(endpoint).connect() as session:
            session.execute(f"CREATE KEYSPACE IF NOT EXISTS mine WITH {ONE_COPY}")
            session.execute("CREATE TABLE IF NOT EXISTS mine.t (k int, c text, v double, PRIMARY KEY (k, c))")
            session.execute("INSERT INTO mine.t (k, c, v) VALUES (0, 'x', 1)")
        workload = own_cql(tmp_path, "INSERT INTO t (k, c, v) VALUES (:k, :c, 0.5);\nSELECT v FROM t WHERE k = :k;\n")
        assert workload.prepare(endpoint, quiet).was_cached
        workload.reset(endpoint, quiet)
        run = workload.start(endpoint, seed=1, duration_s=60.0)
        try:
            while not run.log().errors and run.log().response.total < 50:
                assert not run.is_done
                time.sleep(0.05)
        finally:
            log = run.stop()
        assert not log.errors, log.errors
        with store_of(endpoint).connect() as session:
            assert session.execute("SELECT count(*) FROM mine.t") == [("1",)]
            assert int(session.execute("SELECT count(*) FROM mine_run.t")[0][0]) > 1
        workload.clean_up(endpoint)
        with pytest.raises(LoadError, match="the node has no keyspace=other"):
            own_cql(tmp_path, "SELECT v FROM t;\n", database="other").prepare(endpoint, quiet)

    def test_a_batch_takes_values_of_every_type(self, endpoint: Any, tmp_path: Path) -> None:
        with store_of(endpoint).connect() as session:
            session.execute(f"CREATE KEYSPACE IF NOT EXISTS mine WITH {ONE_COPY}")
            session.execute("CREATE TABLE IF NOT EXISTS mine.made (id uuid PRIMARY KEY, n int, at timestamp)")
            session.execute("CREATE TABLE IF NOT EXISTS mine.counted (n int, id uuid, PRIMARY KEY (n, id))")
        parameters = {
            "id": {"type": "uuid"},
            "n": {"type": "choice", "values": [1, 2, 3]},
            "at": {"type": "timestamp", "from": "2024-01-01 00:00:00", "to": "2024-12-31 00:00:00"},
        }
        text = """BEGIN BATCH
            INSERT INTO made (id, n, at) VALUES (:id, :n, :at);
            INSERT INTO counted (n, id) VALUES (:n, :id);
        APPLY BATCH;"""
        workload = own_cql(tmp_path, text, parameters=parameters, start_state="none")
        workload.prepare(endpoint, quiet)
        run = workload.start(endpoint, seed=1, duration_s=60.0)
        try:
            while not run.log().errors and run.log().response.total < 20:
                assert not run.is_done
                time.sleep(0.05)
        finally:
            log = run.stop()
        assert not log.errors, log.errors
        with store_of(endpoint).connect() as session:
            made, counted = (int(session.execute(f"SELECT count(*) FROM mine.{t}")[0][0]) for t in ("made", "counted"))
            assert made == counted >= 20
            session.execute("DROP TABLE mine.made")
            session.execute("DROP TABLE mine.counted")

    def test_what_a_play_needs_is_counted(self, node: Any, endpoint: Any) -> None:
        """But for the cache of blocks, which a node has off."""
        before = node.counters()
        needed = {count for play in node.catalog.play.values() for count in play.counts}
        needed = {count for count in needed if not count.startswith("sun.gc.")}  # of its Java machine, not in CQL
        assert {count for count in needed if count not in before} == {"caches.chunks.misses", "caches.chunks.requests"}
        with store_of(endpoint).connect() as session:
            session.execute(f"CREATE KEYSPACE IF NOT EXISTS mine WITH {ONE_COPY}")
            session.execute("CREATE TABLE IF NOT EXISTS mine.read (k int PRIMARY KEY)")
            for k in range(10):
                session.execute(f"SELECT k FROM mine.read WHERE k = {k}")
            session.execute("DROP TABLE mine.read")  # its schema is flushed
        after = node.counters()
        assert after["thread_pools.ReadStage.completed"] >= before["thread_pools.ReadStage.completed"] + 10
        flushed = "thread_pools.MemtableFlushWriter.completed"
        assert after[flushed] > before[flushed]
        assert all(after[name] >= count for name, count in before.items())
