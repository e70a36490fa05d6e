"""A config as text ready for postgresql.conf."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.space import Config, RestartClass
from trimtab.systems.base import KnobState
from trimtab.units import format_value

__all__ = ["fragment_text"]


def fragment_text(config: Config, states: Mapping[str, KnobState]) -> str:
    """One comment line and one setting per knob, with units and what it was before; ends with a newline."""
    lines = []
    for name, value in config.items():
        state = states[name]
        before = format_value(state.running, state.knob.unit)
        restart = "; needs a restart" if state.knob.restart is not RestartClass.RELOAD else ""
        lines += [
            f"# {state.knob.doc or name} Was {before}{restart}.",
            f"{name} = {_quoted(format_value(value, state.knob.unit))}",
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """As postgresql.conf wants it: bare where that is safe, else in quotes."""
    plain = text.replace(".", "").replace("_", "").replace("-", "", 1)
    return text if plain.isalnum() else "'" + text.replace("'", "''") + "'"
