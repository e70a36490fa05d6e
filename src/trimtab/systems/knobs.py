"""Knobs of a server that tells them itself: what it shows of each, under the catalogue, with the reason why it may not change."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from trimtab.space import Knob, KnobKind, RestartClass, SafetyClass, Value
from trimtab.systems.base import KnobState
from trimtab.systems.overlay import Bounds
from trimtab.systems.server_catalog import ServerCatalog, ServerKnob
from trimtab.systems.settings import ServerSettings

__all__ = ["Kind", "Reading", "Sight", "knob_states", "parse_text"]

Kind = Literal["bool", "integer", "real", "choice", "text"]
Range = tuple[float, float]

_KINDS = {"bool": KnobKind.BOOLEAN, "integer": KnobKind.INTEGER, "real": KnobKind.REAL}
_NUMBERS = ("integer", "real")
_LARGEST_WORD = 2**32 - 1
"""The smallest of the limits that come from a number's width; below it, a default at the limit is meant as it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One knob as the server shows it.

    Attributes:
        name: of it.
        text: the running value as the server writes it, numbers in the knob's own unit.
        kind: what values it takes; "text" also for lists and for what is not known.
        unit: of the number; "" when it has none, or the server does not say.
        default: the value that the server would take by itself, as text; None when it does not say.
        low, high: its own limits; None for what is not a number, or when it does not say.
        block: distance between legal numbers; 1 when any will do.
        choices: of a choice.
        is_late: whether a change shows only after a restart.
        source: where the running value comes from.
        file, line: of it; "" and 0 when it is in none.
        is_fixed: whether nothing changes it.
        is_pending: whether the files give it another value at the next start.
        is_permitted: whether this user may change it.
    """

    name: str
    text: str
    kind: Kind
    unit: str = ""
    default: str | None = None
    low: float | None = None
    high: float | None = None
    block: int = 1
    choices: tuple[str, ...] = ()
    is_late: bool = False
    source: str = ""
    file: str = ""
    line: int = 0
    is_fixed: bool = False
    is_pending: bool = False
    is_permitted: bool = True

    @property
    def value(self) -> Value:
        """The running value."""
        return parse_text(self.text, self.kind)

    @property
    def where(self) -> str:
        """Source and place of it."""
        return f"{self.source} {self.place}".rstrip()

    @property
    def place(self) -> str:
        """File and line of it, "" when it is in none."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.file


def parse_text(text: str, kind: Kind) -> Value:
    """The value behind the server's own text; the text itself when it is not of that kind."""
    try:
        if kind == "bool":
            return text.upper() in ("ON", "1", "YES", "TRUE")
        if kind == "integer":
            return int(text)
        if kind == "real":
            return float(text)
    except ValueError:
        return text
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a server shows at one moment.

    Attributes:
        readings: every knob, by name.
        curated: the catalogue's knobs that servers of its product and version have.
        useless: why a knob would have no effect here; "" when it has one.
        denied: why this user, or this server's role, lets a knob not be changed; "" when it may.
        product: of the server; "" where its kind has only one.
    """

    readings: Mapping[str, Reading]
    curated: Mapping[str, ServerKnob]
    useless: Callable[[Reading], str] = lambda reading: ""
    denied: Callable[[Reading], str] = lambda reading: ""
    product: str = ""


def knob_states(
    sight: Sight, catalog: ServerCatalog, bounds: Bounds, settings: ServerSettings, no_restart: str
) -> dict[str, KnobState]:
    """Every knob as the server shows it under the catalogue; `no_restart` is why it cannot be restarted ("": it can)."""
    states = {}
    for name, reading in sight.readings.items():
        entry = sight.curated.get(name)
        knob = _known_knob(reading, entry, catalog, bounds)
        states[name] = KnobState(
            knob=knob,
            running="***" if name in catalog.secret and reading.text else reading.value,
            source=reading.source,
            source_file=reading.place,
            is_curated=entry is not None,
            lock_reason=_lock_reason(reading, entry, knob, sight, catalog, settings, no_restart),
            vendor_low=reading.low,
            vendor_high=reading.high,
        )
    return states


_known: dict[tuple[str, str], tuple[Reading, Range | None, ServerKnob | None, ServerCatalog, Knob]] = {}
"""(kind, name) -> what a knob was last made of, and the knob: a study looks at the server several times a trial, and few
readings differ from those before. Bounds are in it by the range that follows from them: free disk differs at each look."""


def _known_knob(reading: Reading, entry: ServerKnob | None, catalog: ServerCatalog, bounds: Bounds) -> Knob:
    """As `_knob`, made again only when what it is made of differs."""
    key = catalog.kind, reading.name
    useful = entry.useful(bounds) if entry is not None and entry.low is not None and reading.kind in _NUMBERS else None
    last = _known.get(key)
    if last is not None and last[2] is entry and last[3] is catalog and last[:2] == (reading, useful):
        return last[4]
    knob = _knob(reading, entry, catalog, useful)
    _known[key] = reading, useful, entry, catalog, knob
    return knob


def _knob(reading: Reading, entry: ServerKnob | None, catalog: ServerCatalog, useful: Range | None) -> Knob:
    """`useful`: the catalogue's range here, of a number that it has one for."""
    kind = _KINDS.get(reading.kind, KnobKind.CHOICE)
    low, high, choices = _range(reading, entry, useful)
    safety = catalog.safety_of(reading.name)
    return Knob(
        name=reading.name,
        kind=kind,
        low=low,
        high=high,
        log=entry is not None and entry.log and low is not None and low > 0,
        step=_step(reading, entry),
        unit=reading.unit or (entry.unit if entry is not None else ""),
        choices=choices if kind is KnobKind.CHOICE else (),
        special=entry.special if entry is not None and low is not None else (),
        default=_default(reading),
        restart=RestartClass.RESTART if reading.is_late else RestartClass.RELOAD,
        safety=entry.safety if entry is not None and safety is not SafetyClass.FORBIDDEN else safety,
        condition=entry.condition if entry is not None else None,
        doc=entry.doc if entry is not None else "",
    )


def _default(reading: Reading) -> Value:
    """The server's own; the running value where it does not say, says it in another form (computed at start), or names a
    word's largest number for "as I see fit"."""
    if reading.default is None:
        return reading.value
    default = parse_text(reading.default, reading.kind)
    if isinstance(default, str):
        return reading.value if reading.kind in _NUMBERS else default
    is_huge = reading.high is not None and reading.high >= _LARGEST_WORD
    return reading.value if is_huge and float(default) >= float(reading.high or 0) else default


def _step(reading: Reading, entry: ServerKnob | None) -> int | None:
    """The larger of the server's own and the catalogue's: values between would be rounded silently."""
    if reading.kind != "integer":
        return None
    step = math.lcm(reading.block, (entry.step if entry is not None else None) or 1)
    return step if step > 1 else None


def _range(
    reading: Reading, entry: ServerKnob | None, useful: Range | None
) -> tuple[int | float | None, int | float | None, tuple[str, ...]]:
    """Useful low and high, rounded inwards and clipped to the server's limits; and the choices it knows."""
    if reading.kind not in _NUMBERS:
        wanted = entry.choices if entry is not None else ()
        known = reading.choices or (reading.text,)
        return None, None, tuple(c for c in wanted if c in known) or known
    # A number that nobody knows limits of is not tuned; its running value alone is its range.
    vendor = (_or(reading.low, -math.inf), _or(reading.high, math.inf))
    low, high = useful or vendor
    low, high = max(low, vendor[0]), min(high, vendor[1])
    if not math.isfinite(low) or not math.isfinite(high):
        low = high = float(reading.value) if not isinstance(reading.value, str) else 0.0
    if reading.kind == "integer":
        step = _step(reading, entry) or 1
        lowest = math.ceil(low / step) * step
        return lowest, max(lowest, math.floor(high / step) * step), ()
    return low, high, ()


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _lock_reason(
    reading: Reading,
    entry: ServerKnob | None,
    knob: Knob,
    sight: Sight,
    catalog: ServerCatalog,
    settings: ServerSettings,
    no_restart: str,
) -> str:
    """The first reason why the knob may not be changed here; "" when it may."""
    if forbidden := catalog.forbidden_reason(reading.name):
        return forbidden
    if reading.is_fixed:
        return "fixed by the server"
    if entry is None:  # most of them: what follows is not asked
        return "not curated"
    wants = knob.safety.value
    is_open = knob.safety is SafetyClass.PERFORMANCE or wants in settings.unlock
    no_more_restart = no_restart if settings.allow_restart else "needs a restart, and allow_restart = false"
    reasons = (
        sight.useless(reading) if is_open else f'safety class {wants} is locked; unlock = ["{wants}"] opens it',
        no_more_restart if reading.is_late else "",
        catalog.pinned.get(reading.source, ""),
        sight.denied(reading),
    )
    return next(filter(None, reasons), "")
