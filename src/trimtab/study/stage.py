"""Stage: everything a study needs, built from its file: target, workload, space, baseline and advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab import plugins
from trimtab.errors import UsageError
from trimtab.records import Machine, Objective
from trimtab.space import Config, Constraint, Space
from trimtab.study.file import StudyFile, plan_of
from trimtab.target import KnobState, Target
from trimtab.trial import MeasurePlan
from trimtab.workload import Workload

__all__ = ["Stage", "build_target", "build_workload", "open_stage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """An open target with its workload and what may change.

    Attributes:
        file: the study file.
        target: open; closed by `open_stage`.
        workload: not yet prepared.
        states: the live catalogue.
        space: the study's knobs and constraints; contains the baseline and the advice.
        baseline: running values of the space's knobs.
        advice: rule-based config over the space.
        machine: facts for the history.
        plan: how a trial measures.
    """

    file: StudyFile
    target: Target
    workload: Workload
    states: Mapping[str, KnobState]
    space: Space
    baseline: Config
    advice: Config
    machine: Machine
    plan: MeasurePlan

    @property
    def objective(self) -> Objective:
        """What the study optimises."""
        return self.file.objective


def _table(tables: Mapping[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    return next(iter(tables.items()))


def build_target(file: StudyFile, state_dir: Path) -> Target:
    """The study's target, not yet open.

    Raises:
        UsageError: unknown kind, or a table its plug-in refuses.
    """
    name, table = _table(file.target)
    target: Target = plugins.load("targets", table["kind"]).from_settings(name, table, state_dir=state_dir)
    return target


def build_workload(file: StudyFile) -> Workload:
    """The study's workload, not yet prepared.

    Raises:
        UsageError: unknown kind, or a table its plug-in refuses.
    """
    workload: Workload = plugins.load("workloads", file.workload["kind"]).from_settings(file.workload)
    return workload


@contextmanager
def open_stage(file: StudyFile, state_dir: Path) -> Iterator[Stage]:
    """Opens the target (which changes nothing), reads its catalogue, and builds the space.

    Raises:
        UsageError: a table is wrong, or workload and target do not fit.
        SpaceError: a constraint is wrong, or nothing satisfies them.
        TargetError: the target cannot be reached or read.
    """
    target, workload = build_target(file, state_dir), build_workload(file)
    target.open()
    try:
        protocol = target.endpoint().protocol
        if protocol not in workload.protocols:
            raise UsageError(
                f"workload kind={workload.kind!r} cannot drive target kind={target.kind!r}",
                hint=f"it speaks {', '.join(workload.protocols)}; the target speaks {protocol}",
            )
        states = target.states()
        names = target.selection()
        space, baseline = _space(file, target, workload, states, names)
        advice = target.advise(workload.context)
        known = Config({name: value for name, value in advice.items() if name in space.knobs})
        yield Stage(
            file=file,
            target=target,
            workload=workload,
            states=states,
            space=space,
            baseline=baseline,
            advice=space.repair(space.canonical(baseline.replace(known))),
            machine=target.machine(),
            plan=plan_of(file),
        )
    finally:
        target.close()


def _space(
    file: StudyFile, target: Target, workload: Workload, states: Mapping[str, KnobState], names: tuple[str, ...]
) -> tuple[Space, Config]:
    if not names:
        raise UsageError("the study has no knob to tune", hint="see `trimtab knobs` for what is locked, and why")
    running = {name: states[name].running for name in names}
    constraints = [
        *target.constraints(names, workload.context),
        *(Constraint(text, name=f"search.constraints[{index}]") for index, text in enumerate(file.search.constraints)),
    ]
    space = Space([states[name].knob for name in names], constraints, also_legal={n: (v,) for n, v in running.items()})
    space.require_feasible()
    return space, Config(running)
