"""Workload and LoadRun: what is asked of a target, and one run of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from trimtab.measure import QueryLog
from trimtab.records import Context, Endpoint

__all__ = ["Frame", "LoadRun", "Preparation", "Workload"]


@dataclass(frozen=True, slots=True)
class Frame:
    """What one second of a run showed; `credited` counts every operation by the share of its run inside the second
    (operations still running are credited by their elapsed time over the label's mean so far, so it is provisional)."""

    second: int
    n_ok: int
    n_error: int
    credited: float


@dataclass(frozen=True, slots=True)
class Preparation:
    """What preparing the data did: seconds, bytes on the server, and whether everything was there already."""

    duration_s: float
    size_bytes: int
    was_cached: bool
    note: str = ""


@runtime_checkable
class LoadRun(Protocol):
    """A load that is running in the background."""

    def frame(self, timeout_s: float) -> Frame | None:
        """The next one-second frame; None when the run has ended or nothing came within `timeout_s`."""

    @property
    def is_done(self) -> bool: ...

    def log(self) -> QueryLog:
        """Everything so far, without stopping (running operations are not in it)."""

    def stop(self) -> QueryLog:
        """Cancels what is in flight (within 100 ms), joins, and returns the whole log. Idempotent."""


@runtime_checkable
class Workload(Protocol):
    """What is asked of a target.

    Built by its class's `from_settings(settings)` from the study file's [workload] table (raises `UsageError` on
    unknown or wrong keys).

    * `protocols`: endpoint protocols it can drive.
    * `context`: its description for the searcher.
    * `prepare(endpoint, report)`: makes the data exist on the server; idempotent; raises `LoadError` (for instance when
      the disk is too small) before it writes anything. `report` gets one line of text per step.
    * `start(endpoint, seed, duration_s)`: starts the load and returns at once. The same seed gives the same operations.
      It ends by itself after `duration_s` (the cap), or by `stop`.
    """

    kind: str
    protocols: tuple[str, ...]

    @property
    def context(self) -> Context: ...
    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation: ...
    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun: ...
