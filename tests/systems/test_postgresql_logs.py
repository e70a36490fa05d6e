"""PostgreSQL's csvlog and jsonlog: read as its plain log, by its words and with nobody's statements in what is kept."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.hand_clock import HandClock
from tests.servers.postgresql import Server, started
from trimtab.errors import ApplyError, NoRestartError, TargetError
from trimtab.host import CommandResult
from trimtab.records import Fault
from trimtab.redact import hide_literals
from trimtab.space import Config
from trimtab.systems import remote
from trimtab.systems.evidence import Marked, classified
from trimtab.systems.log import log_bytes, log_text, tail
from trimtab.systems.log_form import plain_lines
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.catalogue import CATALOG
from trimtab.systems.postgresql.reach import Reach
from trimtab.systems.postgresql.remote import LocalReach
from trimtab.systems.postgresql.settings import read_settings

TIME = "2026-01-01 00:00:00.125 CET"
DIED = "server process (PID 12) was terminated by signal 11: Segmentation fault"
SQL = "insert into t\nvalues ('secret',\n '')"


def csv_of(severity: str, code: str, message: str, *, detail: str = "", statement: str = "") -> str:
    """A record as PostgreSQL 18 writes it (write_csvlog in src/backend/utils/error/csvlog.c)."""

    def text(value: str) -> str:
        doubled = value.replace('"', '""')
        return f'"{doubled}"' if value else ""

    head = f'{TIME},"app","shop",12,"[local]",69a.c,1,"INSERT",2026-01-01 00:00:00 CET,2/3,0,{severity},{code}'
    return f'{head},{text(message)},{text(detail)},,,,,{text(statement)},1,,"psql","client backend",,0\n'


def json_of(severity: str, code: str, message: str, *, detail: str = "", statement: str = "") -> str:
    record: dict[str, object] = {"timestamp": TIME, "user": "app", "pid": 12, "error_severity": severity}
    record |= {"state_code": code} if code != "00000" else {}
    record |= {"message": message} | ({"detail": detail} if detail else {})
    return json.dumps(record | ({"statement": statement} if statement else {}), ensure_ascii=False) + "\n"


FORMS = [pytest.param(".csv", csv_of, id="csvlog"), pytest.param(".json", json_of, id="jsonlog")]


@pytest.mark.parametrize(("suffix", "of"), FORMS)
def test_records_are_the_lines_of_the_plain_log(suffix: str, of: Any) -> None:
    whole = of("ERROR", "23505", 'duplicate key "a"', detail="Key (a)=(1) exists.", statement=SQL) + of(
        "LOG", "00000", DIED
    )
    lines = [
        f'{TIME} [12] ERROR:  duplicate key "a"',
        f"{TIME} [12] DETAIL:  Key (a)=(1) exists.",
        f"{TIME} [12] STATEMENT:  insert into t",
        "\tvalues ('secret',",
        "\t '')",
        f"{TIME} [12] LOG:  {DIED}",
    ]
    assert plain_lines(suffix, whole).splitlines() == lines
    assert "secret" not in hide_literals(plain_lines(suffix, whole))
    assert plain_lines(suffix, whole[40:]).splitlines() == lines[-1:], "what a look began within is no record"
    assert plain_lines(suffix, whole + of("LOG", "00000", DIED)[:60]).splitlines() == lines, (
        "what is still being written"
    )
    for other in ("a,b\n1,2\n", '{"msg": "x"}\n', f"{TIME} [12] LOG:  {DIED}\n", ""):
        assert plain_lines(suffix, other) == other
    assert plain_lines(".log", whole) == whole


@pytest.mark.parametrize(("suffix", "of"), FORMS)
@pytest.mark.parametrize(
    ("severity", "code", "message", "fault"),
    [
        ("FATAL", "53300", "sorry, too many clients already", Fault.CONFIG),
        ("FATAL", "F0000", 'lock file "postmaster.pid" already exists', Fault.ENVIRONMENT),
        ("LOG", "00000", DIED, Fault.CONFIG),
        ("FEHLER", "53100", "auf dem Gerät ist kein Platz mehr", Fault.RESOURCE),
        ("ОШИБКА", "53200", "нехватка памяти", Fault.RESOURCE),
        ("ERROR", "53200", "out of shared memory", Fault.CONFIG),
        ("ERROR", "53100", "auf dem Gerät ist kein Platz mehr", Fault.RESOURCE),
        ("ERROR", "42704", 'role "x" does not exist', None),
        ("FATAL", "22023", "ungültiger Wert", Fault.CONFIG),
        ("LOG", "00000", "checkpoint starting: time", None),
    ],
)
def test_their_words_are_classified(
    suffix: str, of: Any, severity: str, code: str, message: str, fault: Fault | None
) -> None:
    found = classified(plain_lines(suffix, of(severity, code, message)), CATALOG.log)
    assert [each.fault for each in found] == ([fault] if fault else [])
    head = f"{code} {severity}" if code != "00000" else severity
    assert [each.text for each in found] == ([f"{head}:  {message}"] if fault else [])


@pytest.mark.parametrize(("suffix", "of"), FORMS)
def test_an_error_of_a_statement_is_no_fault_of_the_config_in_any_language(suffix: str, of: Any) -> None:
    said = of("FEHLER", "42704", "Rolle »x« existiert nicht", statement="GRANT x TO y")
    assert classified(plain_lines(suffix, said), CATALOG.log) == []


@pytest.mark.parametrize(("suffix", "of"), [*FORMS, pytest.param(".log", None, id="stderr")])
@pytest.mark.parametrize("end", ["\n\t", ", "])
def test_what_lies_within_one_long_statement_is_not_shown(tmp_path: Path, suffix: str, of: Any, end: str) -> None:
    log, statement = tmp_path / f"own{suffix}", f"INSERT INTO t VALUES ('secret'){end}" * 5000
    log.write_text(
        f"{TIME} [12] LOG:  statement: {statement}\n" if of is None else of("LOG", "00000", f"statement: {statement}")
    )
    assert "secret" not in hide_literals(log_text(log))
    begins, said = log_bytes(log), of("LOG", "00000", DIED) if of is not None else f"{TIME} [12] LOG:  {DIED}\n"
    with log.open("a") as file:
        file.write(said)
    for start in (0, begins):
        assert hide_literals(log_text(log, start)).splitlines()[-1:] == [f"{TIME} [12] LOG:  {DIED}"]
    assert "secret" not in hide_literals(log_text(log))


@pytest.mark.parametrize(("suffix", "of"), [*FORMS, pytest.param(".log", None, id="stderr")])
@pytest.mark.parametrize("end", ["\r", "\f", "\x85", "\u2028"])
def test_only_a_line_feed_ends_a_line_of_a_statement(tmp_path: Path, suffix: str, of: Any, end: str) -> None:
    log, statement = tmp_path / f"own{suffix}", f"SELECT 1,{end}'secret'"
    text = f"{TIME} [12] ERROR:  x\n{TIME} [12] STATEMENT:  {statement}\n"
    log.write_bytes((text if of is None else of("ERROR", "22012", "x", statement=statement)).encode())
    assert hide_literals(tail(log, 20)) == f"{TIME} [12] ERROR:  x\n{TIME} [12] STATEMENT: (hidden)"


@pytest.mark.parametrize(
    ("begins", "part", "ends"),
    [
        ("[7] STATEMENT:  SELECT 1\n", "\tOR name = 'secret'\n", "[7] LOG:  ready\n"),
        ("Query (0x7f2c): SELECT 1\n", "OR name = 'secret'\n", "\nConnection ID (thread ID): 8\n"),
    ],
)
def test_the_last_lines_of_a_long_statement_do_not_show_it(tmp_path: Path, begins: str, part: str, ends: str) -> None:
    """What they are is said in its first line only."""
    log = tmp_path / "log"
    log.write_text(f"before\n{begins}{40 * part}{ends}")
    shown = hide_literals(f"it died\n{tail(log, 20)}")  # as in the reason of a trial
    assert "secret" not in shown
    assert shown.splitlines()[-1] == ends.strip()


def local(folder: Path) -> LocalReach:
    table = {"kind": "postgresql", "url": "postgresql://h/d", "data_dir": str(folder), "restart": "pg_restart"}
    return LocalReach(read_settings("db", table))


@pytest.mark.parametrize(("suffix", "of"), FORMS)
def test_a_server_that_writes_no_other_log_is_read(tmp_path: Path, suffix: str, of: Any) -> None:
    (tmp_path / "current_logfiles").write_text(f"{suffix[1:]}log own{suffix}\n")
    log = tmp_path / f"own{suffix}"
    log.write_text(of("FATAL", "53300", "before"))
    reach = local(tmp_path)
    mark = Marked.now(cast(Reach, reach))
    with log.open("a") as file:
        file.write(of("LOG", "00000", DIED))
    assert mark.log_since(cast(Reach, reach)) == f"{TIME} [12] LOG:  {DIED}\n"
    assert reach.log_excerpt(5) == f"{TIME} [12] 53300 FATAL:  before\n{TIME} [12] LOG:  {DIED}"
    assert tail(log, 1) == f"{TIME} [12] LOG:  {DIED}"


def test_what_a_failed_start_says_is_shown_whole_where_it_begins_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the length of the log before, the reason was cut off."""
    names, old, new = (tmp_path / name for name in ("current_logfiles", "1.log", "2.log"))
    old.write_text("LOG:  ready\n")
    names.write_text("stderr 1.log\n")
    reach = local(tmp_path)

    def restart(argv: object, *, timeout_s: float) -> CommandResult:
        new.write_text("FATAL:  the reason\nLOG:  database system is shut down\n")
        names.write_text("stderr 2.log\n")
        return CommandResult(argv=("pg_restart",), exit_code=1, stdout="", stderr="", duration_s=0.1)

    monkeypatch.setattr(reach, "connect", lambda: (_ for _ in ()).throw(TargetError("down", hint="")))
    monkeypatch.setattr(reach.host, "run", restart)
    with pytest.raises(TargetError, match="the restart command='pg_restart' failed with exit_code=1"):
        reach.restart()
    assert reach.log_excerpt(20).splitlines() == ["FATAL:  the reason", "LOG:  database system is shut down"]


@pytest.fixture(params=["csvlog", "jsonlog"])
def logging(request: pytest.FixtureRequest) -> Iterator[Server]:
    settings = f"fsync = off\nlogging_collector = on\nlog_destination = '{request.param}'\nlog_directory = 'own'\n"
    with started("18", settings=settings) as server:
        yield server


@pytest.mark.service
@pytest.mark.slow
def test_a_real_server_of_that_kind_tells_why(logging: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", logging.password)
    table = {"kind": "postgresql", "url": logging.url(), "memory": "1GiB", "data_dir": str(logging.data_dir)}
    target = PostgresTarget.from_settings("own", table | {"restart": logging.restart_command}, state_dir=tmp_path)
    target.open()
    found = target.snapshot()
    target.apply(Config({"work_mem": 8192}))
    with logging.admin() as session:
        ((pid,),) = session.execute("SELECT pg_backend_pid()").fetchall()
        with pytest.raises(Exception, match="duplicate key"):
            session.execute("CREATE TABLE t (a text PRIMARY KEY); INSERT INTO t VALUES ('secret'), ('secret')")
        os.kill(pid, signal.SIGSEGV)
    logging.wait_up()
    evidence = target.evidence()
    assert [each.fault for each in evidence.symptoms if each.is_death] == [Fault.CONFIG]
    assert "was terminated by signal 11" in evidence.symptoms[0].text
    assert "STATEMENT: (hidden)" in evidence.log
    assert "secret" not in evidence.log
    with pytest.raises(ApplyError) as caught:
        target.apply(Config({"shared_buffers": 1 << 29}))
    assert caught.value.log_excerpt
    target.restore(found)
    target.close()


@pytest.mark.parametrize(
    ("is_seen", "was_away_s", "starts_in_s", "gives_up_s"),
    [
        (True, 1.0, math.inf, 30),
        pytest.param(True, 15.0, math.inf, 45, id="its service prepares each start for long"),
        pytest.param(True, None, math.inf, 120, id="how long that takes is not known yet"),
        (True, 1.0, 5.0, 120),
        (False, 1.0, math.inf, 120),
    ],
)
def test_a_server_that_does_not_come_back_is_not_waited_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_seen: bool,
    was_away_s: float | None,
    starts_in_s: float,
    gives_up_s: int,
) -> None:
    """Debian's `systemctl restart postgresql` ends well whatever becomes of the clusters."""
    clock, reach = HandClock(), local(tmp_path)
    done = CommandResult(argv=("pg_restart",), exit_code=0, stdout="", stderr="", duration_s=0.1)
    starts_at_s = answers_at_s = 0.0

    def connect() -> object:
        if clock.now_s < answers_at_s:
            raise TargetError("refused", hint="url?")
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(remote, "time", clock)
    monkeypatch.setattr(LocalReach, "pid", property(lambda self: os.getpid() if clock.now_s >= starts_at_s else None))
    monkeypatch.setattr(reach, "_shows_itself", lambda: is_seen)
    monkeypatch.setattr(reach, "_recovery", lambda: None)
    monkeypatch.setattr(reach, "_run_command", lambda: done)
    monkeypatch.setattr(reach, "_instance", lambda: ("", None))
    monkeypatch.setattr(reach, "connect", connect)
    if was_away_s is not None:
        starts_at_s = answers_at_s = clock.now_s + was_away_s
        reach.restart()
    began_s = clock.now_s
    starts_at_s, answers_at_s = began_s + starts_in_s, math.inf
    with pytest.raises(TargetError) as caught:
        reach.restart()
    assert gives_up_s - 2 < clock.now_s - began_s < gives_up_s + 1
    absent = "the server does not run after the restart command='pg_restart': refused"
    assert caught.value.message == ("refused" if gives_up_s == 120 else absent)


@pytest.mark.parametrize(("ends_in_s", "is_late"), [(0.0, False), (2.0, False), (math.inf, True)])
def test_a_command_that_only_asks_for_a_restart_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_in_s: float, is_late: bool
) -> None:
    """As `systemctl --no-block restart` does, whose server was said not to have been restarted, and was then."""
    clock, reach = HandClock(), local(tmp_path)
    done = CommandResult(argv=("pg_restart",), exit_code=0, stdout="", stderr="", duration_s=0.1)
    was_run: list[bool] = []

    def run() -> CommandResult:
        was_run.append(True)
        return done

    monkeypatch.setattr(remote, "time", clock)
    monkeypatch.setattr(reach, "_shows_itself", lambda: True)
    monkeypatch.setattr(reach, "_recovery", lambda: None)
    monkeypatch.setattr(reach, "_run_command", run)
    monkeypatch.setattr(reach, "_instance", lambda: ("2" if was_run and clock.now_s >= ends_in_s else "1", None))
    monkeypatch.setattr(reach, "connect", lambda: SimpleNamespace(close=lambda: None))
    with pytest.raises(NoRestartError, match="but the server was not restarted") if is_late else nullcontext():
        reach.restart()
    assert clock.now_s == (3.5 if is_late else ends_in_s)
