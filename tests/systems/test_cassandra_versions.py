"""Cassandra 4.1, and the target suite on a private node of each version; the long form, for each check restarts the node."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.systems.cassandra_node import CHANGES, OTHER, answered, cassandra, set_and_killed, set_while_it_runs
from tests.systems.private import killed, with_line
from trimtab.errors import ApplyError
from trimtab.space import Config, SafetyClass
from trimtab.testing.target_suite import Subject, TargetSuite

OLDER_CHANGES = Config({name: value for name, value in CHANGES.items() if name != "memtable_type"})
NEW_IN_5_0 = {
    "memtable_type", "memtable_shards", "commitlog_disk_access_mode", "concurrent_index_builders", "sstable_format",
    "storage_compatibility_mode", "max_space_usable_for_compactions_in_percentage", "table_scaling_parameters",
}  # fmt: skip


@pytest.mark.service
@pytest.mark.full
@pytest.mark.needs("cassandra-4.1", "java")
class TestOlder:
    """Version 4.1, as far as it differs; the last test restarts the node."""

    @pytest.fixture(scope="class")
    @classmethod
    def older(cls, state_dir: Path) -> Iterator[Any]:
        target = cassandra(state_dir, "older", embedded="4.1", unlock=["semantics", "replication"])
        target.open()
        yield target
        target.close()

    def test_what_came_with_5_0_is_locked_or_left_out(self, older: Any) -> None:
        states = older.states()
        assert {n for n, s in states.items() if "needs Cassandra 5.0" in s.lock_reason} == NEW_IN_5_0
        assert len([s for s in states.values() if s.knob.safety is SafetyClass.PERFORMANCE and not s.lock_reason]) >= 60
        assert states["concurrent_reads"].running == 32
        assert states["key_cache_save_period"].running == 4 * 3600
        assert states["table_compaction"].knob.choices == ("SizeTieredCompactionStrategy", "LeveledCompactionStrategy")
        with pytest.raises(ApplyError, match="table_compaction='UnifiedCompactionStrategy'"):
            older.preflight(Config({"table_compaction": "UnifiedCompactionStrategy"}))
        assert all(is_fine for _, is_fine, _ in older.doctor())

    @pytest.mark.parametrize("letter", list("ABCDEF"))
    def test_every_answer_of_ycsb_is_right(self, older: Any, letter: str) -> None:
        answered(older.endpoint(), letter)

    def test_settings_change_while_the_node_runs(self, older: Any) -> None:
        set_while_it_runs(older)

    def test_settings_are_applied_by_a_restart_and_come_back_after_a_crash(self, older: Any) -> None:
        set_and_killed(older, OLDER_CHANGES)


@pytest.mark.service
@pytest.mark.full
@pytest.mark.needs("cassandra", "java")
class TestPrivate(TargetSuite):
    """Each check restarts the node; `TestNode` shows the same once in the quick form."""

    version, changes = "5.0", CHANGES

    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, state_dir: Path) -> Iterator[Subject]:
        target = cassandra(state_dir, embedded=cls.version)
        target.open()
        file = target._reach.folder / "conf" / "cassandra.yaml"

        yield Subject(
            target=target,
            again=lambda: cassandra(state_dir / "other", embedded=cls.version),
            reattach=lambda snapshot: type(target).from_snapshot(snapshot, state_dir=state_dir),
            changes=cls.changes,
            other=OTHER,
            refused=("concurrent_reads", 100_000_000),
            locked=("commitlog_sync", "batch"),
            crash=partial(killed, target),
            meddle=partial(with_line, file, b"# by hand\n"),
            state_dir=state_dir,
        )
        target.close()


@pytest.mark.needs("cassandra-4.1", "java")
class TestPrivateOlder(TestPrivate):
    """The same on 4.1."""

    version, changes = "4.1", OLDER_CHANGES
