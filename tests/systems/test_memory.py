"""The budget as a constraint and as a sum agree, and advice stays inside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from trimtab.errors import SpaceError
from trimtab.records import Context
from trimtab.space import Config, Constraint, Space
from trimtab.systems.base import KnobState
from trimtab.systems.memory import MemoryModel
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.catalogue import CATALOG
from trimtab.systems.rules import advised, memory_of
from trimtab.units import unit_factor

pytestmark = pytest.mark.service

CONTEXT = Context("test", clients=12)
MIB = 1 << 20
NAMES = ("shared_buffers", "work_mem", "hash_mem_multiplier", "maintenance_work_mem", "temp_buffers", "wal_buffers",
         "autovacuum_work_mem", "autovacuum_max_workers")  # fmt: skip
LOGS = ("transaction", "subtransaction", "commit_timestamp", "multixact_member", "multixact_offset", "notify",
        "serializable")  # fmt: skip


def _model(states: Mapping[str, KnobState], context: Context, budget_bytes: int) -> MemoryModel:
    return memory_of(CATALOG, states, {"clients": float(context.clients)}, budget_bytes=budget_bytes)


def test_the_sum_is_that_of_the_inequality(target: PostgresTarget) -> None:
    use = target.memory(CONTEXT).to_json(
        Config({"shared_buffers": 32768, "work_mem": 8192, "hash_mem_multiplier": 1.5, "maintenance_work_mem": 65536})
    )
    assert use["shared_buffers"] == 256 * MIB
    assert use["work_mem"] == 8 * MIB * 1.5 * 12
    assert use["maintenance_work_mem"] == 64 * MIB
    assert use["autovacuum"] == 3 * 64 * MIB
    assert use["temp_buffers"] == 12 * 8 * MIB
    assert use["min_dynamic_shared_memory"] == 0
    assert use["reserved"] == 64 * MIB
    assert use["budget"] == 1024 * MIB


def test_five_per_cent_are_reserved_of_a_large_budget(target: PostgresTarget) -> None:
    assert _model(target.states(), CONTEXT, 100 << 30).use({})["reserved"] == 5 << 30


def test_special_values_take_their_meaning(target: PostgresTarget) -> None:
    automatic = target.memory(CONTEXT).use(
        Config({"wal_buffers": -1, "shared_buffers": 16384, "autovacuum_work_mem": -1})
    )
    assert automatic["wal_buffers"] == 4 * MIB
    own = target.memory(CONTEXT).use(Config({"autovacuum_work_mem": 16384, "min_dynamic_shared_memory": 48}))
    assert own["autovacuum"] == 3 * 16 * MIB
    assert own["min_dynamic_shared_memory"] == 48 * MIB


def test_shared_memory_of_logs_and_reads_is_counted_as_the_server_allocates_it(target: PostgresTarget) -> None:
    """Each within a megabyte; pg_shmem_allocations names them one by one."""
    states, use = target.states(), target.memory(CONTEXT).use({})
    logs = {f"{name}_buffers" for name in LOGS}
    names = [*LOGS, "AioHandle", "AioHandleIOV", "AioHandleData"] if logs <= states.keys() else []
    with target._reach.connect() as connection:
        rows = connection.rows("SELECT name, allocated_size FROM pg_shmem_allocations") if names else []
    sizes = {str(name): int(size) for name, size in rows}
    for consumer, parts in {"transaction logs": names[: len(LOGS)], "reads under way": names[len(LOGS) :]}.items():
        assert (consumer in use) == bool(parts) or consumer == "reads under way"
        if consumer in use:
            assert use[consumer] == pytest.approx(sum(sizes[part] for part in parts), abs=MIB)
    if names:
        more = target.memory(CONTEXT).use(Config({"transaction_buffers": 8192, "notify_buffers": 8192}))
        assert more["transaction logs"] - use["transaction logs"] == pytest.approx(3 * 64 * MIB, abs=MIB)
        own = target.memory(CONTEXT).use(Config({"io_max_concurrency": 256, "io_max_combine_limit": 128}))
        assert own["reads under way"] > 100 * MIB


@pytest.mark.parametrize(
    "names", [NAMES, ("work_mem",), ("shared_buffers", "wal_buffers"), ("temp_buffers", "work_mem")]
)
def test_constraint_and_sum_agree(target: PostgresTarget, names: tuple[str, ...]) -> None:
    states = target.states()
    budget = [c for c in target.constraints(names, CONTEXT) if c.name == "memory budget"]
    free = Space([states[name].knob for name in names])
    bound = Space([states[name].knob for name in names], budget)
    verdicts = set()
    for config in free.sample(300, np.random.default_rng(7)):
        use = _model(states, CONTEXT, 1 << 30).use(config)
        fits = sum(use.values()) <= 1 << 30
        verdicts.add(fits)
        assert bound.is_feasible(config) == fits, (dict(config), use)
    assert verdicts == {True, False}


def test_a_budget_that_nothing_fits_in_says_what_is_needed(target: PostgresTarget) -> None:
    states = target.states()
    model = _model(states, Context("test", clients=2000), 1 << 30)
    budget = model.constraint(NAMES)
    assert budget is not None
    with pytest.raises(SpaceError) as caught:
        Space([states[name].knob for name in NAMES], [budget]).require_feasible()
    assert re.search(r"\): the left side is at least \d.*GiB, the right side at most 1GiB$", caught.value.message)
    assert caught.value.hint == (
        'give the target more memory (memory = "SIZE" in [target.NAME] or [stack]), or let the workload have fewer clients'
    )


def test_only_what_matters_is_constrained(target: PostgresTarget) -> None:
    assert target.constraints(("random_page_cost",), CONTEXT) == ()
    assert [c.name for c in target.constraints(("min_wal_size",), CONTEXT)] == ["min_wal_size <= max_wal_size"]
    names = [c.name for c in target.constraints(("max_parallel_workers", "max_worker_processes"), CONTEXT)]
    assert names == [
        "max_parallel_workers <= max_worker_processes",
        "max_parallel_workers_per_gather <= max_parallel_workers",
        "max_parallel_maintenance_workers <= max_parallel_workers",
    ]


def test_a_fixed_knob_stands_at_its_running_value(target: PostgresTarget) -> None:
    states = target.states()
    (order,) = target.constraints(("min_wal_size",), CONTEXT)
    assert isinstance(order, Constraint)
    space = Space([states["min_wal_size"].knob], [order])
    assert space.is_feasible(Config({"min_wal_size": 1024}))
    assert not space.is_feasible(Config({"min_wal_size": 1025}))


@pytest.mark.parametrize("clients", [1, 12, 200])
@pytest.mark.parametrize("memory", [512 * MIB, 1 << 30, 64 << 30])
@pytest.mark.parametrize("disk", ["ssd", "hdd", ""])
def test_advice_fits_ranges_orders_and_budget(target: PostgresTarget, memory: int, clients: int, disk: str) -> None:
    context = Context("test", clients=clients)
    states = target.states()
    bounds = {"memory": float(memory), "cores": 8.0, "connections": 100.0, "disk": 1e11}
    facts = {**bounds, "clients": float(clients), "ssd": float(disk == "ssd"), "hdd": float(disk == "hdd")}
    config = advised(CATALOG, states, facts, _model(states, context, memory))
    assert {"shared_buffers", "work_mem", "effective_cache_size", "max_wal_size"} <= set(config)
    assert config.get("random_page_cost") == {"ssd": 1.1, "hdd": 4.0, "": None}[disk]
    for name, value in config.items():
        knob = states[name].knob
        assert not states[name].lock_reason
        assert knob.low is not None
        assert knob.high is not None
        assert knob.low <= value <= knob.high, name
    use = _model(states, context, memory)
    floor = {name: states[name].knob.low or 0 for name in ("shared_buffers", "work_mem", "maintenance_work_mem")}
    assert use.total(config) <= memory or use.total(floor) > memory * 0.8
    values = {name: float(v) * float(unit_factor(states[name].knob.unit)[0]) for name, v in config.items()}
    assert values["min_wal_size"] <= values["max_wal_size"]


def test_advice_leaves_locked_knobs_alone(target: PostgresTarget) -> None:
    states = dict(target.states())
    states["shared_buffers"] = replace(states["shared_buffers"], lock_reason="needs a restart")
    bounds = {"memory": float(1 << 30), "cores": 8.0, "connections": 100.0, "disk": 1e11}
    assert "shared_buffers" not in advised(
        CATALOG, states, {**bounds, "clients": 12.0, "ssd": 0.0, "hdd": 0.0}, target.memory(CONTEXT)
    )


def test_constraints_need_no_open_target_twice(target: PostgresTarget) -> None:
    budget = _model(target.states(), CONTEXT, 1 << 30).constraint(NAMES)
    assert target.constraints(NAMES, CONTEXT)[0] == budget
