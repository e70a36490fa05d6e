"""WHAT may change: knobs, configs, spaces, and constraints over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.deferred import deferred

if TYPE_CHECKING:
    from trimtab.space.axis import base_value
    from trimtab.space.condition import amount, is_shown, is_true
    from trimtab.space.config import Config
    from trimtab.space.constraint import Constraint
    from trimtab.space.knob import Knob, KnobKind, RestartClass, SafetyClass, Value
    from trimtab.space.space import Space
else:
    __getattr__ = deferred(
        __name__,
        {
            "axis": "base_value",
            "condition": "amount is_shown is_true",
            "config": "Config",
            "constraint": "Constraint",
            "knob": "Knob KnobKind RestartClass SafetyClass Value",
            "space": "Space",
        },
    )

__all__ = [
    "Config",
    "Constraint",
    "Knob",
    "KnobKind",
    "RestartClass",
    "SafetyClass",
    "Space",
    "Value",
    "amount",
    "base_value",
    "is_shown",
    "is_true",
]
