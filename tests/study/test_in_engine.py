"""What a server that tunes its own queries has learnt stays with the study, and a study's winner is given to such a server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes import FakeStudy, tunes_its_queries
from trimtab.errors import TargetError, UsageError
from trimtab.history import open_history_at
from trimtab.records import QueryClass, classes_from_json
from trimtab.report import advice_toml, kept_classes
from trimtab.study import hint_engine, load_study_file

CLASS = QueryClass(
    query_id="7", database="app", role="r", phase="settled", left_alone="", calls=9, probes=2, own_ms=10.0, gain=2.0,
    gain_low=1.8, gain_high=2.2, total_ms=90.0, lost_ms=1.0, gained_ms=30.0, settings={"work_mem": "65536"},
)  # fmt: skip


@pytest.fixture
def engine(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> FakeStudy:
    """A target that tunes its own queries."""
    tunes_its_queries(fake, monkeypatch, [CLASS])
    return fake


@pytest.mark.slow
def test_a_study_keeps_the_classes_for_its_report(engine: FakeStudy) -> None:
    record, _ = engine.tune()
    with open_history_at(None, engine.path / "state") as history:
        assert kept_classes(history.events(record.id)) == [CLASS]
    hints = hint_engine(load_study_file(engine.path / "study.toml"), engine.path / "state", record)
    assert record.status == "proven"
    assert set(hints) == set(record.verdict.config) != set()
    assert all(isinstance(value, str) for value in hints.values())


@pytest.mark.slow
def test_what_cannot_be_asked_is_said_and_ends_nothing(engine: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> list[QueryClass]:
        raise TargetError("the extension is not loaded")

    monkeypatch.setattr(engine.target, "query_classes", refuse)
    record, _ = engine.tune()
    assert record.status == "proven"
    assert (
        "what the server has learnt of its queries is not kept: the extension is not loaded" in engine.listener.phases
    )


@pytest.mark.slow
def test_only_a_proven_winner_is_given(engine: FakeStudy) -> None:
    engine.listener.on_trial = lambda trial: None
    engine.target._speed = lambda values: 1000.0
    record, _ = engine.tune()
    with pytest.raises(UsageError, match="has no proven winner"):
        hint_engine(load_study_file(engine.path / "study.toml"), engine.path / "state", record)


def test_advice_is_what_helps_most_of_the_time() -> None:
    assert advice_toml([CLASS]) == (
        '[search.advice]  # measured instead of the rule-based advice\nwork_mem = "65536"  # faster for 100% of the time'
    )
    nothing = "# no setting was faster for most of the measured time"
    assert advice_toml([]) == nothing
    assert advice_toml([replace(CLASS, phase="pinned", gain=1.0, gain_low=1.0, gain_high=1.0)]) == nothing


@pytest.mark.parametrize(
    ("text", "said"), [("3", "no classes of queries"), ("[{}]", "no classes of queries"), ("[", "line 1")]
)
def test_classes_that_are_none(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        classes_from_json(text)
