"""Objective and Constraint: what is optimised and what must hold, parsed from one line of the study file.

Inside Trimtab everything is minimised: `Objective.loss` flips once. The loss of a trial is the logarithm of its metric
relative to the (drift-corrected) baseline: 0 is as good as the baseline, negative is better, -log(1.8) is 1.8 times
faster. It is free of units, so losses of different contexts and machines can be compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trimtab.errors import UsageError
from trimtab.measure import Interval, Measurement, SecondLog

__all__ = ["FIGURES", "METRICS", "MetricConstraint", "Objective"]

METRICS: dict[str, bool] = {
    "throughput": True,
    "latency_mean": False,
    "latency_p50": False,
    "latency_p95": False,
    "latency_p99": False,
}
"""Metric name -> whether more is better."""

FIGURES: dict[str, bool] = {"cost": False, "score": True}
"""The figure of its own that a program in a session reports -> whether more is better; a workload has none."""

_SHORT = {"mean": "latency_mean", "p50": "latency_p50", "p95": "latency_p95", "p99": "latency_p99"}
_CONSTRAINT = re.compile(r"^\s*(\w+)\s*(>=|<=)\s*(\d+\.?\d*|\.\d+)\s*(ms|s|/s)?\s*$")


def _metric(name: str, text: str) -> str:
    metric = _SHORT.get(name, name)
    if metric not in METRICS and metric not in FIGURES:
        raise UsageError(
            f"unknown metric={name!r} in objective={text!r}",
            hint=f"use one of: {', '.join(METRICS)}",
        )
    return metric


def _unit(metric: str) -> str:
    if metric in FIGURES:
        return ""
    return "/s" if metric == "throughput" else "ms"


def metric_of(measurement: Measurement, metric: str) -> Interval:
    """The interval of `metric` in `measurement`: throughput in operations per second, latencies in milliseconds, a figure in
    its own unit.

    Raises:
        UsageError: the measurement does not have it.
    """
    if metric in FIGURES:
        if measurement.figure is None:
            raise UsageError(f"{metric} was not measured", hint="only what a client of a session reports has it")
        return measurement.figure
    if metric == "throughput":
        return measurement.throughput
    if metric == "latency_mean":
        if isinstance(measurement.log, SecondLog) and measurement.log.latencies == "none":
            raise UsageError("latency_mean was not measured: this workload knows no times", hint="use throughput")
        return measurement.latency_mean_ms
    if (percentile := metric.removeprefix("latency_")) not in measurement.latency_ms:
        raise UsageError(
            f"{metric} was not measured: this workload knows means only", hint="use latency_mean or throughput"
        )
    return measurement.latency_ms[percentile]


@dataclass(frozen=True, slots=True)
class MetricConstraint:
    """`metric >= bound` or `metric <= bound` that a trial must meet (throughput per second, latency in ms)."""

    metric: str
    at_least: bool
    bound: float

    def excess(self, measurement: Measurement) -> float:
        """How far the constraint is missed, relative to the bound; 0 when it is met, inf for NaN. Uses the point estimate."""
        value = self.value(measurement)
        if math.isnan(value):
            return math.inf
        gap = self.bound - value if self.at_least else value - self.bound
        return max(0.0, gap / abs(self.bound)) if self.bound else max(0.0, gap)

    def value(self, measurement: Measurement) -> float:
        """Its metric in `measurement`."""
        return metric_of(measurement, self.metric).estimate

    def is_met_by(self, value: float) -> bool:
        """Whether it holds for a value of its metric; never for NaN."""
        return value >= self.bound if self.at_least else value <= self.bound

    @property
    def unit(self) -> str:
        """Behind a value of its metric: "/s", " ms" or nothing."""
        return _unit(self.metric).replace("ms", " ms")

    def __str__(self) -> str:
        """As `Objective.parse` reads it: without an exponent."""
        bound = f"{self.bound:.9f}".rstrip("0").rstrip(".")
        return f"{self.metric} {'>=' if self.at_least else '<='} {bound}{self.unit}"


@dataclass(frozen=True, slots=True)
class Objective:
    """What a study optimises.

    Attributes:
        metric: a key of `METRICS` or `FIGURES`.
        constraints: what must hold beside it.
    """

    metric: str
    constraints: tuple[MetricConstraint, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Reads `"throughput"`, `"latency_p95"` or `"p99 where throughput >= 2000 and latency_mean <= 5 ms"`.

        Raises:
            UsageError: an unknown metric, or a constraint that is not `metric >= number` or `metric <= number`, or whose unit
                is another metric's.
        """
        head, _, tail = text.partition(" where ")
        constraints = []
        for part in tail.split(" and ") if tail else []:
            match = _CONSTRAINT.match(part)
            if match is None:
                raise UsageError(
                    f"cannot read constraint={part.strip()!r} in objective={text!r}",
                    hint="write it as in: p99 where throughput >= 2000 and latency_mean <= 5 ms",
                )
            name, sign, number, unit = match.groups()
            metric, factor = _metric(name, text), 1000.0 if unit == "s" else 1.0
            if unit and unit.replace("ms", "s") != _unit(metric).replace("ms", "s"):
                raise UsageError(
                    f"constraint={part.strip()!r} in objective={text!r}: {metric} has no unit {unit!r}",
                    hint="throughput is per second (2000/s), latencies are times (20 ms or 0.5 s)",
                )
            constraints.append(MetricConstraint(metric, sign == ">=", float(number) * factor))
        return cls(_metric(head.strip(), text), tuple(constraints))

    @property
    def is_maximised(self) -> bool:
        """Whether more of the metric is better."""
        return {**METRICS, **FIGURES}[self.metric]

    @property
    def unit(self) -> str:
        """Unit of the metric as printed; "" for a figure."""
        return _unit(self.metric)

    def value(self, measurement: Measurement) -> Interval:
        """The interval of the metric in `measurement`."""
        return metric_of(measurement, self.metric)

    def require_known(self, metrics: Collection[str]) -> None:
        """Raises UsageError when the objective or a constraint needs a metric that is none of `metrics`."""
        for metric in (self.metric, *(constraint.metric for constraint in self.constraints)):
            if metric not in metrics:
                raise UsageError(
                    f"objective={str(self)!r}: this workload cannot measure {metric} on this server",
                    hint=f"it measures {' and '.join(metrics)} there",
                )

    def excess(self, measurement: Measurement) -> float:
        """Sum of the relative excesses of all constraints; 0 when all are met."""
        return sum(constraint.excess(measurement) for constraint in self.constraints)

    def is_met_by(self, measurements: Sequence[Measurement]) -> bool:
        """Whether the constraints are met on average, since one run may miss what the next one meets; True of no run at all."""
        n = len(measurements)
        return all(bound.is_met_by(sum(map(bound.value, measurements)) / n) for bound in self.constraints if n)

    def loss(self, value: float, baseline: float) -> float:
        """log(value / baseline), with the sign that makes less better. NaN when either is not a positive number."""
        if not (value > 0 and baseline > 0 and math.isfinite(value) and math.isfinite(baseline)):
            return math.nan
        ratio = value / baseline
        # Of figures far apart it is 0 or infinite, and its logarithm is still a number.
        found = math.log(ratio) if 0 < ratio < math.inf else math.log(value) - math.log(baseline)
        return -found if self.is_maximised else found

    def __str__(self) -> str:
        where = " and ".join(str(constraint) for constraint in self.constraints)
        return f"{self.metric} where {where}" if where else self.metric
