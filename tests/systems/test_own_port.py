"""A port that another program takes while a server is restarted: it answers the health check, and is not the server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import PYTHON
from tests.servers import free_port
from tests.systems.program.conftest import cache, folder, made
from trimtab import plugins
from trimtab.errors import RestoreError
from trimtab.host import listeners
from trimtab.space import Config
from trimtab.systems.evidence import classified
from trimtab.systems.own_port import OwnPort

__all__ = ["cache", "folder"]

SERVER = """
import http.server, os, sys, time
from pathlib import Path
class Quiet(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
if len(sys.argv) > 2:
    if os.fork():
        sys.exit(0)
    os.setsid()
    Path(sys.argv[2]).write_text(f"{os.getpid()}\\n")
try:
    http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Quiet).serve_forever()
except OSError:
    while True:  # as a Tomcat that cannot have its port: it goes on without
        time.sleep(60)
"""


def serve(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Another program on the port."""
    thief = subprocess.Popen([sys.executable, str(folder / "serve.py"), str(port)])
    while thief.pid not in listeners(port):
        assert thief.poll() is None
    return thief


@pytest.fixture
def server(folder: Path) -> Iterator[tuple[Any, int]]:
    port, pid_file = free_port(), folder / "pid"
    (folder / "serve.py").write_text(SERVER)
    target = made(
        folder,
        start=f"{PYTHON} {folder}/serve.py {port} {pid_file}",
        stop="/bin/sh -c 'kill {pid}; rm " + str(pid_file) + "'",
        pid_file=str(pid_file),
        health=f"http://127.0.0.1:{port}/",
        restart_timeout_s=4,
    )
    subprocess.run([sys.executable, str(folder / "serve.py"), str(port), str(pid_file)], check=True)
    target._reach._wait_healthy(float("inf"))
    target.open()
    yield target, port
    target.close()
    os.kill(target._reach.pid, signal.SIGKILL)


@pytest.mark.slow  # in make check: the two tests below
def test_a_stranger_who_answers_on_its_port_is_not_the_server(
    server: tuple[Any, int], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, port = server
    found, thieves, wait = target.snapshot(), list[subprocess.Popen[bytes]](), target._reach._wait_gone

    def taken(deadline: float) -> None:
        wait(deadline)
        if not thieves:
            thieves.append(serve(folder, port))

    monkeypatch.setattr(target._reach, "_wait_gone", taken)
    try:
        with pytest.raises(
            RestoreError, match=rf"port={port} is taken by another program: pid=\d+ \('python"
        ) as caught:
            target.apply(Config({"threads": 2}))
        assert f"pid={thieves[0].pid}" in caught.value.message
    finally:
        for thief in thieves:
            thief.kill()
            thief.wait()
    assert target.restore(found).restarted
    target.health()


def test_an_address_where_the_server_never_listened_itself_may_be_anybodys(folder: Path) -> None:
    """Such as a proxy's in front of it."""
    with socket.socket() as proxy:
        proxy.bind(("127.0.0.1", 0))
        proxy.listen()
        port = proxy.getsockname()[1]
        assert listeners(port) == {os.getpid()}
        other = OwnPort(f"http://127.0.0.1:{port}/")
        other.learn(1)
        own = OwnPort(f"http://127.0.0.1:{port}/")
        own.learn(os.getpid())
        own.require(os.getpid())
    assert listeners(port) == frozenset()
    other.require(1)
    own.require(os.getpid())
    OwnPort("test -f running").learn(os.getpid())


TAKEN = """29-Nov-2026 10:43:43.373 SEVERE [main] org.apache.catalina.util.LifecycleBase Failed to initialize component
\torg.apache.catalina.LifecycleException: Protocol handler initialization failed
\t\tat org.apache.catalina.connector.Connector.initInternal(Connector.java:1285)
\tCaused by: java.net.BindException: Address already in use
"""
BROKEN = """29-Nov-2026 10:43:43.373 SEVERE [main] org.apache.catalina.core.ContainerBase.startInternal A child container failed
\tExecutionException: org.apache.catalina.LifecycleException: Failed to start component [StandardEngine[Catalina]]
"""


HTTPD = """(98)Address already in use: AH00072: make_sock: could not bind to address 127.0.0.1:17010
no listening sockets available, shutting down
AH00015: Unable to open logs
"""
REDIS = """8967:M 30 Nov 2026 12:55:27.428 # Warning: Could not create server TCP listening socket 127.0.0.1:1: bind: Address \
already in use
8967:M 30 Nov 2026 12:55:27.428 # Failed listening on port 1 (TCP), aborting.
"""
DAMAGED = """8973:M 30 Nov 2026 12:55:27.462 # Short read or OOM loading DB. Unrecoverable error, aborting now.
8973:M 30 Nov 2026 12:55:27.462 # Internal error in RDB reading offset 0, function at rdb.c:3249 -> Unexpected EOF
"""
FORK = "8973:M 30 Nov 2026 12:55:27.462 # Can't save in background: fork: Cannot allocate memory"
MONGOD = (
    '{"t":{"$date":"2026-11-30T12:59:52.345+00:00"},"s":"E",  "c":"CONTROL",  "id":20568,   "ctx":"initandlisten",'
    '"msg":"Error setting up listener","attr":{"error":{"code":9001,"codeName":"SocketException",'
    '"errmsg":"Address already in use"}}}'
)
LOCKED = MONGOD.replace("Address already in use", "DBPathInUse: Unable to lock the lock file: /data/mongod.lock")


@pytest.mark.parametrize(
    ("kind", "log", "faults"),
    [
        ("tomcat", TAKEN, {"environment"}),
        ("tomcat", BROKEN, {"config"}),
        ("httpd", HTTPD, {"environment"}),
        ("redis", REDIS, {"environment"}),
        ("redis", DAMAGED, {"environment"}),
        ("redis", FORK, {"resource"}),
        ("mongodb", MONGOD, {"environment"}),
        ("mongodb", LOCKED, {"environment"}),
    ],
)
def test_a_servers_words_for_what_stands_in_its_way_blame_no_config(
    kind: str, log: str, faults: set[str], tmp_path: Path
) -> None:
    """Of real servers, but for mongod's, which are as its sources write them."""
    target: Any = plugins.load("targets", kind).from_settings("x", {"kind": kind}, state_dir=tmp_path)
    found = classified(log, target.catalog.log)
    assert len(found) == len(log.splitlines()) or kind == "tomcat"
    assert {symptom.fault for symptom in found} == faults


@pytest.mark.parametrize("kind", ["httpd", "mongodb", "redis", "tomcat"])
def test_the_log_of_a_package_is_not_that_of_a_program_that_trimtab_runs(kind: str, tmp_path: Path) -> None:
    def log_of(**table: str) -> Path:
        target: Any = plugins.load("targets", kind).from_settings("x", {"kind": kind, **table}, state_dir=tmp_path)
        log: Path = target._reach.log_file
        return log

    assert str(log_of()).startswith("/var/log/")
    assert log_of(restart="service x restart", pid_file="/run/x.pid") == log_of(), "another way to the same server"
    assert log_of(run="server --here").name == "program.log"
    assert log_of(run="server --here", log_file="/var/log/mine") == Path("/var/log/mine")
