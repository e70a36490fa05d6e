"""What a Cassandra node counts of its work, and which plays that speaks against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trimtab import plugins
from trimtab.space import is_shown
from trimtab.systems import CountingTarget, cql

URL = "cql://127.0.0.1:9042/"
TOLD = {
    "caches": [["chunks", "5000", "4000"], ["keys", "300", "300"], ["rows", "0", "0"]],
    "thread_pools": [["MemtableFlushWriter", "3"], ["ReadStage", None]],
}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A node that answers what `TOLD` holds; no table that counts is asked for anything else."""

    def rows(url: str, statement: str) -> list[list[str | None]]:
        assert url == URL
        return TOLD[statement.rpartition("system_views.")[2]]  # type: ignore[return-value]

    monkeypatch.setattr(cql, "cql_rows", rows)
    table = {"kind": "cassandra", "url": URL, "memory": "2GiB"}
    found = plugins.load("targets", "cassandra").from_settings("db", table, state_dir=tmp_path)
    monkeypatch.setattr(found._reach, "is_up", lambda: True)
    return found


def test_requests_to_caches_and_work_of_pools_are_counted(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counting: CountingTarget = node
    assert counting.counters() == {
        "caches.chunks.requests": 5000.0,
        "caches.chunks.misses": 1000.0,
        "caches.keys.requests": 300.0,
        "caches.keys.misses": 0.0,
        "caches.rows.requests": 0.0,
        "caches.rows.misses": 0.0,
        "thread_pools.MemtableFlushWriter.completed": 3.0,
        "thread_pools.ReadStage.completed": 0.0,
    }
    monkeypatch.setattr(node._reach, "is_up", lambda: False)
    assert counting.counters() == {}


def shown(node: Any, **counts: float) -> set[str]:
    return {name for name, play in node.catalog.play.items() if play.sign and is_shown(play.sign, counts)}


def test_what_the_node_did_not_do_is_not_made_faster(node: Any) -> None:
    """No larger cache where nothing was missed, no other way to flush where nothing was flushed."""
    counts = dict.fromkeys({count for play in node.catalog.play.values() for count in play.counts}, 0.0)
    assert shown(node, **counts) == set()
    counts |= {"caches.chunks.requests": 1e6, "caches.keys.requests": 1e6}
    assert shown(node, **counts) == set()
    assert shown(node, **{**counts, "caches.keys.misses": 5e4}) == {"large_key_cache"}
    assert shown(node, **{**counts, "caches.chunks.misses": 5e4}) == {"cached_blocks"}
    counts["thread_pools.MemtableFlushWriter.completed"] = 2.0
    assert shown(node, **counts) == {"large_memtables", "flush_without_compression"}


def test_a_cache_that_is_switched_off_says_nothing_against_one(node: Any) -> None:
    assert "cached_blocks" in shown(node, **{"thread_pools.ReadStage.completed": 1e6})
