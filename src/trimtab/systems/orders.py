"""Orders: pairs of knobs of which the first may not be above the second."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.errors import ApplyError
from trimtab.space import Config
from trimtab.systems.base import KnobState

__all__ = ["Orders", "check_orders"]

Orders = tuple[tuple[str, str], ...]
"""(lower, upper): the server would change one of them silently, or refuse it."""


def check_orders(orders: Orders, config: Config, states: Mapping[str, KnobState]) -> None:
    """That no lower knob is set above its upper one; texts have no order.

    Raises:
        ApplyError: one is.
    """
    for low, high in orders:
        if not (low in config or high in config) or low not in states or high not in states:
            continue
        left, right = (config.get(name, states[name].running) for name in (low, high))
        if isinstance(left, str) or isinstance(right, str) or left <= right:
            continue
        raise ApplyError(f"{low}={left} is above {high}={right}", hint=f"keep {low} <= {high}")
