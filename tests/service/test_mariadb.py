"""The commands on a real MariaDB: tune, rank, report, apply, rollback, recover, as on PostgreSQL."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import require
from tests.servers.mariadb import MariaDb, private_mariadb
from tests.service.conftest import Place

pytestmark = [pytest.mark.service, pytest.mark.slow]

STUDY = """
[study]
name = "maria"
budget = "{budget}"

[target.db]
kind = "mariadb"
{target}

[workload]
{workload}

[workload.load]
users = {users}

[search]
searcher = "lhs"

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
EMBEDDED = """embedded = "mariadb"
memory = "1GiB"
knobs = ["innodb_buffer_pool_size", "innodb_flush_neighbors", "thread_stack", "query_cache_type"]"""
SLEEPING = 'kind = "sql"\ndatabase = "mysql"\nfiles = ["sleep.sql"]\nread_only = true'
"""For tests that are not about a kind of workload; see tests.service.conftest.SLEEPING."""
SLEEP = "SELECT SLEEP(IF(@@GLOBAL.innodb_flush_neighbors = 1 AND @@GLOBAL.sort_buffer_size = 2097152, 0.1, 0.11));\n"
"""Slower with other values than found: see tests.service.conftest.SLEEP."""
YCSB = 'kind = "ycsb"\nworkload = "A"\nrecords = 1000'
OLTP = 'kind = "oltp"\nscript = "read_write"\ntable_size = 1000'


@pytest.fixture(autouse=True)
def _needs_mariadb() -> None:
    require("mariadb")


def write(place: Place, *, target: str = EMBEDDED, workload: str = SLEEPING, budget: str = "2 trials") -> None:
    users = 4 if workload == SLEEPING else 1
    (place.folder / "study.toml").write_text(STUDY.format(target=target, workload=workload, budget=budget, users=users))
    (place.folder / "sleep.sql").write_text(SLEEP)
    place.provide(target)


def include_file(place: Place) -> Path:
    return place.cache / "mysql" / "mariadb-db" / "conf.d" / "zz-trimtab.cnf"


def daemons(place: Place) -> list[int]:
    """Pids of every mariadbd over this place."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"mariadbd" in command and str(place.folder).encode() in command:
                found.append(int(entry.name))
    return found


ONLY_LONG = [pytest.param(text, id=name, marks=pytest.mark.full) for name, text in (("ycsb", YCSB), ("oltp", OLTP))]
"""Loads that keep a core busy. In the quick form tests/workload runs both on a MariaDB: test_mysql.py, test_oltp.py."""


@pytest.mark.parametrize("workload", [pytest.param(SLEEPING, id="sleep"), *ONLY_LONG])
def test_a_study_runs_to_its_end_and_leaves_the_server_as_it_was(place: Place, workload: str) -> None:
    write(place, workload=workload)
    assert place.run("doctor", "study.toml").code == 0
    data = place.json("tune", "study.toml")
    assert data["study"]["status"] in ("proven", "no_improvement")
    statuses = {trial["status"] for trial in data["trials"]}
    assert "ok" in statuses
    assert not include_file(place).exists()
    assert daemons(place) == []
    report = place.run("report", "maria")
    assert report.code == 0
    assert "Traceback" not in report.out + report.err


@pytest.mark.full  # tests/service/test_rank.py: on PostgreSQL
def test_knobs_advise_and_rank(place: Place) -> None:
    write(place)
    knobs = place.json("knobs", "study.toml")
    assert any(knob["name"] == "innodb_buffer_pool_size" for knob in knobs["knobs"])
    advised = place.run("advise", "study.toml")
    assert advised.out.startswith("[mysqld]\n")
    ranked = place.run("rank", "study.toml", "--design", "lhs", "--runs", "12", "--ranker", "lasso")
    assert ranked.code in (0, 1), ranked.err
    assert "innodb_buffer_pool_size" in ranked.out
    assert not include_file(place).exists()


@pytest.mark.full  # the crash points of tests/faults kill it, embedded
def test_a_killed_tuner_is_recovered(place: Place) -> None:
    write(place, budget="40 trials")
    process = place.start("tune", "study.toml")
    deadline = time.monotonic() + 120
    while not include_file(place).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert include_file(place).exists(), "no trial wrote the option file"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    recovered = place.run("recover")
    assert recovered.code == 0, recovered.err
    assert not include_file(place).exists()
    assert daemons(place) == []
    write(place, budget="1 trials")
    assert place.run("doctor", "study.toml").code == 0


@pytest.fixture
def somebody_elses() -> Iterator[MariaDb]:
    with private_mariadb() as server:
        yield server


def test_by_connection_only_dynamic_knobs_are_tuned_and_put_back(place: Place, somebody_elses: MariaDb) -> None:
    names = "('innodb_flush_neighbors', 'sort_buffer_size', 'eq_range_index_dive_limit')"
    query = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN {names}"
    before = somebody_elses.run(query)
    url = f"mysql://{somebody_elses.user}@localhost/test?socket={somebody_elses.socket}"
    knobs = '["innodb_flush_neighbors", "sort_buffer_size", "eq_range_index_dive_limit"]'
    write(place, target=f'url = "{url}"\nmemory = "1GiB"\nknobs = {knobs}')
    place.environment["MYSQL_PWD"] = somebody_elses.password
    doctor = place.run("doctor", "study.toml")
    assert doctor.code == 0, doctor.err
    assert "no include_file: changes are lost at the server's next restart" in doctor.out
    data = place.json("tune", "study.toml")
    assert data["study"]["status"] in ("proven", "no_improvement")
    assert somebody_elses.run(query) == before
    everything = "".join(path.read_text(errors="replace") for path in place.folder.rglob("*") if path.is_file())
    assert somebody_elses.password not in everything
    write(place, target=f'url = "{url}"\nknobs = ["thread_stack"]')
    locked = place.run("tune", "study.toml", "--again")
    assert locked.code == 2
    assert "needs a restart, and the study file gives no include_file and restart command" in locked.err


def test_a_wrong_password_is_told(place: Place, somebody_elses: MariaDb) -> None:
    url = f"mysql://{somebody_elses.user}:wrong-word@localhost/test?socket={somebody_elses.socket}"
    write(place, target=f'url = "{url}"')
    ran = place.run("doctor", "study.toml")
    assert ran.code == 3
    assert "the server refused user or password" in ran.err
    assert "wrong-word" not in ran.err + ran.out


@pytest.mark.full  # tests/faults/test_crash_points.py applies and takes back on a running one, by its files
def test_apply_stays_and_rollback_takes_it_back(place: Place) -> None:
    """On a history that holds a proven winner: proving one would take a real gain."""
    write(place)
    place.win("maria", thread_stack=262144, innodb_flush_neighbors=0)
    applied = place.run("apply", "maria", "--yes")
    assert applied.code == 0, applied.err
    text = include_file(place).read_text()
    assert "thread_stack = 262144\n" in text
    assert "innodb_flush_neighbors = 0\n" in text
    knobs = {knob["name"]: knob for knob in json.loads(place.run("knobs", "study.toml", "--json").out)["knobs"]}
    assert knobs["thread_stack"]["running"] == 262144
    rolled = place.run("rollback", "maria")
    assert rolled.code == 0, rolled.err
    assert not include_file(place).exists()
