"""The framework itself: a whole study passes all invariants, and each of the seven can fail."""

from __future__ import annotations

import dataclasses
import os
import secrets
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.faults.conftest import MakePlace, end_children, made_places
from tests.faults.invariants import check_invariants, take_picture
from tests.faults.place import CANARY, Place, Ran
from tests.needs import IS_FULL
from trimtab.history import History
from trimtab.systems import Snapshot
from trimtab.trial import Journal

pytestmark = pytest.mark.service


@pytest.mark.full  # T12 of test_limits.py: a study on such a server, from start to end
def test_study_on_an_embedded_server_holds_all_invariants(place: Place) -> None:
    before = take_picture(place.server)
    ran = place.run("tune", "study.toml")
    assert len(place.trials()) >= 5  # three of the baseline, two of the search, and what a proof adds
    check_invariants(place, before, ran=ran, code=(0, 1))


@pytest.mark.full  # test_tuner_killed.py: T1 and T8 on an embedded server, T3 on another
@pytest.mark.parametrize("is_embedded", [True, False])
def test_killed_tuner_holds_them_after_recover(make_place: MakePlace, is_embedded: bool) -> None:
    place = make_place("18", is_embedded)
    before = take_picture(place.server)
    child = place.start("tune", "study.toml")
    place.wait_step(child, "apply", trial=3)
    ran = place.kill(child)
    assert ran.code == -signal.SIGKILL
    assert place.n_announced == 3
    check_invariants(place, before)
    assert place.run("recover").out.strip().endswith("nothing to recover"), "recover is not idempotent"


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Place], None]:
    """Gives a place a history with a study of five trials, made by one real study of this module."""
    kept: list[tuple[dict[str, bytes], int]] = []

    def give(place: Place) -> None:
        if not kept:
            assert place.run("tune", "study.toml").code in (0, 1)
            kept.append(({path.name: path.read_bytes() for path in place.state.glob("history.db*")}, 0))
            return
        for name, content in kept[0][0].items():
            (place.state / name).write_bytes(content)
        place.known = place.stored()

    return give


@pytest.fixture(scope="module")
def served(root_folder: Path) -> Iterator[Place]:
    """A place whose server others use too."""
    with made_places(root_folder) as make:
        yield make("18", False)


@pytest.fixture
def beside(served: Place) -> Iterator[Place]:
    """A place of the test's own with the server of `served`, which the test leaves alone."""
    folder = served.folder / secrets.token_hex(3)
    (folder / "cache").mkdir(parents=True, mode=0o755)
    place = Place(folder, served.server, served.canary)
    yield place
    end_children(place)


def _sql(place: Place, *statements: str) -> None:
    with place.server.admin() as connection:
        for statement in statements:
            connection.execute(statement)


def _history(place: Place, statement: str) -> None:
    with sqlite3.connect(place.state / "history.db") as connection:
        assert connection.execute(statement).rowcount > 0


def _mixed(place: Place) -> None:
    _sql(place, "ALTER SYSTEM SET work_mem = '5MB'", "SELECT pg_reload_conf()")


def _other_value(place: Place) -> None:
    """A stored trial says that another value was in effect than its config asked for."""
    trial = place.trials()[3]
    name, value = next((n, v) for n, v in trial.effective.items() if n == "work_mem")
    with History.open(place.state / "history.db") as history:
        record = history.find_study("faults")
        assert record is not None
    wrong = dataclasses.replace(trial, effective={**trial.effective, name: int(value) + 64})
    trials = [wrong if each.number == 3 else each for each in place.trials()]
    place.trials = lambda name="faults": trials  # type: ignore[method-assign]


def _waits_for_restart(place: Place) -> None:
    place.server.control("stop")
    conf = place.server.data_dir / "postgresql.conf"
    text = conf.read_bytes()
    place.server.control("start")
    conf.write_bytes(text + b"max_connections = 90\n")
    _sql(place, "SELECT pg_reload_conf()")
    until = time.monotonic() + 30
    while not place.server.query("SELECT 1 FROM pg_settings WHERE pending_restart"):
        assert time.monotonic() < until, "the server does not read its files"
        time.sleep(0.05)
    conf.write_bytes(text)


def _lost_rows(place: Place) -> None:
    _sql(place, "DELETE FROM witness WHERE id = 77")


def _changed_row(place: Place) -> None:
    _sql(place, "UPDATE witness SET body = 'another' WHERE id = 78")


def _history_gone(place: Place) -> None:
    for path in place.state.glob("history.db*"):
        path.unlink()


def _last_trial_gone(place: Place) -> None:
    _history(place, "DELETE FROM trimtab_trial WHERE number = (SELECT max(number) FROM trimtab_trial)")


def _trial_changed(place: Place) -> None:
    _history(
        place, "UPDATE trimtab_trial SET started_at = started_at + 1, body = replace(body, '\"ok\"', '\"crashed\"')"
    )


def _gap(place: Place) -> None:
    place.known.clear()
    _history(place, "DELETE FROM trimtab_trial WHERE number = 1")


def _never_stored(place: Place) -> None:
    place.known.clear()
    place.n_announced = len(place.trials()) + 1


def _strange_status(place: Place) -> None:
    record = dataclasses.replace(place.record(), status="created")  # type: ignore[type-var]
    place.record = lambda name="faults": record  # type: ignore[method-assign]


def _open_entry(place: Place) -> None:
    Journal(place.state).begin(Snapshot(target="db", kind="postgresql", reach={}), study="faults", purpose="trial")


def _orphan(place: Place) -> None:
    child = subprocess.Popen(["sleep", "60"], cwd=place.folder, start_new_session=True)
    place.children.append(child)  # type: ignore[arg-type]
    # Popen returns while the kernel still sets up the new program: for a moment it has no command line, like the dead.
    until = time.monotonic() + 30
    while not Path(f"/proc/{child.pid}/cmdline").read_bytes():
        assert time.monotonic() < until, "the child does not start"
        time.sleep(0.01)


def _lock(place: Place) -> None:
    path = place.state / "left.lock"
    handle = os.open(path, os.O_CREAT | os.O_RDWR)
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_EX)


def _temporary(place: Place) -> None:
    (place.state / "history.db.partial").touch()


def _in_the_data_directory(place: Place) -> None:
    (place.server.data_dir / "postgresql.auto.conf.new").touch()


def _advisory(place: Place) -> None:
    session = place.server.admin()
    session.execute("SELECT pg_advisory_lock(1)")
    SESSIONS.append(session)


SESSIONS: list[psycopg.Connection[Any]] = []


def _leak(place: Place) -> None:
    (place.state / "leak.log").write_text(f"password={CANARY}1")


def _said(place: Place) -> None:
    place.ran.append(Ran(0, f"{CANARY}1", ""))


def _in_an_argv(place: Place) -> None:
    place.argvs.add(f"trimtab --password {CANARY}1".encode())


SABOTAGE: list[tuple[Callable[[Place], None], str]] = [
    (_mixed, r"\(i\) neither baseline nor last-good: files \['postgresql.auto.conf'\]"),
    (_other_value, r"\(ii\) trial 3 ran with other values"),
    (_waits_for_restart, r"\(ii\) not in effect: .*max_connections"),
    (_lost_rows, r"\(iii\) committed rows lost: \[77\]"),
    (_changed_row, r"\(iii\) committed rows lost: \[78\]"),
    (_history_gone, r"\(iv\) trials lost"),
    (_last_trial_gone, r"\(iv\) trials lost"),
    (_trial_changed, r"\(iv\) trials lost"),
    (_gap, r"\(iv\) a gap in the trials"),
    (_never_stored, r"\(iv\) \d+ trials, and number \d+ had begun"),
    (_strange_status, r"\(iv\) study status 'created'"),
    (_open_entry, r"\(iv\) an entry is still open"),
    (_orphan, r"\(vi\) orphans: .*sleep"),
    (_lock, r"\(vi\) still locked: .*left.lock"),
    (_temporary, r"\(vi\) temporary files: .*history.db.partial"),
    (_in_the_data_directory, r"\(vi\) new in the data directory"),
    (_advisory, r"\(vi\) the server's advisory lock is held"),
    (_leak, r"\(vii\) in .*leak.log"),
    (_said, r"\(vii\) in the output"),
    (_in_an_argv, r"\(vii\) in an argv"),
]


OF_THE_SERVER = (_mixed, _waits_for_restart, _lost_rows, _changed_row, _in_the_data_directory, _advisory)
"""Sabotages that need a server of their own."""


@pytest.mark.parametrize(("sabotage", "words"), SABOTAGE, ids=lambda value: getattr(value, "__name__", ""))
def test_an_invariant_can_fail(
    request: pytest.FixtureRequest, studied: Callable[[Place], None], sabotage: Callable[[Place], None], words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("tests.faults.invariants.ORPHANS_S", 1.0)  # the one of `_orphan` stays
    place: Place = request.getfixturevalue("own_place_18" if sabotage in OF_THE_SERVER else "beside")
    studied(place)
    before = take_picture(place.server)
    if sabotage is SABOTAGE[0][0] or IS_FULL:
        check_invariants(place, before, recovers=False)
    sabotage(place)
    with pytest.raises(AssertionError, match=words):
        check_invariants(place, before, recovers=False)
    while SESSIONS:
        SESSIONS.pop().close()


@pytest.mark.parametrize(
    ("ran", "code", "cause", "words"),
    [
        (Ran(70, "", "error: a bug"), None, "", r"\(v\) exit code 70"),
        (Ran(0, "", ""), 3, "", r"\(v\) exit code 0 is none of \(3,\)"),
        (Ran(3, "", "error: one\nerror: two"), None, "", r"\(v\) 2 lines of cause"),
        (Ran(3, "", ""), None, "", r"\(v\) 0 lines of cause"),
        (Ran(1, "Traceback (most recent call last)", ""), None, "", r"\(v\) a traceback"),
        (Ran(3, "", "error: another"), 3, "this one", r"\(v\) 'this one' is not in"),
    ],
)
def test_the_fifth_invariant_can_fail(ran: Ran, code: int | None, cause: str, words: str) -> None:
    from tests.faults.invariants import check_exit

    with pytest.raises(AssertionError, match=words):
        check_exit(ran, code, cause)


def test_an_embedded_server_that_was_left_running_is_seen(place_18: Place) -> None:
    before = take_picture(place_18.server)
    place_18.server.control("start")
    with pytest.raises(AssertionError, match=r"\(vi\) the embedded server was left running"):
        check_invariants(place_18, before, recovers=False)
