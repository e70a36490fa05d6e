"""Debian's installed apache2 and tomcat10 by their own commands, on a machine without systemd: read, changed and restored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.servers import free_port, made, packaged
from trimtab import plugins
from trimtab.errors import TargetError
from trimtab.host import LocalHost
from trimtab.records import Context
from trimtab.space import Config
from trimtab.systems.http_probe import http_get

pytestmark = [pytest.mark.service, pytest.mark.slow]


@contextmanager
def running(table: dict[str, Any], state_dir: Path, name: str) -> Iterator[Any]:
    """Started by an administrator, who stops it at the end."""
    host = LocalHost()
    assert host.run(table["start"].split(), timeout_s=120).exit_code == 0
    target = plugins.load("targets", table["kind"]).from_settings(
        name, {**table, "memory": "1GiB", "knobs": "all"}, state_dir=state_dir
    )
    try:
        until_up(target)
        yield target
        target.close()
    finally:
        host.run(table["stop"].split(), timeout_s=120)


def until_up(target: Any) -> None:
    """Its start command ends before it serves."""
    target._reach._wait_healthy(float("inf"))
    target.open()


@pytest.mark.needs("apache2-debian")
def test_apache2_by_its_own_commands(state_dir: Path) -> None:
    with made("apache2") as folder, running(packaged.httpd(folder, free_port()), state_dir, "packaged") as web:
        found, states = web.snapshot(), web.states()
        assert states["KeepAliveTimeout"].running == 5
        assert states["MaxRequestWorkers"].running == 150, "a value of mods-enabled/mpm_event.conf"
        assert states["MaxRequestWorkers"].source == "default", "no file of ours names it"
        assert states["mpm"].lock_reason, "a module that other files load"
        pid = web._reach.pid
        config = Config({"KeepAliveTimeout": 20, "MaxRequestWorkers": 100})
        web.preflight(config)
        assert not web.apply(config).restarted, "apache2ctl graceful is enough"
        assert web._reach.pid == pid
        ours = folder / "apache2/conf-enabled/zz-trimtab.conf"
        assert ours.read_text() == "KeepAliveTimeout 20\nMaxRequestWorkers 100\n"
        applied = web.apply(Config({"ServerLimit": 20, "MaxRequestWorkers": 500}))
        assert applied.restarted
        assert applied.effective["MaxRequestWorkers"] == 500
        assert web._reach.pid != pid
        web.restore(found)
        assert not ours.exists()
        assert web.states()["MaxRequestWorkers"].running == 150
        assert http_get(web.endpoint().options["url"], timeout_s=10.0) == (200, "It works.\n")


@pytest.mark.needs("apache2-debian")
def test_a_value_that_is_httpds_own_default_is_used_where_another_file_has_set_it_otherwise(state_dir: Path) -> None:
    with made("apache2") as folder, running(packaged.httpd(folder, free_port()), state_dir, "packaged") as web:
        found, log = web.snapshot(), folder / "log/error.log"
        assert web._example_knob("MaxRequestWorkers").default == 400 != web.states()["MaxRequestWorkers"].running

        def n_reads() -> int:
            return log.read_text().count("resuming normal operations")

        before = n_reads()
        web.apply(Config({"MaxRequestWorkers": 400}))
        assert n_reads() == before + 1
        web.restore(found)
        assert n_reads() == before + 2


def _opened(table: dict[str, Any], state_dir: Path, **more: Any) -> Any:
    """One more target of a server that runs."""
    table = {**table, "memory": "1GiB", "knobs": "all", **more}
    return plugins.load("targets", table["kind"]).from_settings("again", table, state_dir=state_dir / "again")


@pytest.mark.needs("apache2-debian")
def test_a_prefork_httpd_is_tuned_as_one(state_dir: Path) -> None:
    """Which way to make processes a packaged server has, as mod_php needs it, other files say: the modules that are loaded."""
    with made("apache2") as folder:
        table = packaged.httpd(folder, free_port(), mpm="prefork")
        with running(table, state_dir, "packaged") as web:
            found, states = web.snapshot(), web.states()
            assert (states["mpm"].running, bool(states["mpm"].lock_reason)) == ("prefork", True)
            assert (states["ServerLimit"].running, states["MaxRequestWorkers"].running) == (256, 150)
            assert states["ServerLimit"].knob.high >= 256
            assert web.memory(Context("", clients=1)).use({})["processes"] == 150 * 6 << 20
            config = Config({"MaxSpareServers": 20, "MaxRequestWorkers": 120, "ThreadsPerChild": 30})
            web.preflight(config)
            web.apply(config)
            ours = folder / "apache2/conf-enabled/zz-trimtab.conf"
            assert ours.read_text() == "MaxRequestWorkers 120\nMaxSpareServers 20\n", "prefork refuses the third"
            web.restore(found)
            assert not ours.exists()
            unknown = _opened(table, state_dir, features="echo nothing that names a module").states()
            for name in ("ServerLimit", "MaxRequestWorkers", "StartServers", "ThreadsPerChild", "MaxSpareServers"):
                assert unknown[name].lock_reason.startswith(
                    "it depends on mpm, and the program shows none of: event"
                ), name
            assert not unknown["KeepAliveTimeout"].lock_reason


@pytest.mark.needs("apache2-debian")
def test_http2_of_sites_with_tls_is_not_switched_off(state_dir: Path) -> None:
    """Debian's http2.conf says `Protocols h2 h2c http/1.1`."""
    with made("apache2") as folder:
        table = packaged.httpd(folder, free_port(), modules=["http2"])
        with running(table, state_dir, "packaged") as web:
            assert "Protocols" not in web.selection(Context("", clients=1))
            state = _opened(table, state_dir, unlock=["semantics"]).states()["Protocols"]
            assert state.lock_reason == "its value as found, h2 h2c http/1.1, is not one that the catalogue knows"
            (folder / "apache2/mods-enabled/http2.conf").unlink()
            reason = _opened(table, state_dir).states()["Protocols"].lock_reason
            assert reason == 'safety class semantics is locked; unlock = ["semantics"] opens it'


@pytest.mark.needs("apache2-debian")
def test_what_other_files_of_httpd_say(state_dir: Path) -> None:
    """Values that no knob can have lock it alone; words count in any case; and a file that httpd has not read yet is reported:
    what `httpd -t` prints is what the files say, and the first reload of a study would bring in what waits there."""
    with made("apache2") as folder:
        table = packaged.httpd(folder, free_port(), modules=["proxy"])
        with running(table, state_dir, "packaged") as web:
            other, pid = folder / "apache2/conf-enabled/other.conf", web._reach.pid
            assert web.notes() == ()
            other.write_text("KeepAliveTimeout 500ms\nhostnamelookups double\nkeepalive off\nTimeout 90\n")
            states = web.states()
            why = "its value as found, 500ms, is not a whole number of unit=s"
            assert (states["KeepAliveTimeout"].running, states["KeepAliveTimeout"].lock_reason) == (1, why)
            assert states["HostnameLookups"].running == "Double"
            assert states["HostnameLookups"].lock_reason.startswith("safety class security is locked")
            assert states["KeepAlive"].running is False
            assert (states["Timeout"].running, states["ProxyTimeout"].running) == (90, 90), "one has the other's value"
            assert [str(other) in note for note in web.notes()] == [True]
            assert {name: (is_fine, text) for name, is_fine, text in web.doctor()}["values"] == (False, web.notes()[0])
            other.write_text("ProxyTimeout 30\n")
            web._reach.reload()
            found = web.snapshot()
            assert (found.values["ProxyTimeout"], web.notes()) == (30, ())
            web.apply(Config({"KeepAliveTimeout": 9}))
            assert (web.states()["KeepAliveTimeout"].running, web.notes()) == (9, ())
            web.restore(found)
            assert web._reach.pid == pid
            blind = _opened(table, state_dir, log_file=str(folder / "log/other.log"))
            with pytest.raises(
                TargetError, match=r"log_file='.*/other\.log' cannot be seen: the program would say there that"
            ):
                blind.open()


# The crash sweep (tests/faults/test_crash_points_tiers.py) changes and restores one in the quick form, too.
@pytest.mark.full
@pytest.mark.needs("tomcat-debian", "java")
def test_tomcat10_by_its_own_commands(state_dir: Path) -> None:
    with made("tomcat10") as folder, running(packaged.tomcat(folder, free_port()), state_dir, "packaged") as app:
        found, server = app.snapshot(), folder / "tomcat/conf/server.xml"
        before = server.read_bytes()
        assert app.states()["keepAliveTimeout"].running == 20_000, "Tomcat takes connectionTimeout, which Debian sets"
        applied = app.apply(Config({"maxThreads": 50, "MinHeapFreeRatio": 30}))
        assert applied.restarted
        assert dict(applied.effective) == {"maxThreads": 50, "MinHeapFreeRatio": 30}
        changed = server.read_text()
        assert 'maxThreads="50"' in changed
        assert changed.replace(' maxThreads="50"', "") == before.decode(), "every other byte stays, comments too"
        assert "-XX:MinHeapFreeRatio=30" in (folder / "tomcat/conf/jvm.options").read_text()
        app.restore(found)
        assert server.read_bytes() == before
        assert app.states()["MinHeapFreeRatio"].running == 40
