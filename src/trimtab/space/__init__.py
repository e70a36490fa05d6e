"""WHAT may change: knobs, configs, spaces, and constraints over them."""

from trimtab.space.axis import base_value
from trimtab.space.config import Config
from trimtab.space.constraint import Constraint
from trimtab.space.knob import Knob, KnobKind, RestartClass, SafetyClass, Value
from trimtab.space.space import Space

__all__ = ["Config", "Constraint", "Knob", "KnobKind", "RestartClass", "SafetyClass", "Space", "Value", "base_value"]
