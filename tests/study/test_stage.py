"""What a study tunes: the space over the running server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes import FakeStudy
from trimtab.errors import ApplyError, HistoryError, UsageError
from trimtab.space import Config
from trimtab.study import load_study_file
from trimtab.study.begin import require_same_baseline
from trimtab.study.benching import parse_settings
from trimtab.study.change import _require_fit
from trimtab.study.stage import open_stage
from trimtab.systems import KnobState
from trimtab.testing.fake_target import FakeTarget


def _conditioned(monkeypatch: pytest.MonkeyPatch, **conditions: str) -> None:
    """Puts conditions on knobs of the fake target."""
    plain = FakeTarget._states

    def states(target: FakeTarget) -> Mapping[str, KnobState]:
        found = dict(plain(target))
        for name, condition in conditions.items():
            found[name] = replace(found[name], knob=replace(found[name].knob, condition=condition))
        return found

    monkeypatch.setattr(FakeTarget, "_states", states)


def _named(fake: FakeStudy, *names: str) -> Path:
    fake.target._knobs = names
    path = fake.path / "study.toml"
    path.write_text(fake.written)
    return path


def test_a_knob_that_cannot_be_felt_whatever_is_tuned_is_left_out(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`method` is not tuned and is another one; `cache` depends on a knob that is left out itself."""
    _conditioned(monkeypatch, workers="method == 'ring'", cache="workers > 100", compile="sort_memory > 1000")
    path = _named(fake, "workers", "cache", "compile", "sort_memory")
    with open_stage(load_study_file(path), fake.path / "state") as stage:
        assert set(stage.space.knobs) == {"compile", "sort_memory"}
        assert stage.notes == (
            "left out, without effect here: workers (felt only where method == 'ring')",
            "left out, without effect here: cache (felt only where workers > 100)",
        )


def test_what_a_study_file_says_of_a_knob_that_is_left_out_does_not_stop_it(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    _conditioned(monkeypatch, workers="method == 'ring'")
    fake.text += (
        "\n[search]\nranges = { workers = [1, 8] }\nadvice = { workers = 4, sort_memory = 8 }\n"
        'constraints = ["workers * sort_memory <= 64MB"]\n'
    )
    path = _named(fake, "workers", "sort_memory")
    with open_stage(load_study_file(path), fake.path / "state") as stage:
        assert stage.advice == stage.baseline.replace({"sort_memory": 8})
        assert stage.space.bounds()["sort_memory"][1] == 32  # with the two workers that it has
        with pytest.raises(UsageError, match="may not be set here: it is felt only where method == 'ring'"):
            parse_settings(stage, {"workers": "4"})
        with pytest.raises(
            ApplyError, match=r"no effect on the server of now: workers \(felt only where method == 'ring'\)"
        ):
            _require_fit(stage, Config({"workers": 4}))


def test_a_study_goes_on_only_with_the_knobs_that_it_began_with() -> None:
    record: Any = SimpleNamespace(name="tpch", baseline=Config({"jit": False, "jit_above_cost": 100000.0}))
    stage: Any = SimpleNamespace(baseline=Config({"jit": False}))
    with pytest.raises(HistoryError, match="study='tpch' tunes jit_above_cost, which the study file or the server"):
        require_same_baseline(record, stage)


def test_a_study_of_such_knobs_only_is_refused(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    _conditioned(monkeypatch, workers="method == 'ring'")
    path = _named(fake, "workers")
    with (
        pytest.raises(
            UsageError, match="no knob to tune: workers has no effect here, where method == 'ring' is false"
        ) as caught,
        open_stage(load_study_file(path), fake.path / "state"),
    ):
        pass
    assert caught.value.hint == "name the knobs of that condition in [target.NAME] as well"


def test_a_knob_without_effect_stays_as_it_is_on_the_server(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    """`workers` stands at 5, which is not its built-in value, and counts only when `method` is another one."""
    _conditioned(monkeypatch, workers="method == 'ring'")
    fake.target.disk.running["workers"] = 5
    path = fake.path / "study.toml"
    path.write_text(fake.written)
    with open_stage(load_study_file(path), fake.path / "state") as stage:
        assert stage.baseline["workers"] == 5
        assert stage.space.canonical(stage.baseline) == stage.baseline
        assert "workers" not in stage.advice.difference(stage.baseline)
        changed = stage.baseline.replace({"sort_memory": 8})
        assert stage.space.canonical(changed).difference(stage.baseline) == ("sort_memory",)
        # The built-in value is legal where the knob counts.
        assert stage.space.is_feasible(stage.baseline.replace({"method": "ring", "workers": 2}))
