"""D13, D14, D15, R2 and the disk model: what the server makes of values, and what it has room for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.invariants import check_invariants, take_picture
from tests.faults.place import Place
from tests.faults.rooms import open_bench
from tests.needs import require
from trimtab.errors import ApplyError, UsageError
from trimtab.records import Fault, Status
from trimtab.space import Config

pytestmark = pytest.mark.service


def test_D13_knobs_of_another_version_are_left_out_with_a_note(place: Place) -> None:
    before = take_picture(place.server)
    new = ("io_method", "io_workers", "autovacuum_worker_slots")
    place.write(knobs=("work_mem", *new))
    with open_bench(place) as bench:
        names, notes = set(bench.stage.space.knobs), bench.target.notes()
    if place.server.version == "16":
        assert names == {"work_mem"}
        assert notes == (f"left out, because PostgreSQL 16 does not have them: {', '.join(new)}",)
    else:
        assert names == {"work_mem", *new}
        assert notes == ()
    check_invariants(place, before, recovers=False)


def test_D13_a_name_that_no_version_has_is_an_error(place_18: Place) -> None:
    before = take_picture(place_18.server)
    place_18.write(knobs=("work_mem", "work_memory"))
    with pytest.raises(UsageError, match="unknown knob or set='work_memory' in knobs"), open_bench(place_18):
        pass
    check_invariants(place_18, before, recovers=False)


def test_D13_D14_a_study_tells_notes_and_twins(make_place: object) -> None:
    """wal_buffers = -1 is 1/32 of shared_buffers: two configs, one server."""
    place: Place = make_place("16", True)  # type: ignore[operator]
    before = take_picture(place.server)
    place.write(
        knobs=("wal_buffers", "io_method"),
        budget="3 trials",
        search='[search]\nsearcher = "grid"\nranges = { wal_buffers = ["512kB", "520kB"] }\n',
    )
    ran = place.run("tune", "study.toml")
    assert "left out, because PostgreSQL 16 does not have them: io_method" in ran.err
    same = "ran with the same effective values as trial"
    assert same in ran.err, ran.err
    assert "the target makes no difference between their wal_buffers" in ran.err
    check_invariants(place, before, ran=ran, code=(0, 1), recovers=False)


def test_D14_what_is_in_effect_is_recorded_and_not_what_was_asked(place: Place) -> None:
    before = take_picture(place.server)
    place.write(knobs=("wal_buffers", "work_mem"))
    with open_bench(place) as bench:
        trial = bench.run(wal_buffers=128, work_mem=8192)
        assert trial.effective == {"wal_buffers": 128, "work_mem": 8192}
        derived = bench.run(number=1, wal_buffers=-1)
    assert derived.config["wal_buffers"] == -1
    assert derived.effective == {"wal_buffers": 64}
    check_invariants(place, before, recovers=False)


@pytest.mark.parametrize(
    ("restart", "cause"),
    [
        ("true", "ended well, but the server was not restarted"),
        pytest.param("false", "the restart command='false' failed with exit_code=1", marks=pytest.mark.full),
        pytest.param("/no/such/command", "cannot run command='/no/such/command'", marks=pytest.mark.full),
    ],
)
def test_D15_a_knob_that_waits_for_a_restart_is_never_measured(own_place_18: Place, restart: str, cause: str) -> None:
    """The restart command does nothing: nothing is attributed to the new value, no config is to blame, and none can be tried."""
    place = own_place_18
    before = take_picture(place.server)
    reach = f'url = "{place.server.url()}"\ndata_dir = "{place.server.data_dir}"\nrestart = "{restart}"'
    place.write(reach=reach, knobs=("shared_buffers",), budget="20 trials")
    ran = place.run("tune", "study.toml")
    check_invariants(place, before, ran=ran, code=3, cause=cause, recovers=False)
    assert {trial.status for trial in place.trials()} == {Status.OK}, "those of the baseline"


def test_D15_a_restart_command_that_stops_working_is_not_the_configs_fault(own_place: Place) -> None:
    place, again, refusal = own_place, own_place.folder / "again", own_place.folder / "refused"
    before = take_picture(place.server)
    again.write_text(f"#!/bin/sh\ntest ! -e {refusal} && exec {place.server.restart_command}\n")
    again.chmod(0o755)
    place.write(reach=f'url = "{place.server.url()}"\ndata_dir = "{place.server.data_dir}"\nrestart = "{again}"')
    with open_bench(place) as bench:
        assert bench.run(shared_buffers=3072).status is Status.OK
        refusal.touch()
        trial = bench.run(number=1, shared_buffers=4096)
        assert (trial.status, trial.fault) == (Status.INFRASTRUCTURE, Fault.ENVIRONMENT)
        assert "failed with exit_code=1" in trial.reason
        refusal.unlink()
    assert trial.effective == {}
    check_invariants(place, before, recovers=False)


def test_D15_without_a_restart_such_a_knob_is_refused_before_anything_changes(own_place_18: Place) -> None:
    place = own_place_18
    before = take_picture(place.server)
    place.write(knobs=("work_mem",), reach=f'url = "{place.server.url()}"')
    with open_bench(place) as bench, pytest.raises(ApplyError, match="may not be changed: needs a restart"):
        bench.target.apply(Config({"shared_buffers": 3000}))
    check_invariants(place, before, recovers=False)


def test_R1_knobs_that_take_disk_are_checked_against_what_is_free(place_18: Place) -> None:
    before = take_picture(place_18.server)
    place_18.write(knobs=("max_wal_size", "min_wal_size", "wal_keep_size"), target='unlock = ["replication"]')
    with open_bench(place_18) as bench:
        target, free = bench.target, os.statvfs(place_18.server.data_dir)
        free_mb = (free.f_bavail * free.f_frsize) >> 20
        for name in ("max_wal_size", "wal_keep_size"):
            with pytest.raises(ApplyError) as caught:
                target.preflight(Config({name: free_mb}))
            assert caught.value.message.startswith(f"{name}={free_mb} may take disk=")
            assert "room=" in caught.value.message
        target.preflight(Config({"max_wal_size": 512}))
    check_invariants(place_18, before, recovers=False)


@pytest.fixture
def small_disk(own_place_18: Place) -> Iterator[Place]:
    """The server's data lies on a volume of its own of 400 MB."""
    place = own_place_18
    require("mounts")
    place.server.control("stop")
    data, copy = place.server.data_dir, place.folder / "copy"
    data.rename(copy)
    data.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m,mode=0700", "tmpfs", str(data)], check=True)
    subprocess.run(["cp", "-a", f"{copy}/.", str(data)], check=True)
    os.chown(data, place.server.account.uid, place.server.account.gid)
    place.server.control("start")
    yield place
    place.server.destroy()
    subprocess.run(["umount", "-l", str(data)], check=True)


def fill(folder: Path, leave_bytes: int) -> Path:
    disk = os.statvfs(folder)
    path = folder / "of-somebody-else"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, disk.f_bavail * disk.f_frsize - leave_bytes)
    return path


def test_R2_a_disk_filled_by_others_spoils_the_trial_and_nothing_is_applied(small_disk: Place) -> None:
    before = take_picture(small_disk.server)
    with open_bench(small_disk) as bench:
        filler = fill(small_disk.server.data_dir, 20 << 20)
        trial = bench.run()
        assert (trial.status, trial.fault) == (Status.INFRASTRUCTURE, Fault.RESOURCE)
        assert "the server's disk is full: free=" in trial.reason
        assert "apply" not in trial.cost_s
        assert not trial.status.is_config_fault
        filler.unlink()
        assert bench.run(number=1).status is Status.OK
    check_invariants(small_disk, before, recovers=False)
