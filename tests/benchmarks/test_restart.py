"""What a restart costs a trial: seconds by what they were for, and the first run beside the last one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.bench_modules import BENCHMARKS, bench_modules
from tests.history.samples import make_trial
from trimtab.measure import Interval
from trimtab.records import Trial


@pytest.fixture(scope="module")
def run() -> Iterator[Any]:
    """The script; its folder is no package."""
    with bench_modules(BENCHMARKS / "restart", "run", "turns", "stamp") as found:
        yield found["run"]


def _trial(throughput: float, **cost_s: float) -> Trial:
    trial = make_trial(0, cost_s={name.replace("__", "."): seconds for name, seconds in cost_s.items()})
    assert trial.measurement is not None
    interval = Interval(throughput, throughput, throughput)
    return replace(trial, measurement=replace(trial.measurement, throughput=interval))


def test_seconds_and_the_ratio_of_a_case(run: Any) -> None:
    rounds = [
        run._round(
            [
                _trial(90.0 * speed, apply__app=16.0, reset=6.0, warmup__app=50.0, warmup=2.0),
                _trial(100.0 * speed, apply=0.1, reset=2.0),
                _trial(7.0, apply=0.5, reset=1.5),
            ]
        )
        for speed in (1.0, 2.0, 1.5)
    ]
    assert rounds[0] == {
        "throughput_per_s": [90.0, 100.0], "restart_s": 16.0, "data_s": 6.0, "warmup_s": 52.0, "live_change_s": 0.5,
        "data_again_s": 1.5,
    }  # fmt: skip
    summary = run._summary(rounds)
    assert summary["first_over_last"]["estimate"] == pytest.approx(0.9)
    text = run.table({"x": {"rounds": rounds, **summary}})
    assert "| x | 16 (16 to 16) | 6 (6 to 6) | 52 (52 to 52) | 1.5 (1.5 to 1.5) | 0.5 (0.5 to 0.5) | 0.90 (" in text
    assert "| – |" in run.table({"x": {"rounds": rounds[:1], **run._summary(rounds[:1])}})


@pytest.mark.parametrize("name", ["cassandra", "tomcat"])
def test_each_case_is_an_example_with_the_setting_that_restarts(run: Any, name: str) -> None:
    case = run.CASES[name]
    file = run.study_of(case)
    assert "CICompilerCount" in file.target[case.tier]["knobs"]
    assert file.measure.window == file.measure.window_max
    assert file.measure.warmup_cap == "3min"


@pytest.mark.parametrize("words", [["--rounds", "0"], ["--runs", "-1"], ["--case", "oracle"]])
def test_what_cannot_be_run_is_refused_before_a_server_starts(
    run: Any, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run.main(words)
    assert ended.value.code == 2
    assert words[0].strip("-") in capsys.readouterr().err
