"""YcsbWorkload: the core workloads A to F and mixes of one's own, on one table of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import LoadError
from trimtab.records import Context, Endpoint
from trimtab.workload.base import LoadRun, Preparation, StartState
from trimtab.workload.database import ensure
from trimtab.workload.engine_run import driver_of, start_load
from trimtab.workload.run_database import RunDatabase
from trimtab.workload.ycsb.rows import TABLE, dataset, schema_of
from trimtab.workload.ycsb.settings import YcsbSettings, parse_settings

if TYPE_CHECKING:
    from trimtab._native import Ycsb

__all__ = ["YcsbWorkload"]

_LIKELY_RATE_PER_S = 5_000
"""Operations per second of a small server: YCSB spreads popularity over the records that a run will insert, too, so it wants
to know beforehand how many those will be."""


class YcsbWorkload:
    """The YCSB workload (see `Workload`); immutable after construction."""

    kind = "ycsb"
    protocols: tuple[str, ...] = ("postgresql",)

    def __init__(self, settings: YcsbSettings) -> None:
        self.settings = settings
        is_copied = settings.start_state == "template" or (settings.start_state == "auto" and not settings.is_read_only)
        self.database = RunDatabase(settings.database, is_copied)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, directory: Path = Path()) -> YcsbWorkload:
        """Built from the study file's [workload] table; it names no files, so `directory` does not matter.

        Raises:
            UsageError: an unknown key or a wrong value.
        """
        return cls(parse_settings(settings))

    @property
    def context(self) -> Context:
        """Name, users, share of reading operations, each operation's share, and the number of records."""
        settings = self.settings
        name = settings.name if settings.name != "custom" else _mix_text(settings)
        features = {f"share_{name}": share for name, share in settings.proportions.items()}
        return Context(
            f"ycsb {name} {settings.records} records",
            settings.load.users,
            settings.read_share,
            features | {"records": float(settings.records)} | settings.load.features,
        )

    def with_rate(self, rate_per_s: float) -> YcsbWorkload:
        """The same workload in an open loop of that rate.

        Raises:
            UsageError: the rate is out of reach.
        """
        return YcsbWorkload(replace(self.settings, load=self.settings.load.with_rate(rate_per_s)))

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """Makes the database exist with all records; what is there already is verified and kept."""
        self._check_protocol(endpoint)
        return ensure(endpoint, dataset(self.settings), report)

    def reset(self, endpoint: Endpoint, report: Callable[[str], None]) -> StartState | None:
        """A fresh copy of the records for a run that writes; None for one that only reads."""
        return self.database.reset(endpoint, report)

    def clean_up(self, endpoint: Endpoint) -> None:
        """Drops the copy that runs used.

        Raises:
            LoadError: the server refuses.
        """
        self.database.drop(endpoint)

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun:
        """Starts the load on the run's database, which `reset` has made."""
        self._check_protocol(endpoint)
        there = endpoint.with_database(self.database.name)
        load = self.settings.load
        return start_load(
            driver_of(there),
            self.source(endpoint.protocol, duration_s),
            endpoint=there,
            users=load.users,
            model=load.native(),
            duration_s=duration_s,
            operation_timeout_s=self.settings.operation_timeout_s,
            seed=seed,
        )

    def source(self, dialect: str, duration_s: float) -> Ycsb:
        """The operations as the load engine takes them, for a server that speaks `dialect`."""
        from trimtab._native import Ycsb

        settings = self.settings
        inserts = settings.proportions.get("insert", 0.0) * _LIKELY_RATE_PER_S * duration_s
        return Ycsb(
            dialect=dialect,
            table=TABLE,
            records=settings.records,
            expected_inserts=min(settings.records, int(inserts)),
            distribution=settings.distribution,
            hot_data=settings.hot_data,
            hot_operations=settings.hot_operations,
            reads_all_fields=settings.reads_all_fields,
            writes_all_fields=settings.writes_all_fields,
            scan_length_max=settings.scan_length,
            scan_lengths=settings.scan_lengths,
            validated=settings.is_validated,
            **self._shares(),
            **schema_of(settings),
        )

    def _shares(self) -> dict[str, Any]:
        return dict(self.settings.proportions)

    def _check_protocol(self, endpoint: Endpoint) -> None:
        if endpoint.protocol not in self.protocols:
            raise LoadError(
                f"workload=ycsb cannot drive protocol={endpoint.protocol}", hint="use a target of kind postgresql"
            )


def _mix_text(settings: YcsbSettings) -> str:
    return "+".join(f"{share:.4g} {name}" for name, share in settings.proportions.items())
