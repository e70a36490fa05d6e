"""constraint: points that break a condition are not measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from trimtab.errors import SpaceError
from trimtab.session.layer import Answer, Layer, Reject, Setting
from trimtab.session.point import Point
from trimtab.space import Constraint, Space

__all__ = ["ConstraintLayer"]


class ConstraintLayer(Layer):
    """A point that breaks the condition `holds` is not measured: it counts as infeasible, which teaches the searcher."""

    NAME: ClassVar[str] = "constraint"
    OPTIONS: ClassVar[Mapping[str, tuple[Any, str]]] = {
        "holds": ("", 'condition over the knobs, such as "shared_buffers + 40 * work_mem <= 1GiB"'),
    }

    def __init__(self, options: Mapping[str, Any], setting: Setting) -> None:
        super().__init__(options, setting)
        self._require("holds", bool(self.options["holds"].strip()), "a condition over the knobs")
        space = setting.task.space
        condition = Constraint(self.options["holds"])
        self._space = Space(
            list(space.knobs.values()), [condition], also_legal=space.also_legal, fixed=dict(space.fixed)
        )
        if not self._space.is_feasible(setting.task.baseline):
            raise SpaceError(
                f"the baseline breaks holds={self.options['holds']!r} of layer 'constraint'",
                hint="give a baseline that meets it",
            )

    def outgoing(self, point: Point) -> Answer | Reject | None:
        return None if self._space.is_feasible(point.config) else Reject(f"breaks {self.options['holds']}")
