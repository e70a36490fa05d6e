"""What the [workload] table of a tpcw study says of the data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from trimtab.errors import UsageError
from trimtab.workload.table import Table

__all__ = ["DATA_KEYS", "TpcwData", "read_data"]

DATA_KEYS = ("customers", "items", "data_seed", "numbering", "best_sellers")
"""Keys of [workload]."""

_VERSION = 2
_ITEMS = (1000, 10_000, 100_000, 1_000_000, 10_000_000)
_SEARCH_SKEW = dict(zip(_ITEMS, (63, 511, 4095, 32_767, 524_287), strict=True))
_FEWEST, _LEAST_SKEW, _FIRST = 100, 1023, 10_000
_LONGEST_KEPT_S = 86_400


@dataclass(frozen=True)
class TpcwData:
    """Everything that the rows, and the application's behaviour, depend on.

    Attributes:
        customers: 2,880 for each browser that the data are meant for.
        items: books; a power of ten from a thousand on.
        data_seed: of the random rows.
        numbering: how new rows get their numbers: from the database's "sequence"s, or under one "lock" of the application.
        best_sellers_s: seconds for which lists of best sellers are kept; 0: each is computed.
    """

    customers: int = 2880
    items: int = 1000
    data_seed: int = 1
    numbering: str = "sequence"
    best_sellers_s: int = 0

    @property
    def content(self) -> dict[str, Any]:
        """What the rows depend on, as JSON."""
        return {
            "workload": "tpcw",
            "version": _VERSION,
            "customers": self.customers,
            "items": self.items,
            "data_seed": self.data_seed,
        }

    @property
    def scale_text(self) -> str:
        """Both sizes, and what the application does not do as usual."""
        lock = ", numbers under a lock" if self.numbering == "lock" else ""
        kept = f", best sellers kept {self.best_sellers_s} s" if self.best_sellers_s else ""
        return f"{self.customers} customers {self.items} items{lock}{kept}"

    @property
    def numbers(self) -> dict[str, int]:
        """Customers and items, and how skewed browsers choose among them (A of NURand)."""
        skew, limit = _LEAST_SKEW, _FIRST
        while self.customers >= limit:
            skew, limit = 4 * skew + 3, 4 * limit
        return {
            "customers": self.customers,
            "customers_skew": skew,
            "items": self.items,
            "search_skew": _SEARCH_SKEW[self.items],
        }

    @property
    def database(self) -> str:
        """Of the rows as they were made; runs use a copy of it."""
        digest = hashlib.sha256(json.dumps(self.content, sort_keys=True).encode()).hexdigest()[:8]
        return f"trimtab_tpcw_{digest}"

    @property
    def options(self) -> dict[str, str]:
        """System properties of the application."""
        return {"tpcw.numbering": self.numbering, "tpcw.best_sellers_s": str(self.best_sellers_s)}


def read_data(table: Table) -> TpcwData:
    """The data's keys of a [workload] table.

    Raises:
        UsageError: a wrong value.
    """
    items = table.integer("items", _ITEMS[0], 1, _ITEMS[-1])
    if items not in _ITEMS:
        raise UsageError(
            f"[workload] items={items} is not a size of the bookshop", hint=f"use one of: {', '.join(map(str, _ITEMS))}"
        )
    return TpcwData(
        customers=table.integer("customers", 2880, _FEWEST, 100_000_000),
        items=items,
        data_seed=table.integer("data_seed", 1, 0, 2**31 - 1),
        numbering=table.choice("numbering", ("sequence", "lock"), "sequence"),
        best_sellers_s=_best_sellers_s(table) if "best_sellers" in table else 0,
    )


def _best_sellers_s(table: Table) -> int:
    kept_s = table.seconds("best_sellers", "30s", -1)
    if not kept_s.is_integer() or not 0 <= kept_s <= _LONGEST_KEPT_S:
        raise table.refuse(
            "best_sellers", f"use whole seconds from 0 to {_LONGEST_KEPT_S}: the application counts them"
        )
    return int(kept_s)
