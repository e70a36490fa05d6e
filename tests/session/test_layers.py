"""Layers: what they answer, reject and ask again for; and that a broken one is named."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.session.conftest import measured, seconds, spec
from trimtab import plugins
from trimtab.errors import HistoryError, InternalError
from trimtab.measure import Interval
from trimtab.records import Role, Status
from trimtab.session import Answer, Layer, Point, Report, Result, Session, Sessions
from trimtab.session.layer import AGAIN, Again
from trimtab.session.layers.cache import CacheLayer
from trimtab.session.point import Failure
from trimtab.space import Config

Opened = Callable[[], Sessions]


def test_a_constraint_keeps_points_from_clients(opened: Opened) -> None:
    session, _ = opened().begin(
        spec(layers=[{"kind": "constraint", "options": {"holds": "x <= 10"}}], budget="30 trials")
    )
    client, seen = session.join("a").id, []
    while (found := session.fetch(client)).point is not None:
        seen.append(found.point.config["x"])
        session.report(client, found.ticket, Report(value=seconds(found.point.config)))
    assert max(seen) <= 10
    rejected = [trial for trial in session.trials if trial.status is Status.INFEASIBLE]
    assert rejected
    assert {trial.reason for trial in rejected} == {"breaks x <= 10"}


def test_a_cache_answers_what_was_measured(opened: Opened) -> None:
    knobs = [{"name": "x", "kind": "integer", "low": 0, "high": 3}]
    session, _ = opened().begin(
        spec(knobs=knobs, searcher="nelder-mead", layers=[{"kind": "cache"}], budget="20 trials")
    )
    client, seen = session.join("a").id, []
    while (found := session.fetch(client)).point is not None:
        if found.point.role is Role.SEARCH:
            seen.append(found.point.config)
        session.report(client, found.ticket, Report(value=10.0 + (found.point.config["x"] - 3) ** 2))  # type: ignore[operator]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize(("by", "value"), [("min", 10.0), ("max", 30.0), ("mean", 18.0), ("median", 14.0)])
def test_repeats_count_as_one(opened: Opened, by: str, value: float) -> None:
    session, _ = opened().begin(spec(layers=[{"kind": "repeat", "options": {"times": 3, "by": by}}]))
    client = session.join("a").id
    for each in (10.0, 30.0, 14.0):
        session.report(client, session.fetch(client).ticket, Report(value=each))
    (trial,) = session.trials
    assert trial.measurement is not None
    assert trial.measurement.figure is not None
    assert trial.measurement.figure.estimate == value
    assert trial.measurement.figure.low >= 0  # as every figure is, however few runs there were
    found = session.fetch(client)
    session.report(client, found.ticket, Report(value=10.0))
    session.report(client, session.fetch(client).ticket, Report(failed=Failure()))
    assert session.trials[1].status is Status.CRASHED  # a failure ends it at once


def test_a_log_holds_points_and_results(opened: Opened, tmp_path: Path) -> None:
    session, _ = opened().begin(spec(layers=[{"kind": "log"}]))
    measured(session, session.join("a").id, 2)
    (path,) = (tmp_path / "logs").iterdir()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["point", "result", "point", "result"]
    assert lines[1]["figures"] == {"cost": seconds(lines[0]["config"])}
    assert path.stat().st_mode & 0o777 == 0o600
    session, _ = opened().begin(session.spec)
    assert len(path.read_text().splitlines()) == 4  # a restart writes nothing again


def test_a_log_has_whole_lines_only(opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, _ = opened().begin(spec(layers=[{"kind": "log"}]))
    client, write, left = session.join("a").id, os.write, [25]

    def taken(handle: int, data: bytes) -> int:
        """As a disk that takes ten bytes at a time, until it is full."""
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        n = write(handle, data[: min(10, left[0])])
        left[0] -= n
        return n

    with monkeypatch.context() as patched:
        patched.setattr("trimtab.session.layers.log.os.write", taken)
        with pytest.raises(HistoryError, match="layer 'log' cannot write path=.*No space left on device"):
            session.fetch(client)
        (path,) = (tmp_path / "logs").iterdir()
        assert path.read_bytes() == b""
        left[0] = 10**6
        measured(session, client, 1)
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == ["point", "result"]


@pytest.mark.parametrize("value", [30.0, 99.0], ids=["the same", "another"])
def test_a_report_that_a_full_disk_has_stopped_counts_once(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    """It goes on with the layer that could not take it: the others have counted the run."""
    wanted = spec(layers=[{"kind": "log"}, {"kind": "repeat", "options": {"times": 2, "by": "mean"}}])
    session, _ = opened().begin(wanted)
    client = session.join("a").id
    assert session.report(client, session.fetch(client).ticket, Report(value=10.0)) == "again"
    ticket = session.fetch(client).ticket

    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("trimtab.session.layers.log.os.write", full)
        for _ in range(2):
            with pytest.raises(HistoryError, match="No space left on device"):
                session.report(client, ticket, Report(value=30.0))
    assert session.report(client, ticket, Report(value=value)) == "told"
    assert session.report(client, ticket, Report(value=value)) == "known"
    again, _ = opened().begin(wanted)
    for (trial,) in (session.trials, again.trials):
        assert trial.measurement is not None
        assert trial.measurement.figure is not None
        assert trial.measurement.figure.estimate == 20.0


def test_groups_are_searched_one_after_the_other(opened: Opened) -> None:
    knobs = [{"name": name, "kind": "integer", "low": 0, "high": 20} for name in ("db.a", "db.b", "web.c")]
    session, _ = opened().begin(spec(knobs=knobs, layers=[{"kind": "group"}], budget="16 trials"))
    client, base = session.join("a").id, session.task.baseline
    measured(session, client, 8, lambda config: 10.0 + abs(config["db.a"] - 3))
    groups = [
        {name.partition(".")[0] for name in t.config.difference(base)} for t in session.trials if t.role is Role.SEARCH
    ]
    assert groups
    assert all(len(group) <= 1 for group in groups)


class _Layer(Layer):
    NAME: ClassVar[str] = "own"
    calls: ClassVar[list[str]] = []

    def outgoing(self, point: Point) -> Answer | None:
        self.calls.append(f"out {self.options.get('tag', '')}")
        return None

    def incoming(self, point: Point, result: Result) -> Result:
        self.calls.append(f"in {self.options.get('tag', '')}")
        return result


class _Broken(Layer):
    NAME: ClassVar[str] = "broken"

    def incoming(self, point: Point, result: Result) -> Result:
        raise KeyError("oops")


class _Unmade(Layer):
    NAME: ClassVar[str] = "unmade"

    def __init__(self, options: Any, setting: Any) -> None:
        raise OSError("no licence")


def test_own_layers_stand_in_their_order_and_a_broken_one_is_named(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tagged(_Layer):
        OPTIONS: ClassVar[dict[str, tuple[Any, str]]] = {"tag": ("", "its name")}

    found = {"own": Tagged, "broken": _Broken, "unmade": _Unmade}
    monkeypatch.setattr(plugins, "load", lambda group, name, load=plugins.load: found.get(name) or load(group, name))
    _Layer.calls.clear()
    sessions = opened()
    session, _ = sessions.begin(spec(layers=[{"kind": "own", "options": {"tag": tag}} for tag in "ab"]))
    measured(session, session.join("1").id, 1)
    assert _Layer.calls == ["out a", "out b", "in b", "in a"]
    other, _ = sessions.begin(spec(name="t", layers=[{"kind": "broken"}]))
    client = other.join("1").id
    point = other.fetch(client)
    with pytest.raises(InternalError, match="layer 'broken' failed: KeyError: 'oops'"):
        other.report(client, point.ticket, Report(value=1.0))
    with pytest.raises(InternalError, match="layer 'unmade' failed: OSError: no licence"):
        sessions.begin(spec(name="u", layers=[{"kind": "unmade"}]))


def test_a_session_whose_every_point_is_rejected_does_not_hold_the_server(opened: Opened) -> None:
    session, _ = opened().begin(
        spec(
            layers=[{"kind": "constraint", "options": {"holds": 'x == 2 and mode == "slow"'}}],
            budget="500 trials",
            patience=1000,
        )
    )
    client = session.join("a").id
    measured(session, client, 3)
    found = session.fetch(client)
    assert found.state in ("wait", "point")
    assert isinstance(session.best()[0], Config)


REPEAT_TWICE = {"kind": "repeat", "options": {"times": 2, "by": "mean"}}


class _Doubling(Layer):
    NAME: ClassVar[str] = "doubling"

    def incoming(self, point: Point, result: Result) -> Result:
        twice = {name: replace(seen, estimate=2 * seen.estimate) for name, seen in result.figures.items()}
        return replace(result, figures=twice)


@pytest.mark.slow
@pytest.mark.parametrize(
    "layers",
    [
        [{"kind": "cache"}, {"kind": "repeat", "options": {"times": 3, "by": "mean"}}],
        [{"kind": "cache"}, REPEAT_TWICE, {"kind": "doubling"}],
        [{"kind": "cache"}, {"kind": "constraint", "options": {"holds": "x <= 10"}}, {"kind": "doubling"}],
    ],
)
def test_after_a_restart_layers_know_what_they_knew(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, layers: list[dict[str, Any]]
) -> None:
    found = {"doubling": _Doubling}
    monkeypatch.setattr(plugins, "load", lambda group, name, load=plugins.load: found.get(name) or load(group, name))
    wanted = spec(layers=layers, budget="30 trials")
    session, _ = opened().begin(wanted)
    client, n = session.join("a").id, 0
    for n in range(14):
        point = session.fetch(client)
        session.report(client, point.ticket, Report(value=1.0 + n * n))

    def known(session: Session) -> dict[Config, list[float]]:
        (cache,) = (layer for layer in session._repeats._layers._layers if isinstance(layer, CacheLayer))
        return {config: [each.estimate for each in result.figures.values()] for config, result in cache._known.items()}

    before = known(session)
    assert before
    again, _ = opened().begin(wanted)
    assert known(again) == before
    assert [(trial.number, trial.config, trial.loss) for trial in again.trials] == [
        (trial.number, trial.config, trial.loss) for trial in session.trials
    ]
    other = again.join("b").id
    assert measured(again, other, 5) == 5


class _Knowing(Layer):
    """Answers what is measured in the search by itself."""

    NAME: ClassVar[str] = "knowing"

    def outgoing(self, point: Point) -> Answer | None:
        value = seconds(point.config)
        figures = {"cost": Interval(value, value, value)}
        return Answer(Result(figures=figures)) if point.role is Role.SEARCH else None


class _Endless(Layer):
    NAME: ClassVar[str] = "endless"

    def incoming(self, point: Point, result: Result) -> Result | Again:
        return AGAIN if point.role is Role.SEARCH else result


def test_a_layer_that_wants_several_runs_is_given_an_answer_as_often(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"knowing": _Knowing, "endless": _Endless}
    monkeypatch.setattr(plugins, "load", lambda group, name, load=plugins.load: found.get(name) or load(group, name))
    sessions = opened()
    wanted = spec(layers=[{"kind": "repeat", "options": {"times": 3}}, {"kind": "knowing"}])
    session, _ = sessions.begin(wanted)
    measured(session, session.join("a").id, 10)  # three runs of each point of the baseline, and the first of the proof
    searched = [trial for trial in session.trials if trial.role is Role.SEARCH]
    assert len(searched) > 5
    for trial in searched:
        assert trial.measurement is not None
        assert trial.measurement.figure is not None
        assert trial.measurement.figure.estimate == seconds(trial.config)
    again, _ = opened().begin(wanted)
    assert [trial.config for trial in again.trials] == [trial.config for trial in session.trials]
    other, _ = opened().begin(spec(name="t", layers=[{"kind": "endless"}, {"kind": "knowing"}]))
    with pytest.raises(InternalError, match="a layer asks without end for a point that no client has measured"):
        measured(other, other.join("a").id, 10)
