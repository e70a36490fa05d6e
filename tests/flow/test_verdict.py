"""What a study's verdict is made of, from outcomes that are given: no phase runs."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.flow.ablate import Ablation
from trimtab.flow.prove import Proof
from trimtab.flow.verdict import Outcome, make_verdict
from trimtab.flow.worth import Worth
from trimtab.measure import Interval, PairedComparison
from trimtab.records import Context, GainInterval, Objective, Role, Status, Trial, WarmStartSummary
from trimtab.space import Knob, KnobKind, SafetyClass, Space

SPACE = Space(
    [
        Knob(name="a", kind=KnobKind.INTEGER, low=1, high=9, default=1),
        Knob(name="b", kind=KnobKind.INTEGER, low=1, high=9, default=1),
        Knob(name="c", kind=KnobKind.BOOLEAN, default=True, safety=SafetyClass.DURABILITY),
    ]
)
BASELINE = SPACE.default()
TASK: Any = SimpleNamespace(objective=Objective.parse("throughput"), space=SPACE, baseline=BASELINE)
GAIN = Interval(1.5, 1.3, 1.7)
BETTER = Proof(
    is_better=True, gain=PairedComparison(ratio=GAIN, n_pairs=2, p_value=0.01, gains=(1.4, 1.6)), advice_gain=None,
    beside_advice=None, pairs=((10.0, 14.0), (10.0, 16.0)), advice_pairs=(), delta=0.02,
)  # fmt: skip


class Track:
    """What the baselines drifted; `n` of them."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def summary(self) -> Any:
        return SimpleNamespace(relative_range=math.inf, is_beyond_noise=True)


def scorer(*trials: Trial, n_baselines: int = 0) -> Any:
    return SimpleNamespace(trials=list(trials), noise_sd=0.03, track=Track(n_baselines), value_of=lambda trial: 7.0)


def trial(number: int, role: Role, *, measured: bool = True) -> Trial:
    made = Trial(
        number=number, role=role, config=BASELINE, context=Context("x", 1), status=Status.OK, loss=0.0, loss_se=0.1
    )
    return replace(made, measurement=object() if measured else None, started_at=float(number))  # type: ignore[arg-type]


def won(*changed: str, proof: Proof | None = BETTER, worth: dict[str, Worth] | None = None, **kept: str) -> Outcome:
    """A winner that changed these knobs."""
    winner = BASELINE.replace(dict.fromkeys(changed, 5))
    ablation = Ablation(full=winner, current=winner, tolerance=0.01, kept=dict(kept))
    ablation.reasons.update({name: f"reason of {name}" for name in kept})
    return Outcome(candidate=winner, proof=proof, ablation=ablation, worth=worth or {})


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (won("a"), "better"),
        (won("a", proof=replace(BETTER, is_better=False)), "no_improvement"),
        (won("a", proof=None), "no_improvement"),
        (Outcome(), "no_improvement"),
        (replace(won("a", proof=None), is_interrupted=True), "interrupted"),
        (replace(won("a", proof=replace(BETTER, is_better=False)), is_interrupted=True), "interrupted"),
        (replace(won("a"), is_interrupted=True), "better"),
        (replace(won("a"), result="benched"), "benched"),
        (Outcome(result="benched", is_interrupted=True), "interrupted"),
    ],
)
def test_the_result(outcome: Outcome, result: str) -> None:
    assert make_verdict(TASK, scorer(), outcome).result == result


@pytest.mark.parametrize(("n_baselines", "noise"), [(0, None), (1, None), (2, 0.03)])
def test_noise_is_known_from_two_baselines_on(n_baselines: int, noise: float | None) -> None:
    assert make_verdict(TASK, scorer(n_baselines=n_baselines), Outcome(is_interrupted=True)).noise_floor == noise


def test_one_changed_knob_is_worth_what_the_proof_gained() -> None:
    line = make_verdict(TASK, scorer(), won("a", a="undecided")).worth["a"]
    assert (line.verdict, line.without_pairs, line.alone_pairs) == ("proven", 2, 2)
    assert line.without == line.alone == GainInterval.of(GAIN)
    assert line.reason == "it is the whole config: its worth is the proof's gain"


@pytest.mark.parametrize(
    "outcome",
    [
        won("a", "b", a="undecided", b="undecided"),
        won("a", a="undecided", proof=None),
        won("a", a="undecided", proof=replace(BETTER, is_better=False)),
        won("a", a="undecided", proof=replace(BETTER, gain=None)),
    ],
    ids=["two knobs", "no proof", "refused", "no pair"],
)
def test_else_a_knob_is_worth_what_was_measured_of_it(outcome: Outcome) -> None:
    line = make_verdict(TASK, scorer(), outcome).worth["a"]
    assert (line.verdict, line.without, line.reason) == ("undecided", None, "reason of a")


LOW, HIGH = Interval(1.02, 0.9, 1.1), Interval(1.3, 1.2, 1.4)


@pytest.mark.parametrize(
    ("kept", "without", "verdict", "reason"),
    [
        ("needed", None, "needed", "reason of a"),
        ("needed", LOW, "needed", "reason of a"),
        ("needed", HIGH, "proven", "reason of a"),
        ("undecided", LOW, "undecided", "neither proven to bring something nor shown to be needless"),
        ("undecided", None, "undecided", "reason of a"),
        ("not_measured", LOW, "undecided", "neither proven to bring something nor shown to be needless"),
        ("not_measured", None, "not_measured", "reason of a"),
        (None, HIGH, "proven", ""),
    ],
)
def test_what_was_measured_after_the_proof_counts_more_than_the_ablation(
    kept: str | None, without: Interval | None, verdict: str, reason: str
) -> None:
    worth = {"a": Worth(knob="a", without=without)}
    outcome = won("a", "b", worth=worth, **({"a": kept} if kept else {}))
    line = make_verdict(TASK, scorer(), outcome).worth["a"]
    assert (line.verdict, line.reason) == (verdict, reason)


def test_without_an_ablation_or_a_winner_no_knob_has_a_worth() -> None:
    assert make_verdict(TASK, scorer(), replace(won("a"), ablation=None)).worth == {}
    assert make_verdict(TASK, scorer(), replace(won("a"), candidate=None)).worth == {}


def test_past_trials_are_kept_only_for_a_study_that_can_go_on() -> None:
    outcome = Outcome(warm_start=WarmStartSummary(n_asks=4, past=(), starts=(BASELINE,)))
    done = make_verdict(TASK, scorer(), outcome).warm_start
    held = make_verdict(TASK, scorer(), replace(outcome, is_interrupted=True)).warm_start
    assert done == WarmStartSummary(n_asks=4)
    assert held == outcome.warm_start
    assert make_verdict(TASK, scorer(), Outcome()).warm_start is None


def test_plays_that_were_all_left_out_are_reported() -> None:
    outcome = Outcome()
    assert make_verdict(TASK, scorer(), outcome).plays is None
    outcome.plays.left_out["jit_off"] = "locked"
    assert make_verdict(TASK, scorer(), outcome).plays is not None


def test_drift_is_that_of_measured_baselines() -> None:
    trials = [
        trial(0, Role.BASELINE), trial(1, Role.BASELINE, measured=False), trial(2, Role.SEARCH), trial(3, Role.PROOF_BASELINE),
    ]  # fmt: skip
    drift = make_verdict(TASK, scorer(*trials, n_baselines=2), Outcome()).drift
    assert [(point.trial, point.at, point.value) for point in drift.points] == [(0, 0.0, 7.0), (3, 3.0, 7.0)]
    assert (drift.range, drift.is_beyond_noise) == (None, True)
    early = make_verdict(TASK, scorer(), Outcome()).drift
    assert (early.points, early.range, early.is_beyond_noise) == ((), None, False)


def test_classes_that_were_unlocked_are_named() -> None:
    assert make_verdict(TASK, scorer(), Outcome()).unlocked == ("durability",)
    closed: Any = SimpleNamespace(**{**vars(TASK), "space": Space([SPACE.knobs["a"]])})
    assert make_verdict(closed, scorer(), Outcome()).unlocked == ()
