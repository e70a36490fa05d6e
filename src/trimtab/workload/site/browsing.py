"""BrowsingWorkload: what all workloads of emulated browsers have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from trimtab.measure import SecondLog
from trimtab.records import Endpoint
from trimtab.workload.base import LoadRun
from trimtab.workload.site.load import SiteLoad

__all__ = ["BrowsingWorkload"]


class BrowsingWorkload(ABC):
    """A workload whose load is emulated browsers; immutable after construction.

    Args:
        browsers: what they ask of which site.
    """

    def __init__(self, browsers: SiteLoad) -> None:
        self.browsers = browsers
        self.protocols = browsers.protocols

    @abstractmethod
    def _with(self, browsers: SiteLoad) -> Self:
        """The same with other browsers."""

    def with_rate(self, rate_per_s: float) -> Self:
        """The same browsers in an open loop of that rate.

        Raises:
            UsageError: the rate is out of reach.
        """
        return self._with(self.browsers.with_rate(rate_per_s))

    def with_threads(self, least: int) -> Self:
        """See `ThreadedWorkload`."""
        browsers = self.browsers.with_threads(least)
        return self if browsers is self.browsers else self._with(browsers)

    def at_full_speed(self) -> Self:
        """See `PausingWorkload`."""
        browsers = self.browsers.at_full_speed()
        return self if browsers is self.browsers else self._with(browsers)

    @property
    def arrivals_s(self) -> float:
        """See `SiteLoad.arrivals_s`."""
        return self.browsers.arrivals_s

    @property
    def has_profile(self) -> bool:
        """See `ProfiledWorkload`."""
        return self.browsers.load.profile is not None

    def remarks(self, log: SecondLog, window_s: tuple[float, float]) -> tuple[str, ...]:
        """See `SiteLoad.remarks`."""
        return self.browsers.remarks(log, window_s)

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun:
        """Starts the browsers.

        Raises:
            LoadError: the site cannot be reached.
        """
        return self.browsers.start(endpoint, seed=seed, duration_s=duration_s)
