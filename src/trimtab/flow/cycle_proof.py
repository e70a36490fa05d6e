"""The proofs of a cycle: of one config for all its contexts, and of each context's own best, in pairs under that context.

One config is what a server can be given to stay: the candidate has the least mean loss over the cycle (each context counts
by its share of the visits) among the best of all contexts, each measured under every context first. It is better when the mean of
its gains is proven to be above the smallest gain worth claiming, and it meets the other conditions under every context. The ends
of the contexts' intervals are always valid, and their errors independent, so their half widths add in squares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from trimtab.flow.ask import Steps
from trimtab.flow.context_score import ContextScorer, task_under, under
from trimtab.flow.losses import failed_run, mean_loss
from trimtab.flow.pairs import believable
from trimtab.flow.prove import Proof, Prover, prove
from trimtab.flow.task import Task
from trimtab.measure import Interval, Looks, expected_half_width
from trimtab.measure.quantile import t_quantile
from trimtab.records import Condition, Cycle, Role
from trimtab.space import Config
from trimtab.units import format_figure

__all__ = ["CycleProof", "prove_cycle"]

_MOST_SHARED = 3
"""Configs that are measured under every context, at most."""


@dataclass(frozen=True, slots=True)
class CycleProof:
    """What the pairs showed.

    Attributes:
        shared: the config for the whole cycle; None when none looked better than the baseline.
        gain: of it, as a weighted geometric mean over the contexts; None when it failed or was not measured.
        conditions: that it had to meet.
        failure: why it failed, "" when it did not.
        is_better: whether it is proven.
        of_shared: its proof under each context, in the order of `Cycle.contexts`; None where none was made.
        of_own: the proof of each context's own best; the same as of_shared where that is the same config.
    """

    shared: Config | None
    gain: Interval | None
    conditions: tuple[Condition, ...]
    failure: str
    is_better: bool
    of_shared: tuple[Proof | None, ...]
    of_own: tuple[Proof | None, ...]


def prove_cycle(
    task: Task, cycle: Cycle, scorer: ContextScorer, best: Sequence[Config | None], keep: Callable[[CycleProof], None]
) -> Steps[None]:
    """Proves the config for the whole cycle, and then each context's own best while the budget has room.

    Args:
        task, cycle, scorer: of the study.
        best: of each context.
        keep: given what is proven so far, whenever that is more: a study may be stopped before all is.
    """
    shared = yield from _shared(task, cycle, scorer, best)
    found: dict[tuple[int, Config], Proof] = {}

    def concluded() -> CycleProof:
        of_shared = tuple(None if shared is None else found.get((i, shared)) for i in range(len(cycle.contexts)))
        of_own = tuple(None if own is None else found.get((i, own)) for i, own in enumerate(best))
        return _concluded(task, cycle, shared, of_shared, of_own)

    if shared is not None:
        scorer.say("proving the best config of the whole cycle in alternating pairs")
        proofs = yield from _proofs_of_shared(task, cycle, scorer, shared)
        found = {(place, shared): proof for place, proof in enumerate(proofs)}
    keep(concluded())
    for place, own in enumerate(best):
        if own is None or (place, own) in found or not scorer.has_room_for_pairs(2 * task.proof.min_pairs):
            continue
        scorer.say(f"context {cycle.names[place]}: proving its best config in alternating pairs")
        context = cycle.contexts[place]
        proving = prove(task_under(task, context), scorer.part(context), own, needs_gain=True)
        found[place, own] = yield from under(context, proving)
        keep(concluded())


def _shared(task: Task, cycle: Cycle, scorer: ContextScorer, best: Sequence[Config | None]) -> Steps[Config | None]:
    """The config with the least mean loss over the cycle; None when none is better than the baseline on average."""
    candidates = sorted(
        dict.fromkeys(c for c in best if c is not None), key=lambda c: (_known(cycle, scorer, c), repr(c))
    )
    if candidates:
        scorer.say("measuring the best of each context under the others")
    means: dict[Config, float] = {}
    for config in candidates[:_MOST_SHARED]:
        for context in cycle.contexts:
            trials = scorer.part(context).trials
            is_unknown = math.isinf(mean_loss(trials, config)) and failed_run(trials, config) is None
            if is_unknown and scorer.has_room_for_pairs(2 * task.proof.min_pairs * len(best)):
                yield from under(context, believable(config, Role.REPEAT))
        means[config] = sum(cycle.share(c) * mean_loss(scorer.part(c).trials, config) for c in cycle.contexts)
    chosen = min(candidates[:_MOST_SHARED], key=lambda config: means[config], default=None)
    return chosen if chosen is not None and means[chosen] < 0 else None


def _known(cycle: Cycle, scorer: ContextScorer, config: Config) -> float:
    """Mean loss over the contexts that have measured it."""
    losses = [mean_loss(scorer.part(context).trials, config) for context in cycle.contexts]
    known = [loss for loss in losses if math.isfinite(loss)]
    return sum(known) / len(known) if known else math.inf


def _proofs_of_shared(task: Task, cycle: Cycle, scorer: ContextScorer, config: Config) -> Steps[list[Proof]]:
    """The least number of pairs under each context, and more while the mean gain is open and the budget has room, or is short of
    one more round that is expected to prove it; up to the first context under which a run failed."""
    tasks = [task_under(task, context) for context in cycle.contexts]
    provers = [Prover(own, scorer.part(own.context), config, needs_gain=True) for own in tasks]
    n_pairs, is_late = task.proof.min_pairs, False
    while True:
        proofs = list[Proof]()
        for context, prover in zip(cycle.contexts, provers, strict=True):
            yield from under(context, prover.run(partial(prover.has_pairs, n_pairs), is_paid=is_late))
            proofs.append(prover.conclude())
            if proofs[-1].failure:
                return proofs
        if is_late or n_pairs >= tasks[0].proof.max_pairs or _is_decided(task, cycle, proofs):
            return proofs
        if not scorer.has_room_for_pairs(2 * len(tasks)):
            if not _is_one_round_short(task, cycle, proofs):
                return proofs
            is_late = True
            scorer.say(
                "the budget is used up; one more pair under each context follows: they are expected to prove the gain"
            )
        n_pairs += 1


def _is_decided(task: Task, cycle: Cycle, proofs: Sequence[Proof]) -> bool:
    """Whether more pairs would hardly change what is said of the whole cycle."""
    gain = _pooled(cycle, proofs)
    conditions = _conditions(task, cycle, gain, proofs)
    n_open = sum(proof.may_steady for proof in proofs)
    # Each of those has the condition of its baseline among the unmet ones: one odd run ends no proof.
    if gain is None or len(conditions) - 1 > n_open:
        return True
    return (conditions[0].is_met and not n_open) or _is_hopeless(task, cycle, proofs)


def _is_one_round_short(task: Task, cycle: Cycle, proofs: Sequence[Proof]) -> bool:
    """Whether nothing is missing but the proof of the mean gain, and one more pair like these under each context is expected to
    bring it."""
    gain = _pooled(cycle, proofs)
    conditions = _conditions(task, cycle, gain, proofs)
    if gain is None or len(conditions) > 1 or conditions[0].is_met:
        return False
    square = 0.0
    for context, proof in zip(cycle.contexts, proofs, strict=True):
        if proof.gain is None or not math.isfinite(proof.gain.ratio.se):
            return False
        ratio, n, looks = proof.gain.ratio, proof.gain.n_pairs, Looks(task_under(task, context).proof.max_pairs)
        square += (cycle.share(context) * expected_half_width(n + 1, ratio.se * math.sqrt(n), ratio.level, looks)) ** 2
    return math.sqrt(square) <= math.log(gain.estimate / (1 + task.proof.min_gain))


def _is_hopeless(task: Task, cycle: Cycle, proofs: Sequence[Proof]) -> bool:
    """Whether even a lucky view of the pairs shows less than what is needed; to give up claims nothing, so a t bound will do."""
    middle = square = 0.0
    df = -len(proofs)
    for context, proof in zip(cycle.contexts, proofs, strict=True):
        if proof.gain is None or not math.isfinite(proof.gain.ratio.se):
            return False
        weight = cycle.share(context)
        middle += weight * math.log(proof.gain.ratio.estimate)
        square += (weight * proof.gain.ratio.se) ** 2
        df += proof.gain.n_pairs
    return df > 0 and middle + t_quantile(0.975, df) * math.sqrt(square) < math.log1p(task.proof.min_gain)


def _concluded(
    task: Task,
    cycle: Cycle,
    shared: Config | None,
    of_shared: tuple[Proof | None, ...],
    of_own: tuple[Proof | None, ...],
) -> CycleProof:
    proofs = [proof for proof in of_shared if proof is not None]
    failure = next(
        (f"{name}: {p.failure}" for name, p in zip(cycle.names, of_shared, strict=True) if p and p.failure), ""
    )
    gain = _pooled(cycle, of_shared) if not failure else None
    conditions = _conditions(task, cycle, gain, of_shared) if len(proofs) == len(of_shared) and not failure else ()
    is_better = bool(conditions) and all(row.is_met for row in conditions)
    return CycleProof(shared, gain, conditions, failure, is_better, of_shared, of_own)


def _pooled(cycle: Cycle, proofs: Sequence[Proof | None]) -> Interval | None:
    """Weighted geometric mean of the gains under the contexts."""
    middle = below = above = 0.0
    n = 0
    for context, proof in zip(cycle.contexts, proofs, strict=True):
        if proof is None or proof.gain is None:
            return None
        ratio, weight = proof.gain.ratio, cycle.share(context)
        log = math.log(ratio.estimate)
        middle += weight * log
        below += (weight * (log - math.log(ratio.low))) ** 2 if ratio.low > 0 else math.inf
        above += (weight * (math.log(ratio.high) - log)) ** 2 if math.isfinite(ratio.high) else math.inf
        n += proof.gain.n_pairs
    low, high = math.exp(middle - math.sqrt(below)), math.exp(middle + math.sqrt(above))
    return Interval(math.exp(middle), low, high, n=n)


def _conditions(
    task: Task, cycle: Cycle, gain: Interval | None, proofs: Sequence[Proof | None]
) -> tuple[Condition, ...]:
    if gain is None:
        return ()
    least = 1 + task.proof.min_gain
    text = (
        f"{format_figure(gain.estimate, 3)} times over the whole cycle, at least {format_figure(gain.low, 3)}; "
        f"needed: more than {least:.3g}"
    )
    found = [Condition("gain", gain.low > least, text)]
    for name, proof in zip(cycle.names, proofs, strict=True):
        if proof is None or proof.gain is None:
            continue
        high = proof.gain.ratio.high
        if high * (1 + task.proof.tolerance) < 1:
            found.append(Condition("gain", False, f"{name}: at most {format_figure(high, 3)} times as fast as yours"))
        found += [
            Condition(row.name, False, f"{name}: {row.text}")
            for row in proof.conditions
            if row.name != "gain" and not row.is_met
        ]
    return tuple(found)
