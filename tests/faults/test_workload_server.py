"""W1, W3, W7, W8 on real servers: operations that hang or fail fast, equal configs, cold caches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.bench_modules import bench_modules
from tests.faults.invariants import check_invariants, take_picture
from tests.faults.place import Place
from trimtab.records import Role, Status, Trial

pytestmark = [pytest.mark.service, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
AS_FOUND = "current_setting('work_mem') = '4MB'"
"""True under the baseline and false under every candidate: the only knob is work_mem."""


def searched(trials: list[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.role in (Role.SEARCH, Role.ADVICE)]


def statement(place: Place, sql: str, *, budget: str = "2 trials", guard: str = "", window: str = "2s") -> None:
    """The study's only operation, and its only knob."""
    search = f'[search]\nsearcher = "random"\n\n[guard]\n{guard}\n'
    place.write(budget=budget, knobs=("work_mem",), window=window, search=search)
    (place.folder / "read.sql").write_text(sql + ";\n")


def test_W1_operations_that_hang_end_with_the_trial(place_18: Place) -> None:
    statement(place_18, f"SELECT pg_sleep(CASE WHEN {AS_FOUND} THEN 0.05 ELSE 3600 END)", budget="1 trials")
    before = take_picture(place_18.server)
    ran = place_18.run("tune", "study.toml")
    check_invariants(place_18, before, ran=ran, code=1)
    trials = searched(place_18.trials())
    assert trials
    assert {trial.status for trial in trials} == {Status.TIMED_OUT}
    assert trials[0].reason.startswith("no operation succeeded in 2s")
    assert place_18.server.pid is None


def test_W3_a_config_that_fails_fast_is_no_winner(place_18: Place) -> None:
    fails = "(1 / (random() * 0)::int)::text"
    statement(place_18, f"SELECT CASE WHEN {AS_FOUND} THEN pg_sleep(0.05)::text ELSE {fails} END", budget="1 trials")
    before = take_picture(place_18.server)
    ran = place_18.run("tune", "study.toml")
    check_invariants(place_18, before, ran=ran, code=1)
    trials = searched(place_18.trials())
    assert trials
    assert {trial.status for trial in trials} == {Status.FAILED_LOAD}
    assert all("error_rate=100.0 %" in trial.reason and "division by zero" in trial.reason for trial in trials)
    assert all(trial.measurement is None and trial.loss is None for trial in trials)


@pytest.fixture(scope="module")
def proofs() -> Iterator[ModuleType]:
    with bench_modules(ROOT / "benchmarks" / "acceptance", "proofs") as modules:
        yield modules["proofs"]


def short_proofs(place: Place, monkeypatch: pytest.MonkeyPatch, *, knobs: tuple[str, ...]) -> None:
    """A study whose proofs take some seconds, for this very process."""
    for name in ("TRIMTAB_CACHE", "TRIMTAB_STATE", "TMPDIR"):
        monkeypatch.setenv(name, place.environment[name])
    place.write(knobs=knobs, window="1s", search='[search]\nsearcher = "random"\nround_values = false\n')
    (place.folder / "read.sql").write_text("SELECT count(*) FROM witness;\n")
    text = place.study.read_text().replace("min_pairs = 2\nmax_pairs = 2", "min_pairs = 3\nmax_pairs = 5")
    place.study.write_text(text)


@pytest.mark.full  # one proof would show nothing; the quick form has hundreds of simulated ones
def test_W7_a_config_equal_to_the_baseline_is_not_accepted(
    place_18: Place, monkeypatch: pytest.MonkeyPatch, proofs: ModuleType
) -> None:
    n = 40
    short_proofs(place_18, monkeypatch, knobs=("work_mem",))
    n_accepted = sum(proofs.prove_equal(place_18.study, place_18.state).is_better for _ in range(n))
    print(f"W7: {n} proofs of equal configs on a real server, {n_accepted} accepted")
    assert n_accepted <= 0.05 * n


@pytest.mark.full  # test_workload_simulated.py: a cold cache is warmed
def test_W8_a_cold_cache_after_a_restart_is_no_difference(
    place_18: Place, monkeypatch: pytest.MonkeyPatch, proofs: ModuleType
) -> None:
    """The candidate is the baseline but for one block of shared buffers: every one of its runs begins after a restart."""
    short_proofs(place_18, monkeypatch, knobs=("shared_buffers",))
    # A short sleep leaves most of the processor to others, and the read still shows whether the cache is cold.
    (place_18.folder / "read.sql").write_text("SELECT count(*), (SELECT pg_sleep(0.005)) FROM witness;\n")
    with place_18.server.up():
        (row,) = place_18.server.query("SELECT setting::int FROM pg_settings WHERE name = 'shared_buffers'")
    proof = proofs.prove_changes(place_18.study, place_18.state, {"shared_buffers": row[0] + 1})
    assert not proof.failure
    assert not proof.is_better


def test_a_slow_config_is_stopped_early_and_restored(place_18: Place) -> None:
    """Latency guard on a real server: the baseline answers in 400 ms, every candidate in 1.4 s. On a busy machine the load may
    be late by a tenth of an operation, or is no measurement, and the slowest operation of a baseline may take half as long as a
    candidate's: the guard's limit is twice that."""
    statement(
        place_18, f"SELECT pg_sleep(CASE WHEN {AS_FOUND} THEN 0.4 ELSE 1.4 END)", window="8s", budget="1 trials",
        guard="throughput_factor = 0",
    )  # fmt: skip
    text = place_18.study.read_text().replace('name = "faults"', 'name = "faults"\nobjective = "latency_mean"')
    # At a fixed rate the throughput of a slow config tells nothing, and one that its users keep up with easily overloads
    # nothing: the guard alone can end its run.
    place_18.study.write_text(text.replace("users = 4", 'users = 16\nrate = 6\narrivals = "uniform"'))
    before = take_picture(place_18.server)
    ran = place_18.run("tune", "study.toml")
    check_invariants(place_18, before, ran=ran, code=1)
    (trial,) = searched(place_18.trials())
    assert trial.status is Status.STOPPED_EARLY
    shown = re.match(r"stopped: p99=([\d,.]+) ms", trial.reason)
    assert shown is not None, trial.reason
    assert float(shown[1].replace(",", "")) >= 1400, "every statement of a candidate sleeps that long"
    assert "times the baseline's (limit 2 times)" in trial.reason
    assert trial.measurement is not None
    assert trial.measurement.duration_s < 8
    assert trial.excess > 0


def test_kill_switch_restores_and_stops(own_place_18: Place) -> None:
    place = own_place_18
    before = take_picture(place.server)
    child = place.start("tune", "study.toml")
    place.wait_step(child, "apply", trial=3)  # and not the last: the switch is seen before the next one
    (place.state / "stop").touch()
    ran = place.end(child, timeout_s=30)
    assert ran.code == 130
    assert "stopped by the kill switch: file=" in ran.out + ran.err
    again = place.run("tune", "study.toml")
    assert again.code == 2
    assert again.cause.startswith("the kill switch is on: file=")
    (place.state / "stop").unlink()
    check_invariants(place, before, ran=ran, code=130)
    done = place.run("tune", "study.toml")
    assert done.code in (0, 1)
    assert [trial.number for trial in place.trials()] == list(range(len(place.trials())))
