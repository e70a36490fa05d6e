"""AppWorkload: a web application of ours with its data, asked by emulated browsers."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from trimtab.errors import LoadError
from trimtab.records import Context, DataRights, Endpoint
from trimtab.workload.base import Deployment, Preparation, StartState
from trimtab.workload.database import Dataset, ensure
from trimtab.workload.run_database import RunDatabase
from trimtab.workload.server import DATA_PROTOCOLS
from trimtab.workload.site import SITE_KEYS, BrowsingWorkload, SiteLoad, builtin_site
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
        """How large they are, and what else of them decides what is measured, for people."""

    @property
    def options(self) -> Mapping[str, str]:
        """System properties of the application."""

    @property
    def numbers(self) -> Mapping[str, int]:
        """Ranges of ids that browsers draw from."""


class AppWorkload(BrowsingWorkload):
    """See the module. A `Workload` that is deployed and reset; see `BrowsingWorkload`.

    Attributes:
        data: of the application.
        runs: the database that the application uses: always of its own name, and new for each run.
    """

    kind: ClassVar[str]
    data_keys: ClassVar[tuple[str, ...]]
    some_page: ClassVar[str]
    """A path whose page reads the database and changes nothing."""

    def __init__(self, data: Any, browsers: SiteLoad) -> None:
        super().__init__(browsers.with_numbers(dict(data.numbers)))
        self.data = data
        self.runs = RunDatabase(data.database, True, self.kind)

    def _with(self, browsers: SiteLoad) -> Self:
        return type(self)(self.data, browsers)

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
        """Size of the data, mix, what of the browsers is not as usual, their number, and the share of pages that only read."""
        return self.browsers.context(f"{self.kind} {self.data.scale_text}", self.browsers.unusual)

    @property
    def rights(self) -> DataRights:
        """What a user must be allowed to do with the data."""
        return DataRights(database=self.data.database, makes_databases=True, is_users_own=False, reads_only=False)

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
            self.browsers.try_pages(endpoint)
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
        site = self.browsers.endpoint(endpoint)
        require_page(site, self.kind, f"/{self.kind}/renew", {"again": "1"})
        require_page(site, self.kind, f"/{self.kind}/{self.some_page}")
        return state

    def clean_up(self, endpoint: Endpoint) -> None:
        """Drops the copy that runs used.

        Raises:
            LoadError: the server refuses.
        """
        self.runs.drop(endpoint)
