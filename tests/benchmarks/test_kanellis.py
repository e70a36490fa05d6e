"""How many knobs are needed: steps go on where they were stopped, searches begin from samples, shares are of the best of all."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.bench_modules import BENCHMARKS, bench_modules
from tests.fakes import FakeStudy
from tests.history.samples import make_trial
from trimtab.errors import LoadError
from trimtab.history import open_history_at
from trimtab.records import Role, Status, Trial
from trimtab.space import Config
from trimtab.study import load_study_file, rank_study

pytestmark = pytest.mark.slow

OPTIONS = argparse.Namespace(samples=50, trials=8, rounds=4, quick=False)
TRIAL = {"role": Role.SEARCH, "config": Config({"a": 1}), "loss": -0.3}


@pytest.fixture(scope="module")
def modules() -> Iterator[Any]:
    """The script and its steps; their folder is no package."""
    with bench_modules(BENCHMARKS / "kanellis", "table", "run", "steps", "tables", "turns", "stamp") as found:
        yield found


@pytest.fixture
def file(fake: FakeStudy) -> Any:
    """A study of six knobs on the fakes."""
    path = fake.path / "study.toml"
    path.write_text(f"{fake.text}\n[search]\nbaseline_every = 4\n", encoding="utf-8")
    return load_study_file(path)


def stop_after(n_trials: int, fake: FakeStudy, modules: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Ctrl-C."""

    @contextmanager
    def polite() -> Iterator[Any]:
        yield lambda: len(fake.listener.ended) >= n_trials

    monkeypatch.setattr(modules, "first_signal_is_polite", polite)


def own(trials: list[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.role is not Role.BASELINE]


def test_samples_that_were_stopped_go_on_and_are_made_once(
    modules: Any, fake: FakeStudy, file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, state = modules["steps"], fake.path / "state"
    with monkeypatch.context() as stopped:
        stop_after(3, fake, steps, stopped)
        with pytest.raises(modules["turns"].StoppedError):
            steps.sample(file, 10, state, fake.listener)
    trials = steps.sample(file, 10, state, fake.listener)
    assert len(fake.listener.ended) == len(trials) + 3, "three were answered from the history"
    roles = [trial.role for trial in trials]
    assert [number for number, role in enumerate(roles) if role is Role.BASELINE] == [0, 5, 10]
    assert len(own(trials)) == 10
    assert steps.sample(file, 10, state, fake.listener) == trials
    assert len(fake.listener.ended) == len(trials) + 3, "a step that is over is not made again"
    with open_history_at(None, state) as history:
        ranked = rank_study(history, "fake", rankers=("forest",))
    assert ranked.sources == ("fake.rank-lhs",)


def test_a_search_begins_from_the_samples_and_proves_nothing(modules: Any, fake: FakeStudy, file: Any) -> None:
    run, steps, state = modules["run"], modules["steps"], fake.path / "state"
    steps.sample(file, 10, state, fake.listener)
    options = argparse.Namespace(trials=4)
    few = run.search_of(file, ["cache", "page_cost"], [], options)
    more = run.search_of(file, ["cache", "page_cost", "workers"], [few.study.name], options)
    for search in (few, more):
        search = search.model_copy(update={"study": search.study.model_copy(update={"budget": "4 trials"})})
        trials = steps.search(search, state, fake.listener)
        assert [trial.role for trial in own(trials)] == [Role.ADVICE, *[Role.SEARCH] * 3]
        assert [trial.role for trial in trials].count(Role.BASELINE) == 2
    with open_history_at(None, state) as history:
        found = history.find_study("fake-top3")
        assert found is not None
        assert found.verdict.warm_start is not None
        assert {study.study for study in found.verdict.warm_start.studies} == {"fake.rank-lhs", "fake-top2"}
        assert found.verdict.stop_reason == "the budget of 4 trials is used; no proof was asked for"
    assert not any(one.config == other.config for one, other in pairwise(trials))


def test_a_baseline_that_cannot_be_measured(modules: Any, fake: FakeStudy, file: Any) -> None:
    fake.target._dies_when = lambda values: True
    with pytest.raises(LoadError, match=r"the baseline cannot be measured: status=\w+: ") as raised:
        modules["steps"].sample(file, 10, fake.path / "state", fake.listener)
    assert "trimtab bench" in (raised.value.hint or "")


def test_configs_take_turns_and_none_runs_twice_in_a_row(
    modules: Any, fake: FakeStudy, file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, state = modules["turns"], fake.path / "state"
    configs = {"3": Config({"cache": 256}), "5": Config({"cache": 512}), "8": Config({"cache": 256})}
    options = argparse.Namespace(state=state, rounds=3)
    with monkeypatch.context() as stopped:
        stop_after(4, fake, turns, stopped)
        with pytest.raises(turns.StoppedError):
            turns.values_in_turns(file, configs, options, fake.listener)
    fake.listener.ended.clear()
    values = turns.values_in_turns(file, configs, options, fake.listener)
    caches = [trial.config["cache"] for trial in fake.listener.ended]
    assert caches == [128, 256, 512, 256, 512, 128, 512, 128, 256]
    assert {name: len(each) for name, each in values.items()} == {"found": 3, "3": 3, "5": 3, "8": 3}
    assert values["3"] == values["8"], "the same config is measured once a round"
    with open_history_at(None, state) as history:
        (study,) = history.summaries()
        assert (study.name, study.status, study.n_trials) == ("fake.turns", "benched", 9)


@pytest.mark.parametrize("system", ["cassandra", "postgresql"])
def test_the_study_files_of_each_step(modules: Any, system: str) -> None:
    run = modules["run"]
    file = run.study_of(system, "B", OPTIONS)
    knobs = file.target["db"]["knobs"]
    assert len(set(knobs)) == run.ALL
    assert (file.workload["workload"], file.study.name) == ("B", f"kanellis-{system}-b")
    search = run.search_of(file, knobs[:5], [f"kanellis-{system}-b-top3"], OPTIONS)
    assert search.search.warm_start == (f"kanellis-{system}-b.rank-lhs", f"kanellis-{system}-b-top3")
    assert (search.target["db"]["knobs"], str(search.budget)) == (knobs[:5], "8 trials")
    assert search.fingerprint != file.fingerprint
    turns = run.turns_of(file, system, OPTIONS)
    assert turns.measure.window == "10s"
    assert turns.measure.warmup_cap == ("90s" if system == "cassandra" else "5s")


def test_the_best_of_the_trials_of_several_studies(modules: Any) -> None:
    best_of = modules["run"].best_of
    made = [
        make_trial(0, role=Role.BASELINE, loss=-0.9),
        make_trial(1, **{**TRIAL, "loss": -0.295, "config": Config({"a": 2})}),
        make_trial(2, **{**TRIAL, "loss": -0.8, "excess": 0.1}),
        make_trial(3, **{**TRIAL, "loss": None, "status": Status.CRASHED, "measurement": None}),
        make_trial(4, **TRIAL),
    ]
    assert best_of(made) == (Config({"a": 1}), 1), "the first was as good within 1 %"
    assert best_of([make_trial(1, **{**TRIAL, "loss": 0.1})]) == (Config({}), 0), "nothing is better"
    assert best_of([]) == (Config({}), 0)


def test_the_table_shows_shares_with_intervals_and_common_knobs(modules: Any) -> None:
    table = modules["table"]
    knobs = [{"knob": f"k{n}", "rank": n, "low": n, "high": n, "share": 0.1} for n in range(8)]
    values = {"found": [100.0, 101.0, 99.0], "30": [200.0, 202.0, 198.0], "3": [180.0, 183.0, 177.0],
              "5": [198.0, 200.0, 196.0], "8": [200.0, 202.0, 198.0]}  # fmt: skip
    same = {"system": "postgresql", "n_samples": 50, "trials_needed": {"3": 2, "5": 9, "8": 9, "30": 55}}
    rows = [
        {**same, "workload": "A", "knobs": knobs, "throughput_per_s": values, "verdict": ""},
        {
            **same,
            "workload": "B",
            "knobs": [*knobs[2:], *knobs[:2]],
            "throughput_per_s": {"found": [1.0]},
            "verdict": "no",
        },
    ]
    lines = table.table(rows).splitlines()
    assert lines[2].startswith("| postgresql | A | 50 | 90.0% (")
    assert "| 100.0% (100.0% to 100.0%) | 2.00 | k0, k1, k2, k3, k4 |" in lines[2]
    assert "| – | – | – | – | k2, k3" in lines[3]
    assert lines[-4:-2] == ["| postgresql | A | 2, 9, 9, 55 | yes |", "| postgresql | B | 2, 9, 9, 55 | no |"]
    assert lines[-1] == "postgresql: 3 of the first 5 knobs are those of both workloads."
    assert table.overlap(rows[:1], "postgresql", 5) is None


def test_the_page_shows_the_results(modules: Any) -> None:
    """Else run: python benchmarks/kanellis/table.py"""
    table = modules["table"]
    text, results = table.PAGE.read_text(encoding="utf-8"), table.HERE / "results.json"
    if results.exists():
        assert text == table.page(text, json.loads(results.read_text(encoding="utf-8")))
    else:
        assert "No row has been measured yet." in text
    made = {"commit": "0", "version": "0", "machine": "m", "load": [0.0, 0.0], "date": "2026-01-01 00:00 UTC"}
    assert "Measured: 2026-01-01" in table.page(text, {"rows": [], "made": {"postgresql A": made}})


def test_the_stamp_of_a_row_is_of_all_its_pieces(modules: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, options = modules["run"], argparse.Namespace(state=tmp_path)
    loads = iter([0.5, 0.25, 0.0])

    class Making:
        def stamp(self) -> dict[str, Any]:
            load = next(loads)
            return {"commit": "0", "version": "0", "machine": "m", "load": [load, load], "date": "2026-01-01 00:00 UTC"}

    def measured(*_: Any) -> dict[str, Any]:
        if not stops:
            return {"n_samples": 3}
        raise stops.pop()

    kinds: list[type[BaseException]] = [KeyboardInterrupt, modules["turns"].StoppedError]
    stops = list(kinds)
    monkeypatch.setattr(modules["stamp"], "Making", Making)
    monkeypatch.setattr(run, "_measured", measured)
    for kind in reversed(kinds):
        with pytest.raises(kind):
            run.experiment("postgresql", "A", options, None)
    row = run.experiment("postgresql", "A", options, None)
    assert (row["n_samples"], row["made"]["load"]) == (3, [0.0, 0.5])


def test_the_quick_form_keeps_its_results_apart(modules: Any, tmp_path: Path) -> None:
    options = modules["run"]._arguments(["--quick", "--state", str(tmp_path / "kanellis")])
    assert options.results == tmp_path / "kanellis-quick" / "results.json"
    assert (options.samples, options.trials, options.rounds) == (12, 2, 2)
    assert modules["run"].study_of("postgresql", "A", options).workload["records"] == 2_000
