"""The curated overlay of a kind of target: what its catalog/KIND.toml says of each knob, checked when it is loaded."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trimtab.errors import InternalError, UsageError
from trimtab.space import SafetyClass
from trimtab.systems.expression import evaluate
from trimtab.units import unit_factor

__all__ = ["Bounds", "Overlay", "OverlayKnob", "parse_overlay", "shipped_overlay"]

_EXPRESSION_NAMES = {"memory": 1e9, "cores": 4.0, "connections": 100.0, "disk": 1e11}

Bounds = Mapping[str, float]
"""What a range may refer to: memory and disk in bytes, cores and connections as counts."""


class OverlayKnob(BaseModel):
    """What the curated file says about one knob; see the head of that file. A kind of target may know more keys."""

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
    safety: SafetyClass = SafetyClass.PERFORMANCE
    condition: str | None = None
    only_writes: bool = False
    sets: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_range(self) -> OverlayKnob:
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
        if self.safety is SafetyClass.FORBIDDEN:
            raise ValueError("safety is forbidden (that class is in code)")
        return self

    def useful(self, names: Bounds) -> tuple[float, float]:
        """The useful range in the knob's own unit, not yet rounded or clipped to the server's limits."""
        step = unit_factor(self.unit)[0]

        def bound(value: int | float | str | None) -> float:
            return evaluate(value, names) / step if isinstance(value, str) else float(value or 0)

        return bound(self.low), bound(self.high)


K = TypeVar("K", bound=OverlayKnob)


class Overlay(BaseModel, Generic[K]):
    """The whole file.

    Attributes:
        FORBIDDEN: knobs of this kind of target that are never set, so that nobody may curate them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    FORBIDDEN: ClassVar[frozenset[str]] = frozenset()

    schema_: Literal[1] = Field(alias="schema")
    kind: str
    versions: tuple[Any, ...]
    knob: dict[str, K]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        bad = sorted(self.FORBIDDEN & set(self.knob))
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


O = TypeVar("O", bound=Overlay[Any])  # noqa: E741 - the type of a whole overlay


def parse_overlay(text: str, model: type[O]) -> O:
    """Reads and checks an overlay.

    Raises:
        UsageError: it is no TOML, or breaks the schema; the message names the first fault.
    """
    try:
        return model.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"the knob overlay is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"the knob overlay is wrong at {where}: {first['msg']}") from error


def shipped_overlay(kind: str, model: type[O]) -> O:
    """The overlay that Trimtab ships for `kind`.

    Raises:
        InternalError: the shipped file is broken.
    """
    try:
        return parse_overlay((files("trimtab.catalog") / f"{kind}.toml").read_text(encoding="utf-8"), model)
    except UsageError as error:
        raise InternalError(error.message) from error
