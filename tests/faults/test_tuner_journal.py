"""Rows T7, T9, T11: two tuners, and a journal that is damaged or of another version."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from unittest import mock

import pytest

from tests.faults.invariants import check_exit, check_invariants, check_unmixed, take_picture
from tests.faults.place import Place
from tests.faults.test_tuner_killed import APPLY, BENCH, run_killed, wait_for_deadman
from trimtab.errors import ApplyError
from trimtab.space import Config
from trimtab.study import load_study_file
from trimtab.study.stage import build_target
from trimtab.systems import Stack, Tier
from trimtab.testing.fake_target import FakeTarget
from trimtab.trial import Journal, commit
from trimtab.trial.lines import encode_line, read_lines

pytestmark = pytest.mark.service


@pytest.mark.full  # test_connection_lock.py: both tuners of another host, and the lock freed by death
def test_T7_second_tuner_is_refused_and_the_lock_freed_by_death(own_place_18: Place) -> None:
    place = own_place_18
    elsewhere = {"TRIMTAB_STATE": str(place.folder / "tmp" / "other-host")}  # no file in common, as from another host
    place.write(budget="100 trials")
    before = take_picture(place.server)
    first = place.start("tune", "study.toml")
    place.wait_step(first, "apply", trial=1)
    for _ in range(20):
        second = place.run("tune", "study.toml", environment=elsewhere)
        if "another tuner" in second.err:
            break
        check_exit(second, 3, "cannot connect|terminating connection")  # the first one was just restarting the server
    check_exit(second, 3, rf"another tuner holds this server: .*pid={first.pid}")
    place.kill(first)
    wait_for_deadman(place)
    third = place.run(*BENCH, environment=elsewhere)
    check_exit(third, 0)
    for path in sorted((place.folder / "tmp").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    check_invariants(place, before)


def left_behind(place: Place) -> Path:
    """The journal entry of a tuner that died with a config of its own on the server, and of its dead-man with it."""
    run_killed(place, f"{APPLY}:after:1", with_deadman=True)
    (entry,) = Journal(place.state).open_entries()
    return entry.path


def test_T9_one_damaged_file_is_told_and_survived(place_18: Place) -> None:
    before = take_picture(place_18.server)
    path = left_behind(place_18)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3])
    recovered = place_18.run("recover")
    assert "skipped: 1 damaged line of its journal" in recovered.out
    check_unmixed(take_picture(place_18.server), before)
    path = left_behind(place_18)
    flipped = bytearray(path.with_suffix(".copy").read_bytes())
    flipped[100] ^= 4
    path.with_suffix(".copy").write_bytes(flipped)
    check_invariants(place_18, before)


def test_T2_second_target_fails_and_the_first_is_as_it_was(own_place_18: Place) -> None:
    before = take_picture(own_place_18.server)
    other = FakeTarget("other", crash_when=lambda values: values["cache"] == 256)
    with mock.patch.dict(os.environ, own_place_18.environment):
        real = build_target(load_study_file(own_place_18.study), own_place_18.state)
        real.open()
        try:
            with real.lock("test"), pytest.raises(ApplyError, match="the fake server did not start"):
                commit(
                    Stack([Tier(name=real.name, target=real), Tier(name="other", target=other)]),
                    Config({f"{real.name}.work_mem": 8192, f"{real.name}.shared_buffers": 3000, "other.cache": 256}),
                    study="stack", state_dir=own_place_18.state, keep=lambda found, ours: None, file=own_place_18.state / "none",
                )  # fmt: skip
        finally:
            real.close()
    check_invariants(own_place_18, before, recovers=False)


def test_T9_beyond_repair_is_refused_and_never_started_anew(place_18: Place) -> None:
    before = take_picture(place_18.server)
    path = left_behind(place_18)
    kept = {file: file.read_bytes() for file in (path, path.with_suffix(".copy"))}
    for file, content in kept.items():
        file.write_bytes(content[:50])
    for command in (("tune", "study.toml"), ("recover",)):
        check_exit(place_18.run(*command), 3, r"cannot read journal entry=.*: it is damaged, and so is its copy")
    for file, content in kept.items():
        file.write_bytes(content)
    check_invariants(place_18, before)


@pytest.mark.parametrize("version", [2, pytest.param(99, marks=pytest.mark.full)])
def test_T11_another_schema_is_refused(place_18: Place, version: int) -> None:
    before = take_picture(place_18.server)
    path = left_behind(place_18)
    content = path.read_bytes()
    head = read_lines(content)[0]
    assert head is not None
    path.write_bytes(encode_line({**head, "schema_version": version}))
    check_exit(place_18.run("tune", "study.toml"), 3, f"is of schema_version={version}; this Trimtab reads 3")
    path.write_bytes(content)
    check_invariants(place_18, before)


@pytest.mark.full
def test_T5_hang_up_is_a_signal_like_the_others(own_place_18: Place) -> None:
    place = own_place_18
    before = take_picture(place.server)
    child = place.start(*BENCH)
    place.wait_step(child, "apply")
    place.kill(child, signal.SIGHUP)
    if list((place.state / "journal").glob("*.open")):
        wait_for_deadman(place)
    check_invariants(place, before)
