"""The end of the search: its leaders are measured again, and the leader is thinned.

The best of many noisy values flatters itself (winner's curse, safety.md B5), so the few that may be the best are measured once
more; where none of them stands up to that, the next best are. Then knobs of the leader go back to their found values, in groups,
the weakest first, each tried by one run: what was no worse without is left out. That claims nothing: what remains is proven in
pairs afterwards. It is done where the budget has no room for an ablation in pairs. What a smaller config that was measured has of
the gain is not taken away to see, and the settings of a play go back together: one of two planner costs may be worse than both
and than none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.flow.ablate import most_given_up, without_lines
from trimtab.flow.ask import Ask, Effort, Steps
from trimtab.flow.explore import early_stop
from trimtab.flow.harm import is_harmful
from trimtab.flow.losses import (
    acceptable_means,
    failed_run,
    fresh_losses,
    fresh_mean,
    full_runs,
    is_met_on_average,
    mean_loss,
)
from trimtab.flow.pairs import believable
from trimtab.flow.reserve import (
    finish_reserve_s,
    has_room_for_ablation,
    is_as_sure,
    is_clear,
    proof_reserve_s,
    refine_runs,
)
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.flow.weakest import behind_larger, halves, together, weak_and_sure
from trimtab.records import BASELINE_ROLES, Play, Role, Status
from trimtab.space import Config

__all__ = ["Refined", "refine"]

_N_FINALISTS = 3

_SURE = 2.0
"""Standard errors by which a config must be worse than the leader not to be measured again beside it."""

_TIED = 1.5
"""Standard errors of a difference within which the config of fewer settings is taken; more than one, since the best of many has
been lucky."""

_TELLING = 1 / 3
"""Of a gain, the standard error of a difference that tells enough of who is the best."""

_MOST = 0.5
"""Of the leader's gain (log-ratio), that its core has at least."""

_THIN_RUNS = 8
"""Runs that thinning may take; a wall-clock budget keeps what the proof needs."""

_BASELINE_EVERY = 4
"""Runs after which the baseline is measured again."""

_SIMPLER_TRIED = 2
"""Configs of fewer settings that are measured again beside the leader, at most."""


@dataclass(frozen=True, slots=True)
class Refined:
    """What is to be proven.

    Attributes:
        config: the leader of the search, or what is left of it.
        lost: what that seems to have given up of the leader's gain for fewer settings (log-ratio, 0 or more).
    """

    config: Config
    lost: float = 0.0


@dataclass(slots=True)
class _Runs:
    """How many runs may still be made.

    Attributes:
        left: at most.
        reserve_s: seconds of a wall-clock budget that they must leave.
    """

    task: Task
    scorer: Scorer
    left: int
    reserve_s: float

    @property
    def is_empty(self) -> bool:
        """None is left, or the time begins that must stay."""
        return not self._has_room(1)

    def _has_room(self, n_runs: int) -> bool:
        budget_s, cost = self.task.budget.seconds, self.scorer.mean_cost_s
        is_in_time = budget_s is None or self.scorer.spent_s + n_runs * cost <= budget_s - self.reserve_s
        return is_in_time and self.left >= n_runs

    def small(self, n_lines: int) -> None:
        """Leaves a config of now `n_lines` the runs for its lines, where it is a small one."""
        self.reserve_s = max(self.reserve_s, proof_reserve_s(self.task, self.scorer, n_lines))

    def repeat(self, config: Config) -> Steps[float]:
        """The mean loss of `config` over the runs that did not choose it, with one more; infinite when that one failed, or when
        all runs of the config miss a constraint on average. One that could not be measured through no fault of the config says
        nothing against it."""
        yield from self._baseline()
        self.left -= 1
        trial = yield from believable(config, Role.REPEAT, Effort.QUICK)
        if trial.status is Status.INFRASTRUCTURE:
            return fresh_mean(self.scorer.trials, config)
        is_met = is_met_on_average(self.task.objective, self.scorer.trials, config)
        is_good = trial.status is Status.OK and is_met
        return fresh_mean(self.scorer.trials, config) if is_good else math.inf

    def attempt(self, config: Config, best_loss: float) -> Steps[float]:
        """The loss of `config`, which is new; infinite when it failed or was stopped as clearly worse than `best_loss`."""
        yield from self._baseline()
        self.left -= 1
        stop = early_stop(self.task, self.scorer, best_loss)
        trial = yield from believable(config, Role.SEARCH, Effort.QUICK, stop)
        return mean_loss(self.scorer.trials, config) if trial.status is Status.OK else math.inf

    def _baseline(self) -> Steps[None]:
        """Once more, when it is due and leaves room for the run that is to come."""
        if _n_since_baseline(self.scorer) >= _BASELINE_EVERY and self._has_room(2):
            self.left -= 1
            yield Ask(config=self.task.baseline, role=Role.BASELINE)


def refine(task: Task, scorer: Scorer, plays: Sequence[Play] = ()) -> Steps[Refined | None]:
    """The config to prove; None when nothing beats the baseline. Settings of one of `plays` go back together."""
    scorer.say("measuring the best again")
    runs = _Runs(task, scorer, refine_runs(task, scorer), finish_reserve_s(task, scorer))
    leader = yield from _leader(task, scorer, runs)
    if leader is None:
        return None
    config = leader
    if task.proof.ablate:
        config = yield from _smaller(task, scorer, leader, runs, plays)
    lost = fresh_mean(scorer.trials, config) - fresh_mean(scorer.trials, leader)
    return Refined(config, max(lost, 0.0))


def _smaller(task: Task, scorer: Scorer, leader: Config, runs: _Runs, plays: Sequence[Play]) -> Steps[Config]:
    """`leader` or one of fewer settings; thinned by single runs where the budget has no room for pairs."""
    has_room = has_room_for_ablation(task, scorer, leader)
    if task.budget.seconds is not None and not has_room:
        # A line that thinning takes away needs no pairs: it may use the ablation's time.
        runs = _Runs(task, scorer, _THIN_RUNS, proof_reserve_s(task, scorer, _n_lines(task, leader)))
    simpler = yield from _simpler(task, scorer, leader, runs)
    if has_room or has_room_for_ablation(task, scorer, simpler) or not is_clear(task, scorer, simpler):
        return simpler
    return (yield from _thinned(task, scorer, simpler, leader, runs, plays))


def _leader(task: Task, scorer: Scorer, runs: _Runs) -> Steps[Config | None]:
    """The best by its mean after those that may be the best were measured again; where none of these is better than the baseline
    then, of the next best, while runs are left."""
    given_up: set[Config] = set()
    harmful: Config | None = None
    while True:
        means = {config: mean for config, mean in _means(task, scorer).items() if config not in given_up}
        contenders = _contenders(task, scorer, means)
        # Where some were given up, those that there is no run for are believed no more.
        leader = yield from _best_of(task, scorer, runs, contenders, must_repeat=bool(given_up))
        if leader is not None and is_harmful(task, scorer, leader):
            # Its proof would say so, too; where nothing else is left, it is made for that.
            harmful = harmful or leader
            given_up.add(leader)
            continue
        if leader is not None or not contenders or runs.is_empty:
            return leader or harmful
        given_up.update(contenders)


def _best_of(
    task: Task, scorer: Scorer, runs: _Runs, contenders: Sequence[Config], *, must_repeat: bool
) -> Steps[Config | None]:
    """The best of `contenders` after they were measured again; of those not told from it the one with the fewest settings
    (after the one-standard-error rule of Breiman et al., Classification and Regression Trees, 1984)."""
    chosen = list(contenders)
    for config in contenders:
        if runs.is_empty and must_repeat and len(full_runs(scorer.trials, config)) == 1:
            chosen.remove(config)
        if not runs.is_empty and (yield from runs.repeat(config)) == math.inf:
            chosen.remove(config)  # it failed: its lucky first run is no longer believed
    while (pair := _best_and_simplest(task, scorer, chosen)) is not None and not runs.is_empty:
        open_ones = pair if _is_in_doubt(task, scorer, *pair) else _hidden(scorer, pair[0], chosen)
        if not open_ones:
            break
        config = min(open_ones, key=lambda config: len(fresh_losses(scorer.trials, config)))
        if (yield from runs.repeat(config)) == math.inf:
            chosen.remove(config)
    return _simplest_as_sure(task, scorer, chosen)


def _hidden(scorer: Scorer, best: Config, chosen: Sequence[Config]) -> list[Config]:
    """`best` and those that may be better, while the noise between them is large beside the gain of `best`; else none."""
    means = {config: fresh_mean(scorer.trials, config) for config in chosen}
    errors = {config: _se(scorer, config, best) for config in chosen if config != best and means[config] < scorer.par}
    rivals = [config for config, se in errors.items() if means[config] - means[best] <= _TIED * se]
    is_hidden = any(errors[config] > _TELLING * abs(means[best]) for config in rivals)
    return [best, *rivals] if is_hidden else []


def _best_and_simplest(task: Task, scorer: Scorer, chosen: Sequence[Config]) -> tuple[Config, Config] | None:
    """The best of `chosen` by the runs that did not choose it, and that of the fewest settings which noise does not tell from it;
    None when none is better than the baseline."""
    means = {config: fresh_mean(scorer.trials, config) for config in chosen}
    best = min(chosen, key=lambda config: means[config], default=None)
    if best is None or means[best] >= scorer.par:
        return None
    tied = [c for c in chosen if means[c] < scorer.par and means[c] - means[best] <= _TIED * _se(scorer, c, best)]
    return best, min(tied, key=lambda config: (_n_lines(task, config), means[config]))


def _simplest_as_sure(task: Task, scorer: Scorer, chosen: Sequence[Config]) -> Config | None:
    """Of those that noise does not tell from the best of `chosen`, the one of the fewest settings whose gain is as sure: what
    noise hides would be given up with its proof."""
    left = list(chosen)
    while (pair := _best_and_simplest(task, scorer, left)) is not None:
        if is_as_sure(task, scorer, pair[1], pair[0]):
            return pair[1]
        left.remove(pair[1])
    return None


def _is_in_doubt(task: Task, scorer: Scorer, best: Config, simplest: Config) -> bool:
    """Whether the simplest one would give up a gain that is worth its lines, if the difference were none of noise."""
    lost = fresh_mean(scorer.trials, simplest) - fresh_mean(scorer.trials, best)
    n_fewer = _n_lines(task, best) - _n_lines(task, simplest)
    return lost > _allowed(task, task.proof.min_gain, n_fewer)


def _means(task: Task, scorer: Scorer) -> dict[Config, float]:
    """Mean loss of every config in question that was measured in full and may be proven, best first; without those that harm
    another metric, as long as others are better than the baseline."""
    tried = {t.config for t in scorer.in_question if t.status is Status.OK and t.is_feasible} - {task.baseline}
    means = acceptable_means(task.objective, scorer.trials)
    ranked = sorted(((c, mean) for c, mean in means.items() if c in tried), key=lambda item: (item[1], repr(item[0])))
    better = [config for config, mean in ranked if mean < scorer.par]
    harmful = {config for config in better if is_harmful(task, scorer, config)}
    return {config: mean for config, mean in ranked if config not in harmful or len(harmful) == len(better)}


def _contenders(task: Task, scorer: Scorer, means: dict[Config, float]) -> list[Config]:
    """The few that may be the best, best first, and among them the one of the fewest settings.

    No repeat for what cannot win: its lucky value is already worse than the baseline, or surely than the leader; or those that
    did not choose it are.
    """
    reach = _SURE * 2**0.5 * scorer.noise_sd
    close: list[Config] = []
    for config, mean in means.items():
        if mean >= scorer.par or (close and mean > means[close[0]] + reach):
            break
        close += [config] if fresh_mean(scorer.trials, config) < scorer.par else []
    simplest = min(close, key=lambda config: (_n_lines(task, config), means[config]), default=None)
    chosen = close[:_N_FINALISTS]
    if simplest is not None and simplest not in chosen:
        chosen[-1] = simplest
    return chosen


def _se(scorer: Scorer, one: Config, other: Config) -> float:
    """Standard error of the difference of two means; 0 for a config and itself."""
    if one == other:
        return 0.0
    n = [len(fresh_losses(scorer.trials, config)) for config in (one, other)]
    return scorer.noise_sd * math.sqrt(1 / n[0] + 1 / n[1])


def _n_since_baseline(scorer: Scorer) -> int:
    """Runs since the baseline was measured last."""
    numbers = [i for i, trial in enumerate(scorer.trials) if trial.role in BASELINE_ROLES]
    return len(scorer.trials) - 1 - max(numbers, default=-1)


def _n_lines(task: Task, config: Config) -> int:
    return len(config.difference(task.baseline))


def _simpler(task: Task, scorer: Scorer, leader: Config, runs: _Runs) -> Steps[Config]:
    """A config of fewer settings that was measured in full, and seems to do as much but for what they may cost; else `leader`."""
    slack, best = max(task.proof.min_gain, scorer.noise_sd), fresh_mean(scorer.trials, leader)
    fewer = [c for c in _means(task, scorer) if _n_lines(task, c) < _n_lines(task, leader)]
    limits = {c: _limit(task, scorer, slack, best, _n_lines(task, leader) - _n_lines(task, c)) for c in fewer}
    for _ in range(_SIMPLER_TRIED):
        losses = {config: fresh_mean(scorer.trials, config) for config in limits}
        close = [config for config, loss in losses.items() if loss <= limits[config]]
        # A setting is worth half the least gain that is claimed.
        config = min(close, key=lambda c: losses[c] + 0.5 * task.proof.min_gain * _n_lines(task, c), default=None)
        if config is None or runs.is_empty:
            break
        loss = yield from runs.repeat(config)
        if loss <= limits.pop(config) and is_as_sure(task, scorer, config, leader):
            return config
    return leader


def _thinned(
    task: Task, scorer: Scorer, start: Config, leader: Config, runs: _Runs, plays: Sequence[Play]
) -> Steps[Config]:
    """`start` without the knobs that were no better than their found values in single runs. What it has lost already of the
    gain of `leader`, the best of the search, counts."""
    current, slack = start, max(task.proof.min_gain, scorer.noise_sd)
    runs.small(_n_lines(task, start))
    core = _core(task, scorer, start, slack)
    weak, sure = weak_and_sure(task, scorer.trials, start, slack, core)
    lines = set(start.difference(task.baseline))
    bundles = [play.settings.keys() - {*core, *sure} for play in plays if play.settings.keys() <= lines]
    groups = [together(group, bundles) for group in weak]
    best = min(fresh_mean(scorer.trials, config) for config in (start, leader))
    while groups and not runs.is_empty and scorer.may_try_new:
        group = [name for name in groups.pop(0) if current[name] != task.baseline[name]]
        without = without_lines(task, current, group)[0] if group else None
        if without is None:
            continue
        has_failed = failed_run(scorer.trials, without) is not None
        loss = math.inf if has_failed else mean_loss(scorer.trials, without)
        if loss == math.inf and not has_failed:
            loss = yield from runs.attempt(without, best)
        if loss <= _limit(task, scorer, slack, best, _n_lines(task, leader) - _n_lines(task, without)):
            current = without
            runs.small(_n_lines(task, current))
        elif len(group) > 1:
            groups = behind_larger(groups, halves(group, bundles))
    return current


def _core(task: Task, scorer: Scorer, leader: Config, slack: float) -> set[str]:
    """What brings at least half of the leader's gain without its other lines: all lines of a config that was measured."""
    lines, means = set(leader.difference(task.baseline)), _means(task, scorer)
    most = _MOST * mean_loss(scorer.trials, leader)  # which is not among them where it harms and is proven all the same
    inner = [config for config, mean in means.items() if mean <= most and set(config.difference(task.baseline)) < lines]
    best = min(inner, key=lambda config: means[config] + slack * _n_lines(task, config), default=None)
    return set() if best is None else set(best.difference(task.baseline))


def _limit(task: Task, scorer: Scorer, slack: float, best: float, n_removed: int) -> float:
    """The loss that a config may seem to have beside `best`, the leader's, for its `n_removed` settings fewer; never that of one
    worse than the baseline, unless that misses a constraint."""
    return min(best + min(most_given_up(task, slack, best), _allowed(task, slack, n_removed)), scorer.par)


def _allowed(task: Task, slack: float, n_removed: int) -> float:
    """By how much the loss may seem to rise without `n_removed` lines: as for one line, or more where many go; as in the ablation
    at most twice that."""
    return min(2.0 * slack, max(slack, 0.5 * n_removed * task.proof.min_gain))
