"""D9, D10 and foreign changes of files and settings: somebody else works on the server while it is tuned."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.invariants import check_invariants, take_picture
from tests.faults.place import Place
from tests.faults.rooms import Bench, open_bench, stopped, undone
from trimtab.errors import RestoreError
from trimtab.records import Fault, Status
from trimtab.trial import Journal

pytestmark = pytest.mark.service


def test_D9_a_restart_by_somebody_else_makes_the_trial_invalid(own_place: Place) -> None:
    before = take_picture(own_place.server)
    with open_bench(own_place) as bench:
        bench.on_second = lambda: own_place.server.control("restart")
        trial = bench.run()
    assert (trial.status, trial.fault) == (Status.OK, Fault.NONE)
    assert bench.n_loads >= 2, "it was made once more"
    assert any(said.startswith("trial 0: environment fault: ") for said in bench.said), bench.said
    check_invariants(own_place, before, recovers=False)


@pytest.mark.full  # test_server_killed.py: two kills end the trial in the same way
def test_D9_a_server_that_is_restarted_in_every_trial_teaches_nothing(own_place_18: Place) -> None:
    place = own_place_18
    before = take_picture(place.server)

    def arm() -> None:
        bench.on_second = again

    def again() -> None:
        place.server.control("restart")
        bench.at["load"] = arm

    with open_bench(place) as bench:
        bench.at["load"] = arm
        trial = bench.run()
    assert (trial.status, trial.fault) == (Status.INFRASTRUCTURE, Fault.ENVIRONMENT)
    assert trial.measurement is None
    assert trial.reason.startswith("twice: ")
    check_invariants(place, before, recovers=False)


def test_D10_a_node_that_becomes_a_standby_is_left_alone(own_place_18: Place) -> None:
    place = own_place_18
    signal_file = place.server.data_dir / "standby.signal"

    def demote() -> None:
        signal_file.touch()
        place.server.control("restart")

    def script(bench: Bench) -> None:
        bench.on_second = demote
        bench.run()

    error = stopped(place, script)
    assert "the server's role has changed (failover): it is a standby now, it was a primary" in error.message
    assert "never tuned" in str(error.hint)
    assert "work_mem=8MB: not touched, because it is not known to be the server that was tuned" in error.message
    assert "work_mem" in place.server.auto_conf.read_text(), "not even our own change is taken back on the wrong node"
    # what a person does then, as the message says
    signal_file.unlink()
    place.server.control("restart")
    place.server.query("SELECT 1")
    with place.server.admin() as admin:
        admin.execute("ALTER SYSTEM RESET ALL")
    place.server.control("restart")
    assert undone(place) == "restored as it was found"
    check_invariants(place, take_picture(place.server), recovers=False)


def test_D10_a_standby_that_is_promoted_is_not_tuned_on(own_place_18: Place) -> None:
    place = own_place_18
    signal_file = place.server.data_dir / "standby.signal"
    signal_file.touch()
    place.server.control("restart")
    place.write(knobs=("work_mem", "random_page_cost"))

    def script(bench: Bench) -> None:
        bench.on_second = lambda: place.server.query("SELECT pg_promote()")
        bench.run(work_mem=8192)

    error = stopped(place, script)
    assert "it is a primary now, it was a standby" in error.message
    with pytest.raises(RestoreError, match="work_mem=8MB: not touched, because it is not known to be the server"):
        undone(place)
    with place.server.admin() as admin:
        admin.execute("ALTER SYSTEM RESET work_mem")
        admin.execute("SELECT pg_reload_conf()")
    (entry,) = Journal(place.state).open_entries()
    entry.close("taken back by hand")
    check_invariants(place, take_picture(place.server), recovers=False)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def reload(place: Place) -> None:
    place.server.query("SELECT pg_reload_conf()")


ONLY_LONG = [pytest.param(when, marks=pytest.mark.full) for when in ("check", "restore")]
"""The quick form has a change during a measurement, which is seen at the restore, too."""


@pytest.mark.parametrize("when", ["load", *ONLY_LONG])
def test_D9_a_changed_file_stops_with_its_name_and_keeps_the_change(own_place_18: Place, when: str) -> None:
    """Before an apply, during a measurement, before the restore; the change stays, and ours is taken back."""
    place = own_place_18
    conf = place.server.data_dir / "postgresql.conf"

    def script(bench: Bench) -> None:
        bench.run(hand_over=True)
        bench.at[when] = lambda: append(conf, "log_checkpoints = off\n")
        bench.run(number=1, random_page_cost=2.0)

    error = stopped(place, script)
    assert f"file='{conf}' was changed by somebody else" in error.message
    assert "our own changes were taken back: " in error.message
    assert conf.read_text().endswith("log_checkpoints = off\n")
    reload(place)
    now = take_picture(place.server)
    assert now.settings["work_mem"] == "4096"
    assert now.settings["shared_buffers"] == "2048"
    assert now.settings["log_checkpoints"] == "off"
    check_invariants(place, now, recovers=False)


def by_alter_system(place: Place) -> None:
    with place.server.admin() as admin:
        admin.execute("ALTER SYSTEM SET log_checkpoints = off")
        admin.execute("SELECT pg_reload_conf()")


def same_knob(place: Place) -> None:
    with place.server.admin() as admin:
        admin.execute("ALTER SYSTEM SET work_mem = '5MB'")
        admin.execute("SELECT pg_reload_conf()")


def rewritten(place: Place) -> None:
    """As configuration management does: the file as it should be, over whatever is there."""
    place.server.auto_conf.write_text("# managed\n")


def garbage(place: Place) -> None:
    append(place.server.auto_conf, "work_mem = = 'x\n")


def for_the_role(place: Place) -> None:
    with place.server.admin() as admin:
        admin.execute("ALTER ROLE postgres SET random_page_cost = 3")


@pytest.mark.parametrize(
    ("act", "message", "work_mem"),
    [
        (by_alter_system, r"file='.*postgresql.auto.conf' was changed by somebody else; our own changes were taken back", "4096"),
        (same_knob, r"left as it is: work_mem=5MB: somebody else has set it to 5MB meanwhile", "5120"),
        (rewritten, r"postgresql.auto.conf' was changed by somebody else; our own changes were taken back", "4096"),
        (garbage, r"our own changes are still there: .* cannot be parsed; it was not touched", "8192"),
        (for_the_role, r"somebody else changed settings: random_page_cost=3 \(user\), it was 4", "4096"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_D9_what_is_not_ours_is_never_overwritten(
    own_place_18: Place, act: Callable[[Place], None], message: str, work_mem: str
) -> None:
    place = own_place_18
    seen = []

    def change() -> None:
        act(place)
        seen.append(place.server.auto_conf.read_text())

    def script(bench: Bench) -> None:
        bench.on_second = change
        bench.run(work_mem=8192)

    assert re.search(message, stopped(place, script).message)
    text = place.server.auto_conf.read_text()
    if act in (rewritten, garbage):
        assert text == seen[0], "not a byte of somebody else's file was touched"
    if act is by_alter_system:
        assert "log_checkpoints = 'off'" in text
        assert "work_mem" not in text
    assert dict(place.server.query("SELECT name, setting FROM pg_settings"))["work_mem"] == work_mem
    if act is garbage:
        with pytest.raises(RestoreError, match="cannot be parsed; it was not touched") as caught:
            undone(place)
        assert "repair or remove the wrong line in it, then run `trimtab recover`" in str(caught.value.hint)
        place.server.auto_conf.write_text(text.replace("work_mem = = 'x\n", ""))
        assert undone(place) == "restored as it was found"
    check_invariants(place, take_picture(place.server), recovers=False)
