"""TpchWorkload: mixes of concurrent query streams, power runs and throughput runs; derived from TPC-H."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import LoadError
from trimtab.records import Context, DataRights, Endpoint
from trimtab.workload.base import LoadRun, Preparation, StartState, require_protocol
from trimtab.workload.server import ServerError, server_of
from trimtab.workload.sql_run import start_sql_load
from trimtab.workload.tpch.orders import order_of
from trimtab.workload.tpch.parameters import QUERIES
from trimtab.workload.tpch.prepare import Disk, Report, prepare
from trimtab.workload.tpch.queries import sequence
from trimtab.workload.tpch.refresh import refresh_pair, remove_leftovers
from trimtab.workload.tpch.settings import TpchSettings, mix_text, parse_settings

if TYPE_CHECKING:
    from trimtab._native import Operation, Stream

__all__ = ["TpchWorkload"]

Statements = tuple[str, ...]

N_PARAMETER_SETS = 64
"""Texts of a mix stream before it starts again: enough that the server's cache does not learn single queries."""

N_PASSES = 8
"""Passes of a repeated power or throughput run, each with its own parameters, before they come again."""


class TpchWorkload:
    """Analytical queries derived from TPC-H: mixes of concurrent streams, power and throughput runs.

    See `Workload`; immutable after construction.
    """

    kind = "tpch"
    protocols: tuple[str, ...] = ("postgresql", "mysql")

    def __init__(self, settings: TpchSettings, *, disk: Disk | None = None) -> None:
        self.settings = settings
        self._disk = disk

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, directory: Path = Path()) -> TpchWorkload:
        """Built from the study file's [workload] table; it names no files, so `directory` does not matter.

        Raises:
            UsageError: an unknown key or a wrong value.
        """
        return cls(parse_settings(settings))

    @property
    def context(self) -> Context:
        """Name, clients, share of reading operations, and each query's share of the streams."""
        settings = self.settings
        if settings.run == "mix":
            clients = sum(settings.mix.values())
            shares = {f"q{query}": n / clients for query, n in settings.mix.items()}
            name = mix_text(settings.mix)
        else:
            clients = 1 if settings.run == "power" else settings.n_streams + self._has_refresh_stream
            shares = {f"q{query}": 1 / len(QUERIES) for query in QUERIES}
            name = settings.run if settings.run == "power" else f"throughput {settings.n_streams} streams"
            name += " with refresh" if settings.has_refresh else ""
        # A pass of 22 queries has one pair of refresh functions.
        read_share = len(QUERIES) / (len(QUERIES) + 2) if settings.has_refresh else 1.0
        where = f"scale {settings.scale:g}" + ("" if settings.schema == "standard" else f" {settings.schema}")
        return Context(f"tpch {name} {where}", clients, read_share, shares | {"scale": settings.scale})

    @property
    def _has_refresh_stream(self) -> bool:
        """Whether RF1 and RF2 have a stream of their own, as the specification's throughput test does.

        An endless run has none: each stream then runs its pair itself, which keeps one pair to 22 queries.
        """
        settings = self.settings
        return settings.run == "throughput" and settings.has_refresh and not settings.is_repeated

    @property
    def rights(self) -> DataRights:
        """What a user must be allowed to do with the data."""
        return DataRights(
            database=self.settings.database,
            makes_databases=True,
            is_users_own=False,
            reads_only=not self.settings.has_refresh,
        )

    def prepare(self, endpoint: Endpoint, report: Report) -> Preparation:
        """Makes the database exist with all its data; what is there already is verified and kept."""
        require_protocol(self.kind, self.protocols, endpoint)
        settings = self.settings
        return prepare(
            endpoint,
            database=settings.database,
            scale=settings.scale,
            schema=settings.schema,
            report=report,
            disk=self._disk,
        )

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun:
        """Starts the load on the workload's database."""
        require_protocol(self.kind, self.protocols, endpoint)
        return start_sql_load(
            endpoint.with_database(self.settings.database),
            self.streams(seed),
            duration_s=duration_s,
            operation_timeout_s=self.settings.query_timeout_s,
        )

    def reset(self, endpoint: Endpoint, report: Report) -> StartState | None:
        """Deletes the orders that a run which was cut off has left; None without refresh functions, which alone write.

        Raises:
            LoadError: the server refuses.
        """
        if not self.settings.has_refresh:
            return None
        started = time.monotonic()
        there = endpoint.with_database(self.settings.database)
        try:
            server = server_of(there)
            with server.connect() as session:
                n = remove_leftovers(server, session)
        except ServerError as error:
            raise LoadError(
                f"cannot undo the refresh functions of the last run: endpoint={there}: {error.message}",
                hint="prepare the data again",
            ) from error
        note = f"orders taken back the first time: {n}"
        return StartState("inverse operations", time.monotonic() - started, note, is_fresh=n > 0)

    def clean_up(self, endpoint: Endpoint) -> None:
        """Takes the orders of the last run back.

        Raises:
            LoadError: the server refuses.
        """
        self.reset(endpoint, lambda line: None)

    def operations(self, seed: int) -> list[list[tuple[str, Statements]]]:
        """Each stream's operations as (label, statements), in order; a function of the settings and `seed` alone."""
        settings = self.settings
        if settings.run == "mix":
            queries = [query for query, n in settings.mix.items() for _ in range(n)]
            return [
                [
                    (f"q{query}", (text,))
                    for text in sequence(query, N_PARAMETER_SETS, seed=seed, stream=i, scale=settings.scale)
                ]
                for i, query in enumerate(queries)
            ]
        if settings.run == "power":
            return [self._passes(seed, 0)]
        streams = [self._passes(seed, stream) for stream in range(1, settings.n_streams + 1)]
        if self._has_refresh_stream:
            streams.append([part for pair in range(settings.n_streams) for part in self._pair(seed, pair)])
        return streams

    def _passes(self, seed: int, stream: int) -> list[tuple[str, Statements]]:
        """The 22 queries in the order of `stream`, once or `N_PASSES` times; each pass with its refresh pair.

        Pairs are large at large scales, so there are fewer different ones then.
        """
        n = N_PASSES if self.settings.is_repeated else 1
        n_pairs = max(1, min(n, int(n / self.settings.scale)))
        texts = {query: sequence(query, n, seed=seed, stream=stream, scale=self.settings.scale) for query in QUERIES}
        operations: list[tuple[str, Statements]] = []
        for i in range(n):
            queries: list[tuple[str, Statements]] = [(f"q{query}", (texts[query][i],)) for query in order_of(stream)]
            if self.settings.has_refresh and not self._has_refresh_stream:
                first, second = self._pair(seed, stream * n_pairs + i % n_pairs)
                queries = [first, *queries, second]
            operations += queries
        return operations

    def _pair(self, seed: int, pair: int) -> list[tuple[str, Statements]]:
        made = refresh_pair(pair, scale=self.settings.scale, seed=seed)
        return [("rf1", made.inserts), ("rf2", made.deletes)]

    def streams(self, seed: int) -> list[Stream]:
        """The operations as the load engine takes them."""
        from trimtab._native import Operation, Stream

        def built(label: str, statements: Statements) -> Operation:
            return Operation(label, statements, transaction=label.startswith("rf"))

        is_repeated = self.settings.run == "mix" or self.settings.is_repeated
        return [
            Stream([built(label, statements) for label, statements in operations], repeat=is_repeated)
            for operations in self.operations(seed)
        ]
