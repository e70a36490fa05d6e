"""How near two studies are, so that what one has measured may serve the other."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TypeVar

from trimtab.errors import HistoryError, SpaceError, UsageError
from trimtab.history import BENCHED, History, StudyRecord, StudySummary, knobs_from_json, machine_likeness
from trimtab.history.rows import UNREADABLE, is_damage
from trimtab.records import Context, Machine, Objective, Role, Trial
from trimtab.space import Knob, Space

__all__ = ["NEAR", "Near", "Task", "counters_likeness", "nearest", "overlap", "whole", "workload_likeness"]

T = TypeVar("T")

NEAR = 0.25
"""From here on a study is near enough to be taken without being named."""

_LEAST_TRIALS = 8
_LOOKED_AT = 30
"""Studies whose record is read, those that look nearest by their short columns; a history may have thousands."""

_COUNTED = 6
"""Studies whose server counters are read as well: that takes all their trials."""

_MOST = 3
"""Studies that are taken without being named."""

_OTHER_METRIC = 0.7
_WORDS = re.compile(r"[A-Za-z0-9_.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a study is about.

    Attributes:
        target: kind of its target.
        space: its knobs.
        objective, machine, context: as the history keeps them.
        trials: its own, of the baseline at least; what the server counts is read from them.
    """

    target: str
    space: Space
    objective: Objective
    machine: Machine
    context: Context
    trials: Sequence[Trial] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """A past study and how near it is, with the parts of which that is the product; each in [0, 1]."""

    record: StudyRecord
    overlap: float
    workload: float
    machine: float

    @property
    def nearness(self) -> float:
        """In [0, 1]; 1: the same knobs, workload and machine."""
        return self.overlap * self.workload * math.sqrt(self.machine)


def overlap(own: Mapping[str, Knob], other: Mapping[str, Knob]) -> float:
    """Share of the own knobs that the other study had too, of the same kind and unit."""
    same = [name for name, knob in own.items() if name in other and _means_the_same(knob, other[name])]
    return len(same) / len(own) if own else 0.0


def _means_the_same(one: Knob, other: Knob) -> bool:
    return one.kind is other.kind and one.unit == other.unit


def workload_likeness(one: Context, other: Context) -> float:
    """From 0 to 1: words of the texts, share of reads, clients, and what both tell of their queries."""
    parts = [
        0.3 + 0.7 * _words_in_common(one.workload, other.workload),
        1.0 - abs(one.read_share - other.read_share),
        math.sqrt(_ratio(one.clients, other.clients)),
    ]
    common = set(one.features) & set(other.features)
    if common:
        parts.append(fmean(_ratio(one.features[name], other.features[name]) for name in sorted(common)))
    return math.prod(max(0.0, part) for part in parts) ** (2.0 / len(parts))


def _words_in_common(one: str, other: str) -> float:
    mine, theirs = set(_WORDS.findall(one.casefold())), set(_WORDS.findall(other.casefold()))
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 1.0


def _ratio(one: float, other: float) -> float:
    """The smaller over the larger of two numbers, 1 when both are 0."""
    low, high = sorted((abs(one), abs(other)))
    return 1.0 if high == 0 else low / high


def counters_likeness(one: Iterable[Trial], other: Iterable[Trial]) -> float | None:
    """How alike the servers' own counts of their work are under the two baselines, from 0 to 1; None when not known."""
    mine, theirs = _work(one), _work(other)
    common = sorted(set(mine) & set(theirs))
    if len(common) < 3:
        return None
    return math.exp(-fmean(abs(mine[name] - theirs[name]) for name in common) / 2.0)


def _work(trials: Iterable[Trial]) -> dict[str, float]:
    """Logarithm of what each counter grew by an operation, in the first run of the baseline that tells."""
    for trial in trials:
        if trial.role is Role.BASELINE and trial.measurement is not None and trial.counters_after:
            n = max(1, trial.measurement.n_ok)
            grown = {name: after - trial.counters_before.get(name, 0.0) for name, after in trial.counters_after.items()}
            return {name: math.log1p(value / n * 1000.0) for name, value in grown.items() if value >= 0}
    return {}


def whole(study: str, read: Callable[[], T], say: Callable[[str], None]) -> T | None:
    """What `read` makes of a past study; None, and `say` is told, where something of it is damaged.

    Raises:
        HistoryError: the history cannot be used at the moment.
    """
    try:
        return read()
    except HistoryError as error:
        if not is_damage(error):
            raise
        reason = error.message
    except (UsageError, SpaceError, *UNREADABLE) as error:  # an objective, or a space, that is none
        reason = f"{type(error).__name__}: {error}"
    say(f"warm start: study={study!r} is left out, because it is damaged: {reason}")
    return None


def nearest(
    history: History,
    task: Task,
    *,
    except_id: int,
    names: Sequence[str] = (),
    say: Callable[[str], None] = lambda text: None,
) -> list[Near]:
    """A few past studies of the same kind of target, nearest first; with `names` the newest of each of these, however near.

    A measurement of one config (`trimtab bench`) is none: it has no loss against a baseline.

    Args:
        history: read only.
        task: what is to be tuned.
        except_id: the study itself.
        names: studies that the user has named, by name or by number ("#7"); none: whatever is `NEAR` enough.
        say: told of each study that is left out because it is damaged.
    """
    every = [s for s in history.summaries() if s.id != except_id and s.status != BENCHED]
    summaries = [s for s in every if names or s.target == task.target]
    if names:
        newest = {word: s.id for s in summaries for word in (s.name, f"#{s.id}") if word in names}
        chosen = list(dict.fromkeys(newest.values()))
    else:
        promising = [s for s in summaries if s.n_trials >= _LEAST_TRIALS]
        chosen = [s.id for s in sorted(promising, key=lambda s: (-_glance(s, task), -s.id))[:_LOOKED_AT]]
    shown = {s.id: f"{s.name} (id {s.id})" for s in summaries}
    read = (whole(shown[each], partial(_read, history, each, task), say) for each in chosen)
    found = [near for near in read if near is not None]
    found.sort(key=lambda near: (-near.nearness, -near.record.id))
    if not names:
        found = [near for near in found if near.nearness >= NEAR][:_COUNTED]
    read = (whole(shown[n.record.id], partial(_with_counters, history, n, task), say) for n in found)
    counted = [near for near in read if near is not None]
    counted.sort(key=lambda near: (-near.nearness, -near.record.id))
    return counted if names else [near for near in counted if near.nearness >= NEAR][:_MOST]


def _glance(summary: StudySummary, task: Task) -> float:
    """What the short columns tell of a study's nearness."""
    there = Machine(cores=max(1, summary.cores), memory_bytes=max(1, summary.memory_bytes))
    here = Machine(cores=task.machine.cores, memory_bytes=task.machine.memory_bytes)
    return (0.3 + 0.7 * _words_in_common(task.context.workload, summary.workload)) * math.sqrt(
        machine_likeness(here, there)
    )


def _read(history: History, study_id: int, task: Task) -> Near:
    record = history.study(study_id)
    metric = 1.0 if Objective.parse(record.objective).metric == task.objective.metric else _OTHER_METRIC
    return Near(
        record=record,
        overlap=overlap(task.space.knobs, knobs_from_json(record.space)),
        workload=metric * workload_likeness(task.context, record.context),
        machine=machine_likeness(task.machine, record.machine),
    )


def _with_counters(history: History, near: Near, task: Task) -> Near:
    if not any(trial.counters_after for trial in task.trials):
        return near
    alike = counters_likeness(task.trials, history.trials(near.record.id))
    if alike is None:
        return near
    return Near(
        record=near.record, overlap=near.overlap, workload=math.sqrt(near.workload * alike), machine=near.machine
    )
