"""The verdict of a study over a cycle: the config for the whole cycle, and what each context's own best is worth there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from trimtab.flow.context_score import ContextScorer
from trimtab.flow.cycle_proof import CycleProof
from trimtab.flow.losses import mean_loss
from trimtab.flow.prove import Proof
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.flow.verdict import Outcome, make_verdict
from trimtab.records import (
    ContextResult,
    Cycle,
    CycleSummary,
    DriftSummary,
    GainInterval,
    Role,
    StopKind,
    Trial,
    Verdict,
    seconds_of,
)
from trimtab.space import Config

__all__ = ["CycleRun", "cycle_verdict"]


@dataclass(slots=True)
class CycleRun:
    """A cycling study under way: what the verdict is made of.

    Attributes:
        rounds: for each round begun, the numbers of its search trials.
        best: the best config of each context, in the order of `Cycle.contexts`, None where none stood up to being measured again;
            shorter while they are not known.
        proof: what was proven; None when it did not come to that.
        reason, kind: why the search ended.
        is_interrupted: whether the study was stopped before its end.
    """

    rounds: list[list[int]] = field(default_factory=list)
    best: list[Config | None] = field(default_factory=list)
    proof: CycleProof | None = None
    reason: str = ""
    kind: StopKind = StopKind.UNSAID
    is_interrupted: bool = False


def cycle_verdict(task: Task, cycle: Cycle, scorer: ContextScorer, run: CycleRun) -> Verdict:
    """What the study found, as far as its trials tell."""
    results = tuple(_context(task, cycle, scorer, run, place) for place in range(len(cycle.contexts)))
    outcome = Outcome(
        result="better" if run.proof is not None and run.proof.is_better else "no_improvement",
        stop_reason=run.reason,
        stop_kind=run.kind,
        candidate=run.proof.shared if run.proof is not None else None,
        is_interrupted=run.is_interrupted,
    )
    verdict = make_verdict(task, scorer, outcome)
    return _with_cycle(verdict, task, cycle, scorer, results, run)


def _with_cycle(
    verdict: Verdict,
    task: Task,
    cycle: Cycle,
    scorer: ContextScorer,
    results: tuple[ContextResult, ...],
    run: CycleRun,
) -> Verdict:
    proof = run.proof
    drifts = [_drift(scorer.part(context)) for context in cycle.contexts]
    summary = CycleSummary(
        contexts=results, cycles=len(run.rounds), searcher=task.search.searcher, differing=_differing(task, results)
    )
    verdict = replace(
        verdict,
        cycle=summary,
        search_gain=None,
        noise_floor=scorer.noise_sd or None,
        drift=DriftSummary(
            points=(),
            range=max((range_ for range_, _ in drifts if range_ is not None), default=None),
            is_beyond_noise=any(is_beyond for _, is_beyond in drifts),
        ),
    )
    if proof is None:
        return verdict
    return replace(
        verdict,
        gain=GainInterval.of(proof.gain),
        delta=task.proof.min_gain,
        failure=proof.failure,
        conditions=proof.conditions,
        refused_by=tuple(dict.fromkeys(row.name for row in proof.conditions if not row.is_met)),
    )


def _drift(part: Scorer) -> tuple[float | None, bool]:
    if not len(part.track):
        return None, False
    found = part.track.summary()
    return (found.relative_range if math.isfinite(found.relative_range) else None), bool(found.is_beyond_noise)


def _context(task: Task, cycle: Cycle, scorer: ContextScorer, run: CycleRun, place: int) -> ContextResult:
    context, proof = cycle.contexts[place], run.proof
    part = scorer.part(context)
    best = run.best[place] if place < len(run.best) else _looked_best(task, part)
    own = proof.of_own[place] if proof is not None else None
    search = [trial for trial in part.trials if trial.role is Role.SEARCH]
    values = [part.value_of(t) for t in part.trials if t.role is Role.BASELINE and t.measurement is not None]
    loss = mean_loss(part.trials, best) if best is not None else 0.0
    by_round = [[t for t in search if t.number in set(numbers)] for numbers in run.rounds]
    return ContextResult(
        name=cycle.names[place],
        context=context,
        trials=len(search),
        failed=sum(not trial.status.is_measured for trial in search),
        cost_s=sum(sum(trial.cost_s.values()) for trial in part.trials),
        apply_s=sum(seconds_of(trial.cost_s, "apply") for trial in part.trials),
        baseline=sum(values) / len(values) if values else None,
        config=_changes(task, best),
        gain=_gain(own),
        is_proven=own is not None and own.is_better,
        reason=_why_not(own, best, run.is_interrupted),
        search_gain=math.exp(-loss) if best is not None else None,
        shared=_gain(proof.of_shared[place]) if proof is not None else None,
        best=_best_so_far(by_round),
        mean=tuple(math.exp(-mean) if (mean := _mean(trials)) is not None else None for trials in by_round),
        regret=tuple(_regret(trials, min(loss, 0.0)) for trials in by_round),
    )


def _looked_best(task: Task, part: Scorer) -> Config | None:
    """The best by its mean, while nothing was measured again; None when nothing beats the baseline."""
    failed = {t.config for t in part.trials if t.status.is_config_fault}
    tried = {t.config for t in part.trials if t.is_feasible and t.status.is_measured} - failed - {task.baseline}
    found = min(tried, key=lambda config: (mean_loss(part.trials, config), repr(config)), default=None)
    return found if found is not None and mean_loss(part.trials, found) < 0 else None


def _changes(task: Task, config: Config | None) -> Config:
    return Config({}) if config is None else Config({name: config[name] for name in config.difference(task.baseline)})


def _gain(proof: Proof | None) -> GainInterval | None:
    return GainInterval.of(proof.gain.ratio) if proof is not None and proof.gain is not None else None


def _why_not(own: Proof | None, best: Config | None, is_interrupted: bool) -> str:
    """Why the context's best is not proven; "" when it is."""
    if best is None:
        return "nothing beat the baseline"
    if own is None:
        return "it did not come to a proof" if is_interrupted else "the budget left no room for its proof"
    if own.is_better:
        return ""
    return own.failure or "; ".join(row.text for row in own.conditions if not row.is_met) or "too few pairs"


def _losses(trials: Sequence[Trial]) -> list[float]:
    return [t.loss for t in trials if t.is_feasible and t.loss is not None]


def _mean(trials: Sequence[Trial]) -> float | None:
    losses = _losses(trials)
    return sum(losses) / len(losses) if losses else None


def _best_so_far(by_round: Sequence[Sequence[Trial]]) -> tuple[float | None, ...]:
    least, found = math.inf, list[float | None]()
    for trials in by_round:
        least = min([least, *_losses(trials)])
        found.append(math.exp(-least) if math.isfinite(least) else None)
    return tuple(found)


def _regret(trials: Sequence[Trial], best: float) -> float | None:
    """How much slower than the context's best the trials were on average; failures are counted apart."""
    mean = _mean(trials)
    return None if mean is None else math.expm1(mean - best)


def _differing(task: Task, results: Sequence[ContextResult]) -> tuple[str, ...]:
    """Knobs whose value is not the same in the best configs of all contexts."""
    values = {name: {result.config.get(name, task.baseline[name]) for result in results} for name in task.space.knobs}
    return tuple(name for name, found in values.items() if len(found) > 1)
