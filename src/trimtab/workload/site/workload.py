"""SiteWorkload: emulated browsers on a site that a file of the user's describes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from trimtab.measure import SecondLog
from trimtab.records import Context, Endpoint
from trimtab.workload.base import LoadRun, Preparation
from trimtab.workload.site.file import load_site
from trimtab.workload.site.load import SITE_KEYS, SiteLoad
from trimtab.workload.table import Table

__all__ = ["SiteWorkload"]

_KEYS = ("kind", "site", "numbers", *SITE_KEYS)


class SiteWorkload:
    """Browsers on the user's own site. A `Workload`; immutable after construction.

    Args:
        browsers: what is asked of which site.
    """

    kind: ClassVar[str] = "site"

    def __init__(self, browsers: SiteLoad) -> None:
        self.browsers = browsers
        self.protocols = browsers.protocols

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, directory: Path = Path()) -> SiteWorkload:
        """Built from the study file's [workload] table; its files are relative to `directory`.

        Raises:
            UsageError: an unknown key or a wrong value, here or in the site file.
        """
        table = Table(settings, "[workload]", _KEYS)
        site = load_site(directory / table.text("site"))
        numbers = Table(settings.get("numbers", {}), "[workload.numbers]", tuple(site.numbers))
        own = {name: numbers.integer(name, 0, -(10**18), 10**18) for name in numbers.values}
        browsers = SiteLoad.from_table(table, site, directory).with_numbers(own)
        browsers.check()
        return cls(browsers)

    @property
    def context(self) -> Context:
        """Name and digest of the site, users, share of interactions that only read, and each state's share."""
        browsers = self.browsers
        return browsers.context(f"site {browsers.site.name} {browsers.digest()}")

    def with_rate(self, rate_per_s: float) -> Self:
        """The same browsers in an open loop of that rate.

        Raises:
            UsageError: the rate is out of reach.
        """
        return type(self)(self.browsers.with_rate(rate_per_s))

    def with_threads(self, least: int) -> Self:
        """See `ThreadedWorkload`."""
        browsers = self.browsers.with_threads(least)
        return self if browsers is self.browsers else type(self)(browsers)

    @property
    def arrivals_s(self) -> float:
        """See `SiteLoad.arrivals_s`."""
        return self.browsers.arrivals_s

    @property
    def has_profile(self) -> bool:
        """See `ProfiledWorkload`."""
        return self.browsers.has_profile

    def at_full_speed(self) -> Self:
        """See `PausingWorkload`."""
        browsers = self.browsers.at_full_speed()
        return self if browsers is self.browsers else type(self)(browsers)

    def remarks(self, log: SecondLog, window_s: tuple[float, float]) -> tuple[str, ...]:
        """See `SiteLoad.remarks`."""
        return self.browsers.remarks(log, window_s)

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """Asks for the first page once; changes nothing.

        Raises:
            LoadError: the site cannot be reached, or the page is not as it must be.
        """
        started = time.monotonic()
        self.browsers.try_pages(endpoint)
        return Preparation(time.monotonic() - started, 0, True, "the pages are the server's own")

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun:
        """Starts the browsers."""
        return self.browsers.start(endpoint, seed=seed, duration_s=duration_s)
