"""What a server's unit says in systemd's journal, where the server's own log has not begun or is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from trimtab import plugins
from trimtab.errors import TargetError
from trimtab.host import CommandResult
from trimtab.records import Fault
from trimtab.systems.evidence import Forensics
from trimtab.systems.postgresql.catalogue import CATALOG
from trimtab.systems.postgresql.reach import Reach
from trimtab.systems.postgresql.remote import LocalReach
from trimtab.systems.postgresql.settings import read_settings
from trimtab.systems.unit_journal import _unit_of


@pytest.mark.parametrize("has_own_log", [True, False], ids=["collected", "in the journal alone"])
def test_what_a_server_says_before_its_own_log_begins_is_read_from_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_own_log: bool
) -> None:
    """Under systemd its standard error goes there, and the log collector is started only by a config that is sound."""
    if has_own_log:
        (tmp_path / "current_logfiles").write_text("stderr 1.log\n")
        (tmp_path / "1.log").touch()
    restart = "sudo -n /usr/bin/systemctl restart postgresql-18"
    table = {"kind": "postgresql", "url": "postgresql://h/d", "data_dir": str(tmp_path), "restart": restart}
    reach, fatal = (
        LocalReach(read_settings("db", table)),
        'FATAL:  configuration file "/d/postgresql.conf" contains errors',
    )
    asked: list[Sequence[str]] = []

    def run(argv: Sequence[str], *, timeout_s: float) -> CommandResult:
        if argv[0] == "journalctl":
            asked.append(argv)
            return CommandResult(
                argv=tuple(argv), exit_code=0, stdout=f"Starting it\n{fatal}\n", stderr="", duration_s=0.1
            )
        if has_own_log:
            (tmp_path / "1.log").write_text(
                "LOG:  received fast shutdown request\nLOG:  database system is shut down\n"
            )
        return CommandResult(argv=tuple(argv), exit_code=1, stdout="", stderr="Job for it failed", duration_s=0.1)

    monkeypatch.setattr(reach, "connect", lambda: (_ for _ in ()).throw(TargetError("down", hint="")))
    monkeypatch.setattr(reach.host, "run", run)
    found = Forensics(cast(Reach, reach), CATALOG.log, "server")
    found.mark()
    assert reach.said_at_start(5) == "", "nothing was restarted yet"
    with pytest.raises(TargetError, match="Job for it failed"):
        reach.restart()
    evidence = found.gather(was_restarting=True)
    assert [(each.fault, each.text) for each in evidence.symptoms] == [(Fault.CONFIG, fatal)]
    assert evidence.log.splitlines()[-1] == reach.log_excerpt(20).splitlines()[-1] == fatal
    assert evidence.log.count(fatal) == 1
    assert "--unit=postgresql-18" in asked[0]


MONGOD = (
    '{"t":{"$date":"2026-09-04T16:43:04.496Z"},"s":"F",  "c":"CONTROL",  "id":20574,   "ctx":"-",'
    '"msg":"Error during global initialization"}'
)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("redis", "*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***"),
        ("mongodb", MONGOD),
        ("mongodb", "Unrecognized option: storage.wiredTiger.engineConfig.cacheSize"),
        ("cassandra", "Error: Could not create the Java Virtual Machine."),
    ],
)
def test_what_a_program_of_a_catalogue_says_before_its_own_log_begins(
    kind: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log had nothing of a start that failed, and the config was told to have crashed without a reason."""
    log = tmp_path / "own.log"
    log.write_text("ready\n")
    table = {"memory": "1GiB", "restart": "systemctl restart it@6380", "pid_file": str(tmp_path / "pid")}
    target = plugins.load("targets", kind).from_settings(
        "x", {**table, "log_file": str(log)}, state_dir=tmp_path / "state"
    )
    reach, asked = target._reach, list[Sequence[str]]()

    def run(argv: Sequence[str], **how: object) -> CommandResult:
        if argv[0] == "journalctl":
            asked.append(argv)
            return CommandResult(argv=tuple(argv), exit_code=0, stdout=f"{said}\n", stderr="", duration_s=0.1)
        return CommandResult(argv=tuple(argv), exit_code=1, stdout="", stderr="Job for it failed", duration_s=0.1)

    monkeypatch.setattr(reach.host, "run", run)
    found = Forensics(cast(Reach, reach), target.catalog.log, "program")
    found.mark()
    assert said not in reach.log_excerpt(5)
    assert not asked
    with pytest.raises(TargetError, match="Job for it failed"):
        reach.restart()
    evidence = found.gather(was_restarting=True)
    assert [each.fault for each in evidence.symptoms] == [Fault.CONFIG]
    assert said in evidence.log
    assert said in reach.log_excerpt(20)
    assert "--unit=it@6380" in asked[0]


@pytest.mark.parametrize(
    ("command", "unit"),
    [
        ("systemctl restart mariadb.service", "mariadb.service"),
        ("sudo -n systemctl --no-block restart -q db", "db"),
        ("service mysql restart", "mysql"),
        ("systemctl daemon-reload", ""),
        ("pg_ctlcluster 18 main restart", ""),
        ("docker restart service", ""),
    ],
)
def test_the_unit_that_a_command_restarts(command: str, unit: str) -> None:
    assert _unit_of(command.split()) == unit
