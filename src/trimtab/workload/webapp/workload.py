"""AppWorkload: a web application of ours with its data, asked by emulated browsers."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from trimtab.errors import LoadError
from trimtab.measure import SecondLog
from trimtab.records import Context, DataRights, Endpoint
from trimtab.workload.base import Deployment, LoadRun, Preparation, StartState
from trimtab.workload.database import Dataset, ensure
from trimtab.workload.run_database import RunDatabase
from trimtab.workload.server import DATA_PROTOCOLS
from trimtab.workload.site import SITE_KEYS, SiteLoad, builtin_site
from trimtab.workload.table import Table
from trimtab.workload.webapp.ask import require_page
from trimtab.workload.webapp.build import built
from trimtab.workload.webapp.deploy import deployment

__all__ = ["AppData", "AppWorkload"]


class AppData(Protocol):
    """What an application's data depend on."""

    @property
    def database(self) -> str:
        """Of the rows as they were made."""

    @property
    def scale_text(self) -> str:
        """How large they are, for people."""

    @property
    def options(self) -> Mapping[str, str]:
        """System properties of the application."""

    @property
    def numbers(self) -> Mapping[str, int]:
        """Ranges of ids that browsers draw from."""


class AppWorkload(ABC):
    """See the module. A `Workload` that is deployed, reset and rated; immutable after construction.

    Attributes:
        data: of the application.
        load: the browsers.
        runs: the database that the application uses: always of its own name, and new for each run.
    """

    kind: ClassVar[str]
    data_keys: ClassVar[tuple[str, ...]]
    some_page: ClassVar[str]
    """A path whose page reads the database and changes nothing."""

    def __init__(self, data: Any, load: SiteLoad) -> None:
        self.data = data
        self.load = load.with_numbers(dict(data.numbers))
        self.protocols = self.load.protocols
        self.runs = RunDatabase(data.database, True, self.kind)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, directory: Path = Path()) -> Self:
        """Built from the study file's [workload] table; its files are relative to `directory`.

        Raises:
            UsageError: an unknown key or a wrong value.
        """
        table = Table(settings, "[workload]", ("kind", *cls.data_keys, *SITE_KEYS))
        return cls(cls.read_data(table), SiteLoad.from_table(table, builtin_site(cls.kind), directory))

    @classmethod
    @abstractmethod
    def read_data(cls, table: Table) -> Any:
        """The data that the table describes: an `AppData`."""

    @property
    @abstractmethod
    def dataset(self) -> Dataset:
        """What the database is to hold."""

    @property
    def context(self) -> Context:
        """Mix, size of the data, browsers, and the share of pages that only read."""
        return self.load.context(f"{self.kind} {self.data.scale_text}")

    @property
    def rights(self) -> DataRights:
        """What a user must be allowed to do with the data."""
        return DataRights(database=self.data.database, makes_databases=True, is_users_own=False, reads_only=False)

    def with_rate(self, rate_per_s: float) -> Self:
        """The same browsers in an open loop of that rate.

        Raises:
            UsageError: the rate is out of reach.
        """
        return type(self)(self.data, self.load.with_rate(rate_per_s))

    def with_threads(self, least: int) -> Self:
        """See `ThreadedWorkload`."""
        load = self.load.with_threads(least)
        return self if load is self.load else type(self)(self.data, load)

    @property
    def arrivals_s(self) -> float:
        """See `SiteLoad.arrivals_s`."""
        return self.load.arrivals_s

    @property
    def has_profile(self) -> bool:
        """See `ProfiledWorkload`."""
        return self.load.has_profile

    def at_full_speed(self) -> Self:
        """See `PausingWorkload`."""
        load = self.load.at_full_speed()
        return self if load is self.load else type(self)(self.data, load)

    def remarks(self, log: SecondLog, window_s: tuple[float, float]) -> tuple[str, ...]:
        """See `SiteLoad.remarks`."""
        return self.load.remarks(log, window_s)

    def deployment(self, data: Endpoint, report: Callable[[str], None]) -> Deployment:
        """See `DeployedWorkload`."""
        return deployment(built(self.kind, report), data, self.kind, self.data.options)

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """Makes the data exist, and looks whether the application is deployed and can use them.

        Raises:
            LoadError: no database is behind the site, or one of these is not so.
        """
        started = time.monotonic()
        if (endpoint.data or endpoint).protocol not in DATA_PROTOCOLS:
            raise LoadError(
                f"workload={self.kind} finds no database behind its site",
                hint='add a target of kind "postgresql" or "mariadb", or name one: [workload] data = "db"',
            )
        done = ensure(endpoint, self.dataset, report)
        try:
            self.reset(endpoint, report)
            self.load.try_pages(endpoint)
        except BaseException:
            with suppress(LoadError):  # what went wrong first is told
                self.clean_up(endpoint)
            raise
        return replace(done, duration_s=time.monotonic() - started)

    @property
    def copies(self) -> tuple[str, ...]:
        """See `CopyingWorkload`."""
        return self.runs.copies

    def reset(self, endpoint: Endpoint, report: Callable[[str], None]) -> StartState | None:
        """A fresh copy of the data under the application's name; the application forgets its connections to the last one.

        Raises:
            LoadError: the data cannot be copied, or the application fails.
        """
        state = self.runs.reset(endpoint, report)
        site = self.load.endpoint(endpoint)
        require_page(site, self.kind, f"/{self.kind}/renew", {"again": "1"})
        require_page(site, self.kind, f"/{self.kind}/{self.some_page}")
        return state

    def clean_up(self, endpoint: Endpoint) -> None:
        """Drops the copy that runs used.

        Raises:
            LoadError: the server refuses.
        """
        self.runs.drop(endpoint)

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun:
        """Starts the browsers."""
        return self.load.start(endpoint, seed=seed, duration_s=duration_s)
