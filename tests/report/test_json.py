"""The report as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from tests.report.conftest import BASELINE, CRASH, Study, record, trial
from trimtab.jsonable import strict
from trimtab.records import Role
from trimtab.report import to_json


def test_everything_is_strict_json(better: Study) -> None:
    values = to_json(*better)
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert list(values) == ["schema_version", "study", "summary", "importance", "trials"]
    assert values["schema_version"] == 1


def test_the_summary_is_what_the_text_says(better: Study) -> None:
    summary = to_json(*better)["summary"]
    assert summary["result"] == "better"
    assert summary["gain"] == {"estimate": 1.82, "low": 1.61, "high": 2.05, "level": 0.95}
    assert summary["settings"][2] == {
        "knob": "shared_buffers",
        "old": "128MB",
        "new": "512MB",
        "restart": "restart",
        "safety": "performance",
        "doc": "memory for pages shared by all connections",
    }
    assert summary["by_status"] == {"ok": 30, "crashed": 2, "stopped_early": 2, "infeasible": 1}


def test_trials_are_complete_save_for_bytes(better: Study) -> None:
    found = to_json(*better)["trials"]
    assert len(found) == 35
    assert found[3]["config"]["shared_buffers"] == 32768
    assert found[3]["measurement"]["by_label"]["q6"]["n_ok"] == 80
    assert not {"histogram", "log"} & set(found[3]["measurement"])
    assert found[6]["measurement"] is None


def test_what_is_not_finite_is_null() -> None:
    odd = trial(0, Role.SEARCH, BASELINE, 1.2, loss=math.nan, loss_se=math.inf)
    values = to_json(record({"result": "no_improvement", "noise_floor": math.nan}), [odd])
    assert values["trials"][0]["loss"] is None
    assert values["trials"][0]["loss_se"] is None
    assert values["summary"]["noise_floor"] is None
    assert values["summary"]["best"] is None
    json.dumps(values, allow_nan=False)


def test_hostile_strings_survive_as_data(hostile: Study) -> None:
    study, trials = hostile
    values = json.loads(json.dumps(to_json(study, trials)))
    assert values["study"]["name"] == study.name
    assert values["trials"][2]["reason"] == trials[2].reason


def test_strict_takes_every_kind_of_value() -> None:
    value = MappingProxyType({1: (np.float64(0.5), True, None, 3, -math.inf)})
    assert json.dumps(strict(value)) == '{"1": [0.5, true, null, 3, null]}'


def test_the_lines_of_the_server_are_with_the_failure_that_they_explain(better: Study) -> None:
    crashed = to_json(*better)["summary"]["failures"][0]
    assert (crashed["reason"], crashed["numbers"]) == ("the server did not start", [6, 11])
    assert crashed["log"] == CRASH.splitlines()[1:]


@pytest.mark.parametrize("status", ["running", "interrupted", "stopped", "no_improvement", "benched"])
def test_a_study_without_a_verdict_is_not_said_to_run(running: Study, status: str) -> None:
    """Such is one that an error has ended, or that came from a CSV file."""
    study, trials = running
    assert to_json(replace(study, status=status), trials)["summary"]["result"] == status
