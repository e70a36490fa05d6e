"""Rows of the matrix on a real MariaDB: D, C and S; what makes no sense there stands in README.md."""

from __future__ import annotations

import copy
import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import pytest

from tests.faults.mariadb_place import KNOBS, MariaPlace, check_invariants, copy_server, make_template, take_picture
from tests.faults.place import CANARY, processes_of
from tests.faults.rooms import Bench, killed, open_bench, stopped, undone
from tests.needs import IS_FULL, require
from trimtab.errors import ApplyError, TargetError
from trimtab.records import Fault, Status
from trimtab.space import Config, Value
from trimtab.systems.mysql import MysqlTarget
from trimtab.systems.mysql.catalogue import curated_for
from trimtab.systems.mysql.process import Daemon
from trimtab.systems.mysql.rescue import LEFTOVER
from trimtab.systems.mysql.undo import Undo
from trimtab.trial import MeasurePlan

pytestmark = [pytest.mark.service, pytest.mark.slow]

CHANGES: dict[str, Value] = {"sort_buffer_size": 4 << 20, "thread_stack": 1 << 20}
LONG = pytest.mark.full


@pytest.fixture(scope="module")
def template() -> Path:
    require("mariadb")
    return make_template()


@pytest.fixture
def make_maria(root_folder: Path, template: Path) -> Iterator[Callable[[bool], MariaPlace]]:
    made: list[MariaPlace] = []

    def make(is_embedded: bool) -> MariaPlace:
        folder = root_folder / secrets.token_hex(3)
        (folder / "cache").mkdir(mode=0o755, parents=True)
        folder.chmod(0o755)
        home = folder / "cache" / "mysql" / "mariadb-db" if is_embedded else folder / "server"
        canary = CANARY + secrets.token_hex(6)
        server = copy_server(template, home, canary, is_embedded=is_embedded)
        place = MariaPlace(folder, server, canary)  # type: ignore[arg-type]
        made.append(place)
        return place

    yield make
    for place in made:
        for child in place.children:
            if child.poll() is None:
                child.kill()
                child.communicate()
        for pid, _ in processes_of(place):
            os.kill(pid, signal.SIGKILL)
        place.server.destroy()
        shutil.rmtree(place.folder, ignore_errors=True)


@pytest.fixture
def maria(make_maria: Callable[[bool], MariaPlace]) -> MariaPlace:
    """An embedded server."""
    return make_maria(True)


@pytest.fixture
def own_maria(make_maria: Callable[[bool], MariaPlace]) -> MariaPlace:
    """A running server of somebody else's, with an option file of ours and a restart command."""
    return make_maria(False)


@contextmanager
def gate_lifted(*names: str) -> Iterator[None]:
    """No check stands between a config and the server, and `names` are knobs like all others."""
    with (
        mock.patch("trimtab.systems.catalogued.check_config"),
        mock.patch("trimtab.systems.system.check_config"),
        mock.patch("trimtab.systems.mysql.target.curated_for", lambda f: {**curated_for(f), **dict.fromkeys(names)}),
    ):
        yield


def target_of(bench: Bench) -> MysqlTarget:
    assert isinstance(bench.stage.stack.tiers[0].target, MysqlTarget)
    return bench.stage.stack.tiers[0].target


def kill(place: MariaPlace, number: int = signal.SIGKILL) -> None:
    pid = place.server.pid
    assert pid is not None
    os.kill(pid, number)


# --- D: the server ---

FATAL: tuple[dict[str, Value], ...] = (
    {"thread_stack": 1 << 46},
    {"tmpdir": "/no/such/folder"},
    {"innodb_flush_method": "bogus"},
    {"innodb_page_size": 8192},
    {"innodb_buffer_pool_size": 1 << 49, "thread_stack": 1 << 20},
    {"sort_buffer_size": "many"},
    {"no_such_variable": 1, "thread_stack": 1 << 20},
    {"innodb_data_file_path": "ibdata1:1G"},
    {"character_set_server": "bogus"},
)


def test_D1_mariadb_a_config_that_keeps_it_from_starting_is_rescued(maria: MariaPlace) -> None:
    before = take_picture(maria.server)
    names = {name for config in FATAL for name in config}
    slowest = 0.0
    with gate_lifted(*names), open_bench(maria) as bench:
        for config in FATAL if IS_FULL else FATAL[:4]:
            started = time.monotonic()
            with pytest.raises(ApplyError) as caught:
                target_of(bench).apply(Config(config))
            assert caught.value.message
            target_of(bench).health()
            slowest = max(slowest, time.monotonic() - started)
            evidence = target_of(bench).evidence()
            first = evidence.symptoms[0] if evidence.symptoms else None
            assert first is None or first.fault is Fault.CONFIG or first.is_own_demand, (config, evidence)
    assert slowest < 120
    check_invariants(maria, before)


def test_D1_mariadb_a_redo_log_that_could_not_be_made_is_taken_away(maria: MariaPlace) -> None:
    """As after `innodb_log_file_size=2T`: a new redo log fills the disk, and with it no server would start."""
    before = take_picture(maria.server)
    leftover = maria.server.data_dir / LEFTOVER
    with open_bench(maria) as bench:
        snapshot = bench.snapshot
        kill(maria)
        while maria.server.pid is not None:
            time.sleep(0.01)
        leftover.write_bytes(b"\0" * 4096)
        starts: list[bool] = []
        spawn = Daemon._spawn
        with mock.patch.object(
            Daemon, "_spawn", lambda self, *args: (starts.append(leftover.exists()), spawn(self, *args))[1]
        ):
            target_of(bench).restore(snapshot)
        assert starts == [False], "it was there when the server started"
    check_invariants(maria, before)


@pytest.mark.full  # test_server_values.py: on PostgreSQL
def test_R1_mariadb_a_redo_log_too_large_for_the_disk_is_refused_before_it_is_written(maria: MariaPlace) -> None:
    before = take_picture(maria.server)
    with open_bench(maria) as bench:
        with pytest.raises(ApplyError, match=r"innodb_log_file_size=\d+ may take disk=.* under .*, where free="):
            target_of(bench).preflight(Config({"innodb_log_file_size": 1 << 38}))
        assert not (maria.server.data_dir / LEFTOVER).exists()
    check_invariants(maria, before)


def test_D1_mariadb_last_resort_is_the_command_line(maria: MariaPlace, caplog: pytest.LogCaptureFixture) -> None:
    """Another file holds a value that keeps the server from starting: it is left alone, and the server serves."""
    before = take_picture(maria.server)
    other = maria.server.folder / "conf.d" / "yy-other.cnf"
    with open_bench(maria) as bench:
        snapshot = bench.snapshot
        target_of(bench).apply(Config(CHANGES))
        kill(maria)
        other.write_text("[mysqld]\nthread_stack = 70368744177664\n")
        other.chmod(0o644)
        target_of(bench).restore(snapshot)
        target_of(bench).health()
        assert maria.server.query("SELECT @@GLOBAL.thread_stack") == [(int(before.settings["thread_stack"]),)]
        assert other.exists()
        other.unlink()
    assert any("it runs with the values as found on its command line" in record.message for record in caplog.records)
    check_invariants(maria, before)


def test_C5_mariadb_a_server_that_was_stopped_is_not_started_into_files_that_others_changed(maria: MariaPlace) -> None:
    before = take_picture(maria.server)
    other = maria.server.folder / "conf.d" / "yy-other.cnf"
    with open_bench(maria) as bench:
        target_of(bench).apply(Config(CHANGES))
        kill(maria, signal.SIGTERM)
        while maria.server.pid is not None:
            time.sleep(0.01)
        other.write_text("[mysqld]\nthread_stack = 70368744177664\n")
        other.chmod(0o644)
        done = target_of(bench).restore(bench.snapshot)
        assert maria.server.pid is None
        assert any(
            "the server is down, and its option files were changed by somebody else" in text for text in done.left
        )
        assert not maria.server.include_file.exists(), "our own file is taken back all the same"
        other.unlink()
        target_of(bench).restore(bench.snapshot)
        target_of(bench).health()
    check_invariants(maria, before)


def test_D2_mariadb_nobody_can_log_in(own_maria: MariaPlace) -> None:
    """With fewer connections than are in use already, not even a check of health gets one."""
    own_maria.write(knobs=("max_connections",), target='unlock = ["semantics"]')
    before = take_picture(own_maria.server)
    users = []
    with open_bench(own_maria) as bench, mock.patch.object(Undo, "FULL_S", 0.5):
        for _ in range(12):
            users.append(own_maria.server.admin())
        with gate_lifted(), pytest.raises(ApplyError, match="all connections of the server are in use"):
            target_of(bench).apply(Config({"max_connections": 10}))
        target_of(bench).health()
    for session in users:
        session.close()
    check_invariants(own_maria, before)


@pytest.mark.full  # test_server_killed.py: on PostgreSQL; D8 here: a trial that is made again
def test_D3_mariadb_one_kill_is_forgotten_and_the_trial_made_again(maria: MariaPlace) -> None:
    before = take_picture(maria.server)
    with open_bench(maria) as bench:
        bench.on_second = lambda: killed(maria.server.pid, signal.SIGKILL)
        trial = bench.run(**CHANGES)
    assert (trial.status, trial.fault) == (Status.OK, Fault.NONE), (trial.reason, bench.said)
    assert any("ended by signal 9, sent by somebody else" in said for said in bench.said), bench.said
    check_invariants(maria, before)


@pytest.mark.full  # test_server_killed.py: on PostgreSQL
def test_D3_mariadb_a_crash_by_itself_is_the_configs_fault_at_once(maria: MariaPlace) -> None:
    before = take_picture(maria.server)
    with open_bench(maria) as bench:
        bench.on_second = lambda: killed(maria.server.pid, signal.SIGSEGV)
        trial = bench.run(**CHANGES)
    assert (trial.status, trial.fault) == (Status.CRASHED, Fault.CONFIG), (trial.reason, bench.said)
    assert "got signal 11" in trial.reason
    assert bench.n_loads == 1
    check_invariants(maria, before)


@pytest.mark.full  # test_server_start.py: on PostgreSQL
def test_D4_mariadb_crash_loop_is_ended_by_one_rollback(maria: MariaPlace) -> None:
    require("c-compiler")
    compiler = shutil.which("cc") or "gcc"
    before = take_picture(maria.server)
    source = maria.folder / "crash.c"
    source.write_text("#include <signal.h>\n__attribute__((constructor)) static void c(void) { raise(SIGSEGV); }\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", maria.folder / "crash.so", source], check=True)
    (maria.folder / "crash.so").chmod(0o755)
    starts: list[int] = []
    spawn = Daemon._spawn
    with gate_lifted("plugin_dir", "thread_stack"), open_bench(maria) as bench:
        config = Config({"plugin_dir": str(maria.folder), "thread_stack": "262144\nplugin_load_add = crash.so"})
        with (
            mock.patch.object(Daemon, "_spawn", lambda self, *args: (starts.append(1), spawn(self, *args))[1]),
            pytest.raises(ApplyError) as caught,
        ):
            target_of(bench).apply(config)
        evidence = target_of(bench).evidence()
        target_of(bench).health()
    assert len(starts) == 2, "one start with the config and one without"
    assert "signal 11" in caught.value.log_excerpt + evidence.symptoms[0].text
    assert evidence.symptoms[0].fault is Fault.CONFIG
    check_invariants(maria, before)


@pytest.mark.full  # test_server_killed.py: on PostgreSQL
def test_D5_mariadb_kill_by_the_memory_limit_is_the_configs_demand(maria: MariaPlace) -> None:
    require("memory-cgroup")
    maria.write(target='memory_limit = "300MiB"')
    before = take_picture(maria.server)

    def eat() -> None:
        try:
            with maria.server.admin() as session:
                session.rows("SET SESSION max_heap_table_size = 4294967296")
                session.rows(
                    "CREATE TEMPORARY TABLE test.big ENGINE=MEMORY AS SELECT seq, REPEAT('x', 500) FROM seq_1_to_900000"
                )
        except TargetError as error:
            print(f"D5: {error}")

    def hungry() -> None:
        threading.Thread(target=eat, daemon=True).start()

    with open_bench(maria) as bench:
        bench.on_second = hungry
        plan = MeasurePlan(window_s=4, window_max_s=4, warmup_floor_s=0, warmup_cap_s=0)
        trial = bench.run(plan=plan, **CHANGES)
    assert (trial.status, trial.fault) == (Status.CRASHED, Fault.RESOURCE), (trial.reason, bench.said)
    assert "at its memory limit (cgroup)" in trial.reason
    check_invariants(maria, before)


@pytest.mark.full  # test_server_start.py: on PostgreSQL
def test_D7_mariadb_zombie_and_a_stale_pid_file(maria: MariaPlace) -> None:
    server = maria.server
    before = take_picture(server)
    with open_bench(maria) as bench:
        daemon = target_of(bench)._reach._server  # type: ignore[attr-defined]
        assert daemon._child is not None
        daemon._child.send_signal(signal.SIGKILL)  # and nobody reaps it, as in a container without an init
        threading.Timer(0.5, daemon._child.wait).start()
        again = copy.copy(daemon)
        again._child = None  # as another Trimtab would see it
        until = time.monotonic() + 60
        while again.pid is not None and time.monotonic() < until:
            time.sleep(0.01)
        stranger = subprocess.Popen(["sleep", "60"])
        try:
            daemon._pid_file.write_text(f"{stranger.pid}\n")
            assert again.pid is None, "a stranger was taken for the server"
            target_of(bench).restore(bench.snapshot)
            target_of(bench).health()
            assert stranger.poll() is None, "the stranger was harmed"
        finally:
            stranger.kill()
            stranger.wait()
    check_invariants(maria, before)


@pytest.mark.parametrize("is_own", [False, pytest.param(True, marks=LONG)])
def test_D8_mariadb_a_server_that_hangs_is_brought_back_without_sql(
    make_maria: Callable[[bool], MariaPlace], is_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.systems.mysql.session.CONNECT_TIMEOUT_S", 2)
    monkeypatch.setattr("trimtab.systems.mysql.session._ANSWER_S", 3)
    place = make_maria(not is_own)
    before = take_picture(place.server)
    with open_bench(place) as bench:
        bench.on_second = lambda: kill(place, signal.SIGSTOP)
        trial = bench.run(**CHANGES)
    assert (trial.status, trial.fault) == (Status.OK, Fault.NONE), (trial.reason, bench.said)
    assert any("its process was stopped (SIGSTOP)" in said for said in bench.said), bench.said
    check_invariants(place, before)


@pytest.mark.full  # test_server_foreign.py: on PostgreSQL
def test_D9_mariadb_a_restart_by_somebody_else_makes_the_trial_invalid(own_maria: MariaPlace) -> None:
    before = take_picture(own_maria.server)
    with open_bench(own_maria) as bench:
        bench.on_second = lambda: own_maria.server.control("restart")
        trial = bench.run(**CHANGES)
    assert (trial.status, trial.fault) == (Status.OK, Fault.NONE), (trial.reason, bench.said)
    assert bench.n_loads >= 2, "it was made once more"
    assert any(said.startswith("trial 0: environment fault: ") for said in bench.said), bench.said
    check_invariants(own_maria, before)


@pytest.mark.full  # test_server_foreign.py: on PostgreSQL
def test_D10_mariadb_a_node_that_becomes_read_only_is_left_alone(own_maria: MariaPlace) -> None:
    before = take_picture(own_maria.server)

    def script(bench: Bench) -> None:
        bench.on_second = lambda: own_maria.server.query("SET GLOBAL read_only = 1")
        bench.run(**CHANGES)

    error = stopped(own_maria, script)
    assert "the server's role has changed (failover): it is read-only now" in error.message
    assert "not touched, because it is not known to be the server that was tuned" in error.message
    assert "thread_stack" in own_maria.server.include_file.read_text(), "not even our own change is taken back there"
    own_maria.server.query("SET GLOBAL read_only = 0")  # it takes writes again: now `recover` finishes the undo
    undone(own_maria)
    assert not own_maria.server.include_file.exists()
    check_invariants(own_maria, before)


@pytest.mark.full  # test_server_start.py: on PostgreSQL
def test_D12_mariadb_open_transaction_does_not_hold_a_restart_up(maria: MariaPlace) -> None:
    before = take_picture(maria.server)
    with open_bench(maria) as bench:
        with maria.server.admin() as session:
            session.rows("SET autocommit = 0")
            session.rows("INSERT INTO test.sink VALUES (1)")
            assert target_of(bench).apply(Config(CHANGES)).restarted
        target_of(bench).restore(bench.snapshot)
    check_invariants(maria, before)


@pytest.mark.full  # test_server_start.py: on PostgreSQL
@pytest.mark.parametrize("consent", [False, True])
def test_D12_mariadb_immediate_stop_only_with_consent(maria: MariaPlace, consent: bool) -> None:
    maria.write(target=f"immediate_stop = {str(consent).lower()}")
    before = take_picture(maria.server)
    with open_bench(maria) as bench:
        with mock.patch.object(Daemon, "STOP_S", 0.0):  # whatever it does, it takes longer
            if consent:
                assert target_of(bench).apply(Config(CHANGES)).restarted
            else:
                with pytest.raises(TargetError, match="does not stop within timeout_s=0: pid=") as caught:
                    target_of(bench)._reach.restart()
                assert "immediate_stop = true" in str(caught.value.hint)
        target_of(bench).restore(bench.snapshot)
    check_invariants(maria, before)


def test_D14_mariadb_what_it_clamps_silently_is_recorded(maria: MariaPlace) -> None:
    asked: dict[str, Value] = {
        "max_connections": 1,
        "thread_stack": 1024,
        "open_files_limit": 4_000_000_000,
        "table_open_cache": 1_000_000_000,
        "innodb_io_capacity": 1 << 64,
        "innodb_io_capacity_max": 1 << 64,
        "sort_buffer_size": 1000,
    }
    before = take_picture(maria.server)
    with gate_lifted("open_files_limit"), open_bench(maria) as bench:
        shown = {}
        for name, value in asked.items():
            with suppress(ApplyError):  # refused, or kept as it was: told in any case
                shown[name] = target_of(bench).apply(Config({name: value})).effective[name]
            if name not in shown:
                continue
            assert shown[name] == target_of(bench).states()[name].running
            assert shown[name] != value
        target_of(bench).restore(bench.snapshot)
    print(f"\nD14: asked {asked}, effective {shown}")
    assert {"max_connections", "thread_stack", "table_open_cache"} <= set(shown)
    check_invariants(maria, before)


@pytest.mark.full  # test_server_values.py: on PostgreSQL
def test_D15_mariadb_what_waits_for_a_restart_is_never_brought_into_force(own_maria: MariaPlace) -> None:
    other = own_maria.server.folder / "conf.d" / "aa-other.cnf"
    other.write_text("[mysqld]\nback_log = 77\n")
    other.chmod(0o644)
    before = take_picture(own_maria.server)
    ran = own_maria.run("bench", "study.toml", "--runs", "1")
    check_invariants(own_maria, before, ran=ran, code=3, cause="wait for a restart: back_log")
    own_maria.write(target="allow_restart = false", knobs=KNOBS[:2])
    with open_bench(own_maria) as bench:
        assert bench.snapshot is not None
    other.unlink()
    own_maria.write()
    own_maria.server.query("SET GLOBAL expire_logs_days = 3")
    before = take_picture(own_maria.server)
    ran = own_maria.run("bench", "study.toml", "--runs", "1")
    check_invariants(own_maria, before, ran=ran, code=3, cause="are in no file: expire_logs_days")
