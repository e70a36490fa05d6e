"""Apache httpd as a target: a private one under the public suite, its catalogue on the real server, and bad input."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.needs import IS_FULL
from tests.systems.private import killed
from trimtab import plugins
from trimtab.errors import ApplyError, RestoreError, TargetError, UsageError
from trimtab.host import is_running
from trimtab.space import Config, KnobKind, Value
from trimtab.systems.http_probe import http_get
from trimtab.testing.target_suite import Subject, TargetSuite

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.needs("httpd")]

CHANGES = Config({"KeepAliveTimeout": 20, "ListenBacklog": 1024, "EnableSendfile": True})
OTHER = Config({"MaxRequestWorkers": 200, "AcceptFilter_http": "none"})
PREFORK = Config({"mpm": "prefork", "ServerLimit": 32, "MaxRequestWorkers": 32, "ThreadsPerChild": 8})


def httpd(state_dir: Path, name: str = "web", **table: Any) -> Any:
    table = {"kind": "httpd", "embedded": "2.4", "memory": "1GiB", "knobs": "all", **table}
    return plugins.load("targets", "httpd").from_settings(name, table, state_dir=state_dir)


@pytest.fixture(scope="module")
def opened(state_dir: Path) -> Iterator[Any]:
    target = httpd(state_dir, "tests", unlock=["semantics", "security", "durability"])
    target.open()
    yield target
    target.close()


@pytest.fixture
def web(opened: Any) -> Iterator[Any]:
    """An open private httpd, as found after each test."""
    found = opened.snapshot()
    yield opened
    opened.restore(found)
    assert opened.snapshot().files == found.files


def ours(target: Any) -> Path:
    return Path(target._reach.folder) / "conf.d" / "trimtab.conf"


def test_threads_of_http2_follow_those_of_a_process(web: Any) -> None:
    found = web.snapshot().values
    assert (found["H2MinWorkers"], found["H2MaxWorkers"]) == (25, 37)
    web.apply(Config({"ThreadsPerChild": 40}))
    states = web.states()
    assert (states["H2MinWorkers"].running, states["H2MaxWorkers"].running) == (40, 60)
    assert states["H2MinWorkers"].source == "default"


@pytest.mark.full
class TestPrivate(TargetSuite):
    """In the quick form the suite runs on another program with files of its own: TestEngine of test_wiredtiger.py."""

    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, state_dir: Path) -> Iterator[Subject]:
        target = httpd(state_dir)
        target.open()

        def meddle() -> Callable[[], None]:
            other = ours(target).with_name("other.conf")
            other.write_text("Timeout 33\n")
            mine = ours(target)
            before = mine.read_bytes() if mine.exists() else None
            mine.write_bytes((before or b"") + b"ServerSignature Off\n")

            def undo() -> None:
                other.unlink()
                mine.unlink() if before is None else mine.write_bytes(before)

            return undo

        yield Subject(
            target=target,
            again=lambda: httpd(state_dir / "other"),
            reattach=lambda snapshot: type(target).from_snapshot(snapshot, state_dir=state_dir),
            changes=CHANGES,
            other=OTHER,
            refused=("KeepAliveTimeout", 100_000),
            locked=("Timeout", 30),
            crash=partial(killed, target),
            meddle=meddle,
            state_dir=state_dir,
        )
        target.close()


def test_a_killed_parent_leaves_nobody_on_the_port(web: Any) -> None:
    """Its children go on with the port otherwise, with the old config."""
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(web._reach.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert children
    killed(web)
    assert any(is_running(int(pid)) for pid in children)
    web._reach.ensure_up()
    assert not any(is_running(int(pid)) for pid in children)
    web.health()


def test_what_an_earlier_trial_has_written_is_not_in_the_way(web: Any) -> None:
    """Its directive is one that the other way to make processes does not know."""
    web.apply(Config({"AsyncRequestWorkerFactor": 4.0}))
    web.preflight(Config({"mpm": "worker"}))
    web.apply(Config({"mpm": "worker"}))
    assert not ours(web).exists() or "AsyncRequestWorkerFactor" not in ours(web).read_text()


def test_a_graceful_restart_is_enough_for_most_settings(web: Any) -> None:
    pid = web._reach.pid
    applied = web.apply(Config({"MaxRequestWorkers": 100, "KeepAlive": False}))
    assert not applied.restarted
    assert web._reach.pid == pid
    assert web.apply(Config({"ServerLimit": 20})).restarted
    assert web._reach.pid != pid


def test_what_it_still_uses_where_files_of_others_keep_it_from_a_reload_is_told(web: Any) -> None:
    """It is not restarted: with such files it would not come back. What it has parsed is what the files say, and no proof."""
    found, other, pid = web.snapshot(), ours(web).with_name("other.conf"), web._reach.pid
    web.apply(Config({"KeepAliveTimeout": 20}))
    other.write_text("NoSuchDirective On\n")
    try:
        with pytest.raises(
            RestoreError, match="but the program may still use KeepAliveTimeout=20.* .found 5.*: reload="
        ):
            web.restore(found)
    finally:
        other.unlink()
    assert not web.restore(found).restarted
    assert web._reach.pid == pid


def test_the_values_in_use_are_those_that_httpd_has_parsed(web: Any) -> None:
    """Not those of one file: another one that is read later, or a block that is left out, counts too."""
    place = Path(web._reach.folder) / "conf.d"
    (place / "another.conf").write_text(
        "MaxKeepAliveRequests 77\n<IfModule no_such_module>\n  KeepAliveTimeout 9\n</IfModule>\n"
    )
    try:
        states = web.states()
        assert states["MaxKeepAliveRequests"].running == 77
        assert states["KeepAliveTimeout"].running == 5
    finally:
        (place / "another.conf").unlink()


def test_settings_without_effect_are_not_written(web: Any) -> None:
    """prefork does not know ThreadsPerChild, and would not start with it."""
    web.preflight(PREFORK)
    applied = web.apply(PREFORK)
    assert applied.restarted
    assert applied.effective["mpm"] == "prefork"
    assert "ThreadsPerChild" not in ours(web).read_text()


def test_a_value_that_cannot_be_written_is_left_out_where_no_file_names_it(web: Any) -> None:
    web.preflight(Config({"ListenCoresBucketsRatio": 0, "KeepAliveTimeout": 9}))
    web.apply(Config({"ListenCoresBucketsRatio": 0, "KeepAliveTimeout": 9}))
    assert ours(web).read_text() == "KeepAliveTimeout 9\n"


def test_httpd_itself_is_asked_before_a_change(web: Any) -> None:
    """A config of ours that another line of the same file makes wrong."""
    ours(web).write_text("H2Push Maybe\n")
    web._base = None  # as if it had been there when the study began
    try:
        with pytest.raises(ApplyError, match=r"would refuse file='.*/trimtab\.conf': AH00526: Syntax error") as caught:
            web._check(Config({"KeepAliveTimeout": 9}), {})
    finally:
        ours(web).unlink()
    assert caught.value.fault == "config"
    assert "trimtab-check" not in caught.value.message


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"MaxRequestWorkers": 500}, "processes for all workers does not hold with MaxRequestWorkers=500"),
        ({"ThreadsPerChild": 65}, "ThreadsPerChild=65 is above ThreadLimit=64"),
        ({"MinSpareThreads": 240}, "a process more or less between few and many idle threads does not hold"),
        ({"MaxRequestWorkers": 10}, "workers for one process does not hold with MaxRequestWorkers=10"),
        ({"ServerLimit": 20000, "MaxRequestWorkers": 200000}, "would take memory="),
    ],
)
def test_what_httpd_would_silently_lower_is_refused(web: Any, config: dict[str, Value], words: str) -> None:
    with pytest.raises(ApplyError, match=words):
        web.preflight(Config(config))


def test_what_files_give_under_names_of_before_and_in_other_units_is_read(state_dir: Path) -> None:
    lines = "MaxClients 150\nMaxRequestsPerChild 5000\n<IfVersion >= 2.2>\nKeepAliveTimeout 1mi\n</IfVersion>"
    target = httpd(state_dir, "older", names={"directives": lines})
    target.open()
    try:
        states = target.states()
        found = [states[name].running for name in ("MaxRequestWorkers", "MaxConnectionsPerChild", "KeepAliveTimeout")]
        assert found == [150, 5000, 60]
        target.snapshot()
        assert target.apply(Config({"MaxRequestWorkers": 200})).effective["MaxRequestWorkers"] == 200
    finally:
        target.close()


def test_a_config_that_does_not_parse_is_told_with_httpds_words(state_dir: Path) -> None:
    target = httpd(state_dir, "broken", names={"directives": "KeepAlive Perhaps"})
    with pytest.raises(TargetError, match=r"(?s)the program (is down|does not answer).*KeepAlive must be On or Off"):
        target.open()
    target.close()


def test_a_port_that_is_taken_is_told(state_dir: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        target = httpd(state_dir, "taken", port=port)
        with pytest.raises(TargetError, match=f"port={port} is taken by another program") as caught:
            target.open()
        target.close()
    assert caught.value.hint == "give another port, or leave it out for a free one"


def test_an_unknown_version_is_told(state_dir: Path) -> None:
    with pytest.raises(UsageError, match=r"\[target\.web\] embedded='1\.3': kind='httpd' has no such one") as caught:
        httpd(state_dir, embedded="1.3")
    assert caught.value.hint == "use one of: '2.4'"


def _ends(name: str, knob: Any) -> Iterator[Config]:
    """Each end of the useful range, as a config that the rules let pass."""
    more: dict[str, dict[str, Value]] = {
        "ServerLimit": {"MaxRequestWorkers": 25},
        "ThreadLimit": {"ThreadsPerChild": 16, "MaxRequestWorkers": 256},
        "ThreadsPerChild": {
            "ThreadLimit": 512,
            "ServerLimit": 64,
            "MaxRequestWorkers": 512,
            "MinSpareThreads": 75,
            "MaxSpareThreads": 1000,
        },
        "MaxRequestWorkers": {"ServerLimit": 64, "ThreadsPerChild": 16},
        "MinSpareThreads": {"MaxSpareThreads": 600},
        "MinSpareServers": {"MaxSpareServers": 200},
        "MaxSpareServers": {"MinSpareServers": 1},
        "H2MaxWorkers": {"H2MinWorkers": 1},
        "H2MinWorkers": {"H2MaxWorkers": 256},
    }
    if name == "MaxSpareThreads":
        more[name] = {"MinSpareThreads": 5, "ThreadsPerChild": 16, "MaxRequestWorkers": 256}
    plain = (False, True) if knob.kind is KnobKind.BOOLEAN else knob.choices or (knob.low, knob.high, *knob.special)
    needs: dict[str, Value] = {"CacheLockMaxAge": {"CacheLock": True}}.get(name, {})  # type: ignore[assignment]
    if knob.condition == 'mpm == "prefork"':
        needs = {"mpm": "prefork", "ServerLimit": 256, "MaxRequestWorkers": 200}
    for value in plain:
        yield Config({**needs, **more.get(name, {}), name: value})


def test_each_setting_can_be_changed_and_comes_back(web: Any) -> None:
    """The catalogue's word for every range and choice is tried on httpd itself: by a sample, and end by end in the long form."""
    states, log, n_tried = web.states(), Path(web._reach.folder) / "run" / "error.log", 0
    found = web.snapshot()
    assert len(states) >= 70
    for index, (name, state) in enumerate(states.items()):
        assert not state.lock_reason, name
        for config in _ends(name, state.knob) if IS_FULL or index % 25 == 0 else ():
            start = log.stat().st_size
            assert web.apply(config).effective[name] == config[name], config
            clamps = [line for line in log.read_bytes()[start:].decode().splitlines() if "AH005" in line]
            assert not clamps, (config, clamps)
            n_tried += 1
    assert n_tried > (150 if IS_FULL else 5)
    web.restore(found)
    assert web.snapshot().values == found.values


def test_directives_that_older_modules_lack_are_tuned_here(web: Any) -> None:
    states = web.states()
    assert [states[name].lock_reason for name in ("H2MaxDataFrameLen", "H2OutputBuffering")] == ["", ""]


def test_doctor_and_the_endpoint_say_where_it_is(web: Any) -> None:
    endpoint = web.endpoint()
    assert (endpoint.protocol, endpoint.host) == ("http", "127.0.0.1")
    assert http_get(endpoint.options["url"], timeout_s=10.0) == (200, "It works.\n")
    lines = {name: text for name, _, text in web.doctor()}
    assert "pid=" in lines["program"]
