"""Plays that the noise of one run hides are tried several at a time: kept where they help, and never against a constraint."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.fakes import FakeStudy
from trimtab.flow import Budget, Task
from trimtab.flow.bundles import Bundles
from trimtab.flow.score import Scorer
from trimtab.history import StudyRecord
from trimtab.records import Context, Objective, Play, PlaysSummary, Role, Status, Trial, TriedPlay, Verdict
from trimtab.report import report_text
from trimtab.search import RestartCost
from trimtab.space import Config, Knob, KnobKind, RestartClass, Space, Value
from trimtab.study.settle import settle_plays

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ablated")]

GOOD = Play(name="no_compile", settings={"compile": False}, reason="Compiling takes longer than it saves.", worth=0.1)
BAD = Play(name="many_workers", settings={"workers": 16}, reason="More workers do more at once.", worth=0.1)
BIG = Play(name="large_cache", settings={"cache": 512}, reason="Hot pages stay in memory.", worth=0.1)
HUGE = Play(name="huge_cache", settings={"cache": 768}, reason="All pages stay in memory.", worth=0.1)
PAGES = Play(name="pages", settings={"page_cost": 2.0}, reason="Pages cost less.", worth=0.05)


def speed(values: Mapping[str, Value]) -> float:
    fast = (1.0 if values["compile"] else 1.2) * (0.8 if values["workers"] == 16 else 1.0)
    return 1000.0 * fast * (1.15 if values["cache"] == 512 else 1.0)


@pytest.fixture
def noisy(fake: FakeStudy) -> FakeStudy:
    """Runs that vary by more than most plays bring."""
    fake.target._speed = speed
    fake.target._plays = (GOOD, BAD, BIG, HUGE, PAGES)
    fake.workload.noise_sd = 0.06
    fake.text = fake.text.replace("12 trials", "60 trials")
    return fake


_USUAL: list[tuple[StudyRecord, list[Trial]]] = []
"""The whole study as the fixture makes it; made once by each worker."""


@pytest.fixture
def usual(noisy: FakeStudy) -> tuple[StudyRecord, list[Trial]]:
    if not _USUAL:
        _USUAL.append(noisy.tune())
    return _USUAL[0]


def stopped_when(study: FakeStudy, is_last: Callable[[Trial], bool]) -> tuple[StudyRecord, list[Trial]]:
    """The study, interrupted after the first trial that is to be its last."""

    def stop(trial: Trial) -> None:
        if is_last(trial):
            os.kill(os.getpid(), signal.SIGINT)

    study.listener.on_trial = stop
    record, trials = study.tune()
    assert record.status == "interrupted"
    return record, trials


def plays_only(study: FakeStudy) -> tuple[StudyRecord, list[Trial]]:
    """The study up to the first trial behind its plays: most of its time would be the asks of the search."""
    return stopped_when(study, lambda trial: trial.role in (Role.ADVICE, Role.SEARCH))


def tried(verdict: Verdict) -> dict[str, TriedPlay]:
    assert verdict.plays is not None
    return {row.play: row for row in verdict.plays.tried}


def played(trials: list[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.role is Role.PLAY]


def test_what_helps_is_kept_and_what_harms_is_told(usual: tuple[StudyRecord, list[Trial]]) -> None:
    record, trials = usual
    rows = tried(record.verdict)
    assert record.verdict.plays.are_together
    assert rows["no_compile"].kept
    assert rows["large_cache"].kept
    assert not rows["many_workers"].kept
    harm = rows["many_workers"].worth
    assert harm is not None
    assert harm.estimate < 1
    for name, truth in (("no_compile", 1.2), ("large_cache", 1.15), ("pages", 1.0)):
        worth = rows[name].worth
        assert worth is not None
        assert worth.low < truth < worth.high
    assert len(played(trials)) <= 31, "half of the trials, and what is kept once more"
    text = " ".join(report_text(record, trials).split())
    assert "a linear model of these runs separates them, starting from what each play promises: an indication" in text
    assert f" of {len(played(trials))} runs" in text
    assert "kept for the next ones" not in text


def test_plays_of_one_knob_are_never_on_together_and_what_is_kept_has_run(
    usual: tuple[StudyRecord, list[Trial]],
) -> None:
    record, trials = usual
    assert {trial.config["cache"] for trial in played(trials)} <= {128, 512, 768}
    rows = tried(record.verdict)
    assert not (rows["large_cache"].kept and rows["huge_cache"].kept)
    kept = {
        name: value
        for play in (GOOD, BAD, BIG, HUGE, PAGES)
        if rows[play.name].kept
        for name, value in play.settings.items()
    }
    assert any(all(trial.config[name] == value for name, value in kept.items()) for trial in played(trials))


def test_several_are_on_in_most_runs(usual: tuple[StudyRecord, list[Trial]]) -> None:
    _, trials = usual
    changed = [len(trial.config.difference(trials[0].config)) for trial in played(trials)]
    assert sum(n > 1 for n in changed) > len(changed) / 2


@pytest.mark.parametrize("table", ["[guard]\nregression_budget = '10h'\n", "[search]\ntemper = 'prudent'\n"])
def test_a_server_with_users_is_not_given_several_at_once(noisy: FakeStudy, table: str) -> None:
    noisy.text += f"\n{table}"
    record, trials = plays_only(noisy)
    assert not record.verdict.plays.are_together
    assert len(played(trials)) == 5


def test_on_a_quiet_machine_they_are_tried_one_by_one(noisy: FakeStudy) -> None:
    noisy.workload.noise_sd = 0.002
    record, _ = plays_only(noisy)
    assert not record.verdict.plays.are_together


def test_found_settings_that_break_a_constraint_are_made_legal_first(noisy: FakeStudy) -> None:
    noisy.text += '\n[search]\nplays = "on"\nconstraints = ["cache <= 32MB"]\n'
    record, trials = plays_only(noisy)
    assert {trial.config["cache"] for trial in played(trials)} == {32}
    rows = tried(record.verdict)
    assert next(iter(rows)) == "within_limits"
    assert rows["within_limits"].kept
    assert record.verdict.plays.left_out["large_cache"].startswith("it contradicts a constraint: ")


def test_what_crashes_is_blamed_in_the_end(noisy: FakeStudy) -> None:
    noisy.target._crash_when = lambda values: values["workers"] == 16
    record, trials = plays_only(noisy)
    rows = tried(record.verdict)
    assert rows["no_compile"].kept
    assert not rows["many_workers"].kept
    assert rows["many_workers"].verdict == "failed"
    assert sum(trial.config["workers"] == 16 for trial in played(trials)) <= 3


def test_a_study_stopped_among_them_goes_on_with_the_same(noisy: FakeStudy) -> None:
    record, trials = stopped_when(noisy, lambda trial: trial.role is Role.PLAY and trial.number >= 5)
    assert tried(record.verdict), "what was seen so far is in the report"
    n_before = len(played(trials))
    record, again = plays_only(noisy)
    assert [t.config for t in played(again)][:n_before] == [t.config for t in played(trials)]
    assert len({trial.number for trial in again}) == len(again)
    assert len(played(again)) > n_before


def test_what_only_makes_the_settings_legal_is_no_play_s_effect(noisy: FakeStudy) -> None:
    """The small cache costs a fifth: that is not what the plays on top of it harm."""
    noisy.target._speed = lambda values: speed(values) * (0.8 if values["cache"] == 32 else 1.0)
    noisy.text += '\n[search]\nplays = "on"\nconstraints = ["cache <= 32MB"]\n'
    record, _ = plays_only(noisy)
    rows = tried(record.verdict)
    assert rows["no_compile"].kept
    assert rows["no_compile"].beside == ("within_limits",)
    for name, truth in (("no_compile", 1.2), ("pages", 1.0)):
        worth = rows[name].worth
        assert worth is not None
        assert worth.low < truth < worth.high


def test_what_crashes_whenever_it_is_on_failed_with_the_reason(noisy: FakeStudy) -> None:
    noisy.target._plays = (GOOD, BIG, Play(name="ring", settings={"method": "ring"}, worth=0.3, chance=0.9))
    noisy.target._crash_when = lambda values: values["method"] == "ring"
    record, _ = plays_only(noisy)
    row = tried(record.verdict)["ring"]
    assert (row.verdict, row.worth, row.kept) == ("failed", None, False)
    assert row.note.startswith("crashed: ")


def test_what_crashes_only_together_is_not_kept_together(noisy: FakeStudy) -> None:
    noisy.target._plays = (GOOD, BIG)
    noisy.target._crash_when = lambda values: values["cache"] == 512 and not values["compile"]
    record, trials = plays_only(noisy)
    kept = [name for name, row in tried(record.verdict).items() if row.kept]
    assert len(kept) <= 1
    assert any(trial.status is Status.CRASHED for trial in played(trials))


def test_another_budget_on_resume_goes_on_with_the_runs_that_were_made(noisy: FakeStudy) -> None:
    _, trials = stopped_when(noisy, lambda trial: trial.role is Role.PLAY and trial.number >= 6)
    noisy.text = noisy.text.replace("60 trials", "14 trials")  # too few to begin so
    record, again = plays_only(noisy)
    assert record.verdict.plays.are_together
    assert [t.number for t in played(again)][: len(played(trials))] == [t.number for t in played(trials)]
    assert [t.config for t in played(again)][: len(played(trials))] == [t.config for t in played(trials)]


@pytest.mark.parametrize(("together", "n_runs"), [(("no_compile",), 3), ((), 2)])
def test_runs_of_the_same_plays_count_each_on_resume(together: tuple[str, ...], n_runs: int) -> None:
    """With a smaller budget those on record would be more than what the plays may have now."""
    plays = PlaysSummary(plan=(GOOD, BIG), together=together)
    record = SimpleNamespace(id=1, verdict=Verdict(plays=plays))
    trials = [
        Trial(number=number, role=role, config=Config({}), context=Context("w", clients=1), status=status)
        for number, (role, status) in enumerate(
            [(Role.BASELINE, Status.OK), *((Role.PLAY, each) for each in (Status.OK, Status.INFRASTRUCTURE, Status.OK))]
        )
    ]
    history = SimpleNamespace(trials=lambda study_id: trials)
    phase = settle_plays(None, history, record, None, None, is_pruned=False)  # type: ignore[arg-type]
    assert phase.n_recorded == n_runs


def test_with_few_runs_what_promises_much_is_tried_by_itself_first(noisy: FakeStudy) -> None:
    noisy.text = noisy.text.replace("60 trials", "24 trials")
    noisy.target._plays = (GOOD, replace(BIG, worth=0.4), BAD, PAGES)
    record, trials = plays_only(noisy)
    first, *others = played(trials)
    assert first.config.difference(record.baseline) == ("cache",)
    kept, *rest = record.verdict.plays.tried
    assert (kept.play, kept.kept, kept.note) == ("large_cache", True, "")
    assert record.verdict.plays.are_together
    assert {row.play for row in rest} == {"no_compile", "many_workers", "pages"}
    assert all(trial.config["cache"] == 512 for trial in others)
    assert "large_cache" not in record.verdict.plays.together
    text = " ".join(report_text(record, trials).split())
    assert "Those that promise much were tried first, one on top of the other. The noise of one run hides" in text
    assert "kept for the next ones" in text


def test_with_very_few_runs_all_are_tried_one_by_one(noisy: FakeStudy) -> None:
    noisy.text = noisy.text.replace("60 trials", "14 trials")
    record, _ = plays_only(noisy)
    assert not record.verdict.plays.are_together


def test_two_plays_that_set_the_same_here_are_one(noisy: FakeStudy) -> None:
    noisy.target._plays = (GOOD, BIG, Play(name="half_to_the_cache", settings={"cache": 512}, worth=0.01))
    record, _ = plays_only(noisy)
    assert record.verdict.plays.left_out["half_to_the_cache"] == "it sets here what the play large_cache sets"


def test_plays_that_cannot_be_on_together_are_tried_one_by_one(noisy: FakeStudy) -> None:
    noisy.target._plays = (BIG, HUGE)
    record, trials = plays_only(noisy)
    assert not record.verdict.plays.are_together
    assert len(played(trials)) == 2


SPACE = Space(
    [
        Knob(name=name, kind=KnobKind.BOOLEAN, default=False, restart=RestartClass.RELOAD)
        for name in ("heap", "pool", "keep", "log")
    ]
)
TASK = Task(
    space=SPACE, baseline=SPACE.default(), advice=SPACE.default(), objective=Objective("throughput"),
    budget=Budget(trials=40), context=Context(workload="w", clients=1),
    restarts=(RestartCost(frozenset({"heap", "pool"}), 0.8),),
)  # fmt: skip


def bundled(status: Callable[[Config], Status], n_runs: int = 12) -> tuple[list[frozenset[str]], Bundles]:
    """What was on in each run, one after the other."""
    scorer = Scorer(TASK)
    for at_s in (0.0, 10.0, 20.0):
        scorer.track.add(at_s, 1000.0, 50.0)
    bundles = Bundles(plays=[Play(name=name, settings={name: True}) for name in SPACE.knobs], start=TASK.baseline)
    steps = bundles.run(TASK, scorer, lambda: len(bundles.made) < n_runs, lambda: iter(()))  # type: ignore[arg-type,return-value]
    ask = next(steps)
    with contextlib.suppress(StopIteration):
        while True:
            ends, loss = status(ask.config), 0.02 * (-1) ** len(scorer.trials)
            scorer.trials.append(
                Trial(
                    number=len(scorer.trials), role=Role.PLAY, config=ask.config, context=TASK.context, status=ends,
                    loss=loss if ends is Status.OK else None, loss_se=0.05,
                )
            )  # fmt: skip
            ask = steps.send(scorer.trials[-1])
    return [bundle.plays for bundle, _ in bundles.made], bundles


def test_plays_with_a_slow_restart_stay_for_several_runs() -> None:
    """Two runs each: half of the restarts."""
    made, _ = bundled(lambda config: Status.OK)
    restarted = [plays & {"heap", "pool"} for plays in made[:12]]
    assert restarted[::2] == restarted[1::2]
    assert len(set(restarted)) > 1
    assert len({plays - {"heap", "pool"} for plays in made}) > 1


def test_what_crashed_is_drawn_anew() -> None:
    """There is nothing warm to go on with."""
    made, _ = bundled(lambda config: Status.CRASHED if config["heap"] else Status.OK)
    assert any("heap" in one for one in made)
    assert sum("heap" in one for one in made) <= 4


@pytest.mark.parametrize("at_least", [1, 2, 3])
def test_what_has_crashed_is_not_run_again(at_least: int) -> None:
    """Whatever crashes with so many plays is tried with other ones beside it, or without; and none of it is kept."""
    made, bundles = bundled(lambda config: Status.CRASHED if sum(config.values()) >= at_least else Status.OK)
    crashed = [plays for plays in made if len(plays) >= at_least]
    assert crashed
    assert len(set(crashed)) == len(crashed)
    assert len(bundles.kept) < at_least


def test_where_nothing_can_be_measured_no_more_is_tried() -> None:
    made, bundles = bundled(lambda config: Status.INFRASTRUCTURE)
    assert len(made) == 4
    assert not bundles.kept
