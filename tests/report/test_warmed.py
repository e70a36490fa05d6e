"""A warm start in the report: which past studies served, and whose prior was dropped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.report.conftest import Study, changed
from tests.report.test_html import read
from tests.report.test_lines import squeezed
from trimtab.history import read_verdict
from trimtab.report import render_html, report_text, to_json
from trimtab.report.warmed import warm_lines


def _past(name: str, nearness: float, n_trials: int, dropped: str = "") -> dict[str, Any]:
    return {"id": 3, "study": name, "name": name, "nearness": nearness, "n_trials": n_trials, "dropped": dropped}


JUNE, JULY = _past("june", 0.931, 52), _past("july", 0.5, 1, "it orders pairs no better than chance")
SERVED = "warm start from study june (nearness 0.93, 52 trials)"


@pytest.mark.parametrize(
    ("warm", "lines"),
    [
        ({}, ()),
        ({"studies": [], "n_asks": 0}, ()),
        ({"studies": [JUNE], "n_asks": 9}, (f"{SERVED}; no prior was dropped",)),
        ({"studies": [JUNE], "n_asks": 0}, (SERVED,)),
        ({"studies": [{key: JUNE[key] for key in JUNE if key != "dropped"}]}, (SERVED,)),
        (
            {"studies": [JUNE, JULY], "n_asks": 9},
            (
                "warm start from studies june (nearness 0.93, 52 trials), july (nearness 0.50, 1 trial)",
                "prior dropped: july (it orders pairs no better than chance)",
            ),
        ),
    ],
)
def test_the_lines(warm: dict[str, Any], lines: tuple[str, ...]) -> None:
    assert warm_lines(read_verdict({"warm_start": warm})) == lines


def test_text_page_and_json_say_it(no_improvement: Study) -> None:
    study, trials = no_improvement
    assert "warm start" not in report_text(study, trials)
    assert "arm start" not in read(render_html(study, trials)).text
    study = changed(study, warm_start={"studies": [JULY], "n_asks": 4})
    text, page = squeezed(report_text(study, trials)), squeezed(read(render_html(study, trials)).text)
    assert "warm start from study july (nearness 0.50, 1 trial) prior dropped: july (it orders" in text
    assert "Warm start from study july (nearness 0.50, 1 trial). Prior dropped: july (it orders" in page
    assert to_json(study, trials)["summary"]["warm_start"] == list(warm_lines(study.verdict))


def test_a_hostile_name_stays_text(no_improvement: Study) -> None:
    study, trials = no_improvement
    evil = _past("\x1b[31m<script>alert(1)</script>", 1.0, 2, "\x1b]0;owned\x07because")
    study = changed(study, warm_start={"studies": [evil], "n_asks": 1})
    assert "\x1b" not in report_text(study, trials)
    assert "<script>alert(1)" not in render_html(study, trials)
