"""Debian's installed apache2 and tomcat10 by their own commands, on a machine without systemd: read, changed and restored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.servers import free_port, made, packaged
from trimtab import plugins
from trimtab.host import LocalHost
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
