"""The curated overlay obeys its schema, and every entry of it is true of real servers."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.records import Context
from trimtab.space import Config, Knob, KnobKind, RestartClass, SafetyClass, Space, amount
from trimtab.systems.base import KnobState
from trimtab.systems.knobs import Reading
from trimtab.systems.postgresql import PostgresTarget, catalogue
from trimtab.systems.postgresql import target as target_module
from trimtab.systems.postgresql.autoconf import change_entries, file_faults, read_entries, reload_and_wait
from trimtab.systems.postgresql.catalogue import CATALOG, major_version, read_rows
from trimtab.systems.postgresql.session import Connection
from trimtab.systems.postgresql.values import is_same, setting_text
from trimtab.systems.rules import advised, memory_of
from trimtab.systems.selection import select
from trimtab.systems.server_catalog import parse_server_catalog

HEAD = 'schema = 2\nkind = "postgresql"\nversions = [13, 18]\n'
KNOB = '[knob.work_mem]\ndoc = "Memory of one sort or hash step."\n'


def test_there_are_at_least_ninety_performance_knobs() -> None:
    knobs = CATALOG.knob.values()
    assert sum(knob.safety is SafetyClass.PERFORMANCE for knob in knobs) >= 90


def test_the_default_set_is_of_a_size_that_can_be_searched() -> None:
    sets = CATALOG.sets
    assert 25 <= len(sets["performance"]) <= 40
    assert {"performance", "memory", "planner", "wal", "vacuum", "io", "parallel", "all"} <= set(sets)
    assert len(sets["all"]) == len(CATALOG.knob)
    curated = CATALOG.knob
    assert all(curated[name].safety is SafetyClass.PERFORMANCE for name in sets["performance"])


def test_forbidden_knobs_are_not_curated() -> None:
    assert not CATALOG.forbidden & set(CATALOG.knob)
    for name in ("archive_command", "session_preload_libraries", "listen_addresses", "data_checksums", "log_directory"):
        assert CATALOG.safety_of(name) is SafetyClass.FORBIDDEN


@pytest.mark.parametrize(
    ("name", "safety"),
    [
        ("fsync", "durability"),
        ("full_page_writes", "durability"),
        ("synchronous_commit", "durability"),
        ("wal_sync_method", "durability"),
        ("autovacuum", "data_loss"),
        ("max_connections", "replication"),
        ("wal_log_hints", "replication"),
    ],
)
def test_dangerous_knobs_have_their_class(name: str, safety: str) -> None:
    assert CATALOG.knob[name].safety.value == safety


def test_a_lazier_wal_writer_is_out_of_range() -> None:
    """With synchronous_commit = off, also of single sessions, a crash loses up to three times its delay."""
    assert CATALOG.knob["wal_writer_delay"].useful({})[1] == 200


@pytest.mark.parametrize(("clients", "share"), [(1.0, 16), (4.0, 16), (24.0, 96)])
def test_few_clients_are_not_advised_the_whole_memory_for_a_step(clients: float, share: int) -> None:
    """A plan has several of them, and so has each of its workers."""
    memory = float(1 << 32)
    assert amount(str(CATALOG.advice["work_mem"]), {"memory": memory, "clients": clients}) == memory / share


@pytest.mark.parametrize(("running_mb", "running_s", "mb", "s"), [(1024, 300, 4096, 900), (16384, 1800, 16384, 1800)])
def test_advice_makes_no_checkpoints_more_frequent(running_mb: int, running_s: int, mb: int, s: int) -> None:
    size = Knob(name="max_wal_size", kind=KnobKind.INTEGER, low=256, high=16384, unit="MB", default=1024)
    time = Knob(name="checkpoint_timeout", kind=KnobKind.INTEGER, low=60, high=3600, unit="s", default=300)
    states = {knob.name: KnobState(knob=knob, running=value) for knob, value in ((size, running_mb), (time, running_s))}
    facts = {"memory": 1e10, "cores": 4.0, "connections": 100.0, "disk": 1e11, "clients": 4.0, "ssd": 0.0, "hdd": 0.0}
    config = advised(CATALOG, states, facts, memory_of(CATALOG, states, facts, budget_bytes=10**10))
    assert dict(config) == {"max_wal_size": mb, "checkpoint_timeout": s}


def test_code_and_overlay_agree_on_classes() -> None:
    for name, knob in CATALOG.knob.items():
        assert CATALOG.safety_of(name) in (SafetyClass.PERFORMANCE, knob.safety), name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[knob.x", "is not TOML"),
        (HEAD.replace("2", "1", 1), "wrong at schema"),
        (HEAD + '[knob.fsync]\ndoc = "short"\n', r"wrong at knob.fsync.doc"),
        (HEAD + KNOB + "lowest = 1\n", r"wrong at knob.work_mem.lowest: Extra inputs are not permitted"),
        (HEAD + KNOB + "low = 1\n", "low and high go together"),
        (HEAD + KNOB + "low = 8\nhigh = 4\n", "useful range of 8 to 4 is empty"),
        (HEAD + KNOB + "low = 0\nhigh = 4\nlog = true\n", "is empty, or logarithmic from 0"),
        (HEAD + KNOB + "low = 0\nhigh = 4\nspecial = [2]\n", "a special value lies inside the useful range"),
        (HEAD + KNOB + "log = true\n", "log and special need a range"),
        (HEAD + KNOB + 'low = "memory ** 2"\nhigh = 4\n', "cannot evaluate expression='memory \\*\\* 2'"),
        (HEAD + KNOB + 'low = "__import__(1)"\nhigh = 4\n', "cannot evaluate expression="),
        (HEAD + KNOB + 'unit = "parsec"\nlow = 1\nhigh = 4\n', "unknown unit='parsec'"),
        (HEAD + KNOB + "since = 17\nuntil = 15\n", "since > until"),
        (HEAD + KNOB + 'safety = "forbidden"\n', "safety is forbidden"),
        (
            HEAD + '[knob.archive_command]\ndoc = "Runs a command."\n',
            "forbidden knobs may not be curated: archive_command",
        ),
    ],
)
def test_a_wrong_overlay_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_server_catalog(text)


def test_the_file_has_no_knob_twice_and_only_known_keys() -> None:
    text = (files("trimtab.catalog") / "postgresql.toml").read_text(encoding="utf-8")
    keys = "schema kind versions secret orders reserve shrinks standby knob constraint memory advice advice_when pinned never"
    more = "safety log refusal grant lock lag counts denied disk least_disk discover sql own_files change_refusal"
    assert set(tomllib.loads(text)) == {*keys.split(), *more.split()}


@pytest.mark.service
def test_every_entry_is_known_to_the_server_in_its_versions_and_only_there(target: PostgresTarget) -> None:
    with target._reach.connect() as connection:
        rows, major = read_rows(connection), major_version(connection)
    for name, knob in CATALOG.knob.items():
        assert (name in rows) == knob.is_known_in(major), name


@pytest.mark.service
def test_units_contexts_and_limits_are_the_servers(target: PostgresTarget) -> None:
    states = target.states()
    with target._reach.connect() as connection:
        major = major_version(connection)
    for name, overlay in CATALOG.knob.items():
        if name not in states:
            continue
        state = states[name]
        knob = state.knob
        assert state.is_curated
        assert knob.unit == overlay.unit, name
        is_late = overlay.restart == "restart" or major <= overlay.restart_until
        assert knob.restart is (RestartClass.RESTART if is_late else RestartClass.RELOAD), name
        assert (overlay.low is not None) == knob.is_numeric, name
        if knob.is_numeric:
            assert knob.low is not None
            assert knob.high is not None
            assert knob.low < knob.high, name
            assert state.vendor_low is not None
            assert state.vendor_high is not None
            assert state.vendor_low <= knob.low <= knob.high <= state.vendor_high, name
            assert all(state.vendor_low <= value <= state.vendor_high for value in knob.special), name
        if knob.kind is KnobKind.CHOICE:
            assert set(knob.choices) <= set(overlay.choices), name
            assert knob.choices, name
        # what runs by default is worth trying, or the range would have no way back
        assert state.running in knob.special or not knob.is_numeric or knob.low <= state.running <= knob.high, name


@pytest.mark.service
def test_the_server_takes_every_end_special_value_and_choice(target: PostgresTarget) -> None:
    states = {name: state for name, state in target.states().items() if state.is_curated}
    rounds: list[dict[str, str]] = []
    for name, state in states.items():
        knob = state.knob
        values = [knob.low, knob.high, *knob.special] if knob.is_numeric else [*knob.choices] or [True, False]
        for index, value in enumerate(values):
            assert value is not None
            if index == len(rounds):
                rounds.append({})
            rounds[index][name] = setting_text(value, knob.unit)
    for wanted in rounds:
        with target._reach.connect() as connection:
            change_entries(connection, read_entries(connection), wanted)
            assert file_faults(connection) == []
        reload_and_wait(target._reach.connect)
        with target._reach.connect() as connection:
            assert file_faults(connection) == []
            rows = read_rows(connection)
        for name, text in wanted.items():
            if states[name].knob.restart is RestartClass.RELOAD and not rows[name].is_pending:
                assert is_same(rows[name].value, _value(text, rows[name].kind, states[name].knob.unit)), name


def _selected(
    choice: str | tuple[str, ...], states: Mapping[str, KnobState], *, reads_only: bool = False
) -> tuple[str, ...]:
    return select(choice, states, CATALOG, reads_only=reads_only, skips_absent=True)


def _value(text: str, kind: str, unit: str) -> bool | int | float | str:
    from trimtab.units import parse_value

    if kind in ("integer", "real"):
        return parse_value(text, unit)
    return text == "on" if kind == "bool" else text


@pytest.mark.service
def test_the_server_starts_with_all_lows_and_with_all_highs(target: PostgresTarget) -> None:
    """Restart-class knobs too, as far as a machine of this size can hold them."""
    names = [n for n, s in target.states().items() if s.is_curated and not s.lock_reason and s.knob.is_numeric]
    states = target.states()
    for end in ("low", "high"):
        values = {name: getattr(states[name].knob, end) for name in names}
        if end == "high":
            values["max_connections"] = 100
            values["shared_buffers"] = 65536  # beside everything else
            values["max_locks_per_transaction"] = 128
        values["min_wal_size"] = min(values["min_wal_size"], values["max_wal_size"])
        if "io_combine_limit" in values:
            values.pop("io_combine_limit")
        applied = target.apply(Config(values))
        assert applied.restarted
        assert all(is_same(applied.effective[name], value) for name, value in values.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("disabled", "group", "running", "is_left"),
    [
        ("0", "-1", "worker", True),
        ("1", "-1", "worker", False),
        ("1", "118", "worker", True),
        ("2", "118", "worker", False),
        ("2", "-1", "io_uring", True),
        ("", "", "worker", True),
    ],
)
def test_a_way_to_read_that_the_kernel_forbids_is_no_choice(
    opened: PostgresTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    disabled: str, group: str, running: str, is_left: bool,
) -> None:  # fmt: skip
    """A server with it does not start; what runs, and what an older kernel does not say, is not forbidden."""
    for name, text in (("io_uring_disabled", disabled), ("io_uring_group", group)):
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setattr(catalogue, "_SYSCTL", tmp_path)
    knows = Reading(
        name="io_method", text=running, kind="choice", default="worker", choices=("sync", "worker", "io_uring"),
        is_late=True,
    )  # fmt: skip
    monkeypatch.setattr(target_module, "read_rows", lambda session: {**read_rows(session), "io_method": knows})
    rows, _ = opened._look()
    assert rows["io_method"].choices == (("sync", "worker", "io_uring") if is_left else ("sync", "worker"))


@pytest.mark.service
def test_every_set_makes_a_space_that_holds_the_running_config(target: PostgresTarget) -> None:
    states, context = target.states(), Context("test", clients=12)
    for choice in CATALOG.sets:
        names = _selected(choice, states)
        running = {n: states[n].running for n in names}
        space = Space(
            [states[n].knob for n in names],
            target.constraints(names, context),
            also_legal={n: (v,) for n, v in running.items()},
        )
        assert names, choice
        assert space.violations(Config(running)) == (), choice


def test_a_set_leaves_out_what_only_writes_feel_when_the_workload_only_reads(target: PostgresTarget) -> None:
    states = target.states()
    reads = set(_selected("performance", states, reads_only=True))
    writes = set(_selected("performance", states))
    assert {"shared_buffers", "work_mem", "random_page_cost"} <= reads < writes
    assert {"max_wal_size", "commit_delay", "bgwriter_delay", "autovacuum_naptime"} <= writes - reads
    assert _selected(("planner", "max_wal_size"), states, reads_only=True)[-1] == "max_wal_size"
    context = Context(workload="reads", clients=4, read_share=1.0)
    assert set(target.selection(context)) == set(_selected("all", states))


WITH_WORKERS = "max_parallel_workers_per_gather > 0"
PLANS = (
    "SELECT count(*) FROM (SELECT * FROM shape_one UNION ALL SELECT * FROM shape_two) u",
    "SELECT count(*) FROM shape_one a JOIN shape_two b ON a.x = b.x",
    "SELECT * FROM shape_one ORDER BY y",
)


def _plans(connection: Connection, changed: Mapping[str, str], workers: int) -> list[str]:
    """The plans of PLANS, with their costs, where workers cost little."""
    settings = {"parallel_setup_cost": "0", "parallel_tuple_cost": "0.001", "min_parallel_table_scan_size": "0"}
    settings |= {"enable_sort": "on", **changed, "max_parallel_workers_per_gather": str(workers)}
    with connection.transaction(force_rollback=True):
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, true)", (name, value))
        return ["\n".join(str(row[0]) for row in connection.execute(f"EXPLAIN {query}")) for query in PLANS]


@pytest.mark.service
def test_knobs_of_parallel_queries_change_plans_with_workers_and_none_without(target: PostgresTarget) -> None:
    """Their condition is true: without workers a config of other values is the same config."""
    knobs = [name for name, entry in CATALOG.knob.items() if entry.condition == WITH_WORKERS]
    assert {"parallel_setup_cost", "parallel_tuple_cost", "enable_parallel_hash"} <= set(knobs)
    with target._reach.connect() as connection:
        for table in ("shape_one", "shape_two"):
            connection.execute(f"CREATE TABLE {table} AS SELECT x, x % 97 AS y FROM generate_series(1, 30000) AS g(x)")
            connection.execute(f"ANALYZE {table}")
        try:
            for name in knobs:
                other = {name: "off" if CATALOG.knob[name].low is None else "500"}
                assert _plans(connection, other, 2) != _plans(connection, {}, 2), name
                assert _plans(connection, other, 0) == _plans(connection, {}, 0), name
        finally:
            connection.execute("DROP TABLE shape_one, shape_two")


@pytest.mark.service
def test_a_standby_that_is_away_has_its_limits_kept(target: PostgresTarget) -> None:
    """Its slot stands for it: with fewer workers than its primary it would stop when it comes back, and no undo would help."""
    assert "standby" not in target.states()["max_worker_processes"].lock_reason
    with target._reach.connect() as connection:
        connection.execute("SELECT pg_create_physical_replication_slot('away')")
        try:
            assert "standby" in target.states()["max_worker_processes"].lock_reason
        finally:
            connection.execute("SELECT pg_drop_replication_slot('away')")
