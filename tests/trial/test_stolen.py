"""A run from which the hypervisor took much more than from others is made again, once, and only where it would be believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trial.test_room import Bench
from trimtab.records import Role, Status
from trimtab.trial import MeasurePlan, runs
from trimtab.trial.stolen import StolenTime

PLAN = MeasurePlan(window_s=5, window_max_s=5, warmup_floor_s=0, warmup_cap_s=10)


def result(share: float | None, **others: Any) -> Any:
    """What a run on two cores showed."""
    steal = None if share is None else 2 * share
    return SimpleNamespace(
        **{"breach": None, "measurement": SimpleNamespace(steal_share=steal, generators=()), **others}
    )


def test_a_run_of_which_much_was_stolen_is_made_again_once() -> None:
    said: list[str] = []
    stolen = StolenTime(said.append, n_cores=2)
    assert not any(stolen.spoils(Status.OK, result(0.01)) for _ in range(4))
    assert stolen.spoils(Status.OK, result(0.18))
    assert said == ["the hypervisor took 18 % of this machine's CPU from the run: it is repeated"]
    assert not stolen.spoils(Status.OK, result(0.3)), "the second run of a trial stands"
    assert stolen.spoils(Status.STOPPED_EARLY, result(0.3)), "that of the next trial does not"


def test_where_much_is_always_stolen_another_run_would_be_no_better() -> None:
    stolen = StolenTime(lambda text: None, n_cores=2)
    assert [stolen.spoils(Status.OK, result(share)) for share in (0.2, 0.2, 0.2, 0.25, 0.45)] == [
        True, False, False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "run"),
    [
        (Status.CRASHED, result(0.5)),
        (Status.FAILED_LOAD, result(0.5)),
        (Status.OK, result(0.5, breach=object())),
        (Status.OK, result(None)),
        (Status.OK, result(0.5, measurement=None)),
        (Status.OK, result(0.5, measurement=SimpleNamespace(steal_share=1.0, generators=("far",)))),
    ],
)
def test_what_is_no_measurement_of_this_machine_is_not_judged(status: Status, run: Any) -> None:
    assert not StolenTime(lambda text: None, n_cores=2).spoils(status, run)


def test_the_trial_has_the_run_that_was_not_disturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, said, shares, throughputs = Bench(tmp_path), list[str](), [0.9, 0.0], list[float]()
    measure = runs.measure_load

    def disturbed(*arguments: Any, **options: Any) -> Any:
        found = measure(*arguments, **options)
        assert found.measurement is not None
        throughputs.append(found.measurement.throughput.estimate)
        return replace(found, measurement=replace(found.measurement, steal_share=shares.pop(0)))

    monkeypatch.setattr(runs, "measure_load", disturbed)
    monkeypatch.setattr("trimtab.trial.stolen.os.cpu_count", lambda: 2)
    with bench.room(say=said.append) as room:
        trial = room.run(bench.baseline.replace({"cache": 256}), number=0, role=Role.SEARCH, seed=1, plan=PLAN)
    assert trial.measurement is not None
    assert trial.measurement.throughput.estimate == throughputs[1] != throughputs[0]
    assert "failed" in trial.cost_s, "the first run counts for nothing"
    assert said == ["the hypervisor took 45 % of this machine's CPU from the run: it is repeated"]
