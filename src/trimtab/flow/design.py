"""The runs of an experimental design, the baseline interleaved; those between two runs of the baseline may run side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trimtab.errors import LoadError
from trimtab.flow.ask import Ask, Effort, Steps, Stopped, side_by_side
from trimtab.flow.baseline import measure_baseline
from trimtab.flow.explore import early_stop, regression_end
from trimtab.flow.pairs import believable
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.flow.verdict import Outcome, make_verdict
from trimtab.records import Role, StopKind, Trial, Verdict
from trimtab.space import Config

__all__ = ["design_runs"]


def design_runs(task: Task, configs: Sequence[Config]) -> Callable[[Scorer], Steps[Verdict]]:
    """The flow that measures `configs`; its verdict's result is "design", or "interrupted".

    Raises:
        LoadError: from its steps, when the baseline cannot be measured, or the regression budget is spent.
    """

    def flow(scorer: Scorer) -> Steps[Verdict]:
        outcome = Outcome(result="design")
        try:
            yield from _runs(task, scorer, configs)
            outcome.stop_reason, outcome.stop_kind = f"all {len(configs)} runs of the design are made", StopKind.OVER
        except Stopped as stopped:
            outcome.is_interrupted, outcome.stop_reason, outcome.stop_kind = True, stopped.message, stopped.kind
        return make_verdict(task, scorer, outcome)

    return flow


def _runs(task: Task, scorer: Scorer, configs: Sequence[Config]) -> Steps[None]:
    scorer.say("measuring the baseline")
    yield from measure_baseline(task)
    scorer.say(f"measuring the {len(configs)} runs of the design")
    every = task.search.baseline_every
    for start in range(0, len(configs), every):
        if start:
            yield Ask(config=task.baseline, role=Role.BASELINE)
        block = configs[start : start + every]
        yield from side_by_side([_one(task, scorer, config, len(configs)) for config in block])


def _one(task: Task, scorer: Scorer, config: Config, n_runs: int) -> Steps[Trial]:
    """One of `n_runs` of a design; a server with users is not kept slow by it for longer than shows that it is."""
    if not scorer.may_try_new:
        n_made = sum(trial.role is Role.DESIGN for trial in scorer.trials)
        raise LoadError(
            f"{regression_end(scorer)}, after {n_made} of {n_runs} runs of the design",
            hint="with a larger [guard] regression_budget the same command goes on",
        )
    stop = early_stop(task, scorer) if task.is_prudent else None
    return (yield from believable(config, Role.DESIGN, Effort.QUICK, stop))
