"""The outcome of a study in one sentence that never says more than was proven."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trimtab.records import Objective, Trial
from trimtab.report.facts import Gain, TrialRow
from trimtab.report.words import counted, first_line, percent_text

if TYPE_CHECKING:
    from trimtab.history import StudyRecord

__all__ = ["headline"]

_METRIC_NAMES = {
    "throughput": "throughput",
    "latency_mean": "mean latency",
    "latency_p50": "median latency",
    "latency_p95": "95th percentile of latency",
    "latency_p99": "99th percentile of latency",
}


def headline(study: StudyRecord, trials: Sequence[Trial], best: TrialRow | None) -> str:
    """One sentence; a gain is claimed only for a proven winner, and always with its interval."""
    result = study.verdict.get("result")
    if result == "better":
        return _better(study)
    if result == "no_improvement":
        return f"No improvement found: {_no_improvement(study, len(trials))}"
    state = "Interrupted" if result == "interrupted" or study.status in ("interrupted", "stopped") else "Not finished"
    return f"{state} after {counted(len(trials), 'trial')}: {_so_far(best)}."


def _better(study: StudyRecord) -> str:
    verdict = study.verdict
    gain = Gain.from_json(verdict.get("gain"))
    changed = counted(len(verdict.get("config") or ()), "setting")
    if gain is None:
        return f"This config is better than yours: {changed}."
    n_pairs = len(verdict.get("pairs") or ())
    metric = Objective.parse(study.objective).metric
    what = "" if metric == "throughput" else f" by {_METRIC_NAMES[metric]}"
    return (
        f"This config is {gain.estimate:.2f} times as fast as yours{what} ({gain.interval_text}): "
        f"{changed}, proven in {counted(n_pairs, 'alternating pair')}."
    )


def _no_improvement(study: StudyRecord, n_trials: int) -> str:
    verdict = study.verdict
    gain, failure = Gain.from_json(verdict.get("gain")), first_line(verdict.get("failure") or "")
    if failure:
        return f"the best candidate failed when it was to be proven ({failure}). Keep your config."
    if gain is None:
        return f"nothing in {counted(n_trials, 'trial')} beat your config. Keep it."
    least = verdict.get("delta")
    needed = f" by more than {percent_text(least)}" if least else ""
    return (
        f"the best candidate is {gain.estimate:.2f} times as fast as yours ({gain.interval_text}), "
        f"so it is not proven to be better{needed}. Keep your config."
    )


def _so_far(best: TrialRow | None) -> str:
    if best is None or best.gain is None:
        return "nothing better than your config so far"
    if best.gain.estimate <= 1:
        return "nothing better than your config so far"
    return f"the best so far is {best.gain.estimate:.2f} times as fast as yours ({best.gain.interval_text}), not proven"
