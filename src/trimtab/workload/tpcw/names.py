"""Names that the bookshop's rows are made of."""

from __future__ import annotations

__all__ = ["BACKINGS", "CARDS", "COUNTRIES", "SHIPPING", "STATUS", "SUBJECTS", "spelled"]

_SYLLABLES = ("BA", "OG", "AL", "RI", "RE", "SE", "AT", "UL", "IN", "NG")

SUBJECTS = (
    "ARTS", "BIOGRAPHIES", "BUSINESS", "CHILDREN", "COMPUTERS", "COOKING", "HEALTH", "HISTORY", "HOME", "HUMOR", "LITERATURE",
    "MYSTERY", "NON-FICTION", "PARENTING", "POLITICS", "REFERENCE", "RELIGION", "ROMANCE", "SELF-HELP", "SCIENCE-NATURE",
    "SCIENCE-FICTION", "SPORTS", "YOUTH", "TRAVEL",
)  # fmt: skip
BACKINGS = ("HARDBACK", "PAPERBACK", "USED", "AUDIO", "LIMITED-EDITION")
CARDS = ("VISA", "MASTERCARD", "DISCOVER", "AMEX", "DINERS")
SHIPPING = ("AIR", "UPS", "FEDEX", "SHIP", "COURIER", "MAIL")
STATUS = ("PROCESSING", "SHIPPED", "PENDING", "DENIED")

_NAMED = (
    "United States", "United Kingdom", "Canada", "Germany", "France", "Japan", "Netherlands", "Italy", "Switzerland",
    "Australia",
)  # fmt: skip
_N_COUNTRIES = 92
COUNTRIES = (*_NAMED, *(f"Country {number}" for number in range(len(_NAMED) + 1, _N_COUNTRIES + 1)))
"""As many as the benchmark has; ids count from 1."""


def spelled(number: int, width: int = 0) -> str:
    """A number in syllables, a pair of letters for each digit; filled up with zeros to `width` digits."""
    return "".join(_SYLLABLES[int(digit)] for digit in f"{number:0{width}d}")
