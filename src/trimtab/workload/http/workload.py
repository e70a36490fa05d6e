"""HttpWorkload: pages of a web server, each with its share, asked by the native engine."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from trimtab.errors import LoadError, UsageError
from trimtab.load import build_driver, build_source
from trimtab.records import Context, Endpoint
from trimtab.workload.base import LoadRun, Preparation
from trimtab.workload.engine_workload import LoadedWorkload, start_source
from trimtab.workload.http.settings import HttpSettings, Page, Site, endpoint_of, parse_settings
from trimtab.workload.once import failure_of
from trimtab.workload.server import ANY_TARGET

__all__ = ["HttpWorkload"]


class HttpWorkload(LoadedWorkload):
    """Pages with shares, in a closed or an open loop. A `Workload`; immutable after construction.

    Args:
        settings: the table, checked.

    Raises:
        UsageError: a page that cannot be asked for.
    """

    kind: ClassVar[str] = "http"
    settings: HttpSettings

    def __init__(self, settings: HttpSettings) -> None:
        self.settings = settings
        self.protocols = ("http",) if settings.site is None else ANY_TARGET
        try:
            build_source(self._source(settings.pages))
            self._driver(settings.site or Site(host="localhost", port=80))
        except ValueError as error:
            raise UsageError(f"[workload] {error}", hint="see docs/reference/http.md") from error

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, directory: Path = Path()) -> HttpWorkload:
        """Built from the study file's [workload] table; its files are relative to `directory`.

        Raises:
            UsageError: an unknown key or a wrong value.
        """
        return cls(parse_settings(settings, directory))

    @property
    def context(self) -> Context:
        """Number of pages and a digest of them, users, share of pages that only read, and each page's share."""
        settings = self.settings
        total = sum(page.share for page in settings.pages)
        reads = sum(page.share for page in settings.pages if page.is_reading) / total
        text = repr((settings.pages, settings.follows, settings.keeps_cookies, settings.is_fresh))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        shares = {f"share_{page.name}": page.share / total for page in settings.pages}
        return Context(
            f"http {len(settings.pages)} pages {digest}", settings.load.users, reads, shares | settings.load.features
        )

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """Asks for every page once; changes nothing but what those that write do.

        Raises:
            LoadError: the server cannot be reached, or a page is not as it must be; the message names it.
        """
        started = time.monotonic()
        there = self._endpoint(endpoint)
        for page in self.settings.pages:
            if page.is_reading and page.share > 0:
                self._try(there, page)
        return Preparation(time.monotonic() - started, 0, True, "the pages are the server's own")

    def _try(self, there: Endpoint, page: Page) -> None:
        site = Site.at(there)
        source, limit_s = self._source([replace(page, share=1.0)]), self.settings.operation_timeout_s
        words = failure_of(there, self._driver(site), source, label=page.name, operation_timeout_s=limit_s)
        if words:
            raise LoadError(
                f"page={page.name!r} of {site} cannot be used: {words}",
                hint="open it by hand; status and text in the study file say what it must be",
            )

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun:
        """Starts the load."""
        there, settings = self._endpoint(endpoint), self.settings
        return start_source(
            settings.load,
            there,
            access=self._access(Site.at(there)),
            source=self._source(settings.pages),
            operation_timeout_s=settings.operation_timeout_s,
            duration_s=duration_s,
            seed=seed,
        )

    def _endpoint(self, endpoint: Endpoint) -> Endpoint:
        return endpoint_of(self.settings.site, endpoint, "workload=http cannot drive")

    def _access(self, site: Site) -> dict[str, Any]:
        return site.access(self.settings.tls, self.settings.root_certificates, self.settings.headers)

    def _driver(self, site: Site) -> Any:
        return build_driver("http", self._access(site))

    def _source(self, pages: Any) -> dict[str, Any]:
        settings = self.settings
        return {
            "kind": "pages",
            "pages": [page.plain() for page in pages],
            "follow": settings.follows,
            "cookies": settings.keeps_cookies,
            "fresh": settings.is_fresh,
        }
