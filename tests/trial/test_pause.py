"""A trial in which Trimtab stood still is made again, unless the server itself has kept it waiting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.hand_clock import HandClock
from trimtab.records import Context, Fault, Role, Status, Trial
from trimtab.space import Config
from trimtab.trial.draft import Draft
from trimtab.trial.pause import unless_paused


class Watching:
    """A dead-man that has seen a pause in each run so far, up to a number of them."""

    def __init__(self, n_pauses: int) -> None:
        self.n_pauses = n_pauses
        self.is_asked_before = False

    def paused_s(self) -> float:
        self.is_asked_before = not self.is_asked_before
        if self.is_asked_before or not self.n_pauses:
            return 0.0
        self.n_pauses -= 1
        return 5.0


def ended(status: Status, fault: Fault) -> Trial:
    draft = Draft(number=1, role=Role.SEARCH, config=Config({}), context=Context("w", clients=1), searcher="")
    return draft.ended(status, "why", fault)


@pytest.mark.parametrize(
    ("status", "fault", "n_runs"),
    [
        (Status.OK, Fault.NONE, 3),
        (Status.CRASHED, Fault.CONFIG, 3),
        (Status.INFRASTRUCTURE, Fault.RESOURCE, 3),
        (Status.CRASHED, Fault.RESOURCE, 1),
    ],
)
def test_a_config_that_takes_all_memory_ends_no_study(status: Status, fault: Fault, n_runs: int) -> None:
    """Trimtab waits for memory as everybody does then, in every run, and the same command would meet that config again."""
    runs: list[int] = []

    def once() -> Trial:
        runs.append(1)
        return ended(status, fault)

    deadman = Watching(n_pauses=2)
    trial = unless_paused(deadman, once, resync=lambda: None, say=lambda text: None)  # type: ignore[arg-type]
    assert (trial.status, len(runs)) == (status, n_runs)


def test_what_is_lost_in_a_pause_comes_on_top_of_what_the_trial_has_lost_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as a run that was made again because its generator was short of a core."""
    clock = HandClock()
    monkeypatch.setattr("trimtab.trial.pause._clock_s", clock.monotonic)
    costs = iter([{"failed": 4.0}, {"failed": 30.0, "measure": 10.0}])

    def once() -> Trial:
        clock.sleep(9.0)
        return replace(ended(Status.OK, Fault.NONE), cost_s=next(costs))

    trial = unless_paused(Watching(n_pauses=1), once, resync=lambda: None, say=lambda text: None)  # type: ignore[arg-type]
    assert trial.cost_s == {"failed": 34.0, "measure": 10.0}
