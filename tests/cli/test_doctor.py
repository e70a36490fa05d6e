"""`trimtab doctor` on the fakes: what it says of a study before it runs."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Run
from tests.fakes import FakeStudy


def test_doctor_says_what_is_fine(run: Run, study: FakeStudy) -> None:
    ran = run("doctor", "study.toml")
    assert ran.code == 0
    assert "ok    server: a fake" in ran.out
    study.target.disk.is_up = False
    ran = run("doctor", "study.toml")
    assert ran.code == 1
    assert "FAIL  server: a fake" in ran.out
    found = json.loads(run("doctor", "study.toml", "--json").out)
    assert (found["is_fine"], found["checks"][0]["verdict"]) == (False, "fail")


def test_doctor_notes_a_baseline_that_breaks_a_constraint(run: Run, study: FakeStudy) -> None:
    study.target.disk.running["cache"] = 2000
    ran = run("doctor", "study.toml")
    assert ran.code == 0
    assert "note  running config: memory budget" in ran.out
    assert "; it is measured anyway\n" in ran.out
    found = json.loads(run("doctor", "study.toml", "--json").out)
    assert found["is_fine"] is True
    assert {row["check"]: row["verdict"] for row in found["checks"]}["running config"] == "note"


def test_doctor_notes_a_state_directory_that_a_power_cut_takes(
    run: Run, study: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "state directory" not in run("doctor", "study.toml").out
    monkeypatch.setattr("trimtab.study.first.mount_of", lambda folder: SimpleNamespace(kind="tmpfs"))
    ran = run("doctor", "study.toml")
    assert ran.code == 0
    assert f"note  state directory: state={str(study.path / 'state')!r} lies in memory (tmpfs): a power cut" in ran.out


def test_doctor_says_what_tune_would_refuse(run: Run, study: FakeStudy) -> None:
    assert "ok    budget: 12 trials\nok    search: searcher auto\n" in run("doctor", "study.toml").out
    text = f'{study.text}\n[search]\nsearcher = "randon"\n'
    (study.path / "study.toml").write_text(text, encoding="utf-8")
    ran = run("doctor", "study.toml", "--json")
    assert ran.code == 1
    (search,) = [row for row in json.loads(ran.out)["checks"] if row["verdict"] == "fail"]
    assert search["check"] == "search"
    assert search["text"].startswith("no plug-in 'randon' in searchers; did you mean 'random'? use one of: ")
    assert study.target.counts["apply"] == 0
    short = study.text.replace("12 trials", "1s")
    (study.path / "study.toml").write_text(short, encoding="utf-8")
    ran = run("doctor", "study.toml")
    assert ran.code == 1
    assert (
        "FAIL  budget: budget=1s is too short: 3 runs of the baseline, one config and its proof take at least "
        in ran.out
    )


@pytest.mark.needs("optuna")
def test_doctor_misses_a_library_that_a_sampler_imports_late(
    run: Run, study: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cmaes", None)
    text = f'{study.text}\n[search]\nsearcher = "optuna"\nsampler = "CmaEsSampler"\n'
    (study.path / "study.toml").write_text(text, encoding="utf-8")
    ran = run("doctor", "study.toml")
    assert ran.code == 1
    assert "FAIL  search: sampler='CmaEsSampler' of Optuna needs the library cmaes: " in ran.out


def test_doctor_notes_a_password_that_a_later_command_would_not_have(
    run: Run, study: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study runs all the same."""
    found = ("recover", False, "the password is only in url: ...")
    monkeypatch.setattr(study.target, "doctor", lambda: (("server", True, "a fake"), found))
    ran = run("doctor", "study.toml")
    assert ran.code == 0
    assert "note  recover: the password is only in url" in ran.out
