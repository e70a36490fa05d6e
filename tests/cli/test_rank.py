"""rank on the fakes: what it prints, and what it refuses."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.fakes import FakeStudy
from trimtab.history import History
from trimtab.study import rank_study
from trimtab.study.rank import Ranked

pytestmark = pytest.mark.slow


def test_rank_measures_a_design_and_ranks_it_from_the_history_afterwards(run: Run, study: FakeStudy) -> None:
    study.target._speed = lambda values: 1000.0 * (1.0 + float(values["page_cost"]) / 8)
    ran = run("rank", "study.toml", "--design", "lhs", "--runs", "24", "--ranker", "lasso", "--html", "rank.html")
    assert ran.code == 0
    assert "trial 0 (baseline): ok" in ran.err
    assert ran.out.startswith("Which knobs of fake.rank-lhs matter: ")
    assert "Tune the first" in ran.out
    assert "--- tune the first" in ran.out
    assert "<html" in (study.path / "rank.html").read_text(encoding="utf-8")
    n_runs = len(study.workload.seeds)
    shown = run("rank", "fake", "--ranker", "lasso", "--top", "1")
    assert shown.code == 0
    assert "page_cost" in shown.out
    assert "and 5 knobs more" in shown.out
    assert all(line == line.rstrip() for line in shown.out.splitlines()), (
        "blanks at the end are noise in files and mail"
    )
    data = json.loads(run("rank", "study.toml", "--ranker", "lasso", "--json").out)
    assert (data["schema_version"], data["study"], data["verdict"]) == (1, "fake.rank-lhs", "")
    assert data["knobs"][0]["knob"] == "page_cost"
    assert set(data["rankers"]) == {"lasso"}
    assert len(study.workload.seeds) == n_runs
    assert run("rank", "study.toml", "--design", "sobol", "--runs", "8", "--ranker", "lasso", "--quiet").code in (0, 1)
    both = run("rank", "fake", "--with", "fake.rank-lhs", "--ranker", "lasso", "--html", "rank.html")
    assert " of fake.rank-sobol, fake.rank-lhs; by lasso" in both.out
    page = (study.path / "rank.html").read_text(encoding="utf-8")
    assert "<dt>studies</dt><dd>fake.rank-sobol, fake.rank-lhs</dd>" in page


def test_rank_of_noise_exits_1_and_says_what_to_run_next(run: Run, study: FakeStudy) -> None:
    study.target._speed = lambda values: 1000.0
    ran = run("rank", "study.toml", "--design", "lhs", "--runs", "12", "--ranker", "forest", "--quiet")
    assert (ran.code, ran.err) == (1, "")
    assert "not enough data to tell" in ran.out
    assert "to learn more: trimtab rank study.toml --design lhs --runs 30" in ran.out
    assert "--- tune the first" not in ran.out
    state = str(study.path / "state")
    study.path.joinpath("state").rename(study.path / "of mine")
    study.path.joinpath("study.toml").rename(study.path / "my study.toml")
    ran = run("rank", "my study.toml", "--ranker", "forest", "--state", str(study.path / "of mine"))
    assert f"--design lhs --runs 30 --state '{state.removesuffix('state')}of mine'" in " ".join(ran.out.split())
    assert "trimtab rank 'my study.toml' --design" in ran.out
    ran = run("rank", "my study.toml", "--ranker", "forest", "--history", str(study.path / "of mine" / "history.db"))
    place = shlex.quote(str(study.path / "of mine" / "history.db"))
    assert f"--design lhs --runs 30 --history {place}" in " ".join(ran.out.split())


def test_rank_of_too_few_configs_exits_1_as_its_help_says(
    run: Run, study: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run("rank", "study.toml", "--design", "one-at-a-time", "--runs", "6", "--quiet", "--html", "rank.html")
    assert (ran.code, ran.err) == (1, "wrote rank.html\n")
    assert "not enough data to tell: n_configs=" in ran.out
    assert "different measured configs are too few to rank n_knobs=6: at least 8 are needed" in " ".join(
        ran.out.split()
    )
    assert "to learn more: trimtab rank study.toml --design one-at-a-time --runs 30" in ran.out
    assert "Not enough data to tell" in (study.path / "rank.html").read_text(encoding="utf-8")
    full = run("rank", "fake", "--html", "/dev/full")
    assert (full.code, "not enough data to tell: " in full.out) == (3, True), "a full disk does not cost the result"
    data = json.loads(run("rank", "fake", "--json").out)
    assert (data["knobs"], data["rankers"], data["next"]) == ([], {}, "trimtab rank STUDY.toml --design lhs --runs 30")
    assert "Exit code 0: the knobs could be ranked; 1: not enough data to tell." in " ".join(
        run("rank", "--help").out.split()
    )

    def of_a_session(*arguments: Any, **options: Any) -> Ranked:
        found = rank_study(*arguments, **options)
        return replace(found, record=replace(found.record, settings={"session": {"name": "fake"}}))

    monkeypatch.setattr("trimtab.study.rank_study", of_a_session)
    assert json.loads(run("rank", "fake", "--json").out)["next"] == "", "there is no study file to give"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("study.toml", "--runs", "20"), "--runs 20 without --design", "say which: --design lhs, sobol, sard"),
        (("study.toml", "--again"), "--again without --design", "say which: --design lhs, sobol, sard"),
        (
            ("fake", "--design", "lhs"),
            "--design lhs measures, and 'fake' names no study file",
            "trimtab rank STUDY.toml",
        ),
        (("study.toml", "--design", "lhs", "--runs", "5"), "runs=5 are too few for design='lhs'", "ask for 8 or more"),
        (("study.toml", "--design", "plackett"), "unknown design='plackett'", "use one of: sard, lhs, sobol"),
        (("study.toml", "--ranker", "shaply"), "unknown ranker='shaply'", "did you mean 'shapley'?"),
        (("study.toml",), "the history holds no study named 'fake'", "it is empty"),
        (("nobody.toml",), "there is no study file='nobody.toml'", "`trimtab init` writes one"),
    ],
)
def test_rank_refuses_what_makes_no_sense(
    run: Run, study: FakeStudy, arguments: tuple[str, ...], message: str, hint: str
) -> None:
    History.open(study.path / "state" / "history.db").close()
    ran = run("rank", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert hint in ran.err
    assert not study.workload.seeds
