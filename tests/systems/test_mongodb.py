"""MongoDB: its catalogue, the syntax of its file, its values and memory, and which commands change what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.systems.fake_mongod import OPTIONS, PARAMETERS, PROFILE, STATUS, catalogue
from trimtab import plugins
from trimtab.space import Config, Space, Value, is_shown
from trimtab.systems.base import KnobState
from trimtab.systems.codec import CodecError, codec_of
from trimtab.systems.codec.mongod_conf import MongodConf
from trimtab.systems.dump import printed_values
from trimtab.systems.file_knobs import knob_of, unknown_value
from trimtab.systems.mongodb.values import ENGINE, RUNTIME, as_conf, commands_of, counters_of, names_of, values_of
from trimtab.systems.rules import advised, memory_of
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
_CACHE = (
    "pages read into cache",
    "pages requested from the cache",
    "modified pages evicted",
    "unmodified pages evicted",
)


class TestMongodConf(CodecSuite):
    @pytest.fixture(params=["in a group", "beside it", "new text", "after a mark"])
    def sample(self, request: pytest.FixtureRequest) -> CodecSample:
        if request.param == "after a mark":
            return CodecSample(
                codec=MongodConf(),
                text="\xef\xbb\xbfstorage:\n  dbPath: /data # here\n  wiredTiger:\n    engineConfig:\n      cacheSizeGB: 2\n",
                changes={f"{KEY}.cacheSizeGB": "3"},
                added={"storage.journal.commitIntervalMs": "50", f"{KEY}.configString#cache_overhead": "9"},
                kept=("\xef\xbb\xbfstorage:", "# here"),
            )
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


@pytest.mark.parametrize(
    ("asked", "used_mb", "shown"),
    [
        (0.35, 358, "0.35"),  # 358.4 MB
        (0.25, 256, "0.25"),
        (2.0, 2048, "2"),
        (0.35, 512, "0.5"),  # set since by wiredTigerEngineRuntimeConfig
        (None, 358, "0.3496"),
    ],
)
def test_a_cache_in_whole_megabytes_is_the_one_that_was_asked_for(
    asked: float | None, used_mb: int, shown: str
) -> None:
    """Or it would differ from its file for ever, and nothing could be tuned that needs a restart."""
    engine = {} if asked is None else {"cacheSizeGB": asked}
    options = {"parsed": {"storage": {"wiredTiger": {"engineConfig": engine}}}}
    status = {"wiredTiger": {"cache": {"maximum bytes configured": used_mb << 20}}}
    assert values_of({}, options, status) == {f"{KEY}.cacheSizeGB": shown}


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


@pytest.mark.parametrize("name", ["concurrency_algorithm", "read_tickets", "write_tickets"])
def test_tickets_of_7_0_and_their_algorithm_count_at_the_start(name: str) -> None:
    """A mongod refuses another algorithm at run time, and 0 tickets, which it shows while none are given, at any time."""
    entry = catalogue().knob[name]
    assert entry.restart == "restart"
    address = catalogue().address_of(name)
    assert commands_of("", {address: "20"}, {address: "0"}) == []
    if name != "concurrency_algorithm":
        knob = knob_of(name, entry, {"memory": 2.0**33, "cores": 4.0, "disk": 1e11}, must_restart=False)
        assert unknown_value(entry, knob, 0) == "", "as found in nearly all: it would be locked"
        assert not knob.contains(0), "nor is it tried"


def test_settings_of_the_engine_that_parameters_gave_it_are_those_in_use() -> None:
    """Or the way back of a change without a restart would set the catalogue's defaults, which are not those of all versions."""
    gave = {"IdleTime": 100000, "Minimum": 250, "ScanInterval": 10}
    parameters = {**PARAMETERS, **{f"wiredTigerFileHandleClose{name}": value for name, value in gave.items()}}
    address = f"{ENGINE}file_manager.close_handle_minimum"
    assert values_of(parameters, OPTIONS, STATUS)[address] == "250"
    assert values_of(parameters, OPTIONS, STATUS)[f"{ENGINE}file_manager.close_idle_time"] == "100000"
    later = {**parameters, RUNTIME: "file_manager=(close_handle_minimum=500)"}
    assert values_of(later, OPTIONS, STATUS)[address] == "500", "what was set since"
    in_file = {**OPTIONS, "parsed": {"storage": {"wiredTiger": {"engineConfig": {
        "configString": "file_manager=(close_handle_minimum=90)"}}}}}  # fmt: skip
    assert values_of(parameters, in_file, STATUS)[address] == "90"


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


@pytest.mark.parametrize(
    ("cache", "shown"),
    [
        ({"pages read into cache": 0, "pages requested from the cache": 50_000}, set()),
        ({"pages read into cache": 90, "pages requested from the cache": 50_000}, {"large_cache"}),
        ({"unmodified pages evicted": 5}, {"evicting_threads_as_cores"}),
        ({"modified pages evicted": 5}, {"evicting_threads_as_cores", "dirty_pages_stay_longer"}),
    ],
)
def test_plays_ask_for_what_the_engine_counts(cache: dict[str, int], shown: set[str]) -> None:
    counted = counters_of({"wiredTiger": {"cache": dict.fromkeys(_CACHE, 0) | cache}})
    plays = {name: play.sign for name, play in catalogue().play.items() if play.sign}
    assert {name for name, sign in plays.items() if is_shown(sign, counted)} == shown
    assert all(is_shown(sign, {}) for sign in plays.values())


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


def test_advice_is_made_smaller_until_it_fits() -> None:
    memory = 1 << 30
    facts = {"clients": 300.0, "memory": float(memory), "cores": 4.0, "disk": 1e11, "ssd": 0.0, "hdd": 0.0}
    model = memory_of(catalogue(), stock(memory), facts, budget_bytes=memory)
    advice = advised(catalogue(), stock(memory), facts, model)
    assert 0.25 <= float(advice["cache_size_gb"]) < 0.5
    assert model.total(advice) <= memory


def test_an_allocator_without_thread_caches_takes_nothing_for_them() -> None:
    facts, memory = {"clients": 64.0, "memory": float(2 << 30)}, 2 << 30
    absent = {"thread_cache", "lookup_hash_memory"}
    model = memory_of(catalogue(), stock(memory), facts, budget_bytes=memory, absent=absent)
    assert "threads" not in model.use({})
    assert model.use({"sort_memory": 200 << 20})["operations"] == 64 * (100 << 20), "some of its knobs are there"


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


def test_a_reload_reads_no_more_of_the_file_than_it_is_told() -> None:
    """What else differs was set by somebody in the running server: it must stay."""
    conf = "setParameter:\n  ttlMonitorSleepSecs: 30\n  enableFlowControl: false\nstorage:\n  syncPeriodSecs: 20\n"
    now = values_of(PARAMETERS, OPTIONS, STATUS, PROFILE)
    only = ["setParameter.ttlMonitorSleepSecs"]
    assert commands_of(conf, now, only=only) == [{"setParameter": 1, "ttlMonitorSleepSecs": 30}]
    assert len(commands_of(conf, now)) == 3
    back = {"storage.syncPeriodSecs": "40"}
    assert commands_of(conf, now, back, only=only)[1:] == [{"setParameter": 1, "syncdelay": 40}]


def test_a_parameter_with_two_names_is_one_setting() -> None:
    """7.0 and later list wiredTigerConcurrent... beside storageEngineConcurrent..., and warn of the old name."""
    old, new = (f"{each}ConcurrentReadTransactions" for each in ("wiredTiger", "storageEngine"))
    assert names_of({old: 128, new: 128, "ttlMonitorSleepSecs": 60}) == [new, "ttlMonitorSleepSecs"]
    assert names_of({old: 128}) == [old]
    knobs = catalogue().knob
    assert knobs["read_tickets"].formerly == f"setParameter.{old}"
    assert knobs["wt_read_tickets"].needs == f"[{old}]"


def test_the_share_of_slow_operations_that_is_logged_is_the_profilers() -> None:
    assert (
        values_of(PARAMETERS, OPTIONS, STATUS, {**PROFILE, "sampleRate": 0.5})["operationProfiling.slowOpSampleRate"]
        == "0.5"
    )


@pytest.mark.parametrize("kind", ["mongodb", "wiredtiger"])
def test_what_the_engine_would_lower_in_silence_is_an_order(kind: str) -> None:
    """WiredTiger takes the second of these in place of a larger first one, and tells nobody."""
    orders = plugins.load("targets", kind).catalogue().orders
    assert ("eviction_dirty_target", "eviction_target") in orders
    assert ("eviction_updates_trigger", "eviction_trigger") in orders


def test_a_reload_reads_the_file_that_the_study_names(tmp_path: Path) -> None:
    """And not that of the first mongod of this machine."""

    def conf(**table: Any) -> str:
        kind = plugins.load("targets", "mongodb")
        target: Any = kind.from_settings("db", table, state_dir=tmp_path, directory=tmp_path)
        return str(target._reach.words(target.settings.reload)[5])

    assert conf() == "/etc/mongod.conf"
    assert conf(files={"conf": "second.conf"}) == f"{tmp_path}/second.conf"
    assert conf(files={"conf": "second.conf"}, names={"conf": "/x"}) == "/x"


def test_a_mongod_whose_file_was_written_for_its_next_start_is_not_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart of Trimtab's would bring in another folder of data, or users, and so would the way back."""
    conf, port = tmp_path / "mongod.conf", "net:\n  port: 27017\n"
    target: Any = plugins.load("targets", "mongodb").from_settings(
        "db", {"files": {"conf": str(conf)}}, state_dir=tmp_path
    )
    monkeypatch.setattr(target._reach, "is_up", lambda: True)
    monkeypatch.setattr(target._says, "_printed", lambda *_: as_conf(values_of(PARAMETERS, OPTIONS, STATUS)))

    def apart(text: str) -> list[str]:
        conf.write_text(f"{port}{text}")
        return [*target._pending._disagreeing()]

    assert apart("storage:\n  dbPath: /var/lib/mongodb\n") == []
    assert apart("storage:\n  dbPath: /new\nsecurity:\n  authorization: enabled\n") == [
        f"storage.dbPath=/var/lib/mongodb, and /new by {conf}",
        f"security.authorization='', and enabled by {conf}",
    ]


def test_a_live_change_waits_for_no_line_in_the_log(tmp_path: Path) -> None:
    """A mongod writes "Waiting for connections" at its start alone, and nothing of the kind once a parameter is set."""
    (log := tmp_path / "mongod.log").touch()
    table = {"restart": "true", "pid_file": str(tmp_path / "pid"), "log_file": str(log), "restart_timeout_s": 5}
    target: Any = plugins.load("targets", "mongodb").from_settings(
        "db", {**table, "reload": "true"}, state_dir=tmp_path
    )
    target._reach.reload()
