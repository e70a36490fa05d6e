"""What the catalogues of httpd, Tomcat, the Java machine, Linux and Redis say, on settings as packages and people have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimtab import plugins
from trimtab.errors import TargetError
from trimtab.records import Fault
from trimtab.space import Value, amount, is_shown
from trimtab.systems import KnobState
from trimtab.systems.codec.scalar import offered_words
from trimtab.systems.evidence import classified
from trimtab.systems.plays import fitting_plays
from trimtab.systems.rules import advised, constraints, memory_of

DEBIAN: Mapping[str, Value] = {
    "StartServers": 2, "MinSpareThreads": 25, "MaxSpareThreads": 75, "ThreadLimit": 64, "ThreadsPerChild": 25,
    "MaxRequestWorkers": 150,
}  # fmt: skip
"""What the file mpm_event.conf of Debian's and Ubuntu's package has."""

OLD_HTTPD = """#!/bin/sh
case "$*" in
  *H2MaxDataFrameLen*|*FlushMax*) echo "Invalid command '${*##* }', perhaps misspelled" >&2; exit 1;;
  *DUMP_MODULES*) echo "Loaded Modules:"; echo " mpm_event_module (shared)"; echo " http2_module (shared)";;
esac
"""


def _example(kind: str, folder: Path, running: Mapping[str, Value]) -> tuple[Any, dict[str, KnobState]]:
    """The catalogue of a kind, and its knobs at their defaults but for those that are `running`."""
    target = plugins.load("targets", kind).from_settings("x", {"memory": "8GiB"}, state_dir=folder)
    knobs = {name: target._example_knob(name) for name in target.catalog.knob}
    return target.catalog, {n: KnobState(knob=own, running=running.get(n, own.default)) for n, own in knobs.items()}


def _facts(**more: float) -> dict[str, float]:
    facts = {"memory": 2.0**33, "cores": 4.0, "connections": 1.0, "disk": 1e11, "clients": 64.0, "read_share": 0.5}
    return {**facts, "analytic": 0.0, "ssd": 1.0, "hdd": 0.0, **more}


@pytest.mark.parametrize(
    ("kind", "play", "running", "facts", "settings"),
    [
        ("tomcat", "large_pool", {"maxTotal": 100, "maxIdle": 8}, {}, {"maxTotal": 100, "maxIdle": 16}),
        ("tomcat", "large_pool", {"maxTotal": 8, "maxIdle": -1}, {}, {"maxTotal": 16, "maxIdle": -1}),  # all stay idle
        (
            "tomcat",
            "few_threads",
            {"maxThreads": 20, "minSpareThreads": 10},
            {},
            {"maxThreads": 20, "minSpareThreads": 10},
        ),
        ("tomcat", "a_thread_for_each_client", {"maxThreads": 1000}, {"clients": 300.0}, {"maxThreads": 1000}),
        ("tomcat", "one_collecting_thread_a_core", {"ParallelGCThreads": 2}, {}, {"ParallelGCThreads": 2}),
        ("tomcat", "one_collecting_thread_a_core", {"ParallelGCThreads": 6}, {}, {"ParallelGCThreads": 4}),
        ("tomcat", "long_pauses_allowed", {"MaxGCPauseMillis": 1000}, {}, {"MaxGCPauseMillis": 1000}),
        ("httpd", "few_workers", {"MaxRequestWorkers": 50}, {"clients": 600.0}, {"MaxRequestWorkers": 50}),
        ("httpd", "long_keep_alive", {"KeepAliveTimeout": 60}, {}, {"KeepAliveTimeout": 60}),
        ("httpd", "short_keep_alive", {"KeepAliveTimeout": 60}, {"clients": 600.0}, {"KeepAliveTimeout": 2}),
        ("linux", "long_read_ahead", {"read_ahead_kb": 8192}, {"analytic": 1.0}, {"read_ahead_kb": 8192}),
        ("linux", "short_read_ahead", {"read_ahead_kb": 128}, {}, {"read_ahead_kb": 32}),
        ("cassandra", "large_memtables", {"memtable_heap_space": 2000}, {}, {"memtable_heap_space": 2000}),
        (
            "cassandra",
            "cached_blocks",
            {"file_cache_size": 2000},
            {},
            {"file_cache_enabled": True, "file_cache_size": 2000},
        ),
        ("cassandra", "large_key_cache", {"key_cache_size": 600}, {}, {"key_cache_size": 600}),
        ("cassandra", "large_key_cache", {"key_cache_size": 25}, {}, {"key_cache_size": 512}),
        ("mongodb", "large_cache", {"cache_size_gb": 5.0}, {}, {"cache_size_gb": 5.0}),
        ("wiredtiger", "full_cache_before_eviction", {"eviction_target": 93}, {}, {"eviction_target": 93}),
    ],
)
def test_a_play_with_a_way_never_goes_the_other_way(
    kind: str, play: str, running: dict[str, Value], facts: dict[str, float], settings: dict[str, Value], tmp_path: Path
) -> None:
    """A play for more connections gave a pool of 100 only 16: what runs has it already then, and the play is left out."""
    catalog, states = _example(kind, tmp_path, running)
    (found,) = fitting_plays({play: catalog.play[play]}, states, _facts(**facts))
    assert found.settings == settings


def _broken(catalog: Any, states: Mapping[str, KnobState], settings: Mapping[str, Value]) -> list[str]:
    values = {**{name: state.running for name, state in states.items()}, **settings}
    rules = constraints(catalog, tuple(states), states, _facts())
    return [
        rule.name
        for rule in rules
        if not rule.is_met({n: values[n] for n in rule.names}, {n: states[n].knob for n in rule.names})
    ]


@pytest.mark.parametrize("clients", [12.0, 600.0, 1000.0])
def test_plays_and_advice_fit_the_httpd_of_debian_whole(clients: float, tmp_path: Path) -> None:
    """Its 75 idle threads at most leave no room for a process of 64 beside the 25 at least."""
    catalog, states = _example("httpd", tmp_path, DEBIAN)
    assert _broken(catalog, states, {}) == []
    plays = {name: play for name, play in catalog.play.items() if "ThreadsPerChild" in play.settings}
    found = fitting_plays(plays, states, _facts(clients=clients))
    assert {play.name: _broken(catalog, states, play.settings) for play in found} == {play.name: [] for play in found}
    assert {play.settings["ThreadsPerChild"] for play in found} == {64}
    workers = ("ThreadsPerChild", "MaxSpareThreads", "MaxRequestWorkers")
    advice = {name: round(amount(str(catalog.advice[name]), {"clients": clients})) for name in workers}
    assert _broken(catalog, states, advice) == []


def test_a_directive_that_this_httpd_does_not_know_is_locked(tmp_path: Path) -> None:
    """That of Ubuntu 22.04 and Red Hat 8 refuses a file that names it, and with it every trial of its set."""
    control, conf, head = tmp_path / "httpd", tmp_path / "conf.d" / "zz.conf", tmp_path / "httpd.conf"
    control.write_text(OLD_HTTPD)
    control.chmod(0o755)
    conf.parent.mkdir()
    head.write_text("ServerName x\n")
    table = {"kind": "httpd", "memory": "1GiB", "knobs": "all", "names": {"control": str(control)}}
    table |= {"files": {"conf": str(conf), "head": str(head)}, "pid_file": str(tmp_path / "pid"), "restart": "true"}
    states = plugins.load("targets", "httpd").from_settings("web", table, state_dir=tmp_path / "state").states()
    assert states["H2OutputBuffering"].lock_reason == states["H2WindowSize"].lock_reason == ""
    assert states["H2MaxDataFrameLen"].lock_reason == (
        "it needs an httpd with mod_http2 2.0.13 or later, which this program is not"
    )
    assert states["ReadBufferSize"].lock_reason == ""
    assert {states[name].lock_reason for name in ("FlushMaxThreshold", "FlushMaxPipelined")} == {
        "it needs an httpd of 2.4.47 or later, which this program is not"
    }


@pytest.mark.parametrize(
    ("cores", "memory", "collector"),
    [(1, 8 << 30, None), (4, 1 << 30, None), (2, 1792 << 20, "G1"), (8, 8 << 30, "G1")],
)
def test_g1_is_advised_where_java_would_take_it_by_itself(
    cores: int, memory: int, collector: str | None, tmp_path: Path
) -> None:
    """On a machine with one core, or less memory, Java takes the serial collector."""
    catalog, states = _example("tomcat", tmp_path, {"collector": "Serial"})
    facts = _facts(cores=float(cores), memory=float(memory))
    model = memory_of(catalog, states, facts, budget_bytes=memory)
    assert advised(catalog, states, facts, model).get("collector") == collector


@pytest.mark.parametrize(("heap_mb", "is_met"), [(32736, True), (32768, False)])
def test_a_heap_of_32_gb_has_no_references_of_four_bytes(heap_mb: int, is_met: bool, tmp_path: Path) -> None:
    """Java 17 with -Xmx32g says UseCompressedOops=false; with -Xmx32736m, true."""
    catalog, states = _example("tomcat", tmp_path, {})
    broken = _broken(catalog, states, {"MaxHeapSize": heap_mb << 20, "UseCompressedOops": True})
    assert ("references of four bytes need a heap below 32 GB" not in broken) is is_met


def test_a_disk_without_schedulers_offers_none() -> None:
    """Kernel 5.10 and 6.1 show the word alone for a RAID, and take any other without a word."""
    assert offered_words("none\n") == ("none",)
    assert offered_words("[none] mq-deadline kyber bfq\n") == ("none", "mq-deadline", "kyber", "bfq")
    assert offered_words("1\n") == ()


@pytest.mark.parametrize(("saves_nothing", "share"), [(1.0, 0.6), (0.0, 0.5)])
def test_a_redis_that_saves_is_advised_no_more_than_fits_twice(
    saves_nothing: float, share: float, tmp_path: Path
) -> None:
    """A process that is forked to save keeps each page that is changed meanwhile: a limit of 60 % of the memory ran out of it."""
    catalog, states = _example("redis", tmp_path, {"maxmemory": 100 << 20})
    facts, budget = _facts(saves_nothing=saves_nothing), 8 << 30
    model = memory_of(catalog, states, facts, budget_bytes=budget)
    advice = advised(catalog, states, facts, model)
    assert model.total(advice) <= budget
    assert 0.9 * share < float(advice["maxmemory"]) / budget <= share


@pytest.mark.parametrize(("found", "is_bound"), [(100 << 20, True), (0, False)])
def test_no_redis_is_tried_without_a_limit_of_its_memory(found: int, is_bound: bool, tmp_path: Path) -> None:
    """0 would count as nothing in the budget; one that is found so may keep it."""
    catalog, states = _example("redis", tmp_path, {"maxmemory": found})
    bounds = [each for each in constraints(catalog, ("maxmemory",), states, _facts()) if "maxmemory" in each.names]
    knobs = {"maxmemory": states["maxmemory"].knob}
    assert [each.is_met({"maxmemory": 0}, knobs) for each in bounds] == ([False] if is_bound else [])


NO_MEMORY = "# There is insufficient memory for the Java Runtime Environment to continue."


@pytest.mark.parametrize(
    ("kind", "line", "faults"),
    [
        ("redis", "811:M 05 Jun 2026 10:00:00.123 # Redis 7.0.15 crashed by signal: 11, si_code: 1", [Fault.CONFIG]),
        ("redis", "811:M 05 Jun 2026 10:00:00.123 # Redis 7.0.15 crashed by signal: 6, si_code: -6", []),
        ("tomcat", "# A fatal error has been detected by the Java Runtime Environment:", [Fault.CONFIG]),
        ("cassandra", "# A fatal error has been detected by the Java Runtime Environment:", [Fault.CONFIG]),
        ("tomcat", NO_MEMORY, [Fault.RESOURCE]),
    ],
)
def test_a_crash_of_which_only_the_log_tells_is_the_configs(
    kind: str, line: str, faults: list[Fault], tmp_path: Path
) -> None:
    """systemd has started the server again by then, and it looked as if somebody else had restarted it."""
    target = plugins.load("targets", kind).from_settings("x", {"memory": "1GiB"}, state_dir=tmp_path)
    assert [each.fault for each in classified(line, target.catalog.log)] == faults


@pytest.mark.parametrize(
    ("why", "fault"),
    [
        ('"code":2,"codeName":"BadValue","errmsg":"cacheSizeGB must be greater than 0.25"', Fault.CONFIG),
        ('"code":38,"codeName":"FileNotOpen","errmsg":"Failed to open /var/log/mongodb/mongod.log"', Fault.ENVIRONMENT),
    ],
)
def test_a_mongod_that_cannot_write_its_log_blames_no_config(why: str, fault: Fault, tmp_path: Path) -> None:
    """It ends with the same words as one that refuses a setting."""
    said = f'{{"s":"F","id":20574,"msg":"Error during global initialization","attr":{{"error":{{{why}}}}}}}'
    target = plugins.load("targets", "mongodb").from_settings("x", {"memory": "1GiB"}, state_dir=tmp_path)
    assert [each.fault for each in classified(said, target.catalog.log)] == [fault]


REDIS_6_CLI = """#!/bin/sh
case "$1" in
  "") while read -r config get name more; do
        if test -n "$more"; then echo "ERR Unknown subcommand or wrong number of arguments for 'get'. Try CONFIG HELP."
        else case "$name" in hz) printf 'hz\\n10\\n';; save) printf 'save\\n\\n';; *) echo;; esac; fi
      done;;
  ping) echo "$(cat "${0%/*}/answer")";;
  *) echo "Unrecognized option or bad number of args for: '$1'" >&2; exit 1;;
esac
"""


def test_a_redis_of_before_7_is_asked_in_words_that_it_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `config get` takes one name, and its redis-cli has no -e and ends with 0 where the server refuses."""
    cli, answer = tmp_path / "cli", tmp_path / "answer"
    cli.write_text(REDIS_6_CLI)
    cli.chmod(0o755)
    table = {"memory": "1GiB", "names": {"cli": str(cli)}}
    reach = plugins.load("targets", "redis").from_settings("x", table, state_dir=tmp_path / "state")._reach
    assert reach.values(["hz", "save", "hash-max-listpack-entries"]) == {"hz": "10", "save": ""}
    monkeypatch.setattr(reach, "is_up", lambda: True)
    answer.write_text("PONG\n")
    reach.health()
    answer.write_text("LOADING Redis is loading the dataset in memory\n")
    with pytest.raises(TargetError, match="exit_code=1: LOADING Redis"):
        reach.health()


def test_a_redis_gets_threads_where_its_own_is_busy(tmp_path: Path) -> None:
    counts = dict.fromkeys(
        ("uptime_in_seconds", "used_cpu_user_main_thread", "used_cpu_sys_main_thread", "deletions"), 0.0
    )
    threads = {"threads_that_write", "threads_that_read_too"}
    idle = {**counts, "uptime_in_seconds": 20.0, "used_cpu_user_main_thread": 2.0, "used_cpu_sys_main_thread": 3.0}
    assert _left_out("redis", idle, tmp_path) == {*threads, "deletions_in_the_background"}
    assert _left_out("redis", {**idle, "used_cpu_sys_main_thread": 9.0, "deletions": 1.0}, tmp_path) == set()
    assert _left_out("redis", {}, tmp_path) == set()


@pytest.mark.parametrize(("cores", "clients", "threads"), [(4, 8, 3), (8, 50, 6), (64, 600, 8)])
def test_threads_of_a_redis_are_as_many_as_its_file_says(
    cores: int, clients: int, threads: int, tmp_path: Path
) -> None:
    """At the head of its part on threads: a core is left over, and more than eight do not help."""
    catalog, states = _example("redis", tmp_path, {})
    knob = states["io_threads"].knob
    states["io_threads"] = replace(states["io_threads"], knob=replace(knob, high=float(max(2, min(cores, 8)))))
    play = {"threads_that_write": catalog.play["threads_that_write"]}
    (found,) = fitting_plays(play, states, _facts(cores=float(cores), clients=float(clients)))
    assert found.settings == {"io_threads": threads}
    assert fitting_plays(play, states, _facts(cores=float(cores), clients=float(cores))) == ()


def _left_out(kind: str, counts: Mapping[str, float], folder: Path) -> set[str]:
    plays = plugins.load("targets", kind).from_settings("x", {}, state_dir=folder).catalog.play
    return {name for name, play in plays.items() if not is_shown(play.sign, counts)}


def test_what_the_kernel_did_not_do_is_not_made_faster(tmp_path: Path) -> None:
    """Without swapping, reading from disks and making huge pages; what this kernel counts is what the plays ask for."""
    target = plugins.load("targets", "linux").from_settings("os", {}, state_dir=tmp_path)
    counts = target.counters()
    assert counts["pgpgin"] > 0
    assert {name for play in target.catalog.play.values() for name in play.counts} <= counts.keys()
    still, of_writes = dict.fromkeys(counts, 0.0), {"early_writeback", "late_writeback", "no_wait_for_syncs"}
    assert _left_out("linux", still, tmp_path) == {
        "little_swapping", "no_huge_pages", "no_io_scheduler", "short_read_ahead", "long_read_ahead", *of_writes,
    }  # fmt: skip
    assert _left_out("linux", {**still, "pgpgin": 1e6}, tmp_path) == {"little_swapping", "no_huge_pages", *of_writes}
    assert _left_out("linux", {**still, "pgpgout": 1e6, "pswpin": 3.0, "thp_fault_alloc": 1.0}, tmp_path) == {
        "short_read_ahead", "long_read_ahead",
    }  # fmt: skip
    assert _left_out("linux", {}, tmp_path) == set()


def test_without_a_collection_no_play_is_about_collections(tmp_path: Path) -> None:
    """The choice of the collector is not: each has a price for every write into an object."""
    young, old = (f"sun.gc.collector.{i}.invocations" for i in range(2))
    of_collections = {
        "fixed_heap", "large_young_generation", "long_pauses_allowed", "short_pauses", "one_collecting_thread_a_core",
    }  # fmt: skip
    assert _left_out("tomcat", {young: 0.0, old: 0.0}, tmp_path) == of_collections
    assert _left_out("tomcat", {young: 3.0, old: 0.0}, tmp_path) == set()
    assert _left_out("tomcat", {}, tmp_path) == set()
