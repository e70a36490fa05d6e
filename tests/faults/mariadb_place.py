"""A place whose server is MariaDB, and the seven checks on it; see `place` and `invariants`."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from tests.faults import invariants, mariadb_control
from tests.faults.invariants import Picture
from tests.faults.place import Place, Ran
from tests.fetch_servers import MYSQL_8_0, require_server
from tests.servers import copy_folder, template
from trimtab.records import Endpoint
from trimtab.systems.account import Account, server_account
from trimtab.systems.mysql import MysqlTarget
from trimtab.systems.mysql.program import data_label
from trimtab.systems.mysql.session import Session, connect

_STUDY = """
[study]
name = "{name}"
budget = "{budget}"

[target.db]
kind = "mariadb"
memory = "1GiB"
knobs = {knobs}
{target}

[workload]
kind = "sql"
database = "test"
files = ["read.sql"]
read_only = true

[workload.load]
users = 2

[search]
searcher = "random"

[measure]
window = "1s"
window_max = "1s"
warmup_floor = "0s"
warmup_cap = "0s"

[proof]
min_pairs = 2
max_pairs = 2
advice = false
ablate = false
"""
_READ = "SELECT count(*), sum(length(body)), sleep(IF(@@sort_buffer_size = 2097152, 0.1, 0.11)) FROM witness WHERE id % 7 = 3;\n"
"""What is tried seems a tenth slower than what was found; see `tests.faults.place.READ`."""
_ROWS = "WITH RECURSIVE numbers AS (SELECT 1 AS n UNION SELECT n + 1 FROM numbers WHERE n < 500) SELECT n, MD5(n) FROM numbers"
_OPTIONS = """[mysqld]
datadir = {folder}/data
socket = {folder}/run/server.sock
pid-file = {folder}/server.pid
log-error = {folder}/server.log
tmpdir = {folder}/tmp
skip-networking
innodb-buffer-pool-size = 64M
!includedir {folder}/conf.d
"""
KNOBS = ("sort_buffer_size", "innodb_flush_neighbors", "thread_stack")
"""Two that SET GLOBAL changes and one that needs a restart."""

USER = "tester"
_COMES_AND_GOES = ("ibtmp1", "ib_buffer_pool", "tc.log", "multi-master.info", "ddl_recovery.log", "ddl_recovery-backup.log",
                   "mysql_upgrade_info")  # fmt: skip
OF_THE_MOMENT = ("gtid", "timestamp", "last_gtid", "pseudo_", "rand_", "innodb_buffer_pool_load", "identity")


@dataclass(frozen=True, kw_only=True)
class Product:
    """A server program of the MySQL family.

    Attributes:
        kind: of the target.
        embedded: what a study file names to have it run by Trimtab.
        program: that a private server of the tests is started from.
    """

    kind: str
    embedded: str
    program: str

    @property
    def label(self) -> str:
        """Of the folder of an embedded server."""
        return data_label(self.embedded)


MARIADB = Product(kind="mariadb", embedded="mariadb", program=mariadb_control.PROGRAM)


def mysql_80() -> Product:
    """MySQL 8.0; ends the test where it was not fetched."""
    program = str(require_server(MYSQL_8_0))
    return Product(kind="mysql", embedded=program, program=program)


@dataclass
class MariaServer:
    """A server with the witness table; started by Trimtab (embedded), or running as somebody else's."""

    folder: Path
    account: Account
    is_embedded: bool
    password: str = ""
    version: str = "10.11"

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def socket(self) -> Path:
        return self.folder / "run" / "server.sock"

    @property
    def include_file(self) -> Path:
        return self.folder / "conf.d" / "zz-trimtab.cnf"

    @property
    def pid(self) -> int | None:
        return mariadb_control.pid_of(self.folder)

    @property
    def restart_command(self) -> str:
        return shlex.join([*self._control, "restart"])

    @property
    def _control(self) -> list[str]:
        return [sys.executable, "-S", mariadb_control.__file__, str(self.folder), str(self.account.uid)]

    def control(self, verb: str) -> None:
        subprocess.run([*self._control, verb], check=True, capture_output=True, timeout=90)

    def admin(self) -> Session:
        """As root, in the database of the witness."""
        session = connect(
            Endpoint(protocol="mysql", host=str(self.socket), port=0, user="root", password="", database="test")
        )
        session.rows("USE test")
        return session

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with self.admin() as session:
            return session.rows(statement)

    @contextmanager
    def up(self) -> Iterator[None]:
        """Running for the look, and down again when it was down."""
        was_up = self.pid is not None
        if not was_up:
            self.control("start")
        yield
        if not was_up:
            self.control("stop")

    def destroy(self) -> None:
        pid = self.pid
        if pid is not None:
            os.kill(pid, 9)
            while self.pid is not None:
                time.sleep(0.01)


class MariaPlace(Place):
    """A place with a MariaDB."""

    server: MariaServer  # type: ignore[assignment]

    def write(  # type: ignore[override]
        self, *, name: str = "faults", budget: str = "2 trials", knobs: tuple[str, ...] | str = KNOBS, target: str = ""
    ) -> None:
        names = json.dumps(knobs if isinstance(knobs, str) else list(knobs))
        server = self.server
        own = (
            f'url = "mysql://{USER}@localhost/test?socket={server.socket}"\n'
            f'include_file = "{server.include_file}"\nrestart = "{server.restart_command}"'
        )
        way = 'embedded = "mariadb"' if server.is_embedded else own
        self.study.write_text(_STUDY.format(name=name, budget=budget, knobs=names, target=f"{way}\n{target}"))
        (self.folder / "read.sql").write_text(_READ)
        self.environment["MYSQL_PWD"] = self.canary


def make_template(product: Product = MARIADB) -> Path:
    """The folder of an embedded server with the witness table, made by Trimtab once and copied for every test."""
    return template(f"{product.kind}-witness", partial(_make, product)) / "mysql" / f"{product.label}-db"


def _make(product: Product, cache: Path) -> None:
    with mock.patch.dict(os.environ, {"TRIMTAB_CACHE": str(cache)}):
        table = {"kind": product.kind, "embedded": product.embedded}
        target = MysqlTarget.from_settings("db", table, state_dir=cache / "state")
        target.open()
        with target._reach.connect() as session:
            session.rows("CREATE DATABASE test")
            session.rows("USE test")
            session.rows("CREATE TABLE test.witness (id INT PRIMARY KEY, body VARCHAR(100)) ENGINE=InnoDB")
            session.rows("CREATE TABLE test.sink (n INT) ENGINE=InnoDB")
            session.rows("INSERT INTO test.witness " + _ROWS)
        target._reach.restart()  # in order, so that the copies need no crash recovery
        target._reach._server.stop(immediate=False)  # type: ignore[attr-defined]
        target.close()


def copy_server(
    source: Path, folder: Path, password: str, *, is_embedded: bool, product: Product = MARIADB
) -> MariaServer:
    """A server of the test's own from the template; an embedded one is down, another one runs."""
    account = server_account()
    copy_folder(source, folder, account)
    server = MariaServer(folder, account, is_embedded, password)
    (folder / "program").write_text(product.program)
    if not is_embedded:
        (folder / "server.cnf").write_text(_OPTIONS.format(folder=folder))
        server.control("start")
        with server.admin() as session:
            session.rows("CREATE USER tester@localhost IDENTIFIED BY %s", [password])
            session.rows("GRANT ALL ON *.* TO tester@localhost")
    return server


def take_picture(server: MariaServer) -> Picture:
    """The server as it is (started for the look and stopped again when it was down)."""
    files = {}
    for path in sorted([server.folder / "server.cnf", *(server.folder / "conf.d").iterdir()]):
        status = path.lstat()
        files[path.name] = (path.read_bytes(), stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
    with server.up():
        rows = server.query("SHOW GLOBAL VARIABLES")
        settings = {str(n): str(v) for n, v in rows if not str(n).startswith(OF_THE_MOMENT)}
        witness = {int(row[0]): str(row[1]) for row in server.query("SELECT id, body FROM test.witness")}
    names = frozenset(path.name for path in server.data_dir.iterdir())
    names -= {name for name in names if name in _COMES_AND_GOES or name.startswith("aria_log")}
    return Picture(files, settings, names, witness)


def check_invariants(
    place: MariaPlace,
    before: Picture,
    *,
    ran: Ran | None = None,
    code: int | tuple[int, ...] | None = None,
    cause: str = "",
    recovers: bool = False,
    committed: Mapping[int, str] | None = None,
) -> None:
    """The seven of `invariants.check_invariants`, asked of a MariaDB."""
    if recovers:
        recovered = place.run("recover")
        assert recovered.code == 0, f"(iv) recover: {recovered.err}"
    left = invariants.orphans_of(place)
    was_running = place.server.pid is not None
    now = take_picture(place.server)
    invariants.check_unmixed(now, before)
    for trial in place.trials():
        if trial.status.is_measured:
            assert dict(trial.effective) == {n: trial.config[n] for n in trial.effective}, f"(ii) trial {trial.number}"
    invariants.check_committed(now, {**before.witness, **(committed or {})})
    invariants.check_resumable(place)
    if ran is not None:
        invariants.check_exit(ran, code, cause)
    assert left == [], f"(vi) orphans: {left}"
    assert not (place.server.is_embedded and was_running), "(vi) the embedded server was left running"
    _check_no_remains(place, before, now)
    invariants.check_no_secret(place)


def _check_no_remains(place: MariaPlace, before: Picture, now: Picture) -> None:
    """(vi): no lock or temporary file is left."""
    if not place.server.is_embedded:
        assert place.server.query("SELECT IS_USED_LOCK('trimtab tuner')") == [(None,)], "(vi) the server's lock is held"
    assert list((place.folder / "tmp").iterdir()) == [], "(vi) temporary files"
    assert now.names <= before.names, f"(vi) new in the data directory: {sorted(now.names - before.names)}"
