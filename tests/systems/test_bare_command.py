"""A server that was started by its program's bare name is started by hand with the program that it ran."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.postgresql import Server, started
from trimtab.errors import TargetError
from trimtab.systems.account import server_account
from trimtab.systems.mysql.remote import ConnectionReach
from trimtab.systems.mysql.settings import read_settings
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.process import Postmaster
from trimtab.systems.seen import argv_of, command_of


def test_the_program_is_known_by_its_path() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            while argv_of(process.pid) != ("sleep", "60"):
                time.sleep(0.01)
            program = shutil.which("sleep")
            assert program is not None
            assert command_of(process.pid) == (str(Path(program).resolve()), "60")
        finally:
            process.kill()
    assert command_of(process.pid) == ()


def test_a_mysql_server_is_asked_by_the_path_of_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bare name is looked for in a plain PATH, which does not hold /usr/sbin."""
    table = {"kind": "mariadb", "url": "mysql://me@localhost/db", "memory": "1GiB"}
    reach = ConnectionReach(read_settings("db", table))
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            while argv_of(process.pid) != ("sleep", "60"):
                time.sleep(0.01)
            monkeypatch.setattr(reach, "_find_pid", lambda: process.pid)
            assert reach.argv == command_of(process.pid)
            assert reach.argv[0].startswith("/")
        finally:
            process.kill()


def test_a_program_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    process = Postmaster(tmp_path / "bin", tmp_path, server_account(), Path(os.devnull))
    with pytest.raises(
        TargetError, match=r"cannot run command='.*/bin/postgres': (No such file|Permission denied)"
    ) as caught:
        process.start(5.0)
    assert str(caught.value.hint).startswith("give the path of an installed program")


@pytest.fixture
def own() -> Iterator[Server]:
    with started("18") as server:
        yield server


@pytest.mark.service
@pytest.mark.parametrize("is_relative", [False, True], ids=["whole path", "relative path"])
def test_its_server_is_started_by_hand(
    own: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_relative: bool
) -> None:
    """Also where it was started in a shell that stood beside its data."""
    monkeypatch.setenv("PGPASSWORD", own.password)
    own.control("stop")
    other = {} if own.account.is_me else {"user": own.account.uid, "group": own.account.gid, "extra_groups": []}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    beside, name = (str(own.data_dir.parent), own.data_dir.name) if is_relative else ("/", str(own.data_dir))
    argv, env = ["postgres", "-D", name], {**os.environ, "PATH": f"{own.bin_dir}:/usr/bin:/bin", "PWD": beside}
    with subprocess.Popen(argv, env=env, cwd=beside, **quiet, **other) as process:  # type: ignore[call-overload]
        own.wait_up()
        table = {
            "kind": "postgresql", "url": own.url(), "memory": "1GiB", "data_dir": str(own.data_dir), "restart": "/bin/false",
        }  # fmt: skip
        target = PostgresTarget.from_settings("own", table, state_dir=tmp_path)
        target.open()
        process.terminate()
        process.wait(60)
    target._reach.start_with({"work_mem": "5MB"})
    try:
        assert own.query("SHOW work_mem") == [("5MB",)]
    finally:
        target._reach._end_rescue()  # type: ignore[attr-defined]
        target.close()
