"""What is run again in CI, and what is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import again

REPOSITORY = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("code", "nodes", "is_ci", "reason"),
    [
        (1, ["a.py::test"], True, ""),
        (1, ["a.py::test"], False, "in CI only"),
        (2, ["a.py::test"], True, "exit code 2"),
        (3, ["a.py::test"], True, "exit code 3"),
        (1, [], True, "not one of single tests"),
        (1, ["a.py"], True, "not one of single tests"),  # a file that could not be collected
        (1, [f"a.py::test_{i}" for i in range(again.MOST + 1)], True, "4 tests failed"),
    ],
)
def test_only_a_few_failed_tests_of_ci_are_run_again(code: int, nodes: list[str], is_ci: bool, reason: str) -> None:
    found = again.why_not(code, nodes, is_ci)
    assert reason in found
    assert bool(reason) == bool(found)


def _run(
    folder: Path, body: str, *, ci: str = "true", cache: str = ".pytest_cache"
) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(f"import pathlib\nimport pytest\n\n{body}\n", encoding="utf-8")
    environment = {
        "CI": ci, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }  # fmt: skip
    suite = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", "test_it.py"]
    first = subprocess.run(suite, cwd=folder, env=environment, capture_output=True, check=False)
    command = [sys.executable, "-m", "tests.again", str(first.returncode), cache]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


_ONCE = """
def test_once():
    seen = pathlib.Path("seen")
    n = len(seen.read_text()) if seen.exists() else 0
    seen.write_text("x" * (n + 1))
    assert n not in {bad}
"""


@pytest.mark.slow
def test_a_failure_that_never_comes_back_is_told_and_passes(tmp_path: Path) -> None:
    ran = _run(tmp_path, _ONCE.format(bad=(0,)))
    assert ran.returncode == 0
    assert "UNSTEADY: test_it.py::test_once" in ran.stdout
    assert again.failed_nodes(tmp_path / ".pytest_cache") == []  # the next stage begins with failures of its own


@pytest.mark.slow
def test_a_failure_that_comes_back_at_the_last_run_fails(tmp_path: Path) -> None:
    """Of a stage that runs with others at the same time, and has a cache to itself."""
    ran = _run(tmp_path, _ONCE.format(bad=(0, again.RUNS)), cache="caches/unit")
    assert ran.returncode == 1
    assert "FAILED AGAIN, alone: test_it.py::test_once" in ran.stdout


def test_what_does_not_end_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "v/cache").mkdir(parents=True)
    (tmp_path / "v/cache/lastfailed").write_text('{"test_it.py::test_it": true}')
    run = subprocess.run
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(subprocess, "run", lambda command, **options: run(["sleep", "60"], **options))
    monkeypatch.setattr(again, "LONGEST_S", 0.1)
    assert again.main(["1", str(tmp_path)]) == 1
    assert "it did not end within 0.1 s\nFAILED AGAIN, alone: test_it.py::test_it" in capsys.readouterr().out


@pytest.mark.slow
def test_on_a_developers_machine_the_first_failure_stands(tmp_path: Path) -> None:
    ran = _run(tmp_path, _ONCE.format(bad=(0,)), ci="")
    assert ran.returncode == 1
    assert json.loads((tmp_path / ".pytest_cache/v/cache/lastfailed").read_text()) == {"test_it.py::test_once": True}


@pytest.mark.slow
def test_a_file_that_cannot_be_imported_is_not_run_again(tmp_path: Path) -> None:
    assert _run(tmp_path, "import nothing_of_that_name").returncode == 2
