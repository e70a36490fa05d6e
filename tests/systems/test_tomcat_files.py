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


NIO = "org.apache.coyote.http11.Http11NioProtocol"


@pytest.mark.parametrize(
    ("connectors", "changed"),
    [
        ('<Connector port="8080" protocol="{nio}"/>', 0),
        ('<Connector protocol="AJP/1.3" port="8009"/><Connector port="8080"/>', 1),
        ('<Connector port="8080" protocol="HTTP/1.1"/><Connector port="8443" protocol="{nio}" SSLEnabled="true"/>', 0),
    ],
    ids=["by its class", "without a protocol", "beside one for TLS"],
)
def test_a_connector_is_known_by_all_that_tomcat_takes_for_http(
    made: Callable[..., Any], tmp_path: Path, connectors: str, changed: int
) -> None:
    """Many files name the class. Such a connector was none: all of its settings were locked."""
    app, server = made(), tmp_path / "server.xml"
    text = f"<Server><Service>{connectors.format(nio=NIO)}</Service></Server>\n"
    server.write_text(text)
    state, channel = app.states()["maxThreads"], app._places["maxThreads"].channel
    assert (state.running, state.lock_reason) == (200, "")
    written = channel.changed(channel.read(), app._files.texts_for(channel, Config({"maxThreads": 64})))
    ends = text.split("/>")
    ends[changed] += ' maxThreads="64"'
    assert written.content.decode() == "/>".join(ends)


AJP = '<Connector port="8009" protocol="AJP/1.3"/>'
VIRTUAL = '<Executor name="v" className="org.apache.catalina.core.StandardVirtualThreadExecutor"/>'


@pytest.mark.parametrize(
    ("text", "open_ones"),
    [
        ('<Connector port="8080" useVirtualThreads="true"/>', set()),
        ('<Connector port="8080" useVirtualThreads="false"/>', {"maxThreads", "minSpareThreads"}),
        (f'{VIRTUAL}<Connector port="8080" executor="v"/>', set()),
        ('<Executor name="p"/><Connector port="8080" executor="p"/>', {"executorMaxThreads"}),
        (f'{AJP}<Connector port="8080" useVirtualThreads="false"/>', {"maxThreads", "minSpareThreads"}),
        (f'{AJP}<Connector port="8080" useVirtualThreads="true"/>', set()),
        (f'<Connector port="8443" protocol="{NIO}"/><Connector protocol="HTTP/1.1" useVirtualThreads="true"/>', set()),
    ],
)
def test_virtual_threads_have_no_number(
    made: Callable[..., Any], tmp_path: Path, text: str, open_ones: set[str]
) -> None:
    """A search over it measured noise, and the budget counted threads that are not there."""
    app = made()
    (tmp_path / "server.xml").write_text(f"<Server><Service>{text}</Service></Server>\n")
    states = app.states()
    asked = ("maxThreads", "minSpareThreads", "executorMaxThreads")
    assert {name for name in asked if not states[name].lock_reason} == open_ones
    consumers = {"threads": "maxThreads", "executor": "executorMaxThreads"}
    use = app.memory(Context("w", clients=4)).use({})
    assert {name for name, knob in consumers.items() if name in use} == {
        name for name, knob in consumers.items() if knob in open_ones
    }
