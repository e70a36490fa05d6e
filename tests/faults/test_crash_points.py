"""C3 and the sweep: wherever `apply` or `rollback` is killed, the server ends in baseline or last-good, whole.

`make test` tries a sample within its time, `make test-faults` every system call.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.faults.conftest import IS_FULL, MakePlace
from tests.faults.crash_points import Zygote, can_trace, chosen, sweep
from tests.faults.invariants import check_invariants, take_picture
from tests.faults.place import Place

pytestmark = [pytest.mark.service, pytest.mark.slow]

IS_EVERY = os.environ.get("TRIMTAB_CRASH_POINTS") == "all"
"""Every system call, reads and waits too: hours."""


def run_sweep(place: Place, n_changing: int | None, n_others: int | None, seconds: float) -> None:
    """Per verb: so many points of each kind, as far as they go in `seconds`."""
    before = take_picture(place.server)
    zygote = Zygote(place)
    zygote.place.server.control("start")
    try:
        zygote.points("apply")
        zygote.good = place.server.auto_conf.read_bytes()
        assert zygote.state() == "last-good"
        for verb in ("rollback", "apply"):
            points = zygote.points(verb)
            zygote.reset(verb)
            some = chosen(points, n_changing=n_changing, n_others=n_others)
            done = sweep(zygote, some, deadman_every=6, until=time.monotonic() + seconds)
            n_done = sum(done.ended.values()) + len(done.failures)
            kind = "system calls" if can_trace() else "calls of C functions"
            print(
                f"\nC3 crash points, PostgreSQL {place.server.version}, {verb}: {n_done} of {len(points)} {kind},"
                f" {len(done.failures)} failures; ended in {dict(done.ended)}, {done.n_not_reached} not reached;"
                f" slowest recovery {done.slowest_s:.1f} s"
            )
            assert done.failures == [], "\n".join(done.failures)
            assert n_done >= min(4, len(some))
        zygote.reset("apply")
    finally:
        zygote.close()
        place.server.control("stop", check=False)
    check_invariants(place, before)


def test_C3_crash_points_sampled(place_18: Place) -> None:
    if IS_EVERY:
        run_sweep(place_18, None, None, 36_000.0)
    elif IS_FULL:
        run_sweep(place_18, None, 60, 1800.0)
    else:
        run_sweep(place_18, 10, 4, 15.0)


@pytest.mark.skipif(not IS_FULL, reason="make test-faults sweeps PostgreSQL 16 too, thinner")
def test_C3_crash_points_on_16(make_place: MakePlace) -> None:
    run_sweep(make_place("16", True), 80, 20, 600.0)
