"""What the tests of trials share."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.trial import MeasurePlan, runs


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[MeasurePlan]:
    """How each run of a trial room was measured, from here on."""
    seen: list[MeasurePlan] = []
    measure = runs.measure_load

    def noted(workload: Any, endpoint: Any, plan: MeasurePlan, **options: Any) -> Any:
        seen.append(plan)
        return measure(workload, endpoint, plan, **options)

    monkeypatch.setattr(runs, "measure_load", noted)
    return seen
