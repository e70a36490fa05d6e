"""What the [workload] table of a rubis study says of the data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trimtab.workload.rubis.sizes import Sizes
from trimtab.workload.table import Table

__all__ = ["DATA_KEYS", "RubisData", "read_data"]

DATA_KEYS = ("scale", "active_scale", "bids_on", "description_length", "data_seed")
"""Keys of [workload]."""

_VERSION = 2


@dataclass(frozen=True)
class RubisData:
    """Everything that the rows depend on.

    Attributes:
        scale: 1 is the original's size: a million users.
        active_scale: that of the items for sale, which runs use up; 0: as large as the rest.
        bids_on: "all" items, or only the "active" ones, which are for sale.
        description_length: of the longest description of an item, in characters.
        data_seed: of the random rows.
    """

    scale: float = 0.01
    bids_on: str = "all"
    description_length: int = 8192
    data_seed: int = 1
    active_scale: float = 0.0

    @cached_property
    def sizes(self) -> Sizes:
        """How many rows."""
        return Sizes(self.scale, self.active_scale or self.scale)

    @property
    def content(self) -> dict[str, Any]:
        """The same as JSON: equal content, equal rows."""
        return {
            "workload": "rubis",
            "version": _VERSION,
            "scale": self.scale,
            "active_scale": self.sizes.active_scale,
            "bids_on": self.bids_on,
            "description_length": self.description_length,
            "data_seed": self.data_seed,
        }

    @property
    def scale_text(self) -> str:
        """As a part of 1, and what is not as usual."""
        active, usual = self.sizes.active_scale, RubisData()
        unusual = [f"for sale {active:g}"] if active != self.scale else []
        if self.bids_on != usual.bids_on:
            unusual.append(f"bids on {self.bids_on}")
        if self.description_length != usual.description_length:
            unusual.append(f"descriptions {self.description_length}")
        return f"scale {self.scale:g}" + (f" ({', '.join(unusual)})" if unusual else "")

    @property
    def numbers(self) -> dict[str, int]:
        """Users, the first and the last id of the items that are for sale, and their longest description."""
        sizes = self.sizes
        return {
            "users": sizes.users,
            "first_item": sizes.old_items + 1,
            "last_item": sizes.old_items + sizes.items,
            "description_length": self.description_length,
        }

    @property
    def options(self) -> dict[str, str]:
        """None: the application has no switches."""
        return {}

    @property
    def database(self) -> str:
        """Of the rows as they were made; runs use a copy of it."""
        digest = hashlib.sha256(json.dumps(self.content, sort_keys=True).encode()).hexdigest()[:8]
        return f"trimtab_rubis_{digest}"


def read_data(table: Table) -> RubisData:
    """The data's keys of a [workload] table.

    Raises:
        UsageError: a wrong value.
    """
    return RubisData(
        scale=table.number("scale", 0.01, 0.0001, 10.0),
        bids_on=table.choice("bids_on", ("all", "active"), "all"),
        description_length=table.integer("description_length", 8192, 1, 8192),
        data_seed=table.integer("data_seed", 1, 0, 2**31 - 1),
        active_scale=table.number("active_scale", 0.0, 0.0001, 10.0) if "active_scale" in table else 0.0,
    )
