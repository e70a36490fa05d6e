"""`in_engine = true` in a study file: what doctor says is missing, what `trimtab engine` shows and prints for other servers."""

from __future__ import annotations

import json
import math
import shutil
import time
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import Ran, Run, run
from tests.engine.conftest import EXTENSION, OWN, Session, engine, library
from tests.servers import new_folder
from tests.servers.postgresql import Server, started
from trimtab.history import History
from trimtab.records import QueryClass
from trimtab.systems.postgresql.grant import RESERVED
from trimtab.systems.postgresql.in_engine import advice_sql

__all__ = ["run"]

pytestmark = [pytest.mark.needs("c-compiler", "postgresql-embedded")]

STUDY = """
[study]
name = "engine"
[target.db]
kind = "postgresql"
url = "{url}"
memory = "500MB"
in_engine = {in_engine}
[workload]
kind = "ycsb"
workload = "A"
records = 500
[workload.load]
users = 1
"""


def a_class(**changes: object) -> QueryClass:
    known: dict[str, object] = {
        "query_id": "7", "database": "app", "role": "r o", "phase": "settled", "left_alone": "", "calls": 9, "probes": 2,
        "own_ms": 10.0, "gain": 2.0, "gain_low": 1.8, "gain_high": 2.2, "total_ms": 90.0, "lost_ms": 1.0, "gained_ms": 30.0,
        "settings": {"work_mem": "65536"},
    }  # fmt: skip
    return QueryClass(**(known | changes))  # type: ignore[arg-type]


def test_advice_is_what_helps_most_of_a_role_s_time() -> None:
    rare = a_class(query_id="8", total_ms=20.0, settings={"jit": "off"})
    gone = a_class(query_id="9", role="", settings={"jit": "off"}, gain_low=0.9)
    text = advice_sql([a_class(), rare, gone])
    assert "ALTER ROLE \"r o\" IN DATABASE app SET work_mem = '65536';  -- faster for 82% of the time\n" in text
    assert "SET jit" not in text
    assert '-- 7: /*+ Set(work_mem "65536") */  2.00 times as fast (1.80 to 2.20)\n' in text
    assert "-- 9" not in text, "what may be no gain is no hint"
    pinned = a_class(phase="pinned", gain=1.0, gain_low=1.0, gain_high=1.0, settings={"jit": "off"}, total_ms=900.0)
    assert "SET jit" not in advice_sql([a_class(), pinned]), "nobody has measured what it brings"
    assert 'ALTER ROLE "user" IN DATABASE "order" SET' in advice_sql([a_class(role="user", database="order")])


class Asked:
    """`trimtab COMMAND study.toml` for a server."""

    def __init__(self, run: Run, folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        self._run, self._file, self._server = run, folder / "study.toml", server
        monkeypatch.setenv("PGPASSWORD", server.password)

    def __call__(self, command: str, *options: str, in_engine: str = "true", more: str = "") -> Ran:
        self._file.write_text(STUDY.format(url=self._server.url(), in_engine=in_engine) + more)
        return self._run(command, "study.toml", *options)

    def command(self, *words: str) -> Ran:
        """One that takes no study file."""
        return self._run(*words)


@pytest.mark.service
def test_the_whole_way(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine("18") as (server, session):
        ask = Asked(run, tmp_path, server, monkeypatch)
        session.learn(OWN)
        shown = ask("engine")
        assert shown.code == 0, shown.err
        assert "work_mem=65536" in shown.out
        assert "1 class: " in shown.out
        (found,) = json.loads(ask("engine", "--json").out)["classes"]
        assert (found["settings"], found["role"], found["database"]) == ({"work_mem": "65536"}, "postgres", "postgres")
        assert "ALTER ROLE postgres IN DATABASE postgres SET work_mem = '65536'" in ask("engine", "--sql").out
        assert "in-engine tuning: mode=observe" in ask("doctor").out
        assert ask("engine", "--mode", "tune").out == "trimtab.mode = tune\n"
        with server.admin() as connection:
            assert Session(connection).value("SHOW trimtab.mode") == "tune"
        assert "trials measure its changes too" in ask("doctor").out
        refused = ask("engine", "--json", "--sql")
        assert (
            refused.code,
            "use only one of --json, --sql, --advice, --install, --mode and --hints" in refused.err,
        ) == (2, True)
        assert {
            word for (word,) in session.rows("SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')")
        } == RESERVED
        session.rows('CREATE SCHEMA "its own"')
        for each in ("FUNCTION trimtab_export()", "FUNCTION trimtab_status()", "VIEW trimtab_parameters"):
            session.rows(f'ALTER {each} SET SCHEMA "its own"')
        assert "work_mem=65536" in ask("engine").out, "CREATE EXTENSION trimtab SCHEMA ..."
        assert "in-engine tuning: mode=tune" in ask("doctor").out
        without = ask("engine", in_engine="false")
        assert "no target of the study has in_engine = true\nhint: give it to one [target.NAME]" in without.err


@pytest.mark.service
def test_what_a_class_learnt_goes_to_a_study_and_back(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine("18") as (server, session):
        ask = Asked(run, tmp_path, server, monkeypatch)
        session.learn(OWN)
        lines = ask("engine", "--advice").out
        assert lines.startswith("[search.advice]  # measured instead")
        assert 'work_mem = "65536"  # faster for 100% of the time' in lines
        advised = ask("doctor", more=lines)
        assert "search.advice" not in advised.err, "a study takes it as it is printed"
        (tmp_path / "engine.json").write_text(json.dumps(session.value("SELECT trimtab_export()")))
        assert ask.command("history", "import", "engine.json").code == 0
        with History.open(tmp_path / "state" / "history.db") as history:
            (record,) = history.studies()
            before, after = history.trials(record.id)
        assert (before.config, dict(after.config)) == (record.baseline, {"work_mem": 65536})
        assert record.baseline["work_mem"] == 4096
        assert after.loss == pytest.approx(-math.log(2), abs=0.01)
        with server.admin() as connection:
            mine = Session(connection)
            with pytest.raises(psycopg.Error, match="invalid value for parameter"):
                mine.rows("SET trimtab.hints = 'work_mem=64MB, fsync=off'")
            mine.rows("SELECT trimtab_reset(); SET trimtab.hints = 'work_mem=70MB, jit=off'")
            mine.tune("base=100;work_mem=65536:0.5")
            mine.learn(OWN, 40)
            probes = [
                row[0] for row in mine.rows("SELECT settings FROM trimtab_history WHERE event = 'probe' ORDER BY at")
            ]
            assert probes[0] == "work_mem=65536, jit=off", "the nearest values that it knows"


@pytest.mark.service
def test_what_is_missing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started("18") as server:
        ask = Asked(run, tmp_path, server, monkeypatch)
        doctor = ask("doctor")
        lacks = "the extension cannot be built: the server's programs cannot be reached"
        missing = (
            f"the extension is not loaded: it is not installed: {lacks} (build it on the server's machine; "
            "see docs/how-to/tune-inside-postgresql.md); a superuser may"
        )
        assert f"FAIL  in-engine tuning: {missing}" in doctor.out
        shown = ask("engine")
        assert (shown.code, f"error: in-engine tuning: {missing}" in shown.err) == (3, True)
        switched = ask("engine", "--mode", "tune")
        assert switched.code == 3
        assert (
            "error: the extension is not installed\nhint: trimtab engine --install builds and installs it; "
            in switched.err
        )


def installed(folder: Path) -> str:
    """The settings of a server that finds the extension in `folder`, as after `make install`."""
    (folder / "extension").mkdir(parents=True)
    for path in EXTENSION.glob("trimtab*"):
        shutil.copy(path, folder / "extension")
    shutil.copy(library("18"), folder / "trimtab.so")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    return f"fsync = off\ndynamic_library_path = '{folder}:$libdir'\nextension_control_path = '{folder}:$system'\n"


@pytest.mark.service
def test_what_is_installed_is_loaded_when_it_is_switched_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = new_folder("trimtab-installed")
    try:
        with started("18", settings=f"{installed(folder)}session_preload_libraries = 'plpgsql'\n") as server:
            ask = Asked(run, tmp_path, server, monkeypatch)
            says = "the extension is not loaded: it is installed, and `trimtab engine --mode observe` loads it; a superuser may"
            assert says in ask("doctor").out
            switched = ask("engine", "--mode", "observe")
            assert switched.out == (
                "trimtab.mode = observe\nsession_preload_libraries has trimtab: new sessions load it\n"
            ), switched.err
            wait_for(server, "plpgsql, trimtab")  # nothing is taken out
            with server.admin() as connection:
                session = Session(connection)
                assert session.value("SELECT knowledge_in FROM trimtab_status()") == "a shared segment"
            assert ask("engine", "--mode", "tune").out == "trimtab.mode = tune\n", "it is loaded already"
            with server.admin() as connection:
                connection.execute("ALTER SYSTEM RESET ALL")
                connection.execute("SELECT pg_reload_conf()")
            wait_for(server, "plpgsql")
            (folder / "trimtab.so").unlink()
            (folder / "trimtab.so").write_bytes(b"no library")
            refused = ask("engine", "--mode", "tune")
            assert (refused.code, "error: the extension cannot be loaded: " in refused.err) == (3, True)
            with server.admin() as connection:
                assert Session(connection).value("SHOW session_preload_libraries") == "plpgsql", "nothing was set"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(server: Server, libraries: str) -> None:
    """Until new sessions load these, which is a moment after the reload."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with server.admin() as connection:
            if Session(connection).value("SHOW session_preload_libraries") == libraries:
                return
        time.sleep(0.05)
    raise AssertionError(f"new sessions do not load {libraries!r}")
