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
from trimtab.space import Constraint, Value
from trimtab.systems.base import KnobState
from trimtab.units import unit_factor

__all__ = ["CONSUMERS", "ORDERS", "constraints", "memory_use", "reserved_bytes"]

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

_BUDGET = (
    "shared_buffers"
    " + (min(shared_buffers / 32, 16MB) if wal_buffers < 0 else wal_buffers)"
    " + work_mem * hash_mem_multiplier * clients"
    " + maintenance_work_mem"
    " + (maintenance_work_mem if autovacuum_work_mem < 0 else autovacuum_work_mem) * autovacuum_max_workers"
    " + temp_buffers * clients"
    " + reserved <= memory"
)
_LARGEST_AUTO_WAL_BYTES = 16 << 20
_RESERVED_SHARE = 0.05
_RESERVED_BYTES = 64 << 20


def reserved_bytes(budget_bytes: int) -> float:
    """O of inequality 5.1."""
    return max(_RESERVED_BYTES, _RESERVED_SHARE * budget_bytes)


def _base(state: KnobState, value: Value) -> float:
    """A number in bytes or seconds; special values raw, as the constraint language sees them."""
    number = float(value)
    return number if number in state.knob.special else number * float(unit_factor(state.knob.unit)[0])


def constraints(
    names: Sequence[str], states: Mapping[str, KnobState], context: Context, budget_bytes: int
) -> tuple[Constraint, ...]:
    """The budget and the orders, over those of `names` that matter; other knobs stand at their running values."""
    found = []
    tuned = set(names)
    if tuned.intersection(CONSUMERS):
        fixed = {name: _base(states[name], states[name].running) for name in CONSUMERS if name not in tuned}
        numbers = {
            **fixed,
            "clients": float(context.clients),
            "reserved": reserved_bytes(budget_bytes),
            "memory": float(budget_bytes),
        }
        found.append(Constraint(_BUDGET, name="memory budget", constants=numbers))
    for low, high in ORDERS:
        pair = (low, high)
        if tuned.intersection(pair) and all(name in states for name in pair):
            fixed = {name: _base(states[name], states[name].running) for name in pair if name not in tuned}
            found.append(Constraint(f"{low} <= {high}", name=f"{low} <= {high}", constants=fixed))
    return tuple(found)


def memory_use(
    config: Mapping[str, Value], states: Mapping[str, KnobState], context: Context, budget_bytes: int
) -> dict[str, float]:
    """Bytes by consumer under `config` over the running values, and "budget", the limit of their sum."""

    def get(name: str) -> float:
        return _base(states[name], config.get(name, states[name].running))

    wal, auto = get("wal_buffers"), get("autovacuum_work_mem")
    per_worker = get("maintenance_work_mem") if auto < 0 else auto
    return {
        "shared_buffers": get("shared_buffers"),
        "wal_buffers": min(get("shared_buffers") / 32, _LARGEST_AUTO_WAL_BYTES) if wal < 0 else wal,
        "work_mem": get("work_mem") * get("hash_mem_multiplier") * context.clients,
        "maintenance_work_mem": get("maintenance_work_mem"),
        "autovacuum": per_worker * get("autovacuum_max_workers"),
        "temp_buffers": get("temp_buffers") * context.clients,
        "reserved": reserved_bytes(budget_bytes),
        "budget": float(budget_bytes),
    }
