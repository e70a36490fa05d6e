"""What a study tunes: the space over the running server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.fakes import FakeStudy
from trimtab.study import load_study_file
from trimtab.study.stage import open_stage
from trimtab.systems import KnobState
from trimtab.testing.fake_target import FakeTarget


def test_a_knob_without_effect_stays_as_it_is_on_the_server(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    """`workers` stands at 5, which is not its built-in value, and counts only when `method` is another one."""
    plain = FakeTarget._states

    def conditioned(target: FakeTarget) -> Mapping[str, KnobState]:
        states = dict(plain(target))
        workers = states["workers"]
        return states | {"workers": replace(workers, knob=replace(workers.knob, condition="method == 'ring'"))}

    monkeypatch.setattr(FakeTarget, "_states", conditioned)
    fake.target.disk.running["workers"] = 5
    path = fake.path / "study.toml"
    path.write_text(fake.text)
    with open_stage(load_study_file(path), fake.path / "state") as stage:
        assert stage.baseline["workers"] == 5
        assert stage.space.canonical(stage.baseline) == stage.baseline
        assert "workers" not in stage.advice.difference(stage.baseline)
        changed = stage.baseline.replace({"sort_memory": 8})
        assert stage.space.canonical(changed).difference(stage.baseline) == ("sort_memory",)
        # The built-in value is legal where the knob counts.
        assert stage.space.is_feasible(stage.baseline.replace({"method": "ring", "workers": 2}))
