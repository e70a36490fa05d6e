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
from dataclasses import dataclass

from trimtab.flow.ablate import Ablation, ablate, ablation_allowance, drop_line, start_ablation
from trimtab.flow.ask import Steps
from trimtab.flow.explore import mean_loss
from trimtab.flow.pairs import Purse
from trimtab.flow.prove import Proof, Prover, prove
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.flow.verdict import Outcome
from trimtab.flow.worth import WorthDuels
from trimtab.space import Config
from trimtab.units import counted

__all__ = ["finish", "proof_runs"]

_WORTH_PAIRS = 2
"""Pairs that tell what a line is worth, at least; one run each where the winner's own run is shared with the proof."""


_SPARE_RUNS = 4
"""Runs kept for a proof that the least number of pairs does not decide, before any are spent on the lines' worth."""


@dataclass(slots=True)
class _Allowance:
    """What is left of the ablation's share."""

    task: Task
    scorer: Scorer
    seconds: float
    runs: int

    def purse(self, keep_runs: int = 0) -> Purse:
        return Purse(self.task, self.scorer, seconds=self.seconds, runs=self.runs, keep_runs=keep_runs)

    def spend(self, seconds: float, runs: int) -> None:
        self.seconds -= seconds
        self.runs -= runs


def finish(task: Task, scorer: Scorer, outcome: Outcome, winner: Config) -> Steps[None]:
    """From the best config of the search to a proven one; `outcome` is filled in step by step.

    Args:
        task, scorer: of the study.
        outcome: `candidate`, `ablation`, `proof` and `worth` are set.
        winner: the config to start from.
    """
    allowance = _Allowance(task, scorer, *ablation_allowance(task))
    outcome.candidate = winner
    outcome.ablation = ablation = start_ablation(task, scorer, winner)
    if task.proof.ablate:
        scorer.say("removing needless knobs")
        yield from _ablated(task, scorer, ablation, allowance)
        outcome.candidate = ablation.current
    duels = WorthDuels(task, scorer, ablation) if task.proof.ablate else None
    scorer.say("proving the winner in alternating pairs")
    prover = yield from _proved(task, scorer, ablation, duels, allowance)
    outcome.proof = prover.conclude()
    if _should_go_back(task, scorer, ablation, outcome.proof):
        scorer.say("proving the larger config, for the smaller one failed")
        yield from _go_back(task, scorer, outcome)
        duels = WorthDuels(task, scorer, ablation)
    if duels is None or not outcome.proof.is_better:
        return
    if duels.is_open:
        scorer.say("measuring what each line is worth")
    outcome.worth = yield from duels.finish(allowance.purse())
    if not ablation.went_back and not _take_smaller(task, outcome, ablation, prover):
        yield from prover.run(lambda: prover.is_settled)
        outcome.proof = prover.conclude()


def _ablated(task: Task, scorer: Scorer, ablation: Ablation, allowance: _Allowance) -> Steps[None]:
    """The ablation with its allowance, but for the runs that tell what each line is worth."""
    n_lines = len(ablation.full.difference(task.baseline))
    keep = proof_runs(task) + min(_WORTH_PAIRS * n_lines, proof_runs(task))
    n_before, spent_before = len(scorer.trials), scorer.spent_s
    yield from ablate(task, scorer, ablation, allowance.purse(keep))
    allowance.spend(scorer.spent_s - spent_before, len(scorer.trials) - n_before)


def _proved(
    task: Task,
    scorer: Scorer,
    ablation: Ablation,
    duels: WorthDuels | None,
    allowance: _Allowance,
) -> Steps[Prover]:
    """The proof of what the ablation left; its blocks hold the lines' worth as well, as far as the allowance goes."""
    shared = duels.beside_the_proof if duels is not None else []
    # The proof's own runs are not the ablation's: they may be made besides.
    keep = proof_runs(task) + _SPARE_RUNS
    purse = Purse(task, scorer, seconds=math.inf, runs=allowance.runs + proof_runs(task), keep_runs=keep)
    prover = Prover(task, scorer, ablation.current, duels=shared, purse=purse)
    yield from prover.run(lambda: prover.is_decided)
    n_shared = sum(duel.n_pairs for duel in shared)
    allowance.spend(n_shared * scorer.mean_cost_s, n_shared)
    return prover


def _take_smaller(task: Task, outcome: Outcome, ablation: Ablation, prover: Prover) -> bool:
    """Whether the proof's blocks have shown that one line is needless and have proven the config without it: then that is the
    result."""
    found = prover.smaller(ablation.tolerance)
    if found is None:
        return False
    duel, outcome.proof = found
    drop_line(task, ablation, duel)
    outcome.candidate = ablation.current
    left = outcome.candidate.difference(task.baseline)
    outcome.worth = {name: worth for name, worth in outcome.worth.items() if name in left}
    return True


def proof_runs(task: Task) -> int:
    """Runs that a proof makes at least."""
    return task.proof.min_pairs * (3 if task.proof.advice is True else 2)


def _should_go_back(task: Task, scorer: Scorer, ablation: Ablation, proof: Proof) -> bool:
    """Whether the larger config looks as if it could be proven, and there is time for it."""
    if proof.is_better or not ablation.dropped:
        return False
    full = mean_loss(scorer.trials, ablation.full)
    looks_better = full < mean_loss(scorer.trials, ablation.current) and math.exp(-full) > 1 + proof.delta
    budget = task.budget.seconds
    needed_s = proof_runs(task) * scorer.mean_cost_s
    return looks_better and (budget is None or scorer.spent_s + needed_s <= budget)


def _go_back(task: Task, scorer: Scorer, outcome: Outcome) -> Steps[None]:
    """Proves the config as it was before the ablation; where that fails too, the first proof stands."""
    ablation = outcome.ablation
    if ablation is None:
        return
    proof = yield from prove(task, scorer, ablation.full)
    if proof.is_better:
        ablation.take_back(_why_back(ablation, outcome.proof))
        outcome.candidate, outcome.proof = ablation.full, proof


def _why_back(ablation: Ablation, proof: Proof | None) -> str:
    n = len(ablation.dropped)
    unmet = [condition.text for condition in proof.conditions if not condition.is_met] if proof is not None else []
    why = (proof.failure if proof is not None else "") or "; ".join(unmet)
    smaller = f"the config without {counted(n, 'needless knob')} failed its proof"
    return f"{smaller}{f' ({why})' if why else ''}, so the larger one was proven"
