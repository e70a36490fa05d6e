"""The end of a bench: figures of every run and operation type with their intervals, and what the generator says of itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trimtab.measure import Interval, LabelStats, Measurement, NoiseFloor
from trimtab.records import Objective, Trial
from trimtab.report.printing import printing
from trimtab.report.words import counted, first_line, stolen
from trimtab.units import format_duration, format_figure, format_percent, format_size

__all__ = ["bench_to_json", "measurement_to_json", "print_bench"]

_WIDTH = 1000
"""Tables take what they need: a narrow terminal breaks the lines, which is better than figures that are cut off."""

_SHOWN_ERRORS = 3

_ROOM = "give it free cores, or compare throughput only"

_NO_PRECEDENCE = (
    "warning: this system gives the load generator neither real-time priority nor short time slices (Linux 6.12 or later): "
    "while its cores are busy, requests are sent late"
)


def print_bench(
    trials: Sequence[Trial],
    objective: Objective,
    value: Interval,
    noise: NoiseFloor,
    console: Console | None = None,
    remarks: Sequence[Sequence[str]] = (),
) -> None:
    """Prints the objective's value over all runs, each run's table, the workload's remarks, and the noise; on stdout."""
    with printing(console, width=_WIDTH) as out:
        out.width = max(out.width, _WIDTH)
        _print(out, trials, objective, value, noise, remarks)


def _print(
    out: Console,
    trials: Sequence[Trial],
    objective: Objective,
    value: Interval,
    noise: NoiseFloor,
    remarks: Sequence[Sequence[str]],
) -> None:
    out.print(
        Text(
            f"{objective.metric}: {_estimate(value)}{objective.unit} "
            f"({format_percent(value.level)} interval {format_figure(value.low)} to "
            f"{format_figure(value.high)}, {counted(len(trials), 'run')})"
        ),
        soft_wrap=True,
    )
    for trial, own in zip(trials, remarks or [()] * len(trials), strict=True):
        if trial.measurement is not None:
            _print_run(out, trial.number + 1, trial.measurement, own)
    if any(trial.measurement is not None and _has_no_precedence(trial.measurement) for trial in trials):
        out.print(_NO_PRECEDENCE, soft_wrap=True)
    if noise.n >= 2 and math.isfinite(noise.relative_sd):
        out.print(
            f"noise of this machine: {format_percent(noise.relative_sd, 1)} from run to run (standard deviation)",
            soft_wrap=True,
        )


def _has_no_precedence(m: Measurement) -> bool:
    """A closed loop does not ask for any."""
    return m.is_open and m.priority == "normal"


def _print_run(out: Console, number: int, m: Measurement, remarks: Sequence[str]) -> None:
    steady = "" if m.is_steady else ", which did not become steady"
    model = ""
    if m.users:
        kind = f"open loop of {format_figure(m.offered_per_s or 0.0)}/s over" if m.is_open else "closed loop over"
        model = f", {'observed traffic of' if m.is_observed else kind} {counted(m.users, 'user')}"
    length, warmup = format_duration(m.duration_s), format_duration(m.warmup_s)
    out.print(f"\nrun {number}: {length} after {warmup} of warm-up{steady}{model}", soft_wrap=True)
    out.print(_table(m))
    for line in (*remarks, *_lines(m)):
        out.print(Text(f"  {line}"), soft_wrap=True)


def _table(m: Measurement) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 1))
    for name in ("", "goodput/s", "mean ms", "p50 ms", "p95 ms", "p99 ms", "ok", "failed", "timed out"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    table.add_row(
        "all",
        _ranged(m.throughput),
        _ranged(m.latency_mean_ms),
        *(_ranged(m.latency_ms[name]) if name in m.latency_ms else "–" for name in ("p50", "p95", "p99")),
        *(f"{count:,}" for count in (m.n_ok, m.n_error, m.n_timed_out)),
    )
    if len(m.by_label) > 1:
        for label, stats in m.by_label.items():
            table.add_row(Text(first_line(label)), *_label_cells(stats))
    if m.service_ms:
        names = ("p50", "p95", "p99")
        table.add_row("service", "", "", *(_number(m.service_ms.get(name)) for name in names), "", "", "")
    return table


def _label_cells(stats: LabelStats) -> tuple[str, ...]:
    plain = {"p50": stats.latency_p50_ms, "p95": stats.latency_p95_ms}
    percentiles = (
        _ranged(stats.latency_ms[name]) if name in stats.latency_ms else _number(plain.get(name))
        for name in ("p50", "p95", "p99")
    )
    goodput = _number(stats.throughput_per_s) if stats.throughput is None else _ranged(stats.throughput)
    counts = (stats.n_ok, stats.n_error, stats.n_timed_out)
    return (goodput, _number(stats.latency_mean_ms), *percentiles, *(f"{count:,}" for count in counts))


def _lines(m: Measurement) -> list[str]:
    """What does not fit a table: overload, errors, and the generator's word on itself; observed traffic has none."""
    lines = []
    if m.overload:
        lines.append(f"overloaded: {m.overload}; latencies grow with the length of the run")
    if m.n_shed or m.n_retries:
        lines.append(f"{counted(m.n_shed, 'request')} dropped, {counted(m.n_retries, 'retry')}")
    if m.error_classes:
        classes = ", ".join(f"{name} {count:,}" for name, count in sorted(m.error_classes.items(), key=lambda e: -e[1]))
        lines.append(f"errors of the whole run: {classes}")
    lines += [f"error: {first_line(text)}" for text in dict.fromkeys(m.errors[:_SHOWN_ERRORS])]
    return lines if m.is_observed else [*lines, *_generator_lines(m)]


def _generator_lines(m: Measurement) -> list[str]:
    own = [f"CPU {format_percent(m.client_cpu_share / m.n_threads)} of {counted(m.n_threads, 'thread')}"]
    if m.lateness_p99_ms is not None:
        own.append(f"late by {format_figure(m.lateness_p99_ms, 3)} ms (p99)")
    if m.wakeup_p99_ms is not None:
        own.append(f"woken late by {format_figure(m.wakeup_p99_ms, 3)} ms (p99)")
    if m.wait_share is not None:
        own.append(f"waiting for a core {format_percent(m.wait_share)} of the time")
    if m.priority:
        own.append("normal priority in short slices" if m.priority == "short slices" else f"{m.priority} priority")
    if m.queue_p99_ms is not None:
        own.append(f"waiting for a free connection {format_figure(m.queue_p99_ms, 3)} ms (p99)")
    if m.steal_share is not None:
        own.append(stolen(m.steal_share))
    if m.memory_bytes:
        own.append(f"memory {format_size(m.memory_bytes)}")
    lines = [f"generator: {', '.join(own)}: {m.generator_limited or 'not the bottleneck'}"]
    lines += [f"generator from {text}" for text in m.generators]
    if m.generator_waited:
        lines.append(f"warning: the generator {m.generator_waited}: latencies include these waits; {_ROOM}")
    return lines


def _ranged(interval: Interval) -> str:
    """Estimate and ends; an infinite estimate as "at least"."""
    if math.isnan(interval.estimate):
        return "–"
    if math.isinf(interval.estimate):
        return _estimate(interval)
    low, high = format_figure(max(interval.low, 0.0), 3), format_figure(interval.high, 3)
    return f"{format_figure(interval.estimate)} ({low}–{high})"


def _estimate(interval: Interval) -> str:
    return f"≥ {format_figure(interval.low)}" if math.isinf(interval.estimate) else format_figure(interval.estimate)


def _number(value: float | None) -> str:
    return "–" if value is None else format_figure(value)


def bench_to_json(
    config: Mapping[str, Any],
    trials: Sequence[Trial],
    objective: Objective,
    value: Interval,
    noise: NoiseFloor,
    remarks: Sequence[Sequence[str]] = (),
) -> dict[str, Any]:
    """Everything that `print_bench` shows, and the series of each run; NaN and infinite values become null when printed."""
    return {
        "config": dict(config),
        "metric": objective.metric,
        "unit": objective.unit,
        "value": asdict(value),
        "noise": {"relative_sd": noise.relative_sd, "floor": noise.floor, "n": noise.n},
        "runs": [
            measurement_to_json(trial.measurement) | {"cost_s": dict(trial.cost_s), "remarks": list(own)}
            for trial, own in zip(trials, remarks or [()] * len(trials), strict=True)
            if trial.measurement
        ],
    }


def measurement_to_json(m: Measurement) -> dict[str, Any]:
    """One run: plain estimates under their names, and under `intervals` the same with ends."""
    return {
        "throughput": m.throughput.estimate,
        "latency_mean_ms": m.latency_mean_ms.estimate,
        **{f"latency_{name}_ms": interval.estimate for name, interval in m.latency_ms.items()},
        "intervals": {
            "throughput": asdict(m.throughput),
            "latency_mean_ms": asdict(m.latency_mean_ms),
            **{f"latency_{name}_ms": asdict(interval) for name, interval in m.latency_ms.items()},
        },
        **{f"service_{name}_ms": value for name, value in m.service_ms.items()},
        "queue_p99_ms": m.queue_p99_ms,
        "n_ok": m.n_ok,
        "n_error": m.n_error,
        "n_timed_out": m.n_timed_out,
        "n_shed": m.n_shed,
        "n_retries": m.n_retries,
        "error_classes": dict(m.error_classes),
        "errors": list(m.errors),
        "is_open": m.is_open,
        "is_observed": m.is_observed,
        "users": m.users,
        "offered_per_s": m.offered_per_s,
        "overload": m.overload,
        "duration_s": m.duration_s,
        "warmup_s": m.warmup_s,
        "is_steady": m.is_steady,
        "series_per_s": list(m.series_per_s),
        "by_label": {label: asdict(stats) for label, stats in m.by_label.items()},
        "client_cpu_share": m.client_cpu_share,
        "generator": {
            "n_threads": m.n_threads,
            "lateness_p99_ms": m.lateness_p99_ms,
            "wakeup_p99_ms": m.wakeup_p99_ms,
            "wait_share": m.wait_share,
            "waited": m.generator_waited,
            "priority": m.priority,
            "from": list(m.generators),
            "steal_share": m.steal_share,
            "memory_bytes": m.memory_bytes,
            "limited": m.generator_limited,
        },
    }
