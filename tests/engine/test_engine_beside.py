"""The extension beside others, and beside functions of users: what those see and do is what it was without it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.engine.conftest import Session, engine, headers
from tests.engine.test_engine_plans import JOIN
from tests.servers.postgresql import DEBIAN
from tests.servers.run import template

pytestmark = [pytest.mark.service, pytest.mark.needs("c-compiler", "postgresql-embedded")]

TAG = 0x54
"""First byte of what the extension marks its plans with."""


def witness() -> Path:
    def make(folder: Path) -> None:
        source = Path(__file__).with_name("witness.c")
        argv = ["cc", "-shared", "-fPIC", "-O1", f"-I{headers('18')}", str(source), "-o", str(folder / "witness.so")]
        subprocess.run(argv, check=True, timeout=60)

    path = template("trimtab-witness", make) / "witness.so"
    path.chmod(0o755)
    return path


def noted(session: Session) -> list[str]:
    """All messages that the session gets from now on."""
    notices: list[str] = []
    session.connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    return notices


def test_the_rows_of_a_probe_are_counted_like_others(session: Session) -> None:
    n = len(session.rows(JOIN))
    session.tune("stop=1;base=100;plan=0.01;enable_hashjoin=0:0.2")
    session.rows(f"LOAD '{witness()}'")
    notices = noted(session)
    for _ in range(60):
        session.rows(JOIN)
    assert notices == [f"rows={n}"] * 60
    assert session.classes()[0]["probes"] > 0


def test_where_no_probe_can_be_stopped_those_are_made_that_the_budget_covers() -> None:
    """auto_explain with log_analyze measures each node of a plan, so no other plan runs before it."""
    with engine(DEBIAN) as (_, session):
        session.rows("LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on")
        session.rows("SET trimtab.budget = 20; SET trimtab.server_budget = 20")
        session.tune("stop=1;base=100;plan=0.01;enable_hashjoin=0:0.2")
        expected = session.rows(JOIN)
        for _ in range(150):
            assert session.rows(JOIN) == expected
        found = session.classes()[0]
        assert (found["settings"], found["probes"] > 0) == ("enable_hashjoin=off", True)
        assert session.rows("SELECT * FROM trimtab_history WHERE event = 'probe stopped'") == []


def test_a_standby_tunes_too() -> None:
    """There a probe that is given up could meet recovery: only those are made that the budget covers."""
    with engine("18") as (server, primary):
        expected = primary.rows(JOIN)
        primary.connection.close()
        server.control("stop")
        signal = server.data_dir / "standby.signal"
        signal.touch()
        shutil.chown(signal, server.account.uid, server.account.gid)
        server.control("start")
        with server.admin() as connection:
            session = Session(connection)
            assert session.value("SELECT pg_is_in_recovery()") is True
            session.rows("SET trimtab.budget = 20; SET trimtab.server_budget = 20")
            session.tune("stop=1;base=100;plan=0.01;enable_hashjoin=0:0.2")
            for _ in range(100):
                assert session.rows(JOIN) == expected
            assert session.classes()[0]["settings"] == "enable_hashjoin=off"
            assert session.value("SELECT trimtab_save()") is True


def murmur(value: int) -> int:
    """As PostgreSQL hashes an object id."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        value = (value ^ value >> shift) * factor & 0xFFFFFFFF
    return value


def test_the_plan_of_a_function_that_looks_like_a_mark_is_kept(session: Session) -> None:
    """What PostgreSQL notes of a function in a plan is a hash: one in 256 begins as the marks of the extension do."""
    session.tune(mode="observe")
    session.rows("SET trimtab.min_duration = '1s'")
    alike: list[str] = []
    for first in range(0, 10_000, 500):
        session.rows(f"""
            DO $$ BEGIN FOR i IN {first}..{first + 499} LOOP
                EXECUTE format('CREATE OR REPLACE FUNCTION like_%s(g int) RETURNS int '
                    'IMMUTABLE LANGUAGE plpgsql AS ''BEGIN RETURN g; END''', i);
            END LOOP; END $$""")
        rows = session.rows(r"SELECT oid::bigint, proname FROM pg_proc WHERE proname LIKE 'like\_%'")
        alike = [name for oid, name in rows if murmur(oid) >> 24 == TAG]
        if alike:
            break
    session.rows(f"PREPARE calls AS SELECT {alike[0]}(k), count(*) FROM t GROUP BY 1")
    session.rows("SET client_min_messages = log; SET debug_print_plan = on")
    notices = noted(session)
    for _ in range(6):
        session.rows("EXECUTE calls")
    assert notices.count("plan:") == 1, notices
