"""What comes after the search: the winner is ablated, what is left is proven, and each line of it is measured.

Runs are shared where they can be: the blocks of the proof hold the winner without each of its lines as well, so that one run of
the winner serves the proof and the worth of every line. The proof ends when it is decided; with what the budget leaves after the
lines' worth, it goes on until the gain is known well enough to be quoted.

When the smaller config fails its proof although the larger one had looked better, the larger one is proven instead: the
ablation must not lose a gain. When the proof's blocks show that one more line is needless, and prove the config without it, that
one is the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from trimtab.report.words import counted
from trimtab.space import Config
from trimtab.study.ablate import Ablation, ablate, ablation_allowance, drop_line, start_ablation
from trimtab.study.evaluate import Evaluator
from trimtab.study.explore import mean_loss
from trimtab.study.pairs import Purse
from trimtab.study.prove import Proof, Prover, prove
from trimtab.study.stage import Stage
from trimtab.study.verdict import Outcome
from trimtab.study.worth import WorthDuels

__all__ = ["finish", "proof_runs"]

_WORTH_PAIRS = 2
"""Pairs that tell what a line is worth, at least; one run each where the winner's own run is shared with the proof."""


_SPARE_RUNS = 4
"""Runs kept for a proof that the least number of pairs does not decide, before any are spent on the lines' worth."""


@dataclass(slots=True)
class _Allowance:
    """What is left of the ablation's share."""

    stage: Stage
    evaluator: Evaluator
    seconds: float
    runs: int

    def purse(self, keep_runs: int = 0) -> Purse:
        return Purse(self.stage, self.evaluator, seconds=self.seconds, runs=self.runs, keep_runs=keep_runs)

    def spend(self, seconds: float, runs: int) -> None:
        self.seconds -= seconds
        self.runs -= runs


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
    allowance = _Allowance(stage, evaluator, *ablation_allowance(stage))
    outcome.candidate = winner
    outcome.ablation = ablation = start_ablation(stage, evaluator, winner)
    if stage.file.proof.ablate:
        say("removing needless knobs")
        _ablated(stage, evaluator, ablation, allowance, may_go_on)
        outcome.candidate = ablation.current
    duels = WorthDuels(stage, evaluator, ablation) if stage.file.proof.ablate else None
    say("proving the winner in alternating pairs")
    prover = _proved(stage, evaluator, ablation, duels, allowance, may_go_on)
    outcome.proof = prover.conclude()
    if _should_go_back(stage, evaluator, ablation, outcome.proof):
        say("proving the larger config, for the smaller one failed")
        _go_back(stage, evaluator, outcome, may_go_on)
        duels = WorthDuels(stage, evaluator, ablation)
    if duels is None or not outcome.proof.is_better:
        return
    if duels.is_open:
        say("measuring what each line is worth")
    outcome.worth = duels.finish(allowance.purse(), may_go_on=may_go_on)
    if not ablation.went_back and not _take_smaller(stage, outcome, ablation, prover):
        prover.run(lambda: prover.is_settled, may_go_on=may_go_on)
        outcome.proof = prover.conclude()


def _ablated(
    stage: Stage, evaluator: Evaluator, ablation: Ablation, allowance: _Allowance, may_go_on: Callable[[], bool]
) -> None:
    """The ablation with its allowance, but for the runs that tell what each line is worth."""
    n_lines = len(ablation.full.difference(stage.baseline))
    keep = proof_runs(stage) + min(_WORTH_PAIRS * n_lines, proof_runs(stage))
    n_before, spent_before = len(evaluator.trials), evaluator.spent_s
    ablate(stage, evaluator, ablation, allowance.purse(keep), may_go_on=may_go_on)
    allowance.spend(evaluator.spent_s - spent_before, len(evaluator.trials) - n_before)


def _proved(
    stage: Stage,
    evaluator: Evaluator,
    ablation: Ablation,
    duels: WorthDuels | None,
    allowance: _Allowance,
    may_go_on: Callable[[], bool],
) -> Prover:
    """The proof of what the ablation left; its blocks hold the lines' worth as well, as far as the allowance goes."""
    shared = duels.beside_the_proof if duels is not None else []
    # The proof's own runs are not the ablation's: they may be made besides.
    keep = proof_runs(stage) + _SPARE_RUNS
    purse = Purse(stage, evaluator, seconds=math.inf, runs=allowance.runs + proof_runs(stage), keep_runs=keep)
    prover = Prover(stage, evaluator, ablation.current, duels=shared, purse=purse)
    prover.run(lambda: prover.is_decided, may_go_on=may_go_on)
    n_shared = sum(duel.n_pairs for duel in shared)
    allowance.spend(n_shared * evaluator.mean_cost_s, n_shared)
    return prover


def _take_smaller(stage: Stage, outcome: Outcome, ablation: Ablation, prover: Prover) -> bool:
    """Whether the proof's blocks have shown that one line is needless and have proven the config without it: then that is the
    result."""
    found = prover.smaller(ablation.tolerance)
    if found is None:
        return False
    duel, outcome.proof = found
    drop_line(stage, ablation, duel)
    outcome.candidate = ablation.current
    left = outcome.candidate.difference(stage.baseline)
    outcome.worth = {name: worth for name, worth in outcome.worth.items() if name in left}
    return True


def proof_runs(stage: Stage) -> int:
    """Runs that a proof makes at least."""
    return stage.file.proof.min_pairs * (3 if stage.file.proof.advice is True else 2)


def _should_go_back(stage: Stage, evaluator: Evaluator, ablation: Ablation, proof: Proof) -> bool:
    """Whether the larger config looks as if it could be proven, and there is time for it."""
    if proof.is_better or not ablation.dropped:
        return False
    full = mean_loss(evaluator.trials, ablation.full)
    looks_better = full < mean_loss(evaluator.trials, ablation.current) and math.exp(-full) > 1 + proof.delta
    budget = stage.file.budget.seconds
    needed_s = proof_runs(stage) * evaluator.mean_cost_s
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
    smaller = f"the config without {counted(n, 'needless knob')} failed its proof"
    return f"{smaller}{f' ({why})' if why else ''}, so the larger one was proven"
