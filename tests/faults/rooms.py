"""A trial room on a place's server, in this process: for faults of single trials, without a whole study around them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from unittest import mock

import psutil
import pytest

from tests.faults.place import Place
from trimtab.errors import ForeignChangeError
from trimtab.records import Role, Trial
from trimtab.space import Value
from trimtab.study import load_study_file, open_stage
from trimtab.study.stage import Stage
from trimtab.systems import Snapshot
from trimtab.systems.postgresql import PostgresTarget
from trimtab.trial import Journal, MeasurePlan, TrialRoom, undo
from trimtab.workload import Frame

PLAN = MeasurePlan(window_s=1, window_max_s=1, warmup_floor_s=0, warmup_cap_s=0)
CHANGES: dict[str, Value] = {"work_mem": 8192, "shared_buffers": 3072}
"""One knob that needs a reload and one that needs a restart."""


@dataclass
class Bench:
    """A room with its stage.

    Attributes:
        said: what the room told people.
        at: step -> what is done once when the room announces it ("check", "apply", "load", "restore").
        on_second: what is done once in the first second of a load.
        n_loads: how often a load began.
    """

    place: Place
    stage: Stage
    room: TrialRoom
    said: list[str]
    at: dict[str, Callable[[], object]] = field(default_factory=dict)
    on_second: Callable[[], object] | None = None
    n_loads: int = 0

    @property
    def target(self) -> PostgresTarget:
        target = self.stage.stack.tiers[0].target
        assert isinstance(target, PostgresTarget)
        return target

    @property
    def snapshot(self) -> Snapshot:
        """The target as the room found it."""
        return self.room._opened.snapshots[0]

    def step(self, name: str) -> None:
        self.n_loads += name == "load"
        act = self.at.pop(name, None)
        if act is not None:
            act()

    def second(self, frame: Frame) -> None:
        act, self.on_second = self.on_second, None
        if act is not None:
            act()

    def run(self, *, number: int = 0, hand_over: bool = False, plan: MeasurePlan = PLAN, **changes: Value) -> Trial:
        config = self.stage.baseline.replace(changes or CHANGES)
        return self.room.run(config, number=number, role=Role.SEARCH, plan=plan, seed=1, hand_over=hand_over)


@contextmanager
def open_bench(place: Place) -> Iterator[Bench]:
    """The study of `place`, its target locked and snapshotted, its data ready; all given back at the end."""
    with mock.patch.dict(os.environ, place.environment):
        file = load_study_file(place.study)
        with open_stage(file, place.state) as stage, stage.stack.lock("test"):
            stage.workload.prepare(stage.stack.endpoint(), lambda text: None)
            said: list[str] = []
            room = TrialRoom(
                stage.stack, stage.workload, stage.space, stage.baseline,
                objective=stage.objective, state_dir=place.state, study="faults", say=said.append,
            )  # fmt: skip
            bench = Bench(place, stage, room, said)
            room._listener = room._runs._listener = bench
            with room:
                yield bench


def killed(pid: int | None, number: int, timeout_s: float = 60.0) -> None:
    """Sends the signal and waits until the process is dead, so that what looks at the server next can see it."""
    assert pid is not None
    process, until = psutil.Process(pid), time.monotonic() + timeout_s
    os.kill(pid, number)
    with suppress(psutil.NoSuchProcess):
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until, f"pid {pid} outlived signal {number}"
            time.sleep(0.005)


def stopped(place: Place, script: Callable[[Bench], object]) -> ForeignChangeError:
    """What ended a room in which `script` ran."""
    with pytest.raises(ForeignChangeError) as caught:
        _run(place, script)
    return caught.value


def undone(place: Place) -> str:
    """What `trimtab recover` does with the entry; it leaves one alone whose process, as this one here, still runs."""
    (entry,) = Journal(place.state).open_entries()
    with mock.patch.dict(os.environ, place.environment):
        done = undo(entry, holder="test")
    entry.close(done)
    return done


def _run(place: Place, script: Callable[[Bench], object]) -> None:
    with open_bench(place) as bench:
        script(bench)
