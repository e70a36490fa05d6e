"""What a cycle of contexts can do depends on what it is made of."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import LoadError, UsageError
from trimtab.records import Endpoint
from trimtab.workload import CycledWorkload, DeployedWorkload, Deployment, StartState
from trimtab.workload.base import RightsWorkload
from trimtab.workload.command import CommandWorkload
from trimtab.workload.pgbench import PgbenchWorkload
from trimtab.workload.rubis.workload import RubisWorkload
from trimtab.workload.sql.workload import SqlWorkload
from trimtab.workload.tpch.workload import TpchWorkload
from trimtab.workload.tpcw.workload import TpcwWorkload
from trimtab.workload.webapp.workload import AppWorkload
from trimtab.workload.ycsb import YcsbWorkload


def cycle(kind: Any, *contexts: dict[str, Any], **own: Any) -> CycledWorkload:
    rows = [{"name": f"context {number}", **context} for number, context in enumerate(contexts)]
    settings = {"kind": kind.kind, "cycle": {"contexts": rows, **own}}
    if kind is CommandWorkload:
        settings["command"] = "true"
    return CycledWorkload.from_settings(settings, lambda table: kind.from_settings(table, directory=Path()))


def test_an_application_is_deployed_for_a_cycle_of_its_mixes(monkeypatch: pytest.MonkeyPatch) -> None:
    def deployed(workload: AppWorkload, data: Endpoint, report: object) -> Deployment:
        return Deployment(names={"mix": workload.browsers.mix}, config="")

    monkeypatch.setattr(AppWorkload, "deployment", deployed)
    made = cycle(RubisWorkload, {"mix": "bidding"}, {"mix": "browsing", "users": 4})
    assert isinstance(made, DeployedWorkload)
    there = Endpoint(protocol="postgresql", host="db", port=5432, user="u", database="d")
    assert made.deployment(there, lambda line: None).names == {"mix": "bidding"}
    assert isinstance(made, RightsWorkload)
    assert not made.rights.reads_only


def test_an_application_has_one_copy_of_data_and_one_set_of_options() -> None:
    with pytest.raises(UsageError, match="context='context 1' of .* has other data than context='context 0'"):
        cycle(RubisWorkload, {"scale": 0.001}, {"scale": 0.002})
    assert isinstance(cycle(RubisWorkload, {"scale": 0.001}, {"scale": 0.002}, data="fresh"), DeployedWorkload)
    with pytest.raises(UsageError, match="context='context 1' of .* needs another application than .* other options"):
        cycle(TpcwWorkload, {}, {"numbering": "lock"}, data="fresh")


@pytest.mark.parametrize(("kind", "has_rights"), [(CommandWorkload, False), (YcsbWorkload, True)])
def test_a_cycle_has_no_more_than_its_workload(kind: Any, has_rights: bool) -> None:
    context = {"workload": "c"} if has_rights else {"clients": 2}
    made = cycle(kind, context, context | ({"users": 2} if has_rights else {"clients": 3}))
    assert isinstance(made, RightsWorkload) is has_rights
    # As later Pythons look for the members of a protocol: whether they raise or not.
    assert (inspect.getattr_static(made, "rights", None) is not None) is has_rights
    assert not isinstance(made, DeployedWorkload)


@pytest.mark.parametrize("data", ["keep", "fresh"])
def test_what_each_context_writes_is_undone_by_its_own_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str
) -> None:
    undone: list[str] = []
    monkeypatch.setattr(SqlWorkload, "_undo", lambda self, there: undone.append(self.settings.undo))
    for name, text in {"day": "SELECT a FROM t", "night": "UPDATE t SET a = 1", "noon": "DELETE FROM u"}.items():
        (tmp_path / f"{name}.sql").write_text(text)
        (tmp_path / f"undo_{name}.sql").write_text(f"CALL undo_{name}()")
    contexts = [{"name": "night"}, {"name": "noon"}, {"name": "day"}]
    for context in contexts:
        name = context["name"]
        context["files"] = [f"{name}.sql"]  # type: ignore[assignment]
        if name != "day":
            context |= {"start_state": "undo", "undo": f"undo_{name}.sql"}
    settings = {"kind": "sql", "database": "shop", "cycle": {"contexts": contexts, "data": data}}
    made = CycledWorkload.from_settings(settings, lambda table: SqlWorkload.from_settings(table, directory=tmp_path))
    there = Endpoint(protocol="postgresql", host="db", port=5432, user="u", database="d")
    for visit in made.cycle.visits:
        made.under(visit.context).reset(there, lambda line: None)  # type: ignore[attr-defined]
    undone.clear()
    made.under(made.cycle.visits[-1].context).clean_up(there)  # type: ignore[attr-defined]
    assert sorted(undone) == ["CALL undo_night()", "CALL undo_noon()"]


def test_refreshed_data_of_every_scale_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    reset: list[str] = []
    monkeypatch.setattr(TpchWorkload, "reset", lambda self, there, report: reset.append(self.settings.database))
    contexts = [{"name": "small", "scale": 0.01}, {"name": "large", "scale": 0.1}]
    settings = {"kind": "tpch", "run": "power", "refresh": True, "cycle": {"contexts": contexts}}
    made = CycledWorkload.from_settings(settings, lambda table: TpchWorkload.from_settings(table))
    there = Endpoint(protocol="postgresql", host="db", port=5432, user="u", database="d")
    for visit in made.cycle.visits * 2:
        made.under(visit.context).reset(there, lambda line: None)  # type: ignore[attr-defined]
    made.under(made.cycle.visits[0].context).clean_up(there)  # type: ignore[attr-defined]
    assert reset == ["trimtab_tpch_0_01", "trimtab_tpch_0_1"] * 2


class Copies:
    """The copies of a server's databases: one is not finished, and one cannot be dropped."""

    def __init__(self, *, unfinished: str = "", kept: str = "") -> None:
        self.unfinished, self.kept, self.there = unfinished, kept, list[str]()

    def make(self, name: str) -> StartState:
        self.there.append(name)
        if name == self.unfinished:
            raise LoadError(f"{name}: the disk is full")
        return StartState("a fresh copy", 1.0)

    def drop(self, name: str) -> None:
        if name == self.kept:
            raise LoadError(f"{name}: somebody uses it")
        self.there.remove(name)


def contexts_of(monkeypatch: pytest.MonkeyPatch, copies: Copies) -> list[Any]:
    """Two, whose runs have a copy each."""
    monkeypatch.setattr(YcsbWorkload, "reset", lambda self, there, report: copies.make(self.database.name))
    monkeypatch.setattr(YcsbWorkload, "clean_up", lambda self, there: copies.drop(self.database.name))
    made = cycle(YcsbWorkload, {"workload": "a", "records": 100}, {"workload": "a", "records": 200})
    return [made.under(visit.context) for visit in made.cycle.visits]


THERE = Endpoint(protocol="postgresql", host="db", port=5432, user="u", database="d")


def test_a_copy_that_was_not_finished_goes_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = Copies(unfinished="trimtab_ycsb_200_run")
    small, large = contexts_of(monkeypatch, copies)
    small.reset(THERE, lambda line: None)
    with pytest.raises(LoadError, match="trimtab_ycsb_200_run: the disk is full"):
        large.reset(THERE, lambda line: None)
    assert len(copies.there) == 2
    small.clean_up(THERE)
    assert copies.there == []


def test_a_copy_that_cannot_be_dropped_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = Copies(kept="trimtab_ycsb_100_run")
    for context in contexts_of(monkeypatch, copies):
        context.reset(THERE, lambda line: None)
    with pytest.raises(LoadError, match="trimtab_ycsb_100_run: somebody uses it"):
        context.clean_up(THERE)
    assert copies.there == ["trimtab_ycsb_100_run"]


def test_a_start_state_of_one_context_is_not_overruled_by_what_the_others_need() -> None:
    made = cycle(YcsbWorkload, {"workload": "a"}, {"workload": "b", "start_state": "none"}, {"workload": "c"})
    places = [made.under(visit.context).inner.database.name for visit in made.cycle.visits]  # type: ignore[attr-defined]
    assert places == ["trimtab_ycsb_100000_run", "trimtab_ycsb_100000", "trimtab_ycsb_100000_run"]
    made = cycle(YcsbWorkload, {"workload": "b", "start_state": "none"}, {"workload": "a"}, {"workload": "c"})
    places = [made.under(visit.context).inner.database.name for visit in made.cycle.visits]  # type: ignore[attr-defined]
    assert places == ["trimtab_ycsb_100000", "trimtab_ycsb_100000_run", "trimtab_ycsb_100000_run"]


def test_a_user_s_database_that_no_context_copies_is_not_copied_for_a_cycle() -> None:
    made = cycle(PgbenchWorkload, *[{"script": script, "database": "shop"} for script in ("tpcb-like", "select-only")])
    assert made.copies == ()
