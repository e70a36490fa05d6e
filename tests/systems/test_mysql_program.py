"""Which program an embedded server is made of, and what is said when there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import TargetError
from trimtab.systems.mysql import MysqlTarget, program
from trimtab.systems.mysql.embedded import EmbeddedReach
from trimtab.systems.mysql.program import ServerProgram, data_label, find_server


def _script(path: Path, words: str) -> Path:
    path.write_text(f"#!/bin/sh\n{words}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without servers; programs in the folder are found."""
    monkeypatch.setattr(program, "PROGRAM_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("which", "name"), [("mariadb", "mariadbd"), ("mysql", "mysqld")])
def test_what_is_not_installed_is_named(bare: Path, which: str, name: str) -> None:
    with pytest.raises(TargetError, match=f"and {name} is not installed") as caught:
        find_server(which)
    assert "install" in str(caught.value.hint)
    assert MysqlTarget.embedded_server() is None


def test_mysqld_of_mariadb_is_not_mysql(bare: Path) -> None:
    _script(bare / "mysqld", "echo mysqld  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64")
    with pytest.raises(TargetError, match=r"needs another program: .*mysqld is of the other product"):
        find_server("mysql")


def test_mysql_is_proposed_where_there_is_no_mariadb(bare: Path) -> None:
    path = _script(bare / "mysqld", "echo /usr/sbin/mysqld  Ver 8.0.36 for Linux on x86_64")
    assert find_server("mysql") == ServerProgram(path, "mysql", is_default=True)
    found = MysqlTarget.embedded_server()
    assert found is not None
    assert found.what == "an embedded MySQL"
    assert found.lines[0].startswith('embedded = "mysql"')


@pytest.mark.parametrize(
    ("words", "message"),
    [("echo hello", "it says 'hello'"), ("echo broken >&2; exit 1", "it says 'broken'")],
)
def test_a_path_that_is_no_server_is_refused(tmp_path: Path, words: str, message: str) -> None:
    path = _script(tmp_path / "program", words)
    with pytest.raises(TargetError, match=message) as caught:
        find_server(str(path))
    assert caught.value.hint == "give the path of a mariadbd or mysqld program"


def test_a_path_without_a_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"none\" cannot be run: .*No such file or directory"):
        find_server(str(tmp_path / "none"))


def test_mariadb_without_its_installer_is_told(tmp_path: Path) -> None:
    path = _script(tmp_path / "mariadbd", "echo mariadbd  Ver 11.4.5-MariaDB")
    with pytest.raises(TargetError, match="mariadb-install-db is not installed"):
        find_server(str(path)).data_maker(tmp_path)


def test_every_program_has_data_of_its_own() -> None:
    assert data_label("mariadb") == "mariadb"
    assert len({data_label(which) for which in ("mariadb", "mysql", "/opt/a/bin/mysqld", "/opt/b/bin/mysqld")}) == 4


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("mysqld: Can't create directory '/c/data.new/' (OS errno 13 - Permission denied)", "does AppArmor keep that program"),
        ("[ERROR] Could not create /c/data.new/ibdata1 (Errcode: 13)", "does AppArmor keep that program"),
        ("[ERROR] No space left on device", "is the disk full"),
    ],
)  # fmt: skip
def test_a_program_that_may_not_write_its_data_is_told_from_a_full_disk(tmp_path: Path, words: str, hint: str) -> None:
    def install(argv: Sequence[str], *_: object) -> None:
        raise TargetError(f"{Path(argv[0]).name} failed with exit_code=1: {words}", hint="is the disk full?")

    reach: Any = EmbeddedReach.__new__(EmbeddedReach)
    reach.__dict__["_program"] = ServerProgram(Path("/usr/sbin/mysqld"), "mysql", is_default=True)
    reach._install = install
    with pytest.raises(TargetError, match="mysqld failed with exit_code=1") as caught:
        reach._make_data(tmp_path, None)
    assert hint in str(caught.value.hint)
