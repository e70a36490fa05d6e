"""A config as text ready for a system's own configuration file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trimtab.space import Config, Knob, RestartClass, Value
from trimtab.systems.base import KnobState

__all__ = ["fragment_text"]


def fragment_text(
    config: Config,
    states: Mapping[str, KnobState],
    text_of: Callable[[Knob, Value], str],
    head: Sequence[str] = (),
) -> str:
    """One comment line and one setting for each knob, with what it was before; ends with a newline.

    Args:
        config: the knobs and their values.
        states: as found.
        text_of: a value as that file has it.
        head: lines that it needs before a setting.
    """
    lines = list(head)
    for name, value in config.items():
        knob, before = states[name].knob, states[name].running
        text, now = text_of(knob, value), knob.format(value)
        restart = "; needs a restart" if knob.restart is not RestartClass.RELOAD else ""
        meant = f" {now}." if now != text.strip("'") else ""
        lines += [f"# {knob.doc or name} Was {knob.format(before)}{restart}.{meant}", f"{name} = {text}"]
    return "\n".join(lines) + "\n"
