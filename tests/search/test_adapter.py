"""What a library is told of its proposals; no library is needed."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from trimtab.records import Status
from trimtab.search.adapter import AdapterSearcher
from trimtab.search.parameters import Values
from trimtab.search.searcher import SearchProblem

from .problems import crash, grid, problem, trial


class Counting(AdapterSearcher):
    """Proposes a = 1, 2, 3, ... and keeps what it is told."""

    NAME: ClassVar[str] = "counting"

    def __init__(self, given: SearchProblem) -> None:
        super().__init__(given)
        self.n = 0
        self.heard: list[tuple[Any, float, bool]] = []
        self.dropped: list[Any] = []

    def _peer_ask(self) -> tuple[Any, Values]:
        self.n += 1
        return f"no. {self.n}", {"a": self.n, "b": 0}

    def _peer_tell(self, token: Any, values: Values, loss: float, is_failed: bool) -> None:
        self.heard.append((token, loss, is_failed))

    def _peer_drop(self, token: Any, values: Values) -> None:
        self.dropped.append(token)


def test_a_failure_is_told_as_the_worst_loss_and_not_before_there_is_one() -> None:
    searcher = Counting(problem(grid()))
    searcher.tell(crash(searcher.ask()[0]))
    searcher.tell(trial(searcher.ask()[0], 1, math.inf))
    assert searcher.heard == [], "0 would be as good as the baseline, or better than all there is"
    searcher.tell(trial(searcher.ask()[0], 2, 5.0))
    assert searcher.heard == [("no. 3", 5.0, False), ("no. 1", 5.0, True), ("no. 2", 5.0, True)]
    searcher.tell(trial(searcher.ask()[0], 3, 2.0))
    searcher.tell(crash(searcher.ask()[0], 4))
    assert searcher.heard[3:] == [("no. 4", 2.0, False), ("no. 5", 5.0, True)]


def test_a_failure_is_no_better_than_the_worst_gain() -> None:
    searcher = Counting(problem(grid()))
    searcher.tell(trial(searcher.ask()[0], 0, -0.5))
    searcher.tell(crash(searcher.ask()[0], 1))
    assert searcher.heard[-1] == ("no. 2", -0.5, True)


def test_a_proposal_that_the_machine_lost_is_dropped() -> None:
    searcher = Counting(problem(grid()))
    searcher.tell(trial(searcher.ask()[0], 0, None, status=Status.INFRASTRUCTURE))
    assert (searcher.heard, searcher.dropped) == ([], ["no. 1"])
