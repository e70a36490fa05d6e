"""T7: two tuners, one server: the second refuses at once and names the holder; its death frees the lock."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults.conftest import MakePlace
from tests.faults.invariants import check_invariants, take_picture
from tests.faults.place import Place
from tests.faults.rooms import open_bench

pytestmark = pytest.mark.service


def elsewhere(place: Place) -> dict[str, str]:
    """The surroundings of a tuner on another host: a state directory and a cache of its own."""
    other = place.folder / "other"
    return {"TRIMTAB_STATE": str(other / "state"), "TRIMTAB_CACHE": str(other / "cache")}


def by_connection(place: Place) -> None:
    place.write(knobs=("work_mem",), reach=f'url = "{place.server.url()}"')


# The quick form of the same host: on an embedded server, below.
@pytest.mark.parametrize(
    "is_elsewhere", [pytest.param(False, id="same-host", marks=pytest.mark.full), pytest.param(True, id="other-host")]
)
def test_T7_the_second_tuner_refuses_at_once_and_names_the_first(own_place: Place, is_elsewhere: bool) -> None:
    place = own_place
    by_connection(place)
    before = take_picture(place.server)
    with open_bench(place) as bench:
        bench.run(hand_over=True, work_mem=8192)
        ran = place.run("tune", "study.toml", environment=elsewhere(place) if is_elsewhere else None)
        assert bench.target.states()["work_mem"].running == 8192, "the second one has touched something"
        assert bench.run(number=1, work_mem=16384).status.is_measured, "the first one goes on"
    assert ran.code == 3
    assert "another tuner holds this server: " in ran.cause
    assert "host=" in ran.cause
    if not is_elsewhere:
        assert "study=test" in ran.cause
    check_invariants(place, before, recovers=False, study="none")


def test_T7_the_death_of_the_first_frees_the_lock_for_another_host(own_place_18: Place) -> None:
    place = own_place_18
    by_connection(place)
    before = take_picture(place.server)
    child = place.start("tune", "study.toml")
    place.wait_step(child, "apply", trial=1)
    refused = place.run("doctor", "study.toml", environment=elsewhere(place))
    assert refused.code == 0, "looking needs no lock"
    place.kill(child, signal.SIGKILL)
    assert place.run("recover").code == 0
    changing = ("bench", "study.toml", "--runs", "1", "--set", "work_mem=8MB")
    ran = place.run(*changing, environment=elsewhere(place))
    assert ran.code == 0, ran.err
    check_invariants(place, before, recovers=False)


def test_T7_an_embedded_server_has_one_tuner_too(make_place: MakePlace) -> None:
    place = make_place("18", True)
    before = take_picture(place.server)
    with open_bench(place) as bench:
        bench.run(hand_over=True)
        other = {"TRIMTAB_STATE": str(Path(place.folder) / "other")}
        ran = place.run("tune", "study.toml", environment=other)
    assert ran.code == 3
    assert "another tuner holds this server: study=test pid=" in ran.cause
    check_invariants(place, before, recovers=False, study="none")
