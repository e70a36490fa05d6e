"""Duels: a config against a reference in alternating pairs (AB BA AB ...), each with a sequence that may be looked at.

The pairs of one study see the same noise, so a duel borrows what the baseline's repeats and earlier duels showed of its
size (`NoisePool`): one or two pairs then tell a large effect, where a duel on its own needs three or more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from trimtab.flow.ask import Ask, Effort, Steps
from trimtab.flow.losses import failed_run, full_runs, is_met_on_average
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.measure import FIRST_LOOK, LEAST_KNOWN, EarlyStop, Interval, Looks, NoisePool, PairedSequence
from trimtab.records import BASELINE_ROLES, Role, Status, Trial
from trimtab.space import Config

__all__ = [
    "MAX_DUEL_PAIRS",
    "Duel",
    "Purse",
    "believable",
    "fight",
    "fight_block",
    "in_one_go",
    "new_duel",
    "noise_pool",
    "proof_pool",
]

MAX_DUEL_PAIRS = 8
"""Pairs of a duel, at most: what they do not tell is smaller than what is worth so many runs."""

_MAX_INVALID_TRIALS = 2
"""Times that a trial which was nobody's fault (a busy load generator) is made again."""

_MAX_BORROWED = 12.0
"""Degrees of freedom that a duel borrows at most: its own pairs shall still count should its noise be another."""

_MAX_LEANED = 6.0
"""The same of a proof, which is held to more."""

_BREAK_S = 60.0
"""Seconds between two runs from which on the study was stopped in between; or as long as the run itself, if that is more."""

_TELLING_RUNS = 2
"""Runs of a config from which on their mean tells whether it meets the constraints of the objective."""

_CHANCE = 0.25
"""Share of its bound by which a single run may miss a constraint by chance."""

_LEAST_NOISE = 0.001
"""Relative standard deviation of one run; below it a few equal runs are luck and not certainty."""


@dataclass(slots=True, kw_only=True)
class Duel:
    """What pairs showed of two configs.

    Attributes:
        reference, challenger: the two.
        logs: log of how many times better the reference was, per pair.
        sequence: of the same pairs; its `ratio` is how many times better the reference is.
        failure: why the challenger gave no value, or that on average it misses a constraint of the objective; else "".
        is_void: that is so of the reference itself, so nothing is known.
        fault: why a run could not be measured, through no fault of its config; "" while all could.
    """

    reference: Config
    challenger: Config
    sequence: PairedSequence
    logs: list[float] = field(default_factory=list)
    failure: str = ""
    is_void: bool = False
    fault: str = ""

    @property
    def n_pairs(self) -> int:
        """Complete pairs."""
        return len(self.logs)

    @property
    def ratio(self) -> Interval:
        """How many times better the reference is than the challenger."""
        return self.sequence.ratio

    def add(self, reference: float, challenger: float, is_maximised: bool) -> None:
        """Takes one pair of values of the objective; none beyond `MAX_DUEL_PAIRS`, for which its looks are made."""
        if self.n_pairs == MAX_DUEL_PAIRS:
            return
        # The sequence's "candidate" is the reference: its gain is what the challenger lacks.
        self.sequence.add(challenger, reference)
        log = math.log(reference / challenger)
        self.logs.append(log if is_maximised else -log)


class Purse:
    """How many more runs a phase may make: its own allowance, and in seconds what must stay for the later phases."""

    def __init__(
        self, task: Task, scorer: Scorer, *, seconds: float, runs: int, keep_runs: int | Callable[[], int] = 0
    ) -> None:
        """Takes the allowance.

        Args:
            task, scorer: of the study.
            seconds: allowance where the budget is in seconds.
            runs: allowance where the budget is in trials.
            keep_runs: full trials that must stay affordable afterwards (budgets in seconds); a function where they become
                fewer as time goes by.
        """
        self._budget_s = task.budget.seconds
        self._scorer = scorer
        self._end_s = scorer.spent_s + seconds
        self._end_n = len(scorer.trials) + runs
        self._keep = keep_runs

    @property
    def n_runs(self) -> int:
        """Runs that are left; 0 and less: none. None either once the regression budget is spent, for they are of new configs."""
        scorer = self._scorer
        if not scorer.may_try_new:
            return 0
        if self._budget_s is None:
            return self._end_n - len(scorer.trials)
        cost = max(scorer.pair_run_cost_s, 1e-9)
        keep = self._keep() if callable(self._keep) else self._keep
        left_s = min(self._end_s, self._budget_s - keep * cost) - scorer.spent_s
        return math.floor(left_s / cost)


def proof_pool(scorer: Scorer) -> NoisePool:
    """What the baseline's repeats showed of the noise of one pair, as far as a proof leans on it."""
    return noise_pool(scorer, (), _MAX_LEANED)


def noise_pool(scorer: Scorer, duels: Sequence[Duel], most: float = _MAX_BORROWED) -> NoisePool:
    """What the baseline's repeats and earlier duels showed of the noise of one pair, with `most` degrees of freedom at most."""
    df = scorer.track.summary().noise_df if len(scorer.track) else 0.0
    squares = df * 2 * max(scorer.noise_sd, _LEAST_NOISE) ** 2
    for duel in duels:
        if duel.n_pairs > 1:
            mean = sum(duel.logs) / duel.n_pairs
            squares += sum((log - mean) ** 2 for log in duel.logs)
            df += duel.n_pairs - 1
    if df == 0:
        return NoisePool()
    borrowed = min(df, most)
    return NoisePool(borrowed * max(squares / df, 2 * _LEAST_NOISE**2), borrowed)


def new_duel(task: Task, scorer: Scorer, reference: Config, challenger: Config, earlier: Sequence[Duel]) -> Duel:
    """Without a pair; it has failed already where an earlier run of the challenger failed by its own fault. The `earlier` duels
    tell of the noise."""
    pool = noise_pool(scorer, earlier)
    looks = Looks(MAX_DUEL_PAIRS, 1 if pool.df >= LEAST_KNOWN else FIRST_LOOK)
    sequence = PairedSequence(is_maximised=task.objective.is_maximised, pool=pool, looks=looks)
    failed = failed_run(scorer.trials, challenger)
    failure = "" if failed is None or challenger == task.baseline else _failure(failed)
    return Duel(reference=reference, challenger=challenger, sequence=sequence, failure=failure)


def believable(
    config: Config, role: Role, effort: Effort = Effort.LONG, early_stop: EarlyStop | None = None
) -> Steps[Trial]:
    """A trial, made again a few times when a fault that was not the config's made it worthless; the baseline's never is."""
    return (yield from _attempts(Ask(config=config, role=role, effort=effort, early_stop=early_stop)))[-1]


def _attempts(ask: Ask) -> Steps[list[Trial]]:
    """The runs of `believable`; the last one counts."""
    trials = [(yield ask)]
    for _ in range(_MAX_INVALID_TRIALS):
        is_worthless = trials[-1].status is Status.INFRASTRUCTURE or (
            ask.role in BASELINE_ROLES and trials[-1].status is not Status.OK
        )
        if not is_worthless:
            break
        trials.append((yield ask))
    return trials


def in_one_go(task: Task, runs: Sequence[tuple[Config, Role]], ends: Callable[[Trial], bool]) -> Steps[list[Trial]]:
    """The runs of a block, one after the other, up to the first that `ends` it.

    Where the study was stopped in between and went on later, all are made again, once: a block compares what one and the same
    time has shown. A session's client may take its time, so there it is not looked at.
    """
    trials: list[Trial] = []
    for _ in range(1 if task.windows_s is None else 2):
        trials.clear()
        made: list[Trial] = []
        for config, role in runs:
            made += yield from _attempts(Ask(config=config, role=role, effort=Effort.LONG))
            trials.append(made[-1])
            if ends(made[-1]):
                return trials
        if not any(_is_far(before, after) for before, after in pairwise(made)):
            break
    return trials


def _is_far(before: Trial, after: Trial) -> bool:
    """Whether `after` did not follow at once."""
    cost_s = sum(before.cost_s.values())
    return after.started_at - (before.started_at + cost_s) > max(_BREAK_S, cost_s)


def _failure(trial: Trial) -> str:
    """Why `trial` gives no value; "" when it does."""
    if trial.status is Status.OK and trial.measurement is not None:
        return ""
    what = trial.reason.partition("\n")[0]
    return f"trial {trial.number} ended as {trial.status}: {what}" if what else f"trial {trial.number}: {trial.status}"


def _missed(task: Task, scorer: Scorer, config: Config) -> list[Trial]:
    """The full runs of `config` where on average they miss a constraint of the objective; else none. The settings as found owe
    none."""
    if config == task.baseline or is_met_on_average(task.objective, scorer.trials, config):
        return []
    return full_runs(scorer.trials, config)


def _is_sure(missed: Sequence[Trial]) -> bool:
    """Whether what these runs have missed is more than the chance of a single one."""
    return len(missed) >= _TELLING_RUNS or any(trial.excess > _CHANCE for trial in missed)


def _words(missed: Sequence[Trial]) -> str:
    where = f"trial {missed[0].number}:" if len(missed) == 1 else f"on average over {len(missed)} runs"
    return f"{where} a constraint of the objective was missed"


def fight(
    task: Task,
    scorer: Scorer,
    duel: Duel,
    *,
    n_pairs: int,
    is_decided: Callable[[Duel], bool],
    may_go_on: Callable[[], bool],
) -> Steps[None]:
    """Adds pairs to `duel` until it is decided, fails, or has `n_pairs`.

    Every run is made anew: one whose value has decided something already (when an earlier duel ended) may not count again,
    or the intervals were not valid any more. The constraints of the objective count on average over all runs of a config; one
    that the only run of the challenger has missed by little is looked at once more.
    """
    if duel.failure:
        return

    def ends(trial: Trial) -> bool:
        return bool(_failure(trial)) or (
            trial.config == duel.challenger and _is_sure(_missed(task, scorer, duel.challenger))
        )

    while duel.n_pairs < n_pairs and may_go_on():
        missed = _missed(task, scorer, duel.challenger)
        if _is_sure(missed) or (not missed and is_decided(duel)):
            break
        sides = [duel.reference, duel.challenger]
        if duel.n_pairs % 2:
            sides.reverse()
        values: dict[Config, float] = {}
        runs = [(config, Role.ABLATION) for config in sides]
        for trial in (yield from in_one_go(task, runs, ends)):
            if not _take(task, duel, trial, values):
                return
        if len(values) == len(sides):
            duel.add(values[duel.reference], values[duel.challenger], task.objective.is_maximised)
        if missed := _missed(task, scorer, duel.reference):
            duel.failure, duel.is_void = _words(missed), True
            return
    if missed := _missed(task, scorer, duel.challenger):
        duel.failure = _words(missed)


def _take(task: Task, duel: Duel, trial: Trial, values: dict[Config, float]) -> bool:
    """Notes the value of `trial`; False when the duel ends with it."""
    failure = _failure(trial)
    if failure:
        _note(duel, trial, failure)
        return False
    if trial.measurement is not None:
        values[trial.config] = task.objective.value(trial.measurement).estimate
    return True


def _note(duel: Duel, trial: Trial, failure: str) -> None:
    """That `trial` gave no value."""
    if trial.status is Status.INFRASTRUCTURE:
        duel.fault = failure
    else:
        duel.failure, duel.is_void = failure, duel.is_void or trial.config == duel.reference


def fight_block(task: Task, scorer: Scorer, duels: Sequence[Duel], *, is_reversed: bool) -> Steps[None]:
    """One pair for every duel over the same reference, which is measured once: reference, challengers (or backwards). The
    reference was proven before, or is the baseline: only the challengers are asked about the constraints of the objective."""
    reference = duels[0].reference
    role = Role.BASELINE if reference == task.baseline else Role.ABLATION
    values: dict[Config, float] = {}
    runs = [(reference, role), *((duel.challenger, Role.ABLATION) for duel in duels)]
    by_challenger = {duel.challenger: duel for duel in duels}
    runs = runs[::-1] if is_reversed else runs
    trials = yield from in_one_go(task, runs, lambda trial: False)
    for (config, _), trial in zip(runs, trials, strict=True):
        failure = _failure(trial)
        if not failure and trial.measurement is not None:
            values[config] = task.objective.value(trial.measurement).estimate
        for duel in duels if config == reference else [by_challenger[config]]:
            if failure:
                _note(duel, trial, failure)
    for duel in duels:
        if _is_sure(missed := _missed(task, scorer, duel.challenger)):
            duel.failure = duel.failure or _words(missed)
        elif reference in values and duel.challenger in values:
            duel.add(values[reference], values[duel.challenger], task.objective.is_maximised)
