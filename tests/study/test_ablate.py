"""The ablation: what is needless goes, what is needed stays, whatever the noise, the budget and the accidents."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

import pytest

from tests.fakes import FakeStudy
from trimtab.records import Role, Status, Trial
from trimtab.report import report_text
from trimtab.space import Value

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ablated")]


def _planted(values: Mapping[str, Value]) -> float:
    """Two knobs matter (1.35 times and up to 1.3 times), four do not."""
    cache = min(1.0, max(0.0, (float(values["cache"]) - 128) / 384))
    return 1000.0 * (1.0 if values["compile"] else 1.35) * (1 + 0.3 * cache)


OLD = {"cache": 128, "sort_memory": 4, "page_cost": 4.0, "workers": 2, "compile": True, "method": "worker"}


def _study(fake: FakeStudy, trials: int = 24, *, seed: int = 1, proof: str = "") -> None:
    fake.target._speed = _planted
    fake.text = fake.text.replace('budget = "12 trials"', f'budget = "{trials} trials"\nseed = {seed}')
    # Its asks cost nothing: what is needless in a winner is the subject, and not how it was found.
    fake.text += f'\n[search]\nsearcher = "random"\n[proof]\nadvice = false\n{proof}\n'


@pytest.mark.full  # the quick form: test_false_drops_and_false_keeps of the flow, and the worth of each line below
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_planted_knobs_at_five_percent_noise(fake: FakeStudy, seed: int) -> None:
    fake.workload.noise_sd = 0.05
    _study(fake, 30, seed=seed, proof="ablation_share = 0.5")
    record, _ = fake.tune()
    verdict = record.verdict
    assert "compile" in verdict.ablation.full
    assert "compile" in verdict.config
    assert verdict.dropped
    for drop in verdict.dropped:
        assert drop.knob != "compile"
        assert drop.pairs >= 2 or drop.worth.high < 1 + verdict.ablation.tolerance


def test_the_worth_of_each_line_covers_the_truth(fake: FakeStudy) -> None:
    fake.workload.noise_sd = 0.005
    _study(fake, 30, proof="ablation_share = 0.5")
    record, _ = fake.tune()
    verdict = record.verdict
    assert set(verdict.config) == {"cache", "compile"}
    truth = {"compile": 1.35, "cache": _planted({**fake.target.values, **verdict.config, "compile": True}) / 1000}
    assert set(verdict.worth) == set(truth)
    for name, line in verdict.worth.items():
        for figure in ("without", "alone"):
            assert getattr(line, figure).low * 0.99 <= truth[name] <= getattr(line, figure).high * 1.01
            assert getattr(line, f"{figure}_pairs") >= 1
        assert line.verdict == "proven"
    both = verdict.gain
    assert both.low * 0.99 <= truth["compile"] * truth["cache"] <= both.high * 1.01


@pytest.mark.usefixtures("equal_costs")
def test_reasons_have_figures_and_say_which_kind(fake: FakeStudy) -> None:
    fake.workload.noise_sd = 0.03
    _study(fake, 24, proof="ablation_share = 0.5")
    record, _ = fake.tune()
    kinds = {"needless": "not more than the tolerance of", "not_told_apart": "the simpler config is preferred"}
    assert record.verdict.dropped
    for drop in record.verdict.dropped:
        assert kinds[drop.verdict] in drop.reason
        assert "95 % interval" in drop.reason
        assert ("together" in drop.reason) == (len(drop.group) > 1)


def test_a_winner_of_one_knob_is_measured_by_the_proof(fake: FakeStudy) -> None:
    _study(fake)
    fake.target._knobs = ["compile"]
    record, trials = fake.tune()
    line = record.verdict.worth["compile"]
    assert dict(record.verdict.config) == {"compile": False}
    assert line.without == line.alone == record.verdict.gain
    assert "proof" in line.reason
    assert not [t for t in trials if t.role is Role.ABLATION]


def test_a_removal_that_breaks_a_constraint_is_needed(fake: FakeStudy) -> None:
    # With compile off the constraint wants a large cache: the cache cannot go back alone.
    fake.target._speed = lambda values: 1000.0 if values["compile"] else 1500.0
    fake.workload.noise_sd = 0.005
    fake.text = fake.text.replace("12 trials", "30 trials")
    fake.text += (
        '\n[search]\nconstraints = ["compile or cache >= 256MB"]\n[proof]\nadvice = false\nablation_share = 0.5\n'
    )
    record, trials = fake.tune()
    assert set(record.verdict.config) == {"cache", "compile"}
    line = record.verdict.worth["cache"]
    assert "would break a constraint: search.constraints[0]" in line.reason
    ablated = [trial.status for trial in trials if trial.role is Role.ABLATION]
    assert ablated
    assert Status.INFEASIBLE not in ablated


def test_a_config_that_crashes_without_a_knob_keeps_it(fake: FakeStudy) -> None:
    _study(fake, 30, proof="ablation_share = 0.5")
    fake.target._crash_when = lambda values: not values["compile"] and float(values["page_cost"]) > 3.5
    record, trials = fake.tune()
    crashed = [t for t in trials if t.role is Role.ABLATION and t.status is Status.CRASHED]
    assert crashed
    assert {"compile", "page_cost"} <= set(record.verdict.config)
    assert "without it the config fails: trial" in record.verdict.worth["page_cost"].reason
    assert record.status == "proven"


@pytest.mark.parametrize(
    "budget", ["70s", "200s", *(pytest.param(each, marks=pytest.mark.full) for each in ("100s", "140s", "300s"))]
)
@pytest.mark.usefixtures("equal_costs")
def test_the_budget_in_seconds_holds_in_every_phase(fake: FakeStudy, budget: str) -> None:
    fake.target._speed = _planted
    fake.text = fake.text.replace("12 trials", budget) + "\n[proof]\nadvice = false\n"
    record, trials = fake.tune()
    spent_s = sum(sum(t.cost_s.values()) for t in trials)
    assert spent_s <= int(budget[:-1]) + 0.1
    ablated = [t for t in trials if t.role is Role.ABLATION]
    assert sum(sum(t.cost_s.values()) for t in ablated) <= 0.25 * int(budget[:-1]) + 14
    assert record.verdict.result == "better"
    if budget == "70s":
        assert record.verdict.ablation.end == "budget"
        assert any("budget" in line.reason for line in record.verdict.worth.values())


def test_a_killed_ablation_resumes_and_pays_for_no_trial_twice(fake: FakeStudy) -> None:
    _study(fake, 24, proof="ablation_share = 0.5")
    seen = []

    def stop(trial: Trial) -> None:
        if trial.role is Role.ABLATION:
            seen.append(trial.number)
            if len(seen) == 5:
                os.kill(os.getpid(), signal.SIGINT)

    fake.listener.on_trial = stop
    record, trials = fake.tune()
    assert record.status == "interrupted"
    assert record.verdict.config
    n_runs = len(fake.workload.seeds)
    fake.listener.on_trial = lambda trial: None
    resumed, all_trials = fake.tune()
    assert resumed.status == "proven"
    assert all_trials[: len(trials)] == trials
    assert len(fake.workload.seeds) - n_runs == len(all_trials) - len(trials)
    assert set(resumed.verdict.worth) == set(resumed.verdict.config)


class Death(BaseException):
    """Ends the tuner on the spot, as a kill does; nothing may catch it."""


@pytest.mark.parametrize("role", [Role.ABLATION, pytest.param(Role.PROOF_CANDIDATE, marks=pytest.mark.full)])
def test_a_sudden_death_after_the_search_resumes_by_replay(fake: FakeStudy, role: Role) -> None:
    _study(fake, 20, proof="ablation_share = 0.5")

    def die(trial: Trial) -> None:
        if trial.role is role:
            raise Death

    fake.listener.on_trial = die
    with pytest.raises(Death):
        fake.tune()
    n_runs = len(fake.workload.seeds)
    fake.listener.on_trial = lambda trial: None
    record, trials = fake.tune()
    assert record.verdict.result == "better"
    assert len(fake.workload.seeds) == len(trials) >= n_runs
    assert [trial.number for trial in trials] == list(range(len(trials)))


def test_without_ablation_the_winner_is_printed_whole(fake: FakeStudy) -> None:
    _study(fake, 16, proof="ablate = false")
    record, trials = fake.tune()
    assert not [t for t in trials if t.role is Role.ABLATION]
    assert record.verdict.dropped == ()
    assert record.verdict.ablation.end == "off"
    assert {line.verdict for line in record.verdict.worth.values()} == {"not_measured"}


@pytest.fixture
def begun(fake: FakeStudy) -> Callable[[str], bool]:
    """Whether a phase that begins with these words has begun: the server changes from then on."""
    return lambda words: any(phase.startswith(words) for phase in fake.listener.phases)


def test_a_gain_is_not_lost_when_the_smaller_config_fails_its_proof(
    fake: FakeStudy, begun: Callable[[str], bool]
) -> None:
    # From the proof on, the smaller config is slow: what the ablation saw does not hold any more.
    _study(fake, 24, proof="ablation_share = 0.5")

    def speed(values: Mapping[str, Value]) -> float:
        is_small = sum(values[name] != default for name, default in OLD.items()) < 4
        return 1000.0 if is_small and begun("proving") else _planted(values)

    fake.target._speed = speed
    record, _ = fake.tune()
    assert record.status == "proven"
    assert "so the larger one was proven" in record.verdict.ablation.went_back
    assert record.verdict.dropped == ()
    assert record.verdict.config == record.verdict.ablation.full
    assert "proving the larger config, for the smaller one failed" in fake.listener.phases
    assert any("taken back after it had been dropped" in line.reason for line in record.verdict.worth.values())


def _is_changed(values: Mapping[str, Value]) -> bool:
    return any(values[name] != default for name, default in OLD.items())


def test_a_winner_that_cannot_be_measured_any_more_is_left_to_the_proof(
    fake: FakeStudy, begun: Callable[[str], bool]
) -> None:
    _study(fake, 16)
    fake.target._crash_when = lambda values: begun("removing needless knobs") and _is_changed(values)
    record, _ = fake.tune()
    assert record.status == "no_improvement"
    assert record.verdict.ablation.end == "failed"
    assert record.verdict.dropped == ()
    assert "crashed" in record.verdict.failure
    assert not begun("proving"), "no run of it is made"


def test_a_best_config_that_fails_when_it_is_measured_again_is_followed_by_the_next_best(
    fake: FakeStudy, begun: Callable[[str], bool]
) -> None:
    """Of a budget in trials: all that seemed the best have the same flaw, and the others are far behind."""
    _study(fake, 24, seed=2, proof="ablation_share = 0.5")
    fake.target._crash_when = lambda values: begun("measuring the best again") and _planted(values) > 1500.0
    record, trials = fake.tune()
    crashed = [trial.config for trial in trials if trial.status is Status.CRASHED]
    assert crashed
    assert len(set(crashed)) == len(crashed), "none is started again"
    assert record.verdict.result == "better"


def test_a_refused_winner_is_followed_by_the_next_best(fake: FakeStudy, begun: Callable[[str], bool]) -> None:
    _study(fake, 24, proof="ablation_share = 0.5")
    fake.target._crash_when = lambda values: begun("proving") and not values["compile"]
    record, trials = fake.tune()
    verdict = record.verdict
    assert verdict.result == "better"
    assert "compile" not in verdict.config
    assert "cache" in verdict.config
    assert 1 <= len(verdict.refused) <= 2
    for line in verdict.refused:
        assert "compile = off" in line
        assert "refused by its proof" in line
        assert "crashed" in line
    assert verdict.gain.level > 0.95
    text = " ".join(report_text(record, trials).split())
    assert "Another config was tried: " in text


def test_where_none_can_be_proven_the_first_stands_with_its_reason(
    fake: FakeStudy, begun: Callable[[str], bool]
) -> None:
    _study(fake, 24)
    fake.target._crash_when = lambda values: begun("proving") and _is_changed(values)
    record, trials = fake.tune()
    verdict = record.verdict
    assert verdict.result == "no_improvement"
    assert "compile" in verdict.config
    assert "crashed" in verdict.failure
    assert {trial.status for trial in trials if trial.role is Role.PROOF_CANDIDATE} == {Status.CRASHED}
    assert 1 <= len(verdict.refused) <= 2
    assert len(set(verdict.refused)) == len(verdict.refused)
