"""Wherever the tuner could log in, its dead-man can, and `recover` from another folder: each way to a running MariaDB.

As test_ways_in for PostgreSQL; and what the journal tells of a server that is down, and of one behind a tunnel.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.faults.invariants import check_no_secret, check_unmixed
from tests.faults.mariadb_place import KNOBS, USER, MariaPlace, take_picture
from tests.faults.test_mariadb_rows import make_maria, own_maria, template
from tests.faults.test_tuner_killed import run_killed, wait_for_deadman
from tests.faults.test_ways_in import Way, elsewhere
from tests.needs import require
from tests.servers import free_port
from tests.servers.certificates import NEW_KEY
from tests.systems.test_right_server import forwarder
from trimtab.errors import TargetError
from trimtab.systems.mysql import MysqlTarget
from trimtab.systems.mysql.rescue import LEFTOVER
from trimtab.trial import Journal

__all__ = ["make_maria", "own_maria", "template"]

pytestmark = [pytest.mark.service, pytest.mark.slow]

APPLY = "trimtab.systems.mysql.target:MysqlTarget.apply:after:1"
SETS = ("bench", "study.toml", "--runs", "1", "--set", "sort_buffer_size=4MB")


def _way(place: MariaPlace, url: str, files: Sequence[str] | None = None) -> Way:
    own = (f'include_file = "{place.server.include_file}"', f'restart = "{place.server.restart_command}"')
    return Way("\n".join((f'url = "{url}"', *(own if files is None else files))))


def _socket_url(place: MariaPlace, who: str = USER, more: str = "") -> str:
    return f"mysql://{who}@localhost/test?socket={place.server.socket}{more}"


def _option_file(place: MariaPlace) -> str:
    return f"[client]\npassword = {place.canary}\n"


def url_password_by_connection(place: MariaPlace) -> Way:
    way = _way(place, _socket_url(place, f"{USER}:{place.canary}"), ())
    return Way(way.target, recover={"MYSQL_PWD": place.canary}, needs_more="the password is only in url")


def url_password_with_a_file(place: MariaPlace) -> Way:
    way = _way(place, _socket_url(place, f"{USER}:{place.canary}"))
    return Way(way.target, recover={"MYSQL_PWD": place.canary}, needs_more="the password is only in url")


def password_in_the_environment(place: MariaPlace) -> Way:
    only = {"MYSQL_PWD": place.canary}
    return Way(_way(place, _socket_url(place)).target, only, recover=only)


def home_option_file(place: MariaPlace) -> Way:
    return Way(_way(place, _socket_url(place)).target, files={"home/.my.cnf": _option_file(place)})


def another_option_file(place: MariaPlace) -> Way:
    url = _socket_url(place, more="&defaults_file=secret/tuner.cnf")
    return Way(_way(place, url).target, files={"secret/tuner.cnf": _option_file(place)})


def relative_paths(place: MariaPlace) -> Way:
    files = (
        'include_file = "server/conf.d/zz-trimtab.cnf"',
        'data_dir = "server/data"',
        'log_file = "~/../server/server.log"',
        f'restart = "{place.server.restart_command}"',
    )
    return Way(_way(place, _socket_url(place), files).target, files={"home/.my.cnf": _option_file(place)})


def tls_with_a_relative_certificate(place: MariaPlace) -> Way:
    require("openssl")
    port, folder = free_port(), place.folder / "certs"
    folder.mkdir()
    (folder / "san").write_text("subjectAltName = IP:127.0.0.1\n")
    for words in (
        f"req -x509 {NEW_KEY} -days 2 -subj /CN=ca -keyout ca.key -out ca.crt",
        f"req {NEW_KEY} -subj /CN=server -keyout server.key -out server.csr",
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile san -out server.crt",
    ):
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True, timeout=60)
    account = place.server.account
    for path in (folder, *folder.iterdir()):
        os.chown(path, account.uid, account.gid)
    options = place.server.folder / "server.cnf"
    tls = "".join(
        f"ssl-{key} = {folder}/{name}\n"
        for key, name in (("ca", "ca.crt"), ("cert", "server.crt"), ("key", "server.key"))
    )
    options.write_text(
        options.read_text().replace("skip-networking\n", f"bind-address = 127.0.0.1\nport = {port}\n{tls}")
    )
    with place.server.admin() as session:
        session.rows("CREATE USER tester@'127.0.0.1' IDENTIFIED BY %s REQUIRE SSL", [place.canary])
        session.rows("GRANT ALL ON *.* TO tester@'127.0.0.1'")
    place.server.control("restart")
    url = f"mysql://{USER}@127.0.0.1:{port}/test?sslmode=verify-full&sslrootcert=certs/ca.crt"
    return Way(_way(place, url).target, files={"home/.my.cnf": _option_file(place)})


WAYS: tuple[Callable[[MariaPlace], Way], ...] = (
    url_password_by_connection, url_password_with_a_file, password_in_the_environment, home_option_file,
    another_option_file, relative_paths, tls_with_a_relative_certificate,
)  # fmt: skip
ONLY_LONG = (
    url_password_with_a_file, home_option_file, url_password_by_connection, password_in_the_environment, relative_paths,
    tls_with_a_relative_certificate,
)  # fmt: skip
"""What each of these has is in another way too, or in the same way to a PostgreSQL (T3 of test_tuner_killed.py has its password
in the environment; relative paths, of certificates too, are in test_ways_in.py)."""


def prepare(place: MariaPlace, make: Callable[[MariaPlace], Way]) -> Way:
    (place.folder / "home").mkdir()
    place.environment.pop("MYSQL_PWD", None)
    place.environment["HOME"] = str(place.folder / "home")
    way = make(place)
    for name, content in way.files.items():
        path = place.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        path.chmod(0o600)
    place.write(knobs=KNOBS if "restart" in way.target else KNOBS[:2])
    place.environment.pop("MYSQL_PWD", None)
    lines = place.study.read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("url =", "include_file =", "restart ="))]
    at = kept.index("[target.db]") + 1
    place.study.write_text("\n".join((*kept[:at], way.target, *kept[at:])) + "\n")
    return way


@pytest.mark.parametrize(
    "make", [pytest.param(way, id=way.__name__, marks=pytest.mark.full if way in ONLY_LONG else ()) for way in WAYS]
)
def test_a_kill_is_undone_by_the_deadman_and_by_recover(
    own_maria: MariaPlace, make: Callable[[MariaPlace], Way]
) -> None:
    place, way = own_maria, prepare(own_maria, make)
    before, base = take_picture(place.server), dict(place.environment)
    sets = (*SETS, "--set", "thread_stack=1MB") if "restart" in way.target else SETS
    place.environment = {**base, **way.environment}
    doctor = place.run("doctor", "study.toml")
    assert doctor.code == 0, doctor.out + doctor.err
    assert (f"note  recover: {way.needs_more}" in doctor.out) == bool(way.needs_more)
    if way.kills_alone:
        run_killed(place, APPLY, arguments=sets)
        wait_for_deadman(place)
        check_unmixed(take_picture(place.server), before)
        assert "the dead-man put target db back" in place.run("recover").err
    run_killed(place, APPLY, arguments=sets, with_deadman=True)
    assert place.server.query("SELECT @@GLOBAL.sort_buffer_size") == [(4 << 20,)]
    place.environment = base
    if way.needs_more:
        failed = elsewhere(place, "recover", environment={})
        assert failed.code == 3
        assert "the server refused user or password" in failed.err
    done = elsewhere(place, "recover", environment=way.recover)
    assert done.code == 0, done.err
    check_unmixed(take_picture(place.server), before)
    for name in way.files:
        (place.folder / name).unlink()
    place.study.unlink()
    check_no_secret(place)


def test_a_target_from_the_journal_knows_files_and_process_of_a_server_that_is_down(own_maria: MariaPlace) -> None:
    """And so `recover` can take away what a resize of the redo log has left behind, and waits for the crash recovery."""
    place, server = own_maria, own_maria.server
    before = take_picture(server)
    run_killed(place, APPLY, arguments=(*SETS, "--set", "thread_stack=1MB"), with_deadman=True)
    (entry,) = Journal(place.state).open_entries()
    (snapshot,) = entry.snapshots
    target = MysqlTarget.from_snapshot(snapshot, state_dir=place.state)
    assert target._reach.data_dir == server.data_dir
    assert target._reach.log_file == server.folder / "server.log"
    assert target._reach.pid == server.pid
    assert any("defaults-file" in word for word in target._reach.argv)
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 30
    while server.pid is not None and time.monotonic() < until:
        time.sleep(0.02)
    leftover = server.data_dir / LEFTOVER
    leftover.write_bytes(b"0" * 4096)
    os.chown(leftover, server.account.uid, server.account.gid)
    down = MysqlTarget.from_snapshot(snapshot, state_dir=place.state)._reach
    assert (down.data_dir, down.pid, down.log_file) == (server.data_dir, None, server.folder / "server.log")
    done = elsewhere(place, "recover", environment={})
    assert done.code == 0, done.err
    assert not leftover.exists()
    check_unmixed(take_picture(server), before)


def test_a_journal_of_another_machine_tells_nothing_of_the_files_here(
    own_maria: MariaPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = MysqlTarget.from_settings(
        "db", _table(own_maria, _socket_url(own_maria, "root")), state_dir=own_maria.state
    )
    target.open()
    snapshot = target.snapshot()
    monkeypatch.setattr("trimtab.systems.seen.machine_mark", lambda: "another")
    again = MysqlTarget.from_snapshot(snapshot, state_dir=own_maria.state)
    assert (again._reach.data_dir, again._reach.log_file) == (None, None)


def _table(place: MariaPlace, url: str, **more: str) -> dict[str, object]:
    return {"kind": "mysql", "url": url, "include_file": str(place.server.include_file), "restart": "true", **more}


def test_a_tunnel_to_another_server_is_not_the_one_whose_files_lie_here(
    make_maria: Callable[[bool], MariaPlace],
) -> None:
    one, two = make_maria(False), make_maria(False)
    with forwarder(str(two.server.socket)) as port:
        url = f"mysql://root@127.0.0.1:{port}/test"
        wrong = MysqlTarget.from_settings(
            "db", _table(one, url, data_dir=str(one.server.data_dir)), state_dir=one.state
        )
        with pytest.raises(TargetError, match=f"pid={one.server.pid}, and it is not the one that answers"):
            wrong.open()
        right = MysqlTarget.from_settings("db", _table(two, url), state_dir=one.state)
        right.open()
        assert right._reach.is_here
        assert right._reach.data_dir == two.server.data_dir
        assert right._reach.pid == two.server.pid
        assert right.budget_bytes == right.limits.memory_bytes


@pytest.mark.needs("namespaces")
def test_a_server_elsewhere_behind_a_tunnel_is_not_here(own_maria: MariaPlace) -> None:
    """In a namespace of its own for processes Trimtab sees the server as one of another machine: none of its files either."""
    script = (
        "import sys; from pathlib import Path\n"
        "from trimtab.systems.mysql import MysqlTarget\n"
        "from trimtab.errors import TargetError\n"
        "t = MysqlTarget.from_settings('t', {'kind': 'mysql', 'url': sys.argv[1]}, state_dir=Path(sys.argv[2]))\n"
        "t.open()\n"
        "print(t._reach.is_here, t._reach.data_dir, t._reach.pid, t._reach.log_file)\n"
        "try:\n    t.budget_bytes\nexcept TargetError as error:\n    print(error.message)\n"
    )
    with forwarder(str(own_maria.server.socket)) as port:
        done = subprocess.run(
            ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", script,
             f"mysql://root@127.0.0.1:{port}/test", str(own_maria.state)],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
    assert done.stdout.splitlines() == [
        "False None None None",
        "the server at host=127.0.0.1 does not show as a process of this machine: its memory and cores are not known here",
    ]


def test_a_pid_file_that_names_a_stranger_is_not_believed(own_maria: MariaPlace) -> None:
    target = MysqlTarget.from_settings(
        "db", _table(own_maria, _socket_url(own_maria, "root")), state_dir=own_maria.state
    )
    target.open()
    pid = own_maria.server.pid
    (own_maria.server.folder / "server.pid").write_text("1\n")
    assert target._reach.pid == pid
    (own_maria.server.folder / "server.pid").write_text(f"{pid}\n")
    assert Path(f"/proc/{pid}").exists()
