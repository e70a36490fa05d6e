"""Values that are set in a Java program while it runs, on a real one with a management bean."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import run_folder, template
from tests.systems.private import killed
from tests.systems.program.conftest import made
from trimtab.errors import ApplyError, RestoreError, TargetError
from trimtab.space import Config, RestartClass
from trimtab.systems.live_values import LiveValues
from trimtab.systems.program import ProgramTarget
from trimtab.trial import own_from_json, own_to_json

pytestmark = [pytest.mark.needs("java"), pytest.mark.slow]

CATALOG = """
schema = 2
kind = "pump"
[channel.conf]
codec = "keyvalue"
path = "pump.conf"
[lifecycle]
names = { java = "java" }
[knob.speed]
doc = "How fast it pumps."
type = "integer"
low = 1
high = 100
default = 10
restart = "restart"
live = "pump:type=Pump Speed"
[knob.threads]
doc = "How many pump at once."
type = "integer"
low = 1
high = 8
default = 2
restart = "restart"
live = "pump:type=Pump setThreads(outer, {value})"
[knob.quiet]
doc = "Whether it makes no noise."
type = "boolean"
default = false
restart = "restart"
live = "pump:type=Pump Quiet"
[knob.valve]
doc = "How far its valves are open."
type = "integer"
low = 1
high = 100
default = 5
restart = "restart"
live = "pump:type=Valve,name=* Speed"
[knob.hose]
doc = "How long its hose is."
type = "integer"
low = 1
high = 100
default = 5
restart = "restart"
live = "pump:type=Hose Speed"
[knob.drive]
doc = "How fast each of its drives turns."
type = "integer"
low = 1
high = 100
default = 5
restart = "restart"
live = "pump:type=Drive,place=*,name=* Speed"
[knob.gear]
doc = "What nothing changes."
type = "integer"
low = 1
high = 100
default = 5
restart = "restart"
live = "pump:type=Pump Gear"
[knob.size]
doc = "How large it is."
type = "integer"
low = 1
high = 100
default = 5
restart = "restart"
"""
PROGRAM = """
import java.lang.management.ManagementFactory;
import java.nio.file.*;
import java.util.*;
import javax.management.*;

public class Pump {
    public interface PumpMBean {
        int getSpeed();
        void setSpeed(int speed);
        boolean isQuiet();
        void setQuiet(boolean quiet);
        void setThreads(String pool, int threads);
    }

    static class Running extends StandardMBean implements PumpMBean {
        final Path told;
        final Map<String, String> values = new TreeMap<>();
        Running(Path folder, String file) throws Exception {
            super(PumpMBean.class);
            told = folder.resolve(file);
            for (String name : List.of("size", "valve", "hose", "drive", "gear")) values.put(name, "5");
            values.putAll(Map.of("speed", "10", "threads", "2", "quiet", "no"));
            for (String line : Files.readAllLines(folder.resolve("pump.conf"))) {
                String[] parts = line.split(" = ");
                if (parts.length == 2 && values.containsKey(parts[0])) values.put(parts[0], parts[1]);
            }
            tell();
        }
        synchronized void put(String name, String value) { values.put(name, value); tell(); }
        synchronized void tell() {
            StringBuilder text = new StringBuilder();
            values.forEach((name, value) -> text.append(name).append("=").append(value).append("\\n"));
            try { Files.writeString(told, text); } catch (Exception error) { throw new RuntimeException(error); }
        }
        public int getSpeed() { return Integer.parseInt(values.get("speed")); }
        public void setSpeed(int speed) {
            if (speed == 13) throw new IllegalArgumentException("13 brings bad luck");
            put("speed", String.valueOf(Math.min(speed, 90)));
        }
        public boolean isQuiet() { return values.get("quiet").equals("yes"); }
        public void setQuiet(boolean quiet) { put("quiet", quiet ? "yes" : "no"); }
        public void setThreads(String pool, int threads) {
            if (!pool.equals("outer")) throw new IllegalArgumentException(pool);
            put("threads", String.valueOf(threads));
        }
    }

    public static void main(String[] words) throws Exception {
        Path folder = Path.of(words[0]);
        Running running = new Running(folder, "told");
        MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
        for (String name : List.of("type=Pump", "type=Valve,name=a", "type=Valve,name=b"))
            beans.registerMBean(running, new ObjectName("pump:" + name));
        for (String place : List.of("left", "right"))
            beans.registerMBean(new Running(folder, place), new ObjectName("pump:type=Drive,name=x,place=" + place));
        Files.writeString(folder.resolve("ready"), ProcessHandle.current().pid() + "\\n");
        Thread.sleep(3600_000);
    }
}
"""
CONF = "# by hand\nspeed = 20\n"


@pytest.fixture(autouse=True)
def shared(cache: Path) -> Path:
    """The cache of a test, in which what Trimtab compiles is that of all tests: a compiler takes a second of CPU."""
    programs = run_folder() / "live-programs"
    programs.mkdir(exist_ok=True, mode=0o755)
    cache.mkdir()
    (cache / "programs").symlink_to(programs)
    return cache


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "catalog.toml").write_text(CATALOG)
    (tmp_path / "pump.conf").write_text(CONF)
    return tmp_path


def compiled() -> Path:
    """The folder of the program's classes, made once in a test run."""

    def make(folder: Path) -> None:
        (folder / "Pump.java").write_text(PROGRAM)
        subprocess.run(["javac", "-J-XX:TieredStopAtLevel=1", "-d", folder, folder / "Pump.java"], check=True)

    return template("pump", make)


def pump(folder: Path, options: str = "", **more: Any) -> ProgramTarget:
    run = f"java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC {options} -cp {compiled()} Pump {folder}"
    health = f"grep -qx {{pid}} {folder}/ready"
    more = {"read": f"sed -n s/^{{address}}=//p {folder}/told", **more}
    return made(folder, run=run, health=health, restart_timeout_s=60, **more)


@pytest.fixture
def running(folder: Path) -> Iterator[ProgramTarget]:
    target = pump(folder)
    target.open()
    yield target
    target.close()


def refused(self: LiveValues, values: object) -> None:
    raise TargetError("cannot attach")


def in_use(target: ProgramTarget) -> dict[str, Any]:
    return {name: state.running for name, state in target.states().items()}


def test_values_are_set_in_the_program_and_in_its_file(folder: Path, running: ProgramTarget) -> None:
    found, instance = running.snapshot(), running._reach.instance
    late = {name for name, state in running.states().items() if state.knob.restart is not RestartClass.RELOAD}
    assert late == {"size"}
    assert ("live", True, "7 settings may change while the program runs") in running.doctor()
    before = in_use(running)
    config = Config({"speed": 40, "threads": 8, "quiet": True})
    applied = running.apply(config)
    assert not applied.restarted
    assert dict(applied.effective) == dict(config)
    assert (folder / "pump.conf").read_text() == "# by hand\nspeed = 40\nquiet = yes\nthreads = 8\n"
    assert not running.apply(Config({"quiet": True})).restarted, "what the config does not name is as found again"
    assert in_use(running) == {**before, "quiet": True}
    assert not running.restore(found).restarted
    assert in_use(running) == before
    assert (folder / "pump.conf").read_text() == CONF
    assert running._reach.instance == instance


def test_what_is_not_set_is_told_and_of_one_name_all_are_set(folder: Path, running: ProgramTarget) -> None:
    refusals = (
        ("speed", 95, r"pump:type=Pump Speed=95: .*its value is 90"),
        ("speed", 13, r"13 brings bad luck"),
        ("valve", 5, r"there are several such beans: \[pump:type=Valve,name=a, pump:type=Valve,name=b\]"),
        ("hose", 5, r"pump:type=Hose Speed=5: javax.management.InstanceNotFoundException"),
        ("gear", 5, r"there is no such attribute"),
    )
    for name, value, words in refusals:
        with pytest.raises(TargetError, match=words):
            running._live.set({name: value})
    running._live.set({"drive": 70})
    assert ["speed=70" in (folder / place).read_text() for place in ("left", "right")] == [True, True]


def test_a_restart_for_another_setting_brings_all_of_them(folder: Path, running: ProgramTarget) -> None:
    found, before = running.snapshot(), in_use(running)
    assert running.apply(Config({"speed": 40, "size": 7})).restarted
    assert in_use(running) == {**before, "speed": 40, "size": 7}
    assert running.restore(found).restarted
    assert in_use(running) == before


def test_what_the_program_refuses_takes_a_restart(folder: Path, running: ProgramTarget) -> None:
    found, before = running.snapshot(), in_use(running)
    applied = running.apply(Config({"speed": 13}))
    assert applied.restarted
    assert applied.effective["speed"] == 13
    assert not running.restore(found).restarted
    assert in_use(running) == before


def test_what_is_refused_is_told_where_no_restart_is_allowed(folder: Path) -> None:
    target = pump(folder, allow_restart=False)
    target.open()
    try:
        found, before = target.snapshot(), in_use(target)
        assert {name for name, state in target.states().items() if state.lock_reason} == {"size"}
        assert not target.apply(Config({"speed": 30})).restarted
        for value, words in ((13, "13 brings bad luck"), (95, "its value is 90")):
            with pytest.raises(ApplyError, match=f"Speed={value}: .*{words}"):
                target.apply(Config({"speed": value}))
            assert in_use(target) == before, "also what the program made of it"
        assert (folder / "pump.conf").read_text() == CONF
        assert target.snapshot().files == found.files
    finally:
        target.close()


def test_another_trimtab_takes_them_back(folder: Path, running: ProgramTarget) -> None:
    found, before, instance = running.snapshot(), in_use(running), running._reach.instance
    own = own_from_json(json.loads(json.dumps(own_to_json(running.apply(Config({"speed": 40, "quiet": True})).own))))
    running._live.set({"quiet": False, "threads": 3})  # somebody else: no value of ours is in use for these now
    other = type(running).from_snapshot(found, state_dir=folder / "state")
    assert not other.restore(found, own).restarted
    assert in_use(running) == {**before, "threads": 3}
    assert (folder / "pump.conf").read_text() == CONF
    assert running._reach.instance == instance


@pytest.mark.full  # test_another_trimtab_takes_them_back: somebody else has set two of them since
def test_values_set_by_somebody_else_since_stay(folder: Path, running: ProgramTarget) -> None:
    found, before = running.snapshot(), in_use(running)
    running.apply(Config({"speed": 40, "threads": 8}))
    running._live.set({"speed": 55})
    running.restore(found)
    assert in_use(running) == {**before, "speed": 55}


def test_a_killed_program_starts_with_its_file_as_found(folder: Path, running: ProgramTarget) -> None:
    found, before = running.snapshot(), in_use(running)
    running.apply(Config({"speed": 40}))
    killed(running)
    assert running.restore(found).restarted
    assert in_use(running) == before


def test_a_program_that_lets_nobody_attach_takes_restarts(folder: Path) -> None:
    target = pump(folder, "-XX:+DisableAttachMechanism")
    target.open()
    try:
        found = target.snapshot()
        assert {state.knob.restart for state in target.states().values()} == {RestartClass.RESTART}
        assert ("live", True) in [line[:2] for line in target.doctor()]
        text = next(text for name, _, text in target.doctor() if name == "live")
        assert text.startswith("every change takes a restart: nothing can be set in the running program pid=")
        assert target.apply(Config({"speed": 40})).restarted
        assert in_use(target)["speed"] == 40
        target.restore(found)
    finally:
        target.close()


@pytest.mark.full  # test_a_way_back_that_failed_is_gone_again_where_only_files_are_seen, and the restarts of those below
def test_a_program_that_lets_nobody_attach_any_more_is_put_back_by_a_restart(
    folder: Path, running: ProgramTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, before = running.snapshot(), in_use(running)
    running.apply(Config({"speed": 40}))
    monkeypatch.setattr(LiveValues, "set", refused)
    assert running.restore(found).restarted
    assert in_use(running) == before


def test_a_way_back_that_failed_is_gone_again_where_only_files_are_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = pump(folder, read=None, allow_restart=False)
    target.open()
    try:
        found = target.snapshot()
        own = target.apply(Config({"speed": 40})).own
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(LiveValues, "set", refused)
            with pytest.raises(RestoreError, match="cannot attach"):
                target.restore(found, own)
        assert "speed=40" in (folder / "told").read_text()
        target.restore(found, own)
        assert "speed=20" in (folder / "told").read_text()
    finally:
        target.close()


def test_a_value_that_the_file_has_and_the_program_does_not_use_is_set(folder: Path, running: ProgramTarget) -> None:
    running._live.set({"speed": 55, "threads": 5})
    found, before = running.snapshot(), in_use(running)
    applied = running.apply(Config({"speed": 20, "threads": 2, "quiet": True}))
    assert not applied.restarted
    assert dict(applied.effective) == {"speed": 20, "threads": 2, "quiet": True}
    running.restore(found)
    assert in_use(running) == before


def test_a_java_without_a_compiler_takes_restarts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE", str(folder / "own"))
    (folder / "java").write_text(
        '#!/bin/sh\ncase "$*" in *Pump*) exec java "$@" ;; esac\necho no compiler here\nexit 1\n'
    )
    (folder / "java").chmod(0o755)
    target = pump(folder, names={"java": str(folder / "java")})
    target.open()
    try:
        assert {state.knob.restart for state in target.states().values()} == {RestartClass.RESTART}
        with pytest.raises(TargetError, match="this Java compiles nothing: no compiler here"):
            target._live.set({"speed": 1})
    finally:
        target.close()


def test_a_cache_that_cannot_be_written_is_told(
    folder: Path, running: ProgramTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("")
    monkeypatch.setenv("TRIMTAB_CACHE", str(folder / "file"))
    with pytest.raises(TargetError, match="cannot write folder=.*: Not a directory"):
        running._live.set({"speed": 1})


def test_nothing_can_be_set_in_a_program_that_is_down(folder: Path) -> None:
    with pytest.raises(TargetError, match="the program is down"):
        pump(folder)._live.set({"speed": 1})
    began = time.monotonic()
    pump(folder)._live.set({})
    assert time.monotonic() - began < 1
