"""A config as text ready for an option file of the server."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.space import Config, RestartClass
from trimtab.systems.base import KnobState
from trimtab.systems.mysql.values import option_text

__all__ = ["fragment_text"]


def fragment_text(config: Config, states: Mapping[str, KnobState]) -> str:
    """A group head, then one comment line and one setting per knob, with what it was before; ends with a newline."""
    lines = ["[mysqld]"]
    for name, value in config.items():
        state = states[name]
        restart = "; needs a restart" if state.knob.restart is not RestartClass.RELOAD else ""
        now, before = (state.knob.format(each) for each in (value, state.running))
        meant = f" {now}." if now != option_text(value) else ""
        lines += [f"# {state.knob.doc or name} Was {before}{restart}.{meant}", f"{name} = {option_text(value)}"]
    return "\n".join(lines) + "\n"
