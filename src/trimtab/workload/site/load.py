"""SiteLoad: emulated browsers on a site, in a closed or an open loop; what the workloads of web applications are made of."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from trimtab.errors import LoadError, UsageError
from trimtab.load import build_driver, build_source
from trimtab.measure import SecondLog
from trimtab.records import Context, Endpoint
from trimtab.workload.base import LoadRun
from trimtab.workload.engine_workload import start_source
from trimtab.workload.http.settings import Site, endpoint_of, refuse_tls_of_plain, site_of
from trimtab.workload.load_model import LoadModel
from trimtab.workload.once import failure_of
from trimtab.workload.server import ANY_TARGET
from trimtab.workload.site.file import SiteFile
from trimtab.workload.site.interactions import remarks
from trimtab.workload.site.plan import plain_site
from trimtab.workload.site.shares import session_pages, stationary_shares
from trimtab.workload.table import Table

__all__ = ["SITE_KEYS", "SiteLoad"]

SITE_KEYS = (
    "mix",
    "url",
    "think_law",
    "think_scale",
    "reading",
    "rate_of",
    "images",
    "tls",
    "root_certificates",
    "operation_timeout",
    "load",
)
"""Keys of a [workload] table that `SiteLoad.from_table` reads."""

_PAUSES = 2
"""Of each browser of a closed loop, after which the mix is right."""
_ROUNDS = 8
"""Pages of each browser of an open loop, after which it is: all begin with the first one, and the schedule takes them in turn."""
_SESSIONS = 3
"""Mean lengths of a session, after which 95 of 100 are under way that there will be, if they end at random."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteLoad:
    """Browsers on a site.

    Attributes:
        site: its file.
        mix: which of its transition tables.
        address: None: the target's own.
        numbers: in place of the file's.
        think_scale: all think times are multiplied with it.
        is_literal: how tables are read whose rows do not add up to 1.
        counts_sessions: in an open loop sessions come by the schedule, not interactions.
        reads_images: whether browsers read images.
        tls, root_certificates: of an https site.
        operation_timeout_s: an interaction that takes longer is cut off.
        load: users and load model.
    """

    site: SiteFile
    mix: str
    address: Site | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    think_scale: float = 1.0
    is_literal: bool = False
    counts_sessions: bool = False
    reads_images: bool = True
    tls: str = "verify-full"
    root_certificates: str = ""
    operation_timeout_s: float = 30.0
    load: LoadModel

    @classmethod
    def from_table(
        cls, table: Table, site: SiteFile, directory: Path, numbers: Mapping[str, int] | None = None
    ) -> Self:
        """Reads the keys `SITE_KEYS` of a [workload] table; `numbers` count instead of the site file's.

        Raises:
            UsageError: a wrong value.
        """
        load = LoadModel.from_settings(table.values.get("load", {}))
        if load.think_s:
            raise UsageError(
                f"[workload.load] think={load.think_s:g}s cannot be set: browsers think as their site says",
                hint="remove it; think_scale in [workload] makes all think times shorter or longer",
            )
        counts_sessions = table.choice("rate_of", ("interactions", "sessions"), "interactions") == "sessions"
        if counts_sessions and not load.is_open:
            raise UsageError(
                '[workload] rate_of="sessions" has no meaning in a closed loop', hint="add rate to [workload.load]"
            )
        address = site_of(table.text("url")) if "url" in table else None
        refuse_tls_of_plain(table, address)
        roots = table.text("root_certificates") if "root_certificates" in table else ""
        made = cls(
            site=_thinking(table, site),
            mix=table.choice("mix", tuple(site.mixes), next(iter(site.mixes))),
            address=address,
            numbers=numbers or {},
            think_scale=table.number("think_scale", 1.0, 0.0, 1000.0),
            is_literal=table.choice("reading", ("normalised", "literal"), "normalised") == "literal",
            counts_sessions=counts_sessions,
            reads_images=table.flag("images", True),
            tls=table.choice("tls", ("verify-full", "verify-ca", "require"), "verify-full"),
            root_certificates=str(directory / roots) if roots else "",
            operation_timeout_s=table.seconds("operation_timeout", "30s"),
            load=load,
        )
        made.check()
        return made

    @property
    def protocols(self) -> tuple[str, ...]:
        """Endpoint protocols that it can drive."""
        return ("http",) if self.address is None else ANY_TARGET

    def check(self) -> None:
        """Raises UsageError when the site does not fit together."""
        try:
            build_source(self.source())
            self._driver(self.address or Site(host="localhost", port=80))
        except ValueError as error:
            raise UsageError(f"site={self.site.name}: {error}", hint="see docs/reference/site.md") from error

    def with_numbers(self, numbers: Mapping[str, int]) -> Self:
        """The same with other numbers, for instance of items and users."""
        return replace(self, numbers={**self.numbers, **numbers})

    def with_rate(self, rate_per_s: float) -> Self:
        """The same in an open loop of that rate.

        Raises:
            UsageError: the rate is out of reach.
        """
        return replace(self, load=self.load.with_rate(rate_per_s))

    def with_threads(self, least: int) -> Self:
        """See `ThreadedWorkload`."""
        load = self.load.with_threads(least)
        return self if load is self.load else replace(self, load=load)

    def at_full_speed(self) -> Self:
        """See `PausingWorkload`."""
        if not self.load.pauses and not self.think_s:
            return self
        return replace(self, think_scale=0.0, counts_sessions=False, load=self.load.at_full_speed())

    def shares(self) -> dict[str, float]:
        """State -> share of all interactions in the long run."""
        return stationary_shares(self.site.mix(self.mix), self.site.start, is_literal=self.is_literal)

    @property
    def think_s(self) -> float:
        """Mean pause of a browser between two interactions; 0 in an open loop of interactions."""
        if self.load.is_open and not self.counts_sessions:
            return 0.0
        if self.site.think.is_exponential:
            return self.site.think.mean_s * self.think_scale
        shares = self.shares()
        return self.think_scale * sum(shares[state.name] * state.wait_s for state in self.site.states)

    @property
    def arrivals_s(self) -> float:
        """See `ArrivingWorkload`: until the mix of pages is right, and in an open loop of sessions their number, too.

        0 where the rate changes: which of a run's seconds are measured is then for the study file to say.
        """
        if self.load.profile is not None:
            return 0.0
        if self.counts_sessions:
            return _SESSIONS * self._session_s
        if self.load.is_open:
            return _ROUNDS * self.load.users / self.load.rate_per_s
        return self.load.start_s + _PAUSES * self.think_s

    @property
    def _session_s(self) -> float:
        """Mean length of a session, in the time that its user thinks."""
        site = self.site
        pages = session_pages(site.mix(self.mix), site.start, is_literal=self.is_literal)
        by_table_s = self.think_s * (min(pages, site.steps_max) - 1)
        if site.lasts is None:
            return by_table_s
        mean_s, cap_s = site.lasts.mean_s, site.lasts.cap_s
        return min(by_table_s, self.think_scale * mean_s * -math.expm1(-cap_s / mean_s))

    @property
    def unusual(self) -> tuple[str, ...]:
        """What the browsers do otherwise than those of Trimtab's own sites usually do; a digest of the site tells it, too."""
        words = {
            "fixed pauses": not self.site.think.is_exponential,
            "by sessions": self.counts_sessions,
            "without images": not self.reads_images,
        }
        return tuple(word for word, holds in words.items() if holds)

    def context(self, name: str, unusual: Sequence[str] = ()) -> Context:
        """For the searcher: `name` with the mix, how its table is read and what else is `unusual`, browsers, the share of
        interactions that only read, and each state's share."""
        shares = self.shares()
        writes = sum(shares[state.name] for state in self.site.states if state.writes)
        features = {f"share_{state}": share for state, share in shares.items()} | self.load.features
        features["think_scale"] = self.think_scale
        reading = ("literal",) if self.is_literal else ()
        return Context(" ".join((name, self.mix, *reading, *unusual)), self.load.users, 1.0 - writes, features)

    def digest(self) -> str:
        """Eight characters that differ where what is asked for differs."""
        return hashlib.sha256(repr(self.source()).encode()).hexdigest()[:8]

    def source(self) -> dict[str, Any]:
        """What browsers do, as a `LoadPlan` holds it."""
        return plain_site(
            self.site,
            self.mix,
            numbers=self.numbers,
            think_scale=self.think_scale,
            is_literal=self.is_literal,
            reads_images=self.reads_images,
            counts_sessions=self.counts_sessions,
        )

    def remarks(self, log: SecondLog, window_s: tuple[float, float]) -> tuple[str, ...]:
        """What TPC-W's rules say of a window: WIPS with its band, and the limits of the interactions."""
        is_paced = not self.load.is_open and self.site.think.is_exponential
        think_s = self.site.think.mean_s * self.think_scale if is_paced else 0.0
        return remarks(log, self.site, int(window_s[0]), int(window_s[1]), think_s)

    def try_pages(self, endpoint: Endpoint) -> None:
        """Asks for the first page of a session, with its images.

        Raises:
            LoadError: the site cannot be reached, or the page is not as it must be.
        """
        there, start = self.endpoint(endpoint), self.site.start
        site, limit_s = Site.at(there), self.operation_timeout_s
        words = failure_of(there, self._driver(site), self.source(), label=start, operation_timeout_s=limit_s)
        if words:
            raise LoadError(
                f"state={start} of site={self.site.name} at {site} cannot be used: {words}",
                hint="open the page by hand; the site file says what it must be",
            )

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun:
        """Starts the load.

        Raises:
            LoadError: the site cannot be reached.
        """
        there = self.endpoint(endpoint)
        return start_source(
            self.load,
            there,
            access=self._access(Site.at(there)),
            source=self.source(),
            operation_timeout_s=self.operation_timeout_s,
            duration_s=duration_s,
            seed=seed,
        )

    def endpoint(self, endpoint: Endpoint) -> Endpoint:
        """Where the pages are: as the study file says, or the target itself.

        Raises:
            LoadError: the target serves no pages.
        """
        return endpoint_of(self.address, endpoint, f"site={self.site.name} cannot be asked of")

    def _access(self, site: Site) -> dict[str, Any]:
        return site.access(self.tls, self.root_certificates)

    def _driver(self, site: Site) -> Any:
        return build_driver("http", self._access(site))


def _thinking(table: Table, site: SiteFile) -> SiteFile:
    law = table.choice("think_law", ("exponential", "fixed"), "exponential" if site.think.is_exponential else "fixed")
    if law == "fixed" and not any(state.wait_s for state in site.states):
        raise UsageError(
            f"[workload] think_law={law!r} cannot be set: no state of site={site.name} has a wait",
            hint='add wait = "3s" to its states, or remove think_law',
        )
    return replace(site, think=replace(site.think, is_exponential=law == "exponential"))
