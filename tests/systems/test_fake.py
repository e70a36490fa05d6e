"""The fake target keeps the promises of a target."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import ApplyError, LockedError, RestoreError, TargetError, UsageError
from trimtab.records import Context
from trimtab.space import Config, Space
from trimtab.systems import Target
from trimtab.testing.fake_target import Disk, FakeTarget


def test_it_is_a_target() -> None:
    assert isinstance(FakeTarget(), Target)


def test_apply_sets_exactly_the_config_over_the_snapshot() -> None:
    target = FakeTarget()
    found = target.snapshot()
    assert target.apply(Config({"cache": 256, "compile": False})).restarted
    assert not target.apply(Config({"cache": 256})).restarted
    assert target.values == {**found.values, "cache": 256}
    target.restore(found)
    assert target.values == found.values
    assert target.calls == ["snapshot", "apply", "apply", "restore"]


def test_a_crash_leaves_it_as_found() -> None:
    target = FakeTarget(crash_when=lambda values: float(values["cache"]) > 1000)
    with pytest.raises(ApplyError, match="the fake server did not start") as caught:
        target.apply(Config({"cache": 2000}))
    assert "FATAL" in caught.value.log_excerpt
    assert target.values["cache"] == 128


def test_it_rejects_dies_and_fails_to_restore_on_demand() -> None:
    target = FakeTarget(
        reject_when=lambda values: values["workers"] == 0,
        dies_when=lambda values: values["workers"] == 16,
        fail_restore=1,
    )
    with pytest.raises(ApplyError, match="rejects"):
        target.preflight(Config({"workers": 0}))
    found = target.snapshot()
    target.apply(Config({"workers": 16}))
    with pytest.raises(TargetError, match="is down"):
        target.health()
    with pytest.raises(RestoreError, match="could not be put back"):
        target.restore(found)
    target.restore(found)
    target.health()


def test_locked_and_unknown_knobs() -> None:
    with pytest.raises(ApplyError, match="knob='sync' may not be changed: safety class durability is locked"):
        FakeTarget().apply(Config({"sync": False}))
    with pytest.raises(ApplyError, match="no knob='none'"):
        FakeTarget().apply(Config({"none": 1}))
    FakeTarget(unlock=["durability"]).apply(Config({"sync": False}))
    with pytest.raises(UsageError, match="knob='sync' is unknown or locked"):
        FakeTarget(knobs=["sync"]).selection(Context(workload="test", clients=4, read_share=0.5))
    with pytest.raises(UsageError, match="unknown key 'x'"):
        FakeTarget.from_settings("f", {"x": 1}, state_dir=Path("/tmp"))


def test_two_tuners_of_one_server() -> None:
    disk = Disk()
    with FakeTarget(disk=disk).lock("one"), pytest.raises(LockedError, match="holds this server: one"):
        FakeTarget(disk=disk).lock("two").__enter__()


def test_its_space_holds_baseline_and_budget() -> None:
    target, context = FakeTarget(), Context("x", clients=10)
    states = target.states()
    names = target.selection(Context(workload="test", clients=4, read_share=0.5))
    space = Space([states[name].knob for name in names], target.constraints(names, context))
    assert space.is_feasible(Config({name: states[name].running for name in names}))
    big = Config({**{name: states[name].running for name in names}, "cache": 900, "sort_memory": 20})
    model = target.memory(context)
    assert model.total(big) > model.budget_bytes
    assert not space.is_feasible(big)


def test_the_hill_can_be_climbed() -> None:
    target = FakeTarget()
    before = target.speed()
    target.apply(Config({"cache": 512, "sort_memory": 32, "page_cost": 1.1, "compile": False, "method": "ring"}))
    assert target.speed() > 1.5 * before
