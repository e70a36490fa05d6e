"""Rows D4, D6, D7, D11, D12: the server comes up late, not at all, or does not go down."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from unittest import mock

import psutil
import pytest

from tests.faults.bad_settings import gate_lifted
from tests.faults.invariants import check_invariants, take_picture
from tests.faults.place import Place
from tests.faults.rooms import open_bench
from tests.faults.server import Server
from tests.needs import require
from trimtab.errors import ApplyError, TargetError
from trimtab.host import LocalHost
from trimtab.space import Config
from trimtab.systems.postgresql.process import Postmaster
from trimtab.systems.postgresql.recovery import Recovery

pytestmark = pytest.mark.service

_SEGFAULT = """
#include <signal.h>
#include <unistd.h>
__attribute__((constructor)) static void crash(void) { raise(SIGSEGV); }
"""


def postmaster(server: Server) -> Postmaster:
    return Postmaster(server.bin_dir, server.data_dir, server.account, server.folder / "server.log")


@pytest.fixture
def library(place_18: Place) -> str:
    """A library that crashes whoever loads it; the server's user can read it."""
    require("c-compiler")
    compiler = shutil.which("cc") or "gcc"
    source = place_18.folder / "crash.c"
    source.write_text(_SEGFAULT)
    path = place_18.folder / "crash.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source], check=True, capture_output=True)
    path.chmod(0o755)
    return str(path)


def test_D4_crash_loop_is_ended_by_one_rollback(place_18: Place, library: str) -> None:
    before = take_picture(place_18.server)
    with open_bench(place_18) as bench, gate_lifted():
        spawned = []
        start = Postmaster._spawn
        with mock.patch.object(Postmaster, "_spawn", lambda self, *args: (spawned.append(1), start(self, *args))[1]):
            started = time.monotonic()
            with pytest.raises(ApplyError) as caught:
                bench.target.apply(Config({"session_preload_libraries": library}))
        print(f"\nD4: every session crashed; serving again after {time.monotonic() - started:.1f} s")
        assert len(spawned) <= 1, "restarted again and again"
        assert "was terminated by signal 11" in caught.value.log_excerpt + caught.value.message
    check_invariants(place_18, before, recovers=False)


def test_D6_recovery_is_awaited_longer_than_the_time_out(place_18: Place, caplog: pytest.LogCaptureFixture) -> None:
    server = place_18.server
    before = take_picture(server)
    with server.up():
        with server.admin() as connection:
            connection.execute("CREATE TABLE heap (n int, body text)")
            connection.execute("CHECKPOINT")
            for _ in range(4):
                connection.execute("INSERT INTO heap SELECT g, repeat('x', 100) FROM generate_series(1, 60000) g")
        pid = server.pid
        assert pid is not None
        os.kill(pid, signal.SIGQUIT)
        while server.pid is not None:
            time.sleep(0.01)
        started, held = postmaster(server), HeldReplay()
        with (
            mock.patch("trimtab.systems.postgresql.process.Recovery", held.recovery),
            mock.patch("trimtab.systems.progress._TELL_S", 0.5),
        ):
            started.start(2.0)
        assert held.now_s > 2.0, f"the replay was held {held.now_s:g} s"
        assert server.query("SELECT count(*) FROM heap") == [(240_000,)]
        with server.admin() as connection:
            connection.execute("DROP TABLE heap")
        started.stop(immediate=False)
        server.control("start")
    assert any("the server has been replaying its log for" in record.message for record in caplog.records)
    check_invariants(place_18, before, recovers=False)


class HeldReplay:
    """The clock of a start, which holds the process that replays the log: it goes on by `STEP_S` with each hold, and never
    otherwise. So the replay outlasts the time-out, and gets on between two holds, on the slowest machine too."""

    STEP_S = 1.5
    N_HOLDS = 3
    _N_LOOKS = 3
    _GIVE_UP_S = 60.0

    def __init__(self) -> None:
        self.now_s = 0.0
        self._replay: psutil.Process | None = None
        self._n_looks = 0

    def recovery(self, pid: int, timeout_s: float) -> Recovery:
        """In place of the class: the same, by this clock, once the postmaster `pid` has begun to replay."""
        self._wait(lambda: self._found(pid))
        self._hold()
        return Recovery(pid, timeout_s, clock=self._clock)

    def _clock(self) -> float:
        self._n_looks += 1
        if self._n_looks > self._N_LOOKS and self._replay is not None:  # it was looked at while it stood still
            with suppress(psutil.NoSuchProcess):
                mark = self._replay.cpu_times()
                self._replay.resume()
                if self.now_s < self.N_HOLDS * self.STEP_S:
                    self._wait(lambda: self._replay is None or self._replay.cpu_times() != mark)
                    self._hold()
                else:
                    self._replay = None
        return self.now_s

    def _hold(self) -> None:
        assert self._replay is not None
        self._replay.suspend()
        self.now_s += self.STEP_S
        self._n_looks = 0

    def _found(self, postmaster: int) -> bool:
        for child in psutil.Process(postmaster).children():
            with suppress(psutil.Error):
                if any("startup" in word for word in child.cmdline()):
                    self._replay = child
        return self._replay is not None

    def _wait(self, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + self._GIVE_UP_S
        while not is_so():
            assert time.monotonic() < until, "the replay did not begin, or did not get on"
            time.sleep(0.001)


def test_D7_zombie_postmaster_is_waited_out(place_18: Place) -> None:
    server = place_18.server
    before = take_picture(server)
    first = postmaster(server)
    first.start(30.0)
    assert first._child is not None
    first._child.send_signal(signal.SIGKILL)  # and nobody reaps it, as in a container without an init
    threading.Timer(1.0, first._child.wait).start()
    second = postmaster(server)
    second.start(30.0)
    second.stop(immediate=False)
    check_invariants(place_18, before, recovers=False)


def test_D7_pid_file_of_a_stranger_is_removed_only_when_no_server_works_there(place_18: Place) -> None:
    server = place_18.server
    before = take_picture(server)
    path = server.data_dir / "postmaster.pid"
    with server.up():
        lines = path.read_text().splitlines()
        server_of_its_own = postmaster(server)
        server_of_its_own._clear_remains()
        assert path.exists(), "the pid file of a live server was removed"
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        # after a restart of the container the number belongs to somebody else
        path.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
        os.chown(path, server.account.uid, server.account.gid)
        path.chmod(0o600)
        late = postmaster(server)
        with mock.patch("trimtab.systems.process._RETRY_MOST_S", 0.4):
            late.start(30.0)
        late.stop(immediate=False)
        assert stranger.poll() is None, "the stranger was harmed"
    finally:
        stranger.kill()
        stranger.wait()
    check_invariants(place_18, before, recovers=False)


def test_D11_standby_does_not_get_fewer_than_its_primary(own_place_18: Place) -> None:
    primary = own_place_18.server
    before = take_picture(primary)
    folder = own_place_18.folder / "standby"
    with primary.admin() as connection:
        hba = primary.data_dir / "pg_hba.conf"
        kept = hba.read_bytes()
        hba.write_bytes(kept + b"local replication all trust\n")
        connection.execute("SELECT pg_reload_conf()")
    folder.mkdir()
    os.chown(folder, primary.account.uid, primary.account.gid)
    made = LocalHost().run(
        [str(primary.bin_dir / "pg_basebackup"), "-h", str(primary.sockets), "-p", str(primary.port), "-U", "postgres",
         "-D", str(folder / "data"), "-R", "-X", "stream", "-c", "fast"],
        timeout_s=60, user=primary.account.uid, group=primary.account.gid,
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    hba.write_bytes(kept)
    standby = Server("18", folder, primary.bin_dir, primary.account, primary.port + 1, False, "")
    (folder / "run").mkdir()
    os.chown(folder / "run", primary.account.uid, primary.account.gid)
    with (folder / "data" / "postgresql.conf").open("a") as file:
        file.write(f"port = {standby.port}\nunix_socket_directories = '{standby.sockets}'\nlisten_addresses = ''\n")
    (folder / "data" / "postgresql.conf").chmod(0o600)
    standby.control("start")
    try:
        own_place_18.write(
            knobs=("max_connections",),
            target='unlock = ["replication"]',
            reach=f'url = "host={standby.sockets} port={standby.port} user=postgres dbname=postgres"\n'
            f'data_dir = "{standby.data_dir}"\nrestart = "{standby.restart_command}"',
        )
        ran = own_place_18.run("bench", "study.toml", "--runs", "1", "--set", "max_connections=50")
        assert ran.code in (2, 3), ran.err
        assert "a standby" in ran.err
        assert standby.query("SHOW max_connections") == [("100",)]
    finally:
        standby.control("stop")
    with primary.admin() as connection:
        connection.execute("SELECT pg_reload_conf()")
    shutil.rmtree(folder)
    own_place_18.write()
    check_invariants(own_place_18, before)


def test_D12_open_transaction_does_not_hold_a_restart_up(place_18: Place) -> None:
    before = take_picture(place_18.server)
    with open_bench(place_18) as bench:
        session = place_18.server.admin()
        session.autocommit = False
        session.execute("INSERT INTO sink (n) VALUES (1)")
        applied = bench.target.apply(Config({"shared_buffers": 3000}))
        session.close()
        assert applied.restarted
        bench.target.restore(bench.snapshot)
    check_invariants(place_18, before, recovers=False)


@pytest.mark.parametrize("consent", [False, True])
def test_D12_immediate_stop_only_with_consent(place_18: Place, consent: bool) -> None:
    place_18.write(target=f"immediate_stop = {str(consent).lower()}")
    before = take_picture(place_18.server)
    with mock.patch.object(Postmaster, "STOP_S", 1.0), open_bench(place_18) as bench:
        session = place_18.server.admin()
        (row,) = session.execute("SELECT pg_backend_pid()").fetchall()
        os.kill(int(row[0]), signal.SIGSTOP)  # a session that does not end, whatever it is asked
        try:
            if consent:
                assert bench.target.apply(Config({"shared_buffers": 3000})).restarted
            else:
                with pytest.raises(TargetError, match="does not stop within timeout_s=1: pid=") as caught:
                    bench.target.apply(Config({"shared_buffers": 3000}))
                assert "immediate_stop = true" in str(caught.value.hint)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(row[0]), signal.SIGCONT)
            session.close()
        bench.target.restore(bench.snapshot)
    check_invariants(place_18, before, recovers=False)
