"""What keeps the extension from being built, installed, or asked what it has learnt: said with a hint, and nothing worse."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from trimtab.errors import TargetError
from trimtab.report import advice_toml
from trimtab.study import in_engine
from trimtab.systems.account import Account
from trimtab.systems.postgresql import extension_build
from trimtab.systems.postgresql.extension_build import built, find_sources, install


@dataclass
class Machine:
    """A folder with a pg_config and a compiler of the test's own."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch

    def program(self, name: str, script: str) -> Path:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        self.monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
        return path

    def server(self, version: str = "PostgreSQL 16.4 (Debian 16.4-1)", with_headers: bool = True) -> Path:
        """The folder of a server's programs."""
        for name in ("include", "lib", "share/extension"):
            (self.folder / name).mkdir(parents=True)
        if with_headers:
            (self.folder / "include" / "postgres.h").touch()
        places = " ".join(f"'{self.folder / name}'" for name in ("include", "lib", "share"))
        return self.program("pg_config", f"printf '%s\\n' '{version}' {places}").parent


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    return Machine(tmp_path, monkeypatch)


def refused(action: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(TargetError) as caught:
        action()
    return caught.value.message, caught.value.hint or ""


def test_a_server_without_pg_config(machine: Machine) -> None:
    bin_dir = machine.program("psql", "true").parent
    said, hint = refused(lambda: find_sources(bin_dir))
    assert said == f"the extension cannot be built: no {bin_dir / 'pg_config'}"
    assert hint.startswith("build it on the server's machine")
    program = machine.program("pg_config", "echo it is broken; exit 1")
    assert refused(lambda: find_sources(bin_dir))[0] == f"the extension cannot be built: {program} fails: it is broken"


@pytest.mark.parametrize(
    ("version", "major"),
    [("PostgreSQL 16.4 (Debian 16.4-1)", "16"), ("PostgreSQL 18beta1", "18"), ("PostgreSQL 17.2 (Homebrew)", "17")],
)
def test_a_server_without_header_files(machine: Machine, version: str, major: str) -> None:
    bin_dir = machine.server(version, with_headers=False)
    missing = machine.folder / "include" / "postgres.h"
    assert refused(lambda: find_sources(bin_dir)) == (
        f"the extension cannot be built: the header files of {version} are not installed: no {missing}",
        f"Debian: apt install postgresql-server-dev-{major}",
    )


def test_an_installation_of_trimtab_without_the_sources(machine: Machine) -> None:
    machine.monkeypatch.setattr(extension_build, "_HERE", machine.folder)
    said, hint = refused(lambda: find_sources(machine.server()))
    assert said == "this installation of Trimtab has no sources of the extension"
    assert hint.startswith("install Trimtab from its wheel")


def test_a_compiler_that_fails(machine: Machine) -> None:
    bin_dir = machine.server()
    machine.program("cc", "echo 'In file included'; echo 'store.c:7: error: no such thing'; exit 1")
    said, hint = refused(lambda: built(bin_dir, None))
    assert said == "the extension cannot be built: store.c:7: error: no such thing"
    assert hint == "see docs/how-to/tune-inside-postgresql.md"
    assert not list(machine.folder.rglob("trimtab.so"))


MAKES = 'while [ "$1" != -o ]; do shift; done; echo made > "$2"'
"""A compiler that always has success."""


def test_a_cache_that_cannot_be_used(machine: Machine) -> None:
    bin_dir = machine.server()
    machine.program("cc", MAKES)
    (machine.folder / "cache").touch()
    said, _ = refused(lambda: built(bin_dir, None))
    assert said.startswith(f"folder='{machine.folder}/cache/extension/")
    assert said.endswith(" cannot be written: Not a directory")
    (machine.folder / "cache").unlink()
    machine.monkeypatch.setattr(extension_build, "can_enter", lambda path, account: False)
    said, hint = refused(lambda: built(bin_dir, Account("pg", 4711, 4711)))
    assert said.startswith("user='pg', as whom the server runs, cannot reach folder=")
    assert hint == "set TRIMTAB_CACHE to a folder whose parents every user may enter"
    assert built(bin_dir, None).parent.stat().st_mode & 0o777 == 0o755


def test_an_installation_that_cannot_be_written(machine: Machine) -> None:
    bin_dir, share = machine.server(), machine.folder / "share" / "extension"
    machine.program("cc", MAKES)
    with machine.monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, mode: Path(path) != share)
        assert refused(lambda: install(bin_dir)) == (
            f"folder={str(share)!r} cannot be written by this user",
            "run it as root",
        )
    assert not (machine.folder / "lib" / "trimtab.so").exists()
    (share / "trimtab.control").mkdir()
    assert refused(lambda: install(bin_dir))[0] == f"file='{share}/trimtab.control' cannot be written: Is a directory"
    shutil.rmtree(share / "trimtab.control")
    (machine.folder / "lib").chmod(0o750)
    files = install(bin_dir)
    assert (machine.folder / "lib").stat().st_mode & 0o777 == 0o750, "whom the server lets in is its own affair"
    assert sorted(path.name for path in files) == ["trimtab--1.0.sql", "trimtab.control", "trimtab.so"]
    assert all(path.is_file() for path in files)


class Unable:
    """A target whose server cannot be asked."""

    def query_classes(self) -> list[object]:
        raise TargetError("no rights")

    def watch_engine(self) -> None:
        raise TargetError("no compiler")


def test_a_study_goes_on_without_what_the_extension_cannot_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_engine, "SelfTuningTarget", Unable)
    tier = SimpleNamespace(name="db", target=Unable(), asked=nullcontext)
    file = SimpleNamespace(table_of=lambda name: {"in_engine": True})
    stage = SimpleNamespace(stack=SimpleNamespace(tiers=[tier]), file=file)
    said: list[str] = []
    in_engine.watch_engines(stage, said.append)  # type: ignore[arg-type]
    in_engine.keep_classes(stage, SimpleNamespace(), SimpleNamespace(id=1), said.append)  # type: ignore[arg-type]
    assert said == [
        "the server's queries are not watched: no compiler",
        "what the server has learnt of its queries is not kept: no rights",
    ]


def test_advice_without_anything_to_advise() -> None:
    assert advice_toml([]) == "# no setting was faster for most of the measured time"
