"""Proofs on a real server without a search: the baseline measured, then candidate and baseline in pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trimtab.flow import Scorer, Steps
from trimtab.flow.baseline import measure_baseline
from trimtab.flow.prove import Proof, prove
from trimtab.history import History
from trimtab.records import Role, Trial
from trimtab.space import Value
from trimtab.study import load_study_file, open_stage
from trimtab.study.begin import fingerprints_of, new_record, run_flow
from trimtab.study.task import task_of
from trimtab.workload import Frame

__all__ = ["Listener", "prove_changes", "prove_equal"]


class Listener:
    """Hears everything and says nothing."""

    def study_started(self, name: str, budget_s: float | None) -> None:
        pass

    def phase(self, text: str) -> None:
        pass

    def step(self, name: str) -> None:
        pass

    def second(self, frame: Frame) -> None:
        pass

    def trial_started(self, number: int, role: Role, changed: dict[str, str]) -> None:
        pass

    def trial_ended(self, trial: Trial, best_gain: float | None, time_left_s: float | None) -> None:
        pass


def prove_changes(
    study: Path, state_dir: Path, changes: Mapping[str, Value], listener: Listener | None = None
) -> Proof:
    """One proof of the running config with `changes` over it; the server is as it was found afterwards."""
    file, heard = load_study_file(study), listener or Listener()
    with open_stage(file, state_dir) as stage, stage.stack.lock("acceptance"):
        stage.workload.prepare(stage.stack.endpoint(), heard.phase)
        with History.open(state_dir / "history.db") as history:
            record = new_record(history, stage, fingerprints_of(file, stage.workload)[0])
            task, candidate = task_of(stage), stage.baseline.replace(changes)

            def flow(scorer: Scorer) -> Steps[Proof]:
                yield from measure_baseline(task)
                return (yield from prove(task, scorer, candidate))

            proof, _ = run_flow(stage, task, flow, history, record, state_dir, heard, lambda: False)
            return proof


def prove_equal(study: Path, state_dir: Path) -> Proof:
    """A proof of the running config against itself (A/A)."""
    state_dir.mkdir(exist_ok=True)
    return prove_changes(study, state_dir, {})
