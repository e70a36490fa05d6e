"""What the memory models of all kinds of server share: sizes that people can read, and the sum of the consumers."""

from __future__ import annotations

import math
from collections.abc import Mapping

__all__ = ["round_size", "used_bytes"]

_SIGNIFICANT_BITS = 6


def round_size(size: float, step: int = 1) -> int:
    """The largest size up to `size` that a person would write: six binary digits, at most 3 % less, in whole steps.

    `size` is positive and in any unit, `step` the distance between legal sizes. A size below one step becomes 0.
    """
    grain = 1 << max(0, int(size).bit_length() - _SIGNIFICANT_BITS)
    whole = math.lcm(step, grain)
    return math.floor(size / whole) * whole


def used_bytes(use: Mapping[str, float]) -> float:
    """The sum of the consumers in what `memory_use` of a target returns."""
    return sum(size for consumer, size in use.items() if consumer != "budget")
