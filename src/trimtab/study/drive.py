"""drive: a study of the flow room, run in a trial room and kept in the history.

    replay what is known → ask → measure → store → tell

Every trial is on disk before the next starts. Resume needs no code of its own: a study is told again what the history holds, in
order, for as long as it asks for the same configs in the same roles.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol, TypeVar

from trimtab.flow import Ask, Effort, Scorer, Stopped, Study
from trimtab.records import Role, Trial, Verdict
from trimtab.study.stage import Stage
from trimtab.study.trouble import require_measurable, without_trouble
from trimtab.trial import Interrupted, MeasurePlan, TrialRoom, Yardstick
from trimtab.units import counted
from trimtab.workload import CycledWorkload, RatedWorkload

__all__ = ["Recorded", "StudyListener", "drive", "long_plan", "room_measure"]

T = TypeVar("T")


class StudyListener(Protocol):
    """Who wants to see a study while it runs."""

    def phase(self, text: str) -> None: ...
    def trial_started(self, number: int, role: Role, changed: dict[str, str]) -> None: ...
    def trial_ended(self, trial: Trial, best_gain: float | None, time_left_s: float | None) -> None: ...


class Recorded:
    """The trials that the history holds of a study, answered with in their order.

    Args:
        trials: all of them, in order.
        say: told what of them is not used.
        cause: why the study may go another way than they did, as a question.
    """

    def __init__(
        self, trials: Iterable[Trial], say: Callable[[str], None], *, cause: str = "another version of Trimtab?"
    ) -> None:
        every = list(trials)
        self._trials = deque(without_trouble(every))
        self._say, self._cause = say, cause
        self.next_number = 1 + max((trial.number for trial in every), default=-1)
        if n := len(every) - len(self._trials):
            say(f"{counted(n, 'trial')} that could not be measured when the study ended last: made again")

    def answer(self, ask: Ask) -> Trial | None:
        """The next trial of the record that answers; None when none of what is left does, which is not used then.

        Where the flow has changed (another version), the record holds the end of the old way, and the new way after it
        when that was interrupted as well: what lies before the answer is passed over, and the new way is not lost.
        """
        n_before = len(self._trials)
        found: Trial | None = None
        while self._trials and found is None:
            recorded = self._trials.popleft()
            is_same = (recorded.config, recorded.role) == (ask.config, ask.role)
            found = recorded if is_same and ask.context in (None, recorded.context) else None
        n_passed = n_before - len(self._trials) - (found is not None)
        if n_passed:
            do, they_are = ("does", "it is") if n_passed == 1 else ("do", "they are")
            self._say(
                f"{counted(n_passed, 'trial')} of the history {do} not fit the way this study goes now ({self._cause}): "
                f"{they_are} kept, and not used"
            )
        return found


def drive(
    study: Study[T],
    measure: Callable[[Ask], Trial],
    *,
    recorded: Recorded,
    keep: Callable[[Trial], None],
    listener: StudyListener,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> T:
    """Runs `study` to its end, one trial at a time: a trial room has one stack, and two trials on it would measure each other.

    A caller that can make several trials at once (sessions of clients, each on a system of its own) drives the same `Study` by
    `Study.next(n)` and `Study.tell`; the trials may be told in any order.

    Args:
        study: not begun; its numbers begin at `recorded.next_number`.
        measure: makes a trial.
        recorded: what is known already.
        keep: stores a trial; called before the next one is asked for.
        listener: told of every trial.
        is_interrupted: asked before every trial.

    Returns:
        What the study's flow returns, to its end or when it is stopped before.

    Raises:
        Interrupted: somebody asked to stop, and the flow has nothing to say then.
        KeyboardInterrupt: somebody asked a second time, before the flow has proven anything.
        LoadError: nothing can be measured any more (`require_measurable`).
        TargetError, LoadError: see `TrialRoom.run`.
    """
    try:
        while True:
            require_measurable(study.scorer.trials)
            started = time.monotonic()
            asks = study.next()
            if study.is_over:
                return study.result
            thought_s = _ask_s(started)
            if is_interrupted():
                raise Interrupted
            for ask in asks:
                known = recorded.answer(ask)
                trial = known or measure(ask)
                if known is None and ask.searcher and thought_s:
                    trial = replace(trial, cost_s={**trial.cost_s, "ask": thought_s})
                trial = study.tell(trial)
                if known is None:
                    keep(trial)
                listener.trial_ended(trial, study.scorer.best_gain, study.scorer.time_left_s)
    except (Interrupted, KeyboardInterrupt) as asked:
        return _stopped(study, asked)


def _stopped(study: Study[T], asked: Interrupted | KeyboardInterrupt) -> T:
    """What the flow makes of what there is; where somebody has asked a second time, only of what it has proven."""
    try:
        found = study.stop(asked.message if isinstance(asked, Interrupted) else Interrupted().message)
    except Stopped:
        raise asked from None
    if isinstance(asked, KeyboardInterrupt) and not (isinstance(found, Verdict) and found.is_better):
        raise asked
    return found


def _ask_s(started: float) -> float:
    """What the study has thought over its ask."""
    return time.monotonic() - started


def room_measure(room: TrialRoom, scorer: Scorer, stage: Stage, listener: StudyListener) -> Callable[[Ask], Trial]:
    """Makes the trials of a study in `room`: by the plan of `stage`, with the latest runs of the baseline for its guards."""
    task = scorer.task
    plans = {Effort.QUICK: stage.plan, Effort.LONG: long_plan(stage.plan)}

    def measure(ask: Ask) -> Trial:
        knobs = task.space.knobs
        changed = {name: knobs[name].format(ask.config[name]) for name in ask.config.difference(task.baseline)}
        listener.trial_started(ask.number, ask.role, changed)
        plan = plans[ask.effort]
        if ask.rate_per_s is not None and isinstance(stage.workload, RatedWorkload):
            load = stage.workload.with_rate(ask.rate_per_s)
            room.use(load)
            plan = stage.plan_at(load)
        if ask.context is not None and isinstance(stage.workload, CycledWorkload):
            room.use(stage.workload.under(ask.context))
        room.guarding.yardstick = Yardstick.of(tuple(scorer.part(ask.context).baselines))
        return room.run(
            ask.config,
            number=ask.number,
            role=ask.role,
            plan=plan,
            seed=task.seed,
            early_stop=ask.early_stop,
            hand_over=True,
            searcher=ask.searcher,
        )

    return measure


def long_plan(plan: MeasurePlan) -> MeasurePlan:
    """The window's longest form: a comparison is not the place to save seconds, nor is a run that has cost a restart."""
    return replace(plan, window_s=max(plan.window_s, plan.window_max_s / 2), precision=0.005)
