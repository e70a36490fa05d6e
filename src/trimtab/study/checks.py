"""What a study can reach, read, change and restart, before it is run: one line for each check."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trimtab.errors import LoadError, UsageError
from trimtab.report.words import counted, workload_text
from trimtab.study.first import lost_with_power
from trimtab.study.stage import Stage
from trimtab.units import format_duration
from trimtab.workload import CountingWorkload

__all__ = ["Check", "checks_of"]

_ROOT = "programs of the server run as its own user; a user who may restart the server and write its files is enough"

_REMARKS = (
    "memory use",
    "running config",
    "file system",
    "write",
    "recover",
    "restart loses",
    "advice",
    "state directory",
    "proof",
)
"""Checks of the user's own config, which a study measures as it is, even where no candidate may be like it; of what a study goes
on without, or with in another form; of what it asks of its proof, and cannot have; and of what a power cut would take, and how to
log in after it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what was looked at, how it stands ("fail" prevents a study), and what was found."""

    check: str
    verdict: Literal["ok", "note", "fail"]
    text: str


def checks_of(stage: Stage, state_dir: Path) -> list[Check]:
    """The target's own checks, and those of the state directory, the workload, the space, the budget, the search, the user and
    the running config. Changes nothing."""
    found = list(stage.stack.doctor())
    found += [("state directory", False, text) for text in lost_with_power(stage.stack, state_dir)]
    context, space = stage.workload.context, stage.space
    found.append(("workload", True, workload_text(context)))
    size = f"{counted(len(space.knobs), 'knob')}, {counted(len(space.constraints), 'constraint')}"
    found.append(("space", True, size))
    if os.geteuid() == 0:
        found.append(("user", True, f"root: {_ROOT}"))
    if stage.moved:
        found.append(("advice", False, stage.moved))
    found += _asked(stage)
    broken = space.violations(stage.baseline)
    told = f"{'; '.join(broken)}; it is measured anyway" if broken else "meets every constraint"
    found.append(("running config", not broken, told))
    return [
        Check(check, "ok" if is_fine else "note" if check.rpartition(": ")[2] in _REMARKS else "fail", text)
        for check, is_fine, text in found
    ]


def _asked(stage: Stage) -> Iterator[tuple[str, bool, str]]:
    """Whether `tune` takes what the file says of the study itself."""
    # Imported here: what searches takes a while to load, and a server that does not answer is told before that.
    from trimtab.study.begin import require_enough_time, require_metrics
    from trimtab.study.proof_notes import proof_notes
    from trimtab.study.task import task_of
    from trimtab.study.tuning import require_search

    budget, searcher = stage.file.budget, stage.file.search.searcher
    most = counted(budget.trials or 0, "trial") if budget.seconds is None else format_duration(budget.seconds)
    yield _taken("budget", most, lambda: require_enough_time(stage.file, stage.workload))
    yield _taken("search", f"searcher {searcher}", lambda: require_search(stage, task_of(stage)))
    yield from (("proof", False, note) for note in proof_notes(task_of(stage)))
    if isinstance(stage.workload, CountingWorkload):
        yield _taken("objective", f"{stage.objective} can be measured here", lambda: require_metrics(stage))


def _taken(check: str, text: str, require: Callable[[], None]) -> tuple[str, bool, str]:
    try:
        require()
    except (UsageError, LoadError) as error:
        return check, False, f"{error.message}; {error.hint}" if error.hint else error.message
    return check, True, text
