"""A start with a long crash recovery is waited for while its log shows progress, and no longer."""

from __future__ import annotations

import logging
import os
import socket
import stat
import time
from pathlib import Path

import pytest

from tests.commands import PYTHON
from trimtab.errors import TargetError
from trimtab.systems import progress
from trimtab.systems.account import Account
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.mysql.process import Daemon
from trimtab.systems.mysql.remote import LocalReach
from trimtab.systems.mysql.settings import read_settings
from trimtab.systems.progress import LogProgress
from trimtab.systems.session import Session

MARIADB = """\
2026-11-20 20:14:40 0 [Note] Starting MariaDB 10.11.14-MariaDB-0+deb12u2 source revision  as process 4711
2026-11-20 20:14:40 0 [Note] InnoDB: Starting crash recovery from checkpoint LSN=46590
2026-11-20 20:14:55 0 [Note] InnoDB: Parsed redo log up to LSN=164839424; to recover: 4417 pages
2026-11-20 20:15:10 0 [Note] InnoDB: To recover: LSN 215040913/318767104; 3100 pages
2026-11-20 20:15:25 0 [Note] InnoDB: To recover: LSN 215040913/318767104; 3100 pages
2026-11-20 20:15:40 0 [Note] InnoDB: To roll back: 1 transactions, 561887 rows
2026-11-20 20:15:41 0 [Note] InnoDB: Rolled back recovered transaction 3596
""".splitlines()
MYSQL = """\
2026-11-20T20:14:40.065922Z 1 [System] [MY-013576] [InnoDB] InnoDB initialization has started.
2026-11-20T20:14:40.066154Z 1 [Note] [MY-012552] [InnoDB] Starting crash recovery.
2026-11-20T20:14:41.244421Z 1 [Note] [MY-012550] [InnoDB] Doing recovery: scanned up to log sequence number 67437854107648
2026-11-20T20:14:42.144421Z 1 [Note] [MY-012532] [InnoDB] Applying a batch of 1467 redo log records ...
2026-11-20T20:14:43.244421Z 1 [Note] [MY-012533] [InnoDB] 10%
""".splitlines()
READY = "2026-11-20 20:15:42 0 [Note] /usr/sbin/mariadbd: ready for connections."


class Clock:
    """Seconds that pass when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(f"{MARIADB[1]}\n{MARIADB[2]}\n2026-11-20 20:00:00 0 [ERROR] Aborting\n")
    return path


def add(log: Path, text: str) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write(text)


def test_lines_of_recovery_are_progress_and_nothing_else_is(log: Path, clock: Clock) -> None:
    watched = LogProgress(log, log.stat().st_size, CATALOG.log, 20.0, clock=clock)
    assert not watched.is_under_way()
    for line in MARIADB[1:4]:
        clock.now += 20.0
        add(log, f"{line}\n")
        assert not watched.has_stalled()
        assert watched.is_under_way()
    clock.now += 20.0
    add(log, f"{MARIADB[4]}\n")  # of another moment, with the same numbers
    assert not watched.has_stalled()
    clock.now += 0.5
    assert watched.has_stalled()
    assert watched.trouble() == (
        "the server's crash recovery makes no progress for timeout_s=20: InnoDB: To recover: LSN 215040913/318767104; 3100 pages"
    )


@pytest.mark.parametrize("line", [*MARIADB[1:], *MYSQL[1:]])
def test_each_line_of_both_products_is_known(log: Path, line: str) -> None:
    watched = LogProgress(log, log.stat().st_size, CATALOG.log, 60.0)
    add(log, f"{line}\n")
    assert watched.is_under_way()
    assert not watched.has_stalled()
    assert "2026-11-20" not in watched.trouble()


@pytest.mark.parametrize("line", [MARIADB[0], MYSQL[0], "2026-11-20 20:14:40 0 [Note] InnoDB: Using Linux native AIO"])
def test_a_start_without_recovery_has_its_time_out_only(log: Path, clock: Clock, line: str) -> None:
    watched = LogProgress(log, log.stat().st_size, CATALOG.log, 10.0, clock=clock)
    for _ in range(2):
        add(log, f"{line}\n")
        clock.now += 5.0
        assert not watched.has_stalled()
    clock.now += 0.5
    assert watched.has_stalled()
    assert watched.trouble() == "the server was not ready within timeout_s=10"


def test_the_line_of_aria_grows_as_it_works(log: Path, clock: Clock) -> None:
    watched = LogProgress(log, log.stat().st_size, CATALOG.log, 20.0, clock=clock)
    add(log, "2026-11-20 20:14:40 0 [Note] mariadbd: Aria engine: starting recovery\nrecovered pages: 0%")
    for percent in (10, 20, 30):
        clock.now += 20.0
        add(log, f" {percent}%")
        assert not watched.has_stalled()


@pytest.mark.parametrize("end", [READY, "2026-11-20 20:15:42 0 [ERROR] Aborting"])
def test_a_recovery_comes_to_an_end(log: Path, end: str) -> None:
    watched = LogProgress(log, log.stat().st_size, CATALOG.log, 60.0)
    add(log, f"{MARIADB[2]}\n{end}\n")
    assert not watched.is_under_way()


def test_there_is_a_bound_over_all(log: Path, clock: Clock) -> None:
    watched = LogProgress(log, log.stat().st_size, CATALOG.log, 60.0, clock=clock)
    while clock.now < 1000.0 + progress.RECOVERY_MOST_S:
        add(log, f"{MARIADB[2]} {clock.now}\n")
        assert not watched.has_stalled()
        clock.now += 60.0
    clock.now += 1.0
    add(log, f"{MARIADB[2]} {clock.now}\n")
    assert watched.has_stalled()
    assert watched.trouble().startswith(
        "the server's crash recovery did not end within most_s=3600: InnoDB: Parsed redo log"
    )


def test_people_are_told_what_is_waited_for(
    log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "_TELL_S", 0.0)
    watched = LogProgress(log, log.stat().st_size, CATALOG.log, 60.0)
    add(log, f"{MARIADB[3]}\n")
    time.sleep(0.01)
    with caplog.at_level(logging.WARNING):
        watched.has_stalled()
    assert (
        "the server has been recovering for 0 s: InnoDB: To recover: LSN 215040913/318767104; 3100 pages" in caplog.text
    )


FAKE = f"""#!{PYTHON}
import socket, sys, time
lines, pause_s, gets_ready = {{lines!r}}, {{pause_s}}, {{gets_ready}}
for line in lines:
    print(line, flush=True)
    time.sleep(pause_s)
if gets_ready:
    server = socket.socket(socket.AF_UNIX)
    server.bind({{socket!r}})
    server.listen()
time.sleep(60)
"""


def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, pause_s: float, gets_ready: bool) -> Daemon:
    """A process that writes a recorded recovery into its log, one line after the other, and opens a socket at its end."""
    there = str(tmp_path / "s")
    program = tmp_path / "mariadbd"
    program.write_text(FAKE.format(lines=MARIADB[:4], pause_s=pause_s, gets_ready=gets_ready, socket=there))
    program.chmod(stat.S_IRWXU)
    me = Account("me", os.geteuid(), os.getegid())
    made = Daemon(program, tmp_path / "server.cnf", tmp_path / "pid", me, tmp_path / "server.log", _no_login)
    monkeypatch.setattr(progress, "_LOOK_S", 0.05)
    monkeypatch.setattr(made, "_is_ready", lambda: _listens(there))
    return made


def _no_login() -> Session:
    raise AssertionError("nobody logs in")


def _listens(path: str) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_a_recovery_is_awaited_longer_than_the_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = daemon(tmp_path, monkeypatch, pause_s=1.0, gets_ready=True)
    began = time.monotonic()
    try:
        server.start(2.5)
        assert time.monotonic() - began > 3.5
    finally:
        server.stop(immediate=True)


@pytest.mark.slow
def test_a_recovery_that_stands_still_is_ended_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = daemon(tmp_path, monkeypatch, pause_s=0.1, gets_ready=False)
    with pytest.raises(TargetError) as caught:
        server.start(2.0)
    assert caught.value.message == (
        "the server's crash recovery makes no progress for timeout_s=2: InnoDB: To recover: LSN 215040913/318767104; 3100 pages"
    )
    assert server.pid is None


def reach(log: Path, command: str) -> LocalReach:
    table = {
        "url": "mysql://jo@localhost/?socket=/no/such/socket", "include_file": str(log.parent / "zz.cnf"),
        "restart": command, "restart_timeout_s": 1.0, "log_file": str(log),
    }  # fmt: skip
    return LocalReach(read_settings("db", table))


@pytest.mark.slow
def test_a_restart_command_that_gives_up_on_a_recovery_is_no_failure(log: Path) -> None:
    script = log.parent / "restart.py"
    script.write_text(f"import time; open({str(log)!r}, 'a').write({MARIADB[1]!r} + chr(10)); time.sleep(30)")
    there = reach(log, f"{PYTHON} {script}")
    began = time.monotonic()
    with pytest.raises(TargetError, match="cannot reach server=/no/such/socket"):
        there.restart()  # one second for the command, and one more for a recovery that stands still
    assert time.monotonic() - began > 1.9


@pytest.mark.slow
def test_a_restart_command_that_hangs_on_anything_else_fails(log: Path) -> None:
    there = reach(log, f"{PYTHON} -c 'import time; time.sleep(30)'")
    with pytest.raises(TargetError, match="did not end within timeout_s=1"):
        there.restart()
