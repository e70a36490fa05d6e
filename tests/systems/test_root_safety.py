"""Root in folders of the server's user: that user plays the attacker, and gets nothing that is not its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.systems.conftest import Server
from trimtab.errors import ApplyError, TargetError
from trimtab.host import CommandResult, LocalHost
from trimtab.space import Config
from trimtab.systems.account import Account, server_account
from trimtab.systems.log import is_servers_log, start_log, tail
from trimtab.systems.mysql.embedded import EmbeddedReach as MysqlEmbedded
from trimtab.systems.mysql.rescue import LEFTOVER, remove_leftover
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.embedded import EmbeddedReach
from trimtab.systems.postgresql.preflight import check_shared_memory
from trimtab.systems.postgresql.process import Postmaster
from trimtab.systems.private_folder import make_server_folders

pytestmark = [pytest.mark.service, pytest.mark.needs("root")]
SECRET = "root:$y$secret"


@pytest.fixture
def account() -> Account:
    return server_account()


@pytest.fixture
def secret(cache: Path) -> Iterator[Path]:
    """A file that only root may read."""
    path = cache / "shadow"
    path.write_text(SECRET)
    path.chmod(0o600)
    yield path
    assert path.read_text() == SECRET, "root wrote through the attacker's link"
    assert path.stat().st_uid == 0, "root gave the file away"
    path.unlink()


@pytest.fixture
def own(cache: Path, account: Account) -> Iterator[Path]:
    """A folder of the server's user."""
    folder = cache / "attacked"
    folder.mkdir(mode=0o755)
    os.chown(folder, account.uid, account.gid)
    yield folder
    os.system(f"rm -rf {folder}")


def plant(path: Path, goal: Path, account: Account) -> None:
    """What the server's user does: a link of its own in the place of a file."""
    path.unlink(missing_ok=True)
    path.symlink_to(goal)
    os.lchown(path, account.uid, account.gid)


def give(path: Path, content: bytes, account: Account) -> None:
    path.write_bytes(content)
    os.chown(path, account.uid, account.gid)


@pytest.fixture
def data_dir(own: Path, server: Server, account: Account) -> Path:
    """What the start-up check reads of a data directory."""
    (own / "global").mkdir()
    os.chown(own / "global", account.uid, account.gid)
    for name in ("PG_VERSION", "global/pg_control"):
        give(own / name, (server.data_dir / name).read_bytes(), account)
    return own


class Checker(LocalHost):
    """Looks into the scratch directory that the server's program is given."""

    seen: dict[str, bytes]

    def run(self, argv: Any, **more: Any) -> CommandResult:
        folder = Path(argv[2])
        self.seen = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        return super().run(argv, **more)


@pytest.fixture
def check(server: Server, state_dir: Path, data_dir: Path) -> Iterator[Any]:
    """The start-up check over the attacker's data directory; returns what its program could read."""
    target = PostgresTarget.from_settings("own", server.table(), state_dir=state_dir)
    target.open()
    host = Checker()
    reach: Any = SimpleNamespace(account=server.account, bin_dir=server.bin_dir, data_dir=data_dir, host=host)

    def run() -> dict[str, bytes]:
        check_shared_memory(Config({"shared_buffers": 20000}), target.states(), reach, 1 << 30)
        return host.seen

    yield run
    target.close()


def test_the_check_reads_the_servers_own_files(check: Any) -> None:
    assert set(check()) == {"PG_VERSION", "postgresql.conf", "global/pg_control"}


@pytest.mark.parametrize("name", ["PG_VERSION", "global/pg_control"])
def test_the_check_copies_nothing_through_a_link(
    name: str, check: Any, data_dir: Path, secret: Path, account: Account
) -> None:
    plant(data_dir / name, secret, account)
    with pytest.raises(ApplyError, match="cannot be copied for a check: it is a symbolic link"):
        check()


@pytest.mark.parametrize("name", ["PG_VERSION", "global/pg_control"])
def test_the_check_copies_no_file_of_another_user(name: str, check: Any, data_dir: Path, secret: Path) -> None:
    (data_dir / name).unlink()
    os.link(secret, data_dir / name)  # where the kernel does not protect hard links
    with pytest.raises(ApplyError, match="is missing, or not the server's user's"):
        check()


def test_the_check_follows_no_link_to_another_folder(
    check: Any, data_dir: Path, cache: Path, account: Account, secret: Path
) -> None:
    (cache / "roots").mkdir(mode=0o700)
    (cache / "roots" / "pg_control").write_text(SECRET)
    (data_dir / "global").rename(data_dir / "moved")
    plant(data_dir / "global", cache / "roots", account)
    with pytest.raises(ApplyError, match="a symbolic link of another user's"):
        check()


def test_the_scratch_folder_is_given_away_last_and_by_descriptor(
    check: Any, secret: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as the top folder is the attacker's, a link to root's file stands in the place of each child."""
    by_path, by_handle = os.chown, os.fchown

    def attack(folder: Path) -> None:
        if folder.name.startswith("trimtab-check-") and folder.stat().st_uid == account.uid:
            for name in ("PG_VERSION", "postgresql.conf"):
                plant(folder / name, secret, account)

    def chown(path: Any, uid: int, gid: int, **more: Any) -> None:
        by_path(path, uid, gid, **more)
        attack(Path(path))

    def fchown(handle: int, uid: int, gid: int) -> None:
        by_handle(handle, uid, gid)
        attack(Path(os.readlink(f"/proc/self/fd/{handle}")))

    monkeypatch.setattr(os, "chown", chown)
    monkeypatch.setattr(os, "fchown", fchown)
    with pytest.raises(ApplyError):  # the program meets the attacker's links, as the attacker's own user
        check()


def test_a_servers_log_that_is_a_link_is_neither_emptied_nor_written(
    own: Path, secret: Path, account: Account, server: Server
) -> None:
    plant(own / "server.log", secret, account)
    process = Postmaster(server.bin_dir, own, account, own / "server.log")
    with pytest.raises(TargetError, match="log=.*cannot be written: a symbolic link of another user's"):
        process.start(1.0)
    assert tail(own / "server.log", 5) == ""
    assert not is_servers_log(own / "server.log", account)


def test_a_log_that_the_server_names_is_read_only_when_it_is_the_servers(
    secret: Path, own: Path, account: Account
) -> None:
    assert not is_servers_log(secret, account)
    give(own / "server.log", b"line", account)
    assert is_servers_log(own / "server.log", account)


def test_a_log_with_a_second_name_is_not_written(own: Path, secret: Path, account: Account) -> None:
    os.link(secret, own / "server.log")
    with pytest.raises(PermissionError, match="second name"):
        start_log(own / "server.log", account, most_bytes=1)


def test_a_new_log_belongs_to_the_server(own: Path, account: Account) -> None:
    os.close(start_log(own / "server.log", account))
    assert (own / "server.log").stat().st_uid == account.uid


def test_no_server_is_started_as_root(server: Server, state_dir: Path, own: Path) -> None:
    """Whoever owns the data directory's parent could put a folder of root's in its place."""
    os.chown(own, 0, 0)
    target = PostgresTarget.from_settings("own", server.table(data_dir=str(own)), state_dir=state_dir)
    assert target._reach.account is None
    with pytest.raises(TargetError, match="the server cannot be started by hand"):
        target._reach.start_with({})


def test_private_folders_are_not_made_through_links(own: Path, secret: Path, account: Account) -> None:
    roots = secret.parent
    plant(own / "run", roots, account)
    with pytest.raises(TargetError, match="does not belong to the server's user"):
        make_server_folders(own, [own / "run"], account)
    with pytest.raises(TargetError, match="a symbolic link of another user's"):
        make_server_folders(own, [own / "run" / "inner"], account)
    assert roots.stat().st_uid == 0


def test_the_embedded_servers_configuration_is_not_written_through_links(
    own: Path, secret: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own / "data.new").mkdir()
    plant(own / "data.new" / "postgresql.conf", secret, account)
    reach = EmbeddedReach("attacked", "18", folder=own)
    monkeypatch.setattr(reach, "_install", lambda *a: None)
    with pytest.raises(OSError, match="it is a symbolic link"):
        reach._make_data(own / "data.new", account)


def test_the_embedded_mysqls_option_file_replaces_a_link(
    own: Path, secret: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(own / "server.cnf", secret, account)
    reach = MysqlEmbedded("attacked", "mariadb", folder=own)
    program: Any = SimpleNamespace(data_maker=lambda scratch: ["true"])
    monkeypatch.setattr(reach, "_program", program)
    monkeypatch.setattr(reach, "_install", lambda *a: None)
    reach._make_data(own / "data.new", account)
    assert not (own / "server.cnf").is_symlink()


def test_a_redo_log_left_behind_is_not_removed_through_a_link(
    own: Path, secret: Path, account: Account, cache: Path
) -> None:
    victim = cache / "victim"
    victim.mkdir(exist_ok=True)
    for name in (LEFTOVER, "ib_logfile0", "ibdata1"):
        (victim / name).write_text("root's")
    plant(own / "data", victim, account)
    reach: Any = SimpleNamespace(data_dir=own / "data", pid=None)
    snapshot: Any = SimpleNamespace(reach={"redo_files": ["ib_logfile0"]})
    assert not remove_leftover(reach, snapshot)
    assert (victim / LEFTOVER).exists()
