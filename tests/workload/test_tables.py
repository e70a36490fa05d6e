"""What a target says of the tables of a load: runs on data that was written before it are refused, for they would not show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload import CycledWorkload, RatedWorkload, ResettableWorkload, StartState, ThreadedWorkload
from trimtab.workload.command import CommandWorkload
from trimtab.workload.run_database import RunDatabase
from trimtab.workload.ycsb import YcsbWorkload


def there(changed: str) -> Endpoint:
    options = {"tables": "crc_check_chance = 1", "tables.changed": changed}
    return Endpoint(protocol="cql", host="127.0.0.1", port=9042, user="", database="", options=options)


def quiet(_text: str) -> None:
    """Nothing is told."""


def test_runs_on_the_data_itself_need_a_copy_for_other_options() -> None:
    assert RunDatabase("data", is_copied=False).reset(there(""), quiet) is None
    with pytest.raises(LoadError, match=r"^table_compression=none: would not show.*database=data") as caught:
        RunDatabase("data", is_copied=False).reset(there("table_compression=none"), quiet)
    assert 'start_state = "template"' in (caught.value.hint or "")


def test_a_cycle_that_keeps_its_data_refuses_other_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunDatabase, "reset", lambda *_: StartState("copy", 1.0, ""))
    contexts: list[dict[str, Any]] = [{"name": "day", "users": 4}, {"name": "night", "users": 2}]
    table = {"kind": "ycsb", "workload": "A", "records": 100, "cycle": {"contexts": contexts}}
    cycle = CycledWorkload.from_settings(table, YcsbWorkload.from_settings)
    day, night = (cycle.under(visit.context) for visit in cycle.cycle.visits)
    assert isinstance(day, ResettableWorkload)
    assert isinstance(night, ResettableWorkload)
    assert day.reset(there("a=1"), quiet) is not None
    assert night.reset(there("a=1"), quiet) is None
    with pytest.raises(LoadError, match=r"options of tables \(a=2\) would not show") as caught:
        night.reset(there("a=2"), quiet)
    assert 'data = "fresh"' in (caught.value.hint or "")


def test_a_command_under_a_context_is_no_load_of_short_operations() -> None:
    """Before a run, a target that compiles is warmed up by loads of a second: a command that is ended then may do harm."""
    contexts: list[dict[str, Any]] = [{"name": "day", "clients": 4}, {"name": "night", "clients": 2}]
    cycle = CycledWorkload.from_settings(
        {"kind": "command", "command": "true", "cycle": {"contexts": contexts}}, CommandWorkload.from_settings
    )
    assert not isinstance(cycle.under(cycle.cycle.contexts[0]), RatedWorkload | ThreadedWorkload)
    ycsb = {"kind": "ycsb", "workload": "A", "cycle": {"contexts": [{"name": "day"}]}}
    day = CycledWorkload.from_settings(ycsb, YcsbWorkload.from_settings)
    assert isinstance(day.under(day.cycle.contexts[0]), ThreadedWorkload)


def test_what_a_context_runs_before_its_command_is_run_once(tmp_path: Path) -> None:
    """Also where another context has run something else before its own."""
    contexts = [{"name": name, "before": f"mkdir {name}"} for name in ("day", "night")]
    cycle = CycledWorkload.from_settings(
        {"kind": "command", "command": "true", "cycle": {"contexts": contexts}},
        lambda table: CommandWorkload.from_settings(table, directory=tmp_path),
    )
    for _ in range(2):
        for visit in cycle.cycle.visits:
            under = cycle.under(visit.context)
            assert isinstance(under, ResettableWorkload)
            under.reset(there(""), quiet)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["day", "night"]
