"""How much of what the auction site has, by scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

__all__ = ["CATEGORIES", "REGIONS", "Sizes"]

CATEGORIES: Mapping[str, int] = {
    "Antiques & Art": 1374, "Books": 2691, "Business, Office & Industrial": 259, "Clothing & Accessories": 2874, "Coins": 538,
    "Collectibles": 7521, "Computers": 664, "Consumer Electronics": 586, "Dolls & Bears": 1077, "Home & Garden": 976,
    "Jewelry, Gems & Watches": 2325, "Movies & Television": 1051, "Music": 1420, "Photo": 170, "Pottery & Glass": 1069,
    "Sports": 3029, "Stamps": 305, "Tickets & Travel": 242, "Toys & Hobbies": 3671, "Everything Else": 825,
}  # fmt: skip
"""Name -> items for sale at scale 1; ids count from 1 in this order."""

REGIONS = tuple(f"Region-{number:02d}" for number in range(1, 63))
"""As many as the original has; ids count from 1."""

_USERS, _OLD_ITEMS, _FEWEST = 1_000_000, 500_000, 100


@dataclass(frozen=True)
class Sizes:
    """Rows at a scale; what is the same at every scale is above.

    Attributes:
        scale: 1 is the original's size.
        active_scale: that of the items for sale.
    """

    scale: float
    active_scale: float

    @cached_property
    def users(self) -> int:
        """Registered users."""
        return max(_FEWEST, round(_USERS * self.scale))

    @cached_property
    def old_items(self) -> int:
        """Items whose sale is over; their ids are from 1 on."""
        return max(_FEWEST, round(_OLD_ITEMS * self.scale))

    @cached_property
    def by_category(self) -> tuple[int, ...]:
        """Items for sale in each category: at least one."""
        return tuple(max(1, round(n * self.active_scale)) for n in CATEGORIES.values())

    @property
    def items(self) -> int:
        """Items for sale; their ids follow those of the old ones."""
        return sum(self.by_category)
