"""A tier that follows: restarted after the one that it needs, on the way there and on the way back; and one that is looked at."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Self

import pytest

from tests.hand_clock import HandClock
from tests.trial.test_stack_room import Bench
from trimtab.errors import ApplyError, RestoreError, TargetError, UnavailableError
from trimtab.records import Status
from trimtab.space import Config
from trimtab.study.recovery import recover
from trimtab.study.rollback_point import above, file_of, keep_point, point_of
from trimtab.systems import Snapshot, Stack, Tier
from trimtab.testing.fake_target import FakeTarget
from trimtab.trial import Entry, Journal, commit, snapshot_from_json, snapshot_to_json, take_back

following = import_module("trimtab.trial.follow")
SETTLE_S = following._SETTLE_S


class Following(Bench):
    """`app` follows `db`; `web` needs `app` and does not follow."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        db, app, web = self.stack.tiers
        self.stack = Stack(
            [
                Tier(name="db", target=db.target),
                Tier(name="app", target=app.target, needs=("db",), follows=True),
                Tier(name="web", target=web.target, needs=("app",)),
            ]
        )
        for name, target in self.targets.items():
            self._logs_restarts(name, target)

    @classmethod
    def found_again(cls, path: Path, monkeypatch: pytest.MonkeyPatch) -> Self:
        """One whose targets an undo finds again, and that settles at once."""
        bench, undo = cls(path), import_module("trimtab.trial.undo")
        monkeypatch.setattr(undo, "reattach", lambda snapshot, state_dir: bench.targets[snapshot.target])
        monkeypatch.setattr(following, "_SETTLE_S", 0.0)
        return bench

    def _logs_restarts(self, name: str, target: FakeTarget) -> None:
        restart = target.restart

        def logged(snapshot: Snapshot) -> None:
            self.log.append(f"restart {name}")
            restart(snapshot)

        target.restart = logged  # type: ignore[method-assign]

    def commit(self, study: str = "s", **changes: Any) -> None:
        commit(
            self.stack,
            Config({name.replace("__", "."): value for name, value in changes.items()}),
            study=study,
            state_dir=self.path,
            keep=lambda found, owns: keep_point(self.path, study, found, owns),
            file=file_of(self.path, study),
        )


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Following:
    return Following.found_again(tmp_path, monkeypatch)


def test_it_is_restarted_after_the_change_and_after_the_way_back(bench: Following) -> None:
    with bench.room() as room:
        trial = bench.run(room, db__cache=256)
        assert trial.status is Status.OK
        assert trial.cost_s["apply.app"] > 0
    assert bench.log == [
        "apply app", "apply web", "apply db", "restart app", "restore db", "restore app", "restore web", "restart app",
    ]  # fmt: skip
    assert bench.values() == bench.found


def test_nothing_is_restarted_without_need(bench: Following) -> None:
    with bench.room() as room:
        bench.run(room, db__method="ring", app__cache=64)
    assert not any(line.startswith("restart") for line in bench.log)


def test_one_that_was_restarted_later_by_itself_is_not_restarted_again(bench: Following) -> None:
    with bench.room() as room:
        bench.run(room, hand_over=True, db__cache=64, app__cache=256)
        assert bench.log == ["apply db", "apply web", "apply app"]
        bench.log.clear()
        bench.run(room, hand_over=True, db__cache=900, app__cache=64)
        assert bench.log == ["apply app", "apply web", "apply db", "restart app"]


def test_one_that_does_not_come_back_ends_the_trial(bench: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def broken(snapshot: Snapshot) -> None:
        calls.append("restart")
        if len(calls) == 1:
            raise TargetError("its pool finds no server")

    monkeypatch.setattr(bench.targets["app"], "restart", broken)
    with bench.room() as room:
        trial = bench.run(room, db__cache=256)
    assert trial.status is not Status.OK
    assert "app: its pool finds no server (after a restart of db, which it needs)" in trial.reason
    assert bench.values() == bench.found
    assert calls == ["restart", "restart"]
    assert Journal(bench.path).open_entries() == []


def test_one_that_only_needs_it_is_looked_at(bench: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    def sick() -> None:
        raise TargetError("it answers 502")

    monkeypatch.setattr(bench.targets["web"], "health", sick)
    with pytest.raises(ApplyError, match=r"web: it answers 502 \(after a restart of db, which it needs\)"):
        bench.commit(db__cache=256)
    assert bench.values() == bench.found
    assert point_of(bench.path, "s") is None
    bench.commit(db__method="ring")  # nothing is restarted, so nothing above it is looked at


def test_one_that_needs_a_moment_is_waited_for(bench: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def late() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise TargetError("it connects")

    monkeypatch.setattr(following, "_SETTLE_S", 5.0)
    monkeypatch.setattr(bench.targets["web"], "health", late)
    bench.commit(db__cache=256)
    assert len(tries) >= 3


@pytest.fixture
def clock(bench: Following, monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """`web` answers 503 for a minute of this clock after each restart of `db`, as httpd does."""
    clock, db = HandClock(), bench.targets["db"]
    seen, since = [db.values["cache"]], [-60.0]

    def health() -> None:
        if db.values["cache"] != seen[0]:  # only a restart changes it
            seen[0], since[0] = db.values["cache"], clock.now_s
        if clock.now_s < since[0] + 60.0:
            raise UnavailableError("it answers 503")

    monkeypatch.setattr(following, "_SETTLE_S", SETTLE_S)
    monkeypatch.setattr(following, "time", clock)
    monkeypatch.setattr(bench.targets["web"], "health", health)
    return clock


def test_a_proxy_that_tries_again_after_a_minute_is_waited_for(bench: Following, clock: HandClock) -> None:
    bench.commit(db__cache=256)
    assert clock.now_s >= 60.0


def test_it_is_waited_for_after_the_way_back_too(bench: Following, clock: HandClock) -> None:
    with bench.room() as room:
        assert bench.run(room, db__cache=256).status is Status.OK
        assert 60.0 <= clock.now_s < 120.0, "on the way back only the next trial waits, and no exit"
        trial = bench.run(room, app__method="ring")
        assert clock.now_s >= 120.0
    assert trial.status is Status.OK, trial.reason


def test_what_fails_for_another_reason_is_not_waited_for_so_long(bench: Following, clock: HandClock) -> None:
    def fails() -> None:
        raise TargetError("it answers 500")

    bench.targets["web"].health = fails  # type: ignore[method-assign]
    with pytest.raises(ApplyError, match="it answers 500"):
        bench.commit(db__cache=256)
    assert SETTLE_S <= clock.now_s < 2 * SETTLE_S


def test_a_rollback_restarts_it_too(bench: Following) -> None:
    bench.commit(db__cache=256)
    assert bench.log == ["apply db", "restart app"]
    bench.log.clear()
    point = point_of(bench.path, "s")
    assert point is not None
    assert [snapshot.target for snapshot in point.snapshots] == ["db", "app"]
    take_back(point.snapshots, point.owns, study="s", state_dir=bench.path, file=point.path)
    assert bench.log == ["restore db", "restart app"]
    assert bench.values() == bench.found


def test_a_way_back_on_which_it_does_not_come_back_says_so(bench: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.commit(db__cache=256)
    point = point_of(bench.path, "s")
    assert point is not None
    is_broken = [True]

    def restart(snapshot: Snapshot) -> None:
        if is_broken:
            raise TargetError("no such program")

    monkeypatch.setattr(bench.targets["app"], "restart", restart)
    with pytest.raises(RestoreError, match="no such program"):
        take_back(point.snapshots, point.owns, study="s", state_dir=bench.path, file=point.path)
    assert bench.values() == bench.found, "the others were dealt with"
    assert len(Journal(bench.path).open_entries()) == 1
    is_broken.clear()
    monkeypatch.setattr(Entry, "is_owner_alive", property(lambda entry: False))
    done, stuck = recover(bench.path, retry="s")
    assert not stuck
    assert done


def test_who_follows_whom_goes_through_the_journal(bench: Following) -> None:
    found = {snapshot.target: snapshot for snapshot in bench.stack.snapshots()}
    assert {name: snapshot.follows for name, snapshot in found.items()} == {"db": (), "app": ("db",), "web": ()}
    assert snapshot_from_json(snapshot_to_json(found["app"])) == found["app"]


def test_a_target_that_only_follows_is_not_what_was_applied(bench: Following) -> None:
    bench.commit(db__cache=256)
    bench.commit(app__method="ring", study="later")
    points = {name: point_of(bench.path, name) for name in ("s", "later")}
    assert points["s"] is not None
    assert [snapshot.target for snapshot in points["s"].snapshots] == ["db", "app"]
    assert above(points["s"], bench.path) == []
    bench.commit(db__method="ring", study="last")
    assert [point.study for point in above(points["s"], bench.path)] == ["last"]
