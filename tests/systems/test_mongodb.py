"""MongoDB: its catalogue, the syntax of its file, values and commands; documents are shaped as MongoDB's reference shows them."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from tests.needs import require
from tests.servers.mongodb import private_mongodb
from trimtab import plugins
from trimtab.errors import TargetError
from trimtab.space import Config, Space, Value
from trimtab.systems.base import KnobState
from trimtab.systems.catalog import Catalog
from trimtab.systems.catalog_file import parse_catalog
from trimtab.systems.codec import CodecError, codec_of
from trimtab.systems.codec.mongod_conf import MongodConf
from trimtab.systems.dump import printed_values
from trimtab.systems.file_knobs import knob_of
from trimtab.systems.mongodb.__main__ import main
from trimtab.systems.mongodb.client import Mongod
from trimtab.systems.mongodb.values import ENGINE, RUNTIME, as_conf, commands_of, counters_of, values_of
from trimtab.systems.rules import memory_of
from trimtab.testing.codec_suite import CodecSample, CodecSuite

CONF = """\
# mongod.conf
storage:
  dbPath: /var/lib/mongodb
  wiredTiger:
    engineConfig:
      cacheSizeGB: 2
      configString: "eviction=(threads_min=4,threads_max=4),eviction_dirty_target=5"
net:
  port: 27017   # the usual one
setParameter:
  ttlMonitorSleepSecs: 60
"""
KEY = "storage.wiredTiger.engineConfig"


class TestMongodConf(CodecSuite):
    @pytest.fixture(params=["in a group", "beside it", "new text"])
    def sample(self, request: pytest.FixtureRequest) -> CodecSample:
        if request.param == "new text":
            return CodecSample(
                codec=MongodConf(),
                text="storage:\n  dbPath: /data # here\n",
                changes={"storage.dbPath": "/other"},
                added={f"{KEY}.configString#cache_overhead": "9"},
                kept=("# here",),
            )
        if request.param == "in a group":
            return CodecSample(
                codec=codec_of("mongod"),
                text=CONF,
                changes={f"{KEY}.configString#eviction.threads_max": "8", f"{KEY}.cacheSizeGB": "3"},
                added={f"{KEY}.configString#eviction.evict_sample_inmem": "true"},
                kept=("# mongod.conf", "# the usual one", "eviction_dirty_target=5"),
            )
        return CodecSample(
            codec=MongodConf(),
            text=CONF,
            changes={"setParameter.ttlMonitorSleepSecs": "30"},
            added={f"{KEY}.configString#io_capacity.total": "1000000", "setParameter.syncdelay": "20"},
            kept=("threads_min=4,threads_max=4",),
        )


def test_settings_of_the_engine_have_addresses_of_their_own() -> None:
    found = {address: located.value for address, located in MongodConf().read(CONF).items()}
    assert found[f"{KEY}.configString#eviction.threads_min"] == "4"
    assert found[f"{KEY}.configString#eviction_dirty_target"] == "5"
    assert f"{KEY}.configString" not in found
    assert found["net.port"] == "27017"


def test_a_setting_of_the_engine_is_taken_out_again() -> None:
    codec, address = MongodConf(), f"{KEY}.configString#cache_overhead"
    with_it = codec.write(CONF, {address: "9"})
    assert codec.write(with_it, {address: None}) == CONF
    first = codec.write(CONF, {f"{KEY}.configString#eviction_dirty_target": None})
    assert 'configString: "eviction=(threads_min=4,threads_max=4)"' in first


@pytest.mark.parametrize("value", ["1,cache_size=1", "1)", 'a"b', "a b"])
def test_a_value_brings_no_other_setting_in(value: str) -> None:
    with pytest.raises(CodecError):
        MongodConf().write(CONF, {f"{KEY}.configString#eviction_dirty_target": value})
    with pytest.raises(CodecError, match="is not a setting of the engine"):
        MongodConf().write(CONF, {f"{KEY}.configString#cache_overhead": value})


def catalogue() -> Catalog:
    text = (files("trimtab.catalog") / "kinds" / "mongodb.toml").read_text(encoding="utf-8")
    return parse_catalog(text, name="mongodb.toml")


def test_the_catalogue_has_many_knobs_and_locks_the_dangerous_ones() -> None:
    known = catalogue()
    assert len(known.knob) >= 50
    safety = {name: str(knob.safety) for name, knob in known.knob.items()}
    assert (safety["journal_enabled"], safety["commit_interval"]) == ("durability", "durability")
    assert safety["flow_control"] == "replication"
    assert not any(known.address_of(name).startswith("security.") for name in safety)


def test_every_address_can_be_written_into_the_file_and_read_back() -> None:
    known, codec = catalogue(), MongodConf()
    values = {known.address_of(name): f"{i + 1}" for i, name in enumerate(known.knob)}
    text = codec.write(CONF, dict(values))
    found = codec.read(text)
    assert {address: found[address].value for address in values} == values


def test_parameters_that_a_version_lacks_are_locked_by_its_own_list() -> None:
    known = catalogue()
    for name, knob in known.knob.items():
        address = known.address_of(name)
        assert (address.startswith("setParameter.") or name == "journal_enabled") == bool(knob.needs), name
        if knob.needs and name != "release_rate":
            assert knob.needs == f"[{address.removeprefix('setParameter.')}]"


def test_what_changes_at_run_time_has_a_command() -> None:
    """Or its reload would send a name that is no parameter."""
    known = catalogue()
    now = {known.address_of(name): "0" for name in known.knob}
    conf = MongodConf().write("", dict.fromkeys(now, "1"))
    sent = commands_of(conf, now, {}, "")
    runtime = [name for name, knob in known.knob.items() if str(knob.restart) == "reload"]
    engine = {name for name in runtime if known.address_of(name).startswith(ENGINE)}
    names = {key for command in sent for key in command} - {"setParameter"}
    assert len(sent) == len(runtime) - len(engine) + 1
    assert not any("." in name for name in names), names
    assert {"profile", "slowms", RUNTIME, "syncdelay", "ttlMonitorSleepSecs"} <= names


PARAMETERS: dict[str, Any] = {
    "ttlMonitorSleepSecs": 60,
    "syncdelay": 60.0,
    "journalCommitInterval": 100,
    "authenticationMechanisms": ["SCRAM-SHA-1", "SCRAM-SHA-256"],
    "logicalSessionRefreshMillis": 300000,
    "wiredTigerEngineRuntimeConfig": "eviction_dirty_target=10",
    "storageEngineConcurrencyAdjustmentAlgorithm": "throughputProbing",
    "enableFlowControl": True,
    "featureCompatibilityVersion": {"version": "7.0"},
    "ok": 1.0,
}
OPTIONS = {
    "argv": ["mongod", "--config", "/etc/mongod.conf"],
    "parsed": {
        "net": {"port": 27017, "bindIp": "127.0.0.1"},
        "storage": {"dbPath": "/var/lib/mongodb", "wiredTiger": {"engineConfig": {
            "cacheSizeGB": 2.0, "configString": "eviction=(threads_min=4),eviction_dirty_target=5"}}},
        "systemLog": {"destination": "file"},
    },
    "ok": 1.0,
}  # fmt: skip
PROFILE = {"was": 1, "slowms": 100, "sampleRate": 1.0, "ok": 1.0}
STATUS = {
    "opcounters": {"insert": 5, "query": 7},
    "wiredTiger": {
        "cache": {"maximum bytes configured": 2147483648, "bytes read into cache": 12},
        "uri": "statistics:",
    },
    "host": "db1",
    "ok": 1.0,
}


def test_values_in_use_come_from_three_answers() -> None:
    values = values_of(PARAMETERS, OPTIONS, STATUS)
    assert values["setParameter.ttlMonitorSleepSecs"] == "60"
    assert values["setParameter.enableFlowControl"] == "true"
    assert values["storage.syncPeriodSecs"] == "60"
    assert values[f"{KEY}.cacheSizeGB"] == "2"
    # What was set at run time counts, not what the file says.
    assert values[f"{ENGINE}eviction_dirty_target"] == "10"
    assert values[f"{ENGINE}eviction.threads_min"] == "4"
    assert not any("featureCompatibilityVersion" in address for address in values)


def test_a_parameter_of_the_file_has_the_value_that_was_set_since() -> None:
    """Or a value of ours would be read as the found one, and would stay after the way back."""
    options = {**OPTIONS, "parsed": {**OPTIONS["parsed"], "setParameter": {"ttlMonitorSleepSecs": "60"}}}  # type: ignore[dict-item]
    now = values_of({**PARAMETERS, "ttlMonitorSleepSecs": 5}, options, STATUS)
    assert now["setParameter.ttlMonitorSleepSecs"] == "5"
    assert len(commands_of("setParameter:\n  ttlMonitorSleepSecs: 60\n", now)) == 1


def test_values_are_printed_as_a_file_and_read_back() -> None:
    values = values_of(PARAMETERS, OPTIONS, STATUS)
    text = as_conf(values)
    known = catalogue()
    wanted = [known.address_of(name) for name in known.knob]
    printed = printed_values("mongod", text, wanted)
    assert printed == {address: values[address] for address in wanted if address in values}
    assert len(printed) >= 8


def test_commands_change_what_differs_and_the_engine_in_one() -> None:
    codec = MongodConf()
    conf = codec.write(CONF, {
        "setParameter.ttlMonitorSleepSecs": "30", "setParameter.enableFlowControl": "true", "storage.syncPeriodSecs": "20",
        f"{ENGINE}eviction.threads_max": "8", f"{ENGINE}eviction_dirty_target": "15",
    })  # fmt: skip
    commands = commands_of(conf, values_of(PARAMETERS, OPTIONS, STATUS))
    # The number of threads counts at the next start.
    assert commands[-1] == {"setParameter": 1, "wiredTigerEngineRuntimeConfig": "eviction_dirty_target=15"}
    plain = {name: value for command in commands[:-1] for name, value in command.items() if name != "setParameter"}
    assert plain == {"ttlMonitorSleepSecs": 30, "syncdelay": 20}
    assert next(iter(commands[0])) == "setParameter"


def test_what_is_in_use_already_needs_no_command() -> None:
    assert commands_of("setParameter:\n  ttlMonitorSleepSecs: 60\n", values_of(PARAMETERS, OPTIONS, STATUS)) == []


def test_what_counts_at_the_start_only_is_not_sent() -> None:
    """A mongod refuses such a parameter at run time, and one that it shows as a list would differ from the file for ever."""
    conf = """\
storage:
  syncPeriodSecs: 60.0
setParameter:
  authenticationMechanisms: SCRAM-SHA-256
  logicalSessionRefreshMillis: 60000
  enableFlowControl: 1
  ttlMonitorSleepSecs: 30
"""
    now = values_of(PARAMETERS, OPTIONS, STATUS, PROFILE)
    assert commands_of(conf, now) == [{"setParameter": 1, "ttlMonitorSleepSecs": 30}]
    assert commands_of("", now, {"setParameter.logicalSessionRefreshMillis": "60000"}) == []


def test_the_threshold_of_slow_operations_is_the_profilers() -> None:
    now = values_of(PARAMETERS, OPTIONS, STATUS, {**PROFILE, "slowms": 70})
    assert now["operationProfiling.slowOpThresholdMs"] == "70"
    conf = "operationProfiling:\n  slowOpThresholdMs: 20\n"
    assert commands_of(conf, now, level=1) == [{"profile": 1, "slowms": 20}]
    assert commands_of(conf, {**now, "operationProfiling.slowOpThresholdMs": "20"}, level=1) == []
    back = {"operationProfiling.slowOpThresholdMs": "100"}
    assert commands_of("", now, back, level=1) == [{"profile": 1, "slowms": 100}]


def test_counters_are_numbers_by_their_path() -> None:
    assert counters_of(STATUS) == {
        "opcounters.insert": 5.0,
        "opcounters.query": 7.0,
        "wiredTiger.cache.bytes read into cache": 12.0,
    }


class FakeMongoError(Exception):
    """As the client library raises it."""


class FakeDatabase:
    """Answers commands; refuses one parameter, and everything that only a start sets."""

    def __init__(self, seen: list[dict[str, Any]]) -> None:
        self.seen = seen

    def command(self, command: dict[str, Any]) -> dict[str, Any]:
        self.seen.append(command)
        if "logicalSessionRefreshMillis" in command or "slowOpThresholdMs" in command:
            raise FakeMongoError("not allowed to change at runtime")
        if "profile" in command:
            if FakeClient.hides_profile:
                raise FakeMongoError("not authorized on admin to execute command")
            return PROFILE
        if "buildInfo" in command:
            return {"version": FakeClient.version}
        if command.get("ttlMonitorSleepSecs") == -1:
            raise FakeMongoError("Invalid value for parameter ttlMonitorSleepSecs")
        if "getParameter" in command:
            return PARAMETERS
        return OPTIONS if "getCmdLineOpts" in command else STATUS


class FakeClient:
    """A client that reaches nothing."""

    seen: ClassVar[list[dict[str, Any]]] = []
    logins: ClassVar[list[tuple[str, str | None, str | None]]] = []
    version: ClassVar[str] = "7.0.5"
    hides_profile: ClassVar[bool] = False

    def __init__(self, url: str, **options: Any) -> None:
        if not url.startswith("mongodb://"):
            raise ValueError("Invalid URI scheme")
        self.logins.append((url, options.get("username"), options.get("password")))

    def __getitem__(self, name: str) -> FakeDatabase:
        return FakeDatabase(self.seen)

    def close(self) -> None:
        pass


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    library, errors = ModuleType("pymongo"), ModuleType("pymongo.errors")
    library.MongoClient = FakeClient  # type: ignore[attr-defined]
    errors.PyMongoError = errors.ConfigurationError = FakeMongoError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pymongo", library)
    monkeypatch.setitem(sys.modules, "pymongo.errors", errors)
    monkeypatch.setattr(FakeClient, "logins", [])
    FakeClient.seen.clear()
    return FakeClient.seen


def test_the_commands_of_the_catalogue(
    client: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = "mongodb://127.0.0.1:27017/"
    assert (
        main([url, "--ping"])
        == main([url, "--counters"])
        == main([url, "--parameters"])
        == main([url, "--values"])
        == 0
    )
    shown = capsys.readouterr().out
    assert "7 opcounters.query\n" in shown
    assert "[ttlMonitorSleepSecs]\n" in shown
    assert "ttlMonitorSleepSecs: '60'\n" in shown
    conf = tmp_path / "mongod.conf"
    conf.write_text("setParameter:\n  ttlMonitorSleepSecs: 5\n")
    assert main([url, "--reload", str(conf)]) == 0
    assert client[-1] == {"setParameter": 1, "ttlMonitorSleepSecs": 5}
    assert main([]) == main([url]) == main([url, "--nonsense"]) == 2


def test_a_parameter_that_the_mongod_refuses_is_told(
    client: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    conf = tmp_path / "mongod.conf"
    conf.write_text("setParameter:\n  ttlMonitorSleepSecs: -1\n")
    assert main(["mongodb://h/", "--reload", str(conf)]) == 1
    assert (
        "the mongod refuses setParameter ttlMonitorSleepSecs=-1: Invalid value for parameter" in capsys.readouterr().err
    )


@pytest.mark.usefixtures("client")
def test_parameters_are_those_of_this_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before 6.1 the journal could be off; from 8.0 on another allocator takes tcmallocReleaseRate in bytes a second."""

    def lacks(version: str, allocator: str) -> set[str]:
        monkeypatch.setattr(FakeClient, "version", version)
        monkeypatch.setitem(PARAMETERS, "tcmallocReleaseRate", 1.0)
        monkeypatch.setitem(PARAMETERS, allocator, 1)
        assert main(["mongodb://h/", "--parameters"]) == 0
        shown = capsys.readouterr().out
        monkeypatch.delitem(PARAMETERS, allocator)
        return {name for name in ("journal_enabled", "release_rate") if catalogue().knob[name].needs not in shown}

    assert lacks("6.0.14", "tcmallocMaxTotalThreadCacheBytes") == set()
    assert lacks("7.0.5", "tcmallocMaxTotalThreadCacheBytes") == {"journal_enabled"}
    assert lacks("8.0.4", "tcmallocMaxPerCPUCacheSize") == {"journal_enabled", "release_rate"}


def test_a_reload_of_a_file_with_start_parameters_works(client: list[dict[str, Any]], tmp_path: Path) -> None:
    conf = tmp_path / "mongod.conf"
    conf.write_text("setParameter:\n  logicalSessionRefreshMillis: 9\noperationProfiling:\n  slowOpThresholdMs: 5\n")
    assert main(["mongodb://h/", "--reload", str(conf)]) == 0
    assert client[-1] == {"profile": 1, "slowms": 5}


def test_a_user_who_may_not_see_the_profiler_reloads_the_rest(
    client: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(FakeClient, "hides_profile", True)
    conf = tmp_path / "mongod.conf"
    conf.write_text("setParameter:\n  ttlMonitorSleepSecs: 5\n")
    assert main(["mongodb://h/", "--values"]) == main(["mongodb://h/", "--reload", str(conf)]) == 0
    assert client[-1] == {"setParameter": 1, "ttlMonitorSleepSecs": 5}


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("url", "login"),
    [
        ("mongodb://a%40b@h/?authSource=admin", ("a@b", "p,=w")),
        ("mongodb://h/", (None, None)),
        ("mongodb://me:own@h/", (None, None)),
        ("mongodb://CN%3Dme@h/?authMechanism=MONGODB-X509", (None, None)),
    ],
)
def test_the_password_comes_from_the_environment(
    url: str, login: tuple[str | None, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONGO_PASSWORD", "p,=w")
    assert main([url, "--ping"]) == 0
    assert FakeClient.logins == [(url, *login)]


def stock(memory: int, **running: Value) -> dict[str, KnobState]:
    """As a mongod with all of a machine's memory sets itself up."""
    gb = 1 << 30
    own = {"cache_size_gb": max(0.25, (memory / gb - 1) / 2), "thread_cache": min(gb, memory // 8), **running}
    known, bounds = catalogue(), {"memory": float(memory), "cores": 4.0, "disk": 1e11}
    knobs = {name: knob_of(name, entry, bounds, must_restart=False) for name, entry in known.knob.items()}
    return {
        name: KnobState(
            knob=knob, running=own.get(name, knob.default), source="default", source_file="", is_curated=True
        )
        for name, knob in knobs.items()
    }


@pytest.mark.parametrize("memory", [2 << 30, 4 << 30, 64 << 30])
def test_the_budget_holds_what_a_mongod_takes_of_itself_and_no_more_beside(memory: int) -> None:
    gb, facts = 1 << 30, {"clients": 64.0, "memory": float(memory)}
    model = memory_of(catalogue(), stock(memory), facts, budget_bytes=memory)
    assert model.total({}) <= memory
    use = model.use({})
    assert use["threads"] == min(gb, memory // 8)
    assert use["operations"] == use["index_builds"] == 0
    assert model.use({"lookup_cache": 200 << 20})["operations"] == 64 * (100 << 20)
    assert model.use({"index_build_memory": 1000})["index_builds"] == 800 << 20
    assert model.total({"thread_cache": memory // 4}) > model.total({})
    for name in ("sort_memory", "group_memory", "lookup_cache", "hash_agg_memory", "lookup_hash_memory"):
        assert model.total({name: memory // 8}) > memory, name
    names = ("cache_size_gb", "thread_cache", "sort_memory")
    bound = model.constraint(names)
    assert bound is not None
    space = Space([model.knobs[name] for name in names], [bound])
    small = Config({"cache_size_gb": max(0.25, memory / 16 / gb), "thread_cache": 16 << 20, "sort_memory": 100 << 20})
    assert space.is_feasible(small)
    assert not space.is_feasible(Config({**small, "sort_memory": memory // 8}))


def test_an_allocator_without_thread_caches_takes_nothing_for_them() -> None:
    facts, memory = {"clients": 64.0, "memory": float(2 << 30)}, 2 << 30
    absent = {"thread_cache", "lookup_hash_memory"}
    model = memory_of(catalogue(), stock(memory), facts, budget_bytes=memory, absent=absent)
    assert "threads" not in model.use({})
    assert model.use({"sort_memory": 200 << 20})["operations"] == 64 * (100 << 20), "some of its knobs are there"


def test_a_wrong_address_is_told(client: list[dict[str, Any]]) -> None:
    with pytest.raises(TargetError, match="the address of the mongod cannot be read: Invalid URI scheme"):
        Mongod("http://x")


def test_the_missing_client_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymongo", None)
    with pytest.raises(TargetError, match="needs the package pymongo") as raised:
        Mongod("mongodb://h/")
    assert raised.value.hint == "pip install 'trimtab[mongodb]'"


def test_the_target_is_found_by_its_name(tmp_path: Path) -> None:
    target = plugins.load("targets", "mongodb").from_settings("db", {}, state_dir=tmp_path)
    assert target.kind == "mongodb"
    endpoint = target._reach.endpoint()
    assert (endpoint.protocol, endpoint.host, endpoint.port, endpoint.database) == ("mongodb", "127.0.0.1", 27017, "")


def test_what_the_file_names_no_longer_has_its_found_value_again() -> None:
    """No command of a mongod unsets a parameter: taken out of the file alone, ours would count until the next start."""
    parameters = {**PARAMETERS, "ttlMonitorSleepSecs": 5, RUNTIME: "eviction_dirty_target=15,cache_overhead=9"}
    now = values_of(parameters, OPTIONS, STATUS)
    conf = "storage:\n  dbPath: /data\n"
    assert commands_of(conf, now) == []
    back = {"setParameter.ttlMonitorSleepSecs": "60", f"{ENGINE}eviction_dirty_target": "5"}
    assert commands_of(conf, now, back, parameters[RUNTIME]) == [
        {"setParameter": 1, "ttlMonitorSleepSecs": 60},
        {"setParameter": 1, RUNTIME: "eviction_dirty_target=5,cache_overhead=9"},
    ]


def test_a_text_of_the_engine_hides_nothing_that_was_set_before() -> None:
    """A mongod shows the last text only: without them in it, the settings of the one before would seem to be unset."""
    conf = MongodConf().write("", {f"{ENGINE}eviction_trigger": "90"})
    commands = commands_of(conf, values_of(PARAMETERS, OPTIONS, STATUS), {}, PARAMETERS[RUNTIME])
    assert commands == [{"setParameter": 1, RUNTIME: "eviction_dirty_target=10,eviction_trigger=90"}]


def test_the_reload_of_the_catalogue_says_what_goes_back(client: list[dict[str, Any]], tmp_path: Path) -> None:
    conf = tmp_path / "mongod.conf"
    conf.write_text("storage:\n  dbPath: /data\n")
    assert "{back}" in (catalogue().lifecycle.reload or "")
    address = f"{ENGINE}eviction_trigger"
    assert main(["mongodb://h/", "--reload", str(conf), "setParameter.ttlMonitorSleepSecs=50", f"{address}=90"]) == 0
    assert client[-2:] == [
        {"setParameter": 1, "ttlMonitorSleepSecs": 50},
        {"setParameter": 1, RUNTIME: "eviction_dirty_target=10,eviction_trigger=90"},
    ]


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.needs("secantus", "pymongo")
def test_commands_log_in_with_a_password_that_no_command_line_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By SCRAM-SHA-256, at a server that is no mongod; the words of each command are what its process is started with."""
    require("secantus", "pymongo")
    with private_mongodb(tmp_path) as port:
        admin = Mongod(f"mongodb://127.0.0.1:{port}/")
        admin.run({"createUser": "tuner", "pwd": "p:/w,=@x", "roles": [{"role": "root", "db": "admin"}]})
        admin.close()
    monkeypatch.delenv("MONGO_PASSWORD", raising=False)
    conf = tmp_path / "mongod.conf"
    conf.write_text("net:\n  port: 1\n")
    with private_mongodb(tmp_path, "--auth") as port:

        def target(user: str) -> Any:
            table = {
                "names": {"server": f"mongodb://{user}@127.0.0.1:{port}/?authSource=admin"},
                "files": {"conf": str(conf)},
            }
            more = {"run": f"{sys.executable} -V", "url": f"mongodb://{user}@127.0.0.1:{port}/"}
            return plugins.load("targets", "mongodb").from_settings("db", {**table, **more}, state_dir=tmp_path)

        def pinged(user: str) -> Any:
            reach = target(user)._reach
            return reach.ask(reach.settings.health)

        asked = pinged("tuner:p%3A%2Fw%2C%3D%40x")
        assert (asked.exit_code, asked.output) == (0, "")
        assert not any("p%3A" in word or "p:/w" in word for word in asked.argv)
        assert pinged("tuner:wrong-one").exit_code == 1
        assert pinged("tuner").exit_code == 1
        monkeypatch.setenv("MONGO_PASSWORD", "p:/w,=@x")
        assert pinged("tuner").exit_code == 0
        assert target("tuner")._reach.endpoint().password == "p:/w,=@x"
