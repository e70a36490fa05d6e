"""Which server is it, and is it here: tunnels, containers and foreign pid files, on real servers."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.servers import free_port
from tests.servers.postgresql import switch_to
from tests.systems.conftest import Server
from trimtab.errors import TargetError
from trimtab.host import LocalHost, peer_pid, process_name, process_numbers, process_use, works_in
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.recovery import postmaster_in, servers_in

pytestmark = pytest.mark.service


@contextmanager
def forwarder(target: tuple[str, int] | str) -> Iterator[int]:
    """A tunnel's near end: a port of this machine that leads to another server, in a process of its own."""
    port = free_port()
    script = (
        "import socket, sys, threading\n"
        "goal = sys.argv[2]\n"
        "def pump(a, b):\n"
        "    while data := a.recv(65536):\n"
        "        b.sendall(data)\n"
        "    b.shutdown(socket.SHUT_WR)\n"
        "near = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    one, _ = near.accept()\n"
        "    if goal.startswith('/'):\n"
        "        two = socket.socket(socket.AF_UNIX); two.connect(goal)\n"
        "    else:\n"
        "        two = socket.create_connection(('127.0.0.1', int(goal)))\n"
        "    for a, b in ((one, two), (two, one)):\n"
        "        threading.Thread(target=pump, args=(a, b), daemon=True).start()\n"
    )
    goal = target if isinstance(target, str) else str(target[1])
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(port), goal], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    try:
        yield port
    finally:
        child.kill()
        child.communicate()


@pytest.fixture(scope="module")
def folder(cache: Path, server: Server) -> Iterator[Path]:
    path = cache / "right"
    path.mkdir()
    os.chown(path, server.account.uid, server.account.gid)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def copy_of(server: Server, goal: Path) -> Path:
    """A copy of the server's data directory as a base backup makes it: the same system identifier."""
    with server.admin() as admin:
        admin.execute("SELECT pg_backup_start('copy', true)")
        shutil.copytree(server.data_dir, goal, ignore=shutil.ignore_patterns("postmaster.pid", "pg_wal"))
        admin.execute("SELECT pg_backup_stop()")
    shutil.copytree(server.data_dir / "pg_wal", goal / "pg_wal")
    for root, names, files in os.walk(goal):
        for name in (*names, *files):
            os.chown(f"{root}/{name}", server.account.uid, server.account.gid)
    os.chown(goal, server.account.uid, server.account.gid)
    goal.chmod(0o700)
    return goal


@contextmanager
def running(server: Server, data_dir: Path, *, unshared: bool = False, port: int = 0) -> Iterator[int]:
    """A postmaster over `data_dir`, in namespaces of its own when asked; its number on this machine."""
    options = ["-c", f"port={port or free_port()}", "-c", f"unix_socket_directories={data_dir.parent}"]
    if unshared:
        options += ["-c", "listen_addresses="]
    argv = [str(server.bin_dir / "postgres"), "-D", str(data_dir), *options]
    words = ["unshare", "--net", "--pid", "--fork", "--mount-proc"] if unshared else []
    child = subprocess.Popen(
        [*words, *switch_to(server.account), *argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + 60
    while not _is_ready(data_dir):
        assert child.poll() is None, "the server did not start"
        assert time.monotonic() < until
        time.sleep(0.05)
    (pid,) = [pid for pid in servers_in(data_dir) if works_in(pid, data_dir) and _is_top(pid)]
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGQUIT)
        child.wait(60)


def _is_ready(data_dir: Path) -> bool:
    try:
        lines = (data_dir / "postmaster.pid").read_text().splitlines()
    except OSError:
        return False
    return len(lines) > 7 and lines[7].strip() == "ready"


def _is_top(pid: int) -> bool:
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return process_name(parent) != "postgres"


def made(table: dict[str, object], state_dir: Path) -> PostgresTarget:
    return PostgresTarget.from_settings("own", table, state_dir=state_dir)


@pytest.fixture
def other(server: Server, folder: Path) -> Iterator[tuple[Path, int]]:
    """Another cluster of this machine: its data directory and its port."""
    data_dir, port = folder / "other", free_port()
    made_ = LocalHost().run(
        [str(server.bin_dir / "initdb"), "-D", str(data_dir), "-U", "postgres", "-A", "trust", "-N", "--no-locale"],
        timeout_s=120, user=server.account.uid, group=server.account.gid,
    )  # fmt: skip
    assert made_.exit_code == 0, made_.output
    with running(server, data_dir, port=port):
        yield data_dir, port
    shutil.rmtree(data_dir)


def test_a_tunnel_to_another_cluster_is_not_the_one_whose_files_lie_here(
    server: Server, state_dir: Path, other: tuple[Path, int]
) -> None:
    with forwarder(("127.0.0.1", other[1])) as port:
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        target = made({**server.table(), "url": url}, state_dir)
        with pytest.raises(TargetError, match="is not that of the server that url leads to: .*system_identifier="):
            target.open()


def test_a_copy_of_a_server_with_the_same_identifier_is_told_by_its_process(
    server: Server, state_dir: Path, folder: Path
) -> None:
    copy = copy_of(server, folder / "copy")
    with running(server, copy) as pid:
        target = made({**server.table(), "data_dir": str(copy)}, state_dir)
        with pytest.raises(TargetError, match=f"pid={pid} works there, and it is not the one that answers"):
            target.open()
    shutil.rmtree(copy)


def test_a_tunnel_to_the_same_server_is_that_server_and_it_is_here(server: Server, state_dir: Path) -> None:
    with forwarder(("127.0.0.1", server.port)) as port:
        table = {**server.table(), "url": server.url().replace(str(server.port), str(port))}
        del table["memory"]
        target = made(table, state_dir)
        target.open()
        assert target._reach.is_here
        assert target.budget_bytes == target.limits.memory_bytes
        target.close()


@pytest.mark.needs("namespaces")
def test_a_server_in_a_container_is_found_by_its_own_process(server: Server, state_dir: Path, folder: Path) -> None:
    """Its pid file says 1, or another small number; here it has a number of its own, and only its memory is its memory."""
    copy = copy_of(server, folder / "contained")
    with running(server, copy, unshared=True, port=5432) as pid:
        number = int((copy / "postmaster.pid").read_text().split()[0])
        assert number != pid
        assert process_numbers(pid)[-1] == number
        assert postmaster_in(copy) == pid
        table = {**server.table(), "data_dir": str(copy), "url": f"host={folder} user=postgres dbname=postgres "
                 f"password={server.password}", "restart": "true"}  # fmt: skip
        target = made(table, state_dir)
        target.open()
        assert target._reach.pid == pid
        assert target._reach.is_here
        own, all_of_it = process_use(pid), process_use(1)
        assert own is not None
        assert all_of_it is not None
        assert target.vitals().memory_bytes == pytest.approx(own.memory_bytes, rel=0.5)
        target.close()
    shutil.rmtree(copy)


@pytest.mark.needs("namespaces")
def test_a_server_elsewhere_behind_a_tunnel_is_not_here(server: Server, state_dir: Path, folder: Path) -> None:
    """The other machine: namespaces of its own and a forwarder inside this one's. Its processes are hidden as there."""
    with forwarder(("127.0.0.1", server.port)) as port:
        url = server.url().replace(str(server.port), str(port))
        script = (
            "import os, sys; from pathlib import Path\n"
            "from trimtab.systems.postgresql import PostgresTarget\n"
            "from trimtab.errors import TargetError\n"
            "t = PostgresTarget.from_settings('t', {'kind': 'postgresql', 'url': sys.argv[1]}, state_dir=Path(sys.argv[2]))\n"
            "t.open()\n"
            "print(t._reach.is_here)\n"
            "try:\n    t.budget_bytes\nexcept TargetError as error:\n    print(error.message)\n"
        )
        done = subprocess.run(
            ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", script, url, str(state_dir)],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
    assert done.stdout.splitlines() == [
        "False",
        "the server at host=127.0.0.1 does not show as a process of this machine: its memory and cores are not known here",
    ]


@pytest.mark.parametrize("number", [1, "self"])
def test_a_pid_that_is_not_this_servers_is_not_believed(
    server: Server, state_dir: Path, folder: Path, number: int | str
) -> None:
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    (empty / "postmaster.pid").write_text(f"{os.getpid() if number == 'self' else number}\n{empty}\n")
    target = made({**server.table(), "data_dir": str(empty)}, state_dir)
    assert target._reach.pid is None
    (empty / "postmaster.pid").write_text("no number\n")
    assert target._reach.pid is None


def test_the_peer_of_a_connection_is_found_over_tcp_and_a_unix_socket(tmp_path: Path) -> None:
    for family, address in (
        (socket.AF_INET, ("127.0.0.1", 0)),
        (socket.AF_INET6, ("::1", 0)),
        (socket.AF_UNIX, str(tmp_path / "s")),
    ):
        with socket.socket(family) as near:
            try:
                near.bind(address)
            except OSError:
                assert family == socket.AF_INET6, "no IPv6 here"
                continue
            near.listen()
            held: list[socket.socket] = []
            taker = threading.Thread(target=lambda near=near, held=held: held.append(near.accept()[0]))
            taker.start()
            with socket.socket(family) as far:
                far.connect(near.getsockname())
                taker.join()
                assert peer_pid(far) == os.getpid()
            held[0].close()
