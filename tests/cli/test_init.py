"""`trimtab init` never takes another server than the one that is there, and writes what the next command accepts."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from trimtab.study import discovery, load_study_file
from trimtab.systems import FoundServer

LOCKED = FoundServer(
    kind="postgresql",
    what="PostgreSQL",
    url="host=/run/x",
    problem="Peer authentication failed",
    hint="run as postgres",
)


def _finds(monkeypatch: pytest.MonkeyPatch, *servers: FoundServer) -> None:
    class Target:
        @classmethod
        def found_servers(cls) -> tuple[FoundServer, ...]:
            return servers

        @classmethod
        def embedded_server(cls) -> FoundServer:
            return FoundServer(kind="postgresql", what="an embedded PostgreSQL", lines=('embedded = "18"',))

    monkeypatch.setattr(discovery, "_classes", lambda kind, tell: [Target])


def test_a_server_that_lets_nobody_in_is_not_passed_over(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _finds(monkeypatch, LOCKED)
    ran = run("init")
    assert (ran.code, ran.out) == (3, "")
    assert "error: found a server at host=/run/x, and cannot log in: Peer authentication failed\n" in ran.err
    assert "hint: run as postgres; or take a private server instead: --embedded\n" in ran.err
    assert not (tmp_path / "study.toml").exists()
    assert run("init", "--embedded").out.startswith("wrote study.toml: an embedded PostgreSQL\n")


def test_one_that_lets_us_in_is_taken_before_one_that_does_not(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    open_one = FoundServer(kind="postgresql", what="PostgreSQL 15", url="host=/run/y", lines=('url = "host=/run/y"',))
    _finds(monkeypatch, LOCKED, open_one)
    ran = run("init")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "wrote study.toml: the server at host=/run/y")


def test_a_kind_that_init_does_not_know_is_said_so(run: Run) -> None:
    ran = run("init", "--target", "httpd")
    assert ran.code == 2
    assert "error: `trimtab init` writes no study file for kind='httpd'\n" in ran.err
    assert "postgresql, mysql, mariadb" in ran.err


def test_a_workload_that_cannot_drive_the_target_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _finds(monkeypatch, FoundServer(kind="mariadb", what="MariaDB", url="mysql://h", lines=('url = "mysql://h"',)))
    ran = run("init", "--target", "mariadb", "--workload", "pgbench")
    assert ran.code == 2
    assert "workload='pgbench' cannot drive a target of kind='mariadb'" in ran.err


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("prod db.toml", "prod-db"), ("shop.bench.toml", "shop-bench"), ("größe.toml", "gr-e"), ("ü.toml", "study"),
        ("v1.2.toml", "v1.2"),
    ],
)  # fmt: skip
def test_every_file_name_gives_a_legal_study(run: Run, tmp_path: Path, file: str, name: str) -> None:
    ran = run("init", file, "--embedded")
    assert ran.code == 0, ran.err
    assert load_study_file(tmp_path / file).study.name == name
    assert "next: trimtab doctor 'prod db.toml'" in ran.out or " " not in file


def test_a_full_disk_leaves_the_file_that_was_there(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    _finds(monkeypatch)
    (tmp_path / "mine.toml").write_text("mine")
    with monkeypatch.context() as disk:
        disk.setattr("os.fsync", full)
        for name in ("mine.toml", "new.toml"):
            ran = run("init", name, "--force")
            assert (ran.code, ran.out) == (2, "")
            assert f"error: cannot write file='{name}': No space left on device\n" in ran.err
    assert {path.name: path.read_text() for path in tmp_path.glob("*.toml*")} == {"mine.toml": "mine"}
    assert not list(tmp_path.glob(".*.partial"))
    assert run("init", "mine.toml", "--force").code == 0
    assert "[study]" in (tmp_path / "mine.toml").read_text()
