"""What lines of a MariaDB's log speak for, what differs between two pictures, and which lines a withdrawal takes out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from trimtab.host import FileCopy
from trimtab.records import Fault
from trimtab.systems.base import Own
from trimtab.systems.evidence import classified
from trimtab.systems.files import file_digest
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.mysql.undo import _file_without
from trimtab.systems.picture import Picture, differences

LEFT = Picture(
    who={"identifier": "fXdYp7ZW", "role": ""},
    role="a server that takes writes",
    calls="server_uid",
    instance="4711 boot:99",
    began_s=100.0,
    files={"/etc/a.cnf": "1", "/etc/zz-trimtab.cnf": "2"},
    ours=frozenset({"/etc/zz-trimtab.cnf"}),
    settings={"sort_buffer_size": ("2097152", "default"), "sql_mode": ("STRICT", "default")},
)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("2026-11-20 20:09:52 0 [ERROR] /usr/sbin/mariadbd: unknown variable 'no-such=1'", Fault.CONFIG),
        ("2026-11-20 20:09:51 0 [ERROR] Can't create interrupt-thread (error 11, errno: 12)", Fault.CONFIG),
        ("2026-11-20 20:09:51 0 [ERROR] InnoDB: Cannot map innodb_buffer_pool_size_max=943718400m", Fault.CONFIG),
        ("2026-11-20 20:09:52 0 [ERROR] mariadbd: Error while setting value 'x' to 'innodb-flush-method'", Fault.CONFIG),
        ("261120 20:09:52 [ERROR] /usr/sbin/mariadbd got signal 11 ;", Fault.CONFIG),
        (
            "2026-11-20 20:14:44 0 [ERROR] InnoDB: preallocating 2147483648 bytes for file ./ib_logfile101 failed with error 28",
            Fault.RESOURCE,
        ),
        ("2026-11-20 20:14:44 7 [ERROR] mariadbd: Disk is full writing './a.MAI' (Errcode: 28)", Fault.RESOURCE),
        ("2026-11-20 20:14:44 0 [ERROR] mariadbd: Out of memory (Needed 128917504 bytes)", Fault.RESOURCE),
        (
            "2026-11-20 20:14:44 0 [ERROR] Can't start server: Bind on TCP/IP port: Address already in use",
            Fault.ENVIRONMENT,
        ),
        (
            "2026-11-20 20:14:44 0 [ERROR] Can't start server: Bind on TCP/IP port. Got error: 98: Address already in use",
            Fault.ENVIRONMENT,
        ),
        (
            "2026-11-20 20:14:44 0 [ERROR] Can't start server : Bind on unix socket: No such file or directory",
            Fault.ENVIRONMENT,
        ),
        ("2026-11-20 20:14:44 0 [ERROR] InnoDB: Operating system error number 13 in a file operation.", Fault.ENVIRONMENT),
        (
            "2026-11-20T20:14:44.123456Z 0 [ERROR] [MY-010268] [Server] Another process with pid 7 is using unix socket file.",
            Fault.ENVIRONMENT,
        ),
        ("2026-11-20 20:14:44 0 [ERROR] InnoDB: Unable to lock ./ibdata1 error: 11", Fault.ENVIRONMENT),
        ("2026-11-20T20:14:44.123456Z 1 [ERROR] [MY-012574] [InnoDB] Unable to lock ./ibdata1 error: 11", Fault.ENVIRONMENT),
        ("2026-11-20T20:14:44.123456Z 0 [ERROR] [MY-000067] [Server] unknown variable 'no-such=1'.", Fault.CONFIG),
        ("2026-11-20 20:14:44 0 [Note] mariadbd (initiated by: root[root] @ localhost []): Normal shutdown",
         Fault.ENVIRONMENT),
        ("2026-11-20 20:14:44 0 [Note] WSREP: Received NON-PRIMARY.", Fault.ENVIRONMENT),
        ("2026-11-20 20:14:44 0 [ERROR] WSREP: failed to open gcomm backend connection: 110: failed to reach primary view"
         " (pc.wait_prim_timeout): 110 (Connection timed out)", Fault.ENVIRONMENT),
        ("2026-11-20T20:14:44.123456Z 0 [ERROR] [MY-000000] [Galera] It may not be safe to bootstrap the cluster from this"
         " node.", Fault.ENVIRONMENT),
    ],
)  # fmt: skip
def test_a_line_of_the_log_speaks_for_a_fault(line: str, fault: Fault) -> None:
    (symptom,) = classified(f"2026-11-20 20:07:06 0 [Note] Plugin 'FEEDBACK' is disabled.\n{line}", CATALOG.log)
    assert symptom.fault is fault
    assert "2026-11-20" not in symptom.text


def test_a_node_that_we_stop_leaves_its_cluster() -> None:
    """In a restart of ours that is no sign: it says the same as where it has lost the others."""
    (symptom,) = classified("2026-11-20 20:14:44 0 [Note] WSREP: Received NON-PRIMARY.", CATALOG.log)
    assert re.search(CATALOG.log.by_stop, symptom.text)


SECOND = """2026-11-30 12:59:58 0 [ERROR] mariadbd: Got error 'Could not get an exclusive lock; file is probably in use' (aria)
2026-11-30 13:00:28 0 [ERROR] Plugin 'Aria' registration as a STORAGE ENGINE failed.
2026-11-30 13:00:28 0 [ERROR] InnoDB: Unable to lock ./ibdata1 error: 11
2026-11-30 13:00:28 0 [ERROR] InnoDB: Plugin initialization aborted with error Generic error
2026-11-30 13:00:28 0 [ERROR] Plugin 'InnoDB' registration as a STORAGE ENGINE failed.
2026-11-30 13:00:28 0 [ERROR] Failed to initialize plugins.
"""
FULL = """2026-11-30 12:59:52 0 [ERROR] InnoDB: preallocating 96 bytes for file ./ib_logfile101 failed with error 28
2026-11-30 12:59:52 0 [ERROR] InnoDB: Plugin initialization aborted with error Generic error
2026-11-30 12:59:52 0 [ERROR] Unknown/unsupported storage engine: InnoDB
"""
MYSQL = """2026-11-20T20:14:44.123456Z 1 [ERROR] [MY-012574] [InnoDB] Unable to lock ./ibdata1 error: 11
2026-11-20T20:14:45.123456Z 1 [ERROR] [MY-010334] [Server] Failed to initialize DD Storage Engine
"""


@pytest.mark.parametrize(
    ("log", "fault"), [(SECOND, Fault.ENVIRONMENT), (FULL, Fault.RESOURCE), (MYSQL, Fault.ENVIRONMENT)]
)
def test_what_follows_from_a_failure_blames_nobody_else(log: str, fault: Fault) -> None:
    """Lines of MariaDB 10.11 that was started beside another one, and on a full disk; of MySQL by its list of messages."""
    assert {symptom.fault for symptom in classified(log, CATALOG.log)} == {fault}


def test_ordinary_lines_say_nothing() -> None:
    assert (
        classified(
            "2026-11-20 20:07:06 0 [Note] /usr/sbin/mariadbd: ready for connections.\nVersion: '10.11'", CATALOG.log
        )
        == []
    )


@pytest.mark.parametrize(
    ("change", "text", "stops"),
    [
        ({"who": {"identifier": "other"}}, "another server answers here: server_uid=other, it was fXdYp7ZW", True),
        ({"role": "a replica"}, "it is a replica now, it was a server that takes writes", True),
        ({"files": {"/etc/a.cnf": "9", "/etc/zz-trimtab.cnf": "2"}}, "file='/etc/a.cnf' was changed by", True),
        ({"files": {"/etc/zz-trimtab.cnf": "2"}}, "file='/etc/a.cnf' was removed by somebody else", True),
        ({"files": {**LEFT.files, "/etc/b.cnf": "3"}}, "file='/etc/b.cnf' was added by somebody else", True),
        (
            {"settings": {"sort_buffer_size": ("1024", "SET GLOBAL")}},
            "somebody else changed settings: sort_buffer_size=1024 (SET GLOBAL), it was 2097152",
            True,
        ),
        ({"instance": "4712 boot:100"}, "the server was restarted by somebody else, or crashed", False),
        ({"instance": "", "began_s": 110.0}, "the server was restarted by somebody else, or crashed", False),
    ],
)
def test_what_somebody_else_did_is_told(change: dict[str, Any], text: str, stops: bool) -> None:
    (found,) = differences(LEFT, replace(LEFT, **change))
    assert text in found.text
    assert found.stops is stops
    assert found.hint or not stops


def test_what_a_restart_has_lost_was_changed_by_nobody() -> None:
    """A server that the kernel has killed because of our own setting, which was made by SET GLOBAL, comes back without it."""
    left = replace(LEFT, settings={"sort_buffer_size": ("4194304", "SET GLOBAL")})
    now = replace(left, settings={"sort_buffer_size": ("262144", "default")}, instance="4712 boot:100")
    (found,) = differences(left, now)
    assert found.text == "the server was restarted by somebody else, or crashed"
    assert not found.stops
    (changed,) = differences(left, replace(now, instance=left.instance))
    assert changed.stops


def test_a_second_of_uptime_is_no_restart() -> None:
    assert list(differences(replace(LEFT, instance=""), replace(LEFT, instance="", began_s=101.5))) == []


def test_own_changes_are_not_foreign_and_others_stay_so() -> None:
    now = replace(LEFT, files={"/etc/a.cnf": "9", "/etc/zz-trimtab.cnf": "7"})
    (found,) = differences(now.after_own_change(LEFT), now)
    assert "/etc/a.cnf" in found.text
    assert "zz-trimtab" not in found.text


def copy(text: str) -> FileCopy:
    return FileCopy(content=text.encode("latin-1"), mode=0o644, uid=0, gid=0)


OURS = "# Written by Trimtab while it tunes; removed or put back afterwards.\n[mysqld]\nsort_buffer_size = 4096\n"
OWN = Own(texts={"sort_buffer_size": ("4096",), "thread_stack": ("2",)}, is_whole=False)
FOUND = "[mysqld]\nback_log = 70\n"


@pytest.mark.parametrize(
    ("now", "found", "goal"),
    [
        (FOUND + OURS + "thread_stack = 1\nsort_buffer_size = 8192\n", FOUND,
         "[mysqld]\nback_log = 70\n[mysqld]\nthread_stack = 1\nsort_buffer_size = 8192\n"),
        (FOUND + OURS, FOUND, FOUND),
        (OURS, None, None),
        ("# managed\n", FOUND, "# managed\n"),
        ("", None, ""),
        (OURS + "# mine\n", None, "[mysqld]\n# mine\n"),
        # Bytes of letters ("Ņ" in UTF-8) and control characters are no ends of lines.
        ("# \xc5\x85sort_buffer_size = 4096\n" + OURS, FOUND, "# \xc5\x85sort_buffer_size = 4096\n[mysqld]\n"),
        ("a\x0csort_buffer_size = 4096\n", FOUND, "a\x0csort_buffer_size = 4096\n"),
    ],
)  # fmt: skip
def test_only_our_own_lines_are_taken_out(now: str, found: str | None, goal: str | None) -> None:
    """Half way through a change nobody knows the file's digest: its lines tell whether somebody else has written there."""
    before = copy(found) if found is not None else None
    assert _file_without(copy(now), before, OWN, "") == (copy(goal) if goal is not None else None)


def test_a_file_as_we_left_it_has_its_found_bytes_again() -> None:
    now, found = copy(OURS + "thread_stack = 7\n"), copy(FOUND)
    assert _file_without(now, found, OWN, file_digest(now)) == found
