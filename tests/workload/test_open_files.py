"""The limit of open files: raised for many users where it may be, and told where it may not."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.servers.run import free_port
from trimtab._native import Operation, Stream
from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.engine_run import allow_files
from trimtab.workload.sql_run import start_sql_load


@pytest.fixture(autouse=True)
def as_found() -> Iterator[tuple[int, int]]:
    found = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield found
    resource.setrlimit(resource.RLIMIT_NOFILE, found)


def test_the_soft_limit_is_raised_as_far_as_needed(as_found: tuple[int, int]) -> None:
    hard = as_found[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    allow_files(16)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 300
    allow_files(1000)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1256, hard)


def test_a_hard_limit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 4096))
    with pytest.raises(LoadError, match="users=5000 need 5256 open files, and this process may have 4096") as caught:
        allow_files(5000)
    assert "ulimit -Hn" in str(caught.value.hint)


def test_what_is_only_wished_for_is_raised_as_far_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [(300, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda which, wanted: limits.append(wanted))
    allow_files(100, wished=1000)
    allow_files(100, wished=16_000)
    assert limits[1:] == [(1256, 4096), (4096, 4096)]


def test_streams_of_sql_have_the_files_that_they_need(as_found: tuple[int, int]) -> None:
    """Before they connect, so that no server is needed."""
    hard = as_found[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    nowhere = Endpoint(protocol="postgresql", host="127.0.0.1", port=free_port(), user="u", database="d", password="p")
    streams = [Stream([Operation("q", ["SELECT 1"])])] * 400
    with pytest.raises(LoadError, match="the load cannot connect"):
        start_sql_load(nowhere, streams, duration_s=1.0, operation_timeout_s=1.0)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (656, hard)


_ALONE = """
import os, resource, socket
import trimtab._native
from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload import engine_run

listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
plan = engine_run.LoadPlan(
    protocol="http", access={"host": "127.0.0.1", "port": port, "headers": []},
    source={"kind": "pages", "pages": [{"label": "p", "path": "/", "headers": []}]},
    model={"kind": "closed"}, users=1, duration_s=1.0, operation_timeout_s=1.0,
)
endpoint = Endpoint(protocol="http", host="127.0.0.1", port=port, user="", database="")
engine_run.allow_files = lambda *args, **options: None  # others take files after it has looked
used, hard = len(os.listdir("/proc/self/fd")), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
for n_free in range(20):
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + n_free, hard))
    try:
        engine_run.start_load(plan, endpoint=endpoint).stop()
        break
    except LoadError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_thread_without_file_descriptors_is_told() -> None:
    """It needs some of its own, and then one for each connection."""
    ran = subprocess.run([sys.executable, "-c", _ALONE], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    told = ran.stdout.splitlines()
    assert told[0].startswith("the load cannot start: no worker thread: Too many open files")
    assert "user 0 could not connect: " in told[-2]
    assert all("Too many open files" in line for line in told[::2])
    assert set(told[1::2]) == {"hint: raise the limit (ulimit -n, or LimitNOFILE of the service), or take fewer users"}
