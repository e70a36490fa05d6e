"""Options of Cassandra's tables as knobs: lines, statements, and both channels before a node that only keeps them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from trimtab import plugins
from trimtab.errors import RestoreError, TargetError, UsageError
from trimtab.host import LocalHost
from trimtab.space import Config, RestartClass, SafetyClass
from trimtab.study.recovery import _write_out
from trimtab.systems import Own, Snapshot, table_channel
from trimtab.systems.catalog import Channel
from trimtab.systems.file_channel import FileChannel
from trimtab.systems.file_undo import Place, Undo
from trimtab.systems.files import file_digest, file_to_json
from trimtab.systems.live_values import LiveValues
from trimtab.systems.table_channel import TableChannel
from trimtab.systems.table_options import (
    NoTableError,
    altered,
    left_out,
    option_lines,
    statement_for,
    table_of,
    values_of,
    with_clause,
)

TIERS = "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"
LEVELS = "LeveledCompactionStrategy"
TOLD: dict[str, Any] = {
    "caching": {"keys": "ALL", "rows_per_partition": "NONE"},
    "compaction": {"class": TIERS, "max_threshold": "32", "min_threshold": "6"},
    "compression": {"chunk_length_in_kb": "16", "class": "org.apache.cassandra.io.compress.LZ4Compressor"},
    "bloom_filter_fp_chance": 0.01,
    "crc_check_chance": 1.0,
    "min_index_interval": 128,
}
LINES = """bloom_filter_fp_chance = 0.01
caching.keys = ALL
caching.rows_per_partition = NONE
compaction.class = SizeTieredCompactionStrategy
compaction.max_threshold = 32
compaction.min_threshold = 6
compression.chunk_length_in_kb = 16
compression.class = LZ4Compressor
crc_check_chance = 1.0
min_index_interval = 128
"""


def test_what_a_node_tells_of_a_table_becomes_lines() -> None:
    assert option_lines(json.dumps(TOLD)) == LINES
    assert option_lines('{"compression": {"enabled": "false"}}') == "compression.class = none\n"
    assert option_lines('{"compaction": {"class": "com.acme.Own"}, "cdc": null}') == "compaction.class = com.acme.Own\n"


def test_lines_become_what_follows_with() -> None:
    assert with_clause(values_of(LINES)) == (
        "bloom_filter_fp_chance = 0.01"
        " AND caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}"
        " AND compaction = {'class': 'SizeTieredCompactionStrategy', 'max_threshold': '32', 'min_threshold': '6'}"
        " AND compression = {'chunk_length_in_kb': '16', 'class': 'LZ4Compressor'}"
        " AND crc_check_chance = 1.0 AND min_index_interval = 128"
    )
    assert with_clause({"compression.class": "none"}) == "compression = {'enabled': 'false'}"


def test_a_text_cannot_leave_its_place_in_a_statement() -> None:
    assert with_clause({"min_index_interval": "1 AND cdc = true"}) == "min_index_interval = '1 AND cdc = true'"
    assert with_clause({"compaction.class": "a'} AND x = {'b"}) == "compaction = {'class': 'a''} AND x = {''b'}"


def test_only_the_options_that_differ_are_set_and_each_of_them_whole() -> None:
    now, goal = values_of(LINES), {**values_of(LINES), "compression.chunk_length_in_kb": "64"}
    assert altered(now, goal) == {"compression.chunk_length_in_kb": "64", "compression.class": "LZ4Compressor"}
    assert altered(now, now) == {}
    assert statement_for(("shop", "orders"), goal, ["min_index_interval"]) == (
        'ALTER TABLE "shop"."orders" WITH min_index_interval = 128'
    )


def test_what_was_said_of_a_class_goes_with_it() -> None:
    now = values_of(LINES)
    assert left_out(now, {"compaction.class": LEVELS}) == {"compaction.max_threshold", "compaction.min_threshold"}
    assert left_out(now, {"compaction.class": "SizeTieredCompactionStrategy"}) == frozenset()
    assert left_out(now, {"compression.chunk_length_in_kb": "4"}) == frozenset()


def test_the_name_of_a_table_is_told_from_a_path() -> None:
    assert table_of("/etc/cassandra/tables") is None
    assert table_of("cql:shop.Orders") == ("shop", "Orders")
    for text in ("cql:shop", "cql:shop.a.b", 'cql:shop."orders', "cql:", "cql:system_auth.roles", "cql:System.local"):
        with pytest.raises(NoTableError):
            table_of(text)


class Node:
    """Keeps the options of one table, and completes tiers as Cassandra does."""

    def __init__(self) -> None:
        self.told: dict[str, Any] | None = json.loads(json.dumps(TOLD))
        self.statements: list[str] = []

    def rows(self, _url: str, statement: str) -> Sequence[Sequence[str | None]]:
        if statement.startswith("SELECT JSON"):
            return [[json.dumps(self.told)]] if self.told is not None else []
        self.statements.append(statement)
        assert self.told is not None
        for option, text in re.findall(r"(\w+) = (\{[^}]*\}|[0-9.]+)", statement.partition(" WITH ")[2]):
            value = json.loads(text.replace("'", '"'))
            if option == "compaction" and value["class"] == "SizeTieredCompactionStrategy":
                value = {"min_threshold": "4", "max_threshold": "32", **value}
            self.told[option] = value
        return []


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node()
    monkeypatch.setattr(table_channel, "cql_rows", made.rows)
    return made


@pytest.fixture
def channel(node: Node) -> TableChannel:
    table = Channel(codec="keyvalue", tables=True)
    return TableChannel("table", table, Path("cql:shop.orders"), ("shop", "orders"), lambda: "cql://127.0.0.1/")


def lines(node: Node) -> str:
    return option_lines(json.dumps(node.told))


def test_a_table_is_changed_and_has_its_own_options_again(node: Node, channel: TableChannel) -> None:
    found = channel.read()
    channel.put(channel.changed(found, {"compaction.class": LEVELS, "bloom_filter_fp_chance": "0.1"}))
    assert node.statements == [
        f"""ALTER TABLE "shop"."orders" WITH bloom_filter_fp_chance = 0.1 AND compaction = {{'class': '{LEVELS}'}}"""
    ]
    now = channel.read()
    ours = {"compaction.class": [LEVELS], "bloom_filter_fp_chance": ["0.1"]}
    channel.put(channel.without(now, found, ours, file_digest(now)))
    assert lines(node) == LINES
    channel.put(channel.without(channel.read(), found, ours, file_digest(now)))
    assert len(node.statements) == 2


def test_what_somebody_else_has_set_since_stays(node: Node, channel: TableChannel) -> None:
    found = channel.read()
    channel.put(channel.changed(found, {"compaction.class": LEVELS}))
    left = file_digest(channel.read())
    assert node.told is not None
    node.told["min_index_interval"] = 256
    channel.put(channel.without(channel.read(), found, {"compaction.class": [LEVELS]}, left))
    assert lines(node) == LINES.replace("interval = 128", "interval = 256")


def test_a_table_that_is_gone_is_told(node: Node, channel: TableChannel) -> None:
    found = channel.read()
    node.told = None
    assert channel.read() is None
    assert channel.missing(None) == "the node has no table shop.orders"
    assert channel.told() == ("file table", False, "the node has no table shop.orders")
    assert channel.changed(None, {}) is None
    for change in (lambda: channel.changed(None, {"compaction.class": LEVELS}), lambda: channel.put(found)):
        with pytest.raises(TargetError, match=r"the node has no table shop\.orders") as caught:
            change()
        assert caught.value.hint
    assert channel.without(None, found, {"compaction.class": [LEVELS]}, "") is None


def test_the_statement_is_printed_for_people(node: Node, channel: TableChannel) -> None:
    text = channel.fragment({"compression.class": "none"}, {"compression.class": "table_compression"})
    assert text == (
        "# with cqlsh\n# table_compression=none\n"
        "ALTER TABLE \"shop\".\"orders\" WITH compression = {'enabled': 'false'};\n"
    )
    assert node.statements == []


def target(state_dir: Path, **table: Any) -> Any:
    table = {"kind": "cassandra", "memory": "2GiB", "knobs": "tables", **table}
    return plugins.load("targets", "cassandra").from_settings("db", table, state_dir=state_dir)


def with_files(tmp_path: Path, table: str) -> Any:
    files = {"yaml": str(tmp_path / "cassandra.yaml"), "jvm": str(tmp_path / "jvm.options"), "table": table}
    return target(tmp_path, files=files, run="true")


def test_options_of_a_load_s_tables_are_open_and_need_no_restart(tmp_path: Path) -> None:
    db = with_files(tmp_path, str(tmp_path / "tables"))
    states = db.states()
    mine = [name for name in states if name.startswith("table_")]
    assert {name for name in mine if states[name].lock_reason} == {"table_crc_check_chance"}
    assert {states[name].knob.restart for name in mine} == {RestartClass.RELOAD}
    assert states["key_cache_size"].knob.restart is RestartClass.RESTART
    assert set(db.catalog.sets["tables"]) == set(mine)


def test_a_load_is_told_how_to_make_its_tables(tmp_path: Path) -> None:
    db = with_files(tmp_path, str(tmp_path / "tables"))
    assert db._table_options(db.states()) == {
        "tables": "bloom_filter_fp_chance = 0.01 AND caching = {'keys': 'ALL'}"
        " AND compaction = {'class': 'SizeTieredCompactionStrategy'}"
        " AND compression = {'chunk_length_in_kb': '16', 'class': 'LZ4Compressor'}"
        " AND crc_check_chance = 1 AND min_index_interval = 128",
        "tables.changed": "",
    }
    (tmp_path / "tables").write_text("compression.class = none\ncompaction.class = UnifiedCompactionStrategy\n")
    (tmp_path / "cassandra.yaml").write_text("row_cache_size: 64MiB\n")
    assert db._table_options(db.states()) == {
        "tables": "bloom_filter_fp_chance = 0.01 AND caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}"
        " AND compaction = {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4'}"
        " AND compression = {'enabled': 'false'} AND crc_check_chance = 1 AND min_index_interval = 128",
        "tables.changed": "table_compression=none, table_chunk_length=16,"
        " table_compaction=UnifiedCompactionStrategy, table_scaling_parameters=T4",
    }


def test_what_a_load_s_tables_have_is_printed_for_tables_of_the_user(tmp_path: Path) -> None:
    text = with_files(tmp_path, str(tmp_path / "tables")).fragment(Config({"table_chunk_length": "64"}))
    assert text == (
        f"# {tmp_path}/tables (codec keyvalue)\n"
        "# table_chunk_length is compression.chunk_length_in_kb\n"
        "compression.chunk_length_in_kb = 64\n"
        "# for your own table, with cqlsh:\n"
        "# ALTER TABLE KEYSPACE.TABLE WITH compression = {'chunk_length_in_kb': '64', 'class': 'LZ4Compressor'};\n"
    )


def test_options_of_a_table_of_the_user_s_are_semantics(node: Node, tmp_path: Path) -> None:
    db = with_files(tmp_path, "cql:shop.orders")
    states = db.states()
    mine = {name: state for name, state in states.items() if name.startswith("table_")}
    assert {state.knob.safety for state in mine.values()} == {SafetyClass.SEMANTICS}
    assert {state.lock_reason for state in mine.values()} == {
        'safety class semantics is locked; unlock = ["semantics"] opens it'
    }
    assert mine["table_compaction"].source == "schema of the table"
    assert db._table_options(states) == {}
    assert node.told is not None
    node.told["compaction"] = {"class": "TimeWindowCompactionStrategy"}
    assert db.states()["table_compaction"].lock_reason == (
        "its value as found, TimeWindowCompactionStrategy, is not one that the catalogue knows"
    )


@pytest.mark.parametrize("text", ["cql:shop", "cql:system_auth.roles"])
def test_a_file_that_names_no_table_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="files table:") as caught:
        with_files(tmp_path, text)
    assert caught.value.hint == 'name your table: "cql:KEYSPACE.TABLE"'


def test_a_table_takes_the_place_of_no_other_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a table, and this channel is a file"):
        target(tmp_path, files={"yaml": "cql:shop.orders"}, run="true")


class Program:
    """Stands for the node's process; notes what is done to it."""

    no_restart = ""
    instance = "1"
    takes_back = False
    later_s = ()

    def __init__(self, node: Node, *, is_up: bool) -> None:
        self._node, self._is_up = node, is_up
        self.done: list[str] = []

    def is_up(self) -> bool:
        return self._is_up

    def was_stopped(self) -> bool:
        return not self._is_up

    def ensure_up(self) -> None:
        assert not self._node.statements, "the table is asked for while the node is down"
        self.done.append("start")
        self._is_up = True

    def health(self) -> None:
        if not self._is_up:
            raise TargetError("the program is down", hint="see its log")

    def know(self, run: str) -> None:
        assert run in ("0", "")

    def reload(self, back: dict[str, str], changed: Collection[str] = ()) -> None:
        assert (back, list(changed)) == ({}, ["compaction.class"])
        self.done.append("reload")


def undone(node: Node, channel: TableChannel, file: Path, *, is_up: bool, meddled: bool = False) -> Program:
    """Both a file and the table are changed, and taken back."""
    codec = Channel(codec="keyvalue")
    conf = FileChannel("conf", codec, file, LocalHost(), {})
    file.write_text("level = 3\n")
    channels = (conf, channel)
    files = {str(each.path): file_to_json(each.read()) for each in channels}
    found = Snapshot(target="db", kind="cassandra", reach={}, files=files, picture={"instance": "0"})
    conf.put(conf.changed(conf.read(), {"level": "9"}))
    channel.put(channel.changed(channel.read(), {"compaction.class": LEVELS}))
    left = {str(each.path): file_digest(each.read()) for each in channels}
    own = Own(texts={"level": ["9"], "table_compaction": [LEVELS]}, picture={"files": left})
    if meddled:
        file.write_text("level = 9\nother = 1\n")
    node.statements.clear()
    program = Program(node, is_up=is_up)
    places = {"level": Place(conf, "level"), "table_compaction": Place(channel, "compaction.class")}
    live = LiveValues(plugins.load("targets", "cassandra").catalogue(), cast(Any, program))
    undo = Undo(cast(Any, program), places, ["table_compaction"], live, {}, dict, lambda name, value: str(value))
    undo.bring_back(found, own, lambda: None)
    return program


def test_a_node_that_is_down_is_started_before_its_table_is_put_back(
    node: Node, channel: TableChannel, tmp_path: Path
) -> None:
    assert undone(node, channel, tmp_path / "up", is_up=True).done == ["reload"]
    assert lines(node) == LINES
    assert undone(node, channel, tmp_path / "down", is_up=False).done == ["start"]
    assert lines(node) == LINES
    assert (tmp_path / "down").read_text() == "level = 3\n"


def test_a_node_that_somebody_has_stopped_and_changed_keeps_the_undo_open(
    node: Node, channel: TableChannel, tmp_path: Path
) -> None:
    with pytest.raises(RestoreError, match="values that Trimtab set are in it") as caught:
        undone(node, channel, tmp_path / "conf", is_up=False, meddled=True)
    assert "trimtab recover" in (caught.value.hint or "")


def test_what_is_written_out_says_the_statement(channel: TableChannel, node: Node, tmp_path: Path) -> None:
    found = Snapshot(target="db", kind="cassandra", reach={}, files={"cql:shop.orders": file_to_json(channel.read())})
    files = _write_out(tmp_path, "study", "tune", [(found, Own(), ())])
    assert [file.name for file in files] == ["1-cql:shop.orders", "README.txt"]
    assert files[0].read_text() == LINES
    assert '\n  ALTER TABLE "shop"."orders" WITH bloom_filter_fp_chance = 0.01 AND caching =' in files[1].read_text()
