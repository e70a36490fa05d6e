"""LocalSession: a session of one process, which nobody else can wake, and of one machine."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tests.session.conftest import seconds, spec
from trimtab.errors import UsageError
from trimtab.history import History
from trimtab.session.local import LocalSession
from trimtab.session.refusal import ConflictError, StuckError


def points(session: LocalSession, most: int = 1000) -> int:
    """Measures up to so many points; how many there were."""
    for n, point in enumerate(session):
        if n == most:
            return n
        point.report(seconds(point.config))
    assert session.session.state == "ended"
    return n + 1


def test_one_that_was_paused_is_resumed(tmp_path: Path) -> None:
    with LocalSession(spec(), tmp_path) as session:
        points(session, 4)
        session.session.pause()
    with LocalSession(spec(), tmp_path) as session:
        assert not session.is_new
        assert session.session.state == "paused"
        assert points(session) > 10
        assert session.session.status == "proven"


def test_one_that_waits_for_its_layers_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.session.session._MOST_UNSEEN", 2)
    layers = [{"kind": "constraint", "options": {"holds": "x <= 3"}}]
    with LocalSession(spec(layers=layers, budget="30 trials"), tmp_path) as session:
        points(session)
        assert len([trial for trial in session.session.trials if trial.role == "search"]) > 12


@pytest.mark.parametrize("changed", [{}, {"seed": 2}])
def test_one_that_was_interrupted_is_begun_again_if_that_is_asked_for(tmp_path: Path, changed: dict[str, int]) -> None:
    with LocalSession(spec(), tmp_path) as session:
        points(session, 4)
        first = session.session.study_id
    with pytest.raises(UsageError, match="no plug-in 'nope'"):
        LocalSession(spec(searcher="nope"), tmp_path, again=True)
    with LocalSession(spec(), tmp_path) as session:
        assert (session.is_new, session.session.study_id) == (False, first), "a mistake has ended nothing"
    with LocalSession(spec(**changed), tmp_path, again=True) as session:
        assert session.is_new
        assert len(session.session.trials) == 0
        assert points(session) > 10
    with History.open(tmp_path / "history.db") as history:
        ended = history.study(first)
        assert (ended.status, ended.verdict.stop_reason) == ("stopped", "its user has begun it again")
        assert len(history.trials(first)) == 4


def test_one_of_another_machine_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(tmp_path / "shared.db")
    with LocalSession(spec(), tmp_path / "a", url) as session:
        points(session, 4)
        first = session.session.study_id
        monkeypatch.setattr(platform, "node", lambda: "elsewhere")
        with pytest.raises(StuckError, match="was measured on host=.*, and this is host='elsewhere'"):
            LocalSession(spec(), tmp_path / "b", url)
        with pytest.raises(ConflictError, match="is served by another process"):
            LocalSession(spec(), tmp_path / "b", url, again=True)
    with pytest.raises(StuckError, match="was measured on host="):
        LocalSession(spec(), tmp_path / "b", url)
    with LocalSession(spec(), tmp_path / "b", url, again=True) as session:
        assert session.is_new
        points(session, 2)
    with History.open(url) as history:
        assert history.study(first).status == "stopped"
        assert len(history.trials(first)) == 4
