"""What a user meets at the command line when a workload, its scripts or its server are wrong: message, exit code, leftovers."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.service.conftest import Place
from tests.workload.conftest import Running, running
from tests.workload.runs import Leftovers, connect, execute

pytestmark = pytest.mark.service

STUDY = """
[study]
name = "bad"
objective = "{objective}"

[target.db]
kind = "postgresql"
memory = "1GiB"
url = "host=127.0.0.1 port={port} user=postgres dbname=postgres connect_timeout=5"
knobs = ["work_mem"]

[workload]
{workload}

[measure]
window = "2s"
window_max = "2s"
warmup_floor = "1s"
warmup_cap = "1s"
"""


@pytest.fixture(scope="module")
def mine() -> Iterator[Running]:
    with running() as server:
        execute(server.endpoint, "postgres", "CREATE DATABASE shop")
        execute(server.endpoint, "shop", "CREATE TABLE t (id int PRIMARY KEY, v int)")
        yield server


def write(place: Place, port: int, workload: str, *, objective: str = "throughput", **scripts: str) -> None:
    text = STUDY.format(port=port, workload=workload, objective=objective)
    (place.folder / "study.toml").write_text(text)
    for name, script in scripts.items():
        (place.folder / f"{name}.sql").write_text(script)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ('kind = "tpcds"', "no plug-in 'tpcds' in workloads"),
        ('kind = "ycsb"\nread = 0.5\nupdate = 0.4', "the shares of the operations sum to 0.9: read 0.5 + update 0.4"),
        (
            'kind = "ycsb"\nworkload = "A"\nload = { rate = 1e9 }',
            "rate=1e+09 requests per second is more than any machine",
        ),
        ('kind = "pgbench"\nscripts = ["nowhere.sql"]', "cannot read script='nowhere.sql': No such file or directory"),
        ('kind = "sql"\ndatabase = "shop"\nfiles = ["w.sql"]', "write to database=shop, and start_state is not set"),
        (
            'kind = "sql"\ndatabase = "shop"\nfiles = ["r.sql"]\nweights = { r = 0 }',
            "the weights of the scripts sum to 0",
        ),
    ],
)
def test_a_wrong_workload_is_told_before_the_server_is_asked(place: Place, workload: str, words: str) -> None:
    write(place, 1, workload, w="DELETE FROM t;", r="SELECT 1;")
    ran = place.run("bench", "study.toml")
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "hint: " in ran.err
    assert "Traceback" not in ran.err


SQL = 'kind = "sql"\ndatabase = "shop"\nfiles = ["q.sql"]\nstart_state = "none"\n'
PAUSED = f'{SQL}load = {{ users = 2, think = "5ms" }}'


@pytest.mark.parametrize(
    ("workload", "script", "code", "words"),
    [
        (SQL, "SELECT 1;\nSELECT * FORM t;", 4, "a statement of script='q.sql': syntax error at or near"),
        (SQL, "SELECT colour FROM t;", 4, "script='q.sql': column \"colour\" does not exist"),
        (SQL, "SELECT 1;\nSELECT v FROM t WHERE id = :id;", 2, "q.sql:2:28: :id has no generator"),
        (
            f'{SQL}parameters = {{ id = {{ type = "column", table = "t", column = "key" }} }}',
            "SELECT :id::int;",
            4,
            'cannot sample parameter=id table=t column=key: column "key" does not exist',
        ),
        (
            'kind = "pgbench"\nscripts = ["q.sql"]',
            "SELECT 1;\n\\set x random(1,",
            2,
            "q.sql:2:17: the expression ends too",
        ),
        ('kind = "ycsb"\nworkload = "C"\nrecords = 500\nload = { users = 45 }', "", 4, "users=45: "),
        (PAUSED, "SELCT 1;", 4, 'q: 42601 syntax error at or near "SELCT"'),
        (
            PAUSED,
            "SELECT 1 / (SELECT count(*) FROM t);",
            4,
            "ended as failed_load: error_rate=100.0 % for 3 s (statement ",
        ),
    ],
)
def test_what_the_server_does_not_take_ends_the_bench(
    place: Place, mine: Running, workload: str, script: str, code: int, words: str
) -> None:
    left = Leftovers(mine.endpoint)
    write(place, mine.endpoint.port, workload, q=script)
    ran = place.run("bench", "study.toml", "--runs", "1", "--json")
    assert words in ran.err
    assert (ran.code, ran.out) == (code, "")
    assert "Traceback" not in ran.err
    assert left.connections() == 0
    assert {name for name in left.databases() if name.endswith("_run")} == set()
    left.drop()


@pytest.mark.parametrize("command", ["tune", "bench"])
def test_a_percentile_that_the_server_does_not_count_is_refused_before_anything_is_changed(
    place: Place, mine: Running, command: str
) -> None:
    """PostgreSQL counts times, not their distribution: there is a mean and nothing else."""

    def settings() -> list[tuple[str, ...]]:
        with connect(mine.endpoint) as connection:
            return connection.execute("SELECT name, setting, pending_restart FROM pg_settings ORDER BY name").fetchall()

    before = settings()
    write(place, mine.endpoint.port, 'kind = "observe"', objective="throughput where latency_p99 <= 20")
    ran = place.run(command, "study.toml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "error: objective='throughput where latency_p99 <= 20 ms': this workload cannot measure latency_p99 on this server\n"
        "hint: it measures throughput and latency_mean there\n"
    )
    assert settings() == before
    assert place.run("history", "list", "--json").out.count('"name"') == 0


def test_an_overloaded_open_loop_has_no_latency(place: Place, mine: Running) -> None:
    load = f"{SQL}load = {{ users = 1, rate = 200, backlog = 10 }}"
    write(place, mine.endpoint.port, load, q="SELECT pg_sleep(0.02);", objective="latency_p99")
    ran = place.run("bench", "study.toml", "--runs", "1")
    assert (ran.code, ran.out) == (4, "")
    assert "ended as failed_load: overloaded: " in ran.err
    assert "latencies grow without bound" in ran.err


def test_a_generator_that_nobody_uses_is_told(place: Place, mine: Running) -> None:
    spare = f'{SQL}load = {{ users = 1 }}\nparameters = {{ spare = {{ type = "uuid" }} }}'
    write(place, mine.endpoint.port, spare, q="SELECT pg_sleep(0.01);")
    ran = place.run("bench", "study.toml", "--runs", "1")
    assert ran.code == 0, ran.err
    assert "no script uses the parameter spare" in ran.err


@pytest.mark.parametrize("load", ['{ users = 4, think = "5ms" }', "{ users = 4, rate = 100 }"])
def test_a_server_that_is_killed_ends_the_bench_without_a_score(place: Place, load: str) -> None:
    with running() as server:
        workload = f'kind = "ycsb"\nworkload = "A"\nrecords = 1000\noperation_timeout = "2s"\nload = {load}'
        write(place, server.endpoint.port, workload)
        process = place.start("bench", "study.toml", "--runs", "2", "--verbose", "--json")
        assert process.stderr is not None
        for line in process.stderr:
            if "second 0:" in line:
                break
        server.signal(signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    assert process.returncode in (3, 4), err
    assert out == ""
    assert "error: " in err
    assert "Traceback" not in err
