"""Rows of the matrix on a real MariaDB: C (option files) and S (security)."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from unittest import mock

import pytest

from tests.faults.mariadb_place import KNOBS, MariaPlace, check_invariants, take_picture
from tests.faults.rooms import Bench, open_bench, stopped
from tests.faults.test_mariadb_rows import CHANGES, make_maria, maria, own_maria, target_of, template
from tests.needs import IS_FULL
from trimtab.errors import ApplyError
from trimtab.host import Folder
from trimtab.space import Config

__all__ = ["make_maria", "maria", "own_maria", "template"]

pytestmark = [pytest.mark.service, pytest.mark.slow]

FOREIGN = b"# the administrator's\n[mysqld]\nsort_buffer_size = 65536\n"


def test_C1_C5_mariadb_our_file_written_by_somebody_else_stops_the_study(own_maria: MariaPlace) -> None:
    include = own_maria.server.include_file

    def meddle() -> None:
        include.write_bytes(include.read_bytes() + FOREIGN)

    def script(bench: Bench) -> None:
        bench.on_second = meddle
        bench.run(**CHANGES)

    before = take_picture(own_maria.server)
    error = stopped(own_maria, script)
    assert f"file={str(include)!r} was changed by somebody else" in error.message
    assert "our own changes were taken back: sort_buffer_size=2097152" in error.message
    waits = "thread_stack=1048576: waits for a restart, which was not made because it would bring changes of somebody else's"
    assert waits in error.message
    assert include.read_bytes() == b"[mysqld]\n" + FOREIGN, "only our own lines were taken out"
    include.unlink()
    own_maria.server.control("restart")  # what a person does then
    check_invariants(own_maria, before)


@pytest.mark.full  # test_config_files.py: on PostgreSQL
def test_C1_mariadb_a_file_that_cannot_be_parsed_is_not_overwritten(own_maria: MariaPlace) -> None:
    """No server would start with it: nothing that needs a restart is taken back, and that is said."""
    other = own_maria.server.folder / "conf.d" / "aa-other.cnf"

    def script(bench: Bench) -> None:
        bench.on_second = lambda: other.write_bytes(b"[mysqld]\n\xff garbage = = =\n")
        bench.run(**CHANGES)

    before = take_picture(own_maria.server)
    error = stopped(own_maria, script)
    assert f"file={str(other)!r} was added by somebody else" in error.message
    assert "thread_stack=1048576: waits for a restart" in error.message
    assert own_maria.server.query("SELECT @@GLOBAL.sort_buffer_size") == [(2097152,)], "it serves, with what can be had"
    assert b"garbage" in other.read_bytes()
    other.unlink()
    own_maria.server.control("restart")
    check_invariants(own_maria, before)


@pytest.mark.parametrize("damage", [pytest.param("truncated", marks=pytest.mark.full), "missing"])
def test_C2_mariadb_our_file_cut_or_removed_is_seen(own_maria: MariaPlace, damage: str) -> None:
    include = own_maria.server.include_file

    def script(bench: Bench) -> None:
        bench.on_second = include.unlink if damage == "missing" else lambda: include.write_bytes(b"")
        bench.run(**CHANGES)

    before = take_picture(own_maria.server)
    error = stopped(own_maria, script)
    assert f"was {'removed' if damage == 'missing' else 'changed'} by somebody else" in error.message
    assert "our own changes were taken back: sort_buffer_size=2097152, thread_stack=299008" in error.message
    include.unlink(missing_ok=True)
    check_invariants(own_maria, before)


def test_C3_mariadb_a_partial_write_leaves_the_old_file(maria: MariaPlace) -> None:
    before = take_picture(maria.server)
    include = maria.server.include_file
    with open_bench(maria) as bench:
        half = include.with_name(f".{include.name}.abcdefgh")  # what a power cut leaves: before the rename
        half.write_text("[mysqld]\nthread_stack = ")
        half.chmod(0o644)
        target_of(bench)._reach.restart()
        half.unlink()
        with (
            mock.patch.object(Folder, "rename", side_effect=OSError(28, "No space left on device")),
            pytest.raises(ApplyError, match=r"cannot write file=.*No space left on device"),
        ):
            target_of(bench).apply(Config(CHANGES))
        assert [path.name for path in include.parent.iterdir()] == []
        target_of(bench).health()
    check_invariants(maria, before)


def test_C4_mariadb_the_command_line_wins_and_locks_the_knob(own_maria: MariaPlace) -> None:
    server = own_maria.server
    (server.folder / "command_line").write_text("--thread-stack=300000\n")
    server.control("restart")
    before = take_picture(server)
    ran = own_maria.run("bench", "study.toml", "--runs", "1")
    cause = "knob='thread_stack' is locked: set on the server's command line, which wins over every file"
    check_invariants(own_maria, before, ran=ran, code=2, cause=cause)


def test_C4_mariadb_a_later_file_wins_and_is_named(own_maria: MariaPlace) -> None:
    server = own_maria.server
    later = server.folder / "conf.d" / "zzz-later.cnf"
    later.write_text("[mysqld]\nthread_stack = 299008\n")
    later.chmod(0o644)
    server.control("restart")
    before = take_picture(server)
    with open_bench(own_maria) as bench, pytest.raises(ApplyError) as caught:
        target_of(bench).apply(Config(CHANGES))
    assert "the server keeps thread_stack=299008" in caught.value.message
    assert str(later) in caught.value.message
    check_invariants(own_maria, before)


@pytest.mark.full  # test_config_files.py: on PostgreSQL
def test_C5_mariadb_a_value_that_somebody_sets_is_not_fought_over(own_maria: MariaPlace) -> None:
    def script(bench: Bench) -> None:
        bench.on_second = lambda: own_maria.server.query("SET GLOBAL sort_buffer_size = 1048576")
        bench.run(**CHANGES)

    before = take_picture(own_maria.server)
    error = stopped(own_maria, script)
    assert "somebody else changed settings: sort_buffer_size=1048576 (SET GLOBAL), it was 4194304" in error.message
    assert own_maria.server.query("SELECT @@GLOBAL.thread_stack") == [(299008,)], "ours was taken back"
    own_maria.server.query("SET GLOBAL sort_buffer_size = DEFAULT")
    check_invariants(own_maria, before)


def test_C6_mariadb_a_link_or_a_folder_that_is_not_ours_is_refused_before_any_change(own_maria: MariaPlace) -> None:
    server = own_maria.server
    goal = server.folder / "conf.d" / "aa-goal.cnf"
    goal.write_text("[mysqld]\n")
    server.include_file.symlink_to(goal)
    before = take_picture(server)
    ran = own_maria.run("bench", "study.toml", "--runs", "1")
    check_invariants(own_maria, before, ran=ran, code=3, cause="is a symbolic link to .*; nothing was changed")
    server.include_file.unlink()
    text = own_maria.study.read_text()
    own_maria.study.write_text(text.replace("conf.d/zz-trimtab.cnf", "no-such-folder/zz-trimtab.cnf"))
    before = take_picture(server)
    ran = own_maria.run("bench", "study.toml", "--runs", "1")
    check_invariants(own_maria, before, ran=ran, code=3, cause="cannot be written by this user")


def test_C6_C7_mariadb_mode_owner_and_every_byte_of_a_file_are_kept(own_maria: MariaPlace) -> None:
    include = own_maria.server.include_file
    content = "# Gr\xfc\xdfe\r\n[mysqld]\r\n sort-buffer-size = 512K\r\nback_log='70'\r\n# no line end".encode(
        "latin-1"
    )
    include.write_bytes(content)
    include.chmod(0o640)
    account = own_maria.server.account
    os.chown(include, account.uid, account.gid)
    own_maria.server.control("restart")
    before = take_picture(own_maria.server)
    assert before.settings["sort_buffer_size"] == str(512 << 10)
    assert before.settings["back_log"] == "70"
    with open_bench(own_maria) as bench:
        applied = target_of(bench).apply(Config(CHANGES))
        assert applied.effective == CHANGES
        assert stat.S_IMODE(include.stat().st_mode) == 0o640
        assert include.read_bytes().startswith(content + b"\n")
        target_of(bench).restore(bench.snapshot)
    check_invariants(own_maria, before)


# --- S: security ---

HOSTILE = (
    "sort_buffer_size=1; DROP TABLE test.witness",
    "sort_buffer_size=1048576\nplugin_load_add=x.so",
    "sort_buffer_size`=1, GLOBAL `general_log=1",
    "general_log_file=/etc/cron.d/x.cnf",
    "init_connect=DROP TABLE test.witness",
    "innodb_flush_neighbors=$(touch /tmp/owned)",
)


def test_S1_mariadb_names_and_values_that_are_statements_are_refused(own_maria: MariaPlace) -> None:
    before = take_picture(own_maria.server)
    for text in HOSTILE if IS_FULL else HOSTILE[:2]:
        ran = own_maria.run("bench", "study.toml", "--runs", "1", "--set", text)
        assert ran.code in (2, 3), (text, ran)
        assert "Traceback" not in ran.err
    check_invariants(own_maria, before)


COMMANDS = (
    ("doctor", "study.toml"),
    ("bench", "study.toml", "--runs", "1"),
    ("tune", "study.toml"),
    ("report", "faults"),
)


@pytest.mark.parametrize(
    "value",
    [
        "1; DROP TABLE test.witness",
        *(pytest.param(text, marks=pytest.mark.full) for text in ("ON\nplugin_load_add=x.so", "'", "\\", "\0", "x`y")),
    ],
)
def test_S1_mariadb_values_of_a_config_pass_the_gate_or_nothing_happens(maria: MariaPlace, value: str) -> None:
    before = take_picture(maria.server)
    with open_bench(maria) as bench:
        for name in (*KNOBS, value):
            with pytest.raises(ApplyError):
                target_of(bench).apply(Config({name: value}))
    check_invariants(maria, before)


@pytest.mark.full  # tests/service/test_mariadb.py looks for it after a study by connection
def test_S2_mariadb_a_password_appears_nowhere(own_maria: MariaPlace) -> None:
    before = take_picture(own_maria.server)
    for arguments in COMMANDS if IS_FULL else COMMANDS[:2]:
        ran = own_maria.run(*arguments)
        assert ran.code in (0, 1), ran.err
    wrong = own_maria.run("doctor", "study.toml", environment={"MYSQL_PWD": f"{own_maria.canary}-wrong"})
    assert wrong.code == 3
    check_invariants(own_maria, before, ran=wrong, code=3, cause="refused user or password")


@pytest.mark.full  # test_security_gate.py: on PostgreSQL
def test_S5_mariadb_its_server_never_runs_as_root(maria: MariaPlace) -> None:
    before = take_picture(maria.server)
    with open_bench(maria):
        pid = maria.server.pid
        assert pid is not None
        uids = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Uid:"))
        assert set(uids.split()[1:]) == {str(maria.server.account.uid)}
        assert maria.server.account.uid != 0
    check_invariants(maria, before)
