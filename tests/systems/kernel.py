"""The kernel of this machine as a target, for tests: there is one for all workers of a test run."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.needs import LOOP_DEVICE
from trimtab import plugins

__all__ = ["DISK", "STUDY", "alone", "kernel", "linux"]

DISK = LOOP_DEVICE.name
STUDY = """
[study]
name = "kernel"
objective = "throughput"
budget = "5m"
[target.os]
kind = "linux"
knobs = ["page_cluster", "stat_interval", "transparent_hugepage"]
[workload]
kind = "command"
command = "sleep 0.05"
[measure]
window = "1s"
window_max = "1s"
warmup_floor = "1s"
warmup_cap = "1s"
"""


@contextmanager
def alone() -> Iterator[None]:
    """One worker has the kernel at a time."""
    with (Path(tempfile.gettempdir()) / "trimtab-tests-kernel.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def kernel() -> Iterator[None]:
    """The kernel for one test."""
    with alone():
        yield


def linux(state_dir: Path, **table: Any) -> Any:
    """The target, not open; a table says what differs from all knobs and a disk that nothing lies on."""
    usual = {"knobs": "all", "names": {"disk": DISK}}
    return plugins.load("targets", "linux").from_settings("os", {**usual, **table}, state_dir=state_dir)
