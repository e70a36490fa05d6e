"""The runs of the baseline that every study begins with: the machine's noise floor (an A/A test) comes from them."""

from __future__ import annotations

from trimtab.errors import LoadError
from trimtab.flow.ask import Ask, Steps
from trimtab.flow.task import Task
from trimtab.records import Role, Status

__all__ = ["N_BASELINE_FIRST", "measure_baseline"]

N_BASELINE_FIRST = 3
"""Baseline runs before anything else."""


def measure_baseline(task: Task) -> Steps[None]:
    """Measures the baseline.

    Raises:
        LoadError: the workload cannot be measured on the server as it is.
    """
    for _ in range(N_BASELINE_FIRST):
        trial = yield Ask(config=task.baseline, role=Role.BASELINE)
        if trial.status is not Status.OK:
            is_ours = trial.status is Status.INFRASTRUCTURE
            raise LoadError(
                f"the baseline itself cannot be measured: {trial.status}: {trial.reason}",
                hint="lower the load, or give the generator `threads`, free cores or real-time priority; `trimtab bench` shows it"
                if is_ours
                else "make the workload run on the server as it is; `trimtab bench` shows it",
            )
