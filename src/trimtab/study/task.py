"""Task of a stage: the part of a study file and of an open target that the flow of a study decides by."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.flow import ProofOptions, SearchOptions, Task
from trimtab.search import RestartCost
from trimtab.space import RestartClass
from trimtab.study.stage import Stage
from trimtab.systems import CompilingTarget, WarmingTarget
from trimtab.workload import CycledWorkload

__all__ = ["task_of"]

_COMPILES_S = 33.0
"""About what Java needs until it has compiled what a load runs: 33 s for Cassandra on two cores."""


def task_of(stage: Stage) -> Task:
    """What is to be done on `stage`."""
    file = stage.file
    search = file.search
    return Task(
        space=stage.space,
        baseline=stage.baseline,
        advice=stage.advice,
        objective=stage.objective,
        budget=file.budget,
        context=stage.workload.context,
        seed=file.study.seed,
        search=SearchOptions(
            searcher=search.searcher,
            options=file.searcher_options,
            baseline_every=search.baseline_every,
            patience=search.patience,
        ),
        proof=ProofOptions(**file.proof.model_dump()),
        regression_budget_s=file.guard.regression_budget_s,
        cycle=stage.workload.cycle if isinstance(stage.workload, CycledWorkload) else None,
        lock_reasons={name: stage.states[name].lock_reason for name in stage.space.knobs},
        restarts=tuple(_slow_restarts(stage)),
        windows_s=(stage.plan.window_s, stage.plan.window_max_s),
        unfelt=frozenset(stage.unfelt),
    )


def _slow_restarts(stage: Stage) -> Iterator[RestartCost]:
    """Those of tiers that then warm up for longer than others, where the study has knobs beside theirs."""
    plan, knobs = stage.plan, stage.space.knobs
    for tier in stage.stack.tiers:
        floor_s = tier.target.warmup_floor_s if isinstance(tier.target, WarmingTarget) else 0.0
        if isinstance(tier.target, CompilingTarget) and tier.target.compiles:
            floor_s = max(floor_s, _COMPILES_S)
        more_s = min(floor_s, plan.warmup_cap_s) - plan.warmup_floor_s
        late = {name for name, knob in knobs.items() if knob.restart is not RestartClass.RELOAD}
        mine = frozenset(name for name in late if name.startswith(tier.prefix))
        if more_s > 0 and 0 < len(mine) < len(knobs):
            yield RestartCost(mine, more_s / (plan.warmup_floor_s + plan.window_s))
