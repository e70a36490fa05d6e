"""Study: one study as a conversation: it says what it wants measured, is told what was seen, and ends with what it found.

    study = Study(task, tuning)
    while not study.is_over:
        for ask in study.next():
            study.tell(measure(ask))
    verdict = study.result

It is a function of the task, of what its flow was given, and of the trials told: no clock, no chance, no file. So a study
resumes by being told again what was measured already.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from trimtab.errors import InternalError, UsageError
from trimtab.flow.ask import Ask, SideBySide, Steps, Stopped, Stream
from trimtab.flow.context_score import ContextScorer
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.records import Trial

__all__ = ["Study"]

T = TypeVar("T")


@dataclass(slots=True)
class _Lane:
    """Steps that are under way.

    Attributes:
        steps: the generator.
        ask: handed out and not told yet; None when there is none.
        n_at_once: trials that were under way together with it, at most; it is one of them.
        trial: told last; None before the first.
        is_over: whether it has returned `result`.
    """

    steps: Generator[Ask | SideBySide | Stream, Trial, Any]
    ask: Ask | None = None
    n_at_once: int = 1
    trial: Trial | None = None
    is_over: bool = False
    result: Any = None

    def go_on(self, trial: Trial | None) -> Ask | SideBySide | Stream | None:
        """What it wants next; None when it is over."""
        try:
            return next(self.steps) if trial is None else self.steps.send(trial)
        except StopIteration as end:
            self.is_over, self.result = True, end.value
            return None


class Study(Generic[T]):
    """A flow under way.

    Args:
        task: what is to be done.
        flow: makes the steps; given the scorer, which holds everything told so far.
        say: takes sentences for people.
        numbers_from: least number of a trial that is asked for; numbers of trials that will be told again are below it.
    """

    def __init__(
        self,
        task: Task,
        flow: Callable[[Scorer], Steps[T]],
        *,
        say: Callable[[str], None] = lambda text: None,
        numbers_from: int = 0,
    ) -> None:
        self.scorer = ContextScorer(task, say) if task.cycle is not None else Scorer(task, say)
        self._top = _Lane(flow(self.scorer))
        self._block: SideBySide | Stream | None = None
        self._lanes: list[_Lane] = []
        self._next_number = numbers_from
        self._last: Trial | None = None

    @property
    def is_over(self) -> bool:
        """Whether the study has ended, so that `result` is there."""
        return self._top.is_over

    @property
    def result(self) -> T:
        """What the flow returned.

        Raises:
            InternalError: it has not ended.
        """
        if not self.is_over:
            raise InternalError("a study was asked for its result before it had ended")
        result: T = self._top.result
        return result

    def next(self, n: int = 1) -> tuple[Ask, ...]:
        """Up to `n` trials that may be made at the same time; each is handed out once, and told when it is done, in any order.
        None, while what was handed out must be told first, and when the study `is_over`.

        A stack takes one trial at a time: `trimtab.study.drive` asks for one; `n` is for clients with systems of their own.

        Raises:
            UsageError: `n` is less than 1.
            Whatever the flow raises: nothing more can be asked then.
        """
        if n < 1:
            raise UsageError(f"cannot ask for n={n} trials", hint="ask for at least 1")
        while not self.is_over:
            if self._block is None:
                if self._top.ask is not None:
                    return ()
                wanted = self._top.go_on(self._last)
                if isinstance(wanted, Ask):
                    return (self._handed_out(self._top, wanted),)
                if wanted is not None:
                    self._block = wanted
                    self._lanes = [] if isinstance(wanted, Stream) else [_Lane(steps) for steps in wanted.lanes]
                continue
            asks = self._side_by_side(n)
            if asks or not all(lane.is_over for lane in self._lanes):
                return asks
            if isinstance(self._block, SideBySide):
                self._block.results = [lane.result for lane in self._lanes]
            self._block, self._lanes = None, []
        return ()

    def _side_by_side(self, n: int) -> tuple[Ask, ...]:
        """Of the lanes in their order: what was begun goes on before another one begins."""
        asks: list[Ask] = []
        for lane in self._waiting():
            wanted = lane.go_on(lane.trial)
            if wanted is not None and not isinstance(wanted, Ask):
                raise InternalError("steps that run side by side hold steps that run side by side")
            if wanted is not None:
                asks.append(self._handed_out(lane, wanted))
            if len(asks) == n:
                break
        return tuple(asks)

    def _waiting(self) -> Iterator[_Lane]:
        """The lanes that were told what they had asked for, and then new ones, as long as there are any."""
        yield from [lane for lane in self._lanes if not lane.is_over and lane.ask is None]
        if isinstance(self._block, Stream):
            for steps in self._block.lanes:
                self._lanes = [lane for lane in self._lanes if not lane.is_over]
                self._lanes.append(_Lane(steps))
                yield self._lanes[-1]

    def _handed_out(self, lane: _Lane, wanted: Ask) -> Ask:
        lane.ask = replace(wanted, number=self._next_number)
        self._next_number += 1
        open_ones = [each for each in (self._top, *self._lanes) if each.ask is not None]
        lane.n_at_once = 0
        for each in open_ones:
            each.n_at_once = max(each.n_at_once, len(open_ones))
        return lane.ask

    def tell(self, trial: Trial) -> Trial:
        """Takes a trial that was asked for, and returns it with its loss; a trial that has its loss keeps it.

        It answers the ask of its number, or else one of its config and role: a trial of a history keeps its number.

        Raises:
            InternalError: nothing of the kind was asked for.
        """
        lane = self._lane_of(trial)
        if lane is None:
            raise InternalError(f"trial {trial.number} ({trial.role}) answers nothing that was asked for")
        asked = lane.ask
        if asked is not None and trial.number != asked.number and asked.number == self._next_number - 1:
            self._next_number -= 1  # the number was not used
        self._next_number = max(self._next_number, trial.number + 1)
        self.scorer.n_at_once = lane.n_at_once
        trial = self.scorer.take(trial)
        lane.ask, lane.trial, self._last = None, trial, trial
        return trial

    def conclude(self, reason: str) -> None:
        """Ends the search as soon as what was handed out is told; what comes after it (the proof) is still asked for."""
        self.scorer.enough = reason

    def invalidate(self, number: int, reason: str) -> Trial:
        """Takes back a trial whose measurement was found to be invalid after it was told; the trial as it counts from now on.

        The best config, noise and baseline are judged without it, and a search under way goes on with a searcher that never saw
        it (but for one in passes or with pruning: that keeps what it has learnt). What was decided before stays: a phase that
        has ended, and a pair of the proof that was compared.

        Raises:
            UsageError: no such trial was told, or it was not measured.
        """
        return self.scorer.invalidate(number, reason)

    def _lane_of(self, trial: Trial) -> _Lane | None:
        open_ones = [(lane, lane.ask) for lane in (self._top, *self._lanes) if lane.ask is not None]
        same = [(lane, ask) for lane, ask in open_ones if (ask.config, ask.role) == (trial.config, trial.role)]
        return next((lane for lane, ask in same if ask.number == trial.number), same[0][0] if same else None)

    def stop(self, reason: str) -> T:
        """Ends the study before its time; what the flow makes of what there is.

        Raises:
            Stopped: the flow makes nothing of it.
        """
        for lane in self._lanes:
            lane.steps.close()
        try:
            self._top.steps.throw(Stopped(reason))
        except StopIteration as end:
            self._top.is_over, self._top.result = True, end.value
            return self.result
        raise InternalError("a study that was asked to stop goes on")
