"""The framework itself: a whole study passes all invariants, and each invariant can fail."""

from __future__ import annotations

import dataclasses
import signal

import pytest

from tests.faults.invariants import check_exit, check_invariants, check_no_secret, check_unmixed, take_picture
from tests.faults.place import CANARY, Place, Ran

pytestmark = pytest.mark.service


def test_study_on_an_embedded_server_holds_all_invariants(place: Place) -> None:
    before = take_picture(place.server)
    ran = place.run("tune", "study.toml")
    assert len(place.trials()) >= 5  # three of the baseline, two of the search, and what a proof adds
    check_invariants(place, before, ran=ran, code=(0, 1))


def test_killed_tuner_holds_them_after_recover(own_place_18: Place) -> None:
    before = take_picture(own_place_18.server)
    child = own_place_18.start("tune", "study.toml")
    own_place_18.wait_step(child, "apply", trial=3)
    ran = own_place_18.kill(child)
    assert ran.code == -signal.SIGKILL
    check_invariants(own_place_18, before)


def test_invariants_can_fail(own_place_18: Place) -> None:
    before = take_picture(own_place_18.server)
    with own_place_18.server.admin() as connection:
        connection.execute("ALTER SYSTEM SET work_mem = '5MB'")
        connection.execute("SELECT pg_reload_conf()")
    with pytest.raises(AssertionError, match=r"\(i\) neither baseline nor last-good: files \['postgresql.auto.conf'\]"):
        check_invariants(own_place_18, before)
    check_unmixed(before, before)
    lost = dataclasses.replace(before, witness={**before.witness, 10_000: "never committed"})
    with own_place_18.server.admin() as connection:
        connection.execute("ALTER SYSTEM RESET ALL")
        connection.execute("SELECT pg_reload_conf()")
    with pytest.raises(AssertionError, match=r"\(iii\) committed rows lost"):
        check_invariants(own_place_18, lost)
    with pytest.raises(AssertionError, match=r"\(v\) exit code 70"):
        check_exit(Ran(70, "", "error: a bug"))
    with pytest.raises(AssertionError, match=r"\(v\) 2 lines of cause"):
        check_exit(Ran(3, "", "error: one\nerror: two"))
    (own_place_18.state / "leak.log").write_text(f"password={CANARY}1")
    with pytest.raises(AssertionError, match=r"\(vii\) in .*leak.log"):
        check_no_secret(own_place_18)
