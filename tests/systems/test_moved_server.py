"""A server that listens elsewhere since our change: its files go back, it reads them by a signal, and it is not restarted."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.servers import free_port
from tests.servers.postgresql import Server, started
from trimtab.errors import RestoreError
from trimtab.space import Config
from trimtab.systems import Undone
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.address import has_no_listener, listens_at


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with started("18") as server:
        yield server


@dataclass
class Applied:
    """What `apply` has set on a server, in a process that has ended.

    Attributes:
        before: the server's own file before.
        asked: each time that the way back asked for a restart.
    """

    server: Server
    state: Path
    before: bytes
    found: Any
    mine: Any
    asked: list[str]

    def restore(self) -> Undone:
        """As a later process does it."""
        target = PostgresTarget.from_snapshot(self.found, state_dir=self.state)
        try:
            return target.restore(self.found, self.mine, restarts=lambda: self.asked.append("a restart"))
        finally:
            target.close()


def applied(server: Server, state: Path, by: str, config: dict[str, Any]) -> Applied:
    url = server.url() if by == "port" else f"host={server.sockets} port={server.port} user=postgres dbname=postgres"
    table = server_table(server, url)
    target = PostgresTarget.from_settings("own", table, state_dir=state)
    target.open()
    before, found = server.auto_conf.read_bytes(), target.snapshot()
    mine = target.apply(Config(config), stays=True).own
    target.close()
    return Applied(server, state, before, found, mine, [])


def server_table(server: Server, url: str) -> dict[str, Any]:
    return {
        "kind": "postgresql", "url": url, "memory": "1GiB", "data_dir": str(server.data_dir),
        "restart": server.restart_command, "restart_timeout_s": 20,
    }  # fmt: skip


@pytest.fixture
def moves(own: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Lets the server listen elsewhere, and where it did again."""
    monkeypatch.setenv("PGPASSWORD", own.password)
    conf = own.data_dir / "postgresql.conf"
    text, port = conf.read_text(), own.port

    def back() -> None:
        conf.write_text(text)
        own.port = port
        own.control("restart")

    def move(by: str) -> Any:
        if by == "port":
            own.port = free_port()
            conf.write_text(text + f"port = {own.port}\n")
        else:
            conf.write_text(text + "unix_socket_directories = ''\n")
        own.control("restart")
        return back

    yield move
    back()


def shown(server: Server, name: str) -> str:
    import psycopg

    with psycopg.connect(server.url(), autocommit=True) as connection:
        row = connection.execute(f"SHOW {name}").fetchone()  # type: ignore[arg-type]
        assert row is not None
        return str(row[0])


@pytest.mark.service
@pytest.mark.parametrize("by", ["port", "socket"])
def test_it_is_not_restarted_for_what_a_reload_takes_back(own: Server, moves: Any, tmp_path: Path, by: str) -> None:
    change = applied(own, tmp_path, by, {"work_mem": 8192})
    moves(by)
    pid = own.pid
    assert shown(own, "work_mem") == "8MB"
    done = change.restore()
    assert not change.asked
    assert not done.restarted
    assert done.put_back == ("work_mem (not seen: no login)",)
    assert own.pid == pid
    assert own.auto_conf.read_bytes() == change.before
    assert shown(own, "work_mem") == "4MB"
    assert not change.restore().restarted, "the same again, when nothing is left to do"
    assert own.pid == pid


@pytest.mark.service
def test_what_needs_a_restart_is_left_for_its_owner_who_is_told_where_it_serves(
    own: Server, moves: Any, tmp_path: Path
) -> None:
    before = shown(own, "shared_buffers")
    change = applied(own, tmp_path, "port", {"shared_buffers": 20000})
    back = moves("port")
    pid = own.pid
    told = (
        rf"no restart was made: the server serves at port={own.port} listen_addresses=127.0.0.1 unix_socket_dir.* now"
    )
    with pytest.raises(RestoreError, match=told) as caught:
        change.restore()
    assert str(caught.value.hint).startswith("restart it by hand, or let it listen at the old address again")
    assert not change.asked
    assert own.pid == pid
    assert own.auto_conf.read_bytes() == change.before
    back()
    change.restore()
    assert shown(own, "shared_buffers") == before


def test_an_address_without_a_listener(tmp_path: Path) -> None:
    port = str(free_port())
    assert has_no_listener("127.0.0.1", port)
    assert has_no_listener(str(tmp_path), port)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert not has_no_listener("127.0.0.1", str(listener.getsockname()[1]))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/.s.PGSQL.{port}")
        listener.listen()
        assert not has_no_listener(str(tmp_path), port)
    assert has_no_listener(str(tmp_path), port), "its socket is left, and its process is gone"


@pytest.mark.parametrize(("host", "port"), [("no-such-host.invalid", "5432"), ("127.0.0.1", "5432,5433")])
def test_what_cannot_be_known_is_no_sign(host: str, port: str) -> None:
    assert not has_no_listener(host, port)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("ready   ", "port=5433 listen_addresses=* unix_socket_directories=/run/pg"),
        ("stopping", ""),
        ("starting", ""),
        (None, ""),
    ],
)
def test_only_a_server_that_takes_logins_listens(tmp_path: Path, status: str | None, told: str) -> None:
    lines = ["4711", str(tmp_path), "1766000000", "5433", "/run/pg", "*", "  1 2", *([status] if status else [])]
    (tmp_path / "postmaster.pid").write_text("\n".join(lines) + "\n")
    assert listens_at(tmp_path) == told


def test_a_server_without_a_pid_file_listens_nowhere(tmp_path: Path) -> None:
    assert listens_at(tmp_path) == ""
