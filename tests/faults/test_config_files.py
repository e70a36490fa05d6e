"""Rows C1, C2, C4, C5, C6: the configuration's files are damaged, overridden, managed by others, or not plain files."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.invariants import Picture, check_exit, check_invariants, take_picture
from tests.faults.place import Place
from tests.faults.rooms import open_bench, undone
from tests.faults.test_server_start import postmaster
from trimtab.errors import ForeignChangeError
from trimtab.trial import Journal

pytestmark = pytest.mark.service

BENCH = ("bench", "study.toml", "--runs", "1", "--set", "work_mem=8MB")


def _garbage(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n<<<<<<< somebody's merge\n")


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:60])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def repaired_by_hand(place: Place, before: Picture) -> None:
    """What a person does after the error: the file as it was, and a restart."""
    path = place.server.auto_conf
    content, mode, uid, gid = before.files[path.name]
    path.write_bytes(content)
    path.chmod(mode)
    os.chown(path, uid, gid)
    with place.server.up():
        place.server.control("restart")


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(_garbage, id="C1-garbage"),
        pytest.param(_truncated, id="C2-truncated", marks=pytest.mark.full),
        pytest.param(_empty, id="C2-empty", marks=pytest.mark.full),
        pytest.param(Path.unlink, id="C2-missing"),
    ],
)
def test_C1_C2_damaged_file_stops_with_its_name_and_is_not_overwritten(
    place_18: Place, damage: Callable[[Path], None]
) -> None:
    before = take_picture(place_18.server)
    path = place_18.server.auto_conf
    with open_bench(place_18) as bench:
        bench.run(hand_over=True)
        damage(path)
        damaged = path.read_bytes() if path.exists() else None
        with pytest.raises(ForeignChangeError, match=r"postgresql.auto.conf"):
            bench.run(number=1)
    left = path.read_bytes() if path.exists() else None
    assert left == damaged or b"work_mem" not in (left or b""), "overwritten blindly"
    waiting = Journal(place_18.state).open_entries()
    repaired_by_hand(place_18, before)
    if (
        damage is _garbage
    ):  # what cannot be parsed is not touched: whether our values still stand is seen after the repair
        (entry,) = waiting
        assert "postgresql.auto.conf" in entry.failure
        undone(place_18)
    else:
        assert waiting == []
    check_invariants(place_18, before)


def test_C4_command_line_wins_and_is_named_before_any_change(own_place_18: Place) -> None:
    server = own_place_18.server
    before = take_picture(server)
    server.control("stop")
    pinned = postmaster(server)
    pinned.start(30.0, None, {"work_mem": "3MB"})
    ran = own_place_18.run(*BENCH)
    check_exit(ran, 2, "work_mem.*set on the server's command line, which wins over every file")
    assert server.auto_conf.read_bytes() == before.files["postgresql.auto.conf"][0]
    pinned.stop(immediate=False)
    server.control("start")
    check_invariants(own_place_18, before)


def test_C4_setting_of_the_role_wins_and_is_named_before_any_change(own_place_18: Place) -> None:
    server = own_place_18.server
    before = take_picture(server)
    with server.admin() as connection:
        connection.execute("ALTER ROLE postgres SET work_mem = '3MB'")
    ran = own_place_18.run(*BENCH)
    check_exit(ran, 2, "work_mem.*set by ALTER ROLE for this user, which wins over the configuration files")
    with server.admin() as connection:
        connection.execute("ALTER ROLE postgres RESET work_mem")
    check_invariants(own_place_18, before)


def test_C5_configuration_management_is_not_fought(own_place_18: Place) -> None:
    place, server = own_place_18, own_place_18.server
    before = take_picture(server)
    managed, stop = before.files["postgresql.auto.conf"][0], threading.Event()
    n_reverts = 0

    def manage() -> None:
        nonlocal n_reverts
        while not stop.wait(0.3):
            if server.auto_conf.read_bytes() != managed:
                n_reverts += 1
                server.auto_conf.write_bytes(managed)
                with server.admin() as connection:
                    connection.execute("SELECT pg_reload_conf()")

    place.write(knobs=("work_mem", "random_page_cost"))
    manager = threading.Thread(target=manage, daemon=True)
    manager.start()
    ran = place.run("tune", "study.toml")
    stop.set()
    manager.join()
    print(f"\nC5: reverted {n_reverts} times by the manager before Trimtab gave way")
    assert n_reverts <= 3, "fought with it"
    check_invariants(place, before, ran=ran, code=3, cause="postgresql.auto.conf|was changed by somebody else|work_mem")


def test_C6_symbolic_link_is_refused_before_any_change(place_18: Place) -> None:
    before = take_picture(place_18.server)
    path = place_18.server.auto_conf
    elsewhere = place_18.server.folder / "managed.conf"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    content = elsewhere.read_bytes()
    ran = place_18.run(*BENCH)
    check_exit(ran, 3, r"file=.*postgresql.auto.conf' is a symbolic link to")
    assert path.is_symlink()
    assert elsewhere.read_bytes() == content
    path.unlink()
    elsewhere.rename(path)
    check_invariants(place_18, before)


def test_C6_mode_and_owner_come_back(place_18: Place) -> None:
    place_18.server.auto_conf.chmod(0o640)
    before = take_picture(place_18.server)
    ran = place_18.run(*BENCH)
    check_invariants(place_18, before, ran=ran, code=0)


@pytest.mark.needs("mounts")
def test_C6_read_only_data_directory_is_told_before_any_change(own_place_18: Place) -> None:
    server = own_place_18.server
    before = take_picture(server)
    folder = str(server.data_dir)
    subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True, capture_output=True)
        ran = own_place_18.run(*BENCH)
        check_exit(ran, 3, "cannot be read and written by this user|read-only")
    finally:
        subprocess.run(["umount", folder], check=True, capture_output=True)
        time.sleep(0.1)
    check_invariants(own_place_18, before)
