"""The acceptance rule, condition by condition, and what the study says when one fails."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from tests.fakes import FakeStudy
from trimtab.flow.acceptance import Acceptance, AcceptanceRule, Sample
from trimtab.history import StudyRecord
from trimtab.measure import Looks
from trimtab.records import Objective, Role, Status, Trial

RULE = AcceptanceRule(metric="throughput", is_maximised=True, noise_sd=0.01)
WOBBLE = (1.0, 1.01, 0.995, 1.004, 0.998, 1.006, 0.99, 1.002)


def sample(value: float = 100.0, *, p99: float = 20.0, mean: float = 5.0, **more: float) -> Sample:
    metrics = {"throughput": value, "latency_mean": mean, "latency_p99": p99}
    return Sample(value=value, metrics=metrics, **{"unsteadiness": 0.05, **more})  # type: ignore[arg-type]


def proof(candidate: Sample, n: int = 5, rule: AcceptanceRule = RULE, baseline: Sample | None = None) -> Acceptance:
    """Pairs with a little noise on every figure."""
    test = Acceptance(rule)
    for i in range(n):
        test.add(_noisy(baseline or sample(), WOBBLE[i]), _noisy(candidate, WOBBLE[-1 - i]))
    return test


def _noisy(one: Sample, factor: float) -> Sample:
    metrics = {name: value * factor for name, value in one.metrics.items()}
    return Sample(
        value=one.value * factor, metrics=metrics, error_rate=one.error_rate, unsteadiness=one.unsteadiness * factor,
        memory_share=one.memory_share * factor, swap_share=one.swap_share, disk_growth_share=one.disk_growth_share,
    )  # fmt: skip


def unmet(test: Acceptance) -> list[str]:
    return [condition.name for condition in test.conditions() if not condition.is_met]


def text_of(test: Acceptance, name: str) -> str:
    return next(condition.text for condition in test.conditions() if condition.name == name)


def test_a_clean_gain_is_accepted() -> None:
    test = proof(sample(150, p99=18, mean=4))
    assert test.is_accepted
    assert test.is_settled()
    assert [c.name for c in test.conditions()] == [
        "gain", "baseline", "latency_mean", "latency_p99", "error_rate", "stability", "durability",
    ]  # fmt: skip


def test_one_pair_that_is_missing() -> None:
    """Three pairs of one run of the demo: more than twice as fast each time, and an interval that still holds 1."""
    test = Acceptance(RULE)
    for before, after in ((1.01, 2.31), (1.0, 2.4), (1.03, 2.0)):
        test.add(sample(before), sample(after))
    assert unmet(test) == ["gain"]
    assert test.is_one_pair_short
    test.add(sample(1.02), sample(2.2))
    assert test.is_accepted
    assert not test.is_one_pair_short, "it is there"


@pytest.mark.parametrize("after", [sample(101), sample(150, p99=30), sample(70)])
def test_no_pair_is_missing_where_the_gain_is_small_or_more_speaks_against_the_candidate(after: Sample) -> None:
    assert not proof(after, n=3).is_one_pair_short


def test_no_gain() -> None:
    test = proof(sample(100))
    assert unmet(test) == ["gain"]
    assert text_of(test, "gain").endswith("; needed: more than 1.02")


def test_a_gain_below_the_noise_of_one_run_is_not_claimed() -> None:
    rule = AcceptanceRule(metric="throughput", is_maximised=True, noise_sd=0.08)
    test = proof(sample(106), rule=rule)
    assert test.gain.ratio.low > 1.02
    assert unmet(test) == ["gain"]
    assert proof(sample(102), rule=rule).is_decided(), "not even its upper end is above the noise"
    assert text_of(test, "gain").endswith(
        "needed: more than 1.02, and 1.08 in the mean, because of the noise from run to run"
    )


def test_many_pairs_prove_a_gain_that_few_leave_open() -> None:
    """Noise of 6 %, a gain of 10 %: the lower bound comes above 2 %, and need not come above the noise of a single run."""
    rng, rule = np.random.default_rng(4), AcceptanceRule(metric="throughput", is_maximised=True, noise_sd=0.06)
    test, accepted = Acceptance(rule), list[bool]()
    for _ in range(24):
        test.add(sample(100 * math.exp(rng.normal(0, 0.06))), sample(110 * math.exp(rng.normal(0, 0.06))))
        accepted.append(test.is_accepted)
    assert not any(accepted[:5])
    assert accepted[-1]
    assert test.gain.ratio.low < 1.06


def test_a_longer_p99_is_not_accepted() -> None:
    test = proof(sample(150, p99=26))
    assert unmet(test) == ["latency_p99"]
    assert test.is_settled()
    assert text_of(test, "latency_p99").startswith("p99 +29.8 %")
    assert ", surely at least " in text_of(test, "latency_p99")


def test_a_p99_within_the_tolerance_is() -> None:
    assert proof(sample(150, p99=20.4)).is_accepted


def test_a_p99_that_only_looks_longer_is_measured_on() -> None:
    test = Acceptance(RULE)
    for p99 in (21.0, 30.0, 19.0):
        test.add(sample(), sample(150 + p99 / 30, p99=p99))
    assert not test.is_settled()
    assert unmet(test) == []


def test_throughput_is_guarded_when_latency_is_the_objective() -> None:
    rule = AcceptanceRule(metric="latency_mean", is_maximised=False)
    test = Acceptance(rule)
    for factor in WOBBLE[:5]:
        b, c = sample(100 * factor, mean=5.0), sample(70 / factor, mean=3.0)
        test.add(Sample(value=5.0 * factor, metrics=b.metrics), Sample(value=3.0 / factor, metrics=c.metrics))
    assert unmet(test) == ["throughput"]
    assert text_of(test, "throughput").startswith("throughput -30.")


def test_more_errors() -> None:
    test = proof(sample(150, error_rate=0.008))
    assert unmet(test) == ["error_rate"]
    assert text_of(test, "error_rate") == "errors 0.0 % before, 0.8 % after"


@pytest.mark.parametrize(
    ("more", "name"),
    [({"memory_share": 1.2}, "memory"), ({"swap_share": 0.1}, "swap"), ({"disk_growth_share": 0.05}, "disk")],
)
def test_resources(more: dict[str, float], name: str) -> None:
    before = {key: 0.0 if key != "memory_share" else 0.3 for key in more}
    assert unmet(proof(sample(150, **more), baseline=sample(**before))) == [name]
    fine = {key: 0.0 if key != "memory_share" else 0.9 for key in more}
    assert proof(sample(150, **fine), baseline=sample(**before)).is_accepted


def test_a_shakier_candidate() -> None:
    test = Acceptance(RULE)
    for i, value in enumerate((220.0, 140.0, 230.0, 135.0, 215.0)):
        test.add(sample(100 * WOBBLE[i]), sample(value))
    assert "stability" in unmet(test)
    assert "runs range over 1" in text_of(test, "stability")


def test_a_candidate_whose_worst_run_is_far_better_than_the_best_before_may_vary() -> None:
    test = Acceptance(RULE)
    for i, value in enumerate((900.0, 570.0, 930.0, 555.0, 870.0)):
        test.add(sample(100 * WOBBLE[i]), sample(value))
    assert "stability" not in unmet(test)
    assert "its worst run is still 5." in text_of(test, "stability")


def test_a_candidate_that_stays_better_even_one_range_further_down_may_vary() -> None:
    """The runs of a demo on a quiet machine: a restart cost the candidate a quarter, and each of its runs was twice as fast."""
    test = Acceptance(RULE)
    for before, after in ((1.01, 2.81), (0.95, 2.78), (0.95, 2.17), (1.07, 2.11)):
        test.add(sample(100 * before), sample(100 * after))
    assert unmet(test) == []
    steadier = Acceptance(RULE)
    for before, after in ((1.01, 2.81), (0.99, 2.78), (0.99, 2.17), (1.02, 2.0)):
        steadier.add(sample(100 * before), sample(100 * after))
    assert unmet(steadier) == [], "where chance does not explain how much more they vary"
    assert "its worst run is still 1.96 times" in text_of(steadier, "stability")


@pytest.mark.parametrize(("noise", "is_met"), [(0.095, True), (0.02, False)])
def test_a_wide_range_that_the_noise_explains_is_no_instability(noise: float, is_met: bool) -> None:
    """Five pairs on a machine with 9.5 % noise, candidate and baseline alike; a quiet baseline makes the same runs unstable."""
    test = Acceptance(AcceptanceRule(metric="throughput", is_maximised=True, noise_sd=noise))
    befores = (0.92, 0.91, 1.02, 1.03, 1.07) if is_met else (0.98, 0.97, 1.0, 1.02, 1.01)
    for before, after in zip(befores, (1.68, 1.37, 1.41, 1.1, 1.33), strict=True):
        test.add(sample(100 * before), sample(100 * after))
    assert ("stability" not in unmet(test)) is is_met
    assert text_of(test, "stability").startswith(
        "runs range over 17.6 % before, 52.7 % after" if is_met else "runs range"
    )


def test_a_candidate_that_jumps_within_its_runs() -> None:
    assert unmet(proof(sample(150, unsteadiness=0.4))) == ["stability"]
    assert proof(sample(150, unsteadiness=0.08)).is_accepted


def test_an_unstable_baseline_refuses_everything() -> None:
    rule = AcceptanceRule(metric="throughput", is_maximised=True, noise_sd=0.3, delta=0.3)
    test = proof(sample(400), rule=rule)
    assert unmet(test) == ["baseline"]
    assert text_of(test, "baseline") == "the baseline varies by 30 % from run to run (at most 20 % for any claim)"


ODD = ((1.05, 1.79), (0.72, 1.78), (1.01, 1.95))
"""Pairs of a study on MariaDB: one run of the baseline of which the hypervisor took much, and a candidate beyond all of them."""

BEFORE = tuple(np.log([100.0, 101.0, 99.0, 93.0, 103.0, 106.0]))
"""That study's baseline before the proof."""


def proof_after(earlier: Sequence[float], pairs: Sequence[tuple[float, float]], noise: float = 0.06) -> Acceptance:
    """Pairs of a study whose baseline has shown `earlier` (logarithms) before."""
    rule = AcceptanceRule(metric="throughput", is_maximised=True, noise_sd=noise, earlier=tuple(earlier))
    test = Acceptance(rule)
    for before, after in pairs:
        test.add(sample(100 * before), sample(100 * after))
    return test


def test_one_odd_run_of_the_baseline_hides_no_gain() -> None:
    test = proof_after(BEFORE, ODD)
    assert unmet(test) == ["gain"]
    assert test.is_one_pair_short
    assert text_of(test, "gain").endswith("and 1.03 in the mean, because of the noise from run to run without odd runs")
    assert text_of(test, "baseline") == (
        "the baseline varies by 25 % from run to run, and without odd runs by 5 % (at most 20 % for any claim)"
    )
    assert proof_after(BEFORE, (*ODD, (1.03, 1.9))).is_accepted
    assert "baseline" in unmet(proof_after((), ODD)), "three runs do not tell"


@pytest.mark.parametrize("earlier", [BEFORE, tuple(np.log([100.0, 70.0, 110.0, 65.0, 100.0, 72.0]))])
def test_a_baseline_that_goes_on_varying_refuses_everything(earlier: Sequence[float]) -> None:
    test = proof_after(
        earlier, ((1.05, 1.79), (0.72, 1.78), (1.01, 1.95), (0.7, 1.8), (1.04, 1.8), (0.71, 1.9), (1.0, 1.7))
    )
    assert unmet(test) == ["baseline"]
    assert "without odd runs" not in text_of(test, "baseline")


def test_an_odd_run_before_the_proof_hides_no_gain() -> None:
    """The noise known before is 25 %, all of it by one run of seven."""
    test = proof_after((*BEFORE, math.log(50.0)), [(b / 100, 2.0 * b / 100) for b in (101, 99, 103, 98)], noise=0.25)
    assert test.is_accepted


@pytest.mark.parametrize("earlier", [(100.0, 101.0, 55.0, 99.0), (100.0, 60.0, 101.0, 99.0, 62.0, 102.0)])
def test_odd_runs_before_the_proof_do_not_end_it_before_more_pairs_have_told(earlier: Sequence[float]) -> None:
    """Of four runs one was held up, or of six two, and so is one in the first pairs; all others hardly differ."""
    before = np.log(earlier)
    test = proof_after(before, ODD, noise=0.3)
    assert "baseline" in unmet(test)
    assert not test.is_decided()
    more = ((1.03, 1.9), (1.0, 1.85), (1.02, 1.9), (1.01, 1.88), (0.99, 1.86))
    assert proof_after(before, (*ODD, *more), noise=0.3).is_accepted


def test_a_baseline_that_has_varied_before_and_goes_on_is_given_up_after_eight_pairs() -> None:
    pairs = [(0.7 if i % 2 else 1.05, 1.8 + i / 100) for i in range(8)]
    for n in range(3, 9):
        test = proof_after(np.log([100.0, 70.0, 110.0, 65.0, 100.0, 72.0]), pairs[:n], noise=0.3)
        assert "baseline" in unmet(test)
        assert test.is_decided() is (n == 8)


ONE_ODD = ((1.0, 2.0), (1.04, 2.1), (0.97, 1.95), (1.02, 1.2), (0.99, 2.02), (1.01, 2.05))


def test_one_odd_run_of_the_candidate_is_held_against_it_only_where_the_baseline_has_none() -> None:
    assert "stability" in unmet(proof_after(BEFORE, ONE_ODD))
    test = proof_after((*BEFORE[:3], math.log(55.0), *BEFORE[3:]), ONE_ODD)
    assert "stability" not in unmet(test)
    assert text_of(test, "stability").endswith(
        "; before the proof runs of your settings had such a range, too (89.4 %)"
    )


def test_a_candidate_that_goes_on_varying_is_unstable_all_the_same() -> None:
    earlier = (*BEFORE, math.log(70.0), *BEFORE)
    shaky = [(1.0 + 0.01 * (i % 3), 2.4 if i % 2 else 1.2) for i in range(6)]
    assert "stability" in unmet(proof_after(earlier, shaky))


def test_a_drift_before_the_proof_excuses_no_candidate() -> None:
    """From 200 to 100 in twelve runs: twice as much between the first and the last of them, and hardly any between neighbours."""
    assert "stability" in unmet(proof_after(np.log(np.geomspace(200.0, 100.0, 12)), ONE_ODD))


def test_a_slow_drift_is_no_instability() -> None:
    test = Acceptance(AcceptanceRule(metric="throughput", is_maximised=True))
    for level in np.geomspace(100, 50, 8):
        test.add(sample(float(level)), sample(1.5 * float(level) * 1.001))
    assert test.baseline_noise < 0.1


def test_durability_must_be_unchanged_or_opened() -> None:
    locked = AcceptanceRule(metric="throughput", is_maximised=True, locked=("fsync",))
    assert unmet(proof(sample(150), rule=locked)) == ["durability"]
    opened = AcceptanceRule(metric="throughput", is_maximised=True, opened=("fsync",))
    test = proof(sample(150), rule=opened)
    assert test.is_accepted
    assert text_of(test, "durability") == "lowered as you allow: fsync"


_USUAL: list[tuple[StudyRecord, list[Trial]]] = []
"""A fake study as it is by default; made once by each worker."""


@pytest.fixture
def usual(fake: FakeStudy) -> tuple[StudyRecord, list[Trial]]:
    if not _USUAL:
        _USUAL.append(fake.tune())
    return _USUAL[0]


@pytest.mark.slow
def test_a_sample_needs_a_measurement(usual: tuple[StudyRecord, list[Trial]]) -> None:
    _, trials = usual
    one = Sample.of(trials[0], Objective("throughput"))
    assert one.value == trials[0].measurement.throughput.estimate  # type: ignore[union-attr]
    assert math.isnan(one.memory_share)
    lost = Trial(number=1, role=Role.SEARCH, config=trials[0].config, context=trials[0].context, status=Status.CRASHED)
    with pytest.raises(ValueError, match="trial 1 has no measurement"):
        Sample.of(lost, Objective("throughput"))


@pytest.mark.slow
def test_a_proven_gain_has_every_condition_met(usual: tuple[StudyRecord, list[Trial]]) -> None:
    record, _ = usual
    assert record.verdict.result == "better"
    assert record.verdict.refused_by == ()
    met = {row.name for row in record.verdict.conditions if row.is_met}
    assert met >= {"gain", "baseline", "error_rate", "stability", "durability"}
    assert len(met) == len(record.verdict.conditions)


def test_a_proof_of_fewer_pairs_has_narrower_intervals_and_takes_no_more() -> None:
    rng = np.random.default_rng(6)
    pairs = [
        (sample(100 * math.exp(rng.normal(0, 0.05))), sample(115 * math.exp(rng.normal(0, 0.05)))) for _ in range(8)
    ]
    lows = []
    for most in (8, 24):
        test = Acceptance(AcceptanceRule(metric="throughput", is_maximised=True, noise_sd=0.05, looks=Looks(most)))
        for baseline, candidate in pairs:
            test.add(baseline, candidate)
        lows.append(test.gain.ratio.low)
        if most == 8:
            assert not test.is_one_pair_short
            with pytest.raises(ValueError, match="most=8"):
                test.add(*pairs[0])
    assert lows[0] > 1.01 * lows[1]
