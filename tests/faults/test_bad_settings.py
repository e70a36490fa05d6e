"""Rows D1 and D2: settings that are accepted and fatal, each rescued without a human; the time is printed."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.faults.bad_settings import ALL, BLOCKS_START, GOAL_S, LOCKS_OUT, STARTS, Tried, try_all, write_column
from tests.faults.conftest import MakePlace
from tests.faults.invariants import check_invariants, check_unmixed, take_picture
from tests.faults.place import Place
from tests.faults.rooms import open_bench
from trimtab.errors import TargetError
from trimtab.space import Config
from trimtab.systems.postgresql.undo import Undo

pytestmark = [pytest.mark.service, pytest.mark.slow]


def show(row: str, place: Place, tried: list[Tried]) -> None:
    for one in tried:
        print(
            f"\n{row} PostgreSQL {place.server.version}: {one.settings}: serving again after {one.seconds:.1f} s; {one.outcome}"
        )
    worst = max(one.seconds for one in tried)
    print(f"\n{row} PostgreSQL {place.server.version}: {len(tried)} settings, all rescued, {worst:.1f} s at most")
    assert worst < GOAL_S


def test_D1_settings_that_keep_the_server_from_starting(place_18: Place) -> None:
    before = take_picture(place_18.server)
    tried = list(try_all(place_18, before, BLOCKS_START[::4]))
    show("D1", place_18, tried)
    assert sum(one.outcome == "accepted" for one in tried) <= 2  # this machine may really have huge pages or so
    check_invariants(place_18, before, recovers=False)


def test_D2_settings_that_lock_out_or_cheat(place_18: Place) -> None:
    before = take_picture(place_18.server)
    tried = list(try_all(place_18, before, (*LOCKS_OUT, *STARTS[::5])))
    show("D2", place_18, tried)
    lock_out = next(one for one in tried if one.settings.startswith("session_preload"))
    assert "no_such_library" in lock_out.outcome
    check_invariants(place_18, before, recovers=False)


@pytest.mark.parametrize("look", ["_unparsable", "_read"])
def test_D2_a_login_that_is_cut_off_once_is_tried_again(
    place_18: Place, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    """As one with transaction_timeout = 1 is on a busy machine, while the server has not read its files again."""
    cut_off, ask = [TargetError("terminating connection due to transaction timeout")], getattr(Undo, look)

    def cut_off_once(undo: Undo, *arguments: Any) -> Any:
        if cut_off:
            raise cut_off.pop()
        return ask(undo, *arguments)

    before = take_picture(place_18.server)
    with open_bench(place_18) as bench:
        bench.target.apply(Config({"work_mem": 8192}))
        monkeypatch.setattr(Undo, look, cut_off_once)
        assert not bench.target.restore(bench.snapshot).left
    assert not cut_off
    check_unmixed(take_picture(place_18.server), before)


@pytest.mark.full
@pytest.mark.parametrize(("version", "is_embedded"), [("18", True), ("16", True), ("18", False), ("16", False)])
def test_D1_D2_all_settings_on_all_servers(make_place: MakePlace, version: str, is_embedded: bool) -> None:
    place = make_place(version, is_embedded)
    before = take_picture(place.server)
    tried = list(try_all(place, before, ALL))
    show("D1, D2", place, tried)
    if os.environ.get("TRIMTAB_WRITE_DOCS"):
        write_column(f"{version}, {'embedded' if is_embedded else 'with files and restart command'}", tried)
    check_invariants(place, before, recovers=False)
