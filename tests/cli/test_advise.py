"""trimtab advise: a config that nobody has measured, and whose it is."""

from __future__ import annotations

from tests.cli.conftest import Run
from tests.fakes import FakeStudy


def test_advise_prints_a_fragment_on_stdout(run: Run, study: FakeStudy) -> None:
    ran = run("advise", "study.toml")
    assert ran.code == 0
    assert "cache = " in ran.out
    assert "not measured" in ran.err
    assert study.target.counts["apply"] == 0


def test_advise_says_whose_advice_it_is_and_what_of_it_does_not_fit(run: Run, study: FakeStudy) -> None:
    path = study.path / "study.toml"
    path.write_text(study.written + "\n[search]\nadvice = { cache = '2GB', sort_memory = 8 }\n", encoding="utf-8")
    ran = run("advise", "study.toml")
    assert "2 settings from your [search] advice, not measured" in ran.err
    assert "search.advice breaks a constraint (memory budget: " in ran.err
    assert ", not 2GB" in ran.err
