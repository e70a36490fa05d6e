"""The end of the search: its leaders are measured again, and the leader is thinned.

The best of many noisy values flatters itself (winner's curse, safety.md B5), so the few that may be the best are measured once
more. Then knobs of the leader go back to their found values, in groups, the weakest evidence first, each tried by one run: what
was no worse without is left out. That claims nothing: what remains is proven in pairs afterwards. It is done where the budget
has no room for an ablation in pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from trimtab.records import Role, Status
from trimtab.space import Config
from trimtab.study.ablate import ablation_allowance, evidence, from_the_weakest, without_lines
from trimtab.study.evaluate import Evaluator
from trimtab.study.explore import REFINE_RUNS, early_stop, finish_reserve_s, mean_loss
from trimtab.study.stage import Stage

__all__ = ["refine"]

_N_FINALISTS = 3

_SURE = 2.0
"""Standard errors by which a config must be worse than the leader not to be measured again beside it."""

_TIED = 1.5
"""Standard errors of a difference within which the config of fewer settings is taken; more than one, since the best of many has
been lucky."""

_RUNS_PER_LINE = 4
"""Runs that the ablation needs for a line, about."""


@dataclass(slots=True)
class _Runs:
    """How many runs may still be made."""

    stage: Stage
    evaluator: Evaluator
    left: int

    @property
    def is_empty(self) -> bool:
        """None is left, or the proof's time begins."""
        budget_s, cost = self.stage.file.budget.seconds, self.evaluator.mean_cost_s
        if budget_s is not None and self.evaluator.spent_s + cost > budget_s - finish_reserve_s(
            self.stage, budget_s, cost
        ):
            return True
        return self.left <= 0

    def measure(self, config: Config, role: Role) -> float:
        """The mean loss of `config` with one more run; infinite when it failed or was stopped."""
        self.left -= 1
        stop = early_stop(self.stage, self.evaluator) if role is Role.SEARCH else None
        trial = self.evaluator.measure(config, role, early_stop=stop)
        return mean_loss(self.evaluator.trials, config) if trial.status is Status.OK else float("inf")


def refine(stage: Stage, evaluator: Evaluator, *, say: Callable[[str], None]) -> Config | None:
    """The config to prove; None when nothing beats the baseline."""
    runs = _Runs(stage, evaluator, REFINE_RUNS)
    say("measuring the best again")
    leader = _leader(stage, evaluator, runs)
    if leader is None or not stage.file.proof.ablate or _has_room_for_pairs(stage, evaluator, leader):
        return leader
    return _thinned(stage, evaluator, leader, runs)


def _leader(stage: Stage, evaluator: Evaluator, runs: _Runs) -> Config | None:
    """The best by its mean after those that may be the best were measured again; of those not told from it the one
    with the fewest settings (after the one-standard-error rule of Breiman et al., Classification and Regression Trees, 1984)."""
    means = _means(evaluator, stage.baseline)
    chosen = _contenders(stage, evaluator, means)
    for config in chosen:
        if not runs.is_empty:
            runs.measure(config, Role.REPEAT)
    means = {config: _fresh_mean(evaluator, config) for config in chosen}
    best = min(chosen, key=lambda config: means[config], default=None)
    if best is None or means[best] >= 0:
        return None
    tied = [c for c in chosen if means[c] < 0 and means[c] - means[best] <= _TIED * _se(evaluator, c, best)]
    return min(tied, key=lambda config: (_n_lines(stage, config), means[config]))


def _fresh(evaluator: Evaluator, config: Config) -> list[float]:
    """Losses of the runs of `config` that did not choose it; of its only run when it was not measured again."""
    runs = [t for t in evaluator.trials if t.config == config and t.status is Status.OK and t.is_feasible]
    losses = [t.loss for t in runs if t.loss is not None]
    return losses[1:] or losses


def _fresh_mean(evaluator: Evaluator, config: Config) -> float:
    losses = _fresh(evaluator, config)
    return sum(losses) / len(losses)


def _means(evaluator: Evaluator, baseline: Config) -> dict[Config, float]:
    """Mean loss of every config that was measured in full, best first."""
    tried = {t.config for t in evaluator.trials if t.status is Status.OK and t.is_feasible} - {baseline}
    means = {config: mean_loss(evaluator.trials, config) for config in tried}
    return dict(sorted(means.items(), key=lambda item: (item[1], repr(item[0]))))


def _contenders(stage: Stage, evaluator: Evaluator, means: dict[Config, float]) -> list[Config]:
    """The few that may be the best, best first, and among them the one of the fewest settings.

    No repeat for what cannot win: its lucky value is already worse than the baseline, or surely than the leader.
    """
    best = next(iter(means.values()), 0.0)
    reach = _SURE * 2**0.5 * evaluator.noise_sd
    close = [config for config, mean in means.items() if mean < 0 and mean <= best + reach]
    simplest = min(close, key=lambda config: (_n_lines(stage, config), means[config]), default=None)
    chosen = close[:_N_FINALISTS]
    if simplest is not None and simplest not in chosen:
        chosen[-1] = simplest
    return chosen


def _se(evaluator: Evaluator, one: Config, other: Config) -> float:
    """Standard error of the difference of two means; 0 for a config and itself."""
    if one == other:
        return 0.0
    n = [len(_fresh(evaluator, config)) for config in (one, other)]
    return evaluator.noise_sd * math.sqrt(1 / n[0] + 1 / n[1])


def _n_lines(stage: Stage, config: Config) -> int:
    return len(config.difference(stage.baseline))


def _has_room_for_pairs(stage: Stage, evaluator: Evaluator, leader: Config) -> bool:
    """Whether the ablation can try every line of `leader` in pairs."""
    n_lines = _n_lines(stage, leader)
    seconds, runs = ablation_allowance(stage)
    if stage.file.budget.seconds is not None:
        runs = int(seconds / max(evaluator.mean_cost_s, 1e-9))
    return n_lines <= 1 or runs >= _RUNS_PER_LINE * n_lines


def _thinned(stage: Stage, evaluator: Evaluator, leader: Config, runs: _Runs) -> Config:
    """`leader` without the knobs that were no better than their found values in single runs."""
    scores = evidence(stage, evaluator.trials, leader)
    groups = from_the_weakest(sorted(scores, key=lambda name: (scores[name], name)))
    current, slack = leader, max(stage.file.proof.min_gain, evaluator.noise_sd)
    best = mean_loss(evaluator.trials, current)
    while groups and not runs.is_empty:
        group = [name for name in groups.pop(0) if current[name] != stage.baseline[name]]
        without = without_lines(stage, current, group)[0] if group else None
        if without is None:
            continue
        loss = mean_loss(evaluator.trials, without)
        loss = loss if loss < float("inf") else runs.measure(without, Role.SEARCH)
        if loss <= best + slack:
            current = without
        elif len(group) > 1:
            groups = [group[: len(group) // 2], group[len(group) // 2 :], *groups]
    return current
