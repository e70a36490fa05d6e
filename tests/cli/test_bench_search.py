"""trimtab bench-search: on a study of the history, on a file, and what it says when it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Ran, Run, found_once
from tests.fakes import FakeStudy

pytestmark = pytest.mark.slow


@pytest.fixture
def tuned(run: Run, study: FakeStudy, tmp_path_factory: pytest.TempPathFactory) -> FakeStudy:
    study.text = study.text.replace("12 trials", "16 trials") + "\n[proof]\nablate = false\nadvice = false\n"
    (study.path / "study.toml").write_text(study.written, encoding="utf-8")
    return found_once("bench-search", study, lambda: run("tune", "study.toml", "--quiet"), tmp_path_factory)


def _bench(run: Run, *more: str) -> Ran:
    return run("bench-search", *more, "--searchers", "random,lhs", "--trials", "6", "--repeats", "2")


@pytest.mark.usefixtures("tuned")
def test_it_prints_a_table_and_a_verdict(run: Run) -> None:
    found = _bench(run, "fake")
    assert found.code == 1
    assert found.out.startswith("fake: ")
    assert "a forest fitted to them answers" in found.out
    assert "after 6" in found.out
    assert "but the difference may be chance (2 repeats): give more --repeats" in found.out
    assert "random: " in found.err


@pytest.mark.usefixtures("tuned")
def test_as_json_and_exact(run: Run) -> None:
    found = json.loads(_bench(run, "fake", "--exact", "--json", "--quiet").out)
    assert (found["schema_version"], found["mode"], found["repeats"]) == (1, "exact", 2)
    assert {each["searcher"] for each in found["searchers"]} == {"random", "lhs"}
    assert all(0 <= value <= 1 for each in found["searchers"] for value in each["final"])


@pytest.mark.usefixtures("tuned")
def test_a_file_serves_as_well(run: Run, tmp_path: Path) -> None:
    assert run("history", "export", "fake", "--to", str(tmp_path / "past.jsonl")).code == 0
    found = _bench(run, str(tmp_path / "past.jsonl"), "--exact", "--quiet")
    assert found.code == 1
    assert "the nearest of them answers" in found.out
    assert found.err == ""


@pytest.mark.usefixtures("tuned")
def test_a_study_file_stands_for_its_study(run: Run) -> None:
    assert _bench(run, "study.toml", "--quiet").out.startswith("fake: ")


@pytest.mark.usefixtures("tuned")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody",), "the history holds no study named 'nobody'"),
        (("fake", "--searchers", "best"), "unknown searcher='best'"),
        (("fake", "--repeats", "1"), "1 is not in the range x>=2"),
        (("fake", "--study", "other"), "--study='other' chooses a study of a file, and there is no file='fake'"),
        (("study.toml", "--study", "other"), "--study='other' chooses a study of a file, and there is no file='fake'"),
    ],
)
def test_bad_input_exits_with_2(run: Run, arguments: tuple[str, ...], message: str) -> None:
    found = run("bench-search", *arguments)
    assert found.code == 2
    assert message in found.err
