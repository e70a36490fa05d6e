"""A session that cannot go on after a restart of the server: it says so, and it can be ended or begun again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.session.conftest import measured, spec
from trimtab.errors import HistoryError
from trimtab.history import History
from trimtab.session import Sessions
from trimtab.session.course import Course
from trimtab.session.layers.cache import CacheLayer
from trimtab.session.refusal import StuckError

Opened = Callable[[], Sessions]

DAMAGE = {
    "another version": (
        """insert into trimtab_event (study_id, at, body) select study_id, at, replace(body, '"2"', '"99"')
           from trimtab_event where body like '%asked%' and body like '%"2"%'""",
        r"session='s' cannot go on: its study asks otherwise now \(another version of Trimtab\?\)",
    ),
    "a lost trial": (
        "delete from trimtab_trial where number = 1",
        "session='s' cannot go on: it is damaged: KeyError: 1",
    ),
    "a damaged trial": (
        "update trimtab_trial set detail = 'x' where number = 1",
        "session='s' cannot go on: history='.*' has a row that cannot be read",
    ),
    "an unknown searcher": (
        """update trimtab_study set body = replace(body, '"random"', '"gone"')""",
        "session='s' cannot go on: no plug-in 'gone' in searchers",
    ),
    "a damaged study": (
        "update trimtab_study set body = '{'",
        "session='s' cannot go on: history='.*' has a row that cannot be read",
    ),
}


def stuck(opened: Opened, folder: Path, how: str) -> Sessions:
    """Sessions of a new server, of which "s" cannot be told again what it has seen."""
    sessions = opened()
    session, _ = sessions.begin(spec())
    measured(session, session.join("a").id, 4)
    sessions.keeper.wait()
    with sqlite3.connect(folder / "history.db") as database:
        assert database.execute(DAMAGE[how][0]).rowcount == 1
    return opened()


@pytest.mark.slow
@pytest.mark.parametrize("how", DAMAGE)
def test_it_says_so_and_is_ended(opened: Opened, tmp_path: Path, how: str) -> None:
    sessions = stuck(opened, tmp_path, how)
    with pytest.raises(StuckError, match=DAMAGE[how][1]) as said, sessions.use("s"):
        pass
    assert said.value.hint is not None
    assert "--again" in said.value.hint
    with pytest.raises(StuckError):
        sessions.begin(spec())
    assert sessions.stop_stuck("s")
    assert [each.status for each in sessions.summaries()] == ["stopped"]
    if how in ("another version", "a lost trial"):
        assert not sessions.stop_stuck("s"), "one that has ended is shown as it is"
        with sessions.use("s") as session:
            assert (session.state, session.status) == ("ended", "stopped")
            assert len(session.trials) == (3 if how == "a lost trial" else 4)
            assert "cannot go on" in session.verdict.stop_reason


@pytest.mark.parametrize("how", ["another version", "a lost trial", "a damaged trial"])
def test_restart_begins_it_again(opened: Opened, tmp_path: Path, how: str) -> None:
    sessions = stuck(opened, tmp_path, how)
    new = sessions.restart("s")
    assert measured(new, new.join("a").id, 4) == 4
    assert [each.status for each in sessions.summaries()] == ["stopped", "running"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["another version", "a lost trial", "a damaged trial", "a damaged study"])
def test_again_begins_it_again(opened: Opened, tmp_path: Path, how: str) -> None:
    sessions = stuck(opened, tmp_path, how)
    new, is_new = sessions.begin(spec(), again=True)
    assert is_new
    assert measured(new, new.join("a").id, 4) == 4
    assert [each.status for each in sessions.summaries()] == ["stopped", "running"]


def require_ended_as_stuck(sessions: Sessions, bug: str) -> None:
    """That a session of four trials is refused for a bug, and can be ended."""
    why = f"session='s' cannot go on: {bug}"
    with pytest.raises(StuckError, match=why), sessions.use("s"):
        pass
    assert sessions.stop_stuck("s")
    assert [(each.status, each.n_trials) for each in sessions.summaries()] == [("stopped", 4)]


def test_a_bug_that_shows_when_it_is_told_again_does_not_keep_it_from_being_ended(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = opened()
    session, _ = sessions.begin(spec())
    measured(session, session.join("a").id, 4)
    sessions = opened()

    def broken(*rest: object) -> None:
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr(Course, "tell", broken)
    require_ended_as_stuck(sessions, "a bug in Trimtab: ZeroDivisionError: float division by zero")


@pytest.mark.parametrize("is_over", [False, True])
def test_a_layer_that_cannot_be_made_again_does_not_keep_it_from_being_ended(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    """A plug-in, which may raise anything."""
    sessions = opened()
    session, _ = sessions.begin(spec(layers=[{"kind": "cache", "options": {}}]))
    measured(session, session.join("a").id, 4)
    if is_over:
        session.stop()
    sessions = opened()

    def broken(*rest: object) -> None:
        raise OSError("the disk of the plug-in is gone")

    monkeypatch.setattr(CacheLayer, "__init__", broken)
    require_ended_as_stuck(sessions, "layer 'cache' failed: OSError: the disk of the plug-in is gone")


def test_a_history_that_cannot_be_used_now_ends_nothing(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = opened()
    sessions.begin(spec())
    sessions = opened()

    def locked(*rest: object) -> None:
        raise HistoryError("history='h' cannot be used: database is locked")

    with monkeypatch.context() as patched:
        patched.setattr(History, "trials", locked)
        for ask in (sessions.restart, sessions.stop_stuck, lambda name: sessions.begin(spec(), again=True)):
            with pytest.raises(HistoryError, match="database is locked"):
                ask("s")
    assert [each.status for each in sessions.summaries()] == ["running"]
    assert not sessions.stop_stuck("s")


def test_a_lease_does_not_make_another_session(opened: Opened) -> None:
    sessions = opened()
    session, _ = sessions.begin(spec())
    assert sessions.begin(spec(lease="1h")) == (session, False)
    assert session.spec.lease == "10m"
