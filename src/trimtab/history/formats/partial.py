"""Studies from formats that hold less than a study: what is missing is filled in, in one way for all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trimtab.errors import SpaceError, UsageError
from trimtab.history.formats.base import Imported
from trimtab.history.record import BENCHED, StudyRecord
from trimtab.history.space import space_to_json
from trimtab.measure import Interval, Measurement
from trimtab.records import Context, Machine, Objective, Role, Trial, Verdict
from trimtab.space import Config, Knob, KnobKind, Space, Value

__all__ = [
    "NOT_KNOWN",
    "measurement_of",
    "of_one_kind",
    "performance_of",
    "scored",
    "status_without_verdict",
    "study_of",
]

NOT_KNOWN = Interval(math.nan, math.nan, math.nan)
"""A figure that the file does not hold."""

_OF_A_VERDICT = ("proven", "no_improvement", "ranked", BENCHED)
"""Statuses of studies whose outcome is in their verdict."""

_PERCENTILES = ("p50", "p95", "p99")


def performance_of(trial: Trial, objective: Objective) -> float:
    """The objective's metric in `trial`: its point estimate; NaN when it was not measured or lacks it."""
    if trial.measurement is None:
        return math.nan
    try:
        return objective.value(trial.measurement).estimate
    except UsageError:
        return math.nan


def measurement_of(figures: Mapping[str, Interval], *, n_ok: int = 0, histogram: bytes = b"") -> Measurement:
    """A measurement of which only some figures are known: by names of metrics as objectives use them."""
    return Measurement(
        window_s=(0.0, 0.0),
        throughput=figures.get("throughput", NOT_KNOWN),
        latency_mean_ms=figures.get("latency_mean", NOT_KNOWN),
        latency_ms={name: figures.get(f"latency_{name}", NOT_KNOWN) for name in _PERCENTILES},
        n_ok=n_ok,
        n_error=0,
        n_timed_out=0,
        is_steady=False,
        warmup_s=0.0,
        series_per_s=(),
        histogram=histogram,
        figure=figures.get("cost", figures.get("score")),
    )


def scored(trials: Sequence[Trial], objective: Objective) -> list[Trial]:
    """The trials with their loss against the mean of the baseline trials (without any: the first measured one)."""
    values = [(performance_of(trial, objective), trial.role) for trial in trials]
    known = [(value, role) for value, role in values if math.isfinite(value)]
    baselines = [value for value, role in known if role is Role.BASELINE] or [value for value, _ in known[:1]]
    if not baselines:
        return list(trials)
    baseline = sum(baselines) / len(baselines)
    found = []
    for trial, (value, _) in zip(trials, values, strict=True):
        loss = objective.loss(value, baseline)
        found.append(replace(trial, loss=loss if math.isfinite(loss) else None))
    return found


def of_one_kind(trials: Sequence[Trial]) -> list[Trial]:
    """The trials; where a knob has values of several kinds, such as 8 and auto, with texts for all of them: it is a choice."""
    configs = [trial.config for trial in trials]
    mixed = {name for name in _names(configs) if len({_kind(config[name]) for config in configs if name in config}) > 1}
    if not mixed:
        return list(trials)
    texts = [
        Config({name: _text(value) if name in mixed else value for name, value in each.items()}) for each in configs
    ]
    return [replace(trial, config=config) for trial, config in zip(trials, texts, strict=True)]


def _kind(value: Value) -> type:
    return bool if isinstance(value, bool) else str if isinstance(value, str) else float


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def status_without_verdict(status: str, imported: Imported, name: str) -> str:
    """That of a study from a file of the format `name`, which holds no verdict: what it does not show is not claimed."""
    if status not in _OF_A_VERDICT:
        return status
    imported.note(f"{name}: status={status} was read as stopped, because the file does not hold what was found")
    return "stopped"


def study_of(
    *,
    name: str,
    objective: str,
    configs: Sequence[Config],
    created_at: float = 0.0,
    status: str = "stopped",
    context: Context | None = None,
    machine: Machine | None = None,
    kinds: str = "",
    knobs: Mapping[str, Knob] | None = None,
) -> StudyRecord:
    """A study of which no more than this is known; the first config stands for the baseline.

    Raises:
        SpaceError: the configs make no space.
    """
    baseline = configs[0] if configs else Config({})
    spanned = {name: _knob(name, [config[name] for config in configs if name in config]) for name in _names(configs)}
    space = Space(list({**spanned, **(knobs or {})}.values()))
    target = {f"target{index}": {"kind": kind} for index, kind in enumerate(kinds.split("+")) if kind}
    return StudyRecord(
        id=0,
        name=name,
        settings={"target": target} if target else {},
        space=space_to_json(space),
        objective=objective,
        baseline=baseline,
        machine=machine or Machine(cores=0, memory_bytes=0),
        context=context or Context("", 0),
        created_at=created_at,
        status=status,
        verdict=Verdict(),
        fingerprint="",
    )


def _names(configs: Sequence[Config]) -> list[str]:
    return list(dict.fromkeys(name for config in configs for name in config))


def _knob(name: str, values: Sequence[Value]) -> Knob:
    """A knob whose range spans the values that were tried."""
    if all(isinstance(value, bool) for value in values):
        return Knob(name=name, kind=KnobKind.BOOLEAN, default=values[0])
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < len(values):
        texts = list(dict.fromkeys(_text(value) for value in values))
        return Knob(name=name, kind=KnobKind.CHOICE, choices=tuple(texts), default=texts[0])
    if not all(math.isfinite(number) for number in numbers):
        raise SpaceError(f"knob {name}: a value is not finite", hint="leave such trials out")
    is_whole = all(isinstance(number, int) for number in numbers)
    kind = KnobKind.INTEGER if is_whole else KnobKind.REAL
    return Knob(name=name, kind=kind, low=min(numbers), high=max(numbers), default=numbers[0])
