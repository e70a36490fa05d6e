"""A rule-based config, without measuring: the starting point of a search, and what it has to beat.

The rules are those that the MySQL and MariaDB manuals and the rule-based tuners of the MySQLTuner class agree on, with the
same corrections as for PostgreSQL: memory and cores are those of the cgroup, buffers of a connection are shared between
the clients that really come, and the whole respects the memory budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from trimtab.records import Context, Machine
from trimtab.space import Config, KnobKind, Value
from trimtab.systems.base import KnobState
from trimtab.systems.memory import round_size
from trimtab.systems.mysql.memory import model
from trimtab.systems.overlay import Bounds

__all__ = ["advise"]

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
_SHRINK = 0.9
_SHARE_OF_CLIENTS = 0.15
"""Of the budget, for the buffers of all clients together."""


def advise(states: Mapping[str, KnobState], context: Context, bounds: Bounds, machine: Machine) -> Config:
    """Values for those knobs that the rules speak of and that may be changed, within useful ranges and the budget."""
    wanted: dict[str, float | str] = {
        **_memory_rules(context, bounds),
        **_write_rules(bounds, machine),
        **_connection_rules(context, machine),
    }
    values: dict[str, Value] = {
        name: _fitted(states[name], value)
        for name, value in wanted.items()
        if name in states and not states[name].lock_reason
    }
    return Config(_within_budget(values, states, context, int(bounds["memory"])))


def _memory_rules(context: Context, bounds: Bounds) -> dict[str, float | str]:
    """In bytes: most of the budget to InnoDB, a little to each client, next to nothing to caches that InnoDB does not use."""
    memory = bounds["memory"]
    each = memory * _SHARE_OF_CLIENTS / max(1, context.clients)
    return {
        "innodb_buffer_pool_size": memory * 0.65,
        "innodb_log_buffer_size": min(memory / 32, 64 * _MIB),
        "key_buffer_size": 8 * _MIB,
        "aria_pagecache_buffer_size": min(memory / 32, 128 * _MIB),
        "query_cache_type": "OFF",
        "query_cache_size": 0,
        "sort_buffer_size": min(each / 6, 4 * _MIB),
        "join_buffer_size": min(each / 6, 4 * _MIB),
        "read_rnd_buffer_size": min(each / 12, 1 * _MIB),
        "temptable_max_ram": min(memory / 16, 1024 * _MIB),
        "tmp_table_size": min(each / 2, 64 * _MIB),
        "max_heap_table_size": min(each / 2, 64 * _MIB),
    }


def _write_rules(bounds: Bounds, machine: Machine) -> dict[str, float | str]:
    """A redo log that holds a while of writing, as far as the disk allows; input and output after the kind of disk."""
    redo = min(bounds["memory"] * 0.65 / 4, 4 * _GIB, bounds["disk"] / 40)
    rules: dict[str, float | str] = {
        "innodb_log_file_size": redo,
        "innodb_redo_log_capacity": redo,
        "innodb_flush_method": "O_DIRECT",
    }
    if machine.disk == "ssd":
        rules |= {"innodb_io_capacity": 2000, "innodb_io_capacity_max": 4000, "innodb_flush_neighbors": 0}
    if machine.disk == "hdd":
        rules |= {"innodb_io_capacity": 200, "innodb_io_capacity_max": 400, "innodb_flush_neighbors": 1}
    return rules


def _connection_rules(context: Context, machine: Machine) -> dict[str, float | str]:
    """Threads and tables after the clients; parts of shared structures after the cores."""
    return {
        "thread_cache_size": max(16, context.clients),
        "table_open_cache": max(2000, context.clients * 8),
        "innodb_buffer_pool_instances": min(8, max(1, machine.cores // 2)),
        "innodb_purge_threads": min(4, max(1, machine.cores)),
        "innodb_page_cleaners": min(4, max(1, machine.cores)),
    }


def _fitted(state: KnobState, value: float | str) -> Value:
    """A number in the knob's own unit as a legal value inside its useful range; a text as the choice it names."""
    knob = state.knob
    if isinstance(value, str):
        return value if value in knob.choices else state.running
    if value in knob.special:
        return int(value) if knob.kind is KnobKind.INTEGER else float(value)
    if knob.low is not None and knob.high is not None:
        value = min(max(value, knob.low), knob.high)
    if knob.kind is KnobKind.REAL:
        return round(float(value), 4)
    step = int(knob.step or 1)
    lowest = int(knob.low) if knob.low is not None else 0
    return max(lowest, round_size(value, step) if knob.unit == "B" else math.floor(value / step) * step)


def _within_budget(
    values: dict[str, Value], states: Mapping[str, KnobState], context: Context, budget_bytes: int
) -> dict[str, Value]:
    """Shrinks the clients' memory first and the shared one last, until the budget holds or nothing can shrink."""
    memory = model(states, context, budget_bytes)
    for name in (
        "tmp_table_size",
        "sort_buffer_size",
        "join_buffer_size",
        "innodb_log_buffer_size",
        "innodb_buffer_pool_size",
    ):
        while name in values and memory.total(values) > budget_bytes:
            smaller = _fitted(states[name], float(values[name]) * _SHRINK)
            if not isinstance(smaller, int) or smaller >= int(values[name]):
                break
            values[name] = smaller
    return values
