"""Point, Report, Result: what goes out to a client, what comes back, and what it means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from trimtab.errors import UsageError
from trimtab.history.formats.partial import measurement_of
from trimtab.measure import Interval, Measurement, encode_latencies, floored, pooled_interval
from trimtab.records import FIGURES, METRICS, Objective, Role, Status
from trimtab.space import Config

__all__ = ["LEAST", "MOST", "Failure", "Point", "Report", "Result", "result_of"]

LEAST, MOST = 1e-100, 1e100
"""Between these a figure lies: the ratio of any two is a number then, and so is everything that is worked out from it."""

_MOST_LATENCY_MS = 1e12
"""31 years."""

_PERCENTILES = {"latency_p50": 0.5, "latency_p95": 0.95, "latency_p99": 0.99}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One config to be measured by a client.

    Attributes:
        number: of the trial.
        run: counts from 1: a layer may ask for the same point again.
        config: the values.
        role: why it is asked for.
        effort: "quick", or "long" for a run that is compared with another.
        client: who has it; "" for nobody yet.
        is_replayed: whether this happened before the server was started: nothing is to be done outside.
    """

    number: int
    run: int
    config: Config
    role: Role
    effort: str = "quick"
    client: str = ""
    is_replayed: bool = False


class Failure(BaseModel):
    """How a run failed. `infrastructure`: not the config's fault; it teaches nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    status: Literal["crashed", "timed_out", "failed_load", "rejected", "infeasible", "infrastructure"] = "crashed"
    reason: Annotated[str, Field(max_length=4000)] = ""


class Report(BaseModel):
    """What a client reports of one run: exactly one of `value`, `values`, `latencies_ms` or `failed`.

    Attributes:
        value: the objective's own figure.
        values: figures by metric; latencies in milliseconds, throughput per second.
        latencies_ms: of single operations; percentiles are worked out here. Give `values.throughput` besides where it counts.
        failed: it gave no measurement.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, strict=True)
    value: float | None = None
    values: dict[str, float] | None = Field(default=None, max_length=20)
    latencies_ms: list[Annotated[float, Field(ge=0, le=_MOST_LATENCY_MS)]] | None = Field(
        default=None, min_length=1, max_length=50_000
    )
    failed: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run came to.

    Attributes:
        status, reason: how it ended.
        figures: intervals by metric; empty when it failed.
        histogram: of single operations; empty when they are not known.
        cost_s: seconds from handing the point out to its report.
    """

    status: Status = Status.OK
    reason: str = ""
    figures: Mapping[str, Interval] = field(default_factory=dict)
    histogram: bytes = b""
    cost_s: float = 0.0

    @property
    def measurement(self) -> Measurement | None:
        """As a trial keeps it; None when it failed."""
        return measurement_of(self.figures, n_ok=1, histogram=self.histogram) if self.figures else None

    def value(self, objective: Objective) -> float:
        """The objective's figure; NaN when there is none."""
        interval = self.figures.get(objective.metric)
        return math.nan if interval is None else interval.estimate


def result_of(report: Report, objective: Objective, cost_s: float) -> Result:
    """What `report` means for `objective`.

    Raises:
        UsageError: it says nothing, too much, or not what the objective needs.
    """
    _require_one(report)
    if report.failed is not None:
        return Result(
            status=Status(report.failed.status), reason=report.failed.reason or "no reason given", cost_s=cost_s
        )
    figures = dict(_latency_figures(report))
    if report.value is not None:
        figures[objective.metric] = _exact(objective.metric, report.value)
    for name, value in (report.values or {}).items():
        if name not in METRICS and name not in FIGURES:
            raise UsageError(
                f"unknown metric={name!r} in values", hint=f"use some of: {', '.join((*METRICS, *FIGURES))}"
            )
        figures[name] = _exact(name, value)
    needed = (objective.metric, *(constraint.metric for constraint in objective.constraints))
    lacking = [name for name in needed if name not in figures]
    if lacking:
        raise UsageError(
            f"the report lacks {lacking[0]}", hint=f"the objective is {objective}: report its figures in values"
        )
    histogram = b""
    if report.latencies_ms is not None:
        histogram = encode_latencies(np.array(report.latencies_ms) / 1000)
    return Result(figures=figures, histogram=histogram, cost_s=cost_s)


def _require_one(report: Report) -> None:
    given = [n for n in ("value", "values", "latencies_ms", "failed") if getattr(report, n) is not None]
    if not given or ("failed" in given and len(given) > 1) or {"value", "values"} <= set(given):
        said = ", ".join(given) or "nothing"
        raise UsageError(
            f"the report holds {said}",
            hint="report one of value, values and failed (latencies_ms may go with values)",
        )


def _exact(name: str, value: float) -> Interval:
    if not (math.isfinite(value) and value > 0):
        raise UsageError(
            f"{name}={value:g} is not above 0",
            hint="gains are ratios: report a time, a rate or a cost above 0 (add a constant to one that is not), or `failed`",
        )
    if not LEAST <= value <= MOST:
        raise UsageError(
            f"{name}={value:g} is not between {LEAST:g} and {MOST:g}", hint="report it in another unit, or `failed`"
        )
    return Interval(value, value, value, se=0.0, n=1)


def _latency_figures(report: Report) -> Mapping[str, Interval]:
    if report.latencies_ms is None:
        return {}
    seen = np.sort(np.array(report.latencies_ms, dtype=float))
    seen[seen < LEAST] = 0.0
    if not seen[-1] > 0:
        raise UsageError("latencies_ms holds zeros only", hint="report milliseconds of single operations")
    mean = pooled_interval(seen) if len(seen) > 1 else Interval(seen[0], seen[0], seen[0], n=1)
    found = {"latency_mean": floored(mean, 0.0)}
    for name, share in _PERCENTILES.items():
        at = float(np.quantile(seen, share))
        found[name] = Interval(at, at, at, n=len(seen))
    return found
