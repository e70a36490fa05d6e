"""The memory budget: what a config may use at most, as a constraint for the space and as bytes by consumer.

    S       what all connections share: InnoDB's buffer pool with its descriptors (about 5 % on top), redo log buffer, key
            buffer, Aria's page cache, query cache, TempTable's memory
    W * n   for each of n clients: the buffers of one sort, one join, one scan and one sorted read, one internal temporary
            table, thread stack, network buffer, binary log cache
    O       reserved for the operating system and the server itself: 5 % of the budget, at least 128 MB

It is the sum that the MySQL manual ("How MySQL Uses Memory") describes and that rule-based tuners compute, with the clients
that really come (the workload's context) in place of max_connections. It is an upper bound and not a forecast: few
statements use all of these at once, some use one several times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.records import Context
from trimtab.space import Constraint
from trimtab.systems.base import KnobState
from trimtab.systems.memory import MemoryModel, memory_model

__all__ = ["GLOBAL", "ORDERS", "PER_CLIENT", "constraints", "model", "reserved_bytes"]

GLOBAL: Mapping[str, float] = {
    "innodb_buffer_pool_size": 1.05,
    "innodb_log_buffer_size": 1.0,
    "key_buffer_size": 1.0,
    "aria_pagecache_buffer_size": 1.0,
    "query_cache_size": 1.0,
    "temptable_max_ram": 1.0,
}
"""Knob -> bytes that the server takes for each byte of it."""

PER_CLIENT = (
    "sort_buffer_size",
    "join_buffer_size",
    "read_buffer_size",
    "read_rnd_buffer_size",
    "mrr_buffer_size",
    "thread_stack",
    "net_buffer_length",
    "binlog_cache_size",
)
_TABLE = ("tmp_table_size", "max_heap_table_size")
"""An internal temporary table in memory is as large as the smaller of the two."""

ORDERS: tuple[tuple[str, str], ...] = (
    ("innodb_io_capacity", "innodb_io_capacity_max"),
    ("innodb_max_dirty_pages_pct_lwm", "innodb_max_dirty_pages_pct"),
    ("read_buffer_size", "max_allowed_packet"),
    ("innodb_log_buffer_size", "innodb_log_file_size"),
)
"""Knobs of which the first may not be above the second: the server would change one of them silently, or refuse it."""

_RESERVED_SHARE = 0.05
_RESERVED_BYTES = 128 << 20


def reserved_bytes(budget_bytes: int) -> float:
    """O."""
    return max(_RESERVED_BYTES, _RESERVED_SHARE * budget_bytes)


def model(states: Mapping[str, KnobState], context: Context, budget_bytes: int) -> MemoryModel:
    """The sum over those of the knobs that this server has, at their running values."""
    terms = {name: name if factor == 1 else f"{name} * {factor:g}" for name, factor in GLOBAL.items() if name in states}
    terms |= {name: f"{name} * clients" for name in PER_CLIENT if name in states}
    if all(name in states for name in _TABLE):
        terms["temporary tables"] = f"min({', '.join(_TABLE)}) * clients"
    return memory_model(
        terms,
        states,
        {"clients": float(context.clients)},
        reserved_bytes=reserved_bytes(budget_bytes),
        budget_bytes=budget_bytes,
    )


def constraints(
    names: Sequence[str], states: Mapping[str, KnobState], context: Context, budget_bytes: int
) -> tuple[Constraint, ...]:
    """The budget and the orders, over those of `names` that matter; other knobs stand at their running values."""
    tuned = set(names)
    budget = model(states, context, budget_bytes).constraint(names)
    found = [budget] if budget is not None else []
    for low, high in ORDERS:
        if (
            not tuned.intersection((low, high))
            or low not in states
            or high not in states
            or _is_off(low, high, states, tuned)
        ):
            continue
        fixed = {name: float(states[name].running) for name in (low, high) if name not in tuned}
        found.append(Constraint(f"{low} <= {high}", name=f"{low} <= {high}", constants=fixed))
    return tuple(found)


def _is_off(low: str, high: str, states: Mapping[str, KnobState], tuned: set[str]) -> bool:
    """Whether the upper knob stands at a special value that bounds nothing: no query cache, no own low-water mark."""
    return high not in tuned and states[high].running in states[high].knob.special
