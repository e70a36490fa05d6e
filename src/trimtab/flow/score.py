"""Scorer: what the trials of a study say together: each one's loss against the drift-corrected baseline, noise, cost."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from trimtab.errors import UsageError
from trimtab.flow.regression import RegressionMeter
from trimtab.flow.task import Task
from trimtab.measure import BaselineTrack, Measurement
from trimtab.records import (
    BASELINE_ROLES,
    Context,
    Fault,
    Role,
    Status,
    Trial,
    compared,
    judged_again,
    noise_sd_of,
    se_of,
    se_of_run,
)
from trimtab.space import Config
from trimtab.units import format_figure

__all__ = ["Scorer"]

_SEARCH_ROLES = (Role.PLAY, Role.SEARCH, Role.ADVICE, Role.DESIGN)
_PAIR_ROLES = (Role.ABLATION, Role.PROOF_BASELINE, Role.PROOF_CANDIDATE, Role.PROOF_ADVICE)
"""Of runs whose windows are the longest."""

_PUNCTUAL = 0.95
"""Share of the shortest window that a window lasts at least."""

_MANY_BASELINES = 16
"""Runs of the baseline from which on not each of them has all trials judged again."""

_MOST_JUDGED = 1000
"""Trials up to which all are judged again: a searcher that is told thousands once more keeps the clients of a session waiting."""

_YARDSTICK_RUNS = 6
"""Latest runs of the baseline that the guards compare a trial with."""


class _Seen:
    """What full trials cost, and the best of them; each is looked at once, because a study asks after every one of thousands, and
    again only where the config of the best has failed."""

    def __init__(self) -> None:
        self.best: Trial | None = None
        self._failed: set[Config] = set()
        self._n_seen = self._n = self._n_of_pairs = 0
        self._sum_s = self._least = self._windows_s = self._windows_of_pairs_s = 0.0

    def look(self, trials: Sequence[Trial]) -> _Seen:
        """At those that are new; `trials` only ever grows."""
        for index in range(self._n_seen, len(trials)):
            trial = trials[index]
            is_own = trial.status.is_config_fault and trial.role not in BASELINE_ROLES
            if is_own and trial.config not in self._failed:
                self._failed.add(trial.config)
                if self.best is not None and self.best.config == trial.config:
                    self._choose(trials[:index])
            if trial.status is not Status.OK:
                continue
            window_s = _window_s(trial)
            self._n, self._sum_s = self._n + 1, self._sum_s + sum(trial.cost_s.values())
            self._windows_s += window_s
            if trial.role in _PAIR_ROLES:
                self._n_of_pairs, self._windows_of_pairs_s = self._n_of_pairs + 1, self._windows_of_pairs_s + window_s
            self._compare(trial)
        self._n_seen = len(trials)
        return self

    def _compare(self, trial: Trial) -> None:
        """Takes a full run for the best one if it is."""
        if trial.config in self._failed or not trial.is_feasible or trial.loss is None:
            return
        if self.best is None or trial.loss < self._least:
            self.best, self._least = trial, trial.loss

    def _choose(self, trials: Sequence[Trial]) -> None:
        """Looks for the best again, since its config has failed."""
        self.best = None
        for trial in trials:
            if trial.status is Status.OK:
                self._compare(trial)

    @property
    def mean_cost_s(self) -> float:
        """0 before the first."""
        return self._sum_s / self._n if self._n else 0.0

    def longer_s(self, windows_s: tuple[float, float] | None) -> float:
        """By how much the window of a run of a pair is longer than that of the mean run; by the plan while there was none."""
        mean_s = self._windows_s / self._n if self._n else 0.0
        if self._n_of_pairs:
            return max(0.0, self._windows_of_pairs_s / self._n_of_pairs - mean_s)
        if windows_s is None or mean_s < _PUNCTUAL * windows_s[0]:
            return 0.0  # a program that ends by itself keeps to no window
        return max(0.0, windows_s[1] - mean_s)


class Scorer:
    """The trials of one study and what follows from them; a function of the task and of the trials taken.

    Attributes:
        task: of the study.
        say: takes a sentence for people.
        trials: all so far, in order.
        track: baseline over the seconds spent: a step of the machine's clock must not change the order.
        regression: what the trials have cost the users of the target.
        baselines: latest measurements of the baseline.
        n_changed: how often something was changed of what earlier trials have shown: one was taken back, or the machine had
            drifted.
        n_at_once: trials that were under way together with the one that is taken: they share the time.
        refused: configs whose proof has failed, or was given up.
        refused_at, refused_at_s: trials and `spent_s` when the last of them was: nothing that was measured before looked good
            enough for another proof.
        level: confidence of the next proof.
        enough: why the search is to end before its time, the proof still to come; "" while it goes on.
        harms: what the trials so far say of the harm of configs, as far as it was asked for (see `harm`).
        beside: for the same, the metrics beside the objective that all full runs of the baseline have, over their numbers; None:
            of no run yet. `n_beside` of its runs were looked at.
    """

    def __init__(self, task: Task, say: Callable[[str], None] = lambda text: None) -> None:
        self.task = task
        self.say = say
        self.trials: list[Trial] = []
        self.track = BaselineTrack()
        self.regression = RegressionMeter()
        self.baselines: deque[Measurement] = deque(maxlen=_YARDSTICK_RUNS)
        self.n_changed = 0
        self.n_at_once = 1
        self.refused: list[Config] = []
        self.refused_at, self.refused_at_s = 0, 0.0
        self.level = 0.95
        self.enough = ""
        self.harms: dict[Config, float] = {}
        self.beside: dict[str, BaselineTrack] | None = None
        self.n_beside = 0
        self._places, self._n_placed = defaultdict[Config, list[int]](list), 0
        self._judged_s: dict[int, float] = {}
        self._costs_s: list[float] = []
        self._spent_s = self._lost_elsewhere_s = 0.0
        self._seen = _Seen()

    @property
    def spent_s(self) -> float:
        """Seconds that the trials so far have cost, interrupted runs' included; those of trials side by side count once."""
        return self._spent_s

    @property
    def lost_s(self) -> float:
        """What the trials have cost the users of the target, in seconds of their time."""
        return self.regression.lost_s + self._lost_elsewhere_s

    @property
    def may_try_new(self) -> bool:
        """Whether the regression budget allows configs that were never measured."""
        most = self.task.regression_budget_s
        return not most or self.lost_s < most

    def part(self, context: Context | None) -> Scorer:
        """The trials under `context` alone; all of them where a study has one context."""
        return self

    def refuse(self, configs: Sequence[Config], level: float) -> None:
        """Notes that the proofs of `configs` have failed, and that the next one has to be made at `level`."""
        self.refused, self.level = list(configs), level
        self.refused_at, self.refused_at_s = len(self.trials), self.spent_s

    @property
    def in_question(self) -> Sequence[Trial]:
        """The trials whose configs may be proven: those since the last failed proof, but for the refused ones themselves."""
        return [trial for trial in self.trials[self.refused_at :] if trial.config not in self.refused]

    def advance(self, spent_s: float, lost_elsewhere_s: float) -> None:
        """Counts what other trials of the study have cost: `spent_s` of all of them, and what the others' users have lost."""
        self._spent_s, self._lost_elsewhere_s = spent_s, lost_elsewhere_s

    @property
    def mean_cost_s(self) -> float:
        """What a full trial costs, judged by the measured ones; 0 before the first."""
        return self._seen.look(self.trials).mean_cost_s

    @property
    def pair_run_cost_s(self) -> float:
        """What a full trial of a pair costs, whose window is the longest; 0 before the first trial."""
        seen = self._seen.look(self.trials)
        return seen.mean_cost_s + seen.longer_s(self.task.windows_s)

    @property
    def best_run(self) -> Trial | None:
        """The full, acceptable run with the least loss, the first of several, of configs of which no run has failed by its own
        fault; None before there is one."""
        return self._seen.look(self.trials).best

    @property
    def noise_sd(self) -> float:
        """Relative standard deviation of one measurement from run to run, drift taken out; 0 before two baselines."""
        return noise_sd_of(self.track)

    @property
    def par(self) -> float:
        """The loss below which a config is worth a proof: 0, the baseline's; infinite where the baseline misses a constraint of
        the objective, on average over its latest runs, because a config that meets it is then better at any speed."""
        return 0.0 if self.task.objective.is_met_by(self.baselines) else math.inf

    @property
    def may_go_on(self) -> bool:
        """Whether the whole budget has room for one more trial."""
        return self.has_room(1)

    def has_room(self, n_trials: int) -> bool:
        """Whether the whole budget has room for `n_trials` more at the mean cost; one of trials always has."""
        return self._has_room(n_trials * self.mean_cost_s)

    def has_room_for_pairs(self, n_runs: int) -> bool:
        """The same of runs of pairs."""
        return self._has_room(n_runs * self.pair_run_cost_s)

    def _has_room(self, seconds: float) -> bool:
        budget_s = self.task.budget.seconds
        return budget_s is None or self.spent_s + seconds <= budget_s

    @property
    def time_left_s(self) -> float:
        """By the budget: seconds not used yet, or trials not made yet at the mean cost."""
        budget = self.task.budget
        if budget.seconds is not None:
            return max(0.0, budget.seconds - self.spent_s)
        n_search = sum(trial.role in _SEARCH_ROLES for trial in self.trials)
        return max(0, (budget.trials or 0) - n_search) * self.mean_cost_s

    @property
    def best_gain(self) -> float | None:
        """How many times better than the baseline the best full run of another config was, of those of which no run has failed by
        its own fault; None before the first."""
        failed = {t.config for t in self.trials if t.status.is_config_fault}
        full = [t for t in self.trials if t.status is Status.OK and t.is_feasible and t.role not in BASELINE_ROLES]
        losses = [t.loss for t in full if t.loss is not None and t.config not in failed]
        return math.exp(-min(losses)) if losses else None

    def value_of(self, trial: Trial) -> float:
        """The objective's metric in `trial`; NaN when it was not measured."""
        return self.task.objective.value(trial.measurement).estimate if trial.measurement else math.nan

    def run_se(self, trial: Trial) -> float:
        """Relative standard error of one run: the noise from run to run, or the believed part of its own if that is more."""
        return se_of_run(self.task.objective, self.track, trial)

    def take(self, trial: Trial) -> Trial:
        """Takes the next trial and returns it with its loss; one that has its loss already (of a history) keeps it."""
        trial = self._with_value(trial)
        self._learn_baseline(trial, self._spent_s)
        if trial.role in BASELINE_ROLES and trial.measurement is not None:
            self._judge_in_hindsight()
        if trial.loss is None:
            self._tell_twin(trial)
            trial = self._scored(trial)
        self._judged_s[trial.number] = self._spent_s
        self.trials.append(trial)
        self._forget_harm(trial)
        self._costs_s.append(sum(trial.cost_s.values()) / self.n_at_once)
        self._spent_s += self._costs_s[-1]
        self.regression.take(trial)
        return trial

    def runs_of(self, config: Config, first: int = 0) -> list[Trial]:
        """All of `config` from its `first` on, in order; those of others are looked at once."""
        for place in range(self._n_placed, len(self.trials)):
            self._places[self.trials[place].config].append(place)
        self._n_placed = len(self.trials)
        return [self.trials[place] for place in self._places.get(config, [])[first:]]

    def invalidate(self, number: int, reason: str) -> Trial:
        """Takes back what trial `number` has shown: from now on it counts as one that could not be measured; as that it is
        returned. The losses of the others stay as they were given.

        Raises:
            UsageError: there is no such trial, or it was not measured.
        """
        index = next((i for i, trial in enumerate(self.trials) if trial.number == number), None)
        if index is None or self.trials[index].measurement is None:
            raise UsageError(
                f"trial={number} has no measurement that could be invalid",
                hint="name a trial with a measurement",
            )
        trial = self.trials[index] = replace(
            self.trials[index], status=Status.INFRASTRUCTURE, measurement=None, loss=None, loss_se=None, excess=0.0,
            reason=f"its measurement was found to be invalid: {reason}", fault=Fault.ENVIRONMENT,
        )  # fmt: skip
        self.n_changed += 1
        self._seen = _Seen()
        self.harms.clear()
        self.beside, self.n_beside = None, 0
        self.track, spent_s = BaselineTrack(), 0.0
        self.baselines.clear()
        for each, cost_s in zip(self.trials, self._costs_s, strict=True):
            self._learn_baseline(each, spent_s)
            spent_s += cost_s
        return trial

    def _judge_in_hindsight(self) -> None:
        """Losses by the baseline as it is known now to have been: until its next run, all was compared with the last one. Of many
        runs only whole sixteenths ask for it: thousands of trials are judged, and told to a searcher, each time."""
        n = len(self.track)
        if (n >= _MANY_BASELINES and n % (1 << n.bit_length() - 4)) or len(self.trials) > _MOST_JUDGED:
            return
        times = [self._judged_s[trial.number] for trial in self.trials]
        judged = judged_again(self.task.objective, self.track, self.trials, times)
        if judged is not self.trials:
            self.trials[:] = judged
            self.n_changed += 1
            self._seen = _Seen()

    def _forget_harm(self, trial: Trial) -> None:
        """What was said of it before `trial`: of all configs, where that tells more of the baseline."""
        if trial.role in BASELINE_ROLES or trial.config == self.task.baseline:
            self.harms.clear()
        self.harms.pop(trial.config, None)

    def _learn_baseline(self, trial: Trial, spent_s: float) -> None:
        if trial.role in BASELINE_ROLES and trial.measurement is not None:
            value = self.task.objective.value(trial.measurement)
            self.baselines.append(trial.measurement)
            self.track.add(spent_s, value.estimate, se_of(value))

    def _with_value(self, trial: Trial) -> Trial:
        """A run of the baseline whose value cannot be compared with, as no value at all."""
        if trial.role not in BASELINE_ROLES or trial.measurement is None or 0 < self.value_of(trial) < math.inf:
            return trial
        reason = f"the run gives no {self.task.objective.metric} that others could be compared with"
        return replace(trial, status=Status.FAILED_LOAD, measurement=None, reason=reason)

    def _scored(self, trial: Trial) -> Trial:
        """With its loss against the baseline as it was at that time."""
        trial = compared(self.task.objective, self.track, trial, self._spent_s)
        if trial.loss is not None and not math.isfinite(trial.loss):
            metric, value = self.task.objective.metric, self.value_of(trial)
            reason = f"{metric}={format_figure(value)} cannot be compared with the baseline"
            return replace(trial, status=Status.FAILED_LOAD, measurement=None, loss=None, loss_se=None, reason=reason)
        return trial

    def _tell_twin(self, trial: Trial) -> None:
        """Says so when the target rounds or derives values such that another config runs with the very same ones."""
        if not trial.status.is_measured or not trial.effective:
            return
        used = {**self.task.baseline, **trial.effective}
        for earlier in reversed(self.trials):
            is_same = earlier.status.is_measured and used == {**self.task.baseline, **earlier.effective}
            if is_same and earlier.config != trial.config:
                names = ", ".join(trial.config.difference(earlier.config))
                self.say(
                    f"trial {trial.number} ran with the same effective values as trial {earlier.number}: the target makes"
                    f" no difference between their {names}"
                )
                return


def _window_s(trial: Trial) -> float:
    """Length of its measuring window; 0 when it has none."""
    begin, end = (0.0, 0.0) if trial.measurement is None else trial.measurement.window_s
    return end - begin
