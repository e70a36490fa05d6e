"""The buffer pool as a knob: its range where only a restart gives more of it, and what its memory is reckoned from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from trimtab.space import RestartClass
from trimtab.systems.base import KnobState
from trimtab.systems.knobs import Reading
from trimtab.systems.mysql.variables import POOL, Span, live_range
from trimtab.units import format_size

__all__ = ["MEMORY_FACTS", "with_live_range"]

MEMORY_FACTS: Mapping[str, float] = {
    "innodb_buffer_pool_instances": 1.0,
    "innodb_buffer_pool_chunk_size": float(1 << 20),
}
"""What a buffer pool is rounded up to where the server has no such variables."""


def with_live_range(
    states: Mapping[str, KnobState], readings: Mapping[str, Reading], *, can_restart: bool
) -> Mapping[str, KnobState]:
    """The states; a buffer pool that cannot grow but by a restart needs one, and where none can be made its range ends there."""
    state, live = states.get(POOL), live_range(readings[POOL]) if POOL in readings else None
    if state is None or live is None or state.knob.low is None or state.knob.high is None:
        return states
    if can_restart:
        restart = RestartClass.RESTART if live[1] < state.knob.high else state.knob.restart
        return {**states, POOL: replace(state, knob=replace(state.knob, restart=restart))}
    return {**states, POOL: _within(state, state.knob.low, state.knob.high, live)}


def _within(state: KnobState, low: float, high: float, live: Span) -> KnobState:
    """The state with a range within what SET GLOBAL gives, and why; locked where that is a single value."""
    limits = (
        f"below {format_size(live[0])} it needs a restart (it has several instances)" if live[0] > low else "",
        f"above {format_size(live[1])} it needs a restart (innodb_buffer_pool_size_max)" if live[1] < high else "",
    )
    why = "; ".join(filter(None, limits))
    if not why:
        return state
    step = state.knob.step or 1
    least, most = math.ceil(max(low, live[0]) / step) * step, math.floor(min(high, live[1]) / step) * step
    knob = replace(state.knob, low=min(least, most), high=max(least, most), doc=f"{state.knob.doc} Here {why}.")
    lock = state.lock_reason or (why if least >= most else "")
    return replace(state, knob=knob, vendor_low=live[0], vendor_high=live[1], lock_reason=lock)
