"""`trimtab bench` on the fakes: what it prints, what it refuses, and its exit code."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.cli.conftest import Run
from tests.fakes import FakeStudy
from trimtab.testing.fake_workload import FakeRatedWorkload


def test_bench_measures_and_leaves_the_target_as_found(run: Run, study: FakeStudy) -> None:
    found = dict(study.target.values)
    ran = run("bench", "study.toml", "--set", "cache=256MB", "--runs", "3")
    assert ran.code == 0
    assert ran.out.startswith("throughput: ")
    assert "noise of this machine:" in ran.out
    assert dict(study.target.values) == found
    data = json.loads(run("bench", "study.toml", "--json", "--runs", "2").out)
    assert len(data["runs"]) == 2


def test_the_history_shows_a_bench_as_what_it_is(run: Run, study: FakeStudy) -> None:
    assert run("bench", "study.toml", "--set", "cache=256MB", "--runs", "2").code == 0
    (listed,) = json.loads(run("history", "query", "--status", "benched", "--json").out)["studies"]
    assert "fake.bench  benched  " in run("history", "list").out
    assert (listed["name"], listed["status"], listed["n_trials"]) == ("fake.bench", "benched", 2)
    assert "bench" in run("history", "show", "fake.bench").out
    assert "Your config with cache = 256MB: throughput " in run("report", "fake.bench").out


def test_bench_shows_labels_and_speaks_every_second(run: Run, study: FakeStudy) -> None:
    study.workload = FakeRatedWorkload(lambda: 1000.0)
    ran = run("bench", "study.toml", "--runs", "1", "-v")
    assert ran.code == 0
    assert "update" in ran.out
    assert ran.err.count("/s done, goodput") == 7
    assert "every run starts from the same data: made afresh, 250ms before each run (a fake)" in ran.err


def test_bench_of_a_generator_at_its_end_is_invalid(run: Run, study: FakeStudy) -> None:
    study.workload = FakeRatedWorkload(lambda: 1000.0, log_changes={"n_threads": 1, "client_cpu_s": np.full(7, 0.99)})
    ran = run("bench", "study.toml", "--runs", "1")
    assert (ran.code, ran.out) == (4, "")
    assert ran.err.endswith(
        "error: run 1 ended as infrastructure: invalid run: the load generator used 99 % of its core (limit 80 %)\n"
        "hint: this run says nothing about the server: lower the load, or give the generator threads or free cores\n"
    )


def test_bench_of_a_wrong_answer_is_invalid(run: Run, study: FakeStudy) -> None:
    study.workload = FakeRatedWorkload(lambda: 1000.0, error_share=0.002, error_class="validation")
    ran = run("bench", "study.toml", "--runs", "1")
    assert ran.code == 4
    assert "error: run 1 ended as failed_load: 14 answers of the server were wrong (validation 14)" in ran.err
    assert "hint: make the workload run on the server as it is, or lower its rate" in ran.err


@pytest.mark.slow
def test_bench_finds_a_rate(run: Run, study: FakeStudy) -> None:
    study.workload = FakeRatedWorkload(lambda: 1000.0, noise_sd=0.0)
    ran = run("bench", "study.toml", "--find-rate", "p99 <= 20ms")
    assert ran.code == 0
    assert ran.out == "latency_p99 <= 20 ms: kept up to 759/s; at 785/s it is not kept\n"
    assert "900/s: not kept (latency_p99=45.51 ms), 900/s done" in ran.err
    data = json.loads(run("bench", "study.toml", "--find-rate", "p99 <= 20ms", "--json").out)
    assert data["find_rate"]["rate_per_s"] == 759
    assert data["find_rate"]["limit"] == "server"
    assert data["find_rate"]["probes"][0]["measurement"]["latency_p99_ms"] < 20


@pytest.mark.parametrize(
    ("slo", "code", "message"),
    [
        ("soon", 2, "error: cannot read the SLO 'soon'\nhint: write it as in: p99 <= 20ms"),
        ("p99 <= 20ms", 2, "error: workload kind='fake' cannot run at a given rate (open loop)\nhint: its operations"),
    ],
)
def test_bench_refuses_a_bad_slo(run: Run, study: FakeStudy, slo: str, code: int, message: str) -> None:
    ran = run("bench", "study.toml", "--find-rate", slo)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert study.workload.seeds == []


@pytest.mark.parametrize(
    ("setting", "message", "hint"),
    [
        ("cache", "cannot read setting 'cache': write NAME=VALUE", "see `trimtab bench --help`"),
        ("cashe=1", "unknown knob 'cashe'", "see `trimtab knobs`"),
        (
            "sync=off",
            "knob 'sync' may not be set here: safety class durability is locked",
            "`trimtab knobs` for what may change",
        ),
        ("cache=9000MB", "cache=9000", "legal: 16MB to 4GB"),
        ("cache=much", "cache='much' is not a value", ""),
        ("method=magic", "method='magic'", "sync"),
    ],
)
def test_bench_refuses_bad_settings(run: Run, study: FakeStudy, setting: str, message: str, hint: str) -> None:
    ran = run("bench", "study.toml", "--set", setting)
    assert ran.code == 2
    assert message in ran.err
    assert hint in ran.err
    assert study.target.counts["apply"] == 0
