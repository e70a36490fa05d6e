"""Keeper: what is kept survives the process at once, and a loss of power a moment later."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from trimtab.errors import HistoryError
from trimtab.history import Event
from trimtab.session import Keeper


class Disk:
    """Takes what a history does; the first sync fails."""

    def __init__(self) -> None:
        self.kept: list[tuple[list[Any], bool]] = []
        self.n_syncs = 0
        self.synced, self.go = threading.Event(), threading.Event()
        self.go.set()

    def add_many(self, trials: Any, events: Any, *, is_synced: bool) -> None:
        self.go.wait()
        self.kept.append((list(events), is_synced))

    def sync(self) -> None:
        self.n_syncs += 1
        if self.n_syncs == 1:
            raise HistoryError("the disk is full")
        self.synced.set()


@pytest.mark.parametrize("sync_s", [0.0, 0.001])
def test_the_disk_is_asked_once_for_many(sync_s: float) -> None:
    disk = Disk()
    keeper = Keeper(disk, sync_s)  # type: ignore[arg-type]
    keeper.add(1, Event("asked", "1", 0.0))
    keeper.durable().result()
    assert disk.kept == [([(1, Event("asked", "1", 0.0))], sync_s == 0)]
    if sync_s:
        assert disk.synced.wait(60), "a disk that refused is asked again"
    keeper.close()
    assert (disk.n_syncs > 0) == (sync_s > 0)


def test_what_is_being_written_is_waited_for() -> None:
    disk = Disk()
    keeper = Keeper(disk, 3600.0)  # type: ignore[arg-type]
    disk.go.clear()
    keeper.add(1, Event("asked", "1", 0.0))
    first = keeper.durable()
    while not keeper._is_writing:
        first.running()
    second = keeper.durable()  # nothing is in the queue, and nothing is kept yet
    assert not second.done()
    disk.go.set()
    second.result()
    assert len(disk.kept) == 1
    keeper.close()
