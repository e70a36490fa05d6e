"""A private Cassandra node for tests, what is set on it, and what a load and a kill on it show."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.systems.private import killed
from trimtab import plugins
from trimtab.records import Endpoint
from trimtab.space import Config, KnobKind, Value
from trimtab.systems.base import KnobState
from trimtab.workload.ycsb import YcsbWorkload

CHANGES = Config(
    {
        "concurrent_reads": 48,
        "memtable_type": "trie",
        "compaction_throughput": 128,
        "MaxHeapSize": 448 << 20,
        "InitialHeapSize": 448 << 20,
        "table_chunk_length": "64",
    }
)
OTHER = Config({"concurrent_writes": 24, "key_cache_save_period": 3600})
RECORDS = 500


def cassandra(state_dir: Path, name: str = "db", **table: Any) -> Any:
    # A busy machine starts a node slowly.
    table = {
        "kind": "cassandra",
        "embedded": "5.0",
        "memory": "2GiB",
        "knobs": "all",
        "restart_timeout_s": 400,
        **table,
    }
    return plugins.load("targets", "cassandra").from_settings(name, table, state_dir=state_dir)


def ycsb(letter: str, **table: Any) -> YcsbWorkload:
    table = {
        "kind": "ycsb",
        "workload": letter,
        "records": RECORDS,
        "operation_timeout": "60s",
        "load": {"users": 4},
        **table,
    }
    return YcsbWorkload.from_settings(table)


def quiet(_text: str) -> None:
    """Nobody reads it."""


def answered(endpoint: Endpoint, letter: str) -> None:
    """A load of YCSB, every answer of which is looked at."""
    workload = ycsb(letter)
    workload.prepare(endpoint, quiet)
    workload.reset(endpoint, quiet)
    run = workload.start(endpoint, seed=1, duration_s=60.0)
    try:
        while not run.log().errors and run.log().response.total < 200:  # however long that takes
            assert not run.is_done
            time.sleep(0.05)
    finally:
        log = run.stop()
        workload.clean_up(endpoint)
    assert not log.errors, log.errors


def set_while_it_runs(node: Any) -> None:
    """All settings that a node changes while it runs are set at once, are in use, and come back; the node stays."""
    found, states, instance = node.snapshot(), node.states(), node._reach.instance
    names = [name for name in node._live.knobs if not states[name].lock_reason]
    assert len(names) >= 29
    config = Config({name: _another(states[name]) for name in names})
    applied = node.apply(config)
    assert not applied.restarted
    assert {name: applied.effective[name] for name in names} == dict(config)
    assert not node.restore(found).restarted
    assert {name: state.running for name, state in node.states().items()} == found.values
    assert node.snapshot().files == found.files
    assert node._reach.instance == instance


def _another(state: KnobState) -> Value:
    if state.knob.kind is KnobKind.BOOLEAN:
        return not state.running
    found = state.knob.low if state.running != state.knob.low else state.knob.high
    assert found is not None
    return found


def set_and_killed(node: Any, config: Config) -> None:
    """A config is set by a restart, comments stay, and after a kill everything is as found."""
    found = node.snapshot()
    yaml = node._reach.folder / "conf" / "cassandra.yaml"
    before = yaml.read_text()
    applied = node.apply(config)
    assert applied.restarted
    assert {name: applied.effective[name] for name in config} == dict(config)
    changed = yaml.read_text()
    assert [line for line in changed.splitlines() if line.startswith("#")] == [
        line for line in before.splitlines() if line.startswith("#")
    ]
    killed(node)
    node.restore(found)
    assert yaml.read_text() == before
    assert node.snapshot().files == found.files
