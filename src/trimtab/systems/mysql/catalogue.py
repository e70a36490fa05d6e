"""The live catalogue: the server's variables under the curated overlay, each with the reason why it may not be changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.errors import TargetError
from trimtab.space import Knob, KnobKind, RestartClass, SafetyClass, Value
from trimtab.systems.base import KnobState
from trimtab.systems.mysql.classes import SECRET, forbidden_reason, safety_of
from trimtab.systems.mysql.flavour import Flavour
from trimtab.systems.mysql.overlay import OverlayKnob, load_overlay
from trimtab.systems.mysql.settings import Settings
from trimtab.systems.mysql.variables import Variable, parse_text
from trimtab.systems.overlay import Bounds
from trimtab.systems.selection import select

__all__ = ["Facts", "curated_for", "knob_states", "require_changeable", "selected_names"]

_KINDS = {"bool": KnobKind.BOOLEAN, "integer": KnobKind.INTEGER, "real": KnobKind.REAL}
_LARGEST_WORD = 2**32 - 1
"""The smallest of the limits that come from a number's width; below it, a default at the limit is meant as it stands."""

_NO_RIGHT = "this user may not change it (no SUPER or SYSTEM_VARIABLES_ADMIN privilege)"
_NO_FURTHER_RIGHT = "this user may not change it (MariaDB 11: no BINLOG ADMIN or CONNECTION ADMIN privilege)"
_PINNED = {
    "command line": "set on the server's command line, which wins over every file",
    "environment variable": "set by an environment variable of the server",
    "mysqld-auto.cnf": "set by SET PERSIST (mysqld-auto.cnf), which wins over every other file",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides whether knobs may be changed, beside the variables.

    Attributes:
        flavour: product and version.
        may_set: whether this user may use SET GLOBAL.
        has_replica: whether another server replicates from this one, or this one from another.
        beyond_rights: knobs that this user may not set although it may use SET GLOBAL.
        has_mapped_log: whether the redo log is mapped into memory (persistent memory, tmpfs), so that it has no buffer.
    """

    flavour: Flavour
    may_set: bool
    has_replica: bool
    has_mapped_log: bool = False
    beyond_rights: frozenset[str] = frozenset()


def curated_for(flavour: Flavour) -> dict[str, OverlayKnob]:
    """The overlay's knobs that servers of that flavour have."""
    return {name: knob for name, knob in load_overlay().knob.items() if knob.is_of(flavour.product)}


def knob_states(
    variables: Mapping[str, Variable], facts: Facts, bounds: Bounds, settings: Settings, no_restart: str
) -> dict[str, KnobState]:
    """Every knob as the server shows it under the overlay; `no_restart` is why it cannot be restarted ("": it can)."""
    curated = curated_for(facts.flavour)
    states = {}
    for name, variable in variables.items():
        overlay = curated.get(name)
        knob = _knob(variable, overlay, bounds)
        states[name] = KnobState(
            knob=knob,
            running="***" if name in SECRET and variable.text else variable.value,
            source=variable.source,
            source_file=variable.path,
            is_curated=overlay is not None,
            lock_reason=_lock_reason(variable, overlay, knob, facts, settings, no_restart),
            vendor_low=variable.low,
            vendor_high=variable.high,
        )
    return states


def _knob(variable: Variable, overlay: OverlayKnob | None, bounds: Bounds) -> Knob:
    kind = _KINDS.get(variable.kind, KnobKind.CHOICE)
    low, high, choices = _range(variable, overlay, bounds)
    safety = safety_of(variable.name)
    return Knob(
        name=variable.name,
        kind=kind,
        low=low,
        high=high,
        log=overlay is not None and overlay.log and low is not None and low > 0,
        step=_step(variable, overlay),
        unit=overlay.unit if overlay is not None else "",
        choices=choices if kind is KnobKind.CHOICE else (),
        special=overlay.special if overlay is not None and low is not None else (),
        default=_default(variable),
        restart=RestartClass.RELOAD if variable.is_dynamic else RestartClass.RESTART,
        safety=overlay.safety if overlay is not None and safety is not SafetyClass.FORBIDDEN else safety,
        condition=overlay.condition if overlay is not None else None,
        doc=overlay.doc if overlay is not None else "",
    )


def _default(variable: Variable) -> Value:
    """The server's own; the running value where it does not say, or names a word's largest number for "as I see fit"."""
    if variable.default is None:
        return variable.value
    default = parse_text(variable.default, variable.kind)
    if variable.high is None or variable.high < _LARGEST_WORD or isinstance(default, bool | str):
        return default
    return variable.value if float(default) >= variable.high else default


def _step(variable: Variable, overlay: OverlayKnob | None) -> int | None:
    """The larger of the server's own and the overlay's: values between would be rounded silently."""
    if variable.kind != "integer":
        return None
    step = math.lcm(variable.block, (overlay.step if overlay is not None else None) or 1)
    return step if step > 1 else None


def _range(
    variable: Variable, overlay: OverlayKnob | None, bounds: Bounds
) -> tuple[int | float | None, int | float | None, tuple[str, ...]]:
    """Useful low and high, rounded inwards and clipped to the server's limits; and the choices it knows."""
    if variable.kind not in ("integer", "real"):
        wanted = overlay.choices if overlay is not None else ()
        known = variable.choices or (variable.text,)
        return None, None, tuple(c for c in wanted if c in known) or known
    has_range = overlay is not None and overlay.low is not None
    # A number that nobody knows limits of is not tuned; its running value alone is its range.
    vendor = (_or(variable.low, -math.inf), _or(variable.high, math.inf))
    low, high = overlay.useful(bounds) if overlay is not None and has_range else vendor
    low, high = max(low, vendor[0]), min(high, vendor[1])
    if not math.isfinite(low) or not math.isfinite(high):
        low = high = float(variable.value) if not isinstance(variable.value, str) else 0.0
    if variable.kind == "integer":
        step = _step(variable, overlay) or 1
        lowest = math.ceil(low / step) * step
        return lowest, max(lowest, math.floor(high / step) * step), ()
    return low, high, ()


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _lock_reason(
    variable: Variable, overlay: OverlayKnob | None, knob: Knob, facts: Facts, settings: Settings, no_restart: str
) -> str:
    """The first reason why the knob may not be changed here; "" when it may."""
    wants = knob.safety.value
    is_open = knob.safety is SafetyClass.PERFORMANCE or wants in settings.unlock
    no_more_restart = no_restart if settings.allow_restart else "needs a restart, and allow_restart = false"
    reasons = (
        (True, forbidden_reason(variable.name)),
        (overlay is None, "not curated"),
        (
            variable.name == "innodb_log_buffer_size" and facts.has_mapped_log,
            "has no effect: the redo log is mapped into memory",
        ),
        (not is_open, f'safety class {wants} is locked; unlock = ["{wants}"] opens it'),
        (not variable.is_dynamic, no_more_restart),
        (True, _PINNED.get(variable.source, "")),
        (variable.is_dynamic and not facts.may_set, _NO_RIGHT),
        (variable.is_dynamic and variable.name in facts.beyond_rights, _NO_FURTHER_RIGHT),
    )
    return next((reason for applies, reason in reasons if applies and reason), "")


def require_changeable(states: Mapping[str, KnobState]) -> None:
    """That anything may be changed here.

    Raises:
        TargetError: this user has the right to change nothing.
    """
    reasons = {state.lock_reason for state in states.values() if state.is_curated}
    if "" not in reasons and _NO_RIGHT in reasons:
        raise TargetError(
            "this user may not change any variable of the server",
            hint="`trimtab doctor --grant-sql` prints the rights that tuning needs",
        )


def selected_names(
    choice: str | Sequence[str], states: Mapping[str, KnobState], *, reads_only: bool = False
) -> tuple[str, ...]:
    """The changeable knobs that `knobs = ...` asks for (see `select`).

    Raises:
        UsageError: an unknown name, or one that is locked or not curated.
    """
    return select(choice, states, load_overlay(), reads_only=reads_only, skips_absent=False)
