"""The example of a cluster: three PostgreSQL servers behind HAProxy are tuned together, each by a client of its own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.commands import start_trimtab
from tests.serve.asking import TOKEN
from tests.serve.test_server import Serving
from tests.servers import free_port
from tests.servers.postgresql import Server as PostgreSQL
from tests.servers.postgresql import started
from trimtab.client import Server

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.needs("postgresql-embedded")]

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster"
QUERY = "SELECT pg_sleep(0.01 + 0.1 / ln(setting::float)) FROM pg_settings WHERE name = 'work_mem'"


@contextmanager
def balanced(folder: Path, servers: list[PostgreSQL]) -> Iterator[int]:
    """The example's balancer over `servers`; its port."""
    port = free_port()
    text = (EXAMPLE / "haproxy.cfg").read_text().replace("127.0.0.1:6432", f"127.0.0.1:{port}")
    for example, server in zip((5433, 5434, 5435), servers, strict=True):
        text = text.replace(f"127.0.0.1:{example}", f"127.0.0.1:{server.port}")
    (folder / "haproxy.cfg").write_text(text)
    program = shutil.which("haproxy") or "/usr/sbin/haproxy"
    process = subprocess.Popen([program, "-db", "-f", "haproxy.cfg"], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


@contextmanager
def users(port: int, n: int) -> Iterator[None]:
    """People who ask through the balancer until the block ends, and come back when it sends them away."""
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            try:
                with psycopg.connect(
                    host="127.0.0.1", port=port, user="postgres", dbname="app", autocommit=True
                ) as mine:
                    while not is_over.is_set():
                        mine.execute(QUERY)
            except psycopg.OperationalError:
                is_over.wait(0.05)  # the balancer has not started, or has not seen the server yet

    threads = [threading.Thread(target=ask) for _ in range(n)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def clients(api: Server) -> list[Any]:
    """Those of the session, once there is one."""
    if not api.request("GET", "/sessions")["sessions"]:
        return []
    return list(api.request("GET", "/sessions/cluster")["clients"])


@pytest.mark.needs("haproxy")
def test_three_servers_behind_a_balancer_are_tuned_together(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    with ExitStack() as stack:
        stack.callback(serving.end)
        servers = [
            stack.enter_context(started(hba="host all all 127.0.0.1/32 trust\nlocal all all trust\n")) for _ in range(3)
        ]
        for server in servers:
            with server.admin() as admin:
                admin.execute("CREATE DATABASE app")
        port = stack.enter_context(balanced(tmp_path, servers))
        members = [
            start_trimtab(
                [f"db{i}", f"host=127.0.0.1 port={server.port} user=postgres dbname=app",
                 "--budget", "5 trials", "--window", "0", "--least", "10", "--no-proof"],
                script=EXAMPLE / "member.py", env={**os.environ, **serving.env}, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for i, server in enumerate(servers)
        ]  # fmt: skip
        api = stack.enter_context(Server(serving.url, TOKEN))
        while len(clients(api)) < 3:  # without users nobody's run ends
            assert all(member.poll() is None for member in members)
            time.sleep(0.1)
        stack.enter_context(users(port, 6))
        for member in members:
            printed, said = member.communicate()
            assert (member.returncode, said) == (0, "")
            assert "interrupted: Best(config=" in printed, "no proof was asked for"
        assert not any("work_mem" in server.auto_conf.read_text() for server in servers), (
            "each has its own values again"
        )
        seen = clients(api)
        rows = api.request("GET", f"/studies/{api.request('GET', '/sessions/cluster')['study_id']}")["rows"]
    assert sorted(client["name"] for client in seen) == ["db0", "db1", "db2"]
    assert sum(client["speed"] is not None and client["n_reports"] > 1 for client in seen) >= 2
    assert {row["status"] for row in rows} == {"ok"}
    assert len({str(row["changed"]) for row in rows if row["role"] == "search"}) > 1, "each tries another point"


def test_a_role_with_values_of_its_own_is_told_and_the_server_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("member", EXAMPLE / "member.py")
    assert spec is not None
    assert spec.loader is not None
    member = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(member)
    monkeypatch.setattr(member, "RELOAD_S", 0.3)
    config = {"work_mem": 8192, "random_page_cost": 1.5, "jit_above_cost": 5000}
    with started(hba="host all all 127.0.0.1/32 trust\nlocal all all trust\n") as server:
        dsn = f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres"
        member.set_values(dsn, config)
        assert "work_mem" in server.auto_conf.read_text()
        with server.admin() as admin:
            admin.execute("ALTER ROLE postgres SET work_mem = '1MB'")
        with pytest.raises(member.OverriddenError, match=r"has values of its own, .*: work_mem=1024$"):
            member.set_values(dsn, config)
        assert "work_mem" not in server.auto_conf.read_text()
