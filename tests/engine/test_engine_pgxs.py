"""The extension by its own Makefile, as its page says: `make`, `make install`, `make installcheck` on a real server."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run
from tests.engine.conftest import EXTENSION, ROOT, SECTIONS, headers
from tests.engine.test_engine_product import installed
from tests.servers import made
from tests.servers.postgresql import DEBIAN, Server, copied, plain, programs, set_password, started

__all__ = ["run"]

PACKAGED = ROOT / "src" / "trimtab" / "systems" / "postgresql"


def test_the_package_holds_all_sources() -> None:
    """As links, which the wheel and the source distribution follow."""
    parts = [SECTIONS / f"trimtab_{name}" for name in ("tuner.c", "search.c", "simplex.c", "points.c", "tuner.h")]
    wanted = {
        **{path.name: path for path in parts},
        **{f"src/{path.name}": path for path in EXTENSION.glob("src/*.[ch]")},
        **{path.name: path for path in EXTENSION.glob("trimtab*") if path.suffix in (".control", ".sql")},
    }
    found = {
        str(path.relative_to(PACKAGED / room)): path.resolve()
        for room in ("extension", "sections")
        for path in (PACKAGED / room).rglob("*")
        if path.is_file()
    }
    assert found == wanted


def make(folder: Path, pg_config: Path, *goals: str, **variables: str) -> str:
    """`make` in a copy of the extension's folder; what it printed."""
    done = subprocess.run(
        ["make", f"PG_CONFIG={pg_config}", *goals], cwd=folder, capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:] + differences(folder)
    return done.stdout


def differences(folder: Path) -> str:
    found = folder / "regression.diffs"
    return found.read_text() if found.exists() else ""


def sources(folder: Path) -> Path:
    """A copy, in which `make` may leave its files, that keeps the ways between the folders."""
    for source in (EXTENSION, SECTIONS):
        shutil.copytree(source, folder / source.relative_to(ROOT))
    return folder / EXTENSION.relative_to(ROOT)


def checked(folder: Path, pg_config: Path, server: Server) -> None:
    """`make installcheck` against a server."""
    place = {"PGHOST": str(server.sockets), "PGPORT": str(server.port), "PGUSER": "postgres"}
    assert "All 3 tests passed" in make(folder, pg_config, "installcheck", **place).replace("# ", "")


@contextmanager
def private_debian(folder: Path) -> Iterator[tuple[Path, Server]]:
    """Debian's PostgreSQL in a folder of its own, where something may be installed; its pg_config, and a server that is down."""
    bin_dir = programs(DEBIAN)
    version = bin_dir.parent.name
    for place in (f"usr/lib/postgresql/{version}", f"usr/share/postgresql/{version}"):
        leave = shutil.ignore_patterns("bitcode", "man", "*.bc")
        shutil.copytree(Path("/") / place, folder / place, symlinks=True, ignore=leave)
    include = folder / "usr" / "include" / "postgresql" / version / "server"
    include.parent.mkdir(parents=True)
    include.symlink_to(headers(DEBIAN))
    server = copied(
        plain(DEBIAN), folder / "server", DEBIAN, settings="fsync = off\nshared_preload_libraries = 'trimtab'\n"
    )
    server = replace(server, bin_dir=folder / bin_dir.relative_to("/"))
    try:
        yield server.bin_dir / "pg_config", server
    finally:
        server.destroy()


@pytest.mark.service
@pytest.mark.needs("c-compiler", "postgresql-debian")
def test_make_install_and_installcheck_on_debian(tmp_path: Path) -> None:
    with made("pgxs") as folder, private_debian(folder) as (pg_config, server):
        source = sources(folder)
        make(source, pg_config, "COPT=-O0 -g0")
        make(source, pg_config, "install", "COPT=-O0 -g0")
        server.control("start")
        checked(source, pg_config, server)
        make(source, pg_config, "uninstall")
        assert list(folder.glob("usr/**/trimtab*")) == []


STUDY = """
[study]
name = "engine"
[target.db]
kind = "postgresql"
url = "{url}"
data_dir = "{data_dir}"
restart = "{restart}"
memory = "500MB"
in_engine = true
[workload]
kind = "ycsb"
workload = "A"
"""


@pytest.mark.service
@pytest.mark.full
@pytest.mark.needs("c-compiler", "postgresql-debian", "root")
def test_the_command_installs_it_too(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`trimtab engine --install`, from the sources of the package, on a server that runs here; then its Makefile's tests pass."""
    with made("pgxs") as folder, private_debian(folder) as (pg_config, server):
        conf = server.data_dir / "postgresql.conf"
        conf.write_text(conf.read_text().replace("shared_preload_libraries = 'trimtab'\n", ""))
        server.control("start")
        set_password(server, "postgres", server.password)
        monkeypatch.setenv("PGPASSWORD", server.password)
        study = STUDY.format(url=server.url(), data_dir=server.data_dir, restart=server.restart_command)
        (tmp_path / "study.toml").write_text(study)
        assert "`trimtab engine --install` builds and installs it" in run("doctor", "study.toml").out
        done = run("engine", "study.toml", "--install")
        assert done.code == 0, done.err
        assert sorted(Path(line).name for line in done.out.splitlines()) == [
            "trimtab--1.0.sql",
            "trimtab.control",
            "trimtab.so",
        ]
        assert all(Path(line).is_relative_to(folder) for line in done.out.splitlines())
        switched = run("engine", "study.toml", "--mode", "observe")
        assert switched.code == 0, switched.err
        assert switched.out.splitlines() == [
            "trimtab.mode = observe",
            "shared_preload_libraries has trimtab: restart the server",
        ]
        server.control("restart")
        assert "ok    in-engine tuning: mode=observe" in run("doctor", "study.toml").out
        with server.admin() as connection:
            connection.execute("DROP EXTENSION trimtab")
        checked(sources(folder), pg_config, server)


@pytest.mark.service
@pytest.mark.needs("c-compiler", "postgresql-embedded", "postgresql-debian")
def test_installcheck_on_18() -> None:
    """By the programs of Debian's PostgreSQL: the wheel's pg_regress does not run."""
    with made("check") as folder:
        preload = installed(folder / "installed") + "shared_preload_libraries = 'trimtab'\n"
        with started("18", settings=preload) as server:
            checked(sources(folder), programs(DEBIAN) / "pg_config", server)
