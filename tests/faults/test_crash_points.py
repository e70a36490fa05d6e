"""The crash sweep on every way of reaching a server: wherever Trimtab is killed, the server ends as found or as applied.

The quick form kills in those of `QUICK`: apply and rollback, each once for a product. The long form kills them
and trials at every system call that changes something (where strace may trace), and at some of the others.
"""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from tests.needs import IS_FULL, require
from tests.wayback.actor import Actor, Zygote
from tests.wayback.crash import Point, Sweep, Sweeper, can_trace, changing, sample, verbs_of
from tests.wayback.ways import REACHES, Templates, made

pytestmark = [pytest.mark.service, pytest.mark.slow]

LONG_S = float(os.environ.get("TRIMTAB_SWEEP_S", "240"))
"""For one verb of one way, at most; the points come in an even order, so that a sweep cut short is even too."""


NEEDS = {"mariadb": "mariadb", "mysql": "mysql-8.0"}
WAYS = [(product, reach) for product in ("postgresql", "mariadb", "mysql") for reach in REACHES]


ONLY_LONG = [
    ("postgresql", "embedded"), ("mariadb", "embedded"), ("mariadb", "connection"), *(way for way in WAYS if way[0] == "mysql"),
]  # fmt: skip
"""An embedded server is reached by its files, too; PostgreSQL shows one by connection."""


@pytest.mark.parametrize(
    ("product", "reach"), [pytest.param(*way, marks=pytest.mark.full if way in ONLY_LONG else ()) for way in WAYS]
)
def test_C3_crash_points(product: str, reach: str, templates: Templates, zygote: Zygote) -> None:
    if product in NEEDS:
        require(NEEDS[product])
    with made(product, reach, templates) as way:
        verbs = verbs_of(way) if IS_FULL else QUICK[product, reach]
        sweeper = Sweeper(Actor(way, zygote), verbs)
        for number, verb in enumerate(verbs):
            points = sweeper.points(verb, traced=IS_FULL and can_trace())
            shift = 3 * WAYS.index((product, reach)) + number
            some = _spread(changing(points)) if IS_FULL else sample(points, 1, shift=shift)
            done = sweeper.sweep(some, until=time.monotonic() + LONG_S, with_deadman=number % 2 == 0)
            kind = "system calls" if IS_FULL and can_trace() else "calls of C functions"
            print(
                f"\nC3 crash points, {product} {reach}, {verb}: {done.n_done} of {len(points)} {kind}, {done.n_killed} killed,"
                f" {len(done.failures)} failures; {dict(done.ended)}; slowest {done.slowest_s:.1f} s"
            )
            done.check()


QUICK = {
    ("postgresql", "files"): ("apply", "rollback"),
    ("postgresql", "connection"): ("apply",),
    ("mariadb", "files"): ("apply", "rollback"),
}
"""What is swept by each way in the quick form. Trials are killed in test_tuner_killed.py, test_ways_in.py and
test_ways_in_mariadb.py."""


def _spread(points: list[Point]) -> list[Point]:
    """First every 16th, then those between, and so on; neighbours differ in whether the dead-man lives."""
    return [point for first in (0, 8, 4, 12, 2, 10, 6, 14, *range(1, 16, 2)) for point in points[first::16]]


@pytest.mark.parametrize(("n_killed", "n_not_reached"), [(0, 0), (0, 4), (2, 2)])
def test_a_sweep_that_hardly_kills_fails(n_killed: int, n_not_reached: int) -> None:
    with pytest.raises(AssertionError, match="no tuner was killed|points were not reached"):
        Sweep(n_killed, n_not_reached, Counter(), [], 0.0).check()
