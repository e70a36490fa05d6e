"""Checks of the options of tables on a running node of Cassandra: a class of them for the file of tests that has one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimtab import plugins
from trimtab.errors import ApplyError, LoadError
from trimtab.space import Config
from trimtab.systems import cql
from trimtab.trial import own_from_json, own_to_json, snapshot_from_json, snapshot_to_json
from trimtab.workload.ycsb import YcsbWorkload

__all__ = ["LEVELED", "TableChecks", "inodes", "make_orders", "orders", "shop", "with_option", "written"]

RECORDS = 500
ONE_COPY = "replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
TABLE = Config(
    {
        "table_compression": "ZstdCompressor",
        "table_chunk_length": "64",
        "table_compaction": "UnifiedCompactionStrategy",
        "table_scaling_parameters": "L4",
        "table_bloom_filter_fp_chance": 0.1,
    }
)
LEVELED = Config({"table_compaction": "LeveledCompactionStrategy", "table_compression": "none"})
UNIFIED = "org.apache.cassandra.db.compaction.UnifiedCompactionStrategy"
PLAIN: dict[str, Any] = {
    "caching": {"keys": "ALL", "rows_per_partition": "NONE"},
    "compaction": {
        "class": "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy",
        "max_threshold": "32",
        "min_threshold": "4",
    },
    "compression": {"chunk_length_in_kb": "16", "class": "org.apache.cassandra.io.compress.LZ4Compressor"},
    "bloom_filter_fp_chance": 0.01,
    "crc_check_chance": 1.0,
    "min_index_interval": 128,
}


def options(node: Any, keyspace: str, table: str) -> dict[str, Any]:
    """Those of a table, in the node's own words."""
    told = f"SELECT JSON {', '.join(PLAIN)} FROM system_schema.tables WHERE"
    where = f"keyspace_name = '{keyspace}' AND table_name = '{table}'"
    found: dict[str, Any] = json.loads(cql.cql_rows(node._reach.filled("{url}"), f"{told} {where}")[0][0] or "")
    return found


def written(node: Any, keyspace: str) -> list[Path]:
    """The data files of a keyspace."""
    return list((node._reach.folder / "data" / keyspace).glob("usertable-*/*-Data.db"))


@pytest.fixture
def orders(node: Any) -> dict[str, Any]:
    """The options of a table that is somebody else's."""
    make_orders(node)
    return options(node, "shop", "orders")


def inodes(node: Any, keyspace: str) -> set[int]:
    """The files of a keyspace's rows, as the disk knows them: one that is linked is the same."""
    return {path.stat().st_ino for path in written(node, keyspace)}


def make_orders(node: Any) -> None:
    """Makes that table, or makes it again."""
    url = node._reach.filled("{url}")
    cql.cql_rows(url, f"CREATE KEYSPACE IF NOT EXISTS shop WITH {ONE_COPY}")
    cql.cql_rows(url, "DROP TABLE IF EXISTS shop.orders")
    own = "compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 6}"
    cql.cql_rows(url, f"CREATE TABLE shop.orders (k int PRIMARY KEY) WITH {own}")


def with_option(node: Any, clause: str, option: str) -> Callable[[], None]:
    """Alters it as somebody else; what takes that back."""
    found = options(node, "shop", "orders")[option]
    cql.cql_rows(node._reach.filled("{url}"), f"ALTER TABLE shop.orders WITH {clause}")

    def undo() -> None:
        cql.cql_rows(node._reach.filled("{url}"), f"ALTER TABLE shop.orders WITH {option} = {found}")

    return undo


def shop(node: Any, state_dir: Path, table: str = "cql:shop.orders", **more: Any) -> Any:
    """The node as one of somebody else's, who starts it by hand."""
    conf = node._reach.folder / "conf"
    files = {"yaml": str(conf / "cassandra.yaml"), "jvm": str(conf / "jvm.options"), "table": table}
    url = node._reach.filled("{url}")
    own = {"pid_file": None, "log_file": None, "url": url, "files": files, "knobs": "tables"}
    settings = {"kind": "cassandra", "memory": "2GiB", **own, **more}
    return plugins.load("targets", "cassandra").from_settings("shop", settings, state_dir=state_dir)


def ycsb() -> YcsbWorkload:
    """Half updates: each run has a copy."""
    table = {"kind": "ycsb", "workload": "A", "records": RECORDS, "operation_timeout": "60s", "load": {"users": 4}}
    return YcsbWorkload.from_settings(table)


def quiet(_text: str) -> None:
    """Nobody reads it."""


class TableChecks:
    """On the fixture `node`, which is open; each leaves it as it was."""

    def test_each_run_has_a_copy_that_is_written_with_the_options_of_the_config(self, node: Any) -> None:
        found, workload = node.snapshot(), ycsb()
        workload.prepare(node.endpoint(), quiet)
        applied = node.apply(TABLE)
        assert not applied.restarted
        assert applied.effective == dict(TABLE)
        workload.reset(node.endpoint(), quiet)
        name = workload.database.name
        assert options(node, name, "usertable") == {
            **PLAIN,
            "bloom_filter_fp_chance": 0.1,
            "compaction": {"class": UNIFIED, "scaling_parameters": "L4"},
            "compression": {"chunk_length_in_kb": "64", "class": "org.apache.cassandra.io.compress.ZstdCompressor"},
        }
        rows = sum(file.stat().st_size for file in written(node, name))
        assert rows > RECORDS * 1000, "the copy is not in files"
        node.restore(found)
        assert node.snapshot().files == found.files
        workload.reset(node.endpoint(), quiet)
        assert options(node, name, "usertable") == PLAIN
        workload.clean_up(node.endpoint())

    def test_options_that_the_node_refuses_are_a_result(self, node: Any) -> None:
        workload, there = ycsb(), node.endpoint()
        workload.prepare(there, quiet)
        wrong = replace(there, options={**there.options, "tables": "compaction = {'class': 'NoSuchStrategy'}"})
        with pytest.raises(LoadError, match="refuses the options of table .*NoSuchStrategy") as caught:
            workload.reset(wrong, quiet)
        assert caught.value.hint
        workload.clean_up(there)

    def test_a_table_of_the_user_is_altered_where_unlock_says_so_and_is_as_before_afterwards(
        self, node: Any, orders: dict[str, Any], state_dir: Path
    ) -> None:
        closed = shop(node, state_dir)
        closed.open()
        with pytest.raises(ApplyError, match="safety class semantics is locked"):
            closed.preflight(Config({"table_compression": "none"}))
        assert ("file table", True, "the options of table shop.orders, by ALTER TABLE") in closed.doctor()
        db = shop(node, state_dir, unlock=["semantics"])
        db.open()
        with pytest.raises(ApplyError, match="table_chunk_length='5'"):
            db.preflight(Config({"table_chunk_length": "5"}))
        found = db.snapshot()
        applied = db.apply(LEVELED)
        assert (applied.restarted, applied.effective) == (False, dict(LEVELED))
        assert options(node, "shop", "orders")["compression"] == {"enabled": "false"}
        assert "WITH compaction = {'class': 'LeveledCompactionStrategy'" in db.fragment(LEVELED)
        assert not [each.text for each in db.disturbances() if each.stops]
        other = type(db).from_snapshot(snapshot_from_json(snapshot_to_json(found)), state_dir=state_dir)
        other.restore(found, own_from_json(own_to_json(applied.own)))
        assert options(node, "shop", "orders") == orders
        assert db.snapshot().files == found.files

    def test_what_others_set_on_a_table_stays_and_one_that_is_gone_is_not_changed(
        self, node: Any, orders: dict[str, Any], state_dir: Path
    ) -> None:
        db = shop(node, state_dir, unlock=["semantics"])
        db.open()
        found = db.snapshot()
        db.apply(LEVELED)
        cql.cql_rows(node._reach.filled("{url}"), "ALTER TABLE shop.orders WITH crc_check_chance = 0.5")
        assert [each for each in db.disturbances() if each.stops]
        db.restore(found)
        assert options(node, "shop", "orders") == {**orders, "crc_check_chance": 0.5}
        cql.cql_rows(node._reach.filled("{url}"), "DROP TABLE shop.orders")
        with pytest.raises(ApplyError, match=r"may not be changed: the node has no table shop\.orders") as caught:
            db.apply(LEVELED)
        assert caught.value.hint
