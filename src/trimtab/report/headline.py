"""The outcome of a study in one sentence that never says more than was proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any

from trimtab.records import FIGURES, Objective, Status, StopKind, Trial, Verdict
from trimtab.report.cycle import cycle_headline
from trimtab.report.facts import Gain, TrialRow
from trimtab.report.values import ValueTexts
from trimtab.report.words import clean, counted, failed_in_proof, first_line, number_text, percent_text, ratio_text

if TYPE_CHECKING:
    from trimtab.history import StudyRecord

__all__ = ["headline", "times_of"]

_METRIC_NAMES = {
    "throughput": "throughput",
    "latency_mean": "mean latency",
    "latency_p50": "median latency",
    "latency_p95": "the 95th percentile of latency",
    "latency_p99": "the 99th percentile of latency",
    "cost": "the cost that it reports",
    "score": "the score that it reports",
}

_NAMED = 3
"""Settings of a bench that its sentence has room for."""


def headline(study: StudyRecord, trials: Sequence[Trial], best: TrialRow | None) -> str:
    """One sentence; a gain is claimed only for a proven winner, and always with its interval."""
    return clean(_said(study, trials, best)).replace("times as fast", times_of(study))


def times_of(study: StudyRecord) -> str:
    """What the gains of a study are called: what a program reports of itself need not be a speed."""
    return "times as good" if Objective.parse(study.objective).metric in FIGURES else "times as fast"


def _said(study: StudyRecord, trials: Sequence[Trial], best: TrialRow | None) -> str:
    result = study.verdict.result
    if study.verdict.cycle is not None and result != "interrupted":
        return cycle_headline(study.verdict)
    if result == "better":
        return _better(study) + (" Its study has not ended." if study.status == "running" else "")
    if result == "no_improvement":
        word = "accepted" if _is_gain_refused(study.verdict) else "found"
        return f"No improvement {word}: {_no_improvement(study, trials)}"
    design = study.verdict.design
    if result == "design" and design is not None:
        command = f"trimtab rank {quote(study.name)}"
        return f"A design of {counted(design.n_runs, 'run')} to rank knobs: `{command}` shows what it says."
    if study.status == "benched":
        return _benched(study, len(trials))
    return f"{_state(study)} after {counted(len(trials), 'trial')}: {_so_far(study.verdict, best)}."


def _state(study: StudyRecord) -> str:
    """Of a study that has no outcome: an imported one may have come from a file that holds none."""
    if study.verdict.stop_kind is StopKind.UNPROVEN:
        return "Ended without a proof"
    if study.verdict.result == "interrupted" or study.status == "interrupted":
        return "Interrupted"
    if study.status != "stopped":
        return "Not finished"
    return "Ended" if study.origin else "Interrupted"


def _benched(study: StudyRecord, n_trials: int) -> str:
    """What `trimtab bench` measured."""
    bench, verdict = study.verdict.bench, study.verdict
    if bench is None:
        return f"A measurement of one config that ended before its time, after {counted(n_trials, 'run')}."
    what = f"Your config with {_set(study, bench.settings)}" if bench.settings else "Your config"
    if bench.slo:
        return f"{what} keeps {bench.slo} up to {number_text(bench.rate_per_s)}/s ({counted(n_trials, 'probe')})."
    value = bench.value
    shown = number_text(value.estimate if value is not None else None)
    ends = f", {number_text(value.low)} to {number_text(value.high)}" if value is not None and value.high else ""
    return f"{what}: {verdict.metric} {shown}{verdict.unit} ({counted(n_trials, 'run')}{ends})."


def _set(study: StudyRecord, settings: Mapping[str, Any]) -> str:
    """Few settings by name, or how many they are."""
    if len(settings) > _NAMED:
        return counted(len(settings), "other setting")
    texts = ValueTexts(study)
    return ", ".join(f"{clean(name)} = {texts.of(name, value)}" for name, value in sorted(settings.items()))


def _better(study: StudyRecord) -> str:
    verdict = study.verdict
    gain = Gain.of(verdict.gain)
    changed = counted(len(verdict.config), "setting")
    if gain is None:
        return f"This config is better than yours: {changed}."
    n_pairs = len(verdict.pairs)
    if verdict.is_by_constraints:
        bounds = "; ".join(row.text for row in verdict.conditions if row.name == "constraints")
        return (
            f"This config meets a constraint that yours misses ({bounds}), and is {ratio_text(gain.estimate)} times as fast "
            f"as yours ({gain.interval_text}): {changed}, proven in {counted(n_pairs, 'alternating pair')}."
        )
    metric = Objective.parse(study.objective).metric
    what = "" if metric == "throughput" else f" by {_METRIC_NAMES[metric]}"
    return (
        f"This config is {ratio_text(gain.estimate)} times as fast as yours{what} ({gain.interval_text}): "
        f"{changed}, proven in {counted(n_pairs, 'alternating pair')}."
    )


def _no_improvement(study: StudyRecord, trials: Sequence[Trial]) -> str:
    verdict = study.verdict
    gain, failure = Gain.of(verdict.gain), first_line(verdict.failure)
    if failure:
        return f"{failed_in_proof(failure)}. Keep your config."
    measured = [trial for trial in trials if trial.status is Status.OK]
    if gain is None and measured and all(trial.excess > 0 for trial in measured):
        return f"nothing in {counted(len(trials), 'trial')} met the constraints of the objective, and neither does your config."
    if gain is None:
        return f"nothing in {counted(len(trials), 'trial')} beat your config. Keep it."
    if harm := _harm(verdict):
        return (
            f"the best candidate is {ratio_text(gain.estimate)} times as fast as yours ({gain.interval_text}), "
            f"but it is not accepted: {harm}. Keep your config."
        )
    least = verdict.delta
    if least is not None and gain.low > 1 + least:
        return (
            f"the best candidate is {ratio_text(gain.estimate)} times as fast as yours ({gain.interval_text}): that is less than "
            "what two runs of your config may differ by. Keep your config."
        )
    needed = f" by more than {percent_text(least)}" if least else ""
    return (
        f"the best candidate is {ratio_text(gain.estimate)} times as fast as yours ({gain.interval_text}), "
        f"so it is not proven to be better{needed}. Keep your config."
    )


def _is_gain_refused(verdict: Verdict) -> bool:
    """Whether the gain itself was proven, and something else speaks against the candidate."""
    is_proven = any(row.name == "gain" and row.is_met for row in verdict.conditions)
    return is_proven and bool(_harm(verdict))


def _harm(verdict: Verdict) -> str:
    """What speaks against the candidate beside its gain, in the words of the acceptance rule; "" when nothing does."""
    unmet = [row for row in verdict.conditions if not row.is_met and row.name != "gain"]
    return "; ".join(
        row.text if row.name == "baseline" else f"{row.name.replace('_', ' ')}: {row.text}" for row in unmet
    )


def _so_far(verdict: Verdict, best: TrialRow | None) -> str:
    if best is None or best.gain is None:
        return "nothing better than your config so far"
    if best.gain.estimate <= 1 and verdict.candidate is not None:
        return (
            "the best so far meets a constraint that yours misses, and is "
            f"{ratio_text(best.gain.estimate)} times as fast ({best.gain.interval_text}), not proven"
        )
    if best.gain.estimate <= 1:
        return "nothing better than your config so far"
    return f"the best so far is {ratio_text(best.gain.estimate)} times as fast as yours ({best.gain.interval_text}), not proven"
