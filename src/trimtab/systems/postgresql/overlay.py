"""PostgreSQL's curated overlay (catalog/postgresql.toml): keys of its own, and what may not be in it."""

from __future__ import annotations

from functools import cache
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from trimtab.systems.overlay import Bounds, shipped_overlay
from trimtab.systems.overlay import Overlay as AnyOverlay
from trimtab.systems.overlay import OverlayKnob as AnyKnob
from trimtab.systems.overlay import parse_overlay as parse_any
from trimtab.systems.postgresql.classes import FORBIDDEN

__all__ = ["MAX_VERSION", "MIN_VERSION", "Bounds", "Overlay", "OverlayKnob", "load_overlay", "parse_overlay"]

MIN_VERSION, MAX_VERSION = 13, 18


class OverlayKnob(AnyKnob):
    """What the curated file says about one knob; see the head of that file."""

    restart_until: int = 0
    since: int = Field(MIN_VERSION, ge=MIN_VERSION, le=MAX_VERSION)
    until: int = Field(MAX_VERSION, ge=MIN_VERSION, le=MAX_VERSION)
    needs_jit: bool = False

    @model_validator(mode="after")
    def _check_versions(self) -> OverlayKnob:
        if self.since > self.until:
            raise ValueError("since > until")
        return self

    def is_known_in(self, major: int) -> bool:
        """Whether servers of that major version have it."""
        return self.since <= major <= self.until

    def restart_in(self, major: int) -> Literal["reload", "restart"]:
        """Its restart class in that major version."""
        return "restart" if self.restart == "restart" or major <= self.restart_until else "reload"


class Overlay(AnyOverlay[OverlayKnob]):
    """The whole file."""

    FORBIDDEN: ClassVar[frozenset[str]] = FORBIDDEN

    kind: Literal["postgresql"]
    versions: tuple[Literal[13], Literal[18]]


def parse_overlay(text: str) -> Overlay:
    """Reads and checks an overlay.

    Raises:
        UsageError: it is no TOML, or breaks the schema; the message names the first fault.
    """
    return parse_any(text, Overlay)


@cache
def load_overlay() -> Overlay:
    """The overlay that Trimtab ships.

    Raises:
        InternalError: the shipped file is broken.
    """
    return shipped_overlay("postgresql", Overlay)
