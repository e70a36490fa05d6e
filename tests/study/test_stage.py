"""What a study tunes: the space over the running server."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes import FakeStudy
from trimtab.errors import ApplyError, HistoryError, LoadError, UsageError
from trimtab.records import Endpoint
from trimtab.space import Config
from trimtab.study import checks_of, load_study_file
from trimtab.study.begin import require_same_baseline
from trimtab.study.benching import parse_settings
from trimtab.study.change import _require_fit
from trimtab.study.stage import open_stage
from trimtab.study.task import task_of
from trimtab.study.tuning import require_search
from trimtab.systems import KnobState
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeWorkload


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


def test_a_winner_is_felt_only_with_what_the_server_has_now(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has changed another setting since may have taken its effect from one that the winner sets."""
    _conditioned(monkeypatch, workers="method == 'ring'")
    with open_stage(load_study_file(_named(fake, "workers", "method")), fake.path / "state") as stage:
        _require_fit(stage, Config({"method": "ring", "workers": 4}))
        with pytest.raises(ApplyError, match=r"on the server of now: workers \(felt only where method == 'ring'\)"):
            _require_fit(stage, Config({"workers": 4}))
        _require_fit(stage, Config({"method": "sync", "workers": 4}))  # the default of workers in the study, say


@pytest.mark.parametrize(("low", "step"), [("32MB", 16), ("40MB", None)])
def test_a_range_of_the_users_own_keeps_the_steps_of_the_target(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch, low: str, step: int | None
) -> None:
    """Between them the server would round; from a low end that is on none all would be off."""
    plain = FakeTarget._states

    def states(target: FakeTarget) -> Mapping[str, KnobState]:
        found = dict(plain(target))
        return {**found, "cache": replace(found["cache"], knob=replace(found["cache"].knob, step=16))}

    monkeypatch.setattr(FakeTarget, "_states", states)
    fake.text += f'\n[search]\nround_values = false\nranges = {{ cache = ["{low}", "200MB"] }}\n'
    with open_stage(load_study_file(_named(fake, "cache")), fake.path / "state") as stage:
        assert stage.space.knobs["cache"].step == step
        assert stage.space.is_feasible(Config({"cache": 200})), "as the study file has it"


def test_advice_beyond_the_useful_range_is_the_users_own_affair(fake: FakeStudy) -> None:
    fake.text += "\n[search]\nadvice = { workers = 99, cache = 150 }\n"
    with open_stage(load_study_file(_named(fake, "workers", "cache")), fake.path / "state") as stage:
        assert dict(stage.advice) == {"workers": 99, "cache": 150}


def test_levels_that_the_study_file_names_are_legal_though_they_are_not_round(fake: FakeStudy) -> None:
    fake.text += '\n[search]\nsearcher = "grid"\nlevels_of = { cache = ["100MB", 333], workers = 3 }\n'
    with open_stage(load_study_file(_named(fake, "cache", "workers")), fake.path / "state") as stage:
        require_search(stage, task_of(stage))
        assert all(stage.space.is_feasible(stage.baseline.replace({"cache": value})) for value in (100, 333))


@pytest.mark.parametrize("advice", ["cache = '2TB'", "page_cost = -2.5"])
def test_advice_that_the_target_does_not_accept_is_refused(fake: FakeStudy, advice: str) -> None:
    fake.text += f"\n[search]\nadvice = {{ {advice} }}\n"
    path = _named(fake, "workers", "cache", "page_cost")
    with (
        pytest.raises(UsageError, match=r"search.advice \w+=\S+ is not accepted by the target") as told,
        open_stage(load_study_file(path), fake.path / "state"),
    ):
        pass
    assert (told.value.hint or "").startswith("it accepts 0 to 1000000")


@pytest.mark.parametrize(
    ("advice", "note"),
    [
        (
            "cache = '2GB', sort_memory = 8",
            r"search.advice breaks a constraint \(memory budget: .* > 1GiB \(.*\)\); used: cache=\S+MB, not 2GB",
        ),
        (  # beyond the useful range: not the least value, whose place in the unit cube is the next one
            "cache = '8GB', sort_memory = 8",
            r"search.advice breaks a constraint \(memory budget: .* > 1GiB \(.*\)\); used: cache=896MB, not 8GB",
        ),
        ("workers = 8, compile = false", "search.advice has no effect in part; used: workers=2, not 8"),
        ("sort_memory = 8", ""),
    ],
)
def test_advice_that_is_not_used_as_it_is_is_told(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch, advice: str, note: str
) -> None:
    _conditioned(monkeypatch, workers="compile")
    fake.text += f"\n[search]\nadvice = {{ {advice} }}\n"
    path = _named(fake, "workers", "compile", "cache", "sort_memory")
    with open_stage(load_study_file(path), fake.path / "state", changes=False) as stage:
        assert stage.space.is_feasible(stage.advice)
        assert stage.advice["cache"] >= stage.baseline["cache"], "as much of it as there is room for"
        told = [each for each in stage.notes if "search.advice" in each]
        assert len(told) == bool(note)
        assert all(re.fullmatch(note, each) for each in told)
        assert [(c.verdict, c.text) for c in checks_of(stage, fake.path / "state") if c.check == "advice"] == [
            ("note", each) for each in told
        ]


def test_a_winner_beyond_the_useful_ranges_of_now_fits_where_the_constraints_hold(fake: FakeStudy) -> None:
    """The ranges depend on the machine's memory, and a new kernel keeps a little more of it for itself."""
    with open_stage(load_study_file(_named(fake, "workers", "cache")), fake.path / "state") as stage:
        _require_fit(stage, Config({"workers": 17, "cache": 133}))
        with pytest.raises(ApplyError, match="the winner does not fit the server of now: memory budget"):
            _require_fit(stage, Config({"cache": 4097}))


class _Arriving(FakeWorkload):
    arrivals_s = 40.0


def test_who_measures_nothing_waits_for_no_users(fake: FakeStudy) -> None:
    """The winner is applied, and knobs are shown, whatever the study file says of the warm-up; `doctor` says what is wrong."""
    fake.workload = _Arriving(fake.target.speed)
    fake.text += "warmup_cap = '30s'\n"
    file = load_study_file(_named(fake, "workers"))
    for measures in (None, True):
        with (
            pytest.raises(UsageError, match=r"measure.warmup_cap='30s' is too short: the users of the load are there"),
            open_stage(file, fake.path / "state", measures=measures),
        ):
            pass
    with open_stage(file, fake.path / "state", changes=False) as stage:
        (budget,) = (each for each in checks_of(stage, fake.path / "state") if each.check == "budget")
        assert budget.verdict == "fail"
        assert "warmup_cap='30s' is too short" in budget.text
    with open_stage(file, fake.path / "state", measures=False) as stage:
        assert stage.plan.warmup_cap_s == 30.0


@dataclass
class _Counts(FakeWorkload):
    """A load that is seen by the server's counters alone."""

    counted: Callable[[Endpoint], tuple[str, ...]] = lambda endpoint: ()

    def metrics(self, endpoint: Endpoint) -> tuple[str, ...]:
        return self.counted(endpoint)


def _cannot_answer(endpoint: Endpoint) -> tuple[str, ...]:
    raise LoadError("the server counts no statements", hint="load its module")


@pytest.mark.parametrize(
    ("metrics", "verdict", "text"),
    [
        (lambda endpoint: ("throughput", "latency_p99"), "ok", "latency_p99 can be measured here"),
        (
            lambda endpoint: ("throughput",),
            "fail",
            "objective='latency_p99': this workload cannot measure latency_p99 on this",
        ),
        (_cannot_answer, "fail", "the server counts no statements; load its module"),
    ],
)
def test_doctor_says_whether_the_load_can_measure_the_objective(
    fake: FakeStudy, metrics: Callable[[Endpoint], tuple[str, ...]], verdict: str, text: str
) -> None:
    fake.workload = _Counts(fake.target.speed, counted=metrics)
    fake.text = fake.text.replace("budget =", 'objective = "latency_p99"\nbudget =')
    with open_stage(load_study_file(_named(fake, "workers")), fake.path / "state", changes=False) as stage:
        (found,) = (each for each in checks_of(stage, fake.path / "state") if each.check == "objective")
    assert found.verdict == verdict
    assert found.text.startswith(text)


def test_doctor_says_what_the_proof_cannot_have(fake: FakeStudy) -> None:
    text = fake.text
    for pairs, verdicts in ((2, ["note"]), (3, [])):
        fake.text = f"{text}[proof]\nmin_pairs = 2\nmax_pairs = {pairs}\n"
        with open_stage(load_study_file(_named(fake, "workers")), fake.path / "state", changes=False) as stage:
            found = [each for each in checks_of(stage, fake.path / "state") if each.check == "proof"]
        assert [each.verdict for each in found] == verdicts
        assert all(each.text.startswith("proof.max_pairs=2: this study can prove nothing") for each in found)


def test_a_study_goes_on_only_with_the_knobs_that_it_began_with() -> None:
    record: Any = SimpleNamespace(name="tpch", baseline=Config({"jit": False, "jit_above_cost": 100000.0}))
    stage: Any = SimpleNamespace(baseline=Config({"jit": False}))
    with pytest.raises(HistoryError, match="study='tpch' tunes jit_above_cost, which the study file or the server"):
        require_same_baseline(record, stage)


def test_a_setting_to_measure_that_has_no_effect_with_the_others_is_told(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    _conditioned(monkeypatch, workers="compile")
    said: list[str] = []
    with open_stage(load_study_file(_named(fake, "workers", "compile")), fake.path / "state") as stage:
        config = parse_settings(stage, {"workers": "8", "compile": "off"}, said.append)
        assert dict(config) == {**stage.baseline, "compile": False}
        assert said == ["workers=8 is left out, without effect here: it is felt only where compile"]
        assert parse_settings(stage, {"workers": "8", "compile": "on"}, said.append)["workers"] == 8
    assert len(said) == 1


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


@pytest.mark.parametrize("changes", [True, False])
def test_a_signal_leaves_no_server_running_that_was_started_for_a_look(fake: FakeStudy, changes: bool) -> None:
    before, path = signal.getsignal(signal.SIGTERM), _named(fake, "cache")

    def look() -> None:
        with open_stage(load_study_file(path), fake.path / "state", changes=changes):
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL, "it would end the process at once"
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        look()
    assert fake.target.calls[-1] == "close"
    assert signal.getsignal(signal.SIGTERM) == before
