"""[workload.cycle] in whole studies on the fakes: what is measured under which context, what is found, kept and shown."""

from __future__ import annotations

import math
import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeStudy
from trimtab import plugins
from trimtab.errors import LoadError, UsageError
from trimtab.flow import Budget, SearchOptions, Task
from trimtab.flow.cycle import searcher_of
from trimtab.history import StudyRecord
from trimtab.records import Context, ContextResult, Endpoint, Objective, Role, StopKind, Trial
from trimtab.report import render_html, report_text, to_json
from trimtab.report.charts import figures
from trimtab.report.summary import summarise
from trimtab.search.contextual import ContextualGaussianProcessSearcher
from trimtab.space import Config, Knob, KnobKind, Space
from trimtab.study import StudyFile, bench, load_study_file, winner_of
from trimtab.testing.fake_workload import FakeWorkload
from trimtab.trial import Interrupted
from trimtab.workload import StartState

CYCLE = """
[workload.cycle]
iterations = 3
contexts = [
  { name = "day", users = 60, mode = "write" },
  { name = "night", users = 4, mode = "read" },
]
"""

Speeds = Callable[[Mapping[str, Any], str], float]


def _day_wants_cache(values: Mapping[str, Any], mode: str) -> float:
    """Both gain by `cache`; without `compile`, which is found on, the day gains and the night loses."""
    cached = 1.4 if float(values["cache"]) >= 300 else 1.0
    if mode == "write":
        return 1000.0 * cached * (1.0 if values["compile"] else 1.8)
    return 4000.0 * cached * (1.0 if values["compile"] else 0.3)


@dataclass
class Contextual(FakeWorkload):
    """A fake whose speed depends on what is asked, and which counts how often its data was made ready."""

    users: int = 4
    mode: str = "read"
    resets: list[str] = field(default_factory=list)

    @property
    def context(self) -> Context:
        return Context(f"fake {self.mode}", self.users, 1.0 if self.mode == "read" else 0.5)

    def reset(self, endpoint: Endpoint, report: Callable[[str], None]) -> StartState:
        self.resets.append(self.mode)
        return StartState("made afresh", 0.25)

    def clean_up(self, endpoint: Endpoint) -> None:
        self.resets.append("clean")


@dataclass
class Cycled:
    """A fake study with a cycle; `made` are its workloads, by what is asked."""

    study: FakeStudy
    speeds: Speeds = _day_wants_cache
    noise_sd: float = 0.002
    resets: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def from_settings(self, settings: Mapping[str, Any], *, directory: Path) -> Contextual:
        if "wrong" in settings:
            raise UsageError("unknown key in [workload]: wrong=1", hint="the keys are: kind, mode, load")
        mode = str(settings.get("mode", "read"))

        def speed() -> float:
            self.seen.append(mode)
            return self.speeds(self.study.target.values, mode)

        users = int(settings.get("load", {}).get("users", 4))
        return Contextual(speed, noise_sd=self.noise_sd, users=users, mode=mode, resets=self.resets)


@pytest.fixture
def cycled(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> Cycled:
    found, load = Cycled(fake), plugins.load
    monkeypatch.setattr(plugins, "load", lambda g, n: found if (g, n) == ("workloads", "fake") else load(g, n))
    fake.target._speed = lambda values: 1000.0
    fake.text = fake.text.replace("12 trials", "18 trials") + CYCLE + '[search]\nsearcher = "random"\n'
    return found


def _file(cycled: Cycled) -> StudyFile:
    path = cycled.study.path / "study.toml"
    path.write_text(cycled.study.text, encoding="utf-8")
    return load_study_file(path)


def _names(trials: list[Trial], *roles: Role) -> list[str]:
    return [t.context.workload for t in trials if t.role in roles]


@dataclass(frozen=True)
class Usual:
    """What is left of the study as the fixture makes it."""

    record: StudyRecord
    trials: list[Trial]
    resets: list[str]
    phases: list[str]


_USUAL: list[Usual] = []
"""Made once by each worker."""


@pytest.fixture
def usual(cycled: Cycled) -> Usual:
    if not _USUAL:
        record, trials = cycled.study.tune()
        _USUAL.append(Usual(record, trials, cycled.resets, cycled.study.listener.phases))
    return _USUAL[0]


@pytest.mark.slow
def test_contexts_take_turns_and_each_is_compared_with_its_own_baseline(usual: Usual) -> None:
    record, trials = usual.record, usual.trials
    assert _names(trials, Role.BASELINE)[:6] == ["fake write"] * 3 + ["fake read"] * 3
    assert _names(trials, Role.SEARCH)[:18] == (["fake write"] * 3 + ["fake read"] * 3) * 3
    # The night is four times as fast as the day: against the day's baseline all of its losses would be far below 0.
    losses = [t.loss for t in trials if t.role is Role.BASELINE and t.loss is not None]
    assert max(map(abs, losses)) < 0.05
    assert {t.context.clients for t in trials} == {60, 4}
    assert record.context.clients == 60


@pytest.mark.slow
def test_the_verdict_has_one_config_for_all_and_the_best_of_each(usual: Usual) -> None:
    record, trials = usual.record, usual.trials
    verdict, cycle = record.verdict, record.verdict.cycle
    assert cycle is not None
    day, night = cycle.contexts
    assert (day.name, night.name, cycle.cycles, cycle.searcher) == ("day", "night", 3, "random")
    assert (day.is_proven, night.is_proven) == (True, True)
    assert day.gain is not None
    assert day.gain.estimate > 1.7
    assert night.gain is not None
    assert night.gain.estimate == pytest.approx(1.4, rel=0.05)
    assert "compile" in cycle.differing
    assert verdict.is_better
    # What `apply` sets: one config, better over the whole cycle.
    assert winner_of(record) == verdict.config
    assert verdict.gain is not None
    assert verdict.gain.estimate == pytest.approx(1.4, rel=0.05)
    assert [len(night.best), len(night.mean), len(night.regret)] == [3, 3, 3]
    known = [best for best in night.best if best is not None]
    assert len(known) > 1, "there is something to compare"
    assert known == sorted(known)
    assert day.baseline == pytest.approx(1000, rel=0.05)
    assert sum(result.trials for result in cycle.contexts) == sum(t.role is Role.SEARCH for t in trials[:40])


@pytest.mark.slow
def test_the_reports_show_the_contexts(usual: Usual) -> None:
    record, trials = usual.record, usual.trials
    text, html, data = report_text(record, trials), render_html(record, trials), to_json(record, trials)
    for shown in (text, html):
        assert "The contexts of the cycle" in shown
        assert "sets the one config for the whole cycle: a server has one config at a time" in " ".join(shown.split())
    assert "times as fast as yours over the whole cycle" in text
    assert "A separate best config is proven for 2 of 2 contexts." in " ".join(text.split())
    assert "Knobs whose best values differ between the contexts" in text
    assert [row["name"] for row in data["summary"]["contexts"]] == ["day", "night"]
    assert data["study"]["verdict"]["cycle"]["cycles"] == 3


@pytest.mark.slow
def test_the_plot_of_baselines_does_not_join_contexts_of_different_speed(usual: Usual) -> None:
    record, trials = usual.record, usual.trials
    drift = figures(summarise(record, trials), (), ())["drift"]
    assert (drift["data"][0]["mode"], drift["layout"]["shapes"]) == ("markers", [])


@pytest.mark.slow
def test_values_of_a_best_that_is_not_proven_are_not_shown(usual: Usual) -> None:
    record, cycle = usual.record, usual.record.verdict.cycle
    assert cycle is not None
    day, night = cycle.contexts

    def shown(*contexts: ContextResult) -> str:
        verdict = replace(record.verdict, cycle=replace(cycle, contexts=contexts))
        return report_text(replace(record, verdict=verdict), usual.trials)

    title, none = "Knobs whose best values differ", "No context's own best is proven: the knobs in which they differ"
    one = shown(day, replace(night, is_proven=False))
    row = next(line for line in one[one.index(title) :].splitlines() if line.strip().startswith("compile"))
    assert row.split()[-1] == "–"
    assert none not in one
    both = shown(replace(day, is_proven=False), replace(night, is_proven=False))
    assert title not in both
    assert none in " ".join(both.split())


@pytest.mark.slow
def test_when_contexts_want_opposite_things_no_one_config_is_claimed(cycled: Cycled) -> None:
    def opposite(values: Mapping[str, Any], mode: str) -> float:
        return 1000.0 * (1.3 if bool(values["compile"]) == (mode == "read") else 1 / 1.3)

    # Whatever is found in one context loses as much in the other.
    cycled.speeds = opposite
    record, trials = cycled.study.tune()
    assert record.verdict.result == "no_improvement"
    text = " ".join(report_text(record, trials).split())
    assert "No one config is proven to be better over the whole cycle" in text
    assert "A separate best config is proven for 1 of 2 contexts. Keep your config." in text


@pytest.mark.slow
def test_data_is_made_ready_once_and_cleaned_up_at_the_end(usual: Usual) -> None:
    assert usual.resets == ["write", "clean"]
    assert any("every run goes on from what the last one left" in line for line in usual.phases)


@pytest.mark.slow
def test_data_can_be_made_afresh_before_every_run(cycled: Cycled) -> None:
    cycled.study.text = cycled.study.text.replace("iterations = 3", 'iterations = 3\ndata = "fresh"')
    _, trials = cycled.study.tune()
    assert Counter(cycled.resets)["read"] == len(_names(trials, *Role)) - Counter(cycled.resets)["write"]


@pytest.mark.slow
def test_a_cycle_ends_after_its_rounds(cycled: Cycled) -> None:
    cycled.study.text = cycled.study.text.replace("iterations = 3", "iterations = 2\ncycles = 2")
    record, trials = cycled.study.tune()
    assert (record.verdict.stop_reason, record.verdict.stop_kind) == ("all 2 cycles are made", StopKind.OVER)
    assert _names([t for t in trials if t.searcher], Role.SEARCH) == (["fake write"] * 2 + ["fake read"] * 2) * 2


@pytest.mark.slow
def test_a_visit_of_a_duration_makes_as_many_trials_as_fit(cycled: Cycled) -> None:
    cycled.study.text = cycled.study.text.replace(
        'name = "day", users = 60', 'name = "day", users = 60, duration = "1us"'
    )
    _, trials = cycled.study.tune()
    asked = _names([t for t in trials if t.searcher], Role.SEARCH)
    assert asked[:8] == (["fake write"] + ["fake read"] * 3) * 2


@pytest.mark.slow
def test_a_stopped_study_goes_on_where_it_was(cycled: Cycled) -> None:
    def stop(trial: Trial) -> None:
        if trial.number == 12:
            raise KeyboardInterrupt

    cycled.study.listener.on_trial = stop
    with pytest.raises(Interrupted):
        cycled.study.tune()
    cycled.study.listener.on_trial, n_seen = lambda trial: None, len(cycled.seen)
    record, trials = cycled.study.tune()
    assert record.status in ("proven", "no_improvement")
    assert [t.number for t in trials] == list(range(len(trials)))
    assert len(cycled.seen) - n_seen <= len(trials) - 12


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["3 trials", "3min"])
def test_a_shorter_budget_loses_no_trial(cycled: Cycled, budget: str) -> None:
    cycled.study.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == 15 else None
    if budget == "3min":
        cycled.study.text = cycled.study.text.replace("18 trials", "1h")
    _, before = cycled.study.tune()
    assert sum(trial.role is Role.SEARCH for trial in before) >= 8
    cycled.study.listener.on_trial = lambda trial: None
    cycled.study.text = cycled.study.text.replace("18 trials", budget).replace("1h", budget)
    record, after = cycled.study.tune()
    assert record.status in ("proven", "no_improvement")
    assert after[: len(before)] == before
    assert not [line for line in cycled.study.listener.phases if "do not fit" in line]
    assert sum(bool(trial.searcher) for trial in after) == sum(bool(trial.searcher) for trial in before)


@pytest.mark.slow
def test_a_study_stopped_after_the_proof_for_the_whole_cycle_has_its_winner(cycled: Cycled) -> None:
    def stop(text: str) -> None:
        if text == "context day: proving its best config in alternating pairs":
            os.kill(os.getpid(), signal.SIGINT)

    cycled.study.listener.on_phase = stop
    record, trials = cycled.study.tune()
    verdict = record.verdict
    assert (record.status, verdict.result, verdict.is_stopped) == ("proven", "better", True)
    assert verdict.cycle is not None
    day = verdict.cycle.contexts[0]
    assert (day.is_proven, day.reason) == (False, "it did not come to a proof")
    assert winner_of(record) == verdict.config != Config({})
    cycled.study.listener.on_phase = lambda text: None
    resumed, resumed_trials = cycled.study.tune()
    assert (resumed.id, resumed.status, resumed.verdict.is_stopped) == (record.id, "proven", False)
    assert resumed.verdict.config == verdict.config
    assert resumed_trials[: len(trials)] == trials
    assert len(resumed_trials) > len(trials)


@pytest.mark.slow
def test_the_contextual_searcher_is_told_the_present_context(cycled: Cycled, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[str] = []
    ask = ContextualGaussianProcessSearcher.ask

    def noted(self: ContextualGaussianProcessSearcher, n: int = 1) -> list[Config]:
        asked_for.append(self.context.workload)
        return ask(self, n)

    monkeypatch.setattr(ContextualGaussianProcessSearcher, "ask", noted)
    cycled.study.text = cycled.study.text.replace('"random"', '"auto"').replace("18 trials", "12 trials")
    record, trials = cycled.study.tune()
    assert record.verdict.cycle is not None
    assert record.verdict.cycle.searcher == "contextual-gp"
    asked = [trial for trial in trials if trial.searcher]
    assert {trial.searcher for trial in asked} == {"contextual-gp"}
    assert asked_for == [trial.context.workload for trial in asked]
    assert set(asked_for) == {"fake write", "fake read"}


@pytest.mark.parametrize(
    ("named", "used"), [("auto", ("contextual-gp", {"cap": 50})), ("random", ("random", {"cap": 50, "temper": "bold"}))]
)
def test_the_default_searcher_of_a_cycle_is_the_contextual_one(named: str, used: tuple[str, dict[str, Any]]) -> None:
    """It knows no tempers; a searcher that the user has named is left as it is."""
    space = Space([Knob(name="a", kind=KnobKind.BOOLEAN, default=False)])
    search = SearchOptions(searcher=named, options={"cap": 50, "temper": "bold"})
    task = Task(
        space=space, baseline=space.default(), advice=space.default(), objective=Objective("throughput"),
        budget=Budget(trials=9), context=Context("any", 1), search=search,
    )  # fmt: skip
    found = searcher_of(task).search
    assert (found.searcher, dict(found.options)) == used


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        (
            CYCLE,
            "[workload.cycle]\ncontexts = []\n",
            "[workload.cycle] contexts=[] names no context",
            "write contexts =",
        ),
        (CYCLE, "[workload.cycle]\n", "[workload.cycle] contexts=None names no context", "write contexts ="),
        (CYCLE, "cycle = 3\n", "[workload.cycle]=3 is not a table", "write contexts ="),
        ("iterations = 3", "itrations = 3", "unknown key in [workload.cycle]: itrations=3", "did you mean iterations?"),
        ("iterations = 3", "iterations = 0", "[workload.cycle] iterations=0 is out of range", "from 1 to"),
        (
            "users = 4",
            "wrong = 1",
            "context='night' of [workload.cycle]: unknown key in [workload]: wrong=1",
            "the keys are",
        ),
        ("users = 4", 'duration = "0s"', "[workload.cycle] contexts[2] duration='0s' is not a duration", "for example"),
        (
            "users = 4",
            'duration = "1m", iterations = 3',
            "[workload.cycle] contexts[2] has iterations=3 and duration='1m'",
            "remove the other",
        ),
        ('"night"', '"day"', "[workload.cycle] has 2 contexts named 'day'", "a different name"),
        ('"random"', '"random"\nprune = "auto"', "search.prune='auto' has no meaning for a cycle", "leave prune out"),
    ],
)
def test_a_wrong_cycle_is_refused(cycled: Cycled, old: str, new: str, message: str, hint: str) -> None:
    assert old in cycled.study.text
    if new.startswith("cycle"):
        cycled.study.text = cycled.study.text.replace(CYCLE, "").replace(
            '[workload]\nkind = "fake"', f'[workload]\nkind = "fake"\n{new}'
        )
    else:
        cycled.study.text = cycled.study.text.replace(old, new)
    with pytest.raises(UsageError) as raised:
        cycled.study.tune()
    assert message in raised.value.message
    assert hint in (raised.value.hint or "")


def test_a_budget_that_does_not_suffice_for_every_context_is_refused(cycled: Cycled) -> None:
    cycled.study.text = cycled.study.text.replace("18 trials", "90s")
    with pytest.raises(UsageError, match=r"one config and its proof in each of 2 contexts take at least"):
        cycled.study.tune()


def test_a_context_whose_baseline_fails_is_named(cycled: Cycled) -> None:
    def from_settings(settings: Mapping[str, Any], *, directory: Path) -> Contextual:
        made = Cycled.from_settings(cycled, settings, directory=directory)
        made.error_share = 0.5 if made.mode == "read" else 0.0
        return made

    cycled.from_settings = from_settings  # type: ignore[method-assign]
    with pytest.raises(LoadError, match=r"context='night' of the cycle: the baseline itself cannot be measured"):
        cycled.study.tune()


def test_a_cycle_cannot_be_benched(cycled: Cycled) -> None:
    with pytest.raises(UsageError, match=r"`trimtab bench` measures one context, and \[workload.cycle\] has several"):
        bench(
            _file(cycled), cycled.study.path / "state", settings={}, n_runs=1, listener=cycled.study.listener,
            say=lambda text: None,
        )  # fmt: skip


def test_ycsb_that_inserts_needs_fresh_data(tmp_path: Path) -> None:
    from trimtab.study import build_workload

    path = tmp_path / "s.toml"
    rows = '[[workload.cycle.contexts]]\nname = "a"\nworkload = "A"\n[[workload.cycle.contexts]]\nname = "d"\nworkload = "D"\n'
    text = '[study]\nname = "y"\n[target.db]\nkind = "fake"\n[workload]\nkind = "ycsb"\n[workload.cycle]\n'
    path.write_text(text + rows, encoding="utf-8")
    with pytest.raises(UsageError, match=r"context='d' of \[workload.cycle\]: its runs cannot go on") as raised:
        build_workload(load_study_file(path))
    assert 'data = "fresh"' in (raised.value.hint or "")


def test_contexts_of_ycsb_share_one_database_and_differ_in_nothing_else(tmp_path: Path) -> None:
    from trimtab.study import build_workload
    from trimtab.workload import CycledWorkload

    path = tmp_path / "s.toml"
    text = '[study]\nname = "y"\n[target.db]\nkind = "fake"\n[workload]\nkind = "ycsb"\nload = { think = "1ms" }\n'
    text += '[workload.cycle]\ncontexts = [{ name = "a", workload = "A", users = 60 }, '
    text += '{ name = "c", workload = "C", users = 20 }, { name = "b", workload = "B", users = 60 }, '
    text += '{ name = "again", workload = "A", users = 60 }]\n'
    path.write_text(text, encoding="utf-8")
    workload = build_workload(load_study_file(path))
    assert isinstance(workload, CycledWorkload)
    inner = [workload.under(context).inner for context in workload.cycle.contexts]  # type: ignore[attr-defined]
    assert [each.settings.load.users for each in inner] == [60, 20, 60]
    assert {each.settings.load.think_s for each in inner} == {0.001}
    assert {each.database.name for each in inner} == {"trimtab_ycsb_100000_run"}
    assert workload.cycle.share(workload.cycle.contexts[0]) == pytest.approx(0.5)
    assert math.isclose(sum(map(workload.cycle.share, workload.cycle.contexts)), 1.0)
