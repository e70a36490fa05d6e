"""R1 to R5 on real servers: a candidate that fills the disk or the memory, others that do, a throttled CPU; and a standby
that falls behind."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.bench_modules import bench_modules
from tests.faults.conftest import MakePlace
from tests.faults.invariants import check_invariants, take_picture
from tests.faults.place import Place
from tests.faults.server import Server
from tests.faults.test_workload_server import AS_FOUND, searched, statement
from tests.needs import require
from tests.servers.postgresql import switch_to
from trimtab.host.limits import cgroup_folder
from trimtab.records import Fault, Role, Status

pytestmark = [pytest.mark.service, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
MIB = 1 << 20

needs_root = pytest.mark.needs("root", "mounts")


@pytest.fixture
def small_disk(make_place: MakePlace) -> Iterator[Place]:
    """An embedded server whose folder is a volume of its own of 384 MiB."""
    place = make_place("18", True)
    home = place.server.folder
    aside = home.with_name("aside")
    home.rename(aside)
    home.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=384m,mode=0700", "tmpfs", str(home)], check=True)
    subprocess.run(["cp", "-a", f"{aside}/.", str(home)], check=True)
    os.chown(home, place.server.account.uid, place.server.account.gid)
    shutil.rmtree(aside)
    yield place
    for child in place.children:
        child.kill()
        child.communicate()
    place.server.destroy()
    subprocess.run(["umount", str(home)], check=True)


REST = f"pg_sleep(CASE WHEN {AS_FOUND} THEN 0.1 ELSE 0 END)"
"""Only the candidate is busy: the runs of the baseline leave the processor to others."""


@needs_root
def test_R1_a_candidate_that_fills_the_disk_is_ended_before_it_is_full(small_disk: Place) -> None:
    # A sort that spills some 100 MB a second, all sessions together.
    rows = f"generate_series(1, CASE WHEN {AS_FOUND} THEN 10 ELSE 300000 END)"
    key = "repeat(md5(g::text), 100) || CASE WHEN g % 16 = 0 THEN pg_sleep(0.001)::text ELSE '' END"
    statement(
        small_disk, f"SELECT count(*), {REST} FROM (SELECT 1 FROM {rows} g ORDER BY {key}) s", budget="1 trials",
        guard='disk = 0.5\ndisk_growth = "10GiB"\nmemory = 0', window="12s",
    )  # fmt: skip
    before = take_picture(small_disk.server)
    ran = small_disk.run("tune", "study.toml", timeout_s=240)
    check_invariants(small_disk, before, ran=ran, code=1)
    trials = searched(small_disk.trials())
    assert [trial.status for trial in trials] == [Status.CRASHED] * len(trials)
    assert trials[0].reason.startswith(f"stopped: disk={small_disk.server.data_dir} is ")
    assert "(limit 50 % full)" in trials[0].reason
    assert trials[0].fault is Fault.RESOURCE
    usage = shutil.disk_usage(small_disk.server.data_dir)
    assert usage.used / usage.total < 0.7


@needs_root
def test_R2_a_disk_that_others_fill_lets_no_config_be_applied(small_disk: Place) -> None:
    small_disk.write(budget="8 trials", knobs=("work_mem",))
    before = take_picture(small_disk.server)
    child = small_disk.start("tune", "study.toml")
    small_disk.wait_until(child, lambda: len(small_disk.trials()) >= 3 or None, "the runs of the baseline", pause_s=0.2)
    filler = small_disk.server.folder / "somebody-elses"
    free = shutil.disk_usage(small_disk.server.data_dir).free
    subprocess.run(["fallocate", "-l", str(free - MIB), str(filler)], check=True)
    ran = small_disk.end(child)
    filler.unlink()
    check_invariants(small_disk, before, ran=ran, code=4)
    assert "nothing can be measured any more" in ran.cause
    *_, trial = searched(small_disk.trials())  # the first one may have been under way
    assert (trial.status, trial.effective, trial.measurement) == (Status.INFRASTRUCTURE, {}, None)
    assert "disk" in trial.reason
    assert "full" in trial.reason


def test_R3_no_file_descriptors_left_is_told_in_its_own_words(place_18: Place) -> None:
    before = take_picture(place_18.server)
    child = place_18.start("tune", "study.toml")
    place_18.wait_step(child, "apply", trial=3)
    used = len(list(Path(f"/proc/{child.pid}/fd").iterdir()))
    resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (used, used))
    ran = place_18.end(child)
    check_invariants(place_18, before, ran=ran, code=(3, 4))
    assert "oo many open files" in ran.cause


@needs_root
def test_R3_no_inodes_left_is_told_in_its_own_words(place_18: Place) -> None:
    state = place_18.state
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=2", "tmpfs", str(state)], check=True)
    try:
        before = take_picture(place_18.server)
        ran = place_18.run("tune", "study.toml")
        assert ran.code in (2, 3)
        assert "inodes" in ran.err
        assert take_picture(place_18.server).files == before.files
    finally:
        subprocess.run(["umount", str(state)], check=True)


def test_R4_a_candidate_that_eats_the_memory_is_ended_before_the_kernel_does_it(place_18: Place) -> None:
    eaten = f"generate_series(1, CASE WHEN {AS_FOUND} THEN 10 ELSE 700000 END)"
    statement(
        place_18,
        f"SELECT cardinality(array_agg(repeat('x', 1000) || g)), {REST} FROM {eaten} g",
        budget="1 trials",
        window="6s",
    )
    text = place_18.study.read_text().replace('memory = "1GiB"', 'memory = "640MiB"')
    place_18.study.write_text(text)
    before = take_picture(place_18.server)
    ran = place_18.run("tune", "study.toml", timeout_s=240)
    check_invariants(place_18, before, ran=ran, code=1)
    (trial, *_) = searched(place_18.trials())
    assert trial.status is Status.CRASHED
    assert trial.reason.startswith("stopped: memory=")
    assert "of a budget of 640MiB (limit 95 % of it)" in trial.reason
    assert trial.fault is Fault.RESOURCE
    assert trial.peaks["memory_bytes"] > 0.95 * 640 * MIB


class Throttle:
    """A CPU quota on the server's processes that is on in some trials and off in others, whoever runs."""

    def __init__(self, server: Server, rng: random.Random) -> None:
        top = cgroup_folder("cpu", 1)
        assert top is not None
        self.folder = top / f"trimtab-test-{os.getpid()}"
        self.folder.mkdir()
        self.server, self.rng = server, rng
        self.n_throttled = 0

    def draw(self) -> None:
        for pid in Path("/proc").iterdir():
            if pid.name.isdigit() and self._is_servers(pid):
                (self.folder / "cgroup.procs").write_text(pid.name)
        is_on = self.rng.random() < 0.5
        self.n_throttled += is_on
        (self.folder / "cpu.cfs_quota_us").write_text("30000" if is_on else "-1")

    def _is_servers(self, entry: Path) -> bool:
        try:
            return Path(os.readlink(entry / "cwd")) == self.server.data_dir
        except OSError:
            return False

    def remove(self) -> None:
        for pid in (self.folder / "cgroup.procs").read_text().split():
            (self.folder.parent / "cgroup.procs").write_text(pid)
        self.folder.rmdir()


@pytest.fixture(scope="module")
def proofs() -> Iterator[ModuleType]:
    with bench_modules(ROOT / "benchmarks" / "acceptance", "proofs") as modules:
        yield modules["proofs"]


@needs_root
def test_R5_a_throttled_cpu_is_not_taken_for_a_gain(
    place_18: Place, monkeypatch: pytest.MonkeyPatch, proofs: ModuleType
) -> None:
    """Equal configs, and a quota that comes and goes: the pairs scatter, and nothing is claimed."""
    require("cpu-cgroup-v1")
    for name in ("TRIMTAB_CACHE", "TRIMTAB_STATE", "TMPDIR"):
        monkeypatch.setenv(name, place_18.environment[name])
    place_18.write(knobs=("work_mem",), window="1s")
    # About half of the time it computes, which is far above the quota: the rest is for others.
    computes = "SELECT sum(length(md5(g::text))), pg_sleep(0.003) FROM generate_series(1, 5000) g;\n"
    (place_18.folder / "read.sql").write_text(computes)
    text = place_18.study.read_text().replace("min_pairs = 2\nmax_pairs = 2", "min_pairs = 4\nmax_pairs = 4")
    text = text.replace("users = 4", "users = 1")  # one is enough to meet the quota
    place_18.study.write_text(text)
    throttle = Throttle(place_18.server, random.Random(5))

    class Noisy(proofs.Listener):  # type: ignore[name-defined,misc]
        def trial_started(self, number: int, role: Role, changed: dict[str, str]) -> None:
            throttle.draw()

    try:
        proof = proofs.prove_changes(place_18.study, place_18.state, {}, Noisy())
    finally:
        throttle.remove()
    assert throttle.n_throttled >= 2
    assert not proof.is_better


def _standby(primary: Server, folder: Path) -> Callable[[], None]:
    """A streaming standby that replays five seconds late; what stops it."""
    with (primary.data_dir / "pg_hba.conf").open("a") as file:
        file.write("local replication all trust\n")
    primary.query("SELECT pg_reload_conf()")
    folder.mkdir()
    os.chown(folder, primary.account.uid, primary.account.gid)
    data = folder / "data"
    run: dict[str, Any] = {"check": True, "capture_output": True, "cwd": "/"}
    switch = switch_to(primary.account)
    port = "5432" if primary.is_embedded else str(primary.port)
    argv = [str(primary.bin_dir / "pg_basebackup"), "-D", str(data), "-h", str(primary.sockets), "-p", port, "-U", "postgres",
            "-R", "-X", "stream", "-c", "fast"]  # fmt: skip
    subprocess.run([*switch, *argv], **run)
    with (data / "postgresql.conf").open("a") as file:
        file.write(
            f"recovery_min_apply_delay = '5s'\nunix_socket_directories = '{folder}'\nlisten_addresses = ''\n"
            "wal_receiver_status_interval = '1s'\n"
        )
    control = [*switch, str(primary.bin_dir / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log")]
    subprocess.run([*control, "start"], **{**run, "capture_output": False, "stdout": subprocess.DEVNULL,
                                           "stderr": subprocess.DEVNULL})  # fmt: skip
    return lambda: subprocess.run([*control, "-m", "immediate", "stop"], **run) and None


@pytest.mark.full
def test_a_standby_that_falls_behind_ends_the_trial(own_place_18: Place) -> None:
    place = own_place_18
    rows = f"generate_series(1, CASE WHEN {AS_FOUND} THEN 0 ELSE 200 END)"
    statement(
        place, f"WITH w AS (INSERT INTO sink (n) SELECT g FROM {rows} g RETURNING 1) SELECT count(*), pg_sleep(0.05) FROM w",
        budget="1 trials", window="12s", guard='lag = "1s"\nlatency_factor = 0\nthroughput_factor = 0',
    )  # fmt: skip
    place.study.write_text(
        place.study.read_text().replace("read_only = true", 'read_only = false\nstart_state = "none"')
    )
    stop = _standby(place.server, place.folder / "standby")
    try:
        ran = place.run("tune", "study.toml", timeout_s=240)
    finally:
        stop()
    assert ran.code == 1, ran.err
    (trial, *_) = searched(place.trials())
    assert trial.status in (Status.STOPPED_EARLY, Status.FAILED_LOAD), trial.reason
    assert trial.reason.startswith("stopped: a standby is replication_lag=")
    assert trial.reason.endswith("behind (limit 1s)")
    assert place.server.query("SHOW work_mem") == [("4MB",)]
