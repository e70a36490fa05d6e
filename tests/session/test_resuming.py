"""Sessions after a restart, after a kill, and beside another server of the same history: they go on, and are not mixed."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.session.conftest import Clock, measured, seconds, spec
from trimtab.errors import LockedError
from trimtab.history import Event, History
from trimtab.records import Status, Trial
from trimtab.session import Report, Session, Sessions
from trimtab.session.refusal import ConflictError, GoneError, UnknownError
from trimtab.space import Config

Opened = Callable[[], Sessions]


@pytest.mark.slow
@pytest.mark.parametrize("searcher", ["pro", "nelder-mead", "gp"])
def test_a_session_goes_on_after_a_restart_as_if_nothing_had_happened(opened: Opened, searcher: str) -> None:
    wanted = spec(searcher=searcher, clients=2, budget="14 trials", layers=[{"kind": "cache"}])
    session, _ = opened().begin(wanted)
    ids = [session.join(name).id for name in "ab"]
    measured(session, ids[0], 4)
    out = [session.fetch(client) for client in ids]
    session.report(ids[1], out[1].ticket, Report(value=11.0))  # out of order: the first is still out
    session.report(ids[0], out[0].ticket, Report(value=12.0))
    late = session.fetch(ids[0])
    told = [(trial.number, trial.config) for trial in session.trials]
    again, is_new = opened().begin(wanted)
    assert not is_new
    assert again is not session
    assert [(trial.number, trial.config) for trial in again.trials] == told
    client = again.join("a").id
    # What was handed out before the end may be reported after it.
    assert late.point is not None
    assert again.fetch(client).point == late.point.__class__(
        number=late.point.number,
        run=1,
        config=late.point.config,
        role=late.point.role,
        effort=late.point.effort,
        client=client,
    )
    again.report(client, late.ticket, Report(value=9.0))
    assert measured(again, client) > 5
    assert again.state == "ended"
    ended, _ = opened().begin(wanted)
    assert ended.best() == again.best()
    assert ended.status == again.status


def test_the_best_of_a_session_without_a_verdict_is_the_same_after_a_restart(opened: Opened, clock: Clock) -> None:
    """The machine became slower and slower: its trials say something else at the end than when each was made."""
    wanted = spec(proof=False, budget="14 trials")

    def slower(config: Config) -> float:
        clock.now += 10.0
        return seconds(config) * (1 + (clock.now - 1_000_000.0) / 150)

    session, _ = opened().begin(wanted)
    measured(session, session.join("a").id, f=slower)
    assert session.state == "ended"
    again, _ = opened().begin(wanted)
    assert again.best() == session.best()
    assert seconds(again.best()[0]) == min(seconds(trial.config) for trial in again.trials)


def test_a_point_that_the_journal_has_lost_may_be_reported(opened: Opened) -> None:
    """A crash between a fetch and the next commit."""
    wanted = spec(searcher="nelder-mead")
    sessions = opened()
    session, _ = sessions.begin(wanted)
    client = session.join("a").id
    measured(session, client, 5)
    sessions.keeper.flush().result()
    sessions.keeper.linger_s = 3600.0
    last = session.fetch(client)
    sessions.keeper._rows.clear()  # what a crash does
    again, _ = opened().begin(wanted)
    client = again.join("a").id
    assert len(again.trials) == 5
    assert again.report(client, last.ticket, Report(value=9.0)) == "told"
    assert last.point is not None
    assert again.trials[-1].config == last.point.config
    with pytest.raises(UnknownError, match="was never handed out"):
        again.report(client, f"{again.study_id}.7.1.0123456789", Report(value=9.0))
    with pytest.raises(UnknownError, match="was never handed out"):
        again.report(client, f"{again.study_id}.99999.1.0123456789", Report(value=9.0))


def test_points_that_the_journal_has_lost_may_be_reported_in_any_order(opened: Opened) -> None:
    wanted = spec(searcher="pro", clients=2)
    sessions = opened()
    session, _ = sessions.begin(wanted)
    clients = [session.join(name).id for name in "ab"]
    measured(session, clients[0], 5)
    sessions.keeper.flush().result()
    sessions.keeper.linger_s = 3600.0
    out = [session.fetch(client).ticket for client in clients]
    assert all(out)
    sessions.keeper._rows.clear()  # what a crash does
    again, _ = opened().begin(wanted)
    client = again.join("c").id
    assert [again.report(client, ticket, Report(value=9.0)) for ticket in reversed(out)] == ["told", "told"]


def test_runs_of_a_repeated_point_survive_a_restart(opened: Opened) -> None:
    wanted = spec(layers=[{"kind": "repeat", "options": {"times": 3}}])
    session, _ = opened().begin(wanted)
    client = session.join("a").id
    for value in (10.0, 30.0):
        found = session.fetch(client)
        assert session.report(client, found.ticket, Report(value=value)) == "again"
    session._journal._keeper.wait()
    again, _ = opened().begin(wanted)
    client = again.join("a").id
    found = again.fetch(client)
    assert found.point is not None
    assert found.point.run == 3
    assert again.report(client, found.ticket, Report(value=20.0)) == "told"
    m = again.trials[0].measurement
    assert m is not None
    assert m.figure is not None
    assert m.figure.estimate == 20.0
    assert m.figure.low < 20.0 < m.figure.high


def test_restart_begins_again_and_keeps_the_clients(opened: Opened) -> None:
    sessions = opened()
    session, _ = sessions.begin(spec())
    client = session.join("a").id
    first = session.fetch(client)
    new = sessions.restart("s")
    assert new.study_id != session.study_id
    assert new.fetch(client).state == "point"
    with pytest.raises(GoneError, match="it was restarted"):
        new.report(client, first.ticket, Report(value=1.0))
    assert sessions.history.study(session.study_id).status == "stopped"


def test_a_restart_that_is_asked_for_again_is_done_once(opened: Opened) -> None:
    sessions = opened()
    session, _ = sessions.begin(spec())
    client = session.join("a").id
    first = sessions.restart("s", request="1")
    given = first.fetch(client)
    assert sessions.restart("s", request="1") is first, "its answer was lost: the client has sent it again"
    assert first.report(client, given.ticket, Report(value=1.0)) == "told"
    second = sessions.restart("s", request="2")
    assert sessions.restart("s").study_id > second.study_id > first.study_id


def test_two_servers_on_one_folder(opened: Opened, tmp_path: object) -> None:
    sessions = opened()
    with pytest.raises(LockedError, match="another Trimtab serves sessions from state="):
        Sessions(sessions.history, sessions._lock_file.path.parent)


def test_two_servers_on_one_database_do_not_mix_their_trials(opened: Opened) -> None:
    sessions = opened()
    session, _ = sessions.begin(spec())
    client = session.join("a").id
    found = session.fetch(client)
    point = found.point
    assert point is not None
    other = Trial(
        number=point.number, role=point.role, config=point.config, context=session.task.context, status=Status.OK
    )
    sessions.history.add_trial(session.study_id, other)  # what the other server writes
    session.report(client, found.ticket, Report(value=1.0))
    with pytest.raises(ConflictError, match="another process has written trials"):
        sessions.keeper.wait(session.study_id)  # whoever has reported is told
    with pytest.raises(ConflictError, match="another process has written trials"), sessions.use("s"):
        pass
    written = sessions.history.events(session.study_id)
    sessions.keeper.add(session.study_id, Event("asked", "1", 0.0))
    with pytest.raises(ConflictError, match="another process has written trials"):
        sessions.keeper.wait(session.study_id)
    assert sessions.keeper.n_waiting == 0
    assert sessions.history.events(session.study_id) == written


def test_one_that_another_process_has_begun_again_is_not_the_old_one(opened: Opened, tmp_path: Path) -> None:
    sessions = opened()
    old, _ = sessions.begin(spec())
    measured(old, old.join("a").id)
    sessions.keeper.wait()
    with History.open(tmp_path / "history.db") as history:
        other = Sessions(history, tmp_path / "other")
        new, is_new = other.begin(spec(), again=True)
        assert is_new
        for ask in (sessions.stop_stuck, sessions.restart, lambda name: sessions.begin(spec())):
            with pytest.raises(ConflictError, match="is served by another process"):
                ask("s")
        assert [each.status for each in sessions.summaries()] == [old.status, "running"]
        new.stop()
        other.close()
    assert sessions.begin(spec())[0].study_id == new.study_id


KILLED_BETWEEN = {
    "between a trial and its event": """delete from trimtab_event where id = (select max(id) from trimtab_event
                                        where body like '%"told"%')""",
    "after a commit that was made twice": """insert into trimtab_event (study_id, at, body) select study_id, at, body
                                             from trimtab_event where body like '%"3"%' order by id""",
}


@pytest.mark.parametrize("how", KILLED_BETWEEN)
def test_a_session_goes_on_from_what_an_earlier_version_has_left(opened: Opened, tmp_path: Path, how: str) -> None:
    sessions = opened()
    session, _ = sessions.begin(spec())
    client = session.join("a").id
    measured(session, client, 5)
    sessions.keeper.wait()
    sessions.close()
    with sqlite3.connect(tmp_path / "history.db") as database:
        assert database.execute(KILLED_BETWEEN[how]).rowcount in (1, 2)
    for n in (5, 7):  # what was put right stays so
        sessions = opened()
        session, _ = sessions.begin(spec())
        assert len(session.trials) == n
        assert measured(session, session.join("a").id, 2) == 2
        sessions.keeper.wait()
    measured(session, session.join("a").id)
    assert session.state == "ended"


def test_two_servers_on_one_history(opened: Opened, tmp_path: Path, clock: Clock) -> None:
    one = opened()
    session, _ = one.begin(spec())
    client = session.join("a").id
    measured(session, client, 2)
    one.keeper.wait()
    events = one.history.events(session.study_id)
    with History.open(tmp_path / "history.db") as history:
        two = Sessions(history, tmp_path / "other", clock=clock)
        for ask in (lambda: two.begin(spec()), lambda: two.stop_stuck("s"), lambda: two.restart("s")):
            with pytest.raises(ConflictError, match="session='s' is served by another process"):
                ask()
        two.keeper.wait()
        assert history.events(session.study_id) == events
        assert [each.status for each in two.summaries()] == ["running"]
        one.close()
        again, is_new = two.begin(spec())
        assert (is_new, len(again.trials)) == (False, 2)
        again.stop()
        two.keeper.wait()
        two.close()
    assert opened().begin(spec())[0].state == "ended"


def test_others_go_on_while_a_session_is_loaded(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = opened()
    for name in ("slow", "other"):
        sessions.begin(spec(name=name))
    sessions = opened()
    begun, go = threading.Event(), threading.Event()
    replay = Session.restored

    def restored(self: Session, trials: dict[int, Trial]) -> None:
        if self.spec.name == "slow":
            begun.set()
            assert go.wait(60)
        replay(self, trials)

    monkeypatch.setattr(Session, "restored", restored)
    seen: list[Session] = []
    threads = [threading.Thread(target=lambda: seen.append(sessions.call("slow", lambda it: it))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert begun.wait(60)
    assert sessions.call("other", lambda session: session.spec.name) == "other"
    assert sessions.begin(spec(name="new"))[1]
    assert {session.spec.name for session in sessions.live()} == {"other", "new"}
    go.set()
    for thread in threads:
        thread.join()
    assert seen[0] is seen[1], "it was loaded once"
    assert sessions._doors == {}
