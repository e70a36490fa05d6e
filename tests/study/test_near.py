"""Nearness of studies: knobs, workload, machine, and the server's own counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.fakes import FakeStudy
from trimtab.history import StudyCopy, open_history_at, read_space
from trimtab.records import Context, Machine, Objective, Trial
from trimtab.space import Knob, KnobKind
from trimtab.study.near import NEAR, Task, counters_likeness, nearest, overlap, workload_likeness

pytestmark = pytest.mark.slow

BASE = Context("tpch 4Q6+4Q9 scale 0.1", 8, 1.0, {"share_q6": 0.5})


def test_workloads_alike() -> None:
    assert workload_likeness(BASE, BASE) == pytest.approx(1.0)
    writes = replace(BASE, read_share=0.5)
    other = Context("ycsb a", 8, 0.5)
    assert workload_likeness(BASE, other) < workload_likeness(BASE, writes) < 1.0
    assert workload_likeness(BASE, replace(BASE, clients=32)) < 1.0
    assert workload_likeness(BASE, replace(BASE, features={"share_q6": 0.1})) < 1.0
    assert workload_likeness(BASE, other) == workload_likeness(other, BASE)


def test_overlap_counts_knobs_that_mean_the_same() -> None:
    a = Knob(name="a", kind=KnobKind.INTEGER, low=1, high=9, default=1, unit="kB")
    b = Knob(name="b", kind=KnobKind.BOOLEAN, default=False)
    assert overlap({"a": a, "b": b}, {"a": a, "b": b, "c": b}) == 1.0
    assert overlap({"a": a, "b": b}, {"a": replace(a, unit="8kB"), "b": b}) == 0.5
    assert overlap({"a": a}, {}) == 0.0


@pytest.mark.parametrize(
    ("changes", "is_near"),
    [({}, True), ({"workload": "ycsb a", "clients": 500, "read_share": 0.0}, False), ({"cores": 512}, False)],
)
def test_only_what_is_near_is_taken(fake: FakeStudy, changes: dict[str, Any], is_near: bool) -> None:
    fake.text = fake.text.replace("12 trials", "4 trials") + "\n[proof]\nablate = false\n"
    record, trials = fake.tune()
    with open_history_at(None, fake.path / "state") as history:
        context = replace(record.context, **{k: v for k, v in changes.items() if k != "cores"})
        machine = Machine(
            cores=record.machine.cores * int(changes.get("cores", 1)), memory_bytes=record.machine.memory_bytes
        )
        other = replace(record, name="other", context=context, machine=machine)
        (study_id,) = history.add_copies([StudyCopy(other, trials)])
        task = Task(
            target="fake", space=read_space(record), objective=Objective.parse("throughput"), machine=record.machine,
            context=record.context, trials=trials,
        )  # fmt: skip
        found = nearest(history, task, except_id=record.id)
        assert [near.record.id for near in found] == ([study_id] if is_near else [])
        (named,) = nearest(history, task, except_id=record.id, names=("other",))
        assert (named.nearness >= NEAR) is is_near


def test_counters_tell_of_the_work(fake: FakeStudy) -> None:
    fake.text = fake.text.replace("12 trials", "3 trials")
    _, trials = fake.tune()
    base = trials[0]

    def counted(factor: float) -> list[Trial]:
        after = {"blks_read": 1e4 * factor, "xact": 500.0, "temp_bytes": 1e6 * factor}
        return [replace(base, counters_before=dict.fromkeys(after, 0.0), counters_after=after)]

    assert counters_likeness(counted(1.0), counted(1.0)) == pytest.approx(1.0)
    assert (counters_likeness(counted(1.0), counted(50.0)) or 1.0) < 0.5
    assert counters_likeness(trials, counted(1.0)) is None
