"""The role that `trimtab doctor --grant-sql` prints: made from exactly that text, it tunes, applies and rolls back, and the
server itself refuses it everything else."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import psycopg
import pytest

from tests.faults.conftest import MakePlace
from tests.faults.invariants import check_invariants, take_picture
from tests.faults.place import WORKLOAD, Place
from tests.faults.server import set_password
from tests.needs import IS_FULL
from trimtab.history import History
from trimtab.records import KnobChange
from trimtab.space import Config

pytestmark = pytest.mark.service

YCSB = """
[workload]
kind = "ycsb"
workload = "A"
records = 500

[workload.load]
users = 1
"""
RELOADED = ("work_mem", "random_page_cost")


def grants(place: Place, *more: str) -> str:
    ran = place.run("doctor", "study.toml", "--grant-sql", *more)
    assert ran.code == 0, ran.err
    return ran.out


def use_role(place: Place, knobs: tuple[str, ...], *, files: bool = False, workload: str = WORKLOAD) -> str:
    """Makes the role from the printed text, and lets the study use it; the text."""
    place.write(knobs=knobs, workload=workload)
    text = grants(place)
    with place.server.admin() as connection:
        connection.execute(text)
    set_password(place.server, "trimtab", place.canary)
    reach = f'url = "{place.server.url(user="trimtab")}"\n'
    if files:
        reach += f'data_dir = "{place.server.data_dir}"\nrestart = "{place.server.restart_command}"\n'
    place.write(knobs=knobs, workload=workload, reach=reach, budget="1 trials")
    return text


def win(place: Place, config: dict[str, object]) -> None:
    """Makes the study proven: nothing about the gain is asserted, the server is the real one."""
    with History.open(place.state / "history.db") as history:
        record = history.find_study("faults")
        assert record is not None
        row = KnobChange(old_text="as found", new_text="as won", restart="reload")
        knobs = dict.fromkeys(config, row)
        verdict = replace(record.verdict, result="better", config=Config(config), knobs=knobs)
        history.update_study(record.id, status="proven", verdict=verdict)


WAYS = [("16", True), *([("18", False), ("18", True), ("16", False)] if IS_FULL else [])]
"""What the role may do by connection alone, another test asks the server itself."""


@pytest.mark.parametrize(("version", "files"), WAYS)
def test_tune_apply_and_rollback_with_the_printed_role(make_place: MakePlace, version: str, files: bool) -> None:
    place = make_place(version, False)
    knobs = (*RELOADED, "shared_buffers") if files else RELOADED
    use_role(place, knobs, files=files)
    before = take_picture(place.server)
    tuned = place.run("tune", "study.toml")
    assert tuned.code in (0, 1), tuned.err
    check_invariants(place, before, ran=tuned)
    assert {name for trial in place.trials() for name in trial.config} == set(knobs)
    win(place, {"work_mem": 8192})
    applied = place.run("apply", "faults", "--yes")
    assert applied.code == 0, applied.err
    assert place.server.query("SHOW work_mem") == [("8MB",)]
    rolled = place.run("rollback", "faults")
    assert rolled.code == 0, rolled.err
    check_invariants(place, before, ran=rolled)


@pytest.mark.full
def test_role_makes_the_data_of_a_workload_of_our_own(own_place_18: Place) -> None:
    text = use_role(own_place_18, RELOADED, workload=YCSB)
    assert "CREATE ROLE trimtab LOGIN CREATEDB;" in text
    assert "GRANT pg_checkpoint TO trimtab;" in text
    before = take_picture(own_place_18.server)
    ran = own_place_18.run("tune", "study.toml")
    assert ran.code in (0, 1), ran.err
    assert "no privilege" not in ran.err
    check_invariants(own_place_18, before, ran=ran)


def test_server_itself_refuses_what_was_not_granted(own_place: Place) -> None:
    use_role(own_place, RELOADED)
    refused = (
        "ALTER SYSTEM SET fsync = off",
        "ALTER SYSTEM SET full_page_writes = off",
        "ALTER SYSTEM SET archive_command = 'touch /tmp/x'",
        "ALTER SYSTEM SET shared_preload_libraries = 'x'",
        "ALTER SYSTEM SET session_preload_libraries = 'x'",
        "ALTER SYSTEM SET shared_buffers = '1GB'",
        "ALTER SYSTEM RESET ALL",
        "COPY (SELECT 1) TO PROGRAM 'touch /tmp/x'",
        "CREATE ROLE other SUPERUSER",
        "ALTER ROLE trimtab SUPERUSER",
        "INSERT INTO witness (body) VALUES ('x')",
    )
    with own_place.server.admin(user="trimtab") as connection:
        for statement in refused:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        connection.execute("ALTER SYSTEM SET work_mem = '5MB'")
        connection.execute("ALTER SYSTEM RESET work_mem")


def test_named_durability_knob_is_not_granted_unless_unlocked(own_place_18: Place) -> None:
    own_place_18.write(knobs=("work_mem", "fsync"))
    ran = own_place_18.run("doctor", "study.toml", "--grant-sql")
    assert ran.code == 2
    assert "knob='fsync' is locked: safety class durability is locked" in ran.cause
    own_place_18.write(knobs=("work_mem", "fsync"), target='unlock = ["durability"]')
    assert "work_mem, fsync" in grants(own_place_18)


def test_text_is_for_the_knobs_of_the_study_and_holds_no_password(own_place_18: Place) -> None:
    text = grants(own_place_18, "--role", "Tuner One")
    assert 'CREATE ROLE "Tuner One" LOGIN;' in text
    assert 'work_mem, random_page_cost, shared_buffers\nTO "Tuner One";' in text
    assert "PASSWORD '" not in text
    assert own_place_18.canary not in text
    data = json.loads(own_place_18.run("doctor", "study.toml", "--grant-sql", "--json").out)
    assert data["is_enough"] is True
    assert data["sql"].endswith("GRANT SELECT ON ALL TABLES IN SCHEMA public TO trimtab;\n")
    ran = own_place_18.run("doctor", "study.toml", "--role", "x")
    assert (ran.code, ran.cause) == (2, "--role goes with --grant-sql")
    ran = own_place_18.run("doctor", "study.toml", "--grant-sql", "--role", "x\nDROP TABLE witness")
    assert ran.code == 2
    assert "is not a role name" in ran.cause


def test_user_of_the_study_without_rights_gets_its_own_grants(own_place_18: Place) -> None:
    with own_place_18.server.admin() as connection:
        connection.execute("CREATE ROLE poor LOGIN")
    set_password(own_place_18.server, "poor", own_place_18.canary)
    own_place_18.write(reach=f'url = "{own_place_18.server.url(user="poor")}"', knobs=RELOADED)
    text = grants(own_place_18)
    assert "CREATE ROLE poor LOGIN;" in text


def test_every_granted_set_is_accepted_by_the_server(own_place: Place) -> None:
    own_place.write(knobs="all", workload=YCSB)
    text = grants(own_place, "--role", "everything")
    assert len(re.findall(r"^GRANT ALTER SYSTEM ON PARAMETER$", text, re.MULTILINE)) == 1
    with own_place.server.admin() as connection:
        connection.execute(text)
