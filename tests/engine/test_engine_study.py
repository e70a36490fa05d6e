"""`in_engine = true` in a study: the extension is built, loaded for the trials, and gone with them; the report shows its classes.

And the circle on a server that keeps it: a class's settings are a study's advice, and a study's winner is what classes try first.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run
from tests.commands import start_trimtab
from tests.engine.conftest import OWN, Session, engine, library, wait_for_setting
from tests.engine.test_engine_product import installed
from tests.needs import IS_FULL
from tests.servers import made
from tests.servers.embedded import provide
from tests.servers.postgresql import Server, set_password, started
from trimtab.errors import TargetError, UsageError
from trimtab.space import Config
from trimtab.systems.postgresql import PostgresTarget

__all__ = ["run"]

pytestmark = [pytest.mark.service, pytest.mark.needs("c-compiler", "postgresql-embedded")]

STUDY = """
[study]
name = "inside"
budget = "{budget}"

[target.db]
kind = "postgresql"
{target}
memory = "1GiB"
knobs = ["work_mem", "random_page_cost"]
in_engine = true

[workload]
kind = "sql"
database = "postgres"
files = ["q.sql"]
read_only = true
load = {{ users = 4 }}

[measure]
window = "1s"
window_max = "1s"
warmup_floor = "0s"
warmup_cap = "0s"

[proof]
min_pairs = {pairs}
max_pairs = {pairs}
max_noise = 0.9
advice = false
ablate = false
"""
SLEEP = "SELECT pg_sleep(CASE WHEN current_setting('work_mem') = '4MB' THEN 0.02 ELSE 0.025 END);\n"
"""Long enough for a class, short enough for many executions in a window; what is tried is slower, and so needs no proof."""
SLEEPS = "SELECT pg_sleep(CASE WHEN current_setting('work_mem') = '64MB' THEN 0.01 ELSE 0.1 END);\n"
"""A gain that is planted for a whole server; the extension sees that the statement is volatile and leaves it alone."""
LEFT_ALONE = "it calls volatile functions"


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of a private server."""
    with made("inside") as folder:
        monkeypatch.setenv("TRIMTAB_CACHE", str(folder))
        yield folder


def hasten_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trimtab finds a compiler that does not optimise: that takes half as long."""
    if not IS_FULL:
        compiler = folder / "cc"
        compiler.write_text(f'#!/bin/sh\nexec {shutil.which("cc") or "gcc"} "$@" -O0\n')
        compiler.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def settings_of(cache: Path) -> str:
    """What ALTER SYSTEM has set on the private server."""
    files = list(cache.glob("postgresql/*/data/postgresql.auto.conf"))
    return files[0].read_text() if files else ""


def write(
    folder: Path, target: str, *, sql: str = SLEEP, pairs: int = 2, budget: str = "1 trials", more: str = ""
) -> None:
    (folder / "q.sql").write_text(sql)
    (folder / "study.toml").write_text(STUDY.format(target=target, pairs=pairs, budget=budget) + more)


@pytest.mark.parametrize("version", ["18", pytest.param("16", marks=pytest.mark.full)])
def test_a_private_server_is_watched_while_a_study_runs(
    run: Run, tmp_path: Path, cache: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first, killed, has loaded is taken back by the journal as every other change; the second runs to its end."""
    provide(cache, version)
    hasten_compiler(tmp_path, monkeypatch)
    write(tmp_path, f'embedded = "{version}"')
    environment = {**os.environ, "TRIMTAB_DEADMAN": "60"}
    study = start_trimtab(
        ["tune", "study.toml"], cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 300  # the extension is compiled meanwhile
    while "_preload_libraries" not in settings_of(cache):
        assert study.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    study.send_signal(signal.SIGKILL)
    study.wait(30)
    recovered = run("recover")
    assert recovered.code == 0, recovered.err
    assert "preload" not in settings_of(cache)
    tuned = run("tune", "study.toml")
    assert tuned.code in (0, 1), tuned.err
    assert "not watched" not in tuned.err
    shown = run("report", "inside")
    assert (shown.code, LEFT_ALONE in shown.out) == (0, True), shown.err
    classes = json.loads(run("report", "inside", "--json").out)["query_classes"]
    found = [row for row in classes if row["left_alone"] == LEFT_ALONE]
    assert sum(row["calls"] for row in found) >= 10
    assert 19 < found[0]["own_ms"] < 2000, "in milliseconds; a busy machine sleeps for longer"
    assert "preload" not in settings_of(cache)
    assert list(cache.glob("postgresql/*/data/pg_stat/trimtab*")) == []


def test_a_running_server_is_as_found_after_a_change_that_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is installed is loaded by its name; what others have set stays in the list; other commands' changes load nothing."""
    settings = "session_preload_libraries = 'plpgsql'\n"
    with made("installed") as folder, started("18", settings=settings + installed(folder / "here")) as server:
        monkeypatch.setenv("PGPASSWORD", server.password)
        table = {
            "kind": "postgresql",
            "url": server.url(),
            "data_dir": str(server.data_dir),
            "restart": server.restart_command,
        }
        target = PostgresTarget.from_settings("db", {**table, "memory": "1GiB", "in_engine": True}, state_dir=tmp_path)
        target.open()
        try:
            before = server.auto_conf.read_bytes()
            snapshot = target.snapshot()
            target.apply(Config({"work_mem": 8192}))
            assert server.query("SHOW session_preload_libraries") == [("plpgsql",)]
            target.restore(snapshot)
            target.watch_engine()
            target.apply(Config({"work_mem": 8192}))
            assert server.query("SHOW session_preload_libraries") == [("plpgsql, trimtab",)]
            with server.admin() as connection:
                for _ in range(8):
                    connection.execute("SELECT pg_sleep(0.01)")
            undone = target.restore(snapshot)
            assert undone.put_back == ("session_preload_libraries=plpgsql", "work_mem=4MB")
            assert server.auto_conf.read_bytes() == before
            assert server.query("SHOW session_preload_libraries") == [("plpgsql",)]
            assert [each.calls for each in target.query_classes()] == [5], "kept from before"
            target.apply(Config({"work_mem": 8192}), stays=True)
            assert b"trimtab" not in server.auto_conf.read_bytes()
            target.restore(snapshot)
        finally:
            target.close()


@pytest.mark.full
def test_a_server_that_may_not_be_restarted_is_not_watched_before_17(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started("16") as server:
        monkeypatch.setenv("PGPASSWORD", server.password)
        table = {"kind": "postgresql", "url": server.url(), "data_dir": str(server.data_dir), "restart": "false"}
        target = PostgresTarget.from_settings(
            "db", {**table, "allow_restart": False, "in_engine": True}, state_dir=tmp_path
        )
        target.open()
        try:
            with pytest.raises(TargetError, match="this version needs a restart for that: allow_restart = false"):
                target.watch_engine()
        finally:
            target.close()


def test_what_cannot_be_built_is_said_and_changes_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **more: None)
    with started("18") as server:
        monkeypatch.setenv("PGPASSWORD", server.password)
        write(tmp_path, f'url = "{server.url()}"\ndata_dir = "{server.data_dir}"\nrestart = "false"')
        lacks = "the extension cannot be built: there is no C compiler (cc) on the PATH"
        hint = "Debian: apt install gcc libc6-dev"
        assert f"it is not installed: {lacks} ({hint})" in run("doctor", "study.toml").out
        refused = run("engine", "study.toml", "--install")
        assert (refused.code, refused.err.splitlines()) == (3, [f"error: {lacks}", f"hint: {hint}"])
        write(tmp_path, f'url = "{server.url()}"')
        refused = run("engine", "study.toml", "--install")
        assert (refused.code, refused.err.splitlines()[0]) == (
            3, "error: the extension cannot be built: the server's programs cannot be reached",
        )  # fmt: skip


def test_the_circle_of_advice_and_hints(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class's settings are a study's advice; the study proves it, and new classes try its winner first."""
    with engine("18", "trimtab.min_duration = '5ms'\n") as (server, session):
        monkeypatch.setenv("PGPASSWORD", server.password)
        target = f'url = "{server.url()}"'
        write(tmp_path, target)
        session.learn(OWN)
        advice = run("engine", "study.toml", "--advice").out
        assert 'work_mem = "65536"  # faster for 100% of the time' in advice
        session.rows("SELECT trimtab_reset()")
        write(tmp_path, target, sql=SLEEPS, pairs=3, more=advice)
        tuned = run("tune", "study.toml")
        assert tuned.code == 0, tuned.err + tuned.out
        assert "work_mem=64MB" in next(line for line in tuned.err.splitlines() if "(advice)" in line)
        told = json.loads(run("report", "inside", "--json").out)
        assert told["study"]["verdict"]["config"] == {"work_mem": 65536}
        assert any(row["left_alone"] == LEFT_ALONE for row in told["query_classes"])
        assert LEFT_ALONE in run("report", "inside").out
        refused = as_plain(server, run, tmp_path, "--hints", "inside")
        assert refused[0] == 3
        assert refused[1] == ["error: trimtab.hints cannot be set: permission denied to set parameter \"trimtab.hints\"",
                              "hint: a superuser may"]  # fmt: skip
        write(tmp_path, target, sql=SLEEPS, pairs=3, more=advice)
        hinted = run("engine", "study.toml", "--hints", "inside")
        assert (hinted.code, hinted.out) == (0, "trimtab.hints = work_mem=64MB\n"), hinted.err
        wait_for_setting(server, "trimtab.hints", "work_mem=64MB")
        settings = {"kind": "postgresql", "url": server.url(), "in_engine": True}
        known = PostgresTarget.from_settings("db", settings, state_dir=tmp_path)
        known.open()
        with pytest.raises(UsageError, match="none of the settings can be set for one statement: shared_buffers"):
            known.hint_engine({"shared_buffers": "1GB"})
        known.close()
        with server.admin() as connection:
            mine = Session(connection)
            mine.rows("SELECT trimtab_reset()")
            mine.tune("base=100;work_mem=65536:0.5")
            mine.learn(OWN, 40)
            asks = "SELECT settings FROM trimtab_history WHERE event = 'probe' ORDER BY at LIMIT 1"
            assert mine.value(asks) == "work_mem=65536"


def test_advice_as_statements_is_what_the_server_takes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ALTER ROLE ... IN DATABASE, and a hint's settings, run as they are printed."""
    with engine("18") as (server, session):
        monkeypatch.setenv("PGPASSWORD", server.password)
        write(tmp_path, f'url = "{server.url()}"')
        session.rows('CREATE ROLE "r o" SUPERUSER LOGIN')
        with server.admin(user="r o") as connection:
            odd = Session(connection)
            odd.tune("base=100;work_mem=65536:0.5;jit=0:0.7")
            odd.learn(OWN, 200)
        printed = run("engine", "study.toml", "--sql").out
        session.rows(printed)
        with server.admin(user="r o") as connection:
            assert Session(connection).rows("SELECT current_setting('work_mem'), current_setting('jit')") == [
                ("64MB", "off")
            ]
        with server.admin(user="r o", database="template1") as connection:
            assert Session(connection).value("SHOW work_mem") == "4MB"
        (hint,) = re.findall(r"/\*\+ (.*) \*/", printed)
        sets = re.findall(r'Set\((\w+) "([^"]*)"\)', hint)
        assert sorted(sets) == [("jit", "off"), ("work_mem", "65536")]
        for name, value in sets:
            session.rows(f"SET {name} = '{value}'")
        assert session.rows("SELECT current_setting('work_mem'), current_setting('jit')") == [("64MB", "off")]


def as_plain(server: Server, run: Run, folder: Path, *options: str, command: str = "engine") -> tuple[int, list[str]]:
    """A command's exit code and lines, with a login that has no rights beyond those of every user."""
    if not server.query("SELECT FROM pg_roles WHERE rolname = 'plain'"):
        with server.admin() as connection:
            connection.execute("CREATE ROLE plain LOGIN")
        set_password(server, "plain", server.password)
    write(folder, f'url = "{server.url(user="plain")}"')
    ran = run(command, "study.toml", *options)
    return ran.code, [*ran.out.splitlines(), *ran.err.splitlines()]


def test_a_user_without_rights(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command says what is not allowed, and who may."""
    with engine("18") as (server, session):
        monkeypatch.setenv("PGPASSWORD", server.password)
        says = "mode=observe; this user may not see what it learns: GRANT pg_read_all_stats TO plain"
        code, lines = as_plain(server, run, tmp_path, command="doctor")
        denied = "FAIL  changes: this user may not change any setting of the server; GRANT ALTER SYSTEM ON PARAMETER work_mem, "
        assert (code, [line for line in lines if line.startswith(denied)] != []) == (1, True)
        assert f"FAIL  in-engine tuning: {says}" in lines
        session.rows(
            "GRANT ALTER SYSTEM ON PARAMETER work_mem, random_page_cost TO plain; "
            "GRANT EXECUTE ON FUNCTION pg_reload_conf() TO plain"
        )
        _, lines = as_plain(server, run, tmp_path, command="doctor")
        assert f"FAIL  in-engine tuning: {says}" in lines
        hint = "hint: see docs/how-to/tune-inside-postgresql.md in Trimtab's repository"
        assert as_plain(server, run, tmp_path) == (3, [f"error: in-engine tuning: {says}", hint])
        code, lines = as_plain(server, run, tmp_path, "--mode", "tune")
        assert (code, lines) == (
            3, ['error: trimtab.mode cannot be set: permission denied to set parameter "trimtab.mode"', "hint: a superuser may"],
        )  # fmt: skip
        session.rows("GRANT pg_read_all_stats TO plain")
        code, lines = as_plain(server, run, tmp_path)
        assert (code, lines[0]) == (0, "no classes yet: no statement has taken trimtab.min_duration often enough")
        session.rows("DROP EXTENSION IF EXISTS trimtab; DROP FUNCTION trimtab_export() CASCADE")
        _, lines = as_plain(server, run, tmp_path, command="doctor")
        made = "the extension is loaded; in this database run: CREATE EXTENSION trimtab"
        assert f"FAIL  in-engine tuning: {made}" in lines
        assert as_plain(server, run, tmp_path)[1][0] == f"error: in-engine tuning: {made}"


def test_a_user_who_may_not_load_it(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with made("installed") as folder, started("18", settings=installed(folder / "here")) as server:
        monkeypatch.setenv("PGPASSWORD", server.password)
        code, lines = as_plain(server, run, tmp_path, "--mode", "observe")
        assert (code, lines) == (
            3, ['error: the extension cannot be loaded: access to library "trimtab" is not allowed',
                "hint: a superuser may; see docs/how-to/tune-inside-postgresql.md in Trimtab's repository"],
        )  # fmt: skip


def test_doctor_says_why_nothing_can_be_learnt(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that wants more memory than there is, as where /dev/shm is full."""
    greedy = library("18", "greedy", ("-O0", "-g0", "-DN_EVENTS=2000000000"))
    with engine("18", f"session_preload_libraries = '{greedy}'\n", preload=False, path=greedy) as (server, _):
        monkeypatch.setenv("PGPASSWORD", server.password)
        write(tmp_path, f'url = "{server.url()}"')
        said = "mode=observe; trimtab learns nothing in this session, for want of memory: "
        assert f"FAIL  in-engine tuning: {said}" in run("doctor", "study.toml").out
        refused = run("engine", "study.toml")
        assert (refused.code, refused.err.splitlines()[0].startswith(f"error: in-engine tuning: {said}")) == (3, True)


def test_what_doctor_says_is_missing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thing in turn, on a server that lacks it."""
    with engine("18") as (server, session):
        monkeypatch.setenv("PGPASSWORD", server.password)
        write(tmp_path, f'url = "{server.url()}"')

        def says() -> str:
            return next(line for line in run("doctor", "study.toml").out.splitlines() if "in-engine tuning" in line)

        assert says().split(None, 1) == ["ok", "in-engine tuning: mode=observe"]
        session.rows("SET trimtab.file = 'no-such-folder/knowledge'; SELECT trimtab_save()")
        assert says().startswith("ok"), "another session's file"
        bad = server.data_dir / "pg_stat" / "trimtab.knowledge"
        server.control("stop")
        bad.write_bytes(b"something else")
        with server.up():
            said = "FAIL  in-engine tuning: mode=observe; file=pg_stat/trimtab.knowledge is not a file of trimtab, or is damaged"
            assert says() == said
