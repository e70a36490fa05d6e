"""Knob: one configuration parameter of a target, as a frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Knob", "KnobKind", "RestartClass", "SafetyClass", "Value"]


Value = bool | int | float | str
"""What a knob can hold. Integers and reals are counted in the knob's own unit (`Knob.unit`)."""


class KnobKind(StrEnum):
    """The type of a knob's values."""

    INTEGER = "integer"
    REAL = "real"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    """One of `choices`, without order."""
    ORDINAL = "ordinal"
    """One of `choices`, in the order given."""


class RestartClass(StrEnum):
    """What it takes for a new value to become effective, cheapest first."""

    RELOAD = "reload"
    RESTART = "restart"
    REBOOT = "reboot"


class SafetyClass(StrEnum):
    """What a knob can endanger; every class but `PERFORMANCE` is locked unless the user opens it (DESIGN law 6)."""

    PERFORMANCE = "performance"
    DURABILITY = "durability"
    DATA_LOSS = "data_loss"
    SECURITY = "security"
    SEMANTICS = "semantics"
    REPLICATION = "replication"
    FORBIDDEN = "forbidden"
    """Runs code, writes files, locks users out or is fixed at initialisation: never opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One configuration parameter.

    Attributes:
        name: the target's own name of the knob; unique within a space.
        kind: type of its values.
        low, high: inclusive bounds of the *useful* range, in `unit` (integer and real only, else None).
        step: distance between legal values, counted from `low` (integer and real only; None: 1 for integers, continuous
            for reals).
        log: whether the useful range is searched on a logarithmic scale (needs `low > 0`).
        unit: what one step of 1 means: a size ("B", "kB", "8kB", "MB", "16MB", ...), a duration ("us", "ms", "s", "min")
            or "" for a bare number.
        choices: legal values of a choice or an ordinal.
        special: legal values outside `[low, high]` with a meaning of their own (0, -1), integer and real only.
        default: the target's built-in (boot) value; may lie outside the useful range.
        restart: what makes a change effective.
        safety: what it can endanger.
        condition: expression over other knobs (see `trimtab.space.Constraint`); while it is false the knob has no effect
            and holds its default. None: always active.
        doc: one line on what it does.
    """

    name: str
    kind: KnobKind
    low: int | float | None = None
    high: int | float | None = None
    step: int | float | None = None
    log: bool = False
    unit: str = ""
    choices: tuple[str, ...] = ()
    special: tuple[int | float, ...] = ()
    default: Value
    restart: RestartClass = RestartClass.RELOAD
    safety: SafetyClass = SafetyClass.PERFORMANCE
    condition: str | None = None
    doc: str = ""

    @property
    def is_numeric(self) -> bool:
        """Whether values are integers or reals."""
        return self.kind in (KnobKind.INTEGER, KnobKind.REAL)
