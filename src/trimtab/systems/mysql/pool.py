"""The buffer pool as a knob: its range where only a restart gives more of it, what its memory is reckoned from, and what a start
makes of it, and of the query cache."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from trimtab.space import RestartClass
from trimtab.systems.base import KnobState
from trimtab.systems.knobs import Reading
from trimtab.systems.mysql.variables import POOL, SEVERAL, Span, live_range
from trimtab.units import format_size

__all__ = ["MEMORY_FACTS", "as_started", "with_live_range"]

_CACHE = "query_cache_type"
_PARTS, _CHUNK, _CLEANERS = "innodb_buffer_pool_instances", "innodb_buffer_pool_chunk_size", "innodb_page_cleaners"

MEMORY_FACTS: Mapping[str, float] = {_PARTS: 1.0, _CHUNK: float(1 << 20)}
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


def as_started(start: Mapping[str, str], running: Mapping[str, Reading]) -> Mapping[str, str]:
    """`start`, variable -> text, with what a server that is `running` so now would make of its buffer pool, the parts of that and
    its page cleaners: whole chunks of all parts, one part below 1 GiB, and no more cleaners than parts."""
    start = _with_query_cache(start, running)
    asked = {name: int(text) for name in (POOL, _PARTS, _CLEANERS) if (text := start.get(name, "")).isdigit()}
    if POOL not in asked:
        return start
    size = asked[POOL]
    parts = 1 if size < SEVERAL else asked.get(_PARTS) or _running(running, _PARTS)  # 0: as the server finds right
    unit = parts * _running(running, _CHUNK)
    size = size if size < unit else math.ceil(size / unit) * unit  # below it, the chunks would be smaller, too
    made = {POOL: size, _PARTS: parts, _CLEANERS: min(asked.get(_CLEANERS, parts), parts)}
    return {**start, **{name: str(value) for name, value in made.items() if name in start}}


def _with_query_cache(start: Mapping[str, str], running: Mapping[str, Reading]) -> Mapping[str, str]:
    """With a query cache on that the files give a size, as a start has it whatever they say of its type (sql/mysqld.cc,
    init_server_components)."""
    size = running.get("query_cache_size")
    if size is None or start.get(_CACHE) != "OFF" or start.get(size.name, "0") in ("0", size.default):
        return start
    return {**start, _CACHE: "ON"}


def _running(variables: Mapping[str, Reading], name: str) -> int:
    """Its value, or the one that a server without it works with."""
    least = int(MEMORY_FACTS[name])
    return max(least, int(str(variables[name].value))) if name in variables else least
