"""TpcwWorkload: the bookshop of TPC-W under emulated browsers."""

from __future__ import annotations

from typing import ClassVar

from trimtab.workload.database import Dataset
from trimtab.workload.table import Table
from trimtab.workload.tpcw.settings import DATA_KEYS, TpcwData, read_data
from trimtab.workload.tpcw.tables import dataset
from trimtab.workload.webapp.workload import AppWorkload

__all__ = ["TpcwWorkload"]


class TpcwWorkload(AppWorkload):
    """A bookshop derived from TPC-W: 14 interactions, mixes "browsing", "shopping" and "ordering". See `AppWorkload`."""

    kind: ClassVar[str] = "tpcw"
    data_keys: ClassVar[tuple[str, ...]] = DATA_KEYS
    some_page: ClassVar[str] = "search"
    data: TpcwData

    @classmethod
    def read_data(cls, table: Table) -> TpcwData:
        """The keys of the data."""
        return read_data(table)

    @property
    def dataset(self) -> Dataset:
        """What the database is to hold."""
        return dataset(self.data)
