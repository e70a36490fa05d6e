"""The memory budget: what a config may use at most, as a constraint for the space and as bytes by consumer.

Zhou (2013), inequality 5.1: W * n + S + M + T + O < total RAM, with

    W * n   work_mem * hash_mem_multiplier for each of n clients (one sort or hash step per client at full size)
    S       shared_buffers, and wal_buffers beside it
    M       maintenance_work_mem once, and for each autovacuum worker autovacuum_work_mem (-1: maintenance_work_mem)
    T       temp_buffers for each client
    O       reserved for the operating system and the server's processes: 5 % of the budget, at least 64 MB

With shared_buffers (and every other knob that is not tuned) at its running value it becomes inequality 5.2. The whole
is an upper bound and not a forecast: few clients use all of work_mem, some plans use it several times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.records import Context
from trimtab.space import Constraint, base_value
from trimtab.systems.base import KnobState
from trimtab.systems.memory import MemoryModel, memory_model

__all__ = ["CONSUMERS", "ORDERS", "constraints", "model", "reserved_bytes"]

ORDERS: tuple[tuple[str, str], ...] = (
    ("min_wal_size", "max_wal_size"),
    ("max_parallel_workers", "max_worker_processes"),
    ("max_parallel_workers_per_gather", "max_parallel_workers"),
    ("max_parallel_maintenance_workers", "max_parallel_workers"),
    ("autovacuum_max_workers", "autovacuum_worker_slots"),
    ("io_combine_limit", "io_max_combine_limit"),
    ("superuser_reserved_connections", "max_connections"),
)
"""Knobs of which the first may not be above the second: the server would ignore the excess, or not start."""

_TERMS: Mapping[str, str] = {
    "shared_buffers": "shared_buffers",
    "wal_buffers": "min(shared_buffers / 32, 16MB) if wal_buffers < 0 else wal_buffers",
    "work_mem": "work_mem * hash_mem_multiplier * clients",
    "maintenance_work_mem": "maintenance_work_mem",
    "autovacuum": "(maintenance_work_mem if autovacuum_work_mem < 0 else autovacuum_work_mem) * autovacuum_max_workers",
    "temp_buffers": "temp_buffers * clients",
}
"""Consumer -> bytes."""

CONSUMERS = (
    "shared_buffers",
    "work_mem",
    "hash_mem_multiplier",
    "maintenance_work_mem",
    "autovacuum_work_mem",
    "autovacuum_max_workers",
    "temp_buffers",
    "wal_buffers",
)
"""Knobs of the memory model."""

_RESERVED_SHARE = 0.05
_RESERVED_BYTES = 64 << 20


def reserved_bytes(budget_bytes: int) -> float:
    """O of inequality 5.1."""
    return max(_RESERVED_BYTES, _RESERVED_SHARE * budget_bytes)


def model(states: Mapping[str, KnobState], context: Context, budget_bytes: int) -> MemoryModel:
    """The sum, with the knobs at their running values."""
    return memory_model(
        _TERMS,
        states,
        {"clients": float(context.clients)},
        reserved_bytes=reserved_bytes(budget_bytes),
        budget_bytes=budget_bytes,
    )


def constraints(
    names: Sequence[str], states: Mapping[str, KnobState], context: Context, budget_bytes: int
) -> tuple[Constraint, ...]:
    """The budget and the orders, over those of `names` that matter; other knobs stand at their running values."""
    budget = model(states, context, budget_bytes).constraint(names)
    found = [budget] if budget is not None else []
    tuned = set(names)
    for low, high in ORDERS:
        pair = (low, high)
        if tuned.intersection(pair) and all(name in states for name in pair):
            fixed = {n: base_value(states[n].knob, states[n].running) for n in pair if n not in tuned}
            found.append(Constraint(f"{low} <= {high}", name=f"{low} <= {high}", constants=fixed))
    return tuple(found)
