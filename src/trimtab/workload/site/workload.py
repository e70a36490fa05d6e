"""SiteWorkload: emulated browsers on a site that a file of the user's describes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from trimtab.errors import UsageError
from trimtab.records import Context, Endpoint
from trimtab.workload.base import Preparation
from trimtab.workload.site.browsing import BrowsingWorkload
from trimtab.workload.site.file import load_site
from trimtab.workload.site.load import SITE_KEYS, SiteLoad
from trimtab.workload.table import Table

__all__ = ["SiteWorkload"]

_KEYS = ("kind", "site", "numbers", *SITE_KEYS)


class SiteWorkload(BrowsingWorkload):
    """Browsers on the user's own site. A `Workload`; see `BrowsingWorkload`."""

    kind: ClassVar[str] = "site"

    def _with(self, browsers: SiteLoad) -> Self:
        return type(self)(browsers)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, directory: Path = Path()) -> SiteWorkload:
        """Built from the study file's [workload] table; its files are relative to `directory`.

        Raises:
            UsageError: an unknown key or a wrong value, here or in the site file.
        """
        table = Table(settings, "[workload]", _KEYS)
        site = load_site(directory / table.text("site"))
        given = settings.get("numbers", {})
        if not isinstance(given, Mapping):
            raise UsageError(
                f"[workload] numbers={given!r} is not a table", hint="for example: numbers = { items = 5000 }"
            )
        numbers = Table(given, "[workload.numbers]", tuple(site.numbers))
        own = {name: numbers.integer(name, 0, -(10**18), 10**18) for name in numbers.values}
        return cls(SiteLoad.from_table(table, site, directory, own))

    @property
    def context(self) -> Context:
        """Name and digest of the site, users, share of interactions that only read, and each state's share."""
        browsers = self.browsers
        return browsers.context(f"site {browsers.site.name} {browsers.digest()}")

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """Asks for the first page once; changes nothing.

        Raises:
            LoadError: the site cannot be reached, or the page is not as it must be.
        """
        started = time.monotonic()
        self.browsers.try_pages(endpoint)
        return Preparation(time.monotonic() - started, 0, True, "the pages are the server's own")
