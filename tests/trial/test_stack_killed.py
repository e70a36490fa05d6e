"""kill -9 at every step of a change of three targets, and of the way back: all are changed, or all are as they were found.

Each run is a process of its own that ends itself at the n-th step; the targets live in files. A death leaves nothing but
files, so the quick form does not kill twice where they are the same: a run that is not killed tells where they change.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.needs import IS_FULL
from trimtab.records import Objective, Role, Status
from trimtab.space import Config, Space
from trimtab.study.recovery import recover
from trimtab.study.rollback_point import file_of, keep_point, point_of
from trimtab.systems import Snapshot, Stack, Tier
from trimtab.testing.fake_target import Disk, FakeTarget
from trimtab.testing.fake_workload import FakeWorkload
from trimtab.trial import DeadMan, Journal, MeasurePlan, TrialRoom, commit, take_back

pytestmark = pytest.mark.slow

NAMES = ("db", "app", "web")
CONFIG = Config({"db.cache": 64, "db.method": "ring", "app.cache": 900, "web.cache": 300, "web.workers": 4})
UPSIDE_DOWN = Config({"db.cache": 900, "app.cache": 64, "web.method": "ring"})
"""The tier above gives back memory first, and is restarted before the one that it follows."""
PLAN = MeasurePlan(window_s=5, window_max_s=5, warmup_floor_s=2, warmup_cap_s=10)
MOST_POINTS = 400


class Fuse:
    """Ends the process at the n-th step; 0: never. `seen`: called at each step."""

    left = 0
    seen: Callable[[], object] = staticmethod(lambda: None)

    @classmethod
    def step(cls) -> None:
        cls.seen()
        if cls.left == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        cls.left = max(0, cls.left - 1)


class KeptTarget(FakeTarget):
    """A fake server whose state is a file: what a death of the tuner leaves is what the next process finds."""

    folder = Path()

    def __init__(self, name: str) -> None:
        self._file = self.folder / f"{name}.json"
        kept = json.loads(self._file.read_text()) if self._file.exists() else {}
        self.began = kept.pop("began", 0)
        super().__init__(name, disk=Disk(**kept) if kept else Disk())
        self._keep()

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, *, state_dir: Path, disk: Disk | None = None) -> KeptTarget:
        return cls(snapshot.target)

    def _keep(self) -> None:
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps({**asdict(self.disk), "holder": "", "began": self.began}))
        partial.rename(self._file)

    def _begins(self) -> None:
        """A start of it, later than every other one so far."""
        self.began = 1 + max(json.loads(path.read_text())["began"] for path in self.folder.glob("*.json"))

    def apply(self, config: Config, *, stays: bool = False) -> Any:
        Fuse.step()
        before = dict(self.disk.running)
        applied = super().apply(config, stays=stays)
        after, self.disk.running = self.disk.running, before
        self._keep()  # its files are written, and it does not use them yet
        Fuse.step()
        self.disk.running = after
        if applied.restarted:
            self._begins()
        self._keep()
        Fuse.step()
        return applied

    def restore(self, *arguments: Any, **more: Any) -> Any:
        Fuse.step()
        done = super().restore(*arguments, **more)
        Fuse.step()
        if done.restarted:
            self._begins()
        self._keep()
        Fuse.step()
        return done

    def restart(self, snapshot: Snapshot) -> None:
        Fuse.step()
        super().restart(snapshot)
        self._begins()
        self._keep()
        Fuse.step()


class NoDeadMan:
    """In place of the dead-man: here it is `recover` that has to put things right."""

    @classmethod
    def start(cls, entry: Any) -> NoDeadMan:
        return cls()

    def guard(self, change: Callable[[], Any], *, even_alone: bool = False) -> Any:
        return change()

    def wait_ready(self) -> None:
        pass

    def is_firing(self) -> bool:
        return False

    def has_fired(self) -> bool:
        return False

    def paused_s(self) -> float:
        return 0.0

    def stop(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeptTarget, "folder", tmp_path)
    module = import_module("trimtab.trial.undo")
    monkeypatch.setattr(module, "reattach", lambda snapshot, state_dir: KeptTarget(snapshot.target))
    for name in ("trimtab.trial.commit", "trimtab.trial.room"):
        monkeypatch.setattr(import_module(name), "DeadMan", NoDeadMan)
    for name in ("trimtab.trial.entry", "trimtab.trial.journal", "trimtab.study.rollback_point"):
        for function in ("append_line", "write_new_file"):
            if hasattr(import_module(name), function):
                monkeypatch.setattr(import_module(name), function, _fused(getattr(import_module(name), function)))


def _fused(write: Callable[..., Any]) -> Callable[..., Any]:
    def fused(*arguments: Any, **more: Any) -> Any:
        Fuse.step()
        found = write(*arguments, **more)
        Fuse.step()
        return found

    return fused


def killed_at(n: int, act: Callable[[], object]) -> bool:
    """Whether a process of its own that does `act` was killed at its n-th step (else it ended well)."""
    pid = os.fork()
    if not pid:
        Fuse.left = n
        try:
            act()
        except BaseException:  # noqa: BLE001 - the parent tells what ended it
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"it failed at n={n}"
    return os.WIFSIGNALED(status)


def steps_of(act: Callable[[], object]) -> tuple[list[int], int]:
    """The steps to kill at, the last of which is not reached; and how many steps `act` has, done in a process of its own."""
    own, child = os.pipe()
    pid = os.fork()
    if not pid:
        told: list[bool] = []
        before: list[Any] = [None]

        def look() -> None:
            now = {path: path.read_bytes() for path in sorted(KeptTarget.folder.rglob("*")) if path.is_file()}
            told.append(now != before[0])
            before[0] = now

        Fuse.seen = staticmethod(look)
        act()
        os.write(child, bytes(told))
        os._exit(0)
    os.close(child)
    assert os.waitpid(pid, 0)[1] == 0
    with os.fdopen(own, "rb") as pipe:
        told = list(map(bool, pipe.read()))
    assert len(told) < MOST_POINTS
    return [n for n, is_new in enumerate(told, start=1) if is_new or IS_FULL] + [len(told) + 1], len(told)


def three() -> Stack:
    """Each tier follows all that lie below it."""
    return Stack([Tier(name=name, target=KeptTarget(name), follows=name != "db") for name in NAMES])


def apply(state: Path, config: Config = CONFIG) -> None:
    commit(
        three(),
        config,
        study="s",
        state_dir=state,
        keep=lambda found, owns: keep_point(state, "s", found, owns),
        file=file_of(state, "s"),
    )


def trials(state: Path) -> None:
    """Two trials, the second after a hand-over, and the way back."""
    stack = three()
    states = stack.states()
    baseline = Config({name: states[name].running for name in CONFIG})
    space = Space([states[name].knob for name in CONFIG])
    with TrialRoom(
        stack,
        FakeWorkload(lambda: 100.0),
        space,
        baseline,
        objective=Objective("throughput"),
        state_dir=state,
        study="s",
    ) as room:
        for number, config in enumerate((CONFIG, baseline.replace({"db.cache": 900, "app.cache": 64}))):
            found = room.run(config, number=number, role=Role.SEARCH, plan=PLAN, seed=1, hand_over=True)
            assert found.status is Status.OK


def roll_back(state: Path) -> None:
    point = point_of(state, "s")
    assert point is not None
    take_back(point.snapshots, point.owns, study="s", state_dir=state, file=point.path)


def values() -> dict[str, Any]:
    return {f"{name}.{knob}": value for name in NAMES for knob, value in KeptTarget(name).disk.running.items()}


@contextmanager
def ground(path: Path, number: int) -> Iterator[Path]:
    KeptTarget.folder = path / str(number)
    KeptTarget.folder.mkdir()
    yield KeptTarget.folder / "state"


def settled(state: Path) -> bool:
    """After `recover`: whether the study stands applied; nothing is open, and nothing is half."""
    _, stuck = recover(state)
    assert not stuck
    began = {name: KeptTarget(name).began for name in NAMES}
    assert began["db"] <= began["app"] <= began["web"], f"a target runs since before one that it follows: {began}"
    assert Journal(state).open_entries() == []
    return point_of(state, "s") is not None


def sweep(
    path: Path, act: Callable[[Path], object], before: Callable[[Path], object] = lambda state: None
) -> Iterator[tuple[Path, int, dict[str, Any]]]:
    """For each step: `act` killed there, on ground of its own that `before` has prepared; the state directory, the step, and the
    values before all. Only the last run is not killed."""
    with ground(path, 0) as state:
        before(state)
        steps, n_steps = steps_of(lambda: act(state))
    assert len(steps) > n_steps // 3, "a death is tried wherever the files have changed"
    for n in steps:
        with ground(path, n) as state:
            found = values()
            before(state)
            assert killed_at(n, lambda state=state: act(state)) == (n <= n_steps)  # type: ignore[misc]
            yield state, n, found


@pytest.mark.parametrize("config", [CONFIG, UPSIDE_DOWN], ids=["bottom up", "upside down"])
def test_killed_at_every_step_of_an_apply(tmp_path: Path, config: Config) -> None:
    n_applied = n_undone = 0
    for state, n, found in sweep(tmp_path, lambda state: apply(state, config)):
        is_applied = settled(state)
        assert values() == ({**found, **config} if is_applied else found), f"half a change after a kill at step {n}"
        n_applied, n_undone = n_applied + is_applied, n_undone + (not is_applied)
    assert n > 30, "the sweep must reach every line of the journal and every target"
    assert n_undone > (20 if IS_FULL else 10)
    assert n_applied >= 1


def test_killed_at_every_step_of_trials(tmp_path: Path) -> None:
    for state, n, found in sweep(tmp_path, trials):
        assert not settled(state)
        assert values() == found, f"a trial's config stays after a kill at step {n}"
    assert n > 50


def test_killed_at_every_step_of_a_rollback(tmp_path: Path) -> None:
    for state, n, found in sweep(tmp_path, roll_back, before=apply):
        is_applied = settled(state)
        assert values() == ({**found, **CONFIG} if is_applied else found), f"half a rollback after a kill at step {n}"
    assert n > 15


@pytest.mark.parametrize("first", [18, *(pytest.param(n, marks=pytest.mark.full) for n in (12, 24, 30))])
def test_killed_again_at_every_step_of_the_recovery(tmp_path: Path, first: int) -> None:
    def killed_once(state: Path) -> None:
        assert killed_at(first, lambda: apply(state))

    for state, n, found in sweep(tmp_path, recover, before=killed_once):
        is_applied = settled(state)
        assert values() == ({**found, **CONFIG} if is_applied else found), f"half a recovery after a kill at step {n}"


def test_the_dead_man_is_the_real_one_elsewhere() -> None:
    assert hasattr(DeadMan, "guard")
    assert {name for name in vars(NoDeadMan) if not name.startswith("_")} <= set(vars(DeadMan))
