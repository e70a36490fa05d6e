"""The MySQL driver's own tests, in Rust, and YCSB through the Python module, against a real MariaDB."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import require
from tests.servers.mariadb import MariaDb, private_mariadb
from trimtab._native import Load, Mysql, RunLog, Script, Scripts, Ycsb, YcsbRows

pytestmark = [pytest.mark.service, pytest.mark.slow]

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDb]:
    with private_mariadb() as server:
        yield server


def _driver(server: MariaDb) -> Mysql:
    return Mysql(
        host=server.socket, port=server.port, user=server.user, database=server.database, password=server.password
    )


def _at_least(load: Load, n_operations: int) -> RunLog:
    """Ends the load when so many operations have succeeded, however long a busy machine takes for them."""
    n_ok = 0
    while n_ok < n_operations and not load.is_done:
        frame = load.frame(1.0)
        n_ok += 0 if frame is None else frame.n_ok
    return load.stop()


@pytest.mark.full
def test_the_driver_against_mariadb(mariadb: MariaDb) -> None:
    require("cargo")
    # A password with a space would be two fields there.
    mariadb.run("CREATE USER plain@'%' IDENTIFIED BY 'horse'; GRANT ALL ON *.* TO plain@'%' WITH GRANT OPTION")
    mariadb.run(
        "CREATE USER plain@localhost IDENTIFIED BY 'horse'; GRANT ALL ON *.* TO plain@localhost WITH GRANT OPTION"
    )
    access = f"socket={mariadb.socket} port={mariadb.port} user=plain password=horse database={mariadb.database}"
    command = ["cargo", "test", "--quiet", "--workspace", "--test", "mysql", "--", "--nocapture"]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=os.environ | {"TRIMTAB_TEST_MYSQL": access},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout + done.stderr


def test_ycsb_loads_and_runs_on_mariadb(mariadb: MariaDb) -> None:
    fields = ", ".join(f"field{i} TEXT" for i in range(10))
    mariadb.run(f"CREATE TABLE test.usertable (ycsb_key VARCHAR(255) PRIMARY KEY, {fields})")
    rows = YcsbRows(dialect="mysql", table="usertable", records=500, users=2, batch=50)
    loading = Load(driver=_driver(mariadb), source=rows, users=2, duration_s=60.0, operation_timeout_s=30.0)
    while not loading.is_done:
        loading.frame(1.0)
    assert loading.stop().errors == []
    found = mariadb.run("SELECT count(*), min(length(field9)) FROM test.usertable").split()
    assert found == ["500", "100"]
    assert mariadb.run("SELECT count(*) FROM test.usertable WHERE ycsb_key = 'user6284781860667377211'").strip() == "1"
    mix = Ycsb(dialect="mysql", table="usertable", records=500, read=0.5, update=0.4, read_modify_write=0.1)
    load = Load(driver=_driver(mariadb), source=mix, users=4, duration_s=60.0, operation_timeout_s=30.0, seed=3)
    log = _at_least(load, 200)
    assert (log.errors, log.error_classes) == ([], {})
    assert set(log.labels) == {"READ", "UPDATE", "READ-MODIFY-WRITE"}


def test_own_sql_runs_on_mariadb(mariadb: MariaDb) -> None:
    mariadb.run("CREATE TABLE test.notes (id BIGINT, note VARCHAR(40))")
    parameters = [
        {"name": "id", "type": "serial", "start": 1, "step": 1, "each": False, "null_share": 0.0},
        {"name": "note", "type": "text", "low": 3, "high": 9, "alphabet": "xyz", "each": False, "null_share": 0.0},
    ]
    text = "INSERT INTO notes VALUES (:id, :note); SELECT count(*) FROM notes WHERE id = :id;"
    scripts = Scripts(
        [Script.own("note", 1.0, "note.sql", text, parameters=parameters, wrap="commit")], dialect="mysql", users=2
    )
    load = Load(driver=_driver(mariadb), source=scripts, users=2, duration_s=60.0, operation_timeout_s=30.0)
    log = _at_least(load, 20)
    assert (log.errors, log.error_classes) == ([], {})
    count, unique, shortest = mariadb.run(
        "SELECT count(*), count(DISTINCT id), min(length(note)) FROM test.notes"
    ).split()
    assert count == unique
    assert int(count) > 10
    assert int(shortest) >= 3


def test_operations_are_cut_off_on_a_server_that_has_no_connection_left(mariadb: MariaDb) -> None:
    """One connection of the generator says KILL for all users, and is there before the queries hang."""
    mariadb.run(
        "CREATE USER narrow@localhost IDENTIFIED BY 'gate' WITH MAX_USER_CONNECTIONS 4;"
        "GRANT SELECT ON test.* TO narrow@localhost"
    )
    driver = Mysql(host=mariadb.socket, port=mariadb.port, user="narrow", database="test", password="gate")
    # A lone SLEEP would answer that it was woken.
    hang = "SELECT SLEEP(60), 'x' FROM (SELECT 1 UNION SELECT 2) t;"
    scripts = Scripts([Script.own("hang", 1.0, "hang.sql", hang, parameters=[])], dialect="mysql", users=3)

    def cut_off() -> tuple[list[str], dict[str, int]]:
        load = Load(driver=driver, source=scripts, users=3, duration_s=60.0, operation_timeout_s=1.0)
        n_cut_off = 0
        while n_cut_off < 9:
            frame = load.frame(30.0)
            assert frame is not None
            n_cut_off += frame.n_timed_out
        log = load.stop()
        return log.errors, log.error_classes

    def all_have_gone() -> bool:
        # The server sees a little later that somebody has gone; queries that were left would hang for a minute.
        left, until = "SELECT count(*) FROM information_schema.processlist WHERE user = 'narrow'", time.monotonic() + 30
        while (n_left := mariadb.run(left).strip()) != "0" and time.monotonic() < until:
            time.sleep(0.1)
        return n_left == "0"

    for _ in range(6):  # on a busy machine KILL may take longer than the driver waits for it before it connects again
        before = _connections(mariadb)
        found = cut_off()
        n_connected = _connections(mariadb) - before
        assert all_have_gone()
        if not found[0] and n_connected < 10:
            break
    # Nobody had to connect again, and no query is left behind.
    assert found == ([], {})
    assert n_connected < 10


def test_mariadbs_ed25519_lets_in_who_knows_the_password(mariadb: MariaDb) -> None:
    mariadb.run(
        "INSTALL SONAME 'auth_ed25519';"
        "CREATE USER signed@localhost IDENTIFIED VIA ed25519 USING PASSWORD('correct horse battery staple, and more than 32')"
    )
    scripts = Scripts([Script.own("one", 1.0, "one.sql", "SELECT 1;", parameters=[])], dialect="mysql", users=1)

    def log(password: str) -> list[str]:
        driver = Mysql(host=mariadb.socket, port=mariadb.port, user="signed", database="", password=password)
        load = Load(driver=driver, source=scripts, users=1, duration_s=60.0, operation_timeout_s=30.0)
        assert load.frame(30.0) is not None
        return load.stop().errors

    assert log("correct horse battery staple, and more than 32") == []
    with pytest.raises(ConnectionError, match="Access denied"):
        log("wrong")


def _connections(server: MariaDb) -> int:
    return int(server.run("SHOW GLOBAL STATUS LIKE 'Connections'").split()[1])
