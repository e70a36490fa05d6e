"""Cassandra: its catalogue on a real node, loads over CQL, what cannot work, and what its log says of failures.

One node for the whole file: a start takes 10 seconds of CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.needs import IS_FULL
from tests.systems.cassandra_cql import CqlChecks
from tests.systems.cassandra_node import (
    CHANGES,
    RECORDS,
    answered,
    cassandra,
    quiet,
    set_and_killed,
    set_while_it_runs,
    ycsb,
)
from tests.systems.cassandra_tables import LEVELED, TableChecks, inodes, make_orders, orders, shop, with_option, written
from trimtab import plugins
from trimtab.errors import ApplyError, InternalError, LoadError, TargetError
from trimtab.records import Context, Endpoint, Fault
from trimtab.space import Config, SafetyClass, Value
from trimtab.systems import cql
from trimtab.systems.dump import printed_values
from trimtab.systems.evidence import classified
from trimtab.systems.jars import Jar, jar_list, pom_of, verify
from trimtab.testing.target_suite import Subject, TargetSuite
from trimtab.units import parse_value
from trimtab.workload.engine_run import access_of, driver_of
from trimtab.workload.server import ServerError, server_of, store_of
from trimtab.workload.server.cassandra import CassandraServer

__all__ = ["orders"]

COLUMNS = "k int PRIMARY KEY, a text, b bigint, c boolean, d double, e uuid, f list<int>, g inet, h tinyint"
ONE_COPY = "replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


@pytest.fixture(scope="module")
def node(state_dir: Path) -> Iterator[Any]:
    target = cassandra(state_dir, "tests")
    target.open()
    yield target
    target.close()


@pytest.fixture(scope="module")
def endpoint(node: Any) -> Endpoint:
    found: Endpoint = node.endpoint()
    return found


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.needs("cassandra", "java")
class TestNode(TableChecks, CqlChecks):
    """The last test restarts the node; all others change nothing that needs a restart."""

    def test_the_catalogue_knows_what_the_node_has(self, node: Any) -> None:
        states = {name: state for name, state in node.states().items() if node.catalog.channel_of(name) == "yaml"}
        told = {
            name
            for name, _ in cql.cql_rows(node._reach.filled("{url}"), "SELECT name, value FROM system_views.settings")
        }
        nested = {name for name in states if "." in node.catalog.address_of(name)}
        assert set(states) - nested <= told
        assert len([s for s in states.values() if s.knob.safety is SafetyClass.PERFORMANCE]) >= 60
        assert {
            name for name, s in states.items() if s.knob.safety is SafetyClass.PERFORMANCE and s.lock_reason
        } == set()
        assert states["commitlog_sync"].lock_reason.startswith("safety class durability is locked")
        assert states["disk_failure_policy"].lock_reason.startswith("safety class data_loss is locked")
        assert states["memtable_type"].running == "skiplist"
        assert states["concurrent_reads"].running == 32

    def test_it_knows_every_setting_by_its_earlier_name_too(self, node: Any) -> None:
        rows = cql.cql_rows(node._reach.filled("{url}"), "SELECT name, value FROM system_views.settings")
        former = {name: knob.formerly for name, knob in node.catalog.knob.items() if knob.formerly}
        assert len(former) > 40
        assert set(former.values()) <= {name for name, _ in rows}
        stem = {
            name: re.split(r"_(in_)?(bytes|kb|mb|ms|seconds|secs|minutes|megabits)", text)[0]
            for name, text in former.items()
        }
        assert {n for n in former if not stem[n].startswith(n) and "max_concurrent_requests" not in stem[n]} == set()

    def test_it_tells_what_it_takes_and_how_it_started(self, node: Any) -> None:
        lines = {name: (is_fine, text) for name, is_fine, text in node.doctor()}
        assert lines["start"][1].endswith("s from its start to its first answer")
        assert all(is_fine for is_fine, _ in lines.values()), lines
        taken = node.memory(Context("", clients=16)).total({})
        assert (512 << 20) < taken < (2 << 30)

    def test_no_config_refuses_a_write_that_the_node_takes_as_it_comes(self, node: Any) -> None:
        """The largest one is half of a segment of the commit log, unless somebody has given it."""
        asked = "SELECT value FROM system_views.settings WHERE name = 'max_mutation_size'"
        ((told,),) = cql.cql_rows(node._reach.filled("{url}"), asked)
        largest_bytes = parse_value(str(told).replace("KiB", "kB").replace("MiB", "MB"), "B")
        knob = node.states()["commitlog_segment_size"].knob
        assert knob.low * (1 << 20) / 2 >= largest_bytes > 1 << 20

    def test_filters_and_places_of_blocks_count_in_its_memory(self, node: Any) -> None:
        """As far as there are data; what a node with a thousand million rows would say is only counted with."""
        model = node.memory(Context("", clients=16))
        assert {"partitions", "data_mb", "other_nodes"} <= set(model.constants)
        assert model.constants["other_nodes"] == 0
        large = replace(model, constants={**model.constants, "partitions": 1e9, "data_mb": 1e6})
        found, few = large.use({}), large.use({"table_bloom_filter_fp_chance": 0.1, "table_chunk_length": "64"})
        assert (found["filters"], few["filters"]) == (1.25e9, 0.75e9)
        assert (found["blocks"], few["blocks"]) == (1e6 * 1024, 1e6 * 512)
        none = large.use({"table_bloom_filter_fp_chance": 1, "table_compression": "none"})
        assert (none["filters"], none["blocks"]) == (0, 0)

    def test_settings_between_nodes_are_left_out_while_it_is_alone(
        self, node: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert "internode_compression" in node.selection(Context("", clients=16))
        monkeypatch.setattr(node, "settings", node.settings.model_copy(update={"knobs": ("cassandra",)}))
        chosen = node.selection(Context("", clients=16))
        assert {"concurrent_reads", "file_cache_size"} <= set(chosen)
        assert not [name for name in chosen if name.startswith(("internode", "dynamic_snitch", "stream", "hint"))]

    def test_it_shows_what_it_compiles(self, node: Any) -> None:
        assert node.compiles
        assert node.compile_s() > 0.5
        assert node.warmup_floor_s == 0
        lines = {name: text for name, _, text in node.doctor()}
        assert lines["warm-up"].startswith("until what the load runs is compiled after each restart")

    def test_data_are_made_once_and_copied_for_each_run(self, endpoint: Endpoint) -> None:
        workload = ycsb("A", records=RECORDS + 1)
        assert not workload.prepare(endpoint, quiet).was_cached
        assert workload.prepare(endpoint, quiet).was_cached
        start = workload.reset(endpoint, quiet)
        assert start is not None
        assert start.duration_s > 0
        store = store_of(endpoint)
        with store.connect(workload.database.name) as session:
            assert session.execute("SELECT count(*) FROM usertable") == [(str(RECORDS + 1),)]
            session.execute("INSERT INTO usertable (ycsb_key, field0) VALUES (%s, %s)", ("it's", "x"))
            assert session.execute("SELECT field0 FROM usertable WHERE ycsb_key = %s", ("it's",)) == [("x",)]
        with store.connect() as session:
            assert store.is_clone(session, workload.database.name)
            assert not store.is_clone(session, workload.database.data)
            assert "/" in (store.data_directory(session) or "")
        workload.clean_up(endpoint)
        with pytest.raises(LoadError, match="was not made by Trimtab"):
            ycsb("A", database="system_auth").prepare(endpoint, quiet)

    def test_a_copy_is_made_of_linked_files_where_no_setting_shapes_them(
        self, node: Any, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert not [name for name in endpoint.options if name.startswith("copies")], "all are tuned, sstable_format too"
        monkeypatch.setattr(node, "settings", node.settings.model_copy(update={"knobs": ("threads", "heap")}))
        there = node.endpoint()
        refused = replace(there, options={**there.options, "copies.load": "false"})
        workload, n_rows = ycsb("A", records=RECORDS + 2), [(str(RECORDS + 2),)]
        workload.prepare(there, quiet)
        database = workload.database
        for asked, is_linked in ((there, True), (refused, False)):
            said: list[str] = []
            workload.reset(asked, said.append)
            assert bool([text for text in said if "could not be linked" in text]) != is_linked
            with store_of(there).connect(database.name) as session:
                assert session.execute("SELECT count(*) FROM usertable") == n_rows
                assert bool(inodes(node, database.name) & inodes(node, database.data)) == is_linked
                session.execute("TRUNCATE usertable")
            with store_of(there).connect(database.data) as session:
                assert session.execute("SELECT count(*) FROM usertable") == n_rows
        workload.clean_up(there)

    def test_a_kill_before_the_node_takes_linked_files_leaves_none_behind(
        self, node: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(node, "settings", node.settings.model_copy(update={"knobs": ("threads", "heap")}))
        there, workload = node.endpoint(), ycsb("A", records=RECORDS + 3)
        workload.prepare(there, quiet)
        database = workload.database

        def killed(self: CassandraServer, key: str, names: dict[str, str]) -> bool:
            if key == "copies.load":
                raise KeyboardInterrupt
            return called(self, key, names)

        called = CassandraServer._called
        with monkeypatch.context() as patch:
            patch.setattr(CassandraServer, "_called", killed)
            with pytest.raises(KeyboardInterrupt):
                workload.reset(there, quiet)
        unused = {path.parent for path in written(node, database.name)}
        assert unused
        workload.reset(there, quiet)
        with store_of(there).connect(database.name) as session:
            assert session.execute("SELECT count(*) FROM usertable") == [(str(RECORDS + 3),)]
        folders = {path.parent for path in written(node, database.name)}
        assert len(folders) == 1
        assert not folders & unused
        workload.clean_up(there)

    @pytest.mark.parametrize("letter", list("ABCDEF") if IS_FULL else ["E", "F"])
    def test_every_answer_of_ycsb_is_right(self, endpoint: Endpoint, letter: str) -> None:
        answered(endpoint, letter)

    @pytest.mark.parametrize("protocol", ["4", "5"])
    def test_values_of_all_types_come_back(self, endpoint: Endpoint, protocol: str) -> None:
        from trimtab._native import Cql, CqlConsole

        driver = Cql(host=endpoint.host, port=endpoint.port, settings=[("protocol", protocol)])
        console = CqlConsole(driver, timeout_s=60.0)
        console.rows(
            f"CREATE KEYSPACE IF NOT EXISTS types WITH {ONE_COPY}",
            timeout_s=60.0,
        )
        console.rows(
            f"CREATE TABLE IF NOT EXISTS types.t ({COLUMNS})",
            timeout_s=60.0,
        )
        values = "1, 'ä', -7, true, 0.5, 01234567-89ab-cdef-0123-456789abcdef, [1, 2], '127.0.0.1', 3"
        console.rows(f"INSERT INTO types.t (k, a, b, c, d, e, f, g, h) VALUES ({values})", timeout_s=60.0)
        found = console.rows("SELECT k, a, b, c, d, e, f, g, h FROM types.t", timeout_s=60.0)
        assert found == [
            ["1", "ä", "-7", "true", "0.5", "01234567-89ab-cdef-0123-456789abcdef", "[1, 2]", "127.0.0.1", "3"]
        ]
        long = "x" * 300_000
        console.rows(f"INSERT INTO types.t (k, a) VALUES (1, '{long}')", timeout_s=60.0)
        assert console.rows("SELECT a FROM types.t", timeout_s=60.0) == [[long]]
        with pytest.raises(ValueError, match="0x2000 line 1"):
            console.rows("SELEKT", timeout_s=60.0)
        console.close()
        with pytest.raises(ConnectionError, match="the connection is closed"):
            console.rows("SELECT 1")

    def test_a_consistency_that_cannot_be_met_is_told_as_such(self, endpoint: Endpoint) -> None:
        store = store_of(endpoint)
        with store.connect() as session:
            session.execute(
                "CREATE KEYSPACE IF NOT EXISTS three WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
            )
            session.execute("CREATE TABLE IF NOT EXISTS three.t (k int PRIMARY KEY)")
            with pytest.raises(ServerError, match="0x1000 Cannot achieve consistency level QUORUM"):
                session.execute("SELECT k FROM three.t WHERE k = 1")

    def test_settings_change_while_the_node_runs(self, node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        unlock = ("semantics", "replication")
        monkeypatch.setattr(node, "settings", node.settings.model_copy(update={"unlock": unlock}))
        set_while_it_runs(node)

    def test_what_cannot_work_is_refused_before_a_start(self, node: Any) -> None:
        pid = node._reach.pid
        refusals: list[tuple[dict[str, Value], str]] = [
            ({"MaxHeapSize": 8 << 30}, "would take memory="),
            ({"memtable_heap_space": 400}, "memtables take half of the heap at most does not hold"),
            (
                {"MaxDirectMemorySize": 16 << 20},
                "buffers outside the heap fit into MaxDirectMemorySize.* does not hold",
            ),
            (
                {"commitlog_disk_access_mode": "direct", "commitlog_segment_size": 128},
                "buffers outside the heap fit into",
            ),
            ({"concurrent_reads": 1}, "outside the server's range"),
            ({"commitlog_sync": "batch"}, "safety class durability is locked"),
        ]
        for config, words in refusals:
            with pytest.raises(ApplyError, match=words):
                node.preflight(Config(config))
        assert node._reach.pid == pid

    def test_settings_are_applied_by_a_restart_and_come_back_after_a_crash(self, node: Any) -> None:
        set_and_killed(node, CHANGES)


@pytest.mark.service
@pytest.mark.full
@pytest.mark.needs("cassandra", "java")
class TestUsersTable(TargetSuite):
    """Knobs that are options of a table of somebody else's; its node is not ours to restart."""

    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, node: Any, state_dir: Path) -> Iterator[Subject]:
        make_orders(node)
        target = shop(node, state_dir, unlock=["semantics"])
        target.open()
        yield Subject(
            target=target,
            again=lambda: shop(node, state_dir / "other", unlock=["semantics"]),
            reattach=lambda snapshot: type(target).from_snapshot(snapshot, state_dir=state_dir),
            changes=LEVELED,
            other=Config({"table_bloom_filter_fp_chance": 0.1}),
            refused=("table_min_index_interval", 100_000),
            locked=("concurrent_reads", 48),
            meddle=partial(with_option, node, "caching = {'keys': 'NONE', 'rows_per_partition': 'NONE'}", "caching"),
            state_dir=state_dir,
        )
        target.close()


def catalogue() -> Any:
    return plugins.load("targets", "cassandra").catalogue()


SETTINGS = (
    "concurrent_reads\t32\nindex_summary_resize_interval\t60m\nkey_cache_size\t\ncompaction_throughput\t64MiB/s\n"
)


def test_what_a_node_tells_of_its_settings_is_read() -> None:
    wanted = ("concurrent_reads", "index_summary_resize_interval", "compaction_throughput", "memtable.configurations")
    assert printed_values("settings", SETTINGS, wanted) == {
        "concurrent_reads": "32",
        "index_summary_resize_interval": "60m",
        "compaction_throughput": "64MiB/s",
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("index_summary_resize_interval", "60m", 60),
        ("key_cache_save_period", "4h", 14_400),
        ("compaction_throughput", "64MiB/s", 64),
        ("compaction_throughput", "0MiB/s", 0),
        ("memtable_heap_space", "1GiB", 1024),
        ("commitlog_sync_period", "10s", 10_000),
        ("column_index_size", "64KiB", 64),
    ],
)
def test_amounts_are_read_in_the_units_of_cassandra(tmp_path: Path, name: str, text: str, value: int) -> None:
    target = cassandra(tmp_path)
    assert target._parsed(target._example_knob(name), text) == value


def test_amounts_are_written_in_them(tmp_path: Path) -> None:
    target = cassandra(tmp_path)

    def written(name: str, value: Value) -> str:
        return str(target._literal(target._example_knob(name), value))

    assert written("compaction_throughput", 16) == "16MiB/s"
    assert written("compaction_throughput", 0) == "0MiB/s", "an amount without a unit is no amount for Cassandra"
    assert written("native_transport_max_concurrent_connections", -1) == "-1"
    assert written("index_summary_resize_interval", 60) == "60m", "the node takes no seconds here"
    assert written("memtable_heap_space", 96) == "96MiB"
    assert written("key_cache_save_period", 600) == "600s"
    assert written("trickle_fsync", True) == "true"


def test_the_password_is_that_of_cqlsh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cql.cql_user("cql://me@127.0.0.1:9042/") == ("me", None)
    (tmp_path / ".cassandra").mkdir()
    (tmp_path / ".cassandra" / "credentials").write_text("[PlainTextAuthProvider]\nusername = me\npassword = ho%rse\n")
    assert cql.cql_user("cql://me@127.0.0.1:9042/") == ("me", "ho%rse")
    assert cql.cql_user("cql://other@127.0.0.1:9042/") == ("other", None)
    assert cql.cql_user("cql://127.0.0.1:9042/") == ("", None)


def test_a_node_that_does_not_answer_is_told() -> None:
    with pytest.raises(TargetError, match=r"the node at 'cql://127\.0\.0\.1:1/' does not answer: cannot connect to"):
        cql.cql_rows("cql://127.0.0.1:1/", "SELECT release_version FROM system.local")


def test_the_archives_are_a_pinned_list() -> None:
    jars = jar_list("cassandra-5.0.4.txt")
    assert len(jars) > 80
    assert len({jar.file for jar in jars}) == len(jars)
    assert any(jar.file == "cassandra-all-5.0.4.jar" for jar in jars)
    pom = pom_of(jars[:1])
    assert pom.count("<dependency>") == 1
    assert "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>" in pom
    with pytest.raises(InternalError, match="catalog/jars has no 'none'"):
        jar_list("none")


def test_an_archive_that_is_another_one_is_refused(tmp_path: Path) -> None:
    jar = Jar("g", "a", "1", "linux", "0" * 64)
    with pytest.raises(TargetError, match=r"archive='a-1-linux\.jar' was not fetched"):
        verify((jar,), tmp_path)
    (tmp_path / jar.file).write_bytes(b"x")
    with pytest.raises(TargetError, match=r"archive='a-1-linux\.jar' has sha256=2d711642b726b044"):
        verify((jar,), tmp_path)


def test_what_does_not_speak_sql_is_told() -> None:
    there = Endpoint(protocol="cql", host="127.0.0.1", port=9042, user="", database="")
    with pytest.raises(LoadError, match="protocol=cql does not speak SQL"):
        server_of(there)


def test_a_load_asks_as_the_url_says() -> None:
    there = cql.cql_endpoint("cql://127.0.0.1:9042/?consistency=ONE&token_aware=no", {})
    access = access_of(there)
    assert (access["settings"], access["tls"]) == ([["consistency", "ONE"], ["token_aware", "no"]], "disable")
    with pytest.raises(LoadError, match='settings: token_aware cannot be "never"'):
        driver_of(replace(there, options={"token_aware": "never"}))


STARTUP = "Exception (org.apache.cassandra.exceptions.ConfigurationException) encountered during startup: "
AT = "2026-11-23 11:12:33,353"
UNREADABLE = "/data/system/local-7ad5/zz-8-big-Data.db"
UNSURE = "The JVM is not configured to stop on OutOfMemoryError which can cause data corruption."


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (f"{STARTUP}Invalid yaml. Please remove properties [no_such_key] from your cassandra.yaml", Fault.CONFIG),
        (f"{STARTUP}Invalid yaml: file:/conf/cassandra.yaml", Fault.CONFIG),
        (f"{STARTUP}concurrent_reads must be at least 2, but was 1", Fault.CONFIG),
        (
            "org.apache.cassandra.exceptions.ConfigurationException: Saved cluster name trimtab != configured name other",
            Fault.ENVIRONMENT,
        ),
        (
            "org.apache.cassandra.db.commitlog.CommitLogReadHandler$CommitLogReadException: Could not read commit log"
            " descriptor in file /commitlog/CommitLog-8-1795432347368.log",
            Fault.ENVIRONMENT,
        ),
        (f"{STARTUP}/127.0.0.1:7000 is in use by another process.  Change listen_address", Fault.ENVIRONMENT),
        (f"{STARTUP}Unable to bind to address /10.0.0.9:7000. Set listen_address in cassandra.yaml", Fault.ENVIRONMENT),
        (f"ERROR [main] {AT} CassandraDaemon.java:887 - Detected unreadable sstables {UNREADABLE}", Fault.ENVIRONMENT),
        (
            "Error occurred during initialization of VM\nCould not reserve enough space for 96636764160KB object heap",
            Fault.RESOURCE,
        ),
        ("Terminating due to java.lang.OutOfMemoryError: Java heap space", Fault.RESOURCE),
        (f"WARN  [main] {AT} StartupChecks.java:320 - {UNSURE}", None),
        (f"INFO  [main] {AT} CassandraDaemon.java:744 - Startup complete", None),
    ],
)
def test_what_a_node_said_is_blamed_on_the_right_cause(line: str, fault: Fault | None) -> None:
    """Lines of a real 5.0.4 that was given such files."""
    assert [symptom.fault for symptom in classified(line, catalogue().log)] == ([] if fault is None else [fault])
