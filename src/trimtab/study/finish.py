"""What comes after the search: the winner is ablated, what is left is proven, and each line of it is measured.

When the smaller config fails its proof although the larger one had looked better, the larger one is proven instead: the
ablation must not lose a gain.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from trimtab.space import Config
from trimtab.study.ablate import Ablation, ablate, ablation_allowance, start_ablation
from trimtab.study.evaluate import Evaluator
from trimtab.study.explore import mean_loss
from trimtab.study.pairs import Purse
from trimtab.study.prove import Proof, prove
from trimtab.study.stage import Stage
from trimtab.study.verdict import Outcome
from trimtab.study.worth import measure_worth

__all__ = ["finish"]


def finish(
    stage: Stage,
    evaluator: Evaluator,
    outcome: Outcome,
    winner: Config,
    *,
    say: Callable[[str], None],
    may_go_on: Callable[[], bool],
) -> None:
    """From the best config of the search to a proven one; `outcome` is filled in step by step.

    Args:
        stage, evaluator: of the study.
        outcome: `candidate`, `ablation`, `proof` and `worth` are set.
        winner: the config to start from.
        say: takes the name of each phase.
        may_go_on: whether the whole budget has room for one more trial; may raise `Interrupted`.
    """
    seconds, runs = ablation_allowance(stage)
    n_before, spent_before = len(evaluator.trials), evaluator.spent_s
    outcome.candidate, outcome.ablation = winner, start_ablation(stage, evaluator, winner)
    if stage.file.proof.ablate:
        say("removing needless knobs")
        purse = Purse(stage, evaluator, seconds=seconds, runs=runs, keep_runs=_proof_runs(stage))
        ablate(stage, evaluator, outcome.ablation, purse, may_go_on=may_go_on)
        outcome.candidate = outcome.ablation.current
    seconds -= evaluator.spent_s - spent_before
    runs -= len(evaluator.trials) - n_before
    say("proving the winner in alternating pairs")
    outcome.proof = prove(stage, evaluator, outcome.candidate, may_go_on=may_go_on)
    if _should_go_back(stage, evaluator, outcome.ablation, outcome.proof):
        say("proving the larger config, for the smaller one failed")
        _go_back(stage, evaluator, outcome, may_go_on)
    if outcome.proof.is_better and stage.file.proof.ablate:
        say("measuring what each line is worth")
        purse = Purse(stage, evaluator, seconds=seconds, runs=runs)
        outcome.worth = measure_worth(stage, evaluator, outcome.ablation, purse, may_go_on=may_go_on)


def _proof_runs(stage: Stage) -> int:
    return stage.file.proof.min_pairs * (3 if stage.file.proof.advice else 2)


def _should_go_back(stage: Stage, evaluator: Evaluator, ablation: Ablation, proof: Proof) -> bool:
    """Whether the larger config looks as if it could be proven, and there is time for it."""
    if proof.is_better or not ablation.dropped:
        return False
    full = mean_loss(evaluator.trials, ablation.full)
    looks_better = full < mean_loss(evaluator.trials, ablation.current) and math.exp(-full) > 1 + proof.delta
    budget = stage.file.budget.seconds
    needed_s = _proof_runs(stage) * evaluator.mean_cost_s
    return looks_better and (budget is None or evaluator.spent_s + needed_s <= budget)


def _go_back(stage: Stage, evaluator: Evaluator, outcome: Outcome, may_go_on: Callable[[], bool]) -> None:
    """Proves the config as it was before the ablation; where that fails too, the first proof stands."""
    ablation = outcome.ablation
    if ablation is None:
        return
    proof = prove(stage, evaluator, ablation.full, may_go_on=may_go_on)
    if proof.is_better:
        ablation.take_back(_why_back(ablation, outcome.proof))
        outcome.candidate, outcome.proof = ablation.full, proof


def _why_back(ablation: Ablation, proof: Proof | None) -> str:
    n = len(ablation.dropped)
    unmet = [condition.text for condition in proof.conditions if not condition.is_met] if proof is not None else []
    why = (proof.failure if proof is not None else "") or "; ".join(unmet)
    smaller = f"the config without {n} needless knob{'s' if n > 1 else ''} failed its proof"
    return f"{smaller}{f' ({why})' if why else ''}, so the larger one was proven"
