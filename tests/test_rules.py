"""The rules of the suite, on a small suite of their own: what skips in CI, what is left out, what costs too much."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs
from tests.rules import LONG, WHOLE, allowed_skips, cannot_hold, dealt, is_allowed

ROOT = Path(__file__).parents[1]
CONFTEST = """
import tests.rules as rules
from tests import needs

needs.NEEDS["unobtainium"] = needs.Need("unobtainium", lambda: "none is left", "make unobtainium")
rules.ALLOWED = rules.Path(__file__).with_name("allowed.txt")
rules.FAST_CPU_S = 0.2
for name in dir(rules):
    if name.startswith("pytest_"):
        globals()[name] = getattr(rules, name)
"""
SUITE = """
import time
import pytest
from tests import needs

def burn():
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass

@pytest.mark.needs("unobtainium")
def test_marked(): ...

def test_required():
    needs.require("unobtainium")

def test_skips_by_itself():
    pytest.skip("no mood")

def test_allowed():
    pytest.skip("the moon is full")

def test_expected_to_fail():
    pytest.xfail("known")

@pytest.mark.full
def test_long(): ...

def test_burns():
    burn()

@pytest.mark.slow
def test_burns_and_says_so():
    burn()

def test_sleeps():
    time.sleep(0.3)
"""


def outcomes(folder: Path, **environment: str) -> dict[str, str]:
    """Name of each test and module -> its last word in `pytest -rA`."""
    folder.joinpath("conftest.py").write_text(CONFTEST)
    folder.joinpath("test_suite.py").write_text(SUITE)
    folder.joinpath("test_module.py").write_text('import pytest\npytest.skip("whole", allow_module_level=True)\n')
    folder.joinpath("allowed.txt").write_text("# why\n*::test_allowed: the moon is\n")
    folder.joinpath("pytest.ini").write_text("[pytest]\nmarkers =\n slow\n service\n full\n needs\n")
    clean = {name: value for name, value in os.environ.items() if name not in ("CI", "TRIMTAB_TESTS", "PYTEST_ADDOPTS")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--continue-on-collection-errors", "."],
        cwd=folder, env={**clean, **environment, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = dict(re.findall(r"test_suite.py::(\w+) (\w+)", done.stdout))
    return found | {"module": "ERROR" if "ERROR collecting test_module.py" in done.stdout else "SKIPPED"}


@pytest.mark.slow
def test_a_laptop_skips_with_a_reason(tmp_path: Path) -> None:
    assert outcomes(tmp_path) == {
        "test_marked": "SKIPPED", "test_required": "SKIPPED", "test_skips_by_itself": "SKIPPED", "test_allowed": "SKIPPED",
        "test_expected_to_fail": "XFAIL", "test_burns": "PASSED", "test_burns_and_says_so": "PASSED",
        "test_sleeps": "PASSED", "module": "SKIPPED",
    }  # fmt: skip


@pytest.mark.slow
def test_in_ci_only_a_listed_skip_passes_and_a_fast_test_is_fast(tmp_path: Path) -> None:
    assert outcomes(tmp_path, CI="true") == {
        "test_marked": "ERROR", "test_required": "FAILED", "test_skips_by_itself": "FAILED", "test_allowed": "SKIPPED",
        "test_expected_to_fail": "XFAIL", "test_burns": "FAILED", "test_burns_and_says_so": "PASSED",
        "test_sleeps": "PASSED", "module": "ERROR",
    }  # fmt: skip


@pytest.mark.slow
def test_the_long_form_adds_its_tests(tmp_path: Path) -> None:
    assert outcomes(tmp_path, TRIMTAB_TESTS="full")["test_long"] == "PASSED"


def test_a_rule_allows_one_reason_of_one_test() -> None:
    rules = allowed_skips("# a comment\n\ntests/a.py::test_*: no x\n")
    assert rules == [("tests/a.py::test_*", "no x")]
    assert is_allowed("tests/a.py::test_b[1]", "no x here", rules)
    assert not is_allowed("tests/a.py::test_b", "no y", rules)
    assert not is_allowed("tests/b.py::test_b", "no x", rules)


def test_what_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = {"x": needs.Need("an x", lambda: "no x on the PATH", "make x"), "y": needs.Need("a y", lambda: None)}
    monkeypatch.setattr(needs, "NEEDS", nothing)
    needs.why_missing.cache_clear()
    assert needs.why_missing("x") == "needs an x: no x on the PATH (install: make x)"
    assert needs.why_missing("y") is None
    assert needs.main() == 1
    with pytest.raises(pytest.skip.Exception, match="needs an x"):
        needs.require("y", "x")
    needs.why_missing.cache_clear()


def test_no_test_skips_past_the_one_place() -> None:
    """`skipif` and `importorskip` know nothing of CI's list; only tests/needs.py asks what the machine has."""
    own = {"needs.py", "test_rules.py", "again.py", "test_again.py"}  # the latter decide on no skip
    wrong = re.compile(r"mark\.skipif|importorskip|environ.*[\"']CI[\"']")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "tests").rglob("*.py")
        if path.name not in own
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if wrong.search(line)
    ]
    assert found == []


def test_long_tests_come_first_and_are_dealt_over_the_workers() -> None:
    names = [f"{'long' if number in (3, 7, 9) else 'short'} {number}" for number in range(10)]
    found = dealt(names, 2, lambda name: name.startswith("long"))
    assert sorted(found) == sorted(names)
    assert found[:2] == ["long 3", "long 9"]
    assert found[5] == "long 7"
    assert [name for name in found if name.startswith("short")] == [name for name in names if name.startswith("short")]
    assert dealt([], 4, bool) == []


def test_tests_that_share_a_server_are_dealt_to_one_worker() -> None:
    names = [f"{'abc'[number % 3]} {number}" for number in range(20)]
    found = dealt(names, 3, lambda name: name == "c 11", lambda name: "" if name[0] == "c" else name[0])
    assert sorted(found) == sorted(names)
    runs = [found[:6], found[6:13], found[13:]]  # as xdist cuts 20 tests for 3 workers
    assert runs[0][0] == "c 11"
    assert [name[0] for name in runs[1]] == ["b"] * 7
    assert [name[0] for name in runs[2]] == ["a"] * 7


def test_files_that_are_dealt_in_their_own_way_are_there() -> None:
    assert [name for name in (*LONG, *WHOLE) if not (ROOT / name).is_file()] == []


def test_every_folder_with_a_test_on_servers_is_in_the_stage_of_services() -> None:
    (folders,) = re.findall(r"^SERVICE := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    marked = [
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("*.py")
        if "pytest.mark.service" in path.read_text(encoding="utf-8") and path != Path(__file__)
    ]
    assert len(marked) > 50
    assert {"/".join(path.parts[:2]) for path in marked} == set(folders.split())


@pytest.mark.parametrize(
    ("text", "conftest", "wanted", "is_left_out"),
    [
        ("def test_a(): ...", "", "service", True),
        ("@pytest.mark.service\ndef test_a(): ...", "", "service", False),
        ("def test_a(server): ...", "params=[pytest.param(1, marks=pytest.mark.service)]", "service", False),
        ("pytestmark = [pytest.mark.service, pytest.mark.slow]", "", "not service", True),
        ("pytestmark = pytest.mark.slow", "", "not service", False),
        ("pytestmark = pytest.mark.slow", "", "not service and not slow", True),
        ("@pytest.mark.service\ndef test_a(): ...", "", "not service", False),
        ("pytestmark = pytest.mark.service", "", "service or slow", False),
    ],
)
def test_only_files_without_a_wanted_test_are_left_out(
    text: str, conftest: str, wanted: str, is_left_out: bool
) -> None:
    assert cannot_hold(text, conftest, wanted) is is_left_out
