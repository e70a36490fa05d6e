"""Ask: what a study wants measured next; and the steps that a phase of a study is made of.

A phase is a generator: it yields what it wants measured, is sent the trial, and returns what it came to.

    def twice(config: Config) -> Steps[float]:
        first = yield Ask(config=config, role=Role.REPEAT)
        second = yield Ask(config=config, role=Role.REPEAT)
        return mean(first, second)

    value = yield from twice(config)            # in another phase

Phases that do not depend on each other may run side by side: `results = yield from side_by_side([twice(a), twice(b)])`; and a
phase whose next trial can be chosen before the last one is told makes up its steps as they are wanted: `yield Stream(lanes)`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from trimtab.errors import TrimtabError
from trimtab.measure import EarlyStop
from trimtab.records import Context, Role, StopKind, Trial
from trimtab.space import Config

__all__ = ["Ask", "Effort", "SideBySide", "Steps", "Stopped", "Stream", "announced", "side_by_side"]

T = TypeVar("T")


class Effort(StrEnum):
    """How long a run is measured."""

    QUICK = "quick"
    """As short as the plan allows; the search has many runs to make."""
    LONG = "long"
    """The longest window: for a comparison, and where a run costs more than its window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One trial that a study wants.

    Attributes:
        config: the values of the study's knobs.
        role: why.
        effort: how long to measure.
        early_stop: ends the run where it is clearly worse; None: never.
        searcher: name of the searcher that wants it; "" for none.
        rate_per_s: of an open loop; None: as the workload itself says.
        context: what the workload is to look like; None: as it is.
        number: of the trial, given by the study when it hands the ask out.
    """

    config: Config
    role: Role
    effort: Effort = Effort.QUICK
    early_stop: EarlyStop | None = None
    searcher: str = ""
    rate_per_s: float | None = None
    context: Context | None = None
    number: int = -1


@dataclass(slots=True)
class SideBySide:
    """Steps that may be made at the same time; `results` are filled in, in the order of `lanes`, when all have ended."""

    lanes: Sequence[Steps[Any]]
    results: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Stream:
    """Steps of which the next ones are made up when another trial is wanted; over when there are no more and all have ended.

    With one trial at a time each of them ends before the next one is asked for.
    """

    lanes: Iterator[Steps[None]]


Steps: TypeAlias = Generator[Ask | SideBySide | Stream, Trial, T]


def side_by_side(lanes: Sequence[Steps[T]]) -> Steps[list[T]]:
    """What each of `lanes` returns, in their order. With one trial at a time they run one after the other."""
    block = SideBySide(lanes)
    if lanes:
        yield block
    return block.results


def announced(steps: Steps[T], say: Callable[[str], None], words: str) -> Steps[T]:
    """`steps`, of which people are told `words` before the first run; where they ask for none, nothing is said of them."""
    return (yield from _Announced(steps, say, words))


class _Announced(Generator[Ask | SideBySide | Stream, Trial, T]):
    def __init__(self, steps: Steps[T], say: Callable[[str], None], words: str) -> None:
        self._steps, self._say, self._words = steps, say, words

    def send(self, value: Any) -> Ask | SideBySide | Stream:
        wanted = self._steps.send(value)
        if self._words:
            self._say(self._words)
            self._words = ""
        return wanted

    def throw(self, *error: Any) -> Ask | SideBySide | Stream:
        return self._steps.throw(*error)


class Stopped(TrimtabError):  # noqa: N818 - no error: somebody asked to stop
    """Thrown into the steps of a study that is asked to stop; a flow that catches it concludes with what there is.

    Attributes:
        kind: whether somebody asked, or the flow itself ends because no proof is to follow its search.
    """

    def __init__(self, message: str, kind: StopKind = StopKind.ASKED) -> None:
        super().__init__(message)
        self.kind = kind
