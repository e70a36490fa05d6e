"""A rule-based config, without measuring: the starting point of a search, and what it has to beat.

The rules are those that PostgreSQL's documentation ("Resource Consumption", "Planner Cost Constants") and the formula
tools pgtune and timescaledb-tune agree on, with three corrections: memory and cores are those of the cgroup, work_mem
is shared between the clients that really come (the workload's context) in place of max_connections, and the whole
respects the memory budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from trimtab.records import Context, Machine
from trimtab.space import Config, KnobKind, Value
from trimtab.systems.base import KnobState
from trimtab.systems.memory import round_size
from trimtab.systems.postgresql.memory import model
from trimtab.systems.postgresql.overlay import Bounds
from trimtab.units import Dimension, unit_factor

__all__ = ["advise"]

_MIB = 1 << 20
_GIB = 1 << 30
_MIN_PARALLEL_CORES = 4
_SHRINK = 0.9


def advise(states: Mapping[str, KnobState], context: Context, bounds: Bounds, machine: Machine) -> Config:
    """Values for those knobs that the rules speak of and that may be changed, within useful ranges and the budget."""
    wanted = {**_memory_rules(context, bounds), **_write_rules(bounds), **_read_rules(machine), **_core_rules(machine)}
    values: dict[str, Value] = {
        name: _fitted(states[name], number)
        for name, number in wanted.items()
        if name in states and not states[name].lock_reason
    }
    return Config(_within_budget(values, states, context, int(bounds["memory"])))


def _memory_rules(context: Context, bounds: Bounds) -> dict[str, float]:
    """In bytes: a quarter to shared_buffers, three quarters are what caches hold together, the rest to the clients."""
    memory = bounds["memory"]
    shared = memory / 4
    return {
        "shared_buffers": shared,
        "effective_cache_size": memory * 3 / 4,
        "maintenance_work_mem": min(memory / 16, 2 * _GIB),
        "work_mem": max((memory - shared) / (3 * max(1, context.clients)), 4 * _MIB),
    }


def _write_rules(bounds: Bounds) -> dict[str, float]:
    """Fewer, slower checkpoints, as far as the disk allows."""
    largest = min(4 * _GIB, bounds["disk"] / 10)
    return {
        "max_wal_size": largest,
        "min_wal_size": largest / 4,
        "checkpoint_completion_target": 0.9,
        "checkpoint_timeout": 900.0,
    }


def _read_rules(machine: Machine) -> dict[str, float]:
    """By the kind of disk; nothing is said when it is unknown."""
    by_kind = {
        "ssd": {"random_page_cost": 1.1, "effective_io_concurrency": 200.0},
        "hdd": {"random_page_cost": 4.0, "effective_io_concurrency": 2.0},
    }
    return by_kind.get(machine.disk, {})


def _core_rules(machine: Machine) -> dict[str, float]:
    """Parallel workers after the cores; on few cores the server's own values stand."""
    cores = machine.cores
    if cores < _MIN_PARALLEL_CORES:
        return {}
    return {
        "max_worker_processes": max(8.0, cores),
        "max_parallel_workers": cores,
        "max_parallel_workers_per_gather": min(4.0, math.ceil(cores / 2)),
        "max_parallel_maintenance_workers": min(4.0, math.ceil(cores / 2)),
        "io_workers": max(3.0, cores / 4),
    }


def _fitted(state: KnobState, number: float) -> Value:
    """A number in bytes, seconds or counts as a value of the knob, inside its useful range."""
    knob = state.knob
    factor, dimension = unit_factor(knob.unit)
    value = number / float(factor)
    if knob.low is not None and knob.high is not None:
        value = min(max(value, knob.low), knob.high)
    if knob.kind is KnobKind.REAL:
        return round(value, 4)
    if dimension is not Dimension.SIZE:
        return math.floor(value)
    return max(int(knob.low or 0), round_size(value, int(knob.step or 1)))


def _within_budget(
    values: dict[str, Value], states: Mapping[str, KnobState], context: Context, budget_bytes: int
) -> dict[str, Value]:
    """Shrinks the clients' memory first and the shared one last, until the budget holds or nothing can shrink."""
    memory = model(states, context, budget_bytes)
    for name in ("work_mem", "maintenance_work_mem", "shared_buffers"):
        while name in values and memory.total(values) > budget_bytes:
            smaller = round_size(float(values[name]) * _SHRINK, int(states[name].knob.step or 1))
            if smaller < (states[name].knob.low or 0):
                break
            values[name] = smaller
    return values
