"""Layer `machines`: clients on unequal machines are made comparable by runs of the baseline that all of them make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.session.conftest import Clock, seconds, spec
from trimtab.errors import UsageError
from trimtab.records import Role
from trimtab.session import Report, Session, Sessions
from trimtab.session.point import Failure
from trimtab.session.refusal import ConflictError, UnknownError

Opened = Callable[[], Sessions]
MACHINES = [{"kind": "machines"}]


def turns(session: Session, slowness: Mapping[str, float], n: int = 1000) -> dict[str, list[Any]]:
    """Every client fetches and reports in turn; the points of each. A client of slowness 2 takes twice the time."""
    seen: dict[str, list[Any]] = {client: [] for client in slowness}
    for _ in range(n):
        for client, factor in slowness.items():
            found = session.fetch(client)
            if found.point is not None:
                seen[client].append(found.point)
                session.report(client, found.ticket, Report(value=factor * seconds(found.point.config)))
    return seen


def test_a_slow_machine_changes_nothing(opened: Opened) -> None:
    session, _ = opened().begin(spec(clients=3, searcher="", budget="30 trials", layers=MACHINES))
    ids = [session.join(name).id for name in "abc"]
    seen = turns(session, dict(zip(ids, (1.0, 1.5, 4.0), strict=True)))
    assert session.is_proven
    for trial in session.trials:
        assert trial.measurement is not None
        assert trial.measurement.figure is not None
        assert trial.measurement.figure.estimate == pytest.approx(seconds(trial.config))
    base = session.task.baseline
    assert all([point.config for point in points[:2]] == [base, base] for points in seen.values())
    assert session.speeds() == pytest.approx(dict(zip(ids, (1, 1 / 1.5, 1 / 4), strict=True)))
    provers = [client for client, points in seen.items() if any(point.role == "proof_candidate" for point in points)]
    assert len(provers) == 1, "one machine makes the whole proof"


def test_a_machine_that_becomes_slower_is_followed(opened: Opened) -> None:
    layer = [{"kind": "machines", "options": {"times": 1, "every": 3}}]
    session, _ = opened().begin(spec(budget="60 trials", layers=layer, patience=100))
    client = session.join("a").id
    turns(session, {client: 1.0}, 5)
    n = len(session.trials)
    turns(session, {client: 2.0}, 30)
    last = session.trials[-1]
    assert last.measurement is not None
    assert last.measurement.figure is not None
    assert last.measurement.figure.estimate == pytest.approx(seconds(last.config))
    assert session.speeds() == {client: pytest.approx(0.5)}
    assert len(session.trials) - n < 30, "the runs of the baseline in between are no trials"


def test_they_are_known_after_a_restart(opened: Opened) -> None:
    wanted = spec(clients=2, searcher="", layers=[{"kind": "repeat", "options": {"times": 2}}, *MACHINES], proof=False)
    session, _ = opened().begin(wanted)
    slow = session.join("slow").id
    turns(session, {slow: 2.0}, 3)  # two of its own, and the first run of the first trial
    session._journal._keeper.wait()
    again, _ = opened().begin(wanted)
    fast = again.join("fast").id
    turns(again, {fast: 1.0})
    assert again.state == "ended"
    for trial in again.trials:
        assert trial.measurement is not None
        assert trial.measurement.figure is not None
        assert trial.measurement.figure.estimate == pytest.approx(2 * seconds(trial.config)), (
            "the first client is the measure"
        )


def test_who_makes_the_proof_may_vanish(opened: Opened, clock: Clock) -> None:
    session, _ = opened().begin(spec(clients=2, searcher="random", budget="5 trials", layers=MACHINES, lease="5m"))
    one, two = session.join("one").id, session.join("two").id
    turns(session, {two: 2.0}, 2)
    while (found := session.fetch(one)).point is not None:
        session.report(one, found.ticket, Report(value=seconds(found.point.config)))
        if found.point.role == Role.PROOF_BASELINE:
            break
    assert found.point is not None
    assert session.fetch(two).state == "wait"
    clock.now += 301
    assert session.fetch(two).state == "point"


def test_who_has_vanished_is_not_shown_for_ever(opened: Opened, clock: Clock) -> None:
    """Programs that are started again and again join as others each time."""
    session, _ = opened().begin(spec(layers=MACHINES, lease="5m"))
    gone = session.join("gone").id
    held = session.fetch(gone)
    assert [(each["client"], each["number"]) for each in session.running()] == [("gone", None)]
    clock.now += 301
    assert session.running() == []
    session.report(gone, held.ticket, Report(value=1.0))
    assert session.speeds() == {}, "a late run counts, and one is no level yet"


def test_a_client_whose_baseline_fails_is_told(opened: Opened) -> None:
    session, _ = opened().begin(spec(layers=MACHINES))
    client = session.join("a").id
    for _ in range(3):
        found = session.fetch(client)
        assert session.fetch(client).ticket == found.ticket
        assert session.running()[0]["number"] is None
        session.report(client, found.ticket, Report(failed=Failure(reason="no such file")))
    said = (
        "this client has failed 3 times to measure the baseline: crashed: no such file\nhint: fix its machine, and join"
    )
    with pytest.raises(ConflictError, match=said):
        session.fetch(client)
    other = session.join("b").id
    found = session.fetch(other)
    with pytest.raises(UnknownError, match="was never handed out"):
        session.report(client, found.ticket, Report(value=1.0))
    assert session.report(other, found.ticket, Report(value=1.0)) == "told"
    assert session.report(other, found.ticket, Report(value=1.0)) == "known"
    session.leave(other)
    assert session.trials == []


@pytest.mark.parametrize(("name", "value"), [("times", 0), ("every", -1)])
def test_options_that_are_none(opened: Opened, name: str, value: int) -> None:
    with pytest.raises(UsageError, match=f"{name}={value} of layer 'machines'\nhint: {name} must be"):
        opened().begin(spec(layers=[{"kind": "machines", "options": {name: value}}]))
