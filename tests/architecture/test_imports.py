"""The rooms import one way (DESIGN §3): a rank may import lower ranks only, rooms of one rank do not import each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import PACKAGE, source_of_file

RANKS = {
    "redact": 0, "errors": 0, "units": 0, "_native": 0, "plugins": 0, "deferred": 0, "catalog": 0, "jsonable": 0, "threads": 0,
    "space": 1, "measure": 1, "host": 1, "load": 1,
    "records": 2,
    "model": 2.5,
    "search": 3, "importance": 3, "history": 3, "systems": 3, "workload": 3,
    "trial": 4, "report": 4, "flow": 4,
    "study": 5, "online": 5, "session": 5,
    "client": 1,
    "serve": 6, "cli": 6.5, "__main__": 7,
    "testing": 7,
}  # fmt: skip
ROOT = Path(__file__).parents[2]
FOUNDATION = {"errors", "units", "_native", "plugins"}
"""Rank 0 may lean on errors, and errors on redact; nothing else within it."""


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path) -> set[str]:
    source = source_of_file(path)
    assert not source.is_relative, f"{path.name} uses a relative import"
    return {name.split(".")[1] for name in source.imports if name.startswith("trimtab.")} - {"__version__"}


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py" or path.parent != PACKAGE)


@pytest.mark.slow
def test_imports_point_one_way() -> None:
    wrong = []
    for path in FILES:
        room = _room(path)
        for other in _imports(path) - {room}:
            is_foundation = (room, other) == ("errors", "redact") or (room in FOUNDATION and other == "errors")
            if not (RANKS[other] < RANKS[room] or is_foundation):
                name = path.relative_to(PACKAGE)
                wrong.append(f"{name}: {room} (rank {RANKS[room]}) imports {other} (rank {RANKS[other]})")
    assert wrong == []


def _modules(path: Path) -> set[str]:
    """First names of all modules that a file imports, wherever in it."""
    return {name.split(".")[0] for name in source_of_file(path).imports}


def test_a_flow_has_no_clock_file_or_socket() -> None:
    """What a study decides is a function of its task and its trials; so it can be replayed, and asked over a wire."""
    rooms = {
        "space",
        "measure",
        "records",
        "model",
        "search",
        "importance",
        "errors",
        "units",
        "deferred",
        "threads",
        "flow",
    }
    plain = {
        "__future__", "collections", "dataclasses", "enum", "functools", "itertools", "math", "numpy", "re", "scipy",
        "trimtab", "typing",
    }  # fmt: skip
    files = [path for path in FILES if _room(path) == "flow"]
    assert len(files) > 10
    wrong = {path.name: (_modules(path) - plain) | (_imports(path) - rooms) for path in files}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_every_folder_is_a_known_room() -> None:
    rooms = {_room(path) for path in FILES}
    assert rooms <= set(RANKS)


def test_the_root_is_light() -> None:
    """`import trimtab` pulls no third-party library."""
    code = "import sys, trimtab; print(sorted({m.split('.')[0] for m in sys.modules}))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("numpy", "scipy", "sklearn", "sqlalchemy", "psycopg", "pydantic", "rich", "click"):
        assert f"'{heavy}'" not in printed


def test_help_imports_no_numeric_library() -> None:
    code = (
        "import sys\nfrom trimtab.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({m.split('.')[0] for m in sys.modules}))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("numpy", "scipy", "sklearn", "sqlalchemy", "psycopg", "pydantic"):
        assert f"'{heavy}'" not in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "heavy"),
    [
        (["recover"], 0, ("numpy", "sqlalchemy", "psycopg", "pydantic", "rich", "importlib.metadata", "email.message")),
        (["rollback", "x"], 2, ("numpy", "sqlalchemy", "psycopg", "pydantic", "rich", "importlib.metadata")),
        (
            ["catalog", "check", "examples/catalogs/zstd.toml"],
            0,
            ("scipy.optimize", "sqlalchemy", "rich", "urllib.request"),
        ),
    ],
    ids=["recover", "rollback", "catalog check"],
)
def test_commands_load_what_they_need(tmp_path: Path, arguments: list[str], code: int, heavy: tuple[str, ...]) -> None:
    """The way back first of all: it is taken while a server is down."""
    script = (
        f"import sys\nfrom trimtab.cli import main\ntry:\n    main({arguments!r})\n"
        f"except SystemExit as end:\n    print(end.code)\nprint([each for each in {heavy!r} if each in sys.modules])"
    )
    env = {**os.environ, "TRIMTAB_STATE": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env, cwd=ROOT)
    assert ran.stdout.splitlines()[-2:] == [str(code), "[]"], ran.stdout + ran.stderr


def test_no_file_is_too_long() -> None:
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: length for name, length in lengths.items() if length > 450} == {}


def test_every_file_says_what_it_promises() -> None:
    silent = [path for path in FILES if not source_of_file(path).has_docstring]
    assert [str(path.relative_to(PACKAGE)) for path in silent] == []


def test_every_folder_of_tests_is_a_package() -> None:
    """Else two rooms cannot have a file of one name, and the whole suite is not collected."""
    tests = Path(__file__).parents[1]
    folders = {path.parent for path in tests.rglob("test_*.py")}
    assert [str(folder.relative_to(tests)) for folder in folders if not (folder / "__init__.py").exists()] == []
