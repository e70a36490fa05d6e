"""What a command loads before it answers: libraries that it does not need cost time, and `recover` runs in an emergency."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import trimtab
from tests.history.samples import make_trial, study_values
from trimtab.cli.group import COMMANDS
from trimtab.deferred import deferred
from trimtab.history import History

pytestmark = pytest.mark.slow

HEAVY = {
    *("numpy", "scipy.stats", "scipy.special", "scipy.optimize", "sklearn", "optuna", "pyarrow"),
    *("sqlalchemy", "pydantic", "psycopg", "pymysql", "rich", "jinja2", "importlib.metadata"),
}
READS_HISTORY = {"numpy", "sqlalchemy", "importlib.metadata"}
READS_STUDY_FILE = {"numpy", "pydantic", "psycopg", "importlib.metadata"}

STUDY_FILE = """
[study]
name = "s"
budget = "10s"
[target.db]
kind = "postgresql"
url = "postgresql://127.0.0.1:1/postgres"
[workload]
kind = "pgbench"
script = "tpcb-like"
"""


def _loaded(code: str) -> set[str]:
    code = f"import sys\n{code}\nprint(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ast.literal_eval(ran.stderr.splitlines()[-1]))


def _loaded_by(*arguments: str, code: int = 0) -> set[str]:
    return _loaded(
        f"from trimtab.cli import main\ntry:\n    main({list(arguments)!r})\nexcept SystemExit as end:\n"
        f"    assert (end.code or 0) == {code}, end.code"
    )


_EACH_HELP = """
import os
from trimtab.cli import main
for words in {commands!r}:
    if not os.fork():
        sys.stdout = open(os.devnull, "w")
        try:
            main([*words, "--help"])
        except SystemExit as end:
            failed = bool(end.code)
        os._exit(failed or bool(HEAVY & set(sys.modules)))
    assert os.wait()[1] == 0, words
"""


def test_help_loads_nothing_heavy() -> None:
    """Of each command, in a process that has loaded nothing but the table of commands."""
    commands = [[], *([name] for name in COMMANDS)]
    assert _loaded(f"HEAVY = {HEAVY!r}\n{_EACH_HELP.format(commands=commands)}") == set()


@pytest.mark.parametrize("arguments", [("recover",), ("recover", "--check")])
def test_recover_with_nothing_to_do_loads_nothing_heavy(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert _loaded_by(*arguments, "--state", str(tmp_path)) <= {"importlib.metadata"}


def test_recover_loads_what_reaches_the_server_and_nothing_that_searches_or_measures(tmp_path: Path) -> None:
    """The class of the target, with its driver: never statistics, models, or the database of the history."""
    code = (
        "from trimtab import plugins, trial\n"
        "plugins.load('targets', 'postgresql')\n"
        f"import trimtab.study\ntrimtab.study.recover(__import__('pathlib').Path({str(tmp_path)!r}))"
    )
    assert _loaded(code) <= READS_STUDY_FILE


def test_rollback_loads_nothing_heavy(tmp_path: Path) -> None:
    assert _loaded_by("rollback", "tpch", "--state", str(tmp_path), code=2) <= {"importlib.metadata"}


@pytest.mark.parametrize(
    ("command", "more"),
    [
        (("report", "tpch"), {"rich"}),
        pytest.param(("report", "tpch", "--json"), {"rich"}, marks=pytest.mark.full),
        (("history", "list"), set()),
        pytest.param(("history", "show", "tpch"), set(), marks=pytest.mark.full),
    ],
)
def test_who_reads_does_not_load_what_searches(tmp_path: Path, command: tuple[str, ...], more: set[str]) -> None:
    place = tmp_path / "history.db"
    with History.open(place) as history:
        study = history.create_study(**study_values())
        for number in range(3):
            history.add_trial(study.id, make_trial(number))
    assert _loaded_by(*command, "--history", str(place)) <= READS_HISTORY | more


@pytest.mark.parametrize(
    "command", ["doctor", *(pytest.param(each, marks=pytest.mark.full) for each in ("knobs", "advise"))]
)
def test_who_asks_a_server_does_not_load_what_searches(tmp_path: Path, command: str) -> None:
    file = tmp_path / "study.toml"
    file.write_text(STUDY_FILE, encoding="utf-8")
    assert _loaded_by(command, str(file), "--state", str(tmp_path / "state"), code=3) <= READS_STUDY_FILE | {"rich"}


@pytest.mark.parametrize(
    "name", ["tune", *(pytest.param(each, marks=pytest.mark.full) for each in ("bench", "run_design", "find_rate"))]
)
def test_what_measures_has_its_statistics_before_the_load_runs(name: str) -> None:
    """Loaded at first use they would take the processor for half a second in the middle of the first measurement."""
    assert "scipy.special" in _loaded(f"from trimtab.study import {name}")


def _deferring() -> list[str]:
    rooms = Path(trimtab.__file__).parent.glob("*/__init__.py")
    return sorted(path.parent.name for path in rooms if "__getattr__ = deferred(" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("room", _deferring())
def test_a_room_offers_the_names_that_it_lists(room: str) -> None:
    """__init__.py names each public name for type checkers (TYPE_CHECKING), for Python (deferred) and for people (__all__)."""
    package = importlib.import_module(f"trimtab.{room}")
    source = Path(str(package.__file__)).read_text(encoding="utf-8")
    checked, ran, at_once = {}, {}, set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"trimtab.{room}."):
            checked |= {alias.name: str(node.module).removeprefix(f"trimtab.{room}.") for alias in node.names}
        if isinstance(node, ast.Dict):
            for module, names in ast.literal_eval(node).items():
                ran |= dict.fromkeys(names.split(), module)
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom):
            at_once |= {alias.name for alias in node.names}
    assert {name: home for name, home in checked.items() if name not in at_once} == ran
    assert sorted(checked) == sorted(package.__all__)
    for name in package.__all__:
        home = importlib.import_module(f"trimtab.{room}.{checked[name]}")
        assert getattr(package, name) is getattr(home, name)


def test_a_deferred_name_may_not_be_that_of_its_module() -> None:
    with pytest.raises(ValueError, match=r"names=\['bench'\] are names of submodules, too"):
        deferred("trimtab.study", {"bench": "bench BenchResult"})


def test_an_unknown_name_of_a_deferring_room_is_missing() -> None:
    with pytest.raises(AttributeError, match="'trimtab.study' has no attribute 'nothing'"):
        deferred("trimtab.study", {"tuning": "tune"})("nothing")
