"""The walk over a target's files never goes on beside a load, and never outlives the run that asked for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from trimtab.host import VolumeUse
from trimtab.records import Status
from trimtab.systems import Vitals
from trimtab.trial.guard import GuardLimits, Guardrails
from trimtab.trial.watch import Watch

GIB = 1 << 30


class Source:
    """A target whose disk fills up at the second look; `walk` is what happens in a walk over its files."""

    def __init__(self, walk: Callable[[], None] = lambda: None) -> None:
        self.n_looks = 0
        self.walks: list[str] = []
        self._walk = walk

    def vitals(self) -> Vitals:
        self.n_looks += 1
        used = 10 * GIB if self.n_looks < 3 else 99 * GIB
        return Vitals(volumes=(VolumeUse(path="/data", used_bytes=used, size_bytes=100 * GIB),))

    def data_bytes(self) -> int | None:
        self.walks.append(threading.current_thread().name)
        self._walk()
        return len(self.walks) * 90 * GIB

    def unwatch(self) -> None:
        self.walks.append("unwatch")


def watch(source: Source, interval_s: float) -> Watch:
    return Watch(Guardrails(GuardLimits(), max_error_rate=0.01), source, interval_s)


def test_the_files_are_walked_before_the_load_and_in_no_other_thread() -> None:
    source = Source()
    with watch(source, 3600.0):
        assert source.walks == [threading.current_thread().name]
    assert source.walks[1:] == ["unwatch"]


def test_a_walk_at_a_breach_is_over_when_the_run_is_left() -> None:
    began, may_end, over = threading.Event(), threading.Event(), threading.Event()

    def walk() -> None:
        if threading.current_thread() is threading.main_thread():
            return
        began.set()
        may_end.wait(30)
        over.set()

    source = Source(walk)
    one = watch(source, 0.001)
    with one:
        assert began.wait(30)
        threading.Timer(0.2, may_end.set).start()
    assert over.is_set()
    assert source.walks[-1] == "unwatch"
    assert one._hard is None or one._hard.status is Status.CRASHED
