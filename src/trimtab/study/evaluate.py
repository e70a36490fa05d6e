"""Evaluator: one trial at a time, scored against the drift-corrected baseline, stored before the next one starts.

Resume needs no code of its own: the flow of a study is a function of its trials. An evaluator that was given recorded
trials answers from them, in order, for as long as the flow asks for the same configs in the same roles.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from trimtab.history import History
from trimtab.measure import BaselineTrack, EarlyStop, Interval, Measurement
from trimtab.records import Role, Status, Trial
from trimtab.space import Config
from trimtab.study.regression import RegressionMeter
from trimtab.study.stage import Stage
from trimtab.trial import MeasurePlan, TrialRoom, Yardstick

__all__ = ["Evaluator", "StudyListener"]

_BASELINE_ROLES = (Role.BASELINE, Role.PROOF_BASELINE)
_YARDSTICK_RUNS = 6
"""Latest runs of the baseline that the guards compare a trial with."""


class StudyListener(Protocol):
    """Who wants to see a study while it runs."""

    def phase(self, text: str) -> None: ...
    def trial_started(self, number: int, role: Role, changed: dict[str, str]) -> None: ...
    def trial_ended(self, trial: Trial, best_gain: float | None, time_left_s: float | None) -> None: ...


class Evaluator:
    """Measures configs for one study.

    Attributes:
        trials: all so far, in order.
        track: baseline over the seconds spent: a step of the machine's clock must not change the order.
        regression: what the trials have cost the users of the target.
    """

    def __init__(
        self,
        stage: Stage,
        room: TrialRoom,
        history: History,
        study_id: int,
        *,
        recorded: Iterable[Trial] = (),
        listener: StudyListener,
    ) -> None:
        self._stage = stage
        self._room = room
        self._history = history
        self._study_id = study_id
        self._recorded = deque(recorded)
        self._next_number = 1 + max((trial.number for trial in self._recorded), default=-1)
        self._listener = listener
        self.trials: list[Trial] = []
        self.track = BaselineTrack()
        self.regression = RegressionMeter()
        self._baselines: deque[Measurement] = deque(maxlen=_YARDSTICK_RUNS)
        self._spent_s = 0.0

    @property
    def spent_s(self) -> float:
        """Seconds that the trials so far have cost, interrupted runs' included."""
        return self._spent_s

    @property
    def mean_cost_s(self) -> float:
        """What a full trial costs, judged by the measured ones; 0 before the first."""
        costs = [sum(t.cost_s.values()) for t in self.trials if t.status is Status.OK]
        return sum(costs) / len(costs) if costs else 0.0

    @property
    def noise_sd(self) -> float:
        """Relative standard deviation of one measurement from run to run, drift taken out; 0 before two baselines."""
        sd = self.track.summary().noise_sd if len(self.track) >= 2 else 0.0
        return sd if math.isfinite(sd) else 0.0

    def value_of(self, trial: Trial) -> float:
        """The objective's metric in `trial`; NaN when it was not measured."""
        return self._stage.objective.value(trial.measurement).estimate if trial.measurement else math.nan

    def measure(
        self,
        config: Config,
        role: Role,
        *,
        plan: MeasurePlan | None = None,
        early_stop: EarlyStop | None = None,
        searcher: str = "",
        ask_s: float = 0.0,
    ) -> Trial:
        """The next trial: from the record when it fits, else measured and stored.

        Raises:
            Interrupted, TargetError, LoadError: see `TrialRoom.run`.
        """
        trial = self._replayed(config, role)
        if trial is None:
            trial = self._measured(config, role, plan, early_stop, searcher, ask_s)
            self._history.add_trial(self._study_id, trial)
        else:
            self._learn_baseline(trial)
        self.trials.append(trial)
        self._spent_s += sum(trial.cost_s.values())
        self.regression.take(trial)
        self._listener.trial_ended(trial, self._best_gain(), self._time_left_s())
        return trial

    def _replayed(self, config: Config, role: Role) -> Trial | None:
        """The next trial of the record that answers; None when none of what is left does, which is not used then.

        Where the flow has changed (another version), the record holds the end of the old way, and the new way after it
        when that was interrupted as well: what lies before the answer is passed over, and the new way is not lost.
        """
        n_before = len(self._recorded)
        found: Trial | None = None
        while self._recorded and found is None:
            recorded = self._recorded.popleft()
            found = recorded if recorded.config == config and recorded.role is role else None
        n_passed = n_before - len(self._recorded) - (found is not None)
        if n_passed:
            self._listener.phase(
                f"{n_passed} trials of the history do not fit the way this study goes now (another version of Trimtab?): "
                "they are kept, and not used"
            )
        return found

    def _measured(
        self,
        config: Config,
        role: Role,
        plan: MeasurePlan | None,
        early_stop: EarlyStop | None,
        searcher: str,
        ask_s: float,
    ) -> Trial:
        number = self._next_number
        self._next_number += 1
        self._listener.trial_started(number, role, self._changed_texts(config))
        self._room.guarding.yardstick = Yardstick.of(tuple(self._baselines))
        trial = self._room.run(
            config,
            number=number,
            role=role,
            plan=plan or self._stage.plan,
            seed=self._stage.file.study.seed,
            early_stop=early_stop,
            hand_over=True,
            searcher=searcher,
        )
        if ask_s:
            trial = replace(trial, cost_s={**trial.cost_s, "ask": ask_s})
        self._learn_baseline(trial)
        self._tell_twin(trial)
        return self._scored(trial)

    def _tell_twin(self, trial: Trial) -> None:
        """Says so when the target rounds or derives values such that another config runs with the very same ones."""
        if not trial.status.is_measured:
            return
        used = {**self._stage.baseline, **trial.effective}
        for earlier in reversed(self.trials):
            is_same = earlier.status.is_measured and used == {**self._stage.baseline, **earlier.effective}
            if is_same and earlier.config != trial.config:
                names = ", ".join(trial.config.difference(earlier.config))
                self._listener.phase(
                    f"trial {trial.number} ran with the same effective values as trial {earlier.number}: the target makes"
                    f" no difference between their {names}"
                )
                return

    def _changed_texts(self, config: Config) -> dict[str, str]:
        knobs = self._stage.space.knobs
        return {name: knobs[name].format(config[name]) for name in config.difference(self._stage.baseline)}

    def _learn_baseline(self, trial: Trial) -> None:
        if trial.role in _BASELINE_ROLES and trial.measurement is not None:
            value = self._stage.objective.value(trial.measurement)
            self._baselines.append(trial.measurement)
            self.track.add(self._spent_s, value.estimate, _se(value))

    def _scored(self, trial: Trial) -> Trial:
        """With its loss against the baseline as it was at that time."""
        if trial.measurement is None or not len(self.track):
            return trial
        objective = self._stage.objective
        value = objective.value(trial.measurement)
        baseline, baseline_se = self.track.at(self._spent_s)
        loss = objective.loss(value.estimate, baseline)
        if not math.isfinite(loss):
            return replace(trial, status=Status.FAILED_LOAD, measurement=None,
                           reason=f"{objective.metric}={value.estimate:g} cannot be compared with the baseline")  # fmt: skip
        own = max(_se(value) / value.estimate, self.noise_sd)
        shared = baseline_se / baseline if math.isfinite(baseline_se) else 0.0
        return replace(trial, loss=loss, loss_se=math.hypot(own, shared))

    def _time_left_s(self) -> float | None:
        """By the budget: seconds not used yet, or trials not made yet at the mean cost."""
        budget = self._stage.file.budget
        if budget.seconds is not None:
            return max(0.0, budget.seconds - self.spent_s)
        n_search = sum(trial.role in (Role.PLAY, Role.SEARCH, Role.ADVICE, Role.DESIGN) for trial in self.trials)
        return max(0, (budget.trials or 0) - n_search) * self.mean_cost_s

    def _best_gain(self) -> float | None:
        losses = [t.loss for t in self.trials if t.is_feasible and t.role not in _BASELINE_ROLES and t.loss is not None]
        return math.exp(-min(losses)) if losses else None


def _se(value: Interval) -> float:
    """Standard error; from the interval's width when it is not stated; 0 when neither is finite."""
    if math.isfinite(value.se):
        return value.se
    width = value.high - value.low
    return width / 3.92 if math.isfinite(width) else 0.0
