"""Studies of the engine's workloads from end to end: YCSB A on an embedded server, a pgbench script on Debian's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fakes import Silent
from tests.service.conftest import Debian, Place, Ran, servers_under
from trimtab.records import Role
from trimtab.study import load_study_file, tune

pytestmark = [pytest.mark.service, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
STUDY = """
[study]
name = "e2e"
objective = "{objective}"
budget = "3 trials"

[target.db]
kind = "postgresql"
memory = "1GiB"
{target}

[workload]
{workload}

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
JUDGED = (0, 1)
"""A better config was proven, or none was found: what it is depends on the machine."""

EMBEDDED = 'embedded = "18"\nknobs = ["work_mem", "random_page_cost"]'
YCSB_A = 'kind = "ycsb"\nworkload = "A"\nrecords = 1000\nload = { users = 1 }'
SCRIPT = 'kind = "pgbench"\nscripts = ["transfer.sql@9", "history.sql"]\nload = { users = 1 }'


def write(place: Place, target: str, workload: str, objective: str = "throughput") -> None:
    text = STUDY.format(target=target, workload=workload, objective=objective)
    (place.folder / "study.toml").write_text(text)
    place.provide(target)
    for name in ("transfer.sql", "history.sql"):
        # Most of its time a transaction sleeps: not the load counts here, and the other tests get the processor.
        (place.folder / name).write_text((EXAMPLES / name).read_text() + "SELECT pg_sleep(0.01);\n")


def databases(debian: Debian) -> set[str]:
    """Ours on Debian's server; nobody may be connected to them any more."""
    with psycopg.connect(f"{debian.dsn} dbname=postgres") as connection:
        names = connection.execute("SELECT datname::text COLLATE \"C\" FROM pg_database WHERE datname LIKE 'trimtab%'")
        found = {name.decode() if isinstance(name, bytes) else name for (name,) in names}
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname LIKE 'trimtab%' AND backend_type = 'client backend'"
        )
        assert connection.execute(query).fetchone() == (0,)
    return found


def _check_ycsb_a(ran: Ran) -> dict[str, Any]:
    """A study of YCSB A that ran to its end; what it printed."""
    assert ran.code in JUDGED, ran.err
    data: dict[str, Any] = json.loads(ran.out)
    assert data["study"]["status"] in ("proven", "no_improvement")
    assert "the same data: a fresh copy, " in ran.err
    assert "trimtab_ycsb_1000 copied to trimtab_ycsb_1000_run" in ran.err
    roles = [trial["role"] for trial in data["trials"]]
    assert roles[:3] == ["baseline"] * 3
    assert sum(role in ("play", "advice", "search") for role in roles) >= 3
    assert all(trial["reason"] for trial in data["trials"] if trial["status"] not in ("ok", "stopped_early"))
    baseline = data["trials"][0]
    assert baseline["cost_s"]["reset"] > 0
    assert set(baseline["measurement"]["by_label"]) == {"READ", "UPDATE"}
    return data


@pytest.mark.full  # in the quick form the study that is killed and resumes runs it, on Debian's server
def test_ycsb_a_is_tuned_and_reported(place: Place) -> None:
    write(place, EMBEDDED, YCSB_A)
    ran = place.run("tune", "study.toml", "--json")
    _check_ycsb_a(ran)
    assert "still on the server" not in ran.err
    report = place.run("report", "e2e")
    assert report.code == 0
    assert report.out.startswith("Study e2e")
    assert servers_under(place.folder) == []


@pytest.mark.full  # the quick ones: tests/study/test_generator_grows.py, and the threads in tests/workload/test_remote.py
def test_ycsb_c_that_needs_more_than_one_generator_thread_is_tuned(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How busy one thread is depends on the machine: here any is too busy at the baseline.
    monkeypatch.setattr("trimtab.trial.generator._HALF", 0.0)
    monkeypatch.setenv("TRIMTAB_CACHE", str(place.cache))
    write(place, EMBEDDED, 'kind = "ycsb"\nworkload = "C"\nrecords = 2000\nload = { users = 16 }')
    listener = Silent()
    record, trials = tune(load_study_file(place.folder / "study.toml"), place.folder / "state", listener)
    assert record.status in ("proven", "no_improvement")
    measured = [trial.measurement for trial in trials if trial.measurement is not None]
    n_threads = min(16, len(os.sched_getaffinity(0)))
    assert {m.n_threads for m in measured} == {n_threads}
    assert {trial.role for trial in trials} > {Role.BASELINE}
    told = [text for text in listener.phases if text.startswith("the load generator was busy")]
    assert (len(told) > 0) == (n_threads > 1)
    assert servers_under(place.folder) == []


# In the quick form tests/workload/test_pgbench_run.py runs scripts, and test_end_to_end.py tunes Debian's server.
@pytest.mark.full
def test_a_pgbench_script_is_tuned_on_debians_postgresql(place: Place, debian: Debian) -> None:
    write(place, debian.target, SCRIPT)
    found = debian.auto_conf()
    data = place.json("tune", "study.toml")
    assert data["study"]["status"] in ("proven", "no_improvement")
    assert set(data["trials"][0]["measurement"]["by_label"]) <= {"transfer", "history"}
    assert debian.auto_conf() == found
    assert databases(debian) == {"trimtab_pgbench_1"}
    report = place.run("report", "e2e")
    assert report.code == 0
    assert report.out.startswith("Study e2e")


def _wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if text in line:
            return
    pytest.fail(f"{text!r} did not appear in: {''.join(seen)}")


def test_a_killed_study_resumes_although_its_copy_lies_around(place: Place, debian: Debian) -> None:
    write(place, debian.target, YCSB_A)
    found = debian.auto_conf()
    with (debian.data_dir / "postgresql.conf").open("a") as conf:
        # A commit sleeps. With users that think instead, a busy machine would make the run invalid: they have to come in time.
        conf.write("commit_delay = 10000\ncommit_siblings = 0\n")
    debian.server.control("reload")
    process = place.start("tune", "study.toml")
    _wait_for(process, "trial 3")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    with psycopg.connect(f"{debian.dsn} dbname=postgres") as connection:
        left = connection.execute("SELECT count(*) FROM pg_database WHERE datname = 'trimtab_ycsb_1000_run'")
        assert left.fetchone() == (1,), "the kill came after the copy was dropped"
    stored = len(place.json("report", "e2e")["trials"])
    data = _check_ycsb_a(place.run("tune", "study.toml", "--json"))
    assert [trial["number"] for trial in data["trials"]] == list(range(len(data["trials"])))
    assert len(data["trials"]) > stored >= 3
    assert debian.auto_conf() == found
    assert databases(debian) == {"trimtab_ycsb_1000"}


def _bench(place: Place, workload: str, *options: str) -> Ran:
    """A bench whose run was valid: one that a busy machine spoils says so, and is made again."""
    write(place, EMBEDDED, workload)
    for _ in range(6):
        ran = place.run("bench", "study.toml", "--runs", "1", "--verbose", *options)
        assert "second 0: " in ran.err, ran.err
        assert ", late by " in ran.err
        if not (ran.code == 4 and "the load generator was late itself" in ran.err):
            break
    assert ran.code == 0, ran.err
    return ran


def test_bench_of_an_open_loop_shows_how_late_it_was(place: Place) -> None:
    workload = 'kind = "ycsb"\nworkload = "B"\nrecords = 1000\nload = { users = 4, rate = 200 }'
    ran = _bench(place, workload)
    (own,) = (line for line in ran.out.splitlines() if line.strip().startswith("generator: "))
    assert "late by " in own
    assert "waiting for a free connection " in own
    # The same load from two processes.
    apart = workload.replace("users = 4, ", 'users = 4, from = ["local", "local"], ')
    data = json.loads(_bench(place, apart, "--json").out)
    _complete(data)
    assert [text.partition(" threads")[0] for text in data["runs"][0]["generator"]["from"]] == ["local: 1 of 2"] * 2


def test_bench_of_a_flooded_open_loop_shows_what_was_shed(place: Place) -> None:
    (place.folder / "slow.sql").write_text("SELECT pg_sleep(0.02);")
    load = "load = { users = 1, rate = 200, backlog = 10 }"
    ran = _bench(place, f'kind = "pgbench"\nscripts = ["slow.sql"]\ndatabase = "postgres"\n{load}')
    assert " dropped, " in ran.err
    assert " requests dropped, " in ran.out
    assert "overloaded: " in ran.out


def _complete(data: dict[str, Any]) -> None:
    """Every key of docs/reference/bench.md."""
    assert {"schema_version", "config", "metric", "unit", "value", "noise", "runs"} <= set(data)
    (run,) = data["runs"]
    documented = {
        "throughput", "latency_mean_ms", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "intervals",
        "service_p50_ms", "service_p95_ms", "service_p99_ms", "queue_p99_ms", "n_ok", "n_error", "n_timed_out", "n_shed",
        "n_retries", "error_classes", "errors", "is_open", "users", "offered_per_s", "overload", "duration_s", "warmup_s",
        "is_steady", "series_per_s", "by_label", "client_cpu_share", "generator", "cost_s",
    }  # fmt: skip
    assert documented <= set(run)
    assert {
        "n_threads", "lateness_p99_ms", "wakeup_p99_ms", "wait_share", "waited", "priority", "from", "steal_share",
        "memory_bytes", "limited",
    } <= set(run["generator"])  # fmt: skip
    assert (run["is_open"], run["users"], run["n_error"], run["n_shed"]) == (True, 4, 0, 0)
    # Poisson arrivals of one second or two: far from this only when the rate is not kept at all.
    assert 100 < run["offered_per_s"] < 300
    assert run["generator"]["memory_bytes"] > 0
