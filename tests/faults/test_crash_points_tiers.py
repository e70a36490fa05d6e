"""The crash sweep on httpd, on Tomcat and Cassandra in their Java machines, and on a stack of the first two with a database; see
test_crash_points.py.

The quick form kills at a handful of points of httpd. Tomcat and Cassandra, which take seconds of CPU at each start, and the stack
of three are in the long form. Of a stack of two the quick form kills `apply` in tests/service/test_stack.py; that Tomcat is
changed, put back and brought up again is in tests/systems/test_tomcat.py and tests/apps/test_stack.py, and that Cassandra is in
tests/systems/test_cassandra.py.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.needs import IS_FULL, require
from tests.wayback.actor import Actor, Zygote
from tests.wayback.crash import Point, Sweep, Sweeper, can_trace, changing, sample
from tests.wayback.programs import CassandraWay, HttpdWay, ProgramWay, StackWay, TomcatWay, write_program_study
from tests.wayback.ways import Templates

pytestmark = [pytest.mark.service, pytest.mark.slow]

LONG_S = float(os.environ.get("TRIMTAB_SWEEP_S", "120"))
"""For one verb of one way, at most."""
VERBS = ("trial", "apply", "rollback")
PRODUCTS: dict[str, type[ProgramWay | StackWay]] = {
    "httpd": HttpdWay, "tomcat": TomcatWay, "cassandra": CassandraWay, "stack": StackWay,
}  # fmt: skip
WAYS = [
    (product, reach)
    for product in PRODUCTS
    for reach in ("embedded", "files")
    if (product, reach) != ("cassandra", "files")
]
"""Debian has no package of Cassandra."""
NEEDS: dict[str, dict[str, tuple[str, ...]]] = {
    "httpd": {"embedded": ("httpd",), "files": ("apache2-debian",)},
    "tomcat": {"embedded": ("tomcat", "java"), "files": ("tomcat-debian", "java")},
    "cassandra": {"embedded": ("cassandra", "java")},
}


@contextmanager
def made(product: str, reach: str, templates: Templates) -> Iterator[ProgramWay | StackWay]:
    """One, found as an administrator left it: running unless it is private."""
    for tier in ("httpd", "tomcat") if product == "stack" else (product,):
        require(*NEEDS[tier][reach])
    way = PRODUCTS[product](templates.root / secrets.token_hex(3), reach, templates)
    try:
        yield way
    finally:
        way.destroy()


def sweeper_of(way: ProgramWay | StackWay, zygote: Zygote, verbs: Sequence[str]) -> Sweeper:
    return Sweeper(Actor(way, zygote, study=write_program_study(way)), verbs)


def told(title: str, done: Sweep, n_points: int | str) -> None:
    print(
        f"\nC3 crash points, {title}: {done.n_done} of {n_points}, {done.n_killed} killed, {len(done.failures)} failures;"
        f" {dict(done.ended)}; slowest {done.slowest_s:.1f} s"
    )


# In the quick form test_program_killed.py kills trials of a program, and test_crash_points.py those of databases.
@pytest.mark.parametrize(
    ("reach", "verb"), [pytest.param("embedded", "trial", marks=pytest.mark.full), ("files", "apply")]
)
def test_C3_httpd(reach: str, verb: str, templates: Templates, zygote: Zygote) -> None:
    with made("httpd", reach, templates) as way:
        sweeper = sweeper_of(way, zygote, (verb,))
        points = sweeper.points(verb)
        done = sweeper.sweep(sample(points, 1, shift=0), with_deadman=reach == "files")
        told(f"httpd {reach}, {verb}", done, len(points))
        done.check()


DB_AND_APP_ARE_CHANGED = Point("trial", "notes", 4)
"""Each tier has a note before its change and one after it."""


@pytest.mark.full
def test_C3_stack(templates: Templates, zygote: Zygote) -> None:
    with made("stack", "files", templates) as way:
        sweeper = sweeper_of(way, zygote, ("trial",))
        done = sweeper.sweep([DB_AND_APP_ARE_CHANGED])
        told("stack files, trial", done, "many")
        done.check()


@pytest.mark.full
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("product", "reach"), WAYS)
def test_C3_sweep(product: str, reach: str, verb: str, templates: Templates, zygote: Zygote) -> None:
    with made(product, reach, templates) as way:
        sweeper = sweeper_of(way, zygote, (verb,))
        is_traced = IS_FULL and can_trace()
        points = changing(sweeper.points(verb, traced=is_traced))
        done = sweeper.sweep(_spread(points), until=time.monotonic() + LONG_S)
        told(f"{product} {reach}, {verb}", done, f"{len(points)} {'system calls' if is_traced else 'calls'}")
        done.check()


def _spread(points: list[Point]) -> list[Point]:
    """First every 16th, then those between, and so on; neighbours differ in whether the dead-man lives."""
    return [point for first in (0, 8, 4, 12, 2, 10, 6, 14, *range(1, 16, 2)) for point in points[first::16]]
