"""What the catalogue makes of a MySQL's or MariaDB's own tables, without a server: shapes, classes, locks, memory, rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.systems.mysql_shapes import BINLOG_ADMIN, CONNECTION_ADMIN, MARIADB_ROWS, MYSQL_ROWS
from trimtab.errors import ApplyError, TargetError, UsageError
from trimtab.records import Context, DataRights
from trimtab.space import Config, Constraint, KnobKind, RestartClass, SafetyClass, Space
from trimtab.systems.base import KnobState
from trimtab.systems.fragment import fragment_text
from trimtab.systems.knobs import knob_states
from trimtab.systems.memory import MemoryModel
from trimtab.systems.mysql.catalogue import CATALOG, Facts, curated_for
from trimtab.systems.mysql.flavour import read_flavour
from trimtab.systems.mysql.grant import beyond_rights, grant_text
from trimtab.systems.mysql.pool import MEMORY_FACTS
from trimtab.systems.mysql.settings import read_settings
from trimtab.systems.mysql.values import is_same, option_text, sql_literal
from trimtab.systems.mysql.variables import from_mariadb, from_mysql
from trimtab.systems.overlay import Bounds
from trimtab.systems.rules import advised, check_memory, check_rules, constraints, memory_of
from trimtab.systems.selection import select
from trimtab.systems.server_catalog import parse_server_catalog
from trimtab.systems.settings import ServerSettings

MARIADB, MYSQL = read_flavour("10.11.19-MariaDB-0+deb12u1"), read_flavour("8.0.36")
BOUNDS = {"memory": float(1 << 30), "cores": 4.0, "connections": 151.0, "disk": 1e11}
HEAD = 'schema = 2\nkind = "mysql"\nversions = []\n'
CONTEXT = Context("suite", clients=8, read_share=0.5)


def states(*, may_set: bool = True, no_restart: str = "", mapped: bool = False, **table: Any) -> dict[str, KnobState]:
    settings = read_settings("db", {"embedded": "mariadb"} | table)
    facts = Facts(MARIADB, may_set, False, mapped)
    return _states(MARIADB_ROWS, facts, settings, no_restart)


def mysql_states(bounds: Bounds = BOUNDS, **running: int) -> dict[str, KnobState]:
    """Of a server as installed, but for `running`."""
    settings = read_settings("db", {"url": "mysql://root@localhost/"})
    rows = [(name, running.get(str(name), value), *rest) for name, value, *rest in MYSQL_ROWS]
    variables = from_mysql(rows, curated_for(MYSQL))
    return knob_states(Facts(MYSQL, True, False).sight(variables), CATALOG, bounds, settings, "")


def _states(rows: Any, facts: Facts, settings: ServerSettings, no_restart: str = "") -> dict[str, KnobState]:
    return knob_states(facts.sight(from_mariadb(rows)), CATALOG, BOUNDS, settings, no_restart)


def _memory(found: dict[str, KnobState], clients: int = 8) -> MemoryModel:
    return memory_of(CATALOG, found, {**MEMORY_FACTS, "clients": float(clients)}, budget_bytes=1 << 30)


@pytest.mark.parametrize(
    ("text", "product", "version"),
    [
        ("10.6.16-MariaDB", "mariadb", (10, 6, 16)),
        ("5.5.5-10.11.6-MariaDB-log", "mariadb", (10, 11, 6)),
        ("11.8.2-MariaDB-ubu2404", "mariadb", (11, 8, 2)),
        ("8.0.36", "mysql", (8, 0, 36)),
        ("8.4.3-commercial", "mysql", (8, 4, 3)),
    ],
)
def test_the_flavour_is_read_from_the_version(text: str, product: str, version: tuple[int, int, int]) -> None:
    flavour = read_flavour(text)
    assert (flavour.product, flavour.version) == (product, version)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10.3.39-MariaDB", "version=MariaDB 10.3.39 is not known to the catalogue"),
        ("5.7.44", "version=MySQL 5.7.44 is not known to the catalogue"),
        ("9.1.0", "version=MySQL 9.1.0 is not known to the catalogue"),
        ("Percona", "the server's version='Percona' cannot be read"),
    ],
)
def test_other_versions_are_refused(text: str, message: str) -> None:
    with pytest.raises(TargetError) as caught:
        read_flavour(text)
    assert caught.value.message == message


def test_mariadb_tells_type_limits_and_restart_class() -> None:
    found = states()
    pool, log = found["innodb_buffer_pool_size"], found["innodb_log_buffer_size"]
    assert (pool.knob.kind, pool.knob.unit, pool.running) == (KnobKind.INTEGER, "B", 134217728)
    assert (pool.knob.low, pool.knob.high, pool.knob.step) == (64 << 20, 768 << 20, 8 << 20)
    assert (pool.knob.restart, log.knob.restart) == (RestartClass.RELOAD, RestartClass.RESTART)
    assert found["query_cache_size"].knob.special == (0,)
    assert found["innodb_max_dirty_pages_pct"].knob.kind is KnobKind.REAL
    assert found["query_cache_type"].knob.choices == ("OFF", "ON", "DEMAND")
    assert found["innodb_log_file_size"].source_file == "/etc/mysql/my.cnf"
    assert found["table_open_cache"].source == "SET GLOBAL"


@pytest.mark.parametrize("largest", [2**32 - 1, 2**64 - 1])
def test_a_default_at_the_limit_of_a_word_stands_for_the_running_value(largest: int) -> None:
    rows = [tuple(str(largest) if cell == "4294967295" else cell for cell in row) for row in MARIADB_ROWS]
    settings = read_settings("db", {"embedded": "mariadb"})
    found = _states(rows, Facts(MARIADB, True, False), settings)
    assert found["innodb_io_capacity_max"].knob.default == 2000
    assert found["optimizer_search_depth"].knob.default == 62


def test_no_sort_buffer_is_tried_that_makes_sorts_fail() -> None:
    """Error 1038: fifteen keys of a sort must fit, and one by four long columns has keys of 4 kB."""
    for found in (states(), mysql_states()):
        low = found["sort_buffer_size"].knob.low
        assert low is not None
        assert low >= 256 << 10


def test_no_stack_is_tried_below_the_servers_own() -> None:
    """MySQL has had 1 MiB since 8.0.27: with less, complex statements and deep calls of routines fail (error 1436)."""
    low = states()["thread_stack"].knob.low
    assert low is not None
    assert low >= 1 << 20


def test_mysql_gets_types_and_restart_classes_from_the_overlay() -> None:
    found = mysql_states()
    assert found["innodb_doublewrite"].knob.kind is KnobKind.BOOLEAN
    assert found["innodb_flush_method"].knob.choices == ("fsync", "O_DIRECT")
    assert found["innodb_flush_method"].knob.restart is RestartClass.RESTART
    assert found["innodb_redo_log_capacity"].knob.restart is RestartClass.RELOAD
    assert found["innodb_thread_concurrency"].knob.special == (0,)
    assert found["innodb_max_dirty_pages_pct"].knob.kind is KnobKind.REAL
    assert (found["innodb_buffer_pool_instances"].vendor_high, found["sql_mode"].knob.kind) == (64, KnobKind.CHOICE)
    assert "query_cache_size" not in found


def test_what_only_one_product_has_stays_there() -> None:
    assert "query_cache_type" not in curated_for(MYSQL)
    assert "innodb_redo_log_capacity" not in curated_for(MARIADB)
    assert "innodb_buffer_pool_size" in curated_for(MYSQL)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("innodb_doublewrite", 'safety class durability is locked; unlock = ["durability"] opens it'),
        ("innodb_flush_log_at_trx_commit", 'safety class durability is locked; unlock = ["durability"] opens it'),
        ("init_connect", "forbidden: runs code"),
        ("autocommit", "not curated"),
        ("key_buffer_size", "set on the server's command line, which wins over every file"),
        ("max_connections", 'safety class semantics is locked; unlock = ["semantics"] opens it'),
    ],
)
def test_locks_say_why(name: str, reason: str) -> None:
    assert states()[name].lock_reason == reason


def test_what_needs_a_restart_is_locked_where_a_cluster_forbids_one() -> None:
    reason = CATALOG.denied["last_node"].reason
    facts, settings = Facts(MARIADB, True, False, no_restart=reason), read_settings("db", {"embedded": "mariadb"})
    found = _states(MARIADB_ROWS, facts, settings)
    assert found["innodb_log_buffer_size"].lock_reason == reason
    assert found["innodb_io_capacity"].lock_reason == ""


def test_mariadb_11_wants_further_rights_for_some_knobs() -> None:
    eleven = read_flavour("11.4.2-MariaDB")
    super_only = ["GRANT PROCESS, SUPER, SLAVE MONITOR ON *.* TO `a`@`localhost`"]
    assert beyond_rights(MARIADB, super_only) == frozenset()
    assert {"max_connections", "sync_binlog"} <= beyond_rights(eleven, super_only)
    assert "max_connections" not in beyond_rights(eleven, [*super_only, "GRANT CONNECTION ADMIN ON *.* TO `a`@`%`"])
    assert beyond_rights(eleven, ["GRANT ALL PRIVILEGES ON *.* TO `a`@`localhost`"]) == frozenset()
    assert "GRANT SUPER, BINLOG ADMIN, CONNECTION ADMIN, PROCESS" in grant_text(eleven, 3, None, "tuner")
    settings = read_settings("db", {"embedded": "mariadb", "unlock": ["semantics"]})
    facts = Facts(eleven, True, False, beyond_rights=beyond_rights(eleven, super_only))
    found = _states(MARIADB_ROWS, facts, settings)
    assert "no BINLOG ADMIN or CONNECTION ADMIN privilege" in found["max_connections"].lock_reason
    assert found["innodb_io_capacity"].lock_reason == ""


def test_the_further_rights_are_those_of_the_manual() -> None:
    eleven = read_flavour("11.0.2-MariaDB")
    ours = frozenset(curated_for(eleven))
    super_only = ["GRANT SUPER ON *.* TO `a`@`localhost`"]
    assert beyond_rights(eleven, super_only) == ours & {*BINLOG_ADMIN, *CONNECTION_ADMIN}
    one = [*super_only, "GRANT BINLOG ADMIN ON *.* TO `a`@`localhost`"]
    assert beyond_rights(eleven, one) == ours & {*CONNECTION_ADMIN}


def test_new_names_of_replication_variables_are_classed_as_the_old() -> None:
    for old, new in (
        ("log_slave_updates", "log_replica_updates"),
        ("slave_skip_errors", "replica_skip_errors"),
        ("sync_master_info", "sync_source_info"),
        ("rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"),
        ("rpl_semi_sync_slave_enabled", "rpl_semi_sync_replica_enabled"),
    ):
        assert CATALOG.safety_of(new) is CATALOG.safety_of(old)
        assert CATALOG.safety_of(new) is not SafetyClass.PERFORMANCE
    assert CATALOG.forbidden_reason("replica_load_tmpdir") == CATALOG.forbidden_reason("slave_load_tmpdir") != ""


def test_further_locks() -> None:
    assert states(no_restart="needs a restart, and cannot")["thread_stack"].lock_reason == "needs a restart, and cannot"
    locked = states(allow_restart=False)["thread_stack"].lock_reason
    assert locked == "needs a restart, and allow_restart = false"
    assert states(mapped=True)["innodb_log_buffer_size"].lock_reason.startswith("has no effect")
    assert states(unlock=["durability"])["innodb_doublewrite"].lock_reason == ""
    assert mysql_states()["sort_buffer_size"].lock_reason.startswith("set by SET PERSIST")
    none = states(may_set=False)
    assert "no SUPER or SYSTEM_VARIABLES_ADMIN" in none["sort_buffer_size"].lock_reason
    assert none["thread_stack"].lock_reason == ""


def test_secrets_are_not_shown() -> None:
    assert states()["report_password"].running == "***"


def test_who_may_change_nothing_is_told() -> None:
    found = states(may_set=False, no_restart="cannot").values()
    reasons = {state.lock_reason for state in found if state.is_curated}
    with pytest.raises(TargetError, match="this user may not change any variable of the server"):
        CATALOG.require_changeable(reasons)
    assert all(CATALOG.is_denial(reason) == reason.startswith("this user may not") for reason in reasons)


def test_a_right_that_only_some_variables_need_denies_nothing_else() -> None:
    further = CATALOG.denied["no_further_right"].reason
    assert CATALOG.denial({further, ""}) is None
    assert not CATALOG.is_denial(further)


def _selected(choice: Any, found: dict[str, KnobState], *, reads_only: bool = False) -> tuple[str, ...]:
    return select(choice, found, CATALOG, reads_only=reads_only, skips_absent=False)


def test_sets_and_names() -> None:
    found = states()
    assert "sort_buffer_size" in _selected("performance", found)
    assert "innodb_io_capacity" not in _selected("performance", found, reads_only=True)
    assert _selected(["thread_stack", "query_cache"], found) == (
        "thread_stack",
        "query_cache_type",
        "query_cache_size",
    )
    for name, message in (
        ("sort_bufer_size", "unknown knob or set='sort_bufer_size' in knobs"),
        ("autocommit", "knob='autocommit' is not curated"),
        ("innodb_doublewrite", "knob='innodb_doublewrite' is locked: safety class durability"),
    ):
        with pytest.raises(UsageError) as caught:
            _selected([name], found)
        assert caught.value.message.startswith(message)


def test_the_overlay_holds_the_papers_and_the_classes() -> None:
    overlay = CATALOG
    assert len(overlay.knob) >= 60
    named = (
        "table_open_cache query_cache_size query_cache_limit sort_buffer_size thread_stack read_buffer_size max_connections"
        " thread_cache_size key_buffer_size innodb_buffer_pool_size max_allowed_packet"
    )
    assert set(named.split()) <= set(overlay.knob)
    assert not CATALOG.forbidden & set(overlay.knob)
    locked = ("completion_type", "autocommit", "sql_mode", "sync_binlog", "innodb_doublewrite")
    assert all(CATALOG.safety_of(name) is not SafetyClass.PERFORMANCE for name in locked)
    assert (
        CATALOG.safety_of("lower_case_table_names") is CATALOG.safety_of("skip_grant_tables") is SafetyClass.FORBIDDEN
    )
    assert CATALOG.forbidden_reason("skip_innodb") == "forbidden: can lock users or the tuner out"
    assert CATALOG.forbidden_reason("general_log_file").endswith("names files that the server reads or writes")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not toml", "the catalogue is not TOML"),
        (f'{HEAD}[knob.init_connect]\ndoc = "Runs at every login."', "forbidden knobs may not be"),
        (f'{HEAD}[knob.x]\ndoc = "Something or other."\nonly = "oracle"', "knob.x.only"),
    ],
)
def test_a_broken_overlay_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_server_catalog(text)


def test_the_memory_budget_counts_every_client() -> None:
    found = states()
    one, two = (_memory(found, n).use({}) for n in (1, 2))
    assert two["sort_buffer_size"] == 2 * one["sort_buffer_size"] == 4 << 20
    assert one["innodb_buffer_pool_size"] == pytest.approx(134217728 * 1.05)
    assert one["temporary tables"] == 16 << 20
    names = ("innodb_buffer_pool_size", "sort_buffer_size", "innodb_io_capacity")
    budget = _memory(found).constraint(names)
    assert budget is not None
    limits = [budget, *constraints(CATALOG, names, found, {})]
    space = Space([found[name].knob for name in names], limits)
    assert [limit.name for limit in limits] == ["memory budget", "innodb_io_capacity <= innodb_io_capacity_max"]
    base = {"innodb_buffer_pool_size": 128 << 20, "sort_buffer_size": 1 << 20, "innodb_io_capacity": 200}
    assert not space.violations(Config(base))
    assert "memory budget" in space.violations(Config(base | {"innodb_buffer_pool_size": 768 << 20}))[0]
    assert space.violations(Config(base | {"innodb_io_capacity": 5000}))


def _open_files(
    names: tuple[str, ...], found: dict[str, KnobState], product: str, limit: int | None
) -> tuple[Constraint, ...]:
    facts = {} if limit is None else {"open_files": float(limit)}
    return tuple(constraints(CATALOG, names, found, facts, product=product))


def test_the_caches_of_tables_ask_for_no_more_files_than_the_server_may_open() -> None:
    found = states()
    tables, instances = (replace(found["table_open_cache"].knob, name=name, low=1, high=high, default=1)
                         for name, high in (("table_open_cache", 20000), ("table_open_cache_instances", 32)))  # fmt: skip
    found["table_open_cache_instances"] = replace(found["table_open_cache"], knob=instances, running=4)
    names = ("table_open_cache", "table_open_cache_instances")
    (limit,) = _open_files(names, found, "mariadb", 20000)
    space = Space([tables, instances], [limit])
    assert space.is_feasible(Config({"table_open_cache": 2000, "table_open_cache_instances": 4}))
    assert "open files" in space.violations(Config({"table_open_cache": 2000, "table_open_cache_instances": 5}))[0]
    (of_mysql,) = _open_files(names, found, "mysql", 20000)
    assert Space([tables, instances], [of_mysql]).is_feasible(
        Config({"table_open_cache": 9800, "table_open_cache_instances": 32})
    )
    assert _open_files(names, found, "mariadb", None) == ()
    assert _open_files(names, found, "mariadb", 16000) == ()  # the running config is beyond it
    assert _open_files(("sort_buffer_size",), found, "mariadb", 20000) == ()


def test_the_rules_stay_inside_ranges_and_budget() -> None:
    found = states()
    config = advised(CATALOG, found, {**BOUNDS, "clients": 8.0, "ssd": 1.0, "hdd": 0.0}, _memory(found))
    assert config["query_cache_size"] == 0
    assert "key_buffer_size" not in config
    assert int(config["innodb_buffer_pool_size"]) % (8 << 20) == 0
    assert _memory(found).total(config) <= 1 << 30
    for name, value in config.items():
        knob = found[name].knob
        assert value in knob.special or knob.low is None or knob.low <= value <= knob.high  # type: ignore[operator]


def test_orders_and_memory_are_checked_before_anything() -> None:
    found = states()
    with pytest.raises(ApplyError, match="innodb_io_capacity=5000 is above innodb_io_capacity_max=2000"):
        check_rules(CATALOG, Config({"innodb_io_capacity": 5000}), found, {})
    logs = Config({"innodb_log_buffer_size": 32 << 20, "innodb_log_file_size": 4 << 20})
    with pytest.raises(
        ApplyError, match="innodb_log_buffer_size <= innodb_log_file_size does not hold with .*=32MB, .*=4MB"
    ):
        check_rules(CATALOG, logs, found, {}, product="mariadb")
    with pytest.raises(ApplyError, match="a single client at work would take memory="):
        check_memory(Config({"innodb_buffer_pool_size": 2 << 30}), _memory(found, 1))
    check_memory(Config({"innodb_io_capacity": 300}), replace(_memory(found, 1), budget_bytes=1 << 20))


def test_what_binds_the_log_buffer_of_mariadb_does_not_bind_that_of_mysql() -> None:
    """MySQL 8.4 as installed has 64 MiB, beside a size of log files that it does not use."""
    found, name = mysql_states(innodb_log_buffer_size=64 << 20), "innodb_log_buffer_size"
    assert found["innodb_log_file_size"].running == 48 << 20
    assert list(constraints(CATALOG, (name,), found, {}, product="mysql")) == []
    check_rules(CATALOG, Config({name: 128 << 20}), found, {}, product="mysql")
    (of_mariadb,) = constraints(CATALOG, (name,), states(), {}, product="mariadb")
    assert of_mariadb.label == "innodb_log_buffer_size <= innodb_log_file_size"


def test_values_are_written_and_compared_as_the_server_does() -> None:
    assert [option_text(value) for value in (True, False, 7, 0.5, "OFF")] == ["ON", "OFF", "7", "0.5", "OFF"]
    assert sql_literal("it's \\ odd") == "'it''s \\\\ odd'"
    assert is_same(90.0, 90.0000004)
    assert is_same("OFF", "off")
    assert not is_same(1, True)
    assert not is_same("1", 1)


def test_the_fragment_says_what_it_was() -> None:
    config = Config({"thread_stack": 262144, "query_cache_type": "ON"})
    text = fragment_text(config, states(), lambda _, value: option_text(value), ["[mysqld]"])
    assert text.splitlines()[0] == "[mysqld]"
    assert "Was 292kB; needs a restart. 256kB." in text
    assert "thread_stack = 262144\n" in text
    assert "query_cache_type = ON\n" in text


def test_rights_as_sql() -> None:
    own = DataRights(database="shop_1", makes_databases=False, is_users_own=True, reads_only=False)
    text = grant_text(MARIADB, 3, own, "o'tuner")
    assert "CREATE USER 'o''tuner'@'localhost' IDENTIFIED VIA unix_socket;" in text
    assert "GRANT SELECT, INSERT, UPDATE, DELETE ON `shop\\_1`.* TO" in text
    text = grant_text(MYSQL, 3, None, "t")
    assert "SYSTEM_VARIABLES_ADMIN, PROCESS, REPLICATION CLIENT ON *.*" in text
    assert (
        "INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'\nCREATE USER 't'@'localhost' IDENTIFIED WITH auth_socket;"
        in text
    )
    assert "PASSWORD" not in text


def test_the_printed_user_may_come_from_where_we_come_from() -> None:
    """One of localhost cannot log in from another machine, nor over TCP where names are not resolved (skip_name_resolve)."""
    text = grant_text(MARIADB, 3, None, "t", host="10.0.0.5")
    assert "CREATE USER 't'@'10.0.0.5' " in text
    assert "TO 't'@'10.0.0.5';" in text
    assert "localhost" not in text
    assert "on this machine" not in text
    assert "ALTER USER 't'@'10.0.0.5' IDENTIFIED BY" in text


@pytest.mark.parametrize("minor", range(MYSQL.known.lowest[1], MYSQL.known.highest[1] + 1))
def test_an_embedded_mysql_listens_on_its_private_socket_only(minor: int) -> None:
    assert f"[mysqld-8.{minor}]\nmysqlx = OFF\n" in CATALOG.own_files["server.cnf"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, 'needs exactly one of embedded = "mariadb" (or "mysql") and url'),
        ({"embedded": "mariadb", "url": "mysql://a@b/"}, "needs exactly one of embedded"),
        ({"embedded": "oracle"}, '\'oracle\' is neither "mariadb" nor "mysql" nor the path of a server program'),
        ({"embedded": "mariadb", "include_file": "/x"}, "include_file goes with url"),
        ({"url": "mysql://a@b/", "restart": "x"}, "restart needs include_file too"),
        ({"url": "mysql://a@b/", "memory_limit": True}, "memory_limit needs embedded"),
        ({"url": "postgresql://a@b/"}, "url is not a MySQL connection string"),
        ({"url": "mysql://secret-word@@:x/"}, "url is not a MySQL connection string"),
        ({"url": "mysql://a@b/?ssl=1"}, "url is not a MySQL connection string"),
        ({"embedded": "mariadb", "unlock": ["all"]}, "unknown safety class 'all'"),
        ({"embedded": "mariadb", "memory": "much"}, "memory: "),
        ({"embeded": "mariadb"}, "unknown key 'embeded' in [target.db]"),
    ],
)
def test_wrong_settings_are_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_settings("db", table)
    assert message in caught.value.message
    assert "secret-word" not in str(caught.value)


def test_a_url_is_read_and_shown_without_its_password() -> None:
    settings = read_settings("db", {"url": "mysql://jo%40x:pa%3Ass@localhost/shop?socket=/run/mysqld/mysqld.sock"})
    endpoint = settings.endpoint()
    assert (endpoint.user, endpoint.password, endpoint.host) == ("jo@x", "pa:ss", "/run/mysqld/mysqld.sock")
    assert endpoint.database == "shop"
    assert settings.safe_url == "mysql://jo%40x@localhost:3306/shop?socket=/run/mysqld/mysqld.sock"
    assert "pa:ss" not in str(settings)
    assert read_settings("db", settings.public()).endpoint().host == endpoint.host
