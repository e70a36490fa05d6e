"""bench: one config measured several times; the noise floor of the machine is in the scatter of the runs (A/A)."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.errors import LoadError
from trimtab.flow.ask import Ask, Steps
from trimtab.flow.score import Scorer
from trimtab.records import Role, Status, Trial
from trimtab.space import Config
from trimtab.units import format_figure

__all__ = ["repeated"]

_HINTS = {
    Status.INFRASTRUCTURE: "this run says nothing about the server: lower the load, or give the generator threads or free cores",
    Status.FAILED_LOAD: "make the workload run on the server as it is, or lower its rate",
}


def repeated(config: Config, n_runs: int) -> Callable[[Scorer], Steps[tuple[Trial, ...]]]:
    """The flow that measures `config` `n_runs` times, each in full.

    Raises:
        LoadError: from its steps, when a run gives no value; the message has its reason.
    """

    def flow(scorer: Scorer) -> Steps[tuple[Trial, ...]]:
        objective, trials = scorer.task.objective, list[Trial]()
        for number in range(n_runs):
            trial = yield Ask(config=config, role=Role.BENCH)
            if trial.status is not Status.OK or trial.measurement is None:
                raise LoadError(
                    f"run {number + 1} ended as {trial.status}: {trial.reason}", hint=_HINTS.get(trial.status)
                )
            trials.append(trial)
            value = objective.value(trial.measurement).estimate
            scorer.say(f"run {number + 1} of {n_runs}: {format_figure(value)}{objective.unit}")
        return tuple(trials)

    return flow
