"""Which studies are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.history.samples import MACHINE, make_trial, study_values
from trimtab.history import ALIKE, History, StudyCopy, StudyQuery, machine_likeness
from trimtab.records import Context, Machine, Status


@pytest.fixture
def filled(url: str) -> Iterator[History]:
    big = replace(MACHINE, cores=64, memory_bytes=512 << 30, server_version="MariaDB 11.4")
    postgresql, mysql = ({"target": {"db": {"kind": kind}}} for kind in ("postgresql", "mysql"))
    with History.open(url) as history:
        first = history.create_study(**study_values(name="Ünï_1", settings=postgresql, created_at=100.0))
        history.create_study(**study_values(name="tpch-b", settings=mysql, machine=big, created_at=200.0))
        third = history.create_study(**study_values(name="shop%", context=Context("sql shop", 3), created_at=300.0))
        history.update_study(third.id, status="proven")
        for number in range(3):
            history.add_trial(first.id, make_trial(number))
        history.add_copies(
            [StudyCopy(replace(first, name="foreign", origin="x.jsonl", created_at=50.0), [make_trial(7)])]
        )
        yield history


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["Ünï_1", "tpch-b", "shop%", "foreign"]),
        ({"name": "ünï"}, ["Ünï_1"]),
        ({"name": "_"}, ["Ünï_1"]),
        ({"name": "%"}, ["shop%"]),
        ({"name": "*B"}, ["tpch-b"]),
        ({"name": "?"}, []),
        ({"target": "MySQL"}, ["tpch-b"]),
        ({"version": "18."}, ["Ünï_1", "shop%", "foreign"]),
        ({"version": "mariadb"}, ["tpch-b"]),
        ({"workload": "Shop"}, ["shop%"]),
        ({"status": "proven"}, ["shop%"]),
        ({"since": 200.0}, ["tpch-b", "shop%"]),
        ({"until": 200.0}, ["Ünï_1", "foreign"]),
        ({"since": 100.0, "until": 200.0, "workload": "tpch"}, ["Ünï_1"]),
        ({"like": Machine(cores=48, memory_bytes=512 << 30)}, ["tpch-b"]),
        ({"like": Machine(cores=128, memory_bytes=512 << 30)}, ["tpch-b"]),  # exactly ALIKE
        ({"like": Machine(cores=129, memory_bytes=512 << 30)}, []),
        ({"is_own": False}, ["foreign"]),
        ({"is_own": True, "target": "postgresql"}, ["Ünï_1"]),
    ],
)
def test_studies_are_found(filled: History, query: dict[str, Any], names: list[str]) -> None:
    assert [study.name for study in filled.summaries(StudyQuery(**query))] == names


def test_a_summary_tells_what_the_study_says(filled: History) -> None:
    first = filled.summaries()[0]
    assert (first.n_trials, first.target, first.server_version, first.workload) == (
        3, "postgresql", "18.1", "tpch 4Q6 scale 0.1",
    )  # fmt: skip
    assert (first.cores, first.memory_bytes, first.objective, first.origin) == (2, 8 << 30, "throughput", "")
    assert [study.n_trials for study in filled.summaries()] == [3, 0, 0, 1]


@pytest.mark.parametrize(("pattern", "n"), [("a[1]*", 1), ("a[*", 1), ("a[1]", 1), ("*[1-2]*", 0), ("?[1]b", 1)])
def test_brackets_are_letters_of_a_name(filled: History, pattern: str, n: int) -> None:
    for name in ("a[1]b", "a1b"):
        filled.create_study(**study_values(name=name))
    found = [study.name for study in filled.summaries(StudyQuery(name=pattern))]
    assert found == ["a[1]b"] * n


def test_trials_in_short(filled: History) -> None:
    ids = [study.id for study in filled.summaries()]
    filled.add_trial(ids[1], make_trial(0, status=Status.CRASHED, measurement=None, loss=float("nan"), loss_se=None))
    found = filled.trial_summaries(ids)
    assert [len(found[i]) for i in ids] == [3, 1, 0, 1]
    assert (found[ids[1]][0].status, found[ids[1]][0].loss) == (Status.CRASHED, None)
    assert found[ids[0]][2] == type(found[ids[0]][2])(
        number=2, role=make_trial(2).role, status=Status.OK, config=make_trial(2).config, loss=-0.5
    )
    assert filled.trial_summaries([]) == {}


def test_own_studies_are_told_from_imported_ones(filled: History) -> None:
    assert filled.find_study("foreign") is not None
    assert filled.find_study("foreign", is_own=True) is None
    assert filled.find_study("tpch-b", is_own=True) is not None


@pytest.mark.parametrize(
    ("change", "low", "high"),
    [
        ({}, 1.0, 1.0),
        ({"cores": 4}, 0.5, 0.5),
        ({"cores": 8}, 0.25, 0.25),
        ({"cores": 4, "memory_bytes": 16 << 30}, 0.25, 0.25),
        ({"disk": "hdd"}, 0.9, 0.9),
        ({"cpu_model": "another"}, 0.9, 0.9),
        ({"cores": 0}, 1.0, 1.0),
    ],
)
def test_likeness(change: dict[str, Any], low: float, high: float) -> None:
    other = replace(MACHINE, **change)
    assert low <= machine_likeness(MACHINE, other) == machine_likeness(other, MACHINE) <= high


@pytest.mark.parametrize("unknown", [{"cores": 0}, {"memory_bytes": 0}, {"cores": 0, "memory_bytes": 0}])
def test_a_study_that_does_not_tell_its_machine_is_like_none(filled: History, unknown: dict[str, int]) -> None:
    filled.create_study(**study_values(name="silent", machine=replace(MACHINE, **unknown)))
    here = Machine(cores=MACHINE.cores, memory_bytes=MACHINE.memory_bytes)
    found = [study.name for study in filled.summaries(StudyQuery(like=here))]
    assert "silent" not in found
    assert "shop%" in found
    assert [study.name for study in filled.summaries(StudyQuery(like=replace(MACHINE, **unknown), name="silent"))] == []


@pytest.mark.parametrize("least", [{"cores": 1}, {"memory_bytes": 1}])
def test_the_smallest_machine_is_like_itself(filled: History, least: dict[str, int]) -> None:
    machine = replace(MACHINE, **least)
    filled.create_study(**study_values(name="small", machine=machine))
    assert [study.name for study in filled.summaries(StudyQuery(like=machine, name="small"))] == ["small"]


def test_disks_of_different_kinds_are_not_alike() -> None:
    likeness = machine_likeness(replace(MACHINE, disk="ssd", cores=3), replace(MACHINE, disk="hdd"))
    assert likeness < ALIKE
