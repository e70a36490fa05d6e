"""The space and the advice with which a study began: both depend on what changes with a reboot, such as the machine's memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trimtab.history import StudyRecord, read_space, space_to_json
from trimtab.space import Config, Space, Value
from trimtab.study.stage import Stage
from trimtab.units import format_size

__all__ = ["ADVICE", "as_begun", "version_then"]

ADVICE = "advice"
"""Where the settings that the history keeps of a study have the advice with which it began."""

_SAME = 0.05
"""Share by which a machine's memory may differ and is the same machine: a new kernel keeps a little more or less for itself."""


def as_begun(stage: Stage, record: StudyRecord, say: Callable[[str], None]) -> Stage:
    """`stage` with the space and the advice with which the study `record` began, so that a resume goes the same way.

    Useful ranges, budgets and advice depend on memory, cores and the free disk, of which there may be a little more or less now.
    Each config is checked against those of now before it is set. `say` is told of a machine or a version of the server that is
    not the same.

    Raises:
        HistoryError: the history's space is damaged.
    """
    if record.baseline != stage.baseline:  # which is refused
        return stage
    if version := version_then(record, stage):
        say(
            f"the server has version={stage.machine.server_version!r} now, and had {version!r} when study={record.name!r} began:"
            " what was measured then counts as well; --again begins it with this one"
        )
    space = read_space(record)
    advice = _kept_advice(record, stage, space)
    if advice == stage.advice and space_to_json(space) == space_to_json(stage.space):
        return stage
    now, then = stage.machine.memory_bytes, record.machine.memory_bytes
    if abs(now - then) > _SAME * max(now, then):
        say(
            f"the machine has memory={format_size(now)} now, and had {format_size(then)} when study={record.name!r} began; "
            "ranges stay as they were: --again begins it with those of now"
        )
    return replace(stage, space=space, advice=advice)


def version_then(record: StudyRecord, stage: Stage) -> str:
    """The server's version when the study began, where it is another one now; "" where it is not, or one of them is not known."""
    then, now = record.machine.server_version, stage.machine.server_version
    return then if now and then != now else ""


def _kept_advice(record: StudyRecord, stage: Stage, space: Space) -> Config:
    """The advice with which the study began; that of now, brought into its space, where an earlier version did not keep it."""
    kept: dict[str, Value] = {**stage.advice, **record.settings.get(ADVICE, {})}
    return space.repair(space.fit(kept, space.canonical(stage.baseline)))
