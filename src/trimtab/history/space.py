"""Between a Space and the JSON that a study keeps of it: exact both ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from trimtab.errors import HistoryError, SpaceError
from trimtab.history.record import StudyRecord
from trimtab.space import Constraint, Knob, KnobKind, RestartClass, SafetyClass, Space

__all__ = ["knobs_from_json", "read_space", "space_from_json", "space_to_json"]


def space_to_json(space: Space) -> dict[str, Any]:
    """A space as `StudyRecord.space` holds it: "knobs", "constraints" with their constants, "also_legal", "fixed"."""
    return {
        "knobs": [{field.name: getattr(knob, field.name) for field in fields(knob)} for knob in space.knobs.values()],
        "constraints": [
            {"text": constraint.text, "name": constraint.name, "constants": dict(constraint.constants)}
            for constraint in space.constraints
        ],
        "also_legal": {name: list(values) for name, values in space.also_legal.items()},
        "fixed": dict(space.fixed),
    }


def knobs_from_json(space: Mapping[str, Any]) -> dict[str, Knob]:
    """The knobs of a stored space, by name."""
    return {entry["name"]: _knob(entry) for entry in space.get("knobs", ())}


def _knob(entry: Mapping[str, Any]) -> Knob:
    values = dict(entry)
    values["kind"] = KnobKind(values["kind"])
    values["restart"] = RestartClass(values["restart"])
    values["safety"] = SafetyClass(values["safety"])
    values["choices"] = tuple(values["choices"])
    values["special"] = tuple(values["special"])
    return Knob(**values)


def read_space(record: StudyRecord) -> Space:
    """The space of a study, exactly as it was searched.

    Raises:
        HistoryError: what is stored is no space.
    """
    return space_from_json(record.space)


def space_from_json(space: Mapping[str, Any]) -> Space:
    """The space that `space_to_json` was given; what is absent counts as empty.

    Raises:
        HistoryError: what is stored is no space.
    """
    try:
        knobs = knobs_from_json(space)
        constraints = [
            Constraint(entry["text"], entry["name"], dict(entry.get("constants", {})))
            for entry in space.get("constraints", ())
        ]
        also_legal = {name: tuple(values) for name, values in space.get("also_legal", {}).items()}
        return Space(list(knobs.values()), constraints, also_legal=also_legal, fixed=dict(space.get("fixed", {})))
    except (SpaceError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise HistoryError(
            f"a stored space cannot be read: {error}", hint="it is damaged; restore a copy of the history"
        ) from error
