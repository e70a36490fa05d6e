"""The proof: baseline and candidate in alternating pairs (ABBA), looked at after each pair by tests that allow looking.

Only a candidate that meets every condition of the acceptance rule is called better (DESIGN law 2; see `acceptance`).

Runs are shared: a block of the proof may also hold the candidate without one of its lines, so that one run of the candidate
serves the proof and each of these duels, and one run of the baseline proves such a smaller config as well, should its line turn
out to be needless.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from trimtab.flow.acceptance import Acceptance, AcceptanceRule, Condition, Sample
from trimtab.flow.ask import Steps
from trimtab.flow.losses import failed_run, mean_loss
from trimtab.flow.pairs import MAX_DUEL_PAIRS, Duel, Purse, in_one_go, proof_pool
from trimtab.flow.reserve import pairs_at_most, pairs_needed
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.measure import Looks, PairedComparison, compare_pairs
from trimtab.records import Role, Status, Trial
from trimtab.space import Config

__all__ = ["Proof", "Prover", "acceptance_rule", "prove"]

_NEAR_ADVICE = 0.1
"""The advice is proven beside a winner that looks less than this (a log-ratio) better than it."""

_MIN_DUEL_PAIRS = 2


@dataclass(frozen=True, slots=True)
class Proof:
    """What the pairs showed.

    Attributes:
        is_better: whether the candidate may be called better: no failure, and every condition is met.
        is_by_constraints: whether that is so for a constraint that it meets and the baseline misses, and not for a gain.
        gain: how many times better, with its always-valid interval; None when no pair was complete.
        advice_gain: the same for the rule-based advice, by Student's t over its own pairs; None when not measured.
        beside_advice: how many times better the candidate was than the advice, in the blocks that measured both.
        pairs: (baseline, candidate) values of the objective.
        advice_pairs: (baseline, advice) values.
        delta: what the gain's lower bound had to exceed.
        failure: why the candidate failed in the proof, "" when it did not.
        is_void: it was the baseline that failed: this says nothing against the candidate.
        conditions: of the acceptance rule, each with its figures; empty when no pair was complete.
        may_steady: whether the baseline seems to vary too much, and more pairs may show that one of its runs was odd.
    """

    is_better: bool
    gain: PairedComparison | None
    advice_gain: PairedComparison | None
    beside_advice: PairedComparison | None
    pairs: tuple[tuple[float, float], ...]
    advice_pairs: tuple[tuple[float, float], ...]
    delta: float
    failure: str = ""
    is_void: bool = False
    is_by_constraints: bool = False
    conditions: tuple[Condition, ...] = ()
    may_steady: bool = False


@dataclass(slots=True)
class _Pairs:
    """What was measured so far of one config against the baseline."""

    test: Acceptance
    values: list[tuple[float, float]] = field(default_factory=list)
    advice: list[tuple[float, float]] = field(default_factory=list)
    beside: list[tuple[float, float]] = field(default_factory=list)

    def add(self, baseline: Sample, candidate: Sample, advice: Sample | None = None) -> None:
        self.test.add(baseline, candidate)
        self.values.append((baseline.value, candidate.value))
        if advice is not None:
            self.advice.append((baseline.value, advice.value))
            self.beside.append((advice.value, candidate.value))


class Prover:
    """The proof of one candidate, block by block; it may be taken up again when the budget has something left.

    Args:
        task, scorer: of the study.
        candidate: what is to be proven.
        duels: the candidate (reference) against itself without a line, to be fought in the same blocks while `purse` allows.
        purse: of those duels; None without them.
        free: duels of the baseline that get a pair wherever a block has measured their challenger.
        n_before: other configs whose proofs have failed: each proof has half the error of the one before. The smaller configs
            of its blocks have as much again, together, and so has the larger config that is proven where the smaller one fails.
        needs_gain: whether a config without a gain is refused even when it meets a constraint that the baseline misses.
    """

    def __init__(
        self,
        task: Task,
        scorer: Scorer,
        candidate: Config,
        *,
        duels: Sequence[Duel] = (),
        purse: Purse | None = None,
        free: Sequence[Duel] = (),
        n_before: int = 0,
        needs_gain: bool = False,
    ) -> None:
        self._task, self._scorer, self._candidate = task, scorer, candidate
        self._arms = [(Role.PROOF_BASELINE, task.baseline), (Role.PROOF_CANDIDATE, candidate)]
        if _is_advice_due(task, scorer, candidate):
            self._arms.append((Role.PROOF_ADVICE, task.advice))
        self._most = pairs_at_most(task, scorer, len(self._arms))
        self._rule = replace(self._rule_of_one(candidate, 2**n_before), needs_gain=needs_gain)
        self._pairs = _Pairs(Acceptance(self._rule))
        failed = failed_run(scorer.trials, candidate)
        self._failure = "" if failed is None else _failure(failed)
        self._is_void, self._is_own_fault = False, failed is not None
        self._is_late = False
        self._duels, self._purse, self._free = list(duels), purse, list(free)
        self._smaller = {
            duel.challenger: _Pairs(Acceptance(self._rule_of_one(duel.challenger, len(duels) * 2**n_before)))
            for duel in duels
        }

    def _rule_of_one(self, config: Config, n: int) -> AcceptanceRule:
        """Of one of `n` configs: any of them may be picked, so each is held to an n-th of the error (Bonferroni)."""
        rule = acceptance_rule(self._task, self._scorer, config)
        return replace(rule, level=1 - 0.05 / max(1, n), looks=Looks(self._most))

    @property
    def n_pairs(self) -> int:
        """Pairs that are made."""
        return len(self._pairs.test)

    def has_pairs(self, n_pairs: int) -> bool:
        """Whether so many pairs are made, or a run has failed."""
        return bool(self._failure) or self.n_pairs >= n_pairs

    @property
    def is_decided(self) -> bool:
        """Whether more pairs would not change the answer."""
        return bool(self._failure) or (self._has_least and self._pairs.test.is_decided())

    @property
    def is_settled(self) -> bool:
        """Whether it is decided, and the gain is known well enough to be quoted."""
        return bool(self._failure) or (self._has_least and self._pairs.test.is_settled())

    @property
    def is_accepted(self) -> bool:
        """Whether the pairs so far prove the candidate."""
        return self._has_least and self._pairs.test.is_accepted

    @property
    def _has_least(self) -> bool:
        return self.n_pairs >= self._task.proof.min_pairs

    @property
    def n_runs_wanted(self) -> int:
        """Runs of one more pair, while the gain is not known well enough to be quoted and pairs are left; else 0."""
        return 0 if self.is_settled or self.n_pairs >= self._most else len(self._arms)

    def run(self, is_done: Callable[[], bool], *, is_paid: bool = False) -> Steps[None]:
        """Measures blocks until `is_done`, or pairs or budget are used up; the least number of pairs is always made, and none
        after it for which the budget has no room as a whole, but for one with which the proof is expected to succeed: all that
        was spent so far would be lost without it. `is_paid`: the budget is the caller's affair."""
        while not is_done() and self.n_pairs < self._most:
            has_room = is_paid or not self._has_least or self._scorer.has_room_for_pairs(len(self._arms))
            if not has_room:
                if self._is_late or not self._pairs.test.is_one_pair_short:
                    return
                self._is_late = True
                self._scorer.say("the budget is used up; one more pair follows, which is expected to prove the gain")
            yield from self._block(self._open_duels() if has_room else [])

    def _open_duels(self) -> list[Duel]:
        """Those of the next block: not yet told, and as many as the purse pays for."""
        if self._purse is None:
            return []
        open_ones = [duel for duel in self._duels if not duel.failure and not self._is_told(duel)]
        return open_ones[: max(0, self._purse.n_runs)]

    def _is_told(self, duel: Duel) -> bool:
        """Whether the line of `duel` is known to bring something, or to harm by as many pairs as prove the config without it, or
        has all its pairs."""
        least = _MIN_DUEL_PAIRS if duel.ratio.low > 1 else self._task.proof.min_pairs
        is_clear = duel.n_pairs >= least and (duel.ratio.low > 1 or duel.ratio.high < 1)
        return is_clear or duel.n_pairs == MAX_DUEL_PAIRS

    def _block(self, duels: Sequence[Duel]) -> Steps[None]:
        runs = [*self._arms, *((Role.ABLATION, duel.challenger) for duel in duels)]
        samples: dict[Config, Sample] = {}
        failures: dict[Config, str] = {}
        runs = runs if self.n_pairs % 2 == 0 else runs[::-1]
        trials = yield from in_one_go(self._task, [(config, role) for role, config in runs], _ends_proof)
        for (role, config), trial in zip(runs, trials, strict=False):
            if trial.status is Status.OK and trial.measurement is not None:
                samples[config] = Sample.of(trial, self._task.objective)
                continue
            failures[config] = _failure(trial)
            if _ends_proof(trial):
                self._failure, self._is_void = failures[config], role is Role.PROOF_BASELINE
                self._is_own_fault = not self._is_void and trial.status is not Status.INFRASTRUCTURE
                return
        self._arms = [(role, config) for role, config in self._arms if failed_run(trials, config) is None]
        baseline, candidate = samples[self._task.baseline], samples[self._candidate]
        advice = samples.get(self._task.advice) if len(self._arms) > 2 else None
        self._pairs.add(baseline, candidate, advice)
        for duel in duels:
            duel.failure = failures.get(duel.challenger, "")
            if not duel.failure:
                value = samples[duel.challenger]
                duel.add(candidate.value, value.value, self._task.objective.is_maximised)
                is_other = duel.challenger != self._task.advice
                self._smaller[duel.challenger].add(baseline, value, advice if is_other else None)
        for duel in self._free:
            if duel.challenger in samples:
                duel.add(baseline.value, samples[duel.challenger].value, self._task.objective.is_maximised)

    def conclude(self) -> Proof:
        """What the blocks so far show of the candidate. What the complete pairs have proven stays so when a further one cannot be
        measured, unless that is the candidate's own fault."""
        is_lost = bool(self._failure) and (self._is_own_fault or not self.is_accepted)
        failure = self._failure if is_lost else ""
        proof = _conclude(self._pairs, self._task.objective.is_maximised, self._rule.delta, failure)
        return replace(proof, is_void=is_lost and self._is_void)

    def smaller(self, tolerance: float) -> tuple[Duel, Proof] | None:
        """The candidate without one line that was shown to be worth no more than `tolerance`, or without which it was no worse,
        proven by the same blocks, in no fewer pairs than any other; None: there is none. Of several the one whose line looks
        least worth."""
        found: list[tuple[float, int, Duel, Proof]] = []
        for duel in self._duels:
            pairs = self._smaller[duel.challenger]
            # Two pairs may show a large gain, and never that clients wait longer or that runs vary.
            if len(pairs.test) < self._task.proof.min_pairs or duel.failure or not _earns_nothing(duel, tolerance):
                continue
            proof = _conclude(pairs, self._task.objective.is_maximised, self._rule.delta, "")
            if proof.is_better:
                found.append((duel.ratio.estimate, len(found), duel, proof))
        if not found:
            return None
        _, _, duel, proof = min(found, key=lambda each: each[:2])
        return duel, proof


def _earns_nothing(duel: Duel, tolerance: float) -> bool:
    """Whether the config may go without the line of `duel`: the interval shows it, or the config was no worse without it."""
    return duel.ratio.high < 1 + tolerance or duel.ratio.estimate <= 1


def _is_advice_due(task: Task, scorer: Scorer, candidate: Config) -> bool:
    """Whether the advice is measured beside the two: when asked for, or when the winner may be no better than it and there is
    time. Advice that has failed is not run again."""
    if task.proof.advice is False or task.advice in (task.baseline, candidate):
        return False
    if failed_run(scorer.trials, task.advice) is not None:
        return False
    if task.proof.advice is True:
        return True
    lead = mean_loss(scorer.trials, task.advice) - mean_loss(scorer.trials, candidate)
    # A third run in each block must not take from the proof the pairs that it needs.
    has_time = scorer.has_room_for_pairs(3 * pairs_needed(task, scorer, candidate))
    return has_time and lead < max(_NEAR_ADVICE, 2 * scorer.noise_sd)


def prove(
    task: Task, scorer: Scorer, candidate: Config, *, n_before: int = 0, needs_gain: bool = False
) -> Steps[Proof]:
    """Measures pairs until the rule decides and the gain is known well, or pairs or budget are used up; see `Prover`."""
    prover = Prover(task, scorer, candidate, n_before=n_before, needs_gain=needs_gain)
    yield from prover.run(lambda: prover.is_settled)
    return prover.conclude()


def acceptance_rule(task: Task, scorer: Scorer, candidate: Config) -> AcceptanceRule:
    """What `candidate` must reach in this study."""
    noise_sd = scorer.noise_sd
    changed = [name for name in candidate.difference(task.baseline) if _is_unsafe(task, name)]
    locked = tuple(name for name in changed if task.lock_reasons.get(name))
    return AcceptanceRule(
        metric=task.objective.metric,
        is_maximised=task.objective.is_maximised,
        delta=task.proof.min_gain,
        tolerance=task.proof.tolerance,
        noise_sd=noise_sd,
        pool=proof_pool(scorer),
        earlier=scorer.track.logs,
        max_noise=task.proof.max_noise,
        constraints=task.objective.constraints,
        locked=locked,
        opened=tuple(name for name in changed if name not in locked),
    )


def _is_unsafe(task: Task, name: str) -> bool:
    return str(task.space.knobs[name].safety) != "performance"


def _ends_proof(trial: Trial) -> bool:
    """Whether nothing can be compared any more: the baseline or the candidate gave no value."""
    has_value = trial.status is Status.OK and trial.measurement is not None
    return trial.role in (Role.PROOF_BASELINE, Role.PROOF_CANDIDATE) and not has_value


def _failure(trial: Trial) -> str:
    return f"trial {trial.number} ({trial.role}) ended as {trial.status}: {trial.reason or trial.status}"


def _conclude(pairs: _Pairs, is_maximised: bool, delta: float, failure: str) -> Proof:
    test = pairs.test
    is_better = not failure and len(test) >= 2 and test.is_accepted
    return Proof(
        is_better=is_better,
        is_by_constraints=is_better and test.is_by_constraints,
        gain=test.gain.comparison() if len(test) >= 2 else None,
        advice_gain=_compare(pairs.advice, is_maximised),
        beside_advice=_compare(pairs.beside, is_maximised),
        pairs=tuple(pairs.values),
        advice_pairs=tuple(pairs.advice),
        delta=delta,
        failure=failure,
        conditions=test.conditions() if len(test) else (),
        may_steady=len(test) > 0 and test.may_steady,
    )


def _compare(pairs: list[tuple[float, float]], is_maximised: bool) -> PairedComparison | None:
    """How many times better the second of each pair is; None for fewer than two pairs."""
    if len(pairs) < 2:
        return None
    first, second = zip(*pairs, strict=True)
    return compare_pairs(first, second, is_maximised)
