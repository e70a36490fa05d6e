"""What the files of a Tomcat may hold that is none of ours: several connectors, hosts, pools. No Tomcat runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trimtab import plugins
from trimtab.errors import ApplyError
from trimtab.records import Context
from trimtab.space import Config

SERVER = """<Server><Service>
  {executors}
  <Connector port="8080" protocol="HTTP/1.1" maxThreads="100" acceptCount="50"/>
  <Connector port="8443" protocol="HTTP/1.1" SSLEnabled="true" maxThreads="{threads}"/>
  <Engine name="C"><Host name="a" autoDeploy="{deploy}"/><Host name="b" autoDeploy="{deploys}"/></Engine>
</Service></Server>
"""
POOL = '  <Resource name="jdbc/{name}" type="javax.sql.DataSource" maxTotal="{total}" minIdle="2"/>\n'


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Any]:
    def make(pools: str = "", **words: str) -> Any:
        server = SERVER.format(**{"executors": "", "threads": "200", "deploy": "false", "deploys": "false"} | words)
        (tmp_path / "server.xml").write_text(server)
        (tmp_path / "context.xml").write_text(f"<Context>\n{pools}</Context>\n")
        files = {name: str(tmp_path / f"{name}.xml") for name in ("server", "context")}
        table = {"kind": "tomcat", "memory": "1GiB", "knobs": "all", "files": files}
        table |= {"pid_file": str(tmp_path / "pid"), "restart": "true", "unlock": ["semantics"]}
        return plugins.load("targets", "tomcat").from_settings("app", table, state_dir=tmp_path / "state")

    return make


def test_what_several_elements_have_is_locked_and_all_else_is_tuned(made: Callable[..., Any]) -> None:
    """A second connector, for TLS, or a second pool is no fault of the file."""
    app = made(POOL.format(name="a", total=5) + POOL.format(name="b", total=7))
    states = app.states()
    for name in ("maxThreads", "maxTotal", "minIdle"):
        assert "comes 2 times" in states[name].lock_reason
        with pytest.raises(ApplyError, match=f"{name}.*comes 2 times"):
            app.preflight(Config({name: states[name].knob.default + 1}))
    assert (states["minIdle"].running, states["acceptCount"].running) == (2, 50)
    assert states["acceptCount"].lock_reason == ""
    assert {"maxThreads", "maxTotal"}.isdisjoint(app.selection(Context("w", clients=4)))
    channel, config = app._places["acceptCount"].channel, Config({"acceptCount": 500})
    changed = channel.changed(channel.read(), app._files.texts_for(channel, config))
    assert changed.content.decode() == channel.path.read_text().replace('acceptCount="50"', 'acceptCount="500"')


@pytest.mark.parametrize(("deploy", "deploys", "running"), [("false", "false", False), ("false", "true", True)])
def test_hosts_that_differ_count_as_those_of_which_the_file_says_nothing(
    made: Callable[..., Any], deploy: str, deploys: str, running: bool
) -> None:
    """A host that watches context.xml deploys all of its applications again after a change."""
    state = made(deploy=deploy, deploys=deploys).states()["autoDeploy"]
    assert state.running is running
    assert "comes 2 times" in state.lock_reason


def test_threads_of_several_executors_count_once_at_least(made: Callable[..., Any]) -> None:
    executors = '<Executor name="x" maxThreads="{}"/><Executor name="y" maxThreads="400"/>'
    for first in (400, 300):
        app = made(executors=executors.format(first))
        assert app.memory(Context("w", clients=4)).use({})["executor"] >= 200 * (256 << 10)
        assert "comes 2 times" in app.states()["executorMaxThreads"].lock_reason
    assert "executor" not in made().memory(Context("w", clients=4)).use({})
