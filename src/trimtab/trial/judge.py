"""judge: whether what a load run showed may be believed, and what it says of the config when it may not."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.measure import Measurement
from trimtab.records import Objective, Status
from trimtab.trial.load import End, LoadResult, MeasurePlan

__all__ = ["judge"]

_SHOWN_ERRORS = 3
_SHOWN_CHARACTERS = 200
"""Of one error's text: a reason must fit on a page."""


def judge(result: LoadResult, plan: MeasurePlan, objective: Objective) -> tuple[Status, str]:
    """Status and reason of a run against a target that is well.

    * A generator that was itself the bottleneck, or that ended without an error, says nothing of the config: INFRASTRUCTURE.
    * Wrong answers, too many errors, and (when the objective has to do with latency) an open loop that was not kept up with:
      FAILED_LOAD. Nothing done at all: TIMED_OUT.
    """
    measurement = result.measurement
    if measurement is None or result.end is End.DIED:
        return _died(result)
    failure = _failure(measurement, plan)
    if failure:
        return Status.FAILED_LOAD, failure + _first_errors(measurement.errors)
    if measurement.throughput.estimate <= 0:
        return (
            Status.TIMED_OUT,
            f"no operation succeeded in {measurement.duration_s:g} s ({measurement.n_timed_out} timed out)",
        )
    if measurement.generator_limited:
        return Status.INFRASTRUCTURE, f"invalid run: {measurement.generator_limited}"
    if measurement.overload and _wants_latency(objective):
        return (
            Status.FAILED_LOAD,
            f"overloaded: {measurement.overload}; throughput={measurement.throughput.estimate:.4g}/s "
            f"of offered={measurement.offered_per_s:.4g}/s, so that latencies grow without bound",
        )
    if result.end is End.STOPPED_EARLY:
        return Status.STOPPED_EARLY, "clearly worse than the best so far"
    return Status.OK, ""


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
        return f"error_rate={measurement.error_rate:.1%}" + _classes(measurement.error_classes)
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
