"""What counts as progress of a search, so that patience does not end it: less loss, or less missed of a constraint."""

from __future__ import annotations

import pytest

from trimtab.flow.explore import _Progress
from trimtab.records import Context, Role, Status, Trial
from trimtab.space import Config


def trial(loss: float | None, excess: float = 0.0) -> Trial:
    status = Status.CRASHED if loss is None else Status.OK
    return Trial(
        number=0, role=Role.SEARCH, config=Config({}), context=Context("w", 1), status=status, loss=loss, excess=excess
    )


def waited(trials: list[Trial], *, nears: bool) -> list[int]:
    progress, found = _Progress(), list[int]()
    for each in trials:
        progress.take(each, nears=nears)
        found.append(progress.since)
    return found


NEARER = [
    trial(0.1, 0.5),
    trial(0.1, 0.3),
    trial(None),
    trial(0.1, 0.4),
    trial(0.5),
    trial(-0.9, 0.2),
    trial(0.2),
    trial(0.3),
]


@pytest.mark.parametrize(
    ("nears", "since"),
    [
        (True, [0, 0, 1, 2, 0, 1, 0, 1]),  # one that meets it is progress at any loss, and then only such ones are
        (False, [1, 2, 3, 4, 0, 1, 0, 1]),
    ],
)
def test_what_is_nearer_to_a_constraint_that_the_baseline_misses_is_progress(nears: bool, since: list[int]) -> None:
    assert waited(NEARER, nears=nears) == since
