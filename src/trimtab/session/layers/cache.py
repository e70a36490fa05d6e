"""cache: a config that was measured before is answered from memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from trimtab.records import Role
from trimtab.session.layer import Answer, Layer, Reject, Setting
from trimtab.session.point import Point, Result
from trimtab.space import Config

__all__ = ["CacheLayer"]


class CacheLayer(Layer):
    """A config of the search that was measured before is answered with what it gave then; the proof is always measured."""

    NAME: ClassVar[str] = "cache"
    OPTIONS: ClassVar[Mapping[str, tuple[Any, str]]] = {
        "failures": (True, "whether a config that failed is answered, too"),
    }

    def __init__(self, options: Mapping[str, Any], setting: Setting) -> None:
        super().__init__(options, setting)
        self._known: dict[Config, Result] = {}

    def outgoing(self, point: Point) -> Answer | Reject | None:
        known = self._known.get(point.config)
        return Answer(known) if known is not None and point.role is Role.SEARCH else None

    def incoming(self, point: Point, result: Result) -> Result:
        is_kept = bool(result.figures) or (result.status.is_config_fault and self.options["failures"])
        if is_kept:
            self._known.setdefault(point.config, replace(result, cost_s=0.0))
        return result
