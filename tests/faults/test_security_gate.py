"""S1, S5 and the gate: what the catalogue does not know reaches no server, and nothing opens what runs code."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults.conftest import MakePlace
from tests.faults.invariants import check_exit, check_invariants, take_picture
from tests.faults.place import Place
from tests.needs import IS_FULL
from trimtab.errors import ApplyError, SpaceError, UsageError
from trimtab.space import Knob, KnobKind, SafetyClass
from trimtab.systems import KnobState, check_harmless, require_open
from trimtab.systems.gate import check_config, harm_of
from trimtab.systems.knobs import Reading, Sight, knob_states
from trimtab.systems.postgresql.catalogue import CATALOG
from trimtab.systems.postgresql.settings import read_settings

X_CLASS = (
    # PostgreSQL
    "archive_command", "restore_command", "archive_library", "ssl_passphrase_command", "shared_preload_libraries",
    "session_preload_libraries", "local_preload_libraries", "dynamic_library_path", "jit_provider", "log_directory",
    "log_filename", "recovery_end_command", "plperl.on_init", "plpython3.on_init", "pltcl.start_proc", "include",
    "include_dir", "include_if_exists", "hba_file", "ssl_key_file", "data_directory", "config_file",
    # MySQL and MariaDB
    "general_log_file", "slow_query_log_file", "init_file", "init_connect", "init-connect", "plugin_load", "plugin-load-add",
    "plugin_dir", "malloc-lib", "secure_file_priv", "skip_grant_tables", "datadir", "tmpdir", "basedir", "!includedir",
    "innodb_data_home_dir", "local_infile", "SKIP-GRANT-TABLES",
    # JVM
    "OnError", "OnOutOfMemoryError", "javaagent", "agentpath", "agentlib", "JAVA_TOOL_OPTIONS", "HeapDumpPath", "ErrorFile",
    "VMOptionsFile", "Flags",
    # Apache, MongoDB, Cassandra, Linux
    "LoadModule", "LoadFile", "Include", "IncludeOptional", "CustomLog", "ErrorLog", "ScriptAlias", "SetHandler",
    "javascriptEnabled", "enableTestCommands", "net.bindIp", "security.authorization", "commitlog_directory",
    "kernel.core_pattern", "kernel.modprobe", "kernel.poweroff_cmd",
    # the same behind a target's or a section's name, and without one
    "db.skip_grant_tables", "db.archive_command", "app.javaagent", "web.LoadModule", "os.kernel.core_pattern",
    "db.security.keyFile", "bindIp", "bindIpAll", "authorization", "db.net.bindIp", "net.tls.mode", "keyFile", "clusterAuthMode",
    "data_file_directories", "saved_caches_directory", "cdc_raw_directory", "authenticator", "authorizer", "role_manager",
    "internode_authenticator", "network_authorizer", "cidr_authorizer", "seed_provider", "endpoint_snitch", "rpc_address",
    "listen_address", "broadcast_rpc_address", "client_encryption_options.enabled", "server_encryption_options",
    "user_defined_functions_enabled", "scripted_user_defined_functions_enabled", "triggers_dir",
    "DocumentRoot", "ServerRoot", "Alias", "AliasMatch", "ScriptAliasMatch", "ProxyPass", "ProxyPassMatch", "Listen", "Require",
    "AllowOverride", "User", "Group", "CGIDScriptTimeout",
)  # fmt: skip
META = (
    "work_mem; DROP TABLE witness", "work_mem'--", 'work_mem"', "work_mem\nshared_preload_libraries", "$(touch x)", "`touch x`",
    "work_mem && touch x", "../../etc/passwd", "!!python/object:os.system", "<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///']>",
    "work_mem\x00", "wörk_mem", "work_mem ", " work_mem", "WORK_MEM", "work_mem=1", "{{7*7}}", "%s", "", "a" * 10_000,
    "work_mem\u202e", "-c", "--fsync=off",
)  # fmt: skip


@pytest.mark.parametrize("name", X_CLASS)
def test_what_runs_code_or_names_files_is_known_by_name_for_every_target(name: str) -> None:
    with pytest.raises(ApplyError, match="may not be changed: forbidden|is not the name of a setting"):
        check_harmless({name: 1})


def test_nothing_that_is_curated_does_harm() -> None:
    assert [name for name in CATALOG.knob if harm_of(name)] == []
    harmless = ("innodb_buffer_pool_size", "innodb_log_file_size", "innodb_file_per_table", "max_binlog_size", "vm.swappiness",
                "net.core.somaxconn", "UseG1GC", "MaxHeapSize", "MaxRequestWorkers", "sort_buffer_size", "net.ipv4.tcp_rmem",
                "preload_buffer_size", "innodb_io_capacity", "storage.wiredTiger.cacheSizeGB", "db.work_mem", "web.KeepAlive",
                "concurrent_reads", "native_transport_max_threads", "key_cache_size", "net.maxIncomingConnections",
                "web.ListenBackLog", "ThreadsPerChild", "memtable_heap_space", "app.maxThreads", "os.vm.dirty_ratio")  # fmt: skip
    assert [name for name in harmless if harm_of(name)] == []


@pytest.mark.parametrize("name", META)
def test_names_that_are_no_names_are_refused(name: str) -> None:
    with pytest.raises(ApplyError, match="is not the name of a setting|the server has no knob"):
        check_config({name: 1}, states())


@pytest.mark.parametrize("value", ["on\nfsync = off", "x\x00", "\u202eoff", "y" * 300, "on';--", "pglz\r"])
def test_texts_that_are_no_choice_are_refused(value: str) -> None:
    with pytest.raises(ApplyError, match="control characters|none of its choices"):
        check_config({"wal_compression": value}, states())


@cache
def states() -> dict[str, KnobState]:
    """A catalogue with one knob of each kind, one locked of each class, and hostile ones marked as open."""
    knobs = [
        Knob(name="work_mem", kind=KnobKind.INTEGER, low=64, high=65536, unit="kB", default=4096),
        Knob(name="random_page_cost", kind=KnobKind.REAL, low=0.1, high=10.0, default=4.0),
        Knob(name="enable_sort", kind=KnobKind.BOOLEAN, default=True),
        Knob(name="wal_compression", kind=KnobKind.CHOICE, choices=("off", "pglz", "lz4"), default="off"),
    ]
    found = {
        knob.name: KnobState(
            knob=knob, running=knob.default, is_curated=True, vendor_low=knob.low, vendor_high=knob.high
        )
        for knob in knobs
    }
    text = Knob(name="x", kind=KnobKind.CHOICE, choices=("a", "on"), default="a")
    for safety in SafetyClass:
        knob = replace(text, name=f"of_{safety}", safety=safety)
        reason = "" if safety in (SafetyClass.PERFORMANCE, SafetyClass.FORBIDDEN) else "locked"
        found[knob.name] = KnobState(knob=knob, running="a", lock_reason=reason)
    # a catalogue that was tampered with: open, of the harmless class, and still refused
    for name in (*sorted(CATALOG.forbidden)[:40], "plperl.on_init", "init_connect"):
        found[name] = KnobState(knob=replace(text, name=name, safety=SafetyClass.FORBIDDEN), running="a")
    for name in ("archive_command", "shared_preload_libraries", "log_directory"):
        found[name] = KnobState(knob=replace(text, name=name), running="a", is_curated=True)
    return found


CURATED = [*states()][: 4 + len(SafetyClass)]
"""Drawn more often: of the others nothing passes, and what comes after the gate would hardly be looked at."""
NAMES = st.one_of(st.sampled_from(CURATED), st.sampled_from(sorted([*states(), *X_CLASS, *META])), st.text(max_size=30))
VALUES = st.one_of(
    st.booleans(),
    st.integers(),
    st.integers(60, 70_000),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["on", "a", "off", "pglz", "4MB", "1; SELECT 1"]),
    st.integers(10**300, 10**310),
)
LEGAL = [(name, state.running) for name, state in states().items()]
"""Values that nothing but a lock refuses."""
LONG = settings(max_examples=20_000 if IS_FULL else 200, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@LONG
@given(st.lists(st.one_of(st.sampled_from(LEGAL), st.tuples(NAMES, VALUES)), max_size=4).map(dict))
def test_nothing_that_passes_the_gate_is_locked_or_of_the_x_class(values: dict[str, Any]) -> None:
    try:
        check_config(values, states())
    except ApplyError:
        return
    for name, value in values.items():
        state = states()[name]
        assert not state.lock_reason
        assert state.knob.safety is SafetyClass.PERFORMANCE
        assert name not in CATALOG.forbidden
        assert not harm_of(name)
        own = state.knob.cast(value)
        assert own is not None
        assert type(value) is type(own) or isinstance(value, int)
        if not isinstance(value, str | bool) and state.vendor_low is not None and state.vendor_high is not None:
            assert state.vendor_low <= value <= state.vendor_high
        assert re.fullmatch(r"[\w.+-]+|[0-9.e+-]+\w*", state.knob.format(value), re.ASCII)


@pytest.mark.slow
@LONG
@given(st.lists(NAMES, max_size=4))
def test_no_study_is_over_a_locked_knob(names: list[str]) -> None:
    try:
        require_open(names, states())
    except SpaceError:
        return
    assert all(not states()[name].lock_reason and not harm_of(name) for name in names)


@pytest.mark.slow
@LONG
@given(st.sets(st.sampled_from(sorted(CATALOG.forbidden)), min_size=1), st.lists(st.sampled_from(list(SafetyClass))))
def test_no_unlocking_in_a_study_file_opens_the_x_class(names: set[str], classes: list[SafetyClass]) -> None:
    table = {"embedded": "18", "unlock": [str(kind) for kind in classes]}
    try:
        given = read_settings("db", table)
    except UsageError:
        assert {SafetyClass.FORBIDDEN, SafetyClass.PERFORMANCE} & set(classes)
        return
    assert "forbidden" not in given.unlock
    sight = Sight(readings={name: Reading(name=name, text="x", kind="text") for name in names}, curated=CATALOG.knob)
    bounds = {"memory": 8e9, "cores": 4.0, "connections": 100.0, "disk": 1e11}
    shown = knob_states(sight, CATALOG, bounds, given, "")
    assert [name for name, state in shown.items() if not state.lock_reason.startswith("forbidden: ")] == []
    assert shown.keys() == names


def hostile() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in (
        "work_mem; DROP TABLE witness",
        "x'\nfsync=off",
        "archive_command",
        "fsync",
        "WORK_MEM",
        "$(touch hacked)",
    ):
        yield f"knob {name!r}", {"knobs": (name,)}
    yield (
        "range",
        {"search": '[search]\nsearcher = "random"\n[search.ranges]\n"work_mem; DROP TABLE witness" = [1, 2]\n'},
    )
    yield "range text", {"search": '[search]\n[search.ranges]\nwork_mem = ["1MB; DROP TABLE witness", "2MB"]\n'}
    yield "advice", {"search": '[search]\n[search.advice]\narchive_command = "touch hacked"\n'}
    yield "constraint", {"search": "[search]\nconstraints = [\"__import__('os').system('touch hacked') <= 1\"]\n"}
    yield "searcher", {"search": '[search]\nsearcher = "os:system"\n'}
    yield "unlock", {"target": 'unlock = ["forbidden"]'}
    yield "restart", {"target": "restart = \"sh -c 'touch hacked'\""}
    yield (
        "database",
        {"workload": '[workload]\nkind = "sql"\ndatabase = "postgres; DROP TABLE witness"\nfiles = ["read.sql"]\n'},
    )
    yield "files", {"workload": '[workload]\nkind = "sql"\ndatabase = "postgres"\nfiles = ["| touch hacked"]\n'}
    yield "name", {"name": "../../hacked"}


@pytest.mark.service
def test_S1_metacharacters_in_a_study_file(place_18: Place) -> None:
    before = take_picture(place_18.server)
    for what, change in hostile():
        if what == "restart":
            change = {**change, "reach": f'url = "{place_18.server.url()}"'}  # a restart command without files
        place_18.write(**change)
        ran = place_18.run("doctor" if what == "constraint" else "tune", "study.toml")
        # A database may have any name: the server is asked for that one, and has none.
        code = 4 if what == "database" else 2
        assert ran.code == code, (what, ran.err)
        check_exit(ran, code)
        assert not list(place_18.folder.rglob("hacked*")), what
    check_invariants(place_18, before, recovers=False)


@pytest.mark.service
def test_S1_metacharacters_through_the_driver(make_place: MakePlace) -> None:
    """The last line: with all checks lifted, names and values go to the server as one identifier and one literal."""
    from trimtab.systems.postgresql.autoconf import change_entries
    from trimtab.systems.postgresql.session import connect

    place = make_place("18", False)
    before = take_picture(place.server)
    fields = {"host": str(place.server.sockets), "port": place.server.port, "user": "postgres", "dbname": "postgres"}
    with connect(fields) as connection:
        for name, value in (*((name, "1") for name in META if name), *(("work_mem", value) for value in META)):
            with pytest.raises(Exception) as caught:
                change_entries(connection, {}, {name: value})
            assert type(caught.value).__name__ in ("ApplyError", "TargetError"), caught.value
    check_invariants(place, before, recovers=False)


@pytest.mark.service
def test_S5_run_as_root(place_18: Place) -> None:
    """As root the server and its programs run as a user of their own; as anybody else nothing needs root."""
    before = take_picture(place_18.server)
    child = place_18.start("bench", "study.toml", "--runs", "1", "--set", "work_mem=8MB")
    place_18.wait_step(child, "apply")
    pid = place_18.server.pid
    assert pid is not None
    assert f"\nUid:\t{place_18.server.account.uid}\t" in Path(f"/proc/{pid}/status").read_text()
    assert place_18.server.account.uid != 0
    ran = place_18.end(child)
    check_invariants(place_18, before, ran=ran, code=0)
    said = subprocess.run(
        [sys.executable, "-c", "import trimtab.systems.account as a; print(a.server_account().uid)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(said.stdout) != 0
