"""The flags of the Java facet on every JDK that is installed here: their names and types as HotSpot prints them, and in the
long form both ends of each range. `TRIMTAB_TEST_JAVA` names further programs `java`, with ":" between.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.needs import IS_FULL
from tests.systems.test_tomcat import _flags, tomcat
from trimtab import plugins
from trimtab.errors import ApplyError
from trimtab.space import Config
from trimtab.systems.codec.jvm_options import COLLECTOR
from trimtab.systems.dump import printed_values

pytestmark = [pytest.mark.slow, pytest.mark.needs("java")]

_LINE = re.compile(r"^ *(?P<type>\S+) +(?P<name>\w+) +:?= ?.*? +\{(?P<kind>[^}]*)\}", re.MULTILINE)
TYPES = {
    **dict.fromkeys(("int", "intx", "uint", "uintx", "size_t", "uint64_t"), "integer"),
    "bool": "boolean", "double": "real", "ccstr": "choice",
}  # fmt: skip
GONE = {
    "G1ConcRefinementServiceIntervalMillis", "G1UseAdaptiveConcRefinement", "G1RSetSparseRegionEntries", "G1RSetRegionEntries",
    "G1EagerReclaimHumongousObjects", "UseBiasedLocking", "UseSharedSpaces",
}  # fmt: skip
"""Flags of OpenJDK 17 that 21 no longer has; Trimtab locks them there."""


def javas() -> list[Path]:
    """Each installed one once."""
    found = [*Path("/usr/lib/jvm").glob("*/bin/java"), *map(Path, os.environ.get("TRIMTAB_TEST_JAVA", "").split(":"))]
    return sorted({path.resolve() for path in found if path.is_file()})


@cache
def printed(java: Path) -> str:
    """Its version, and all its flags."""
    argv = [java, "-XX:+UnlockExperimentalVMOptions", "-XX:+PrintFlagsFinal", "-version"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    return done.stderr + done.stdout


def version(java: Path) -> int:
    return int(re.findall(r'version "(\d+)', printed(java))[0])


@pytest.fixture
def facet(tmp_path: Path) -> Any:
    """A private Tomcat that is not started: its catalogue has the facet's flags."""
    return tomcat(tmp_path / "state", folder=str(tmp_path / "home"))


def _mine(facet: Any) -> dict[str, Any]:
    """Flag -> knob."""
    names = [name for name in facet.catalog.knob if facet.catalog.channel_of(name) == "jvm" and name != "collector"]
    return {facet.catalog.address_of(name).removeprefix("-XX:"): facet._example_knob(name) for name in names}


@pytest.mark.parametrize("java", javas(), ids=str)
def test_names_and_types_are_those_of_hotspot(facet: Any, java: Path) -> None:
    flags = {
        flag["name"]: (TYPES[flag["type"]], flag["kind"])
        for flag in _LINE.finditer(printed(java))
        if flag["type"] in TYPES
    }
    mine = _mine(facet)
    assert len(mine) >= 120
    assert mine.keys() - flags.keys() == (GONE if version(java) > 17 else set())
    for name in mine.keys() & flags.keys():
        kind, flag = flags[name]
        assert facet.catalog.knob[mine[name].name].type == kind, name
        assert "diagnostic" not in flag, name


@pytest.mark.full
@pytest.mark.parametrize("java", javas(), ids=str)
def test_both_ends_of_each_range_are_taken(facet: Any, java: Path) -> None:
    assert IS_FULL
    refused = []
    collectors = set(re.findall(r"\bUse(\w+)GC\b", printed(java)))
    for flag, knob in _mine(facet).items():
        for config in _flags(knob.name, knob) if flag not in GONE or version(java) == 17 else ():
            if config.get("collector", "G1") not in collectors:
                continue
            lines = [line for line in facet.fragment(config).splitlines() if line.startswith("-")]
            done = subprocess.run(
                [java, "-XX:+UnlockExperimentalVMOptions", *lines, "-version"], capture_output=True, text=True
            )
            if done.returncode:
                refused.append((dict(config), done.stdout[-200:] + done.stderr[-200:]))
    assert not refused


def _with_options(folder: Path, text: str) -> Any:
    """A Tomcat that does not run, with these options of its Java."""
    (folder / "jvm.options").write_text(text)
    files = {name: str(folder / name) for name in ("server", "context")} | {"jvm": str(folder / "jvm.options")}
    table = {"kind": "tomcat", "memory": "2GiB", "knobs": "all", "files": files, "pid_file": str(folder / "pid")}
    table |= {"restart": "true"}
    return plugins.load("targets", "tomcat").from_settings("app", table, state_dir=folder / "state")


def test_a_heap_is_set_where_the_file_has_its_own(tmp_path: Path) -> None:
    """-Xms sets the least heap too: beside it Java takes no size below that."""
    target = _with_options(tmp_path, "# as found\n-Xms512m -Xmx512m\n-XX:+UseG1GC\n")
    states = target.states()
    assert {states[name].running for name in ("MaxHeapSize", "InitialHeapSize")} == {512 << 20}
    config = Config({"MaxHeapSize": 256 << 20, "InitialHeapSize": 128 << 20, "collector": "Serial"})
    target.preflight(config)
    channel = target._places["MaxHeapSize"].channel
    changed = channel.changed(channel.read(), target._files.texts_for(channel, config))
    assert changed.content == b"# as found\n-Xms128m -Xmx256m\n-XX:+UseSerialGC\n"


@pytest.mark.parametrize(
    ("text", "ruled"),
    [
        ("-Xmn64m\n", {"NewRatio": "-Xmn", "G1NewSizePercent": "-Xmn", "G1MaxNewSizePercent": "-Xmn"}),
        ("-XX:MaxNewSize=64m\n", {"G1MaxNewSizePercent": "-XX:MaxNewSize"}),
        ("# -Xmn64m\n", {}),
    ],
)
def test_flags_that_a_fixed_young_generation_rules_are_locked(text: str, ruled: dict[str, str], tmp_path: Path) -> None:
    """Java takes them and does not use them: a search over them measured noise."""
    states = _with_options(tmp_path, f"-XX:+UnlockExperimentalVMOptions\n{text}").states()
    found = {name: state.lock_reason for name, state in states.items() if "no effect while" in state.lock_reason}
    assert found == {name: f"it has no effect while its file has {flag}" for name, flag in ruled.items()}
    assert states["SurvivorRatio"].lock_reason == ""


def test_the_collector_of_java_11_is_replaced_and_not_joined(tmp_path: Path) -> None:
    """As Cassandra's file for Java 11 has it. It counted as G1, whose flags were searched, and a second line was added."""
    text = "-XX:+UseConcMarkSweepGC\n-XX:+CMSParallelRemarkEnabled\n"
    target = _with_options(tmp_path, text)
    state, channel = target.states()["collector"], target._places["collector"].channel
    assert (state.running, state.lock_reason) == ("ConcMarkSweep", "")
    changed = channel.changed(channel.read(), target._files.texts_for(channel, Config({"collector": "Parallel"})))
    assert changed.content.decode() == text.replace("UseConcMarkSweepGC", "UseParallelGC")
    flags = " bool UseConcMarkSweepGC  = true  {product} {command line}\n bool UseG1GC  = false  {product} {default}\n"
    assert printed_values("flags", flags, [COLLECTOR]) == {COLLECTOR: "ConcMarkSweep"}


def test_a_check_leaves_the_log_and_the_ports_of_the_running_java_alone(tmp_path: Path) -> None:
    """A second Java with its options would put that log away, and find the ports in use."""
    log = tmp_path / "gc.log"
    log.write_text("of the running one\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, config = taken.getsockname()[1], Config({"MaxHeapSize": 128 << 20})
        text = (
            f"-Xlog:gc*:file={log}:time:filecount=2,filesize=1m\n-agentlib:jdwp=transport=dt_socket,server=y,address={port}\n"
            f"-Dcom.sun.management.jmxremote.port={port} -Dcom.sun.management.jmxremote.ssl=false # why\n"
        )
        _with_options(tmp_path, text).preflight(config)
        with pytest.raises(
            ApplyError, match="(?s)the program would refuse file='.*jvm.options'.*Unrecognized VM option"
        ):
            _with_options(tmp_path, f"{text}-XX:+NoSuchFlag\n").preflight(config)
    assert [path.name for path in tmp_path.glob("gc.log*")] == ["gc.log"]
    assert log.read_text() == "of the running one\n"
