"""The node of a package: its Java machine has the options of two files, and of the script that starts it."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fetch_servers import PROGRAMS
from tests.servers import free_port, made
from tests.systems.cassandra_node import cassandra
from trimtab import plugins
from trimtab.errors import ApplyError
from trimtab.host import LocalHost
from trimtab.records import Context
from trimtab.space import Config
from trimtab.systems.catalog_file import catalog_faults
from trimtab.systems.facets import with_facets

pytestmark = pytest.mark.needs("java")

GIB = 1 << 30
OF_ALL = "# for every Java\n-ea\n-XX:+AlwaysPreTouch\n-XX:-UsePerfData\n#-Xms4G\n#-Xmx4G\n"
OF_17 = "### G1\n-XX:+UseG1GC\n-XX:MaxGCPauseMillis=300\n-Djdk.attach.allowAttachSelf=true\n"
START = """#!/bin/sh
# As bin/cassandra.in.sh and conf/cassandra-env.sh of 5.0 gather the options: the file of the Java version comes last, and the
# heap that they compute comes after it, unless the files have both of its sizes.
options=$(grep -h '^-' {conf}/jvm-server.options {conf}/jvm17-server.options | tr '\\n' ' ')
case $options in
  *Xms*Xmx* | *Xmx*Xms*) ;;
  *Xms* | *Xmx*) echo "Please set or unset -Xmx and -Xms flags in pairs" >&2; exit 1 ;;
  *) options="$options -Xms300M -Xmx300M" ;;
esac
exec java $options "$@"
"""


def package(folder: Path, *, of_all: str = OF_ALL, of_17: str = OF_17) -> Any:
    """One that is stopped."""
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    for name, text in (
        ("cassandra.yaml", "cluster_name: trimtab\n"), ("jvm-server.options", of_all), ("jvm17-server.options", of_17),
        ("start.sh", START.format(conf=conf)),
    ):  # fmt: skip
        (conf / name).write_text(text)
    return plugins.load("targets", "cassandra").from_settings("db", table(folder), state_dir=folder / "state")


def table(folder: Path, **more: Any) -> dict[str, Any]:
    conf = folder / "conf"
    files = {"yaml": "cassandra.yaml", "options": "jvm-server.options", "jvm": "jvm17-server.options"}
    files = {channel: str(conf / name) for channel, name in files.items()}
    return {
        "kind": "cassandra", "memory": "4GiB", "knobs": "all", "url": "cql://127.0.0.1:1/",
        "files": {**files, "table": str(conf / "tables.properties")},
        "start": "false", "stop": "true", "pid_file": str(folder / "pid"), **more,
    }  # fmt: skip


def flags(folder: Path) -> dict[str, str]:
    """What the node's Java machine would make of the files as they are."""
    argv = ["sh", folder / "conf/start.sh", "-XX:-AlwaysPreTouch", "-XX:+PrintFlagsFinal", "-version"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return dict(re.findall(r"^ *\S+ +(\w+) += (\S+)", done.stdout, re.MULTILINE))


def written(target: Any, config: Config) -> None:
    """The files as a trial leaves them."""
    base, states = target.snapshot(), target.states()
    target._check(config, states)
    target._files.change(target._files.whole(config, base), states, base, stays=False).write()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "heap", "collector"),
    [
        ({"MaxHeapSize": GIB, "InitialHeapSize": GIB // 2}, (GIB // 2, GIB), "G1"),
        ({"collector": "Parallel", "MaxGCPauseMillis": 100}, (300 << 20, 300 << 20), "Parallel"),
        ({"AlwaysPreTouch": False}, (300 << 20, 300 << 20), "G1"),
    ],
)
def test_what_is_written_is_what_the_node_starts_with(
    tmp_path: Path, config: dict[str, Any], heap: tuple[int, int], collector: str
) -> None:
    written(package(tmp_path), Config(config))
    found = flags(tmp_path)
    assert (int(found["InitialHeapSize"]), int(found["MaxHeapSize"])) == heap
    assert found[f"Use{collector}GC"] == "true"
    assert found["MaxGCPauseMillis"] == str(config.get("MaxGCPauseMillis", 300))


@pytest.mark.slow
def test_a_heap_has_both_of_its_sizes_in_the_file(tmp_path: Path) -> None:
    """The start script refuses one alone; what is not tuned has its value as found."""
    target = package(tmp_path, of_17=f"{OF_17}-XX:InitialHeapSize=200m\n")
    written(target, Config({"MaxHeapSize": GIB}))
    assert (tmp_path / "conf/jvm17-server.options").read_text().endswith("\n-Xms64m\n-Xmx1024m\n")
    assert int(flags(tmp_path)["MaxHeapSize"]) == GIB
    own = target.announce(Config({"MaxHeapSize": GIB}))
    assert own.texts == {"MaxHeapSize": ("1024m",), "InitialHeapSize": ("64m",)}, "both are ours to take back"
    assert "-Xms64m" in target.fragment(Config({"MaxHeapSize": GIB}))


def test_sizes_that_the_files_have_already_are_left_as_they_are(tmp_path: Path) -> None:
    target = package(tmp_path, of_17=f"{OF_17}-Xms1G\n-Xmx2G\n")
    written(target, Config({"MaxHeapSize": 3 * GIB}))
    assert (tmp_path / "conf/jvm17-server.options").read_text() == f"{OF_17}-Xms1G\n-Xmx3072m\n"


def test_both_files_are_checked_together(tmp_path: Path) -> None:
    target = package(tmp_path, of_all=f"{OF_ALL}-XX:+UseSerialGC\n", of_17="-XX:MaxGCPauseMillis=300\n")
    with pytest.raises(ApplyError, match="(?s)would refuse file=.*(Multiple garbage collectors|Conflicting collector)"):
        target._check(Config({"collector": "Parallel"}), target.states())
    target._check(Config({"MaxGCPauseMillis": 200}), target.states())


def test_a_file_of_another_java_locks_its_flags(tmp_path: Path) -> None:
    target = package(tmp_path)
    (tmp_path / "conf/jvm17-server.options").rename(tmp_path / "conf/jvm11-server.options")
    states = target.states()
    for name in ("collector", "MaxHeapSize", "MaxGCPauseMillis"):
        assert states[name].lock_reason.startswith("there is no file="), name
        assert states[name].lock_reason.endswith("jvm17-server.options': name the one that the program reads")
    assert not states["concurrent_reads"].lock_reason


def test_a_catalogue_may_say_more_of_the_knobs_of_its_facets() -> None:
    catalog, faults = catalog_faults(plugins.load("targets", "cassandra").catalogue_text(""))
    assert catalog is not None
    assert not faults
    assert catalog.address_of("MaxHeapSize") == "-Xmx"
    with pytest.raises(Exception, match=r"\[facet_knob\.no_such\]: no facet has that knob"):
        with_facets({"facets": ["jvm"], "facet_knob": {"no_such": {"address": "-Xmx"}}})


@contextmanager
def running(state_dir: Path) -> Iterator[Any]:
    """A real node, started as the package does it: its archives are those of a private one."""
    with made("cassandra") as folder:
        port = free_port()
        private = cassandra(folder / "state", folder=str(folder / "node"), port=port)
        private.open()
        private.close()  # its folders and its cassandra.yaml are made
        node, conf = folder / "node", folder / "conf"
        conf.mkdir(exist_ok=True)
        options = (node / "conf/jvm.options").read_text()
        of_17 = "".join(line for line in options.splitlines(keepends=True) if not line.startswith("-Xm"))
        package(folder, of_17=of_17)
        (conf / "cassandra.yaml").write_text((node / "conf/cassandra.yaml").read_text())
        words = [
            f"-Dcassandra.config=file://{conf}/cassandra.yaml", f"-Dcassandra.storagedir={node}",
            f"-Dlogback.configurationFile={node}/conf/logback.xml", f"-Dcassandra.native_transport_port={port}",
            f"-Dcassandra.storage_port={free_port()}", "-Dcassandra.ring_delay_ms=1",
            "-Dcassandra.skip_wait_for_gossip_to_settle=0", "-Dcassandra-foreground=yes",
            f"-Djava.io.tmpdir={node}/temp", f"-Djna.tmpdir={node}/temp",
            "-cp", f"{PROGRAMS}/cassandra-5.0/lib/*", "org.apache.cassandra.service.CassandraDaemon",
        ]  # fmt: skip
        daemon = (
            f"setsid sh {conf}/start.sh {shlex.join(words)} > {folder}/log 2>&1 < /dev/null & echo $! > {folder}/pid"
        )
        more = {
            "url": f"cql://127.0.0.1:{port}/", "start": f"sh -c {shlex.quote(daemon)}", "process": "java",
            "stop": f"sh -c 'kill $(cat {folder}/pid); while kill -0 $(cat {folder}/pid); do sleep 0.2; done; true'",
            "log_file": f"{folder}/log", "restart_timeout_s": 400,
        }  # fmt: skip
        target = plugins.load("targets", "cassandra").from_settings("db", table(folder, **more), state_dir=state_dir)
        host = LocalHost()
        assert host.run(shlex.split(more["start"]), timeout_s=60).exit_code == 0
        try:
            target._reach._wait_healthy(float("inf"))
            target.open()
            yield target
            target.close()
        finally:
            host.run(shlex.split(more["stop"]), timeout_s=120)


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.full
@pytest.mark.needs("cassandra")
def test_heap_and_collector_of_a_running_node_change_and_come_back(state_dir: Path) -> None:
    with running(state_dir) as node:
        found, states = node.snapshot(), node.states()
        assert states["MaxHeapSize"].running == 300 << 20, "what the start script computes"
        config = Config({"MaxHeapSize": 448 << 20, "collector": "Serial"})
        node.preflight(config)
        assert node.apply(config).effective == dict(config)
        assert node.states()["InitialHeapSize"].running == 300 << 20
        node.restore(found)
        again = node.states()
        assert (again["MaxHeapSize"].running, again["collector"].running) == (300 << 20, "G1")
        assert node.snapshot().files == found.files


def test_a_trie_that_the_file_does_not_speak_of_is_locked(tmp_path: Path) -> None:
    """The file of a node that came from 4.1: with `inherits: trie` alone 5.0 does not start ("inherits unknown trie")."""
    target, yaml = package(tmp_path), tmp_path / "conf/cassandra.yaml"
    why = "its file has no memtable.configurations.trie.class_name, which it needs"
    for text in ("", "memtable:\n  configurations:\n    default:\n      class_name: SkipListMemtable\n"):
        yaml.write_text(f"cluster_name: trimtab\n{text}")
        states = target.states()
        assert [name for name, state in states.items() if state.lock_reason == why] == [
            "memtable_type",
            "memtable_shards",
        ]
        with pytest.raises(ApplyError, match=why):
            target.preflight(Config({"memtable_type": "trie"}))
        assert "memtable_type" not in target.advise(Context("", clients=4))
    kinds = "    skiplist:\n      class_name: SkipListMemtable\n    trie:\n      class_name: TrieMemtable\n"
    yaml.write_text(f"memtable:\n  configurations:\n{kinds}    default:\n      inherits: skiplist\n")
    states = target.states()
    assert not states["memtable_type"].lock_reason
    assert not states["memtable_shards"].lock_reason


def test_a_sync_that_the_node_refuses_beside_its_period_is_not_searched(tmp_path: Path) -> None:
    """Whatever class is unlocked: two of three configs would end the start of the node."""
    context = Context("", clients=4)

    def rules(text: str, *names: str) -> list[str]:
        (tmp_path / "conf/cassandra.yaml").write_text(text)
        return [rule.text for rule in target.constraints(names, context) if "commitlog_sync" in rule.names]

    target = package(tmp_path)
    assert rules("commitlog_sync: periodic\ncommitlog_sync_period: 10s\n", "commitlog_sync", "concurrent_reads")
    assert not rules("commitlog_sync: periodic\ncommitlog_sync_period: 10s\n", "concurrent_reads")
    assert not rules("commitlog_sync: batch\n", "commitlog_sync"), "what runs is no such"


def test_a_setting_that_the_file_has_by_its_earlier_name_is_locked(tmp_path: Path) -> None:
    """A node takes either name, and refuses to start with both: after `apply` it would run on until its next start."""
    target = package(tmp_path)
    yaml = tmp_path / "conf/cassandra.yaml"
    yaml.write_text("cluster_name: trimtab\ncompaction_throughput_mb_per_sec: 16\nkey_cache_size_in_mb:\n")
    states = target.states()
    for name, former in (
        ("compaction_throughput", "compaction_throughput_mb_per_sec"),
        ("key_cache_size", "key_cache_size_in_mb"),
    ):
        assert states[name].lock_reason.startswith(f"its file has it under its earlier name, {former}"), name
    assert not states["file_cache_size"].lock_reason
    with pytest.raises(ApplyError, match="its earlier name, compaction_throughput_mb_per_sec, and the program refuses"):
        target.preflight(Config({"compaction_throughput": 32}))
    yaml.write_text("compaction_throughput: 16MiB/s\nkey_cache_size:\n")
    states = target.states()
    assert not states["compaction_throughput"].lock_reason
    assert not states["key_cache_size"].lock_reason, "a key without a value may be given one"


def test_a_setting_that_the_file_has_as_null_is_one_without_a_value(tmp_path: Path) -> None:
    """As the package's `key_cache_size:` comes out of a program that reads the file and writes it anew. It was no number: the
    first trial, of any setting, ended as "not understood"."""
    target, yaml = package(tmp_path), tmp_path / "conf/cassandra.yaml"
    found = b"cluster_name: trimtab\nkey_cache_size: null # computed\nrow_cache_size: ~\r\nconcurrent_reads: 32\n"
    yaml.write_bytes(found)
    states = target.states()
    assert not states["key_cache_size"].lock_reason
    assert states["key_cache_size"].running == states["key_cache_size"].knob.default
    channel, config = target._places["concurrent_reads"].channel, Config({"concurrent_reads": 64})
    before, mine = (
        channel.read(),
        {"concurrent_reads": ("64",), "key_cache_size": ("32MiB",), "row_cache_size": ("8MiB",)},
    )
    changed = channel.changed(before, target._files.texts_for(channel, config))
    assert target._files.differing(channel, before, changed, {}) == {"concurrent_reads"}
    config = Config({"concurrent_reads": 64, "key_cache_size": 32, "row_cache_size": 8})
    changed = channel.changed(before, target._files.texts_for(channel, config))
    assert changed.content.splitlines()[1:3] == [b"key_cache_size: 32MiB # computed", b"row_cache_size: 8MiB"]
    theirs = replace(changed, content=changed.content + b"theirs: 1\n")
    assert channel.without(theirs, before, mine, "").content == found + b"theirs: 1\n"
