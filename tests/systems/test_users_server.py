"""A server of the user's: its log is never shortened, it is stopped by force only by consent, its files keep their owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.systems.conftest import Server
from trimtab.errors import TargetError
from trimtab.host import FileCopy, LocalHost, MemoryCgroup
from trimtab.systems.account import server_account
from trimtab.systems.base import Snapshot
from trimtab.systems.mysql.change import _owner
from trimtab.systems.mysql.remote import LocalReach as MysqlReach
from trimtab.systems.mysql.settings import read_settings
from trimtab.systems.mysql.target import MysqlTarget
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.process import Postmaster

pytestmark = pytest.mark.service
BIG = 5 << 20


@pytest.fixture
def rescued(server: Server, state_dir: Path) -> Iterator[Callable[..., PostgresTarget]]:
    """The user's server, ended and started by hand as the rescue does it; handed back afterwards."""

    def start(**more: object) -> PostgresTarget:
        log = server.data_dir.parent / "users.log"
        log.write_bytes(b"a line of the user's\n" * (BIG // 21 + 1))
        os.chown(log, server.account.uid, server.account.gid)
        target = PostgresTarget.from_settings("own", server.table(log_file=str(log), **more), state_dir=state_dir)
        target.open()
        server.control("stop")
        target._reach.start_with({})
        started.append(target._reach._rescue)  # type: ignore[attr-defined]
        return target

    started: list[Postmaster] = []
    yield start
    for process in started:
        process.stop(immediate=True)
    server.control("start")


def test_the_users_log_is_only_appended_to(rescued: Any, server: Server) -> None:
    target = rescued()
    text = (server.data_dir.parent / "users.log").read_bytes()
    assert text.startswith(b"a line of the user's\n")
    assert len(text) > BIG
    assert b"ready to accept connections" in text[BIG:]
    target.close()


def test_the_values_of_the_rescue_do_not_outlive_it(server: Server, state_dir: Path) -> None:
    """`pg_ctl restart` starts a server with the command line that postmaster.opts holds."""
    target = PostgresTarget.from_settings("own", server.table(), state_dir=state_dir)
    target.open()
    options = server.data_dir / "postmaster.opts"
    found = options.read_bytes()
    server.control("stop")
    target._reach.start_with({"work_mem": "5MB"})
    with target._reach.connect() as connection:
        assert connection.execute("SHOW work_mem").fetchone() == ("5MB",)
    assert options.read_bytes() == found, "whoever restarts the server next would keep the value"
    target._reach.restart()
    with target._reach.connect() as connection:
        rows = connection.execute(
            "SELECT count(*) FROM pg_settings WHERE name = 'work_mem' AND source = 'command line'"
        )
        assert rows.fetchone() == (0,)
    target.close()


def test_a_command_line_that_could_not_be_put_back_is_told(
    server: Server, state_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path, copy: object) -> None:
        raise TargetError(f"cannot write file={str(path)!r}: no space left", hint="")

    target = PostgresTarget.from_settings("own", server.table(), state_dir=state_dir)
    target.open()
    found = (server.data_dir / "postmaster.opts").read_bytes()
    server.control("stop")
    with monkeypatch.context() as patch:
        patch.setattr(target._reach.host, "write_file", refuse)
        target._reach.start_with({"work_mem": "5MB"})
    assert "postmaster.opts could not be put back (cannot write file=" in caplog.text
    assert "use `pg_ctl stop` and `pg_ctl start`" in caplog.text
    (server.data_dir / "postmaster.opts").write_bytes(found)
    target._reach.restart()
    target.close()


def test_an_embedded_servers_log_is_emptied_when_it_has_grown(tmp_path: Path) -> None:
    from trimtab.systems.log import start_log

    me = server_account()
    (tmp_path / "server.log").write_bytes(b"x" * BIG)
    os.close(start_log(tmp_path / "server.log", me, most_bytes=BIG))
    assert (tmp_path / "server.log").stat().st_size == BIG
    os.close(start_log(tmp_path / "server.log", me, most_bytes=BIG - 1))
    assert (tmp_path / "server.log").stat().st_size == 0


@pytest.mark.parametrize("consents", [None, False, True])
def test_the_server_of_the_rescue_is_forced_only_by_consent(
    rescued: Any, monkeypatch: pytest.MonkeyPatch, consents: bool | None
) -> None:
    target = rescued(**({} if consents is None else {"immediate_stop": consents}))
    sent: list[int] = []

    def refuses(process: Postmaster, pid: int, steps: Any) -> bool:
        sent.extend(number for number, _ in steps)
        return signal.SIGQUIT in [number for number, _ in steps]

    with monkeypatch.context() as patched:
        patched.setattr(Postmaster, "_end", refuses)
        if consents:
            target._reach._end_rescue()
        else:
            with pytest.raises(TargetError, match="the server does not stop within timeout_s=60"):
                target._reach._end_rescue()
    assert sent == ([signal.SIGINT, signal.SIGQUIT, signal.SIGKILL] if consents else [signal.SIGINT])


@pytest.mark.needs("root")
def test_an_ordinary_user_gives_no_file_away(tmp_path: Path) -> None:
    """conf.d of root's, writable for the tuner's group: the file is the tuner's, and can be read by the server."""
    folder = tmp_path / "conf.d"
    folder.mkdir()
    os.chown(folder, 0, 65534)
    folder.chmod(0o775)
    for path in (tmp_path, *list(tmp_path.parents)[:3]):
        path.chmod(path.stat().st_mode | 0o011)
    script = (
        "import os, sys; from pathlib import Path; from types import SimpleNamespace\n"
        "from trimtab.host import FileCopy, LocalHost\n"
        "from trimtab.systems.mysql.change import _owner\n"
        "path = Path(sys.argv[1]); os.setgroups([]); os.setgid(65534); os.setuid(65533)\n"
        "mode, uid, gid = _owner(SimpleNamespace(include_file=path))\n"
        "LocalHost().write_file(path, FileCopy(content=b'text', mode=mode, uid=uid, gid=gid))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder / "zz.cnf")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    status = (folder / "zz.cnf").stat()
    assert (status.st_uid, status.st_mode & 0o777) == (65533, 0o644)
    reach: Any = type("R", (), {"include_file": folder / "new.cnf"})()
    assert _owner(reach) == (0o644, 0, 65534)


def test_an_option_file_that_could_not_be_put_back_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "zz.cnf"
    path.write_text("[mysqld]\n")
    table = {"kind": "mysql", "url": "mysql://u@localhost/db", "include_file": str(path), "restart": "true"}
    reach = MysqlReach(read_settings("db", table))
    monkeypatch.setattr(reach, "_look_in", lambda: None)
    reach.open()
    told = r"include_file='.*' cannot be used: it belongs to "
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with pytest.raises(TargetError, match=rf"{told}another user \(uid=\d+\) and could not be put back as it was"):
        reach.open()
    # As `chown tuner FILE` leaves one of root's: its owner may write it, and give it to no group but his own.
    monkeypatch.setattr(LocalHost, "read_file", lambda *_: FileCopy(content=b"", mode=0o644, uid=4242, gid=4343))
    with pytest.raises(TargetError, match=rf"{told}a group that this user is not in \(gid=4343\) and could not be put"):
        reach.open()


@pytest.mark.parametrize("kind", [PostgresTarget, MysqlTarget])
def test_a_target_from_the_journal_keeps_its_memory_limit(
    kind: type[PostgresTarget] | type[MysqlTarget], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead-man of a tuner that is only stopped restarts the server, which the tuner then measures on."""
    which = "18" if kind is PostgresTarget else "mariadb"
    table = {"kind": kind.kind, "embedded": which, "memory": 1 << 30, "memory_limit": 256 << 20}
    snapshot = Snapshot(
        target="db", kind=kind.kind, reach={"settings": table, "folder": str(tmp_path / "x")}, files={}, values={}
    )
    made: list[int] = []

    class Cgroup:
        removed = False

        def add(self, pid: int) -> None: ...
        def remove(self) -> None:
            self.removed = True

    group = Cgroup()
    monkeypatch.setattr(MemoryCgroup, "create", lambda name, limit: made.append(limit) or group)
    reach: Any = kind.from_snapshot(snapshot, state_dir=tmp_path)._reach
    assert reach._limiter() is not None
    assert made == [256 << 20]
    reach.close()
    assert not group.removed, "the limit of a server that goes on, another tuner's, was taken away"
