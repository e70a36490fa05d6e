"""ValueTexts: knob values as people read them, by what the study's record says of its knobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimtab.errors import TrimtabError
from trimtab.records import KnobChange
from trimtab.report.facts import SettingChange
from trimtab.report.words import clean, first_line
from trimtab.units import format_value

if TYPE_CHECKING:
    from trimtab.history import StudyRecord

__all__ = ["ValueTexts"]

_UNKNOWN = KnobChange()


class ValueTexts:
    """Formats values of one study's knobs; knobs that the record does not describe are shown bare.

    Of a session nobody but its program knows when a value takes effect.
    """

    def __init__(self, study: StudyRecord) -> None:
        self._study = study
        self._is_program = "session" in study.settings
        self._units = {entry["name"]: entry.get("unit", "") for entry in study.space.get("knobs", ())}

    def of(self, knob: str, value: Any) -> str:
        """`value` with the knob's unit."""
        return value_text(value, self._units.get(knob, ""))

    def settings(self) -> tuple[SettingChange, ...]:
        """What the verdict's winner changes, in the order of names."""
        verdict = self._study.verdict
        return tuple(
            self._setting(name, value, verdict.knobs.get(name, _UNKNOWN))
            for name, value in sorted(verdict.config.items())
        )

    def _setting(self, name: str, value: Any, about: KnobChange) -> SettingChange:
        old = self._study.baseline.get(name) if about.old is None else about.old
        return SettingChange(
            knob=clean(name),
            old=first_line(about.old_text or self.of(name, old)),
            new=first_line(about.new_text or self.of(name, value)),
            restart="" if self._is_program else first_line(about.restart),
            safety=first_line(about.safety),
            doc=first_line(about.doc),
        )


def value_text(value: Any, unit: str) -> str:
    """A value as its system writes it; bare when it is of no known kind or unit."""
    try:
        return clean(format_value(value, unit))
    except (TrimtabError, TypeError, ValueError):
        return clean(value)
