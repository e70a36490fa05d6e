"""PostgreSQL's own words and the disk model, without a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import psycopg
import pytest

from trimtab.errors import TargetError
from trimtab.records import Fault
from trimtab.space import Knob, KnobKind
from trimtab.systems import KnobState, evidence
from trimtab.systems.disk import disk_model
from trimtab.systems.evidence import Forensics, classified
from trimtab.systems.picture import Picture, differences
from trimtab.systems.postgresql.catalogue import CATALOG
from trimtab.systems.postgresql.reach import Reach
from trimtab.systems.postgresql.session import is_cut_off

LINES = [
    ("FATAL:  could not map anonymous shared memory: Cannot allocate memory", Fault.CONFIG),
    ("FATAL:  could not setup io_uring queue: Operation not permitted", Fault.CONFIG),
    ("FATAL:  could not setup io_uring queue: Too many open files", Fault.CONFIG),
    ("FATAL:  could not setup io_uring queue: Cannot allocate memory", Fault.CONFIG),
    ("FATAL:  could not open file \"global/pg_filenode.map\": Operation not permitted", Fault.ENVIRONMENT),
    ('FATAL:  invalid value for parameter "work_mem": "x"', Fault.CONFIG),
    ('FATAL:  configuration file "/d/postgresql.auto.conf" contains errors', Fault.CONFIG),
    ('FATAL:  could not access file "nothing": No such file or directory', Fault.CONFIG),
    ("FATAL:  WAL streaming (\"max_wal_senders\" > 0) requires \"wal_level\" to be \"replica\" or \"logical\"", Fault.CONFIG),
    ("LOG:  server process (PID 12) was terminated by signal 11: Segmentation fault", Fault.CONFIG),
    ("LOG:  client backend (PID 12) was terminated by signal 9: Killed", Fault.ENVIRONMENT),
    ("LOG:  received fast shutdown request", Fault.ENVIRONMENT),
    ('FATAL:  lock file "postmaster.pid" already exists', Fault.ENVIRONMENT),
    ('FATAL:  lock file "/var/run/postgresql/.s.PGSQL.5432.lock" already exists', Fault.ENVIRONMENT),
    ('LOG:  could not bind IPv4 address "127.0.0.1": Address already in use', Fault.ENVIRONMENT),
    ('PANIC:  could not write to file "pg_wal/xlogtemp.1": No space left on device', Fault.RESOURCE),
    ("ERREUR:  53100: n'a pas pu", Fault.RESOURCE),
    (
        'ERROR:  could not resize shared memory segment "/PostgreSQL.1" to 67146080 bytes: No space left on device',
        Fault.CONFIG,
    ),
    ("ERROR:  out of memory", Fault.RESOURCE),
    ("53200 FEHLER:  Speicher aufgebraucht", Fault.RESOURCE),
    ("53200 ОШИБКА:  нехватка памяти", Fault.RESOURCE),
    ("53200 ERROR:  out of shared memory", Fault.CONFIG),
    ("22023 FATAL:  ungültiger Wert", Fault.CONFIG),
    ("FATAL:  58P01: Datei nicht gefunden", Fault.CONFIG),
]  # fmt: skip


@pytest.mark.parametrize(("line", "fault"), LINES)
def test_lines_are_classified(line: str, fault: Fault) -> None:
    (found,) = classified(f"2026-01-01 00:00:00.000 UTC [12] {line}\n", CATALOG.log)
    assert found.fault is fault
    assert found.text == line


@pytest.mark.parametrize(
    "line",
    [
        "LOG:  database system is ready to accept connections",
        'ERROR:  relation "t" does not exist',
        '42704 ERROR:  role "x" does not exist',
        "ERROR:  22023: interval units are not supported",
        "LOG:  checkpoint starting: time",
        "LOG:  duration: 53100 ms",
        'LOG:  configuration file "/d/postgresql.auto.conf" contains errors; unaffected changes were applied',
        "FATAL:  terminating connection due to unexpected postmaster exit",
    ],
)
def test_lines_that_say_nothing_are_left_out(line: str) -> None:
    assert classified(line, CATALOG.log) == []


def _state(name: str, running: int, unit: str = "MB") -> KnobState:
    return KnobState(
        knob=Knob(name=name, kind=KnobKind.INTEGER, low=0, high=1 << 20, default=running, unit=unit), running=running
    )


STATES = {
    "max_wal_size": _state("max_wal_size", 1000),
    "min_wal_size": _state("min_wal_size", 80),
    "wal_keep_size": _state("wal_keep_size", 0),
    "max_slot_wal_keep_size": _state("max_slot_wal_keep_size", -1),
    "temp_file_limit": _state("temp_file_limit", -1, "kB"),
}


def _takes(config: dict[str, int], *, slots: int) -> list[float]:
    """Bytes in pg_wal and of temporary files."""
    models = [disk_model(need, STATES, {"slots": float(slots)}) for need in CATALOG.disk]
    return [model.total(config) for model in models if model is not None]


def test_disk_needs_are_bytes_and_no_limit_is_without_a_bound() -> None:
    assert _takes({"wal_keep_size": 64, "temp_file_limit": 10}, slots=0) == [
        1000 * 2**20 * 1.1 + 64 * 2**20,
        10 * 2**10,
    ]
    assert _takes({"max_wal_size": 70}, slots=0)[0] == 80 * 2**20, "the larger of the two counts"
    assert all(size > 2**59 for size in _takes({}, slots=1)), "-1 sets no limit"
    assert _takes({"max_slot_wal_keep_size": 3}, slots=1)[0] == 1000 * 2**20 * 1.1 + 3 * 2**20


def test_a_server_without_a_knob_of_the_model_is_not_asked_for_it() -> None:
    fewer = {name: state for name, state in STATES.items() if name != "wal_keep_size"}
    assert disk_model(CATALOG.disk[0], fewer, {"slots": 0.0}) is None


LEFT = Picture(
    who={"identifier": "7", "timeline": 1, "is_standby": False},
    role="a primary",
    calls="system_identifier",
    instance="monday",
    began="monday",
    ours=frozenset({"postgresql.auto.conf"}),
    files={"/a": "1"},
    settings={"x": ("1", "default")},
)


@pytest.mark.parametrize(
    ("changes", "text", "stops"),
    [
        ({"who": {"identifier": "8"}}, "another server answers here: system_identifier=8, it was 7", True),
        ({"role": "a standby"}, "the server's role has changed (failover): it is a standby now, it was a primary", True),
        ({"who": {"timeline": 2}}, "the server's timeline has changed (failover): timeline=2, it was 1", True),
        ({"files": {"/a": "2"}}, "file='/a' was changed by somebody else", True),
        ({"files": {"/a": "1", "/b": "1"}}, "file='/b' was added by somebody else", True),
        ({"files": {}}, "file='/a' was removed by somebody else", True),
        ({"settings": {"x": ("2", "command line")}}, "somebody else changed settings: x=2 (command line), it was 1", True),
        ({"instance": "tuesday", "began": "tuesday"},
         "the server was restarted by somebody else: it started at tuesday, not at monday", False),
    ],
)  # fmt: skip
def test_differences_are_told(changes: dict[str, object], text: str, stops: bool) -> None:
    values = {name: getattr(LEFT, name) for name in Picture.__dataclass_fields__} | changes
    (found,) = differences(LEFT, Picture(**values))
    assert (found.text, found.stops) == (text, stops)


def test_our_own_restart_and_our_own_file_are_no_difference() -> None:
    auto = {"/d/postgresql.auto.conf": "new", "/a": "2"}
    values = {name: getattr(LEFT, name) for name in Picture.__dataclass_fields__}
    ours = Picture(**{**values, "instance": "tuesday", "files": auto}).after_own_change(LEFT)
    assert ours.files == {"/d/postgresql.auto.conf": "new", "/a": "1"}, "what we do not change stays as it was"
    gone = Picture(**{**values, "files": {"/a": "1"}}).after_own_change(ours)
    assert gone.files == {"/a": "1"}, "seen by SQL alone, a file of ours without entries is none"


@dataclass
class LoggingServer:
    """What `Forensics.await_reason` asks of the way to a server."""

    log_file: Path | None
    pid: int | None = 12
    n_oom_kills: int = 0

    def log_excerpt(self, n_lines: int) -> str:
        return ""


class Clock:
    """Time that passes only while somebody sleeps; `at` says what happens then."""

    def __init__(self) -> None:
        self.now = 0.0
        self.at: dict[float, Callable[[], None]] = {}

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for moment in [moment for moment in self.at if moment <= self.now]:
            self.at.pop(moment)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(evidence, "time", clock)
    return clock


def _waited(clock: Clock, server: LoggingServer, *, then: str = "", after_s: float = 0.2) -> float:
    """Seconds that passed until the wait ended; the log gets `then` after `after_s`."""
    found = Forensics(cast(Reach, server), CATALOG.log, "server")
    found.mark()

    def write() -> None:
        if server.log_file is not None:
            with server.log_file.open("a", encoding="utf-8") as log:
                log.write(then)

    clock.at[after_s] = write
    began = clock.now
    found.await_reason()
    return clock.now - began


@pytest.mark.parametrize(
    "line",
    [
        "LOG:  server process (PID 12) was terminated by signal 11: Segmentation fault",
        "LOG:  client backend (PID 12) exited with exit code 2",
        "FATAL:  terminating connection due to administrator command",
    ],
)
def test_a_cut_off_session_is_waited_for_until_the_log_says_why(tmp_path: Path, clock: Clock, line: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "LOG:  server process (PID 11) was terminated by signal 11: Segmentation fault\n"
    )  # of an earlier config
    waited_s = _waited(clock, LoggingServer(log), then=f"2026-01-01 00:00:00.000 UTC [1] {line}\n")
    assert 0.2 <= waited_s < 0.2 + 2 * evidence._POLL_S


def test_the_wait_for_a_reason_ends_without_one(tmp_path: Path, clock: Clock) -> None:
    log = tmp_path / "server.log"
    log.touch()
    shutdown = 'LOG:  received fast shutdown request\nLOG:  background worker "x" (PID 9) exited with exit code 1\n'
    waited_s = _waited(clock, LoggingServer(log), then=shutdown, after_s=0.0)
    assert evidence._REASON_S <= waited_s < evidence._REASON_S + 2 * evidence._POLL_S


def test_nothing_is_waited_for_that_cannot_come(tmp_path: Path, clock: Clock) -> None:
    assert _waited(clock, LoggingServer(None), after_s=0.0) == 0
    log = tmp_path / "server.log"
    log.touch()
    gone = LoggingServer(log)
    found = Forensics(cast(Reach, gone), CATALOG.log, "server")
    found.mark()
    gone.pid = None
    began = clock.now
    found.await_reason()
    assert clock.now == began


def test_evidence_has_no_line_of_a_statement_that_is_longer_than_it(tmp_path: Path, clock: Clock) -> None:
    log = tmp_path / "server.log"
    log.touch()
    statement = "\n\t".join(["SELECT 1", *(f"OR name = 'CANARY{i}'" for i in range(2 * evidence._LINES))])
    found = Forensics(cast(Reach, LoggingServer(log)), CATALOG.log, "server")
    found.mark()
    log.write_text(f"[7] ERROR:  deadlock detected\n[7] STATEMENT:  {statement}\n[7] LOG:  ready\n")
    assert found.gather().log == "[7] ERROR:  deadlock detected\n[7] STATEMENT: (hidden)\n[7] LOG:  ready"


def test_a_session_that_was_cut_off_is_known_by_the_words_of_its_client() -> None:
    assert is_cut_off(psycopg.OperationalError("server closed the connection unexpectedly\n\tThis probably means"))
    assert is_cut_off(TargetError("cannot connect to the server: port=1: server closed the connection unexpectedly"))
    assert not is_cut_off(psycopg.OperationalError("FATAL:  sorry, too many clients already"))
