"""A config that no client survives: a segmentation fault ends the program before it can report anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.session.conftest import Clock, spec
from trimtab.records import Role, Status
from trimtab.session import Report, Session, Sessions
from trimtab.session.refusal import ConflictError

Opened = Callable[[], Sessions]


def with_a_baseline(opened: Opened, **more: object) -> Session:
    session, _ = opened().begin(spec(lease="5m", **more))
    steady = session.join("steady").id
    while (found := session.fetch(steady)).point is not None and found.point.role is Role.BASELINE:
        session.report(steady, found.ticket, Report(value=12.0))
    session.leave(steady)
    return session


def die(session: Session, clock: Clock, n: int) -> str:
    """So many clients fetch a point and are not heard of again; the ticket of the last one."""
    ticket = ""
    for number in range(n):
        found = session.fetch(session.join(f"dead {number}").id)
        assert found.point is not None
        ticket = found.ticket
        clock.now += 301
    return ticket


@pytest.mark.parametrize(
    "layers", [[], [{"kind": "repeat", "options": {"times": 2}}], [{"kind": "cache"}]], ids=["none", "repeat", "cache"]
)
def test_a_config_that_three_clients_do_not_survive_counts_as_failed(
    opened: Opened, clock: Clock, layers: list[dict[str, object]]
) -> None:
    session = with_a_baseline(opened, layers=layers)
    n = len(session.trials)
    ticket = die(session, clock, 3)
    heir = session.join("heir").id
    found = session.fetch(heir)
    assert found.point is not None
    assert found.point.number == n + 1
    told = session.trials[n]
    assert (told.status, told.versions) == (Status.TIMED_OUT, {"client": "dead 2"})
    assert told.reason == "no client has reported it within lease=5m, 3 times in a row"
    with pytest.raises(ConflictError, match="has been reported already"):
        session.report(heir, ticket, Report(value=10.0))


def test_two_are_not_enough(opened: Opened, clock: Clock) -> None:
    session = with_a_baseline(opened)
    ticket = die(session, clock, 2)
    assert session.fetch(session.join("heir").id).ticket == ticket


def test_the_baseline_is_handed_out_for_ever(opened: Opened, clock: Clock) -> None:
    session, _ = opened().begin(spec(lease="5m"))
    ticket = die(session, clock, 5)
    assert session.fetch(session.join("heir").id).ticket == ticket
    assert not session.trials


@pytest.mark.parametrize("layers", [[], [{"kind": "repeat", "options": {"times": 2}}]], ids=["none", "repeat"])
def test_it_has_failed_after_a_restart_as_well(opened: Opened, clock: Clock, layers: list[dict[str, object]]) -> None:
    session = with_a_baseline(opened, layers=layers)
    n = len(session.trials)
    die(session, clock, 3)
    expected = session.fetch(session.join("heir").id)
    again, _ = opened().begin(session.spec)
    assert again.trials[n].status is Status.TIMED_OUT
    assert again.fetch(again.join("heir").id).ticket == expected.ticket
