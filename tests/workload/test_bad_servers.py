"""Servers that refuse, run full, or die: every load ends with its reason, is never a score, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.needs import require
from tests.workload.conftest import Running, running
from tests.workload.runs import Leftovers, counts, execute, quiet, row, to_the_end
from trimtab.errors import LoadError
from trimtab.measure import Measurement
from trimtab.records import Endpoint, Objective, Status
from trimtab.redact import forget_all
from trimtab.systems.account import server_account
from trimtab.trial import End, MeasurePlan, measure_load
from trimtab.trial.judge import judge
from trimtab.workload import Frame, Workload
from trimtab.workload.connection import connect
from trimtab.workload.pgbench import PgbenchWorkload
from trimtab.workload.sql import SqlWorkload
from trimtab.workload.ycsb import YcsbWorkload

pytestmark = pytest.mark.service

RECORDS = 1500
DATA = f"trimtab_ycsb_{RECORDS}"
PLAN = MeasurePlan(window_s=2.0, window_max_s=2.0, warmup_floor_s=1.0, warmup_cap_s=1.0)


def ycsb(workload: str, **settings: Any) -> YcsbWorkload:
    table = {"workload": workload, "records": RECORDS, "load": {"users": 4, "think": "2ms"}}
    return YcsbWorkload.from_settings(table | settings)


def measured(
    workload: Workload, endpoint: Endpoint, on_frame: Any = lambda frame: None
) -> tuple[Status, str, Measurement | None]:
    result = measure_load(workload, endpoint, PLAN, seed=1, on_frame=on_frame)
    return *judge(result, PLAN, Objective.parse("throughput")), result.measurement


@pytest.fixture
def tidy(server: Endpoint) -> Iterator[Leftovers]:
    """After the test there is no connection of ours, and what it made goes."""
    left = Leftovers(server)
    yield left
    assert left.connections() == 0
    left.drop()


def test_more_users_than_connections(server: Endpoint, tidy: Leftovers) -> None:
    workload = ycsb("C", load={"users": 60})
    workload.prepare(server, quiet)
    with pytest.raises(LoadError, match=r"the load cannot connect: .* users=60: .*too many clients already") as caught:
        workload.start(server, seed=1, duration_s=1.0)
    assert caught.value.hint == "check that the server runs and max_connections leaves room for every user"
    assert tidy.connections() == 0


@pytest.fixture
def locked(server: Endpoint) -> Iterator[Endpoint]:
    """The server as it greets a role that needs a password."""
    role = "CREATE ROLE locked LOGIN CREATEDB PASSWORD 'right' IN ROLE pg_read_all_data"
    execute(server, "postgres", role)
    hba = Path(str(row(server, "postgres", "SHOW hba_file")[0]))
    before = hba.read_text()
    hba.write_text("host all locked 127.0.0.1/32 scram-sha-256\n" + before)
    execute(server, "postgres", "SELECT pg_reload_conf()")
    yield replace(server, user="locked", password="right")
    forget_all()  # "no right to ..." is in messages of other tests
    hba.write_text(before)
    execute(server, "postgres", "SELECT pg_reload_conf()", "DROP ROLE locked")


@pytest.mark.usefixtures("tidy")
def test_a_wrong_password_is_said_and_not_shown(locked: Endpoint, server: Endpoint) -> None:
    ycsb("C").prepare(server, quiet)
    wrong = replace(locked, password="sesame-4711")
    for act in (
        lambda: ycsb("C").prepare(wrong, quiet),
        lambda: ycsb("A").reset(wrong, quiet),
        lambda: ycsb("C").start(wrong, seed=1, duration_s=1.0),
    ):
        with pytest.raises(
            LoadError, match='cannot connect: .*password authentication failed for user "locked"'
        ) as caught:
            act()
        assert "sesame" not in str(caught.value)
    assert counts(to_the_end(ycsb("C").start(locked, seed=1, duration_s=0.5)))["READ"] > 0


@pytest.mark.usefixtures("tidy")
def test_a_role_without_the_right_to_write(locked: Endpoint, server: Endpoint) -> None:
    workload = ycsb("A", start_state="none")
    workload.prepare(server, quiet)
    status, reason, _ = measured(workload, locked)
    assert status is Status.FAILED_LOAD
    assert "(permission " in reason
    assert "first error: UPDATE: 42501 permission denied for table usertable" in reason


def test_a_role_that_may_not_create_databases(locked: Endpoint, server: Endpoint, tidy: Leftovers) -> None:
    execute(server, "postgres", "ALTER ROLE locked NOCREATEDB")
    with pytest.raises(LoadError, match=f"user=locked may not create database={DATA}") as caught:
        ycsb("A").prepare(locked, quiet)
    assert "CREATEDB" in str(caught.value.hint)
    assert tidy.databases() == set()


def test_a_server_that_takes_no_writes(server: Endpoint, tidy: Leftovers) -> None:
    there = replace(server, options={"options": "-c default_transaction_read_only=on"})
    with pytest.raises(LoadError, match=f"database={DATA} cannot be made: the server takes no writes"):
        ycsb("A").prepare(there, quiet)
    assert tidy.databases() == set()
    ycsb("A").prepare(server, quiet)
    with pytest.raises(LoadError, match=f"database={DATA}_run cannot be made: the server takes no writes"):
        ycsb("A").reset(there, quiet)
    execute(server, "postgres", f"ALTER DATABASE {DATA} SET default_transaction_read_only = on")
    status, reason, _ = measured(ycsb("A", start_state="none"), server)
    assert status is Status.FAILED_LOAD
    assert "(read_only " in reason
    assert "first error: UPDATE: 25006 cannot execute UPDATE in a read-only transaction" in reason
    status, reason, _ = measured(ycsb("C"), server)
    assert status in (Status.OK, Status.INFRASTRUCTURE), reason


def test_a_rate_that_no_machine_reaches_is_never_a_latency(server: Endpoint, tidy: Leftovers) -> None:
    workload = ycsb("C", load={"users": 2, "rate": 4_000_000, "backlog": 1000})
    workload.prepare(server, quiet)
    result = measure_load(workload, server, PLAN, seed=1)
    assert result.measurement is not None
    assert "of the requests were dropped" in result.measurement.overload
    status, reason = judge(result, PLAN, Objective.parse("latency_p99"))
    # Which of the two depends on whether the generator or the server was at its end first.
    words = {Status.INFRASTRUCTURE: "invalid run: the load generator", Status.FAILED_LOAD: "overloaded: "}
    assert reason.startswith(words[status])


@contextmanager
def _tablespace(server: Endpoint, size: str) -> Iterator[Path]:
    """A small file system of its own with a tablespace `small` in it."""
    user = server_account().name
    require("mounts")
    folder = Path(tempfile.mkdtemp(prefix="trimtab-small-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=777", "tmpfs", folder], check=True)
    try:
        place = folder / "tables"
        subprocess.run(["install", "-d", "-o", user, place], check=True)
        execute(server, "postgres", f"CREATE TABLESPACE small LOCATION '{place}'")
        yield folder
        execute(server, "postgres", "DROP TABLESPACE small")
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        folder.rmdir()


@pytest.mark.parametrize("kind", ["ycsb", "pgbench"])
def test_a_disk_that_fills_up_while_data_is_loaded(server: Endpoint, tidy: Leftovers, kind: str) -> None:
    workload: YcsbWorkload | PgbenchWorkload = ycsb("A", records=20_000)
    if kind == "pgbench":
        workload = PgbenchWorkload.from_settings({"script": "tpcb-like", "scale": 2})
    with _tablespace(server, "8m"):
        # Tables go where this says; the check of free space looks at the data directory, which has room.
        full = replace(server, options={"options": "-c default_tablespace=small"})
        with pytest.raises(LoadError) as caught:
            workload.prepare(full, quiet)
        assert "disk" in str(caught.value)
        assert "the data is loaded again" in str(caught.value.hint)
        assert tidy.databases() == set()
        assert tidy.connections() == 0
    assert not workload.prepare(server, quiet).was_cached
    assert workload.prepare(server, quiet).was_cached


def test_a_disk_that_fills_up_under_a_run_fails_it(server: Endpoint, tidy: Leftovers, tmp_path: Path) -> None:
    (tmp_path / "grow.sql").write_text("INSERT INTO grown SELECT repeat('x', 3000) FROM generate_series(1, 200);")
    table = {"database": "filled_by_the_tests", "files": ["grow.sql"], "start_state": "none", "load": {"users": 2}}
    workload = SqlWorkload.from_settings(table, directory=tmp_path)
    with _tablespace(server, "12m"):
        execute(server, "postgres", "CREATE DATABASE filled_by_the_tests")
        execute(server, "filled_by_the_tests", "CREATE TABLE grown (t text STORAGE EXTERNAL) TABLESPACE small")
        status, reason, _ = measured(workload, server)
        tidy.drop()
    assert status is Status.FAILED_LOAD
    assert "(resource " in reason
    assert "53100 could not extend file" in reason


@pytest.mark.parametrize("model", [{"users": 4, "think": "2ms"}, {"users": 4, "rate": 200}])
def test_a_server_that_is_killed_under_a_run(model: dict[str, Any]) -> None:
    with running() as mine:
        workload = ycsb("A", load=model, operation_timeout="2s")
        workload.prepare(mine.endpoint, quiet)
        workload.reset(mine.endpoint, quiet)

        def kill(frame: Frame) -> None:
            if frame.second == 0:
                mine.signal(signal.SIGKILL)

        result = measure_load(workload, mine.endpoint, PLAN, seed=1, on_frame=kill)
        status, reason = judge(result, PLAN, Objective.parse("throughput"))
    assert result.end in (End.COMPLETE, End.DIED)
    assert status in (Status.FAILED_LOAD, Status.TIMED_OUT), reason
    assert "connect" in result.error_classes
    with pytest.raises(LoadError, match="cannot connect"):
        workload.start(mine.endpoint, seed=1, duration_s=1.0)


def test_data_whose_load_was_cut_off_by_a_crash_is_made_anew() -> None:
    lines: list[str] = []
    with running() as mine:
        workload = ycsb("A", records=60_000, fields=1, batch=1)
        crash = threading.Thread(target=_crash_while_loading, args=(mine,))
        crash.start()
        with pytest.raises(LoadError, match=f"{workload.database.data}.* failed: ") as caught:
            workload.prepare(mine.endpoint, quiet)
        crash.join()
        assert "the data is loaded again" in str(caught.value.hint)
        _wait_for(mine.endpoint)
        again = ycsb("A", records=60_000, fields=1)
        assert not again.prepare(mine.endpoint, lines.append).was_cached
        assert lines[0] == f"{again.database.data} is created again: its last load was interrupted"
        assert again.prepare(mine.endpoint, quiet).was_cached


def _crash_while_loading(mine: Running) -> None:
    """Kills one backend that inserts: PostgreSQL then throws everybody out and starts itself again."""
    query = "SELECT max(pid) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO%usertable%' HAVING count(*) = 4"
    with connect(mine.endpoint) as connection:
        while (found := connection.execute(query).fetchone()) is None:
            time.sleep(0.01)
        os.kill(int(str(found[0])), signal.SIGKILL)
        with suppress(psycopg.Error):
            while True:  # until the server has noticed: before that it lets new sessions in, and throws them out again
                connection.execute("SELECT 1")
                time.sleep(0.01)


def _wait_for(endpoint: Endpoint) -> None:
    for _ in range(600):
        try:
            connect(endpoint).close()
        except LoadError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the server did not come back")
