"""YcsbWorkload: the core workloads A to F and mixes of one's own, on one table of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trimtab.errors import UsageError
from trimtab.records import Context, Endpoint
from trimtab.workload.base import Preparation
from trimtab.workload.database import Dataset
from trimtab.workload.generated_workload import GeneratedWorkload
from trimtab.workload.ycsb.rows import PAIRS, TABLE, dataset, dialect_of, schema_of
from trimtab.workload.ycsb.settings import YcsbSettings, parse_settings

__all__ = ["YcsbWorkload"]

_LIKELY_RATE_PER_S = 5_000
"""Operations per second of a small server: YCSB spreads popularity over the records that a run will insert, too, so it wants
to know beforehand how many those will be."""


class YcsbWorkload(GeneratedWorkload):
    """Short operations on single records: YCSB's core workloads A to F and mixes of your own.

    See `Workload`; immutable after construction.
    """

    kind = "ycsb"
    protocols = ("postgresql", "mysql", "cql", *PAIRS)
    settings: YcsbSettings

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, directory: Path = Path()) -> YcsbWorkload:
        """Built from the study file's [workload] table; it names no files, so `directory` does not matter.

        Raises:
            UsageError: an unknown key or a wrong value.
        """
        return cls(parse_settings(settings))

    @property
    def context(self) -> Context:
        """Name with the number of records and what of them and of the questions is not as usual, users, share of reading
        operations, and each operation's share."""
        settings = self.settings
        name = settings.name if settings.name != "custom" else _mix_text(settings)
        unusual = "".join(f", {word}" for word in (*settings.shape, *settings.manner))
        features = {f"share_{name}": share for name, share in settings.proportions.items()}
        return Context(
            f"ycsb {name} {settings.records} records{unusual}",
            settings.load.users,
            settings.read_share,
            features | {"records": float(settings.records)} | settings.load.features,
        )

    @property
    def needs_fresh_data(self) -> bool:
        """Whether a run cannot go on from what another has left: records are numbered, and inserted anew in each run."""
        return self.settings.proportions.get("insert", 0.0) > 0

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """As `Workload`.

        Raises:
            UsageError: runs that insert would go on from each other's data, on a server that refuses a record that is there.
        """
        if self.needs_fresh_data and self.settings.start_state == "none" and endpoint.protocol != "cql":
            raise UsageError(
                f"[workload] start_state='none' with inserts on {endpoint.protocol}: each run inserts the same records, and "
                "from the second run on they are there already",
                hint='use start_state = "auto", or a workload without inserts ("A", "B", "C", "F")',
            )
        return super().prepare(endpoint, report)

    @property
    def dataset(self) -> Dataset:
        """What the database is to hold."""
        return dataset(self.settings)

    def source(self, there: Endpoint, duration_s: float) -> dict[str, Any]:
        """See `EngineWorkload`."""
        settings = self.settings
        inserts = settings.proportions.get("insert", 0.0) * _LIKELY_RATE_PER_S * duration_s
        return {
            "kind": "ycsb",
            "dialect": dialect_of(there),
            "table": TABLE,
            "records": settings.records,
            "expected_inserts": min(settings.records, int(inserts)),
            "distribution": settings.distribution,
            "hot_data": settings.hot_data,
            "hot_operations": settings.hot_operations,
            "reads_all_fields": settings.reads_all_fields,
            "writes_all_fields": settings.writes_all_fields,
            "scan_length_max": settings.scan_length,
            "scan_lengths": settings.scan_lengths,
            "validated": settings.is_validated,
            **self._shares(),
            **schema_of(settings),
        }

    def _shares(self) -> dict[str, Any]:
        return dict(self.settings.proportions)


def _mix_text(settings: YcsbSettings) -> str:
    return "+".join(f"{share:.4g} {name}" for name, share in settings.proportions.items())
