"""What the workloads of many short operations share: a load model, a database for runs, and the engine that runs them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

from trimtab.errors import LoadError
from trimtab.load import LoadPlan
from trimtab.records import Endpoint
from trimtab.workload.base import LoadRun, StartState, require_protocol
from trimtab.workload.engine_run import access_of, start_load
from trimtab.workload.load_model import LoadModel
from trimtab.workload.remote.place import Place
from trimtab.workload.remote.start import start_remote
from trimtab.workload.run_database import RunDatabase

__all__ = ["EngineWorkload", "LoadedWorkload", "start_source"]


def start_source(
    load: LoadModel,
    there: Endpoint,
    *,
    access: Mapping[str, Any],
    source: Mapping[str, Any],
    operation_timeout_s: float,
    duration_s: float,
    seed: int = 0,
    max_tries: int = 1,
) -> LoadRun:
    """Starts operations where the load comes from: in this process, or in others. The arguments are those of a `LoadPlan`.

    Raises:
        LoadError: a user could not connect, the server refuses a statement, or a generator cannot be used.
    """
    plan = LoadPlan(
        protocol=there.protocol,
        access=access,
        source=source,
        model=load.plain(),
        users=load.users,
        duration_s=duration_s,
        operation_timeout_s=operation_timeout_s,
        seed=seed,
        max_tries=max_tries,
    )
    if there.protocol == "wiredtiger":
        return _start_in_engine(plan, load, there)
    if load.generators:
        return start_remote(plan, load.generators, threads=load.n_threads, endpoint=there, is_open=load.is_open)
    return start_load(plan, endpoint=there, threads=load.n_threads(len(os.sched_getaffinity(0))))


_MOST_THREADS = 256


def _start_in_engine(plan: LoadPlan, load: LoadModel, there: Endpoint) -> LoadRun:
    """The engine works on the threads that call it: each user has one, so that they wait for each other as in a server."""
    if load.generators:
        raise LoadError(
            "the load of a target of kind=wiredtiger runs in the engine's own process",
            hint="leave `from` out of [workload.load]",
        )
    place = Place.of_engine(there.host)
    return start_remote(
        plan, (place,), threads=lambda cores: min(load.users, _MOST_THREADS), endpoint=there, is_open=load.is_open
    )


class LoadedWorkload(ABC):
    """A workload that has the table [workload.load], and can be made again of its settings with another one.

    Attributes:
        settings: a frozen dataclass with `load` (a `LoadModel`) and `operation_timeout_s` among its fields.
    """

    settings: Any

    def with_rate(self, rate_per_s: float) -> Self:
        """The same workload in an open loop of that rate.

        Raises:
            UsageError: the rate is out of reach.
        """
        return self._with_load(self.settings.load.with_rate(rate_per_s))

    def with_threads(self, least: int) -> Self:
        """See `ThreadedWorkload`."""
        load = self.settings.load.with_threads(least)
        return self if load is self.settings.load else self._with_load(load)

    def at_full_speed(self) -> Self:
        """See `PausingWorkload`."""
        load = self.settings.load
        return self._with_load(load.at_full_speed()) if load.pauses else self

    def _with_load(self, load: LoadModel) -> Self:
        return type(self)(replace(self.settings, load=load))  # type: ignore[call-arg]

    @property
    def arrivals_s(self) -> float:
        """See `ArrivingWorkload`."""
        return float(self.settings.load.start_s)

    @property
    def has_profile(self) -> bool:
        """See `ProfiledWorkload`."""
        return self.settings.load.profile is not None


class EngineWorkload(LoadedWorkload):
    """A workload that the native engine runs on a database; immutable after construction.

    Attributes:
        database: where runs take place.
    """

    kind: ClassVar[str]
    protocols: tuple[str, ...] = ("postgresql",)
    max_tries = 1

    def __init__(self, settings: Any, database: RunDatabase) -> None:
        self.settings = settings
        self.database = database

    @abstractmethod
    def source(self, there: Endpoint, duration_s: float) -> dict[str, Any]:
        """The operations as a `LoadPlan` holds them, for a run of `duration_s` on the database of `there`."""

    @property
    def copies(self) -> tuple[str, ...]:
        """See `CopyingWorkload`."""
        return self.database.copies

    def reset(self, endpoint: Endpoint, report: Callable[[str], None]) -> StartState | None:
        """A fresh copy of the data for runs that write; None when runs use the data itself."""
        return self.database.reset(endpoint, report)

    def clean_up(self, endpoint: Endpoint) -> None:
        """Drops the copy that runs used.

        Raises:
            LoadError: the server refuses.
        """
        self.database.drop(endpoint)

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun:
        """Starts the load on the run's database, which `reset` has made where it is a copy."""
        require_protocol(self.kind, self.protocols, endpoint)
        there = endpoint.with_database(self.database.name)
        return start_source(
            self.settings.load,
            there,
            access=access_of(there),
            source=self.source(there, duration_s),
            operation_timeout_s=self.settings.operation_timeout_s,
            duration_s=duration_s,
            seed=seed,
            max_tries=self.max_tries,
        )
