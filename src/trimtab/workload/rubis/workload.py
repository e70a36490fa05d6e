"""RubisWorkload: the auction site RUBiS under emulated browsers."""

from __future__ import annotations

from typing import ClassVar

from trimtab.workload.database import Dataset
from trimtab.workload.rubis.settings import DATA_KEYS, RubisData, read_data
from trimtab.workload.rubis.tables import dataset
from trimtab.workload.table import Table
from trimtab.workload.webapp.workload import AppWorkload

__all__ = ["RubisWorkload"]


class RubisWorkload(AppWorkload):
    """RUBiS, an auction site: 27 states, mixes "bidding" and "browsing". See `AppWorkload`."""

    kind: ClassVar[str] = "rubis"
    data_keys: ClassVar[tuple[str, ...]] = DATA_KEYS
    some_page: ClassVar[str] = "categories"
    data: RubisData

    @classmethod
    def read_data(cls, table: Table) -> RubisData:
        """The keys of the data."""
        return read_data(table)

    @property
    def dataset(self) -> Dataset:
        """What the database is to hold."""
        return dataset(self.data)
