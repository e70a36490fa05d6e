"""ObserveWorkload: the traffic that a server has anyway."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from trimtab.errors import LoadError
from trimtab.records import METRICS, Context, Endpoint
from trimtab.workload.base import LoadRun, Preparation
from trimtab.workload.observe.counters import STATISTICS, Counters, Statistics, counters_of
from trimtab.workload.observe.run import ObserveRun
from trimtab.workload.server import Session, SqlServer, server_of
from trimtab.workload.table import Table

__all__ = ["ObserveWorkload"]

_KEYS = ("kind", "statistics", "clients", "read_share", "patience")
_POLL_S = 0.5
_FEW_PER_S = 5.0
"""Less is no traffic: a server counts our own looks as well."""


class ObserveWorkload:
    """Asks nothing: what others ask of the server is read from its counters, once a second. A `Workload`.

    Throughput is that of the traffic, whatever the config, as long as the server keeps up: latency_mean is what to tune for.

    Args:
        statistics: what to read: "statements", "transactions", or "auto": the best that the server has.
        clients: of the application, usually; for plays and for the context.
        read_share: of its operations, usually; for the context.
        patience_s: how long to wait for the first traffic.
    """

    kind: ClassVar[str] = "observe"
    protocols: ClassVar[tuple[str, ...]] = ("postgresql", "mysql")

    def __init__(self, *, statistics: Statistics, clients: int, read_share: float, patience_s: float) -> None:
        self.statistics, self.clients, self.read_share, self.patience_s = statistics, clients, read_share, patience_s

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, directory: Path | None = None) -> ObserveWorkload:
        """A workload from its [workload] table.

        Raises:
            UsageError: an unknown key or a wrong value.
        """
        table = Table(settings, "[workload]", _KEYS)
        return cls(
            statistics=table.choice("statistics", STATISTICS, "auto"),  # type: ignore[arg-type]
            clients=table.integer("clients", 8, 1, 1_000_000),
            read_share=table.number("read_share", 0.5, 0.0, 1.0),
            patience_s=table.seconds("patience", "10s"),
        )

    @property
    def context(self) -> Context:
        """Traffic of its own kind: nothing is known of it but what the study file says, and whose sessions they are."""
        return Context("observed traffic", self.clients, self.read_share, {"lasting_sessions": 1.0})

    def metrics(self, endpoint: Endpoint) -> tuple[str, ...]:
        """What the server's counters give.

        Raises:
            LoadError: it does not answer, or does not count what is asked for.
        """
        with _server(endpoint).connect() as session:
            counted = counters_of(session, endpoint.protocol, self.statistics).read(session)
        if counted.busy_s is None:
            return ("throughput",)
        return tuple(METRICS) if counted.by_us else ("throughput", "latency_mean")

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """Waits until there is traffic, and says what is read of it.

        Raises:
            LoadError: the server does not count what is asked for, or nothing comes.
        """
        started = time.monotonic()
        with _server(endpoint).connect() as session:
            counters = counters_of(session, endpoint.protocol, self.statistics)
            report(f"reading {counters.what}s from {counters.source}")
            if counters.read(session).busy_s is None:
                report("the server does not count how long they take: only throughput is measured")
            self._await_traffic(session, counters)
        return Preparation(time.monotonic() - started, 0, True, "the application's own data")

    def _await_traffic(self, session: Session, counters: Counters) -> None:
        started, before = time.monotonic(), counters.read(session).n
        while True:
            time.sleep(_POLL_S)
            waited_s = time.monotonic() - started
            if counters.read(session).n - before > _FEW_PER_S * (waited_s + 1.0):
                return
            if waited_s > self.patience_s:
                raise LoadError(
                    f"fewer than {_FEW_PER_S:g} {counters.what}s per second came within patience={self.patience_s:g}s",
                    hint="start the application, or use another workload, which makes the load itself",
                )

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun:
        """Begins to look; `seed` changes nothing.

        Raises:
            LoadError: the server does not answer, or does not count what is asked for.
        """
        server = _server(endpoint)
        with server.connect() as session:
            counters = counters_of(session, endpoint.protocol, self.statistics)
        return ObserveRun(server.connect, counters, clients=self.clients, duration_s=duration_s)


def _server(endpoint: Endpoint) -> SqlServer:
    if endpoint.protocol not in ObserveWorkload.protocols:
        raise LoadError(
            f'[workload] kind="observe" cannot read the counters of protocol={endpoint.protocol}',
            hint=f"observe a target that speaks one of: {', '.join(ObserveWorkload.protocols)}",
        )
    return server_of(endpoint)
