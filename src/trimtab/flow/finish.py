"""What comes after the search: the winner is ablated, what is left is proven, and each line of it is measured.

Runs are shared where they can be: the blocks of the proof hold the winner without each of its lines as well, so that one run of
the winner serves the proof and the worth of every line. The proof ends when it is decided; with what the budget leaves after the
lines' worth, it goes on until the gain is known well enough to be quoted.

Where noise hides what a few runs could tell of a setting, all are proven, and only then some are taken away, where the time
allows a second proof. When the smaller config fails its proof although the larger one had looked better, the larger one is proven
instead: the ablation must not lose a gain. When the proof's blocks show that one more line is needless, and prove the config
without it, that one is the result. When the winner is refused for harm (it fails, varies from run to run, makes others wait), the
best config that lacks something of it is brought to a proof of its own, while the budget allows one. So it is when the pairs show
that its gain is none, and a wall-clock budget has time left; where no such config was measured, that time is searched in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from trimtab.flow.ablate import Ablation, ablate, drop_line, start_ablation
from trimtab.flow.ask import Steps, announced
from trimtab.flow.harm import is_harmful
from trimtab.flow.losses import acceptable_means, failed_run, fresh_losses, mean_loss
from trimtab.flow.pairs import Purse
from trimtab.flow.prove import Proof, Prover, acceptance_rule, prove
from trimtab.flow.refine import Refined
from trimtab.flow.reserve import ablation_allowance, is_clear, pairs_needed, proof_runs
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.flow.verdict import Outcome
from trimtab.flow.worth import WorthDuels
from trimtab.records import Condition
from trimtab.space import Config
from trimtab.units import counted

__all__ = ["finish"]

_WORTH_PAIRS = 2
"""Pairs that tell what a line is worth, at least; one run each where the winner's own run is shared with the proof."""

_SPARE_RUNS = 4
"""Runs kept for a proof that the least number of pairs does not decide, before any are spent on the lines' worth."""

_MOST_PROOFS = 3
"""Configs that are brought to a proof, at most."""

_HARMLESS = ("gain", "baseline", "durability")
"""Conditions that say nothing against a config of other values: it would meet them no better."""

_UNLIKE = 0.1
"""Share of a knob's range by which two values differ clearly."""


@dataclass(slots=True)
class _Allowance:
    """What is left of the ablation's share."""

    task: Task
    scorer: Scorer
    seconds: float
    runs: int

    def purse(self, keep_runs: int) -> Purse:
        return Purse(self.task, self.scorer, seconds=self.seconds, runs=self.runs, keep_runs=keep_runs)

    def spend(self, seconds: float, runs: int) -> None:
        self.seconds -= seconds
        self.runs -= runs


def finish(
    task: Task,
    scorer: Scorer,
    outcome: Outcome,
    winner: Refined,
    search_on: Callable[[], Steps[Refined | None]],
    concluded: Callable[[], None] = lambda: None,
) -> Steps[None]:
    """From the best config of the search to a proven one; `outcome` is filled in step by step.

    When no config can be proven, the first stands, with why it was refused.

    Args:
        task, scorer: of the study.
        outcome: `candidate`, `ablation`, `proof`, `worth` and `refused` are set.
        winner: the config to start from.
        search_on: searches in the time that is left after a failed proof; None when there is too little, or it finds nothing.
        concluded: called whenever it is known what a proof has shown: the study may die in what follows.
    """
    allowance = _Allowance(task, scorer, *ablation_allowance(task))
    ablation = start_ablation(task, scorer, winner.config, winner.lost)
    yield from _finish_one(task, scorer, outcome, ablation, allowance, concluded)
    first, refused = replace(outcome), [winner.config]
    while outcome.proof is not None and (harm := _harm(outcome.proof) or _no_gain(task, outcome.proof)):
        if outcome.candidate is not None:
            refused.append(outcome.candidate)
            outcome.refused += (_refusal(task, outcome.candidate, harm),)
        if len(outcome.refused) == _MOST_PROOFS:
            break
        level = 1 - 0.05 / 2 ** len(outcome.refused)
        following = yield from _following(task, scorer, refused, harm, level, search_on)
        if following is None:
            break
        refused.append(following.config)
        ablation = start_ablation(task, scorer, following.config, following.lost)
        yield from _finish_one(task, scorer, outcome, ablation, allowance, concluded)
    if outcome.proof is not None and not outcome.proof.is_better and outcome.refused:
        outcome.candidate, outcome.ablation = first.candidate, first.ablation
        outcome.proof, outcome.worth, outcome.refused = first.proof, first.worth, outcome.refused[1:]


def _following(
    task: Task,
    scorer: Scorer,
    refused: Sequence[Config],
    harm: str,
    level: float,
    search_on: Callable[[], Steps[Refined | None]],
) -> Steps[Refined | None]:
    """What is brought to a proof at `level` after `refused`, for which `harm` speaks; None: nothing."""
    found = _next_best(task, scorer, refused)
    if found is not None:
        if not _has_time_for_proof(task, scorer, pairs_needed(task, scorer, found, level)):
            return None
        scorer.say(f"the winner is refused ({harm}): proving the next best config")
        return Refined(found)
    scorer.refuse(refused, level)
    return (yield from search_on())


def _finish_one(
    task: Task,
    scorer: Scorer,
    outcome: Outcome,
    ablation: Ablation,
    allowance: _Allowance,
    concluded: Callable[[], None],
) -> Steps[None]:
    """Brings the config that `ablation` begins with to a proof, with what is left of the ablation's share."""
    n_before = len(outcome.refused)
    # The proof of another config says nothing of this one, should the study be stopped before it has its own.
    outcome.candidate, outcome.ablation, outcome.proof, outcome.worth = ablation.full, ablation, None, {}
    is_before = is_clear(task, scorer, ablation.full)
    if task.proof.ablate and is_before:
        yield from announced(_ablated(task, scorer, ablation, allowance), scorer.say, "removing needless knobs")
        outcome.candidate = ablation.current
    tried = outcome.candidate
    duels = WorthDuels(task, scorer, ablation) if task.proof.ablate else None
    # Before any were taken away, there are too many lines to measure each in the proof's blocks.
    proved = _proved(task, scorer, ablation, duels if is_before else None, allowance, n_before)
    prover = yield from announced(proved, scorer.say, "proving the winner in alternating pairs")
    outcome.proof = prover.conclude()
    concluded()
    if _should_go_back(task, scorer, ablation, outcome.proof):
        scorer.say("proving the larger config, for the smaller one failed")
        yield from _go_back(task, scorer, outcome, ablation)
        concluded()
        duels = WorthDuels(task, scorer, ablation)
    if duels is None or not outcome.proof.is_better:
        return
    if not is_before:
        yield from _reduce_proven(task, scorer, outcome, ablation, allowance)
        duels = WorthDuels(task, scorer, ablation) if ablation.n_runs else duels
    is_of_prover = outcome.candidate == tried
    # A gain that is known roughly is no headline: one more pair comes before the last lines' worth.
    keep = prover.n_runs_wanted if is_of_prover else 0
    worth = duels.finish(allowance.purse(keep))
    try:
        yield from announced(worth, scorer.say, "measuring what each line is worth")
    finally:  # a study that is stopped on the way has measured some of them
        outcome.worth = duels.lines()
    if is_of_prover and not _take_smaller(task, outcome, ablation, prover):
        more = prover.run(lambda: prover.is_settled)
        yield from announced(more, scorer.say, "measuring the gain more closely")
        outcome.proof = prover.conclude()
    outcome.worth = duels.lines() if outcome.proof.is_better else {}
    concluded()


def _harm(proof: Proof) -> str:
    """Why the proof speaks against this config and not against every other; "" when it does not."""
    if proof.is_better or proof.is_void:
        return ""
    unmet = [row for row in proof.conditions if not row.is_met and row.name not in _HARMLESS]
    return proof.failure.partition("\n")[0] or "; ".join(map(_named, unmet))


def _no_gain(task: Task, proof: Proof) -> str:
    """Why another config is worth a proof in the time that is left, when only the gain of this one is missing; "" otherwise."""
    if proof.is_void:
        return ""
    unmet = [row for row in proof.conditions if not row.is_met]
    return _named(unmet[0]) if task.budget.seconds is not None and [row.name for row in unmet] == ["gain"] else ""


def _named(condition: Condition) -> str:
    return f"{condition.name.replace('_', ' ')}: {condition.text}"


def _refusal(task: Task, config: Config, harm: str) -> str:
    lines = ", ".join(
        f"{name} = {task.space.knobs[name].format(config[name])}" for name in config.difference(task.baseline)
    )
    return f"{lines}: refused by its proof ({harm})"


def _next_best(task: Task, scorer: Scorer, refused: Sequence[Config]) -> Config | None:
    """The best measured config that lacks one of the lines that all of `refused` have, and looks as if it could be proven;
    None: there is none."""
    suspects = [
        name
        for name in refused[0].difference(task.baseline)
        if not any(_lacks(task, other, refused[0], name) for other in refused[1:])
    ]
    tried = acceptable_means(task.objective, scorer.trials).keys() - {task.baseline}
    tried = {config for config in tried if not is_harmful(task, scorer, config)}
    means = {
        config: _at_worst(scorer, config)
        for config in tried - set(refused)
        if not suspects or any(_lacks(task, config, refused[0], name) for name in suspects)
    }
    best = min(means, key=lambda config: (means[config], repr(config)), default=None)
    if best is None or not _may_be_proven(task, scorer, best, means[best]):
        return None
    return best


def _may_be_proven(task: Task, scorer: Scorer, config: Config, loss: float) -> bool:
    """Whether a config of that loss would gain enough; where the baseline misses a constraint, none that meets it needs to."""
    return scorer.par == math.inf or math.exp(-loss) > 1 + acceptance_rule(task, scorer, config).least


def _at_worst(scorer: Scorer, config: Config) -> float:
    """The loss of `config`, one standard error above what its runs show: many configs were tried, and the luckiest is none."""
    losses = fresh_losses(scorer.trials, config)
    return mean_loss(scorer.trials, config) + scorer.noise_sd / math.sqrt(max(1, len(losses)))


def _lacks(task: Task, config: Config, other: Config, name: str) -> bool:
    """Whether `config` is without the line of `other` about a knob: found value, or clearly another one."""
    knob, values = task.space.knobs[name], (config[name], other[name])
    if values[0] == task.baseline[name] or values[0] == values[1]:
        return values[0] != values[1]
    if not knob.is_numeric or any(value in knob.special for value in values):
        return True
    axis = list(task.space.knobs).index(name)
    return bool(abs(task.space.encode(config)[axis] - task.space.encode(other)[axis]) > _UNLIKE)


def _has_time_for_proof(task: Task, scorer: Scorer, n_pairs: int) -> bool:
    return scorer.has_room_for_pairs(proof_runs(task, n_pairs))


def _ablated(task: Task, scorer: Scorer, ablation: Ablation, allowance: _Allowance) -> Steps[None]:
    """The ablation with its allowance, but for the runs that tell what each line is worth."""
    n_lines = len(ablation.full.difference(task.baseline))
    proof = proof_runs(task, pairs_needed(task, scorer, ablation.full))
    keep = proof + min(_WORTH_PAIRS * n_lines, proof_runs(task, task.proof.min_pairs))
    n_before, spent_before = len(scorer.trials), scorer.spent_s
    yield from ablate(task, scorer, ablation, allowance.purse(keep))
    allowance.spend(scorer.spent_s - spent_before, len(scorer.trials) - n_before)


def _proved(
    task: Task,
    scorer: Scorer,
    ablation: Ablation,
    duels: WorthDuels | None,
    allowance: _Allowance,
    n_before: int,
) -> Steps[Prover]:
    """The proof of what the ablation left; its blocks hold the lines' worth as well, as far as the allowance goes."""
    shared = duels.beside_the_proof if duels is not None else []
    # The proof's own runs are not the ablation's: they may be made besides.
    n_pairs = pairs_needed(task, scorer, ablation.current)

    def keep_runs() -> int:
        return proof_runs(task, max(0, n_pairs - prover.n_pairs)) + _SPARE_RUNS

    runs = allowance.runs + proof_runs(task, n_pairs)
    purse = Purse(task, scorer, seconds=math.inf, runs=runs, keep_runs=keep_runs)
    free = duels.free_in_the_proof if duels is not None else []
    prover = Prover(task, scorer, ablation.current, duels=shared, purse=purse, free=free, n_before=n_before)
    yield from prover.run(lambda: prover.is_decided)
    n_shared = sum(duel.n_pairs for duel in shared)
    allowance.spend(n_shared * scorer.pair_run_cost_s, n_shared)
    return prover


def _reduce_proven(
    task: Task, scorer: Scorer, outcome: Outcome, ablation: Ablation, allowance: _Allowance
) -> Steps[None]:
    """Takes from the proven config what it does not need, where the budget has room for a proof of the smaller one as well; where
    that one fails, the proven one stands."""
    try:
        yield from announced(_ablated(task, scorer, ablation, allowance), scorer.say, "removing needless knobs")
        if ablation.dropped:
            scorer.say("proving the smaller config")
            proof = yield from prove(task, scorer, ablation.current, n_before=len(outcome.refused) + 1)
            if proof.is_better:
                outcome.candidate, outcome.proof = ablation.current, proof
    finally:  # a study that is stopped on the way has proven the larger one, too
        if ablation.dropped and outcome.candidate != ablation.current:
            n = counted(len(ablation.dropped), "needless knob")
            ablation.take_back(f"The config without {n} was not proven, so the larger one stands")


def _take_smaller(task: Task, outcome: Outcome, ablation: Ablation, prover: Prover) -> bool:
    """Whether the proof's blocks have shown that one line is needless and have proven the config without it: then that is the
    result."""
    found = prover.smaller(ablation.tolerance)
    if found is None:
        return False
    duel, outcome.proof = found
    drop_line(task, ablation, duel)
    outcome.candidate = ablation.current
    return True


def _should_go_back(task: Task, scorer: Scorer, ablation: Ablation, proof: Proof) -> bool:
    """Whether the larger config looks as if it could be proven, and there is time for it."""
    if proof.is_better or proof.is_void or not ablation.dropped or failed_run(scorer.trials, ablation.full) is not None:
        return False
    full = mean_loss(scorer.trials, ablation.full)
    # However fast the smaller one was before it failed: what it lacks may be what kept the larger one up.
    has_failed = failed_run(scorer.trials, ablation.current) is not None
    return (
        (has_failed or full < mean_loss(scorer.trials, ablation.current))
        and _may_be_proven(task, scorer, ablation.full, full)
        and _has_time_for_proof(task, scorer, task.proof.min_pairs)
    )


def _go_back(task: Task, scorer: Scorer, outcome: Outcome, ablation: Ablation) -> Steps[None]:
    """Proves the config as it was before the ablation; where that fails too, the first proof stands."""
    proof = yield from prove(task, scorer, ablation.full, n_before=len(outcome.refused))
    if proof.is_better:
        ablation.take_back(_why_back(ablation, outcome.proof))
        outcome.candidate, outcome.proof = ablation.full, proof


def _why_back(ablation: Ablation, proof: Proof | None) -> str:
    n = len(ablation.dropped)
    unmet = [condition.text for condition in proof.conditions if not condition.is_met] if proof is not None else []
    why = (proof.failure if proof is not None else "") or "; ".join(unmet)
    smaller = f"the config without {counted(n, 'needless knob')} failed its proof"
    return f"{smaller}{f' ({why})' if why else ''}, so the larger one was proven"
