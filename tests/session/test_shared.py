"""What the dashboard reads of a session while others use it, and what of sessions stays in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.session.conftest import Clock, measured, spec
from trimtab.records import Trial
from trimtab.session import Point, Report, Session, Sessions
from trimtab.session.open import Means, Open
from trimtab.session.refusal import UnknownError

Opened = Callable[[], Sessions]


def test_running_is_read_while_points_go_out_and_come_back(opened: Opened) -> None:
    session, _ = opened().begin(spec())
    session.fetch(session.join("a").id)

    class Moving(Open):
        def point(self, **more: Any) -> Point:
            session._opens[99] = self  # as another thread does
            return super().point(**more)

    session._opens[0] = Moving(session._opens[0].ask)
    assert [row["number"] for row in session.running()] == [0]


def test_running_is_read_while_repeats_go_out(opened: Opened) -> None:
    session, _ = opened().begin(spec(layers=[{"kind": "machines"}]))
    session.fetch(session.join("a").id)
    held: dict[str, Any] = session._repeats._held  # type: ignore[assignment]
    ((client, repeat),) = held.items()

    class Moving:
        since = repeat.since

        @property
        def point(self) -> Point:
            held["other"] = self
            return repeat.point  # type: ignore[no-any-return]

    held[client] = Moving()
    assert [row["number"] for row in session.running()] == [None]


def test_two_threads_ask_for_the_best(opened: Opened) -> None:
    session, _ = opened().begin(spec())
    measured(session, session.join("a").id, 6)
    means, others = Means(), []

    class Slow(list[Trial]):
        """While its first trial is looked at, another thread asks as well."""

        def __getitem__(self, index: Any) -> Any:
            if not others:
                others.append(threading.Thread(target=means.best, args=(self,)))
                others[0].start()
                others[0].join(0.05)
            return super().__getitem__(index)

    trials = Slow(session.trials)
    alone = Means().best(session.trials)
    assert means.best(trials) == alone
    others[0].join()
    assert sum(n for _, n in means._losses.values()) == len(trials)


def test_the_best_is_another_one_where_trials_that_were_told_say_something_else(opened: Opened) -> None:
    """The machine had drifted, and they were compared again."""
    session, _ = opened().begin(spec())
    measured(session, session.join("a").id, 6)
    means, trials = Means(), session.trials
    best, _ = means.best(trials)
    assert best is not None
    again = [replace(trial, loss=9.0) if trial.config == best else trial for trial in trials]
    assert means.best(again, 0)[0] == best
    assert means.best(again, 1) == Means().best(again)
    assert means.best(again, 1)[0] != best


def ended(sessions: Sessions, name: str) -> tuple[Session, str]:
    """One that has ended, and its client, who has not left."""
    session, _ = sessions.begin(spec(name=name))
    client = session.join("a").id
    measured(session, client)
    assert session.state == "ended"
    return session, client


def test_what_has_ended_is_let_go_of(opened: Opened, clock: Clock) -> None:
    sessions = opened()
    left, client = ended(sessions, "left")
    left.leave(client)
    _, silent = ended(sessions, "silent")
    sessions.begin(spec(name="new"))
    assert [session.spec.name for session in sessions.live()] == ["silent", "new"]
    clock.now += 601
    sessions.begin(spec(name="newer"))
    assert [session.spec.name for session in sessions.live()] == ["new", "newer"]
    assert sessions.past[left.study_id]["best"]["gain"] == left.best()[1]
    with sessions.use("left") as again:
        assert again is not left
        assert (again.state, again.status, again.best()) == ("ended", left.status, left.best())
        assert len(again.trials) == len(left.trials)
    with sessions.use("silent") as session:
        with pytest.raises(UnknownError, match="join again"):
            session.fetch(silent)
        assert session.fetch(session.join("a").id).state == "ended"


def test_who_waits_for_a_session_gets_the_one_that_has_come_instead(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = opened()
    sessions.begin(spec())
    old, get, waits, seen = sessions._held["s"], sessions._get, threading.Event(), []

    def got(name: str) -> Any:
        found = get(name)
        waits.set()
        return found

    monkeypatch.setattr(sessions, "_get", got)
    thread = threading.Thread(target=lambda: seen.append(sessions.call("s", lambda session: session)))
    with old.lock:
        thread.start()
        waits.wait()
        del sessions._held["s"]
        new = get("s")
    thread.join()
    assert seen == [new.session]
    assert new is not old


def test_reports_are_remembered_by_a_digest(opened: Opened) -> None:
    session, _ = opened().begin(spec(objective="p95"))
    client = session.join("a").id
    report = Report(latencies_ms=[1.5] * 10_000)
    found = session.fetch(client)
    assert session.report(client, found.ticket, report) == "told"
    assert session.report(client, found.ticket, report) == "known"
    ((_, digest),) = session._accepted._by_ticket.values()
    assert len(digest) == 32


def test_a_client_that_asks_while_the_session_is_restarted_is_known(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would join again, be forgotten, and fail at its second try."""
    sessions = opened()
    client = sessions.begin(spec())[0].join("a").id
    let_go, states = sessions.history.let_go, []

    def asked(study_id: int) -> None:
        states.append(sessions.call_now("s", lambda session: session.fetch(client).state))
        let_go(study_id)

    with monkeypatch.context() as patched:
        patched.setattr(sessions.history, "let_go", asked)
        sessions.restart("s")
    assert states == ["point"]
