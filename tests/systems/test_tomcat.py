"""Apache Tomcat in its Java machine as one target: a private one, both catalogues on the real programs, and bad input."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.commands import PYTHON
from tests.needs import IS_FULL
from tests.systems.private import killed, with_line
from trimtab import plugins
from trimtab.errors import ApplyError, TargetError, UsageError
from trimtab.space import Config, Value
from trimtab.systems import WarmingTarget
from trimtab.systems.dump import printed_values
from trimtab.systems.facets import with_facets
from trimtab.testing.target_suite import Subject, TargetSuite

CHANGES = Config(
    {
        "maxThreads": 50,
        "collector": "Parallel",
        "MaxHeapSize": 256 << 20,
        "InitialHeapSize": 64 << 20,
        "compression": "on",
    }
)
OTHER = Config({"acceptCount": 500, "cacheTtl": 10_000, "AlwaysPreTouch": True})
POOL = '<Resource name="jdbc/db" type="javax.sql.DataSource" auth="Container"/>'


def tomcat(state_dir: Path, name: str = "app", **table: Any) -> Any:
    table = {"kind": "tomcat", "embedded": "10.1", "memory": "1GiB", "knobs": "all", **table}
    return plugins.load("targets", "tomcat").from_settings(name, table, state_dir=state_dir)


@pytest.fixture(scope="module")
def opened(state_dir: Path) -> Iterator[Any]:
    unlock = ["semantics", "security"]
    target = tomcat(state_dir, "tests", unlock=unlock, names={"resource": POOL})
    target.open()
    yield target
    target.close()


@pytest.fixture
def app(opened: Any) -> Iterator[Any]:
    """An open private Tomcat, as found after each test."""
    found = opened.snapshot()
    yield opened
    opened.restore(found)
    assert opened.snapshot().files == found.files


def test_what_brings_jcmd_is_told_where_java_is_a_runtime_alone(state_dir: Path, tmp_path: Path) -> None:
    """In `trimtab doctor` and at the start of a study: both open the target."""
    (tmp_path / "jvm.options").write_text("-Xmx64m\n")
    files = {name: str(tmp_path / name) for name in ("server", "context")} | {"jvm": str(tmp_path / "jvm.options")}
    ready = tmp_path / "ready"
    (tmp_path / "app.py").write_text(
        f"import signal, time\nsignal.signal(3, print)\nopen({str(ready)!r}, 'w')\ntime.sleep(60)\n"
    )
    names = {name: str(tmp_path / name) for name in ("java", "jcmd")}
    table = {"kind": "tomcat", "memory": "1GiB", "health": f"test -e {ready}", "files": files, "names": names}
    table["run"] = f"{PYTHON} {tmp_path / 'app.py'}"
    target = plugins.load("targets", "tomcat").from_settings("app", table, state_dir=state_dir)
    with pytest.raises(TargetError, match=r"program='\S+/jcmd' is not installed here") as caught:
        target.open()
    target.close()
    assert caught.value.hint == (
        'apt-get install openjdk-17-jdk-headless; one in another place: names = { jcmd = "/..." } in the target\'s table'
    )


def test_a_process_that_is_no_java_is_not_ended_by_a_question(state_dir: Path, tmp_path: Path) -> None:
    """Who attaches to a Java machine sends it SIGQUIT: the end of a shell that has started one."""
    (tmp_path / "jvm.options").write_text("-Xmx64m\n")
    files = {name: str(tmp_path / name) for name in ("server", "context")} | {"jvm": str(tmp_path / "jvm.options")}
    table = {"kind": "tomcat", "memory": "1GiB", "run": "sleep 60", "health": "true", "files": files}
    target = plugins.load("targets", "tomcat").from_settings("shell", table, state_dir=state_dir)
    try:
        with pytest.raises(TargetError, match="is not a Java machine, perhaps the shell that runs one"):
            target.open()
        assert target._reach.is_up()
    finally:
        target.close()


WATCHED = "13 settings may change while the program runs, 9 more with autoDeploy=off"
"""What a Tomcat that watches its file may change live."""


def _interrupted() -> None:
    raise KeyboardInterrupt


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.needs("tomcat", "java")
class TestTomcat:
    def test_both_catalogues_are_set_by_one_restart_and_come_back(self, app: Any) -> None:
        found = app.snapshot()
        config = Config({**CHANGES, "G1NewSizePercent": 9, "maxTotal": 20})
        app.preflight(config)
        applied = app.apply(config)
        assert applied.restarted
        assert {name: applied.effective[name] for name in CHANGES} == dict(CHANGES)
        options = (app._reach.folder / "conf" / "jvm.options").read_text()
        assert "-XX:+UseParallelGC" in options
        assert "-XX:MaxHeapSize=256m" in options
        assert "G1NewSizePercent" not in options, "a flag of another collector is not written"
        killed(app)
        app.restore(found)
        assert app.snapshot().files == found.files
        assert app.states()["collector"].running == found.values["collector"]
        lines = {name: text for name, _, text in app.doctor()}
        assert lines["start"].endswith("s from its start to its first answer")

    def test_connector_and_pool_change_while_tomcat_runs(self, app: Any) -> None:
        """What a bean then has is compared with what was set (see SetLive.java); the largest is set before the least."""
        found, states, instance = app.snapshot(), app.states(), app._reach.instance
        names = [name for name in app._live.knobs if not states[name].lock_reason]
        assert len(names) >= 18
        config = Config(
            {n: _end(states[n].knob, high=True) for n in names if n != "minSpareThreads"} | {"minSpareThreads": 250}
        )
        applied = app.apply(config)
        assert not applied.restarted
        assert {name: applied.effective[name] for name in config} == dict(config)
        assert not app.restore(found).restarted
        assert app._reach.instance == instance

    @pytest.mark.parametrize(
        ("is_watched", "live"),
        [
            (True, WATCHED),
            (False, "22 settings may "),
        ],
    )
    @pytest.mark.full
    def test_the_pool_takes_a_restart_while_tomcat_watches_its_file(
        self, app: Any, is_watched: bool, live: str
    ) -> None:
        """Tomcat would deploy all applications again at its next look, some seconds later. Here a config of ours has it watch; in
        the quick form the way back shows the same of one that was found so."""
        config = Config({"autoDeploy": is_watched, "backgroundProcessorDelay": 1, "maxTotal": 10})
        app.apply(config)
        assert app.apply(config.replace({"maxTotal": 20})).restarted is is_watched
        assert {name: text for name, _, text in app.doctor()}["live"].startswith(live)
        if is_watched:
            (app._reach.folder / "conf" / "context.xml").touch()
        time.sleep(4)
        assert ("Undeploying context" in app.log_excerpt(200)) is is_watched, "it looks each second"

    @pytest.mark.parametrize(
        "is_cut_off",
        [pytest.param(False, id="whole"), pytest.param(True, id="cut off before the restart", marks=pytest.mark.full)],
    )
    def test_the_way_back_restarts_a_tomcat_that_watches_its_file(
        self, app: Any, is_cut_off: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It may have read ours by itself, also where nobody came to restart it."""
        server = app._reach.folder / "conf" / "server.xml"
        as_made = server.read_text()
        each_second = as_made.replace("<Engine ", '<Engine backgroundProcessorDelay="1" ')
        server.write_text(each_second.replace('autoDeploy="false"', 'autoDeploy="true"'))
        app._reach.restart()
        try:
            found, change = app.snapshot(), Config({"maxTotal": 20})
            assert (found.values["autoDeploy"], found.values["backgroundProcessorDelay"]) == (True, 1)
            if is_cut_off:
                with monkeypatch.context() as patched:
                    patched.setattr(app._reach, "restart", _interrupted)
                    with pytest.raises(KeyboardInterrupt):
                        app.apply(change)
            else:
                assert app.apply(change).restarted
                assert {name: text for name, _, text in app.doctor()}["live"].startswith(WATCHED)
                (app._reach.folder / "conf" / "context.xml").touch()
                time.sleep(4)
                assert "Undeploying context" in app.log_excerpt(200), "it looks each second"
            assert app.restore(found).restarted
            assert app.snapshot().files == found.files
        finally:
            server.write_text(as_made)
            app._reach.restart()

    def test_collections_are_counted(self, app: Any) -> None:
        """As Java tells them to everyone, without a stop of the program."""
        first = app.counters()
        assert set(first) == {f"sun.gc.collector.{i}.invocations" for i in range(2)}
        subprocess.run(["jcmd", str(app._reach.pid), "GC.run"], check=True, capture_output=True)
        grown = {name: count - first[name] for name, count in app.counters().items()}
        assert grown["sun.gc.collector.1.invocations"] == 1

    def test_tomcat_knows_every_attribute(self, app: Any) -> None:
        """At the low end of each, and in the long form at the high end: it only warns of what it does not know."""
        states = {n: s for n, s in app.states().items() if app.catalog.channel_of(n) != "jvm" and not s.lock_reason}
        assert len(states) >= 50
        for high in (False, True) if IS_FULL else (False,):
            ends = {n: _end(s.knob, high=high) for n, s in states.items()}
            applied = app.apply(Config({**ends, "cacheObjectMaxSize": 16, "minSpareThreads": 1, "minIdle": 0}))
            assert applied.effective["maxThreads"] == ends["maxThreads"]
            assert not [line for line in app.log_excerpt(200).splitlines() if "failed to set property" in line]

    def test_java_takes_every_flag(self, app: Any) -> None:
        """At both ends; a sample of them in the quick form."""
        states = {n: s for n, s in app.states().items() if app.catalog.channel_of(n) == "jvm"}
        assert len(states) >= 120
        refused = []
        for index, (name, state) in enumerate(states.items()):
            assert not state.lock_reason, (name, state.lock_reason)
            for config in _flags(name, state.knob) if IS_FULL or index % 16 == 0 else ():
                try:
                    app._check(config, app._states_as_found())
                except ApplyError as error:
                    refused.append((config, error.message[-300:]))
        assert not refused

    @pytest.mark.parametrize(
        ("config", "words"),
        [
            (
                {"InitialHeapSize": 300 << 20, "MaxHeapSize": 200 << 20},
                "InitialHeapSize=314572800 is above MaxHeapSize",
            ),
            ({"ConcGCThreads": 40, "ParallelGCThreads": 2}, "ConcGCThreads=40 is above ParallelGCThreads=2"),
            ({"MaxHeapSize": 64 << 40}, "outside the server's range"),
            ({"MaxHeapSize": 16 << 40, "UseCompressedOops": False}, "would take memory="),
            ({"OldPLABSize": 1 << 20}, r"would refuse file='.*/jvm\.options': .*OldPLABSize"),
            ({"maxThreads": 5}, "minSpareThreads=10 is above maxThreads=5"),
        ],
    )
    def test_what_cannot_work_is_refused_before_a_start(self, app: Any, config: dict[str, Value], words: str) -> None:
        pid = app._reach.pid
        with pytest.raises(ApplyError, match=words):
            app.preflight(Config(config))
        assert app._reach.pid == pid

    def test_a_collector_that_comes_twice_is_told(self, app: Any) -> None:
        options = app._reach.folder / "conf" / "jvm.options"
        before = options.read_text()
        options.write_text(before + "-XX:+UseParallelGC\n-XX:-UseSerialGC -XX:+UseParallelGC\n")
        try:
            with pytest.raises(TargetError, match="comes 2 times"):
                app.states()
        finally:
            options.write_text(before)


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.needs("tomcat", "java")
def test_flags_that_exclude_each_other_are_told_with_javas_words(state_dir: Path) -> None:
    target = tomcat(state_dir, "excluding")
    target._reach._home.make(target._reach.account)
    options = target._reach.folder / "conf" / "jvm.options"
    options.write_text("-XX:+UseSerialGC\n-XX:+UseParallelGC\n")
    with pytest.raises(
        TargetError, match=r"(?s)the program (is down|does not answer).*Multiple garbage collectors selected"
    ):
        target.open()
    target.close()
    assert options.read_text() == "-XX:+UseSerialGC\n-XX:+UseParallelGC\n"


@pytest.mark.service
@pytest.mark.full
@pytest.mark.needs("tomcat", "java")
class TestPrivate(TargetSuite):
    """Each check restarts Tomcat; `TestTomcat` shows the same once in the quick form."""

    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, state_dir: Path) -> Iterator[Subject]:
        target = tomcat(state_dir)
        target.open()
        file = target._reach.folder / "conf" / "server.xml"

        yield Subject(
            target=target,
            again=lambda: tomcat(state_dir / "other"),
            reattach=lambda snapshot: type(target).from_snapshot(snapshot, state_dir=state_dir),
            changes=CHANGES,
            other=OTHER,
            refused=("acceptCount", 100_000),
            locked=("maxPostSize", 1_000_000),
            crash=partial(killed, target),
            meddle=partial(with_line, file, b"<!-- by hand -->\n"),
            state_dir=state_dir,
        )
        target.close()


def _end(knob: Any, *, high: bool) -> Value:
    if knob.kind.value == "boolean":
        return not knob.default if high else bool(knob.default)
    if knob.choices:
        return str(knob.choices[-1 if high else 0])
    found: Value = knob.high if high else knob.low
    return found


def _flags(name: str, knob: Any) -> Iterator[Config]:
    """Each end of the useful range, as a config that the rules let pass, under the collector that it belongs to."""
    condition = knob.condition or ""
    more: dict[str, Value] = {}
    for collector in ("G1", "Parallel", "Serial", "Z", "Shenandoah"):
        if f'"{collector}"' in condition:
            more = {"collector": collector}
            break
    pairs = {
        "ConcGCThreads": {"ParallelGCThreads": knob.high},
        "InitialHeapSize": {"MaxHeapSize": knob.high},
        "MaxHeapSize": {"InitialHeapSize": 64 << 20},
        "InitialCodeCacheSize": {"ReservedCodeCacheSize": 128 << 20},
    }
    ends = (False, True) if knob.kind.value == "boolean" else knob.choices or (knob.low, knob.high, *knob.special)
    for value in ends:
        yield Config({**more, **pairs.get(name, {}), name: value})


FLAGS = """4711:
     bool UseG1GC                                  = true                                      {product} {ergonomic}
     bool UseZGC                                   = false                                     {product} {default}
   size_t MaxHeapSize                             := 268435456                                 {product} {command line}
    ccstr HeapDumpPath                             =                                           {manageable} {default}
   double MaxRAMPercentage                         = 25.000000                                 {product} {default}
"""


def test_what_hotspot_prints_is_read() -> None:
    wanted = (
        "-XX:Use*GC",
        "-XX:UseZGC",
        "-XX:MaxHeapSize",
        "-XX:HeapDumpPath",
        "-XX:MaxRAMPercentage",
        "-XX:NoSuchFlag",
    )
    assert printed_values("flags", FLAGS, wanted) == {
        "-XX:Use*GC": "G1",
        "-XX:UseZGC": "false",
        "-XX:MaxHeapSize": "268435456",
        "-XX:HeapDumpPath": "",
        "-XX:MaxRAMPercentage": "25.000000",
    }


def packaged(tmp_path: Path, connector: str = "", **more: Any) -> Any:
    """One of a package that does not run, with these attributes of its connector."""
    conf = tmp_path / "conf"
    conf.mkdir(exist_ok=True)
    (conf / "context.xml").write_text("<Context/>\n")
    (conf / "jvm.options").write_text("")
    xml = f'<Server><Service><Connector port="8080" protocol="HTTP/1.1"{connector}/></Service></Server>\n'
    (conf / "server.xml").write_text(xml)
    files = {"server": str(conf / "server.xml"), "context": str(conf / "context.xml"), "jvm": str(conf / "jvm.options")}
    table = {"kind": "tomcat", "files": files, "memory": "1GiB", "pid_file": str(tmp_path / "pid"), "restart": "true"}
    return plugins.load("targets", "tomcat").from_settings("app", {**table, **more}, state_dir=tmp_path)


def test_a_connection_is_kept_as_long_as_it_may_take_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    for own, expected in (
        (' connectionTimeout="20000"', (20_000, "default")),
        (' connectionTimeout="20000" keepAliveTimeout="5000"', (5_000, "configuration file")),
        ("", (60_000, "default")),
    ):
        state = packaged(tmp_path, own).states()["keepAliveTimeout"]
        assert (state.running, state.source) == expected, own


def test_the_check_of_flags_fills_no_second_heap(tmp_path: Path) -> None:
    """The program that it is for still runs, with a heap of its own."""
    java, said = tmp_path / "java", tmp_path / "said"
    java.write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    java.chmod(0o755)
    app = packaged(tmp_path, names={"java": str(java)})
    app.preflight(Config({"AlwaysPreTouch": True}))
    assert said.read_text().rstrip().endswith(" -XX:-AlwaysPreTouch -version")


@pytest.mark.parametrize("written", ["", ' socket.bufferPool="-2"'], ids=["default", "in the file"])
def test_the_pool_of_buffers_is_sized_by_the_heap_unless_the_file_says_otherwise(written: str, tmp_path: Path) -> None:
    state = packaged(tmp_path, written).states()["socketBufferPool"]
    assert (state.running, state.lock_reason) == (-2, "")


def test_java_needs_half_a_minute_of_load_after_a_restart(tmp_path: Path) -> None:
    def floor(kind: str, **more: Any) -> float:
        table = {"kind": kind, "embedded": {"tomcat": "10.1", "cassandra": "5.0", "httpd": "2.4"}[kind], **more}
        target = plugins.load("targets", kind).from_settings("x", table, state_dir=tmp_path)
        assert isinstance(target, WarmingTarget)
        return target.warmup_floor_s

    assert floor("tomcat") == 30, "as its facet says"
    assert floor("cassandra") == 60, "as it says itself"
    assert floor("httpd") == 0
    assert floor("tomcat", warmup_floor="2m") == 120


def test_an_unknown_facet_is_told() -> None:
    with pytest.raises(UsageError, match="facets names 'perl': there is no such facet") as caught:
        with_facets({"facets": ["perl"]})
    assert caught.value.hint == "use: jvm"


def test_a_knob_that_a_facet_has_too_is_told() -> None:
    with pytest.raises(UsageError, match=r"\[knob\.MaxHeapSize\] is a knob of facet='jvm' too"):
        with_facets({"facets": ["jvm"], "knob": {"MaxHeapSize": {}}})
