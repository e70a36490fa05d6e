"""The curated overlay: schema of catalog/postgresql.toml, checked when it is loaded."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trimtab.errors import InternalError, UsageError
from trimtab.space import SafetyClass
from trimtab.target.postgresql.classes import FORBIDDEN
from trimtab.target.postgresql.expression import evaluate
from trimtab.units import unit_factor

__all__ = ["MAX_VERSION", "MIN_VERSION", "Bounds", "Overlay", "OverlayKnob", "load_overlay", "parse_overlay"]

MIN_VERSION, MAX_VERSION = 13, 18
_EXPRESSION_NAMES = {"memory": 1e9, "cores": 4.0, "connections": 100.0, "disk": 1e11}

Bounds = Mapping[str, float]
"""What a range may refer to: memory and disk in bytes, cores and connections as counts."""


class OverlayKnob(BaseModel):
    """What the curated file says about one knob; see the head of that file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    doc: str = Field(min_length=10, max_length=140)
    unit: str = ""
    low: int | float | str | None = None
    high: int | float | str | None = None
    log: bool = False
    step: int | None = Field(None, gt=0)
    special: tuple[int | float, ...] = ()
    choices: tuple[str, ...] = ()
    restart: Literal["reload", "restart"] = "reload"
    restart_until: int = 0
    safety: SafetyClass = SafetyClass.PERFORMANCE
    since: int = Field(MIN_VERSION, ge=MIN_VERSION, le=MAX_VERSION)
    until: int = Field(MAX_VERSION, ge=MIN_VERSION, le=MAX_VERSION)
    condition: str | None = None
    needs_jit: bool = False
    only_writes: bool = False
    sets: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> OverlayKnob:
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high go together")
        if self.low is not None:
            try:
                low, high = self.useful(_EXPRESSION_NAMES)
            except UsageError as error:
                raise ValueError(error.message) from error
            if not low < high or (self.log and low <= 0):
                raise ValueError(f"useful range [{low:g}, {high:g}] is empty, or logarithmic from 0")
            if any(low <= value <= high for value in self.special):
                raise ValueError("a special value lies inside the useful range")
        elif self.log or self.special:
            raise ValueError("log and special need a range")
        if self.since > self.until or self.safety is SafetyClass.FORBIDDEN:
            raise ValueError("since > until, or safety is forbidden (that class is in code)")
        return self

    def useful(self, names: Bounds) -> tuple[float, float]:
        """The useful range in the knob's own unit, not yet rounded or clipped to the server's limits."""
        step = unit_factor(self.unit)[0]

        def bound(value: int | float | str | None) -> float:
            return evaluate(value, names) / step if isinstance(value, str) else float(value or 0)

        return bound(self.low), bound(self.high)

    def is_known_in(self, major: int) -> bool:
        """Whether servers of that major version have it."""
        return self.since <= major <= self.until

    def restart_in(self, major: int) -> Literal["reload", "restart"]:
        """Its restart class in that major version."""
        return "restart" if self.restart == "restart" or major <= self.restart_until else "reload"


class Overlay(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: Literal[1] = Field(alias="schema")
    kind: Literal["postgresql"]
    versions: tuple[Literal[13], Literal[18]]
    knob: dict[str, OverlayKnob]

    @model_validator(mode="after")
    def _check(self) -> Overlay:
        bad = sorted(FORBIDDEN & set(self.knob))
        if bad:
            raise ValueError(f"forbidden knobs may not be curated: {', '.join(bad)}")
        return self

    @property
    def sets(self) -> Mapping[str, tuple[str, ...]]:
        """Set name -> knob names; "all" holds every one."""
        named: dict[str, list[str]] = {"all": list(self.knob)}
        for name, knob in self.knob.items():
            for group in knob.sets:
                named.setdefault(group, []).append(name)
        return {group: tuple(names) for group, names in named.items()}


def parse_overlay(text: str) -> Overlay:
    """Reads and checks an overlay.

    Raises:
        UsageError: it is no TOML, or breaks the schema; the message names the first fault.
    """
    try:
        return Overlay.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"the knob overlay is no TOML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"the knob overlay is wrong at {where}: {first['msg']}") from error


@cache
def load_overlay() -> Overlay:
    """The overlay that Trimtab ships.

    Raises:
        InternalError: the shipped file is broken.
    """
    try:
        return parse_overlay((files("trimtab.catalog") / "postgresql.toml").read_text(encoding="utf-8"))
    except UsageError as error:
        raise InternalError(error.message) from error
