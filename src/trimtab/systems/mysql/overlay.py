"""The curated overlay of MySQL and MariaDB (catalog/mysql.toml): keys of its own, and what may not be in it."""

from __future__ import annotations

from functools import cache
from typing import ClassVar, Literal

from trimtab.systems.mysql.classes import FORBIDDEN
from trimtab.systems.mysql.flavour import Product
from trimtab.systems.overlay import Overlay as AnyOverlay
from trimtab.systems.overlay import OverlayKnob as AnyKnob
from trimtab.systems.overlay import parse_overlay as parse_any
from trimtab.systems.overlay import shipped_overlay

__all__ = ["Overlay", "OverlayKnob", "load_overlay", "parse_overlay"]


class OverlayKnob(AnyKnob):
    """What the curated file says about one knob; see the head of that file."""

    only: Product | None = None

    def is_of(self, product: Product) -> bool:
        """Whether servers of that product have it, with this meaning."""
        return self.only is None or self.only == product


class Overlay(AnyOverlay[OverlayKnob]):
    """The whole file."""

    FORBIDDEN: ClassVar[frozenset[str]] = FORBIDDEN

    kind: Literal["mysql"]


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
    return shipped_overlay("mysql", Overlay)
