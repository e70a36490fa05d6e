"""What the memory models of all kinds of server share: the sum of their consumers."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["used_bytes"]


def used_bytes(use: Mapping[str, float]) -> float:
    """The sum of the consumers in what `memory_use` of a target returns."""
    return sum(size for consumer, size in use.items() if consumer != "budget")
