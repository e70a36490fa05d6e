"""The rooms import one way (DESIGN §3): a rank may import lower ranks only, rooms of one rank do not import each other."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "trimtab"

RANKS = {
    "redact": 0, "errors": 0, "units": 0, "_native": 0, "plugins": 0, "catalog": 0,
    "space": 1, "measure": 1, "host": 1,
    "records": 2,
    "search": 3, "importance": 3, "history": 3, "target": 3, "workload": 3,
    "trial": 4, "report": 4,
    "study": 5, "online": 5,
    "server": 6, "cli": 6, "__main__": 7,
    "testing": 7,
}  # fmt: skip
FOUNDATION = {"errors", "units", "_native", "plugins"}
"""Rank 0 may lean on errors, and errors on redact; nothing else within it."""


def _room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _imports(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" if node.module == "trimtab" else node.module for alias in node.names]
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path.name} uses a relative import"
        rooms |= {name.split(".")[1] for name in names if name.startswith("trimtab.")}
    return rooms - {"__version__"}


FILES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py" or path.parent != SOURCE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    room = _room(path)
    for other in _imports(path) - {room}:
        is_foundation = (room, other) == ("errors", "redact") or (room in FOUNDATION and other == "errors")
        allowed = RANKS[other] < RANKS[room] or is_foundation
        assert allowed, f"{room} (rank {RANKS[room]}) imports {other} (rank {RANKS[other]})"


def test_every_folder_is_a_known_room() -> None:
    rooms = {_room(path) for path in FILES}
    assert rooms <= set(RANKS)


def test_the_root_is_light() -> None:
    """`import trimtab` pulls no third-party library."""
    code = "import sys, trimtab; print(sorted({m.split('.')[0] for m in sys.modules}))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("numpy", "scipy", "sklearn", "sqlalchemy", "psycopg", "pydantic", "plotly", "rich", "click"):
        assert f"'{heavy}'" not in printed


def test_help_imports_no_numeric_library() -> None:
    code = (
        "import sys\nfrom trimtab.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({m.split('.')[0] for m in sys.modules}))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("numpy", "scipy", "sklearn", "sqlalchemy", "psycopg", "pydantic", "plotly"):
        assert f"'{heavy}'" not in printed


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_is_too_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 450


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_file_says_what_it_promises(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
