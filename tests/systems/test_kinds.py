"""Kinds of system that a catalogue describes alone: found by their files, and run as their catalogue or a study file says."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.commands import PYTHON
from tests.sources import PACKAGE, source_of_file
from tests.systems.program.conftest import CATALOG, cache, conf, folder, made
from trimtab import plugins
from trimtab.errors import ApplyError, UsageError
from trimtab.records import Fault
from trimtab.space import Config, amount
from trimtab.systems import KnobState, kinds
from trimtab.systems.catalog_file import catalog_faults
from trimtab.systems.evidence import classified
from trimtab.systems.file_knobs import unknown_value
from trimtab.systems.kinds import kind_of_catalog
from trimtab.systems.plays import fitting_plays
from trimtab.systems.rules import check_rules, constraints, memory_of

__all__ = ["cache", "folder"]

SHIPPED = sorted(file.name.removesuffix(".toml") for file in (files("trimtab.catalog") / "kinds").iterdir())


def test_a_way_back_of_a_database_server_loads_nothing_of_files_and_codecs() -> None:
    """The dead-man imports what it needs when it acts, beside a load that may still run."""
    seen, todo = set[str](), ["trimtab.systems.postgresql.target", "trimtab.systems.mysql.target"]
    while todo:
        path = PACKAGE.parent.joinpath(*(name := todo.pop()).split("."))
        file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        if name in seen or not file.exists() or (file.parent == PACKAGE / "systems" and file.name == "__init__.py"):
            continue
        seen.add(name)
        todo += (each for each in source_of_file(file).imports if each.startswith("trimtab.systems."))
    assert "trimtab.systems.doctor" in seen
    assert not seen & {f"trimtab.systems.{each}" for each in ("catalog", "codec", "file_channel", "channel_paths")}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_catalogue_is_a_kind(name: str, tmp_path: Path) -> None:
    assert name in plugins.names("targets")
    kind = plugins.load("targets", name)
    assert plugins.load("targets", name) is kind
    target = kind.from_settings("x", {}, state_dir=tmp_path)
    assert target.kind == target.catalog.kind == name
    paths = [channel.path for channel in target.catalog.channel.values()]
    assert all(Path(path).is_absolute() or path == "mount:{mount}" for path in paths)


def test_an_httpd_that_gets_no_semaphore_is_no_fault_of_a_config() -> None:
    line = "[core:emerg] [pid 4] (28)No space left on device: AH00023: Couldn't create the rewrite-map mutex"
    (symptom,) = classified(f"[Sun Dec 23 15:22:11 2018] {line}\n", plugins.load("targets", "httpd").catalogue().log)
    assert (symptom.fault, symptom.is_own_demand) == (Fault.RESOURCE, False)


@pytest.mark.parametrize("name", ["cassandra", "httpd", "tomcat"])
def test_no_stack_is_tried_that_a_rare_request_may_overflow(name: str, tmp_path: Path) -> None:
    """Less than 1 MiB; a load of common requests does not show it."""
    knob = plugins.load("targets", name).from_settings("x", {}, state_dir=tmp_path)._example_knob("ThreadStackSize")
    assert knob.low * {"B": 1, "kB": 1024}[knob.unit] >= 1 << 20


@pytest.mark.parametrize("name", ["sort_memory", "group_memory", "hash_agg_memory", "lookup_hash_memory"])
@pytest.mark.parametrize("memory", [512 << 20, 64 << 30])
def test_no_limit_is_tried_under_which_a_rare_query_fails(name: str, memory: int, tmp_path: Path) -> None:
    """One that may not use the disk: it has to do with what mongod allows by default, or more."""
    entry = plugins.load("targets", "mongodb").from_settings("x", {}, state_dir=tmp_path).catalog.knob[name]
    low, high = entry.useful({"memory": float(memory)})
    assert low == entry.default_number
    assert float(low) < float(high)


@pytest.mark.parametrize(
    ("name", "least"),
    [("cassandra", 20), ("httpd", 10), ("linux", 6), ("mongodb", 6), ("nginx", 7), ("tomcat", 18), ("wiredtiger", 10)],
)
def test_the_plays_of_a_shipped_catalogue_set_its_knobs(name: str, least: int, tmp_path: Path) -> None:
    """All of them, with those of its facets; each by values that its knobs have."""
    target = plugins.load("targets", name).from_settings("x", {}, state_dir=tmp_path)
    plays = target.catalog.play
    assert len(plays) >= least
    assert all(source.startswith("https://") for play in plays.values() for source in play.sources)
    states = {
        knob: KnobState(knob=(known := target._example_knob(knob)), running=known.default)
        for knob in target.catalog.knob
    }
    facts = {"memory": 2.0**31, "cores": 4.0, "connections": 1.0, "disk": 1e11, "clients": 500.0}
    always = {play: entry.model_copy(update={"when": ""}) for play, entry in plays.items()}
    found = {play.name: play.settings for play in fitting_plays(always, states, facts)}
    assert {play: set(entry.settings) for play, entry in plays.items()} == {n: set(s) for n, s in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("clients", [9, 17, 24, 64, 201, 301, 401, 2000])
@pytest.mark.parametrize(
    ("kind", "play", "knob"),
    [
        ("tomcat", "large_pool", "maxTotal"),
        ("tomcat", "large_pool", "maxIdle"),
        ("tomcat", "a_thread_for_each_client", "maxThreads"),
        ("httpd", "workers_for_all_clients processes_for_all_clients", "MaxRequestWorkers"),
    ],
)
def test_a_play_that_says_more_does_not_set_less(kind: str, play: str, knob: str, clients: int, tmp_path: Path) -> None:
    """Than the default, whatever the load: with 24 clients a "large pool" had five connections, where eight are the default."""
    target = plugins.load("targets", kind).from_settings("x", {}, state_dir=tmp_path)
    states = {
        name: KnobState(knob=(own := target._example_knob(name)), running=own.default) for name in target.catalog.knob
    }
    facts = {"memory": 2.0**33, "cores": 2.0, "connections": 1.0, "disk": 1e11, "clients": float(clients)}
    found = fitting_plays({name: target.catalog.play[name] for name in play.split()}, states, facts)
    assert all(each.settings[knob] > states[knob].knob.default for each in found)
    assert found or clients <= 401


def _example(kind: str, folder: Path, **running: Any) -> tuple[Any, dict[str, KnobState]]:
    """The catalogue of a kind, and its knobs at their defaults but for those that are `running`."""
    target = plugins.load("targets", kind).from_settings("x", {"memory": "1GiB"}, state_dir=folder)
    knobs = {name: target._example_knob(name) for name in target.catalog.knob}
    return target.catalog, {n: KnobState(knob=own, running=running.get(n, own.default)) for n, own in knobs.items()}


@pytest.mark.parametrize("protocols", ["h2c http/1.1", "h2 h2c http/1.1"])
def test_threads_of_http2_take_memory_where_it_is_spoken(protocols: str, tmp_path: Path) -> None:
    """Of each process; the second list of protocols is none that the catalogue knows."""
    more = {"MaxRequestWorkers": 400, "ThreadsPerChild": 25, "H2MinWorkers": 25, "H2MaxWorkers": 100}
    sizes = {"H2StreamMaxMemSize": 32 << 10}
    for mpm, n_processes in (("event", 16), ("prefork", 400)):
        for spoken, n_threads in ((protocols, n_processes * 100), ("http/1.1", 0)):
            catalog, states = _example("httpd", tmp_path, mpm=mpm, Protocols=spoken, **more, **sizes)
            use = memory_of(catalog, states, {"clients": 1.0}, budget_bytes=8 << 30).use({})
            assert use["http2"] == n_threads * (288 << 10)
    catalog, states = _example("httpd", tmp_path, Protocols=protocols, **more, **sizes)
    bound = memory_of(catalog, states, {"clients": 1.0}, budget_bytes=1 << 30).constraint(["H2MaxWorkers"])
    assert bound is not None
    knobs = {"H2MaxWorkers": states["H2MaxWorkers"].knob}
    assert [bound.is_met({"H2MaxWorkers": n}, knobs) for n in (100, 1000)] == [True, False]


def test_what_httpd_keeps_for_slow_clients_takes_memory(tmp_path: Path) -> None:
    """With 60 of them it took 304 MB with these values, and 10 MB with the defaults."""

    def buffers(**values: int) -> float:
        catalog, states = _example("httpd", tmp_path, MaxRequestWorkers=60, **values)
        return memory_of(catalog, states, {"clients": 1.0}, budget_bytes=8 << 30).use({})["buffers"]

    assert buffers() == 0
    assert buffers(FlushMaxThreshold=4 << 20) == pytest.approx(300 << 20, rel=0.2)
    assert buffers(ProxyIOBufferSize=1 << 20) == buffers(ReadBufferSize=1 << 20) == pytest.approx(60 << 20, rel=0.05)


@pytest.mark.parametrize(
    ("kind", "knob", "sets"),
    [
        ("linux", "somaxconn", set()),  # read when a server begins to listen
        ("linux", "busy_read", set()),  # read when a socket is made
        ("tomcat", "MaxRAMPercentage", set()),  # only where no size of the heap is given
        ("tomcat", "compression", {"compression"}),  # our browsers accept no compressed answer
        ("tomcat", "compressionMinSize", {"compression"}),
    ],
)
def test_what_a_trial_cannot_feel_is_in_no_common_set(kind: str, knob: str, sets: set[str], tmp_path: Path) -> None:
    catalog = plugins.load("targets", kind).from_settings("x", {}, state_dir=tmp_path).catalog
    assert {name for name, knobs in catalog.sets.items() if knob in knobs} - {"all"} == sets


@pytest.mark.parametrize(
    ("kind", "knob", "safety"),
    [
        ("linux", "lazy_times", "durability"),  # a crash loses times by which backups find changed files
        ("httpd", "CacheQuickHandler", "security"),  # answers before it is known who may have the page
        ("httpd", "BufferedLogs", "durability"),
        ("httpd", "HostnameLookups", "security"),  # rules by the client's name see an address without it
        ("tomcat", "enableLookups", "security"),  # filters of hosts by name let everyone in without it
        ("httpd", "MaxConnectionsPerChild", "semantics"),  # what modules and scripts leak takes days to show
        ("httpd", "LogIOTrackTTFB", "semantics"),  # lines of the log lack what its format names
        ("tomcat", "autoDeploy", "semantics"),  # new applications are not deployed without it
        ("tomcat", "DisableExplicitGC", "semantics"),  # full direct memory is an error then
        ("tomcat", "MaxDirectMemorySize", "semantics"),  # what needs more is an error, and common requests do not
        ("cassandra", "MaxDirectMemorySize", "performance"),  # a rule of the catalogue makes room for its buffers
        ("tomcat", "cacheState", "semantics"),  # wrong for a program that changes a connection behind the pool
        ("cassandra", "hints_flush_period", "replication"),  # a crash loses what a node that is down has to get
        ("mongodb", "ttl_sleep", "semantics"),  # clients find documents that have expired
        ("wiredtiger", "log_remove", "data_loss"),  # a log that is kept fills the disk
        ("tomcat", "executorMaxQueueSize", "semantics"),  # turns requests away
        ("redis", "maxclients", "semantics"),  # turns users away
        ("redis", "maxmemory", "data_loss"),  # evicts keys, or refuses writes, once it is full
    ],
)
def test_what_a_short_load_does_not_show_is_locked(kind: str, knob: str, safety: str, tmp_path: Path) -> None:
    catalog = plugins.load("targets", kind).from_settings("x", {}, state_dir=tmp_path).catalog
    assert catalog.knob[knob].safety == safety


@pytest.mark.parametrize(
    ("kind", "running", "config", "refused"),
    [
        ("tomcat", {"minIdle": 8, "maxIdle": -1}, {"minIdle": 16}, None),  # no limit
        (
            "linux",
            {"dirty_background_ratio": 10, "dirty_ratio": 0},
            {"dirty_background_ratio": 5},
            None,
        ),  # dirty_bytes counts
        (
            "linux",
            {"dirty_background_ratio": 10, "dirty_ratio": 0},
            {"dirty_background_ratio": 9, "dirty_ratio": 6},
            "=6",
        ),
        ("linux", {"dirty_background_ratio": 10, "dirty_ratio": 20}, {"dirty_background_ratio": 30}, "=20"),
    ],
)
def test_an_order_that_does_not_hold_as_found_binds_nothing_but_both_together(
    kind: str, running: dict[str, int], config: dict[str, int], refused: str | None, tmp_path: Path
) -> None:
    target = plugins.load("targets", kind).from_settings("x", {}, state_dir=tmp_path)
    states = {name: KnobState(knob=target._example_knob(name), running=value) for name, value in running.items()}
    low, high = running
    order = f"{low} <= {high}"
    bounds = [each for each in constraints(target.catalog, tuple(config), states, {}) if each.text == order]
    assert bool(bounds) == (refused is not None)
    if refused is None:
        check_rules(target.catalog, Config(config), states, {})
        return
    with pytest.raises(ApplyError, match=f"{low}=.* is above {high}{refused}"):
        check_rules(target.catalog, Config(config), states, {})


@pytest.mark.parametrize(("max_idle", "is_met"), [(-1, True), (16, True), (4, False)])
def test_without_an_upper_end_an_order_holds(max_idle: int, is_met: bool, tmp_path: Path) -> None:
    """Also as found: a study of a pool that keeps all its idle connections does not begin with settings of Trimtab's own."""
    target = plugins.load("targets", "tomcat").from_settings("x", {}, state_dir=tmp_path)
    values = {"minIdle": 16, "maxIdle": max_idle}
    states = {name: KnobState(knob=target._example_knob(name), running=value) for name, value in values.items()}
    (order,) = constraints(target.catalog, tuple(values), states, {})
    assert order.name == "minIdle <= maxIdle"
    assert order.is_met(values, {name: state.knob for name, state in states.items()}) is is_met
    held = {
        **states,
        "minIdle": replace(states["minIdle"], running=0),
        "maxIdle": replace(states["maxIdle"], running=8),
    }
    if is_met:
        check_rules(target.catalog, Config(values), held, {})
        return
    with pytest.raises(ApplyError, match="minIdle=16 is above maxIdle=4"):
        check_rules(target.catalog, Config(values), held, {})


def test_a_pool_without_a_limit_is_never_tried(tmp_path: Path) -> None:
    """-1 would lie below every limit of the database's connections; a pool that has it keeps it."""
    target = plugins.load("targets", "tomcat").from_settings("x", {}, state_dir=tmp_path)
    knob = target._example_knob("maxTotal")
    assert -1 not in knob.special
    assert knob.low > 0
    assert "-1, is not one that the catalogue knows" in unknown_value(target.catalog.knob["maxTotal"], knob, -1)


@pytest.mark.parametrize(("knob", "seconds"), [("dirty_expire_centisecs", 30), ("dirty_writeback_centisecs", 5)])
def test_unwritten_pages_get_no_older_than_usual(knob: str, seconds: int, tmp_path: Path) -> None:
    """A page is written at the first look after its age has come."""
    catalog = plugins.load("targets", "linux").from_settings("x", {}, state_dir=tmp_path).catalog
    entry = catalog.knob[knob]
    assert entry.default == entry.useful({})[1] == seconds * 100


@pytest.mark.parametrize("clients", [1.0, 12.0, 700.0])
def test_the_workers_that_httpd_is_advised_fill_a_process(clients: float, tmp_path: Path) -> None:
    catalog = plugins.load("targets", "httpd").from_settings("x", {}, state_dir=tmp_path).catalog
    workers, threads = (
        amount(str(catalog.advice[name]), {"clients": clients}) for name in ("MaxRequestWorkers", "ThreadsPerChild")
    )
    assert threads <= workers <= threads * float(catalog.knob["ServerLimit"].default)


def test_redis_is_shipped() -> None:
    assert "redis" in SHIPPED


@pytest.mark.parametrize(
    ("name", "knob", "text", "value"),
    [
        ("redis", "maxmemory", "1g", 1_000_000_000),
        ("redis", "maxmemory", "100M", 100_000_000),
        ("redis", "maxmemory", "1gb", 1 << 30),
        ("httpd", "KeepAliveTimeout", "1mi", 60),
        ("httpd", "KeepAliveTimeout", "5S", 5),
    ],
)
def test_units_of_a_shipped_catalogue_are_those_of_the_program(
    name: str, knob: str, text: str, value: int, tmp_path: Path
) -> None:
    """As redis.conf itself says of its units, and as httpd's ap_timeout_parameter_parse reads them."""
    target = plugins.load("targets", name).from_settings("x", {}, state_dir=tmp_path)
    assert target._parsed(target._example_knob(knob), text) == value


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"names": "secret"}, "[target.web] names is not a table"),
        ({"names": ["secret"], "embedded": "2.4"}, "[target.web] names is not a table"),
        ({"passwords": "secret"}, "[target.web] passwords is not a table"),
        ({"embedded": 2.4}, "[target.web] embedded=2.4 is not a text"),
        ({"embedded": ["2.4"]}, "[target.web] embedded=['2.4'] is not a text"),
    ],
)
def test_a_key_of_another_shape_is_told(table: dict[str, Any], message: str, tmp_path: Path) -> None:
    """Before the table is joined with what the catalogue says."""
    with pytest.raises(UsageError) as caught:
        plugins.load("targets", "httpd").from_settings("web", table, state_dir=tmp_path)
    assert caught.value.message == message
    assert (caught.value.hint or "").startswith("write ")


def test_what_is_not_shipped_is_no_kind() -> None:
    with pytest.raises(UsageError, match="no plug-in 'memcached' in targets"):
        plugins.load("targets", "memcached")
    with pytest.raises(AttributeError, match="no catalogue of kind='memcached' is shipped"):
        _ = kinds.memcached


def lifecycle(**keys: str) -> str:
    return "\n[lifecycle]\n" + "".join(f"{key} = {text!r}\n" for key, text in keys.items())


def kind(folder: Path, more: str) -> Any:
    return kind_of_catalog(CATALOG + more, where=str(folder / "catalog.toml"))


def settings(folder: Path, more: str, **table: Any) -> dict[str, Any]:
    target = kind(folder, more).from_settings("zip", table, state_dir=folder, directory=folder)
    return {key: getattr(target.settings, key) for key in ("run", "restart", "start", "pid_file", "process", "health")}


def test_a_table_without_keys_is_run_as_the_catalogue_says(folder: Path) -> None:
    usual = lifecycle(restart="r x", pid_file="/p", process="squeezer", health="h")
    assert settings(folder, usual) == {
        "run": None, "restart": "r x", "start": None, "pid_file": "/p", "process": "squeezer", "health": "h",
    }  # fmt: skip
    assert settings(folder, usual, health="mine")["health"] == "mine"


def test_of_how_it_is_started_all_gives_way(folder: Path) -> None:
    usual = lifecycle(restart="r x", pid_file="/p", process="squeezer", health="h")
    assert settings(folder, usual, run="mine") == {
        "run": "mine", "restart": None, "start": None, "pid_file": None, "process": None, "health": "h",
    }  # fmt: skip
    found = settings(folder, usual, pid_file="/mine", start="a", stop="b")
    assert (found["restart"], found["start"], found["pid_file"]) == (None, "a", "/mine")


def test_it_is_run_changed_and_restored_by_its_catalogue_alone(folder: Path) -> None:
    run = lifecycle(run=f"{PYTHON} program.py {folder}", health=f"test -f {folder}/seen")
    made_kind = kind(folder, run)
    target = made_kind.from_settings("zip", {"folder": "."}, state_dir=folder / "state", directory=folder)
    assert target.kind == "squeezer"
    target.open()
    try:
        found, before = target.snapshot(), conf(folder)
        target.apply(Config({"level": 9}))
        assert "level = 9 " in conf(folder)
        assert (folder / "seen").exists()
    finally:
        target.close()
    again = made_kind.from_snapshot(found, state_dir=folder / "state")
    again.restore(found, target._sentry.own)
    again.close()
    assert conf(folder) == before


def test_a_program_of_the_users_has_its_lifecycle_too(folder: Path) -> None:
    (folder / "catalog.toml").write_text(CATALOG + lifecycle(run="squeeze --all", health="h"))
    assert made(folder).settings.run == "squeeze --all"
    assert made(folder, run="other").settings.run == "other"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (lifecycle(stop="s"), "[lifecycle]: stop needs start too, or give restart"),
        (lifecycle(restart="r"), "[lifecycle]: restart needs pid_file too"),
        (lifecycle(health="'"), "[lifecycle] health: cannot be split into words"),
        (lifecycle(folder="/"), "unknown key 'lifecycle.folder'"),
    ],
)
def test_a_lifecycle_with_a_fault(more: str, message: str) -> None:
    _, faults = catalog_faults(CATALOG + more)
    assert len(faults) == 1
    assert message in faults[0][0]
    assert faults[0][1]


PRIVATE = """
[embedded."2"]
program = "/bin/squeeze"
packages = ["squeezer"]
needs = { java = "jre" }
paths = { conf = "squeeze.conf" }
[embedded."2".files]
a = "of 2"
b = "of 2"
[embedded."2".lifecycle]
run = "{program}"
url = "tcp://127.0.0.1:{port}"
"""


def test_a_private_version_like_another_one_has_what_it_does_not_say_itself() -> None:
    older = '[embedded."1"]\nlike = "2"\nneeds = { zip = "zip" }\n[embedded."1".files]\na = "of 1"\n'
    catalog, faults = catalog_faults(CATALOG + PRIVATE + older)
    assert catalog is not None
    assert not faults
    found, base = catalog.embedded["1"], catalog.embedded["2"]
    assert found == base.model_copy(
        update={"needs": {"java": "jre", "zip": "zip"}, "files": {"a": "of 1", "b": "of 2"}}
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('[embedded."1"]\nlike = "3"\n', "1: like='3' must name a version without like; use one of: '2'"),
        ('[embedded."1"]\nlike = ["2"]\n', "1: like=['2'] must name a version without like; use one of: '2'"),
        ('[embedded."1"]\nlike = "1"\n', "1: like='1' must name a version without like; use one of: '2'"),
        ('[embedded."1"]\nlike = "2"\nlikes = "2"\n', "unknown key 'embedded.1.likes'"),
    ],
)
def test_a_private_version_like_none(more: str, message: str) -> None:
    _, faults = catalog_faults(CATALOG + PRIVATE + more)
    assert len(faults) == 1
    assert message in faults[0][0]


def test_a_shipped_table_with_an_unknown_key(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown key 'helth' in") as caught:
        plugins.load("targets", "redis").from_settings("cache", {"helth": "x"}, state_dir=tmp_path)
    assert caught.value.hint == "did you mean 'health'?"
