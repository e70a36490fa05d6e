"""Proofs that meet what happens on real servers: a promise that is broken already, odd runs, a gain that was luck."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.fakes import FakeStudy
from tests.study.test_invalid_runs import BusyAtTimes
from trimtab.errors import UsageError
from trimtab.flow.acceptance import Acceptance, AcceptanceRule, Sample
from trimtab.flow.score import Scorer
from trimtab.flow.start import start_searcher
from trimtab.records import MetricConstraint, Objective, Play, Role, Status, Trial
from trimtab.report import report_text
from trimtab.space import Value


def _fast(values: Mapping[str, Value]) -> float:
    """Four clients: 1000 operations a second are 4 ms each, 2100 are 1.9 ms."""
    return 1000.0 * (1.0 if values["compile"] else 1.5) * (1.4 if float(values["cache"]) >= 512 else 1.0)


def _text(fake: FakeStudy, trials: list[Trial], record: object) -> str:
    return " ".join(report_text(record, trials).split())  # type: ignore[arg-type]


class TestAPromise:
    """`throughput where p99 <= 3 ms`."""

    @pytest.mark.slow
    def test_that_the_server_as_found_breaks_can_be_kept_by_the_winner(self, fake: FakeStudy) -> None:
        fake.target._speed = _fast
        fake.text = fake.text.replace('name = "fake"', 'name = "fake"\nobjective = "throughput where p99 <= 3 ms"')
        fake.text = fake.text.replace("12 trials", "24 trials")
        record, trials = fake.tune()
        assert all(trial.excess > 0 for trial in trials if trial.role is Role.PROOF_BASELINE)
        assert record.verdict.result == "better"
        (row,) = [row for row in record.verdict.conditions if row.name == "constraints"]
        assert row.is_met
        assert re.match(r"latency_p99 <= 3 ms: (4|3\.9)\S* ms before, [12]\S* ms after$", row.text)

    def test_counts_on_average_over_the_pairs(self) -> None:
        rule = AcceptanceRule(
            metric="throughput", is_maximised=True, noise_sd=0.01,
            constraints=(MetricConstraint("latency_p99", False, 20.0),),
        )  # fmt: skip
        for last_ms, is_met in ((20.5, True), (29.0, False)):
            test = Acceptance(rule)
            for i, p99_ms in enumerate((18.0, 19.0, 18.5, last_ms)):
                test.add(Sample(value=100.0 + i / 10, bounded=(30.0,)), Sample(value=150.0 - i / 10, bounded=(p99_ms,)))
            assert test.is_accepted is is_met
            assert [row.name for row in test.conditions() if not row.is_met] == ([] if is_met else ["constraints"])

    def test_is_not_kept_by_a_value_that_is_unknown(self) -> None:
        assert not MetricConstraint("latency_p99", False, 20.0).is_met_by(math.nan)
        assert not MetricConstraint("throughput", True, 20.0).is_met_by(math.nan)

    def test_of_no_number_is_refused(self) -> None:
        with pytest.raises(UsageError, match="cannot read constraint='throughput >= 1.000.000'"):
            Objective.parse("p99 where throughput >= 1.000.000")


def test_one_odd_run_of_the_baseline_does_not_end_the_proof() -> None:
    """A quarter of one run was stolen: three pairs vary by 20.3 %, and eight that are well do not."""
    test = Acceptance(AcceptanceRule(metric="throughput", is_maximised=True, noise_sd=0.09))
    for value in (15.0, 11.25, 15.0):
        test.add(Sample(value=value), Sample(value=36.0))
    assert "baseline" in [row.name for row in test.conditions() if not row.is_met]
    assert not test.is_decided()
    for value in (15.2, 14.8, 15.1):
        test.add(Sample(value=value), Sample(value=36.0))
    assert test.is_accepted


def test_a_baseline_that_goes_on_varying_ends_it() -> None:
    test = Acceptance(AcceptanceRule(metric="throughput", is_maximised=True, noise_sd=0.09))
    for i in range(8):
        assert not test.is_decided() or i < 3
        test.add(Sample(value=15.0 if i % 2 else 10.0), Sample(value=36.0))
    assert test.is_decided()
    assert not test.is_accepted


@pytest.mark.slow
@pytest.mark.parametrize(("is_close", "n_pairs", "result"), [(True, 4, "better"), (False, 3, "no_improvement")])
def test_a_pair_that_is_missing_when_the_budget_ends_is_made(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch, is_close: bool, n_pairs: int, result: str
) -> None:
    """And none where more than one would be needed."""
    gains = iter([2.3, 2.4, 1.9, 2.2] if is_close else [2.3, 3.4, 1.2, 2.2])
    fake.target._speed = _fast
    fake.text += "\n[proof]\nablate = false\nadvice = false\n"
    plain = Acceptance.add

    def add(test: Acceptance, baseline: Sample, candidate: Sample) -> None:
        scripted = {name: getattr(candidate, name) for name in ("error_rate", "unsteadiness")}
        plain(test, Sample(value=1.0, unsteadiness=baseline.unsteadiness), Sample(value=next(gains), **scripted))

    monkeypatch.setattr(Acceptance, "add", add)
    monkeypatch.setattr(Scorer, "has_room_for_pairs", lambda scorer, n_runs: False)
    record, _ = fake.tune()
    assert (record.verdict.result, len(record.verdict.pairs)) == (result, n_pairs)
    assert any("one more pair follows" in phase for phase in fake.listener.phases) is is_close


@pytest.mark.slow
class TestARunOfTheBaseline:
    """That fails within the proof says nothing against the candidate."""

    def _dying(
        self, fake: FakeStudy, n_runs: int, *, after: int = 0, once: str = "", of: Role = Role.PROOF_BASELINE
    ) -> None:
        """So many of its runs fail after the first ones, from the phase on that begins with `once`."""
        fake.target._speed = _fast
        seen: list[int] = []

        def started(number: int, role: Role, changed: dict[str, str]) -> None:
            has_begun = any(phase.startswith(once) for phase in fake.listener.phases)
            seen.extend([number] if role is of and has_begun else [])
            is_bad = role is of and has_begun and after < len(seen) <= after + n_runs
            fake.workload.error_share = 0.9 if is_bad else 0.0

        fake.listener.trial_started = started  # type: ignore[method-assign]

    def test_is_made_again(self, fake: FakeStudy) -> None:
        self._dying(fake, 2)
        record, trials = fake.tune()
        assert any(t.role is Role.PROOF_BASELINE and t.status is not Status.OK for t in trials)
        assert record.verdict.result == "better"

    def test_is_named_when_it_stays_so(self, fake: FakeStudy) -> None:
        self._dying(fake, 99)
        record, trials = fake.tune()
        assert record.verdict.result == "no_improvement"
        assert not record.verdict.refused
        assert "your own config failed during the proof (trial " in _text(fake, trials, record)

    @pytest.mark.usefixtures("ablated")
    @pytest.mark.parametrize(
        ("of", "result"), [(Role.PROOF_BASELINE, "better"), (Role.PROOF_CANDIDATE, "no_improvement")]
    )
    def test_in_a_pair_that_only_makes_the_gain_narrower_leaves_it_proven(
        self, fake: FakeStudy, of: Role, result: str
    ) -> None:
        """Three pairs have proven the gain, and do not tell it to a quarter; one of the winner's own counts against it."""
        self._dying(fake, 99, once="measuring the gain more closely", of=of)
        fake.workload.noise_sd = 0.06
        fake.text = fake.text.replace('"12 trials"', '"24 trials"\nseed = 0')
        record, trials = fake.tune()
        verdict = record.verdict
        assert any(trial.role is of and trial.status is Status.FAILED_LOAD for trial in trials)
        assert verdict.result == result
        assert bool(verdict.failure) == (result != "better")
        assert len(verdict.pairs) >= 3

    @pytest.mark.usefixtures("ablated", "equal_costs")
    def test_refuses_no_config_whose_gain_is_still_open(self, fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
        """A wall-clock budget has time for the proof of another one, and for that of the larger one: both would be as void."""
        self._dying(fake, 99, after=3)
        monkeypatch.setattr(Acceptance, "is_decided", lambda self: False)
        monkeypatch.setattr(Acceptance, "_is_gain_met", False)
        fake.text = fake.text.replace("12 trials", "900s")
        record, trials = fake.tune()
        verdict = record.verdict
        assert len(verdict.pairs) == 3
        assert [row.name for row in verdict.conditions if not row.is_met] == ["gain"]
        assert verdict.result == "no_improvement"
        assert "your own config failed during the proof (trial " in _text(fake, trials, record)
        assert not verdict.refused
        begun = [phase for phase in fake.listener.phases if phase.startswith(("proving", "the winner is refused"))]
        assert begun == ["proving the winner in alternating pairs"]


@pytest.mark.slow
@pytest.mark.usefixtures("ablated", "equal_costs")
def test_the_time_of_a_failed_proof_is_searched_in(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one setting brought is gone when its proof begins, and nothing else that was measured helps."""

    def speed(values: Mapping[str, Value]) -> float:
        has_begun = any(phase.startswith("proving") for phase in fake.listener.phases)
        if not has_begun:
            return 1000.0 if values["compile"] else 2000.0
        return 2000.0 if float(values["cache"]) >= 300 else 1000.0

    fake.target._speed = speed
    fake.workload.noise_sd = 0.003
    fake.text = fake.text.replace(
        '"12 trials"', '"900s"\nseed = 2'
    )  # in which nothing of what helps then is found before
    n_before: list[int] = []

    def started(*arguments: Any, **options: Any) -> Any:
        n_before.append(options["n_before"])
        return start_searcher(*arguments, **options)

    monkeypatch.setattr("trimtab.flow.tuning.start_searcher", started)
    record, trials = fake.tune()
    assert any("the time that it left is searched in" in text for text in fake.listener.phases)
    first_proof = next(i for i, trial in enumerate(trials) if trial.role is Role.PROOF_CANDIDATE)
    assert any(trial.role is Role.SEARCH for trial in trials[first_proof:])
    searched = {trial.config for trial in trials[:first_proof] if trial.role is Role.SEARCH}
    assert n_before[:2] == [0, len(searched)], "the second search knows that the first one has looked around"
    assert record.verdict.result == "better"
    assert "cache" in record.verdict.config
    assert record.verdict.gain is not None
    assert record.verdict.gain.level > 0.95, "each further proof is allowed half the error"
    assert "compile = off" in record.verdict.refused[0]
    assert "refused by its proof (gain: " in record.verdict.refused[0]
    assert "Another config was tried: " in _text(fake, trials, record)


@pytest.mark.slow
@pytest.mark.usefixtures("ablated", "equal_costs")
def test_what_two_settings_bring_alone_comes_from_the_runs_of_the_proof(fake: FakeStudy) -> None:
    """Each alone is what is left without the other: the proof measures that, and the baseline, in the same blocks."""
    fake.target._speed = _fast
    fake.target._plays = (
        Play(name="large_cache", settings={"cache": 512}, worth=0.5),
        Play(name="no_compile", settings={"compile": False}, worth=0.5),
    )
    fake.text = fake.text.replace('"12 trials"', '"260s"\nseed = 2')
    record, trials = fake.tune()
    assert set(record.verdict.config) == {"compile", "cache"}
    assert set(record.verdict.worth) == {"compile", "cache"}
    for worth in record.verdict.worth.values():
        assert worth.alone is not None
        assert worth.alone_pairs >= 1
    assert not [t for t in trials if t.role is Role.BASELINE and t.number > _last_proof(trials)]


def _last_proof(trials: list[Trial]) -> int:
    return max(trial.number for trial in trials if trial.role is Role.PROOF_CANDIDATE)


@pytest.mark.slow
class TestABusyGenerator:
    """A fault that is not the config's costs it nothing."""

    @pytest.fixture
    def busy(self, fake: FakeStudy) -> BusyAtTimes:
        fake.workload = BusyAtTimes(fake.target.speed)
        return fake.workload

    def test_at_the_leaders_repeat(self, fake: FakeStudy, busy: BusyAtTimes) -> None:
        def started(number: int, role: Role, changed: dict[str, str]) -> None:
            if role is Role.REPEAT and not any(t.status is Status.INFRASTRUCTURE for t in fake.listener.ended):
                busy.n_bad = 2  # the run and its repeat

        fake.listener.trial_started = started  # type: ignore[method-assign]
        record, trials = fake.tune()
        bad = next(i for i, trial in enumerate(trials) if trial.status is Status.INFRASTRUCTURE)
        assert trials[bad].role is Role.REPEAT
        assert (trials[bad + 1].role, trials[bad + 1].config) == (Role.REPEAT, trials[bad].config)
        assert record.verdict.result == "better"

    @pytest.mark.parametrize(("n_bad", "is_tried"), [(2, True), (4, False)])
    def test_at_a_play(self, fake: FakeStudy, busy: BusyAtTimes, n_bad: int, is_tried: bool) -> None:
        fake.target._plays = (Play(name="no_compile", settings={"compile": False}, worth=0.5, reason="It costs."),)

        def on_phase(text: str) -> None:
            if text.startswith("trying the play no_compile"):
                busy.n_bad = n_bad

        fake.listener.on_phase = on_phase
        record, _ = fake.tune()
        plays = record.verdict.plays
        assert plays is not None
        assert [row.play for row in plays.tried] == (["no_compile"] if is_tried else [])
        assert ("it could not be measured: invalid run" in plays.left_out.get("no_compile", "")) is not is_tried


@pytest.mark.slow
def test_a_baseline_of_no_value_is_no_end_of_the_study(fake: FakeStudy) -> None:
    """No operation of its window ended: its mean latency is not known."""
    fake.text = fake.text.replace('name = "fake"', 'name = "fake"\nobjective = "latency_mean"')

    def value_of(self: Objective, measurement: object) -> object:
        found = value(self, measurement)  # type: ignore[arg-type]
        later = [t for t in fake.listener.ended if t.role is Role.BASELINE]
        is_odd = (
            len(later) == 3 and not any(t.status is Status.FAILED_LOAD for t in fake.listener.ended) and is_baseline[-1]
        )
        return type(found)(math.nan, math.nan, math.nan, found.level) if is_odd else found

    value, is_baseline = Objective.value, [False]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objective, "value", value_of)
        patch.setattr(
            fake.listener, "trial_started", lambda number, role, changed: is_baseline.append(role is Role.BASELINE)
        )
        record, trials = fake.tune()
    odd = [trial for trial in trials if trial.status is Status.FAILED_LOAD]
    assert [trial.role for trial in odd] == [Role.BASELINE]
    assert odd[0].reason == "the run gives no latency_mean that others could be compared with"
    assert record.verdict.result == "better"
