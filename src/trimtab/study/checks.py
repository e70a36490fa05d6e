"""What a study can reach, read, change and restart, before it is run: one line for each check."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from trimtab.report.words import counted
from trimtab.study.stage import Stage

__all__ = ["Check", "checks_of"]

_ROOT = "programs of the server run as its own user; a user who may restart the server and write its files is enough"

_REMARKS = ("memory use", "running config", "file system", "recover")
"""Checks of the user's own config, which a study measures as it is, even where no candidate may be like it; and of what a study
goes on without; and how to log in after a power cut."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what was looked at, how it stands ("fail" prevents a study), and what was found."""

    check: str
    verdict: Literal["ok", "note", "fail"]
    text: str


def checks_of(stage: Stage) -> list[Check]:
    """The target's own checks, and those of the workload, the space, the user and the running config. Changes nothing."""
    found = list(stage.stack.doctor())
    context, space = stage.workload.context, stage.space
    found.append(("workload", True, f"{context.workload}, {counted(context.clients, 'client')}"))
    size = f"{counted(len(space.knobs), 'knob')}, {counted(len(space.constraints), 'constraint')}"
    found.append(("space", True, size))
    if os.geteuid() == 0:
        found.append(("user", True, f"root: {_ROOT}"))
    broken = space.violations(stage.baseline)
    told = f"{'; '.join(broken)}; it is measured anyway" if broken else "meets every constraint"
    found.append(("running config", not broken, told))
    return [
        Check(check, "ok" if is_fine else "note" if check.rpartition(": ")[2] in _REMARKS else "fail", text)
        for check, is_fine, text in found
    ]
