"""Which option files a MySQL or MariaDB server reads: by its command line, its program's own word, and its environment."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from trimtab.errors import ApplyError
from trimtab.host import LocalHost
from trimtab.space import Config, Knob, KnobKind, RestartClass
from trimtab.systems.account import Account
from trimtab.systems.base import KnobState
from trimtab.systems.files import digest_at
from trimtab.systems.knobs import Reading
from trimtab.systems.mysql import options
from trimtab.systems.mysql.change import _Change
from trimtab.systems.mysql.foreign import files_as_left
from trimtab.systems.mysql.options import given_options, option_files, start_values
from trimtab.systems.mysql.preflight import check_start
from trimtab.systems.mysql.undo import HEADS

PROGRAM = """#!/bin/sh
echo "$*" >> {folder}/asked
case "$*" in *--print-defaults*)
  echo "{folder}/mysqld would have been started with the following arguments:"
  echo "--back-log=$(cat "$MYSQL_HOME/my.cnf") "
  exit 0
esac
echo "mysqld  Ver 8.0.36"
echo
echo "Default options are read from the following files in the given order:"
echo "{folder}/etc/my.cnf ${{MYSQL_HOME:+$MYSQL_HOME/my.cnf }}~/.my.cnf "
echo "The following groups are read: mysqld server mysqld-8.0"
echo
echo "Variables (--variable-name=value)"
echo "back-log $(cat "$MYSQL_HOME/my.cnf")"
"""


class Reach:
    """A server of this machine; its process is `pid`."""

    host, data_dir, include_file = LocalHost(), None, None
    account: Account | None = Account("me", os.geteuid(), os.getegid())

    def __init__(self, *argv: str, pid: int | None) -> None:
        self.argv, self.pid = argv, pid


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with option files: of a build, of a user, of $MYSQL_HOME, and what the first one includes."""
    for name in ("etc/conf.d", "etc/two words", "user", "base", "started/more.d"):
        (tmp_path / name).mkdir(parents=True)
    texts = {
        "etc/my.cnf": f"[mysqld]\n!includedir {tmp_path}/etc/conf.d/\n ! include\t{tmp_path}/etc/two words/one.cnf \r\n",
        "etc/conf.d/a.cnf": f"!include {tmp_path}/etc/b.cnf\n",
        "etc/conf.d/readme.txt": "",
        "etc/two words/one.cnf": "",
        "etc/b.cnf": "# !include /nowhere\n",
        "user/.my.cnf": "",
        "base/my.cnf": "80",
        "more.cnf": "",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, newline="")
    (tmp_path / "mysqld").write_text(PROGRAM.format(folder=tmp_path))
    (tmp_path / "mysqld").chmod(0o755)
    return tmp_path


@pytest.fixture
def pid(home: Path) -> Iterator[int]:
    own = {
        "HOME": str(home / "user"),
        "MYSQL_HOME": str(home / "base"),
        "PWD": str(home / "started"),
        "SECRET": "horse",
    }
    with subprocess.Popen(["sleep", "60"], env=own) as process:
        until = time.monotonic() + 10
        while b"SECRET" not in Path(f"/proc/{process.pid}/environ").read_bytes():  # the kernel shows it a moment later
            assert time.monotonic() < until
            time.sleep(0.001)
        yield process.pid
        process.kill()


OF_BUILD = ["etc/b.cnf", "etc/conf.d/a.cnf", "etc/my.cnf", "etc/two words/one.cnf"]
OF_SERVER = ["base/my.cnf", "user/.my.cnf"]


def names(reach: Any, home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in option_files(reach))


def test_files_are_those_of_the_program_and_of_the_servers_environment(home: Path, pid: int) -> None:
    reach = Reach(str(home / "mysqld"), "--back-log=50", pid=pid)
    assert names(reach, home) == sorted([*OF_BUILD, *OF_SERVER])
    assert names(reach, home) == sorted([*OF_BUILD, *OF_SERVER])
    assert (home / "asked").read_text() == "--no-defaults --help --verbose\n", "it is asked once"
    reach.pid = None
    reach.data_dir = home  # type: ignore[assignment]
    assert names(reach, home) == OF_BUILD, "the environment of a server that is down is not known"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--defaults-file={home}/more.cnf"], ["more.cnf"]),
        (["--defaults-extra-file={home}/more.cnf"], [*OF_BUILD, *OF_SERVER, "more.cnf"]),
        (["--no-defaults"], []),
    ],
)
def test_the_command_line_says_what_else_is_read(home: Path, pid: int, words: list[str], wanted: list[str]) -> None:
    reach = Reach(str(home / "mysqld"), *(word.format(home=home) for word in words), pid=pid)
    assert names(reach, home) == sorted(wanted)


def test_of_a_link_the_file_that_it_leads_to_is_looked_at(home: Path, pid: int) -> None:
    """As on Debian, where /etc/mysql/my.cnf leads to mariadb.cnf by way of /etc/alternatives."""
    (home / "etc/my.cnf").rename(home / "etc/mariadb.cnf")
    (home / "etc/alternative").symlink_to("mariadb.cnf")
    (home / "etc/my.cnf").symlink_to(home / "etc/alternative")
    reach: Any = Reach(str(home / "mysqld"), pid=pid)
    assert names(reach, home) == sorted([*OF_BUILD, *OF_SERVER, "etc/mariadb.cnf"])
    left = {str(path): digest_at(reach.host, path) or "unreadable" for path in option_files(reach)}
    assert files_as_left(reach, left)
    with (home / "etc/mariadb.cnf").open("a") as file:
        file.write("back_log = 90\n")
    assert not files_as_left(reach, left)


def test_what_is_no_plain_file_is_not_waited_for(home: Path, pid: int) -> None:
    os.mkfifo(home / "etc/conf.d/pipe.cnf")
    assert names(Reach(str(home / "mysqld"), pid=pid), home) == sorted([*OF_BUILD, *OF_SERVER])


@pytest.mark.parametrize("words", ["exit 1", "echo hello"])
def test_a_program_that_names_no_files_reads_the_usual_ones(
    home: Path, pid: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "_USUAL", (f"{home}/etc/my.cnf", "/nowhere/my.cnf"))
    (home / "mysqld").write_text(f"#!/bin/sh\n{words}\n")
    assert names(Reach(str(home / "mysqld"), pid=pid), home) == OF_BUILD
    stranger = Reach(str(home / "mysqld"), pid=pid)
    stranger.account = None
    assert names(stranger, home) == OF_BUILD
    assert names(Reach(pid=pid), home) == OF_BUILD


def test_what_a_server_would_start_with_is_asked_where_its_files_are(home: Path, pid: int) -> None:
    """Not with all of its environment, which may hold what is nobody's business."""
    reach: Any = Reach(str(home / "mysqld"), pid=pid)
    assert given_options(reach) == {"back_log": "80"}
    assert start_values(reach) == {"back_log": "80"}
    (home / "mysqld").write_text(f"#!/bin/sh\nenv > {home}/environment\n")
    start_values(reach)
    seen = (home / "environment").read_text()
    assert f"MYSQL_HOME={home}/base\n" in seen
    assert "horse" not in seen


@pytest.mark.parametrize(
    "words", [["--defaults-file={home}/etc/relative.cnf"], ["--defaults-file=../etc/relative.cnf"]]
)
def test_relative_paths_begin_where_the_server_was_started(home: Path, pid: int, words: list[str]) -> None:
    """As the server reads them at its start, whatever folder it works in since, and wherever Trimtab runs."""
    (home / "etc/relative.cnf").write_text("[mysqld]\n!include inner.cnf\n!includedir more.d\n")
    for name in ("started/inner.cnf", "started/more.d/a.cnf", "etc/inner.cnf"):
        (home / name).touch()
    reach = Reach(str(home / "mysqld"), *(word.format(home=home) for word in words), pid=pid)
    found = sorted(str(path.resolve().relative_to(home)) for path in option_files(reach))  # type: ignore[arg-type]
    assert found == ["etc/relative.cnf", "started/inner.cnf", "started/more.d/a.cnf"]


def test_a_server_that_says_no_folder_counts_as_started_by_a_service(home: Path) -> None:
    (home / "etc/my.cnf").write_text(f"!include {str(home)[1:]}/more.cnf\n")
    with subprocess.Popen(["sleep", "60"], env={"PWD": "."}) as process:
        reach = Reach(str(home / "mysqld"), pid=process.pid)
        assert names(reach, home) == ["etc/my.cnf", "more.cnf"]
        process.kill()


def test_a_config_is_checked_where_the_server_was_started(home: Path, pid: int) -> None:
    """The program of one that was started with --defaults-file=my.cnf finds that file in no other folder."""
    (home / "mysqld").write_text('#!/bin/sh\ntest -d more.d -a -n "$MYSQL_HOME" || exit 1\n')
    reach: Any = Reach(str(home / "mysqld"), pid=pid)
    knob = Knob(name="back_log", kind=KnobKind.INTEGER, low=1, high=100, default=50, restart=RestartClass.RESTART)
    states = {"back_log": KnobState(knob=knob, running=50, source="default")}
    check_start(Config({"back_log": 60}), states, reach)
    (home / "started/more.d").rmdir()
    with pytest.raises(ApplyError, match="the server would not start: exit_code=1"):
        check_start(Config({"back_log": 60}), states, reach)
    check_start(Config({"back_log": 60}), states, cast(Any, Reach(str(home / "gone"), pid=pid)))


def test_an_option_that_switches_a_variable_gives_it_a_value(home: Path, pid: int) -> None:
    words = (
        "--loose-skip-innodb-adaptive-hash-index --disable_query_cache --skip-name-resolve --loose_sort_buffer_size=1M"
    )
    (home / "mysqld").write_text(f"#!/bin/sh\necho 'started with the following arguments:'\necho '{words}'\n")
    given = given_options(cast(Any, Reach(str(home / "mysqld"), pid=pid)))
    assert {"innodb_adaptive_hash_index", "query_cache", "skip_name_resolve"} <= (given or {}).keys()
    assert (given or {})["sort_buffer_size"] == "1M", "as `loose-`, so that others do not end at it"


def test_the_group_suffix_of_a_server_is_its_programs_too(home: Path) -> None:
    """MYSQL_GROUP_SUFFIX in its environment makes it read further groups of its files."""
    (home / "mysqld").write_text(f"#!/bin/sh\nenv > {home}/environment\n")
    own = {"MYSQL_GROUP_SUFFIX": "_one", "MARIADB_GROUP_SUFFIX": "_two"}
    with subprocess.Popen(["sleep", "60"], env=own) as process:
        until = time.monotonic() + 10
        while b"_two" not in Path(f"/proc/{process.pid}/environ").read_bytes():  # the kernel shows it a moment later
            assert time.monotonic() < until
            time.sleep(0.001)
        start_values(cast(Any, Reach(str(home / "mysqld"), pid=process.pid)))
        process.kill()
    assert {f"{name}={value}" for name, value in own.items()} <= set((home / "environment").read_text().splitlines())


OURS = "--back-log=60 --innodb_io_capacity=300"


@pytest.mark.parametrize(
    ("words", "stays", "lost"),
    [
        (OURS, True, ""),
        (f"{OURS} --back_log=0060", True, ""),  # the same in other words
        (f"{OURS} --loose-innodb-io-capacity=900", True, "innodb_io_capacity"),  # another file is read later
        ("--back-log=60", True, "innodb_io_capacity"),
        ("", True, "back_log, innodb_io_capacity"),
        ("", False, ""),
    ],
)
def test_a_file_that_the_server_does_not_read_last_keeps_nothing(
    home: Path, pid: int, words: str, stays: bool, lost: str
) -> None:
    """One of a folder that it does not include, say, or includes before others: SET GLOBAL works all the same."""
    table = "Variables (--variable-name=value)\nback-log  60\ninnodb-io-capacity  900"
    (home / "mysqld").write_text(
        f"#!/bin/sh\necho 'started with the following arguments:'\necho '{words}'\necho\necho '{table}'\n"
    )
    change: Any = _Change.__new__(_Change)
    reach: Any = Reach(str(home / "mysqld"), pid=pid)
    reach.include_file = home / "etc/trimtab.conf"
    change._reach, change._head = reach, HEADS[stays]
    change._config = Config({"back_log": 60, "innodb_io_capacity": 300})
    change._now = {n: Reading(name=n, text=str(v), kind="integer") for n, v in change._config.items()}
    if not lost:
        change.check()
        return
    with pytest.raises(ApplyError) as caught:
        change.check()
    assert caught.value.message == (
        f"the server's next start would lose {lost}: it does not read include_file='{home}/etc/trimtab.conf',"
        " or reads another file after it"
    )


def test_a_value_that_does_not_come_from_an_unread_file_is_not_held_against_the_config(home: Path, pid: int) -> None:
    """As that of each knob which needs a restart, in every trial."""
    (home / "mysqld").write_text("#!/bin/sh\necho 'started with the following arguments:'\n")
    change: Any = _Change.__new__(_Change)
    reach: Any = Reach(str(home / "mysqld"), pid=pid)
    reach.include_file = home / "etc/trimtab.conf"
    change._reach, change._head, change._config = reach, HEADS[False], Config({"back_log": 60})
    change._base = SimpleNamespace(values={"back_log": 50})
    change._now = {"back_log": Reading(name="back_log", text="50", kind="integer")}
    with pytest.raises(ApplyError, match="next start would lose back_log: it does not read") as caught:
        change.check()
    assert caught.value.fault == "environment"
    (home / "mysqld").write_text("#!/bin/sh\necho 'started with the following arguments:'\necho '--back-log=50'\n")
    with pytest.raises(ApplyError, match="the server keeps back_log=50 although 60 was set") as caught:
        change.check()
    assert caught.value.fault == ""
