"""judge: whether what a load run showed may be believed, and what it says of the config when it may not."""

from __future__ import annotations

import math
from collections.abc import Mapping

from trimtab.measure import Measurement, mix_shift
from trimtab.records import Objective, Status
from trimtab.trial.load import End, LoadResult, MeasurePlan
from trimtab.units import format_duration, format_figure, format_percent

__all__ = ["is_worth_another_run", "judge"]

_MAX_MIX_SHIFT = 0.2
"""Hellinger distance between the operation shares of a window's halves; a mix of 50:50 that becomes 95:5 has 0.39."""

_SHOWN_ERRORS = 3
_SHOWN_CHARACTERS = 200
"""Of one error's text: a reason must fit on a page."""


def judge(result: LoadResult, plan: MeasurePlan, objective: Objective) -> tuple[Status, str]:
    """Status and reason of a run against a target that is well.

    * A generator that was itself the bottleneck, or that ended without an error, says nothing of the config: INFRASTRUCTURE.
      So does a load that changed half way, that nobody asked anything of, or whose figures are no numbers.
    * A guardrail that ended the run has said why; of a slow run its figures must be believable besides.
    * Wrong answers, too many errors, and (when the objective has to do with latency) an open loop that was not kept up with:
      FAILED_LOAD. Nothing done at all: TIMED_OUT.
    """
    measurement, breach = result.measurement, result.breach
    if breach is not None and not breach.status.is_measured:
        errors = _classes(result.error_classes) + _first_errors(result.errors)
        return breach.status, breach.reason + (errors if breach.status is Status.FAILED_LOAD else "")
    if measurement is None or result.end is End.DIED:
        return _died(result) if breach is None else (Status.FAILED_LOAD, breach.reason)
    if nonsense := _nonsense(measurement):
        return Status.INFRASTRUCTURE, f"invalid run: {nonsense}"
    failure = _failure(measurement, plan)
    if failure:
        return Status.FAILED_LOAD, failure + _first_errors(measurement.errors)
    if _did_nothing(measurement) or (measurement.n_ok == 0 and measurement.n_timed_out > 0):
        return (
            Status.TIMED_OUT,
            f"no operation succeeded in {format_duration(measurement.duration_s)} ({measurement.n_timed_out} timed out)",
        )
    if measurement.generator_limited:
        return Status.INFRASTRUCTURE, f"invalid run: {measurement.generator_limited}"
    if measurement.overload and _wants_latency(objective):
        return (
            Status.FAILED_LOAD,
            f"overloaded: {measurement.overload}; throughput={format_figure(measurement.throughput.estimate)}/s "
            f"of offered={format_figure(measurement.offered_per_s or 0.0)}/s, so that latencies grow without bound",
        )
    if breach is not None:
        return breach.status, breach.reason
    if result.end is End.STOPPED_EARLY:
        return Status.STOPPED_EARLY, "clearly worse than the best so far"
    return Status.OK, ""


def is_worth_another_run(status: Status, result: LoadResult) -> bool:
    """Whether a second run may tell more: after a fault of the generator, and when no operation even ended, for a hung server
    and a hung generator look alike. Not while a resource is short: that must end first."""
    if result.breach is not None:
        return False
    m = result.measurement
    has_ended_nothing = m is not None and m.n_ok + m.n_error + m.n_timed_out == 0 and _did_nothing(m)
    return status is Status.INFRASTRUCTURE or has_ended_nothing


def _did_nothing(measurement: Measurement) -> bool:
    """Whether it shows no work at all: what still ran at its end may have done some, or none."""
    throughput = measurement.throughput
    return throughput.estimate <= 0 or (measurement.n_ok == 0 and throughput.low <= 0)


def _nonsense(measurement: Measurement) -> str:
    """Why the run shows nothing of any config; "" when it may."""
    if not math.isfinite(measurement.throughput.estimate):
        return f"throughput={measurement.throughput.estimate}/s is not a number"
    if measurement.is_open and measurement.offered_per_s == 0:
        return "no traffic: no request was due in the whole window"
    shift = mix_shift(measurement)
    if shift > _MAX_MIX_SHIFT:
        return f"the workload changed half way: mix_shift={shift:.2f} between its halves (limit {_MAX_MIX_SHIFT:g})"
    return ""


def _died(result: LoadResult) -> tuple[Status, str]:
    what = "the load ended by itself before its window was complete"
    if result.errors:
        return Status.FAILED_LOAD, what + _classes(result.error_classes) + _first_errors(result.errors)
    return Status.INFRASTRUCTURE, f"{what}, without an error: its operations had run out, or the load engine died"


def _failure(measurement: Measurement, plan: MeasurePlan) -> str:
    n_wrong = measurement.error_classes.get("validation", 0)
    if n_wrong:
        return f"{n_wrong} answers of the server were wrong" + _classes(measurement.error_classes)
    if measurement.error_rate > plan.max_error_rate:
        return f"error_rate={format_percent(measurement.error_rate, 1)}" + _classes(measurement.error_classes)
    return ""


def _classes(error_classes: Mapping[str, int]) -> str:
    ranked = sorted(error_classes.items(), key=lambda item: (-item[1], item[0]))
    return f" ({', '.join(f'{name} {count}' for name, count in ranked)})" if ranked else ""


def _first_errors(errors: tuple[str, ...]) -> str:
    """The first few different texts."""
    texts = list(dict.fromkeys(text[:_SHOWN_CHARACTERS] for text in errors))[:_SHOWN_ERRORS]
    if not texts:
        return ", without a text"
    return f", first error: {texts[0]}" if len(texts) == 1 else f", first errors: {' | '.join(texts)}"


def _wants_latency(objective: Objective) -> bool:
    return any(metric != "throughput" for metric in (objective.metric, *(c.metric for c in objective.constraints)))
