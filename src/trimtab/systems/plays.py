"""The plays of a kind of target: what catalog/KIND_plays.toml or the [play] tables of a catalogue hold, checked when they are
loaded, and which of them fit a load.

A play is a hypothesis: a small named bundle of settings that an expert would try, with the reason and a condition on workload,
machine and version. Whether it helps here, only a measurement tells (`trimtab.flow.plays`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trimtab.errors import InternalError, SpaceError, UsageError
from trimtab.records import Context, Machine, Play
from trimtab.space import Constraint, Value, amount, is_shown, is_true
from trimtab.systems.base import KnobState
from trimtab.systems.overlay import Bounds
from trimtab.systems.rules import onward
from trimtab.units import Dimension, unit_factor

__all__ = ["PlayEntry", "Plays", "fitting_plays", "parse_plays", "play_facts", "play_faults", "shipped_plays"]

_FACTS: Mapping[str, Dimension] = {
    "clients": Dimension.NUMBER,
    "cores": Dimension.NUMBER,
    "connections": Dimension.NUMBER,
    "memory": Dimension.SIZE,
    "disk": Dimension.SIZE,
    "read_share": Dimension.NUMBER,
    "analytic": Dimension.NUMBER,
    "ssd": Dimension.NUMBER,
    "hdd": Dimension.NUMBER,
    "version": Dimension.NUMBER,
    "mariadb": Dimension.NUMBER,
}
"""What a condition may speak of."""

_EXAMPLE = {
    "clients": 8.0, "cores": 4.0, "connections": 100.0, "memory": 8e9, "disk": 1e11, "read_share": 0.5, "analytic": 0.0,
    "ssd": 1.0, "hdd": 0.0, "version": 18.0, "mariadb": 0.0,
}  # fmt: skip
_ARITHMETIC = ("clients", "cores", "connections", "memory", "disk")

_ANALYTIC_S = 0.05
"""A load whose operations take this long in the mean is an analytic one."""


class PlayEntry(BaseModel):
    """One play of the file; see the head of postgresql_plays.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: str = Field(min_length=10, max_length=160)
    when: str = ""
    sign: str = ""
    way: Literal["", "more", "less"] = ""
    settings: dict[str, bool | int | float | str] = Field(min_length=1, max_length=4)
    worth: float = Field(0.05, gt=0, le=3)
    chance: float = Field(0.3, gt=0, lt=1)
    sources: tuple[str, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_expressions(self) -> PlayEntry:
        for fault in self.faults(_EXAMPLE):
            raise ValueError(fault)
        return self

    def faults(self, facts: Mapping[str, float]) -> Iterator[str]:
        """What of it cannot be evaluated where only `facts` are known."""
        try:
            self.fits(facts)
        except SpaceError as error:
            yield f"when={self.when!r} cannot be evaluated: {error.message}"
        try:
            is_shown(self.sign, dict.fromkeys(self.counts, 1.0))
        except SpaceError as error:
            yield f"sign={self.sign!r} cannot be evaluated: {error.message}"
        for name, value in self.settings.items():
            if isinstance(value, str) and set(value) & set("*/("):
                try:
                    amount(value, _numbers(facts))
                except SpaceError as error:
                    yield f"settings {name}={value!r} cannot be evaluated: {error.message}"

    @property
    def counts(self) -> tuple[str, ...]:
        """The counters that its sign speaks of.

        Raises:
            SpaceError: the sign is not in the language.
        """
        return Constraint(self.sign).names if self.sign else ()

    def fits(self, facts: Mapping[str, float]) -> bool:
        """Whether its condition holds.

        Raises:
            SpaceError: the condition cannot be evaluated.
        """
        return not self.when or is_true(self.when, facts, _FACTS)


def _numbers(facts: Mapping[str, float]) -> dict[str, float]:
    """Those that values may be made of."""
    return {name: facts[name] for name in _ARITHMETIC if name in facts}


class Plays(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: Literal[1] = Field(alias="schema")
    kind: str
    play: dict[str, PlayEntry]


def parse_plays(text: str, known: Set[str], locked: Set[str] = frozenset()) -> Plays:
    """Reads and checks a file of plays.

    Args:
        text: of the file.
        known: knobs that the kind's catalogue has.
        locked: those of them that no play may set: every class but performance.

    Raises:
        UsageError: it is no TOML, breaks the schema, has a condition or value that cannot be evaluated, or names a knob that is
            unknown or locked.
    """
    try:
        plays = Plays.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"the file of plays is not TOML: {error}", hint="see https://toml.io") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = str(first["msg"]).removeprefix("Value error, ")
        raise UsageError(
            f"the file of plays is wrong at {where}: {message}", hint="the comment at its beginning explains each key"
        ) from error
    for message, hint in play_faults(plays.play, known, locked):
        raise UsageError(message, hint=hint)
    return plays


def play_faults(
    plays: Mapping[str, PlayEntry], known: Set[str], locked: Set[str], unknown_facts: Set[str] = frozenset()
) -> Iterator[tuple[str, str]]:
    """What they say of knobs that are not there, or that no play may set, or of facts that this kind lacks: (message, hint)."""
    facts = {name: value for name, value in _EXAMPLE.items() if name not in unknown_facts}
    for name, play in plays.items():
        for fault in play.faults(facts):
            yield f"play={name!r}: {fault}", f"a play of this catalogue may speak of: {', '.join(facts)}"
        for knob in play.settings:
            if knob not in known:
                yield f"play={name!r} sets the unknown knob={knob!r}", "name knobs of the catalogue"
            elif knob in locked:
                yield (
                    f"play={name!r} sets knob={knob!r}, whose safety class is locked by default",
                    "plays speak of performance knobs only",
                )


@cache
def shipped_plays(kind: str, known: frozenset[str], locked: frozenset[str]) -> Plays:
    """The plays that Trimtab ships for `kind`.

    Raises:
        InternalError: the shipped file is broken.
    """
    try:
        text = (files("trimtab.catalog") / f"{kind}_plays.toml").read_text(encoding="utf-8")
        return parse_plays(text, known, locked)
    except UsageError as error:
        raise InternalError(error.message) from error


def play_facts(context: Context, machine: Machine, bounds: Bounds, *, latency_s: float) -> dict[str, float]:
    """What conditions speak of: of the load, of the machine, and of the server.

    Args:
        context: the workload.
        machine: facts about the host, and the server's version.
        bounds: memory, cores, connections and disk as the catalogue's ranges see them.
        latency_s: mean duration of an operation under the found settings.
    """
    return {
        **bounds,
        "clients": float(context.clients),
        "read_share": context.read_share,
        "analytic": float(latency_s >= _ANALYTIC_S),
        "ssd": float(machine.disk == "ssd"),
        "hdd": float(machine.disk == "hdd"),
        "version": _version(machine.server_version),
        "mariadb": float("mariadb" in machine.server_version.lower()),
    }


def _version(text: str) -> float:
    """18 of "PostgreSQL 18.1"; 1011 of "MariaDB 10.11.6", 804 of "MySQL 8.4.0"."""
    found = re.search(r"(\d+)(?:\.(\d+))?", text)
    if found is None:
        return 0.0
    return float(found[1]) if "postgres" in text.lower() else float(100 * int(found[1]) + int(found[2] or 0))


@dataclass(frozen=True, slots=True)
class _Values:
    """The settings of plays as values of the live server's knobs."""

    states: Mapping[str, KnobState]
    facts: Mapping[str, float]

    def of(self, play: PlayEntry) -> dict[str, Value] | None:
        """By knob; None when the server lacks one of them, has it locked or without that label, or a value is no number here."""
        found: dict[str, Value] = {}
        for name, written in play.settings.items():
            state = self.states.get(name)
            value = None if state is None or state.lock_reason else self._value(state, written)
            if state is None or value is None:
                return None
            found[name] = onward(state, value, play.way)
        return found

    def _value(self, state: KnobState, written: bool | int | float | str) -> Value | None:
        knob = state.knob
        if not knob.is_numeric:
            value = knob.cast(written)
            return value if value is not None and knob.contains(value) else None
        if isinstance(written, bool):
            return None
        if isinstance(written, int | float):
            return knob.clip(written)
        try:
            number = amount(written, _numbers(self.facts))
        except SpaceError:  # "memory / (cores - 2)" on a machine of two cores
            return None
        return knob.clip(number / float(unit_factor(knob.unit)[0]))


def fitting_plays(
    plays: Mapping[str, PlayEntry], states: Mapping[str, KnobState], facts: Mapping[str, float]
) -> tuple[Play, ...]:
    """The plays whose condition holds and whose knobs can be set on this server, the most promising first.

    Values outside a knob's useful range are brought into it. Where a play with a `way` would go the other way, what runs stays. A
    play is left out if it would set nothing that may be changed, or if its arithmetic gives no number on this machine.
    """
    values = _Values(states, facts)
    found = []
    for name, entry in plays.items():
        settings = values.of(entry) if entry.fits(facts) else None
        if settings is not None:
            found.append(
                Play(
                    name=name,
                    settings=settings,
                    worth=entry.worth,
                    chance=entry.chance,
                    reason=entry.reason,
                    sign=entry.sign,
                )
            )
    return tuple(sorted(found, key=lambda play: -play.worth * play.chance))
