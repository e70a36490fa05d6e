"""YCSB on a real server: the records as published, every core workload, validation, and the start state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.workload.runs import Leftovers, counts, execute, load, quiet, row, to_the_end
from trimtab.errors import LoadError
from trimtab.measure import SecondLog
from trimtab.records import Endpoint, Objective, Status
from trimtab.trial import MeasurePlan, measure_load
from trimtab.trial.judge import judge
from trimtab.workload import ResettableWorkload
from trimtab.workload.ycsb import YcsbWorkload, rows
from trimtab.workload.ycsb.settings import CORE

pytestmark = pytest.mark.service

RECORDS = 2000
DATA = f"trimtab_ycsb_{RECORDS}"
KEYS = (
    "user6284781860667377211",
    "user8517097267634966620",
    "user1820151046732198393",
    "user4052466453699787802",
    "user3232700585171816769",
)
"""Of the records 0 to 4: FNV-1a as YCSB computes it."""


def ycsb(**settings: Any) -> YcsbWorkload:
    return YcsbWorkload.from_settings({"records": RECORDS, "load": {"users": 4, "think": "2ms"}} | settings)


def label_of(operation: str) -> str:
    """In figures operations are called as YCSB calls them."""
    return operation.upper().replace("_", "-")


@pytest.fixture(scope="module")
def prepared(server: Endpoint) -> Iterator[Endpoint]:
    """The server with the records; everything of YCSB's goes afterwards."""
    left = Leftovers(server)
    ycsb(workload="A").prepare(server, quiet)
    yield server
    left.drop()


def test_keys_are_the_published_ones(prepared: Endpoint) -> None:
    wanted = ", ".join(f"'{key}'" for key in KEYS)
    assert row(prepared, DATA, f"SELECT count(*) FROM usertable WHERE ycsb_key IN ({wanted})") == (5,)
    assert row(prepared, DATA, "SELECT count(*), count(DISTINCT ycsb_key) FROM usertable") == (RECORDS, RECORDS)
    assert row(prepared, DATA, "SELECT count(*) FROM pg_stats WHERE tablename = 'usertable'") == (11,)


def test_fields_have_their_number_and_length(prepared: Endpoint) -> None:
    lengths = ", ".join(f"min(octet_length(field{i})) = 100 AND max(octet_length(field{i})) = 100" for i in range(10))
    assert row(prepared, DATA, f"SELECT {lengths} FROM usertable") == (True,) * 10
    fields = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'usertable'::regclass AND attnum > 0"
    assert row(prepared, DATA, fields) == (11,)
    assert row(prepared, DATA, "SELECT count(DISTINCT field0) = count(*) FROM usertable") == (True,)


def test_records_of_another_shape(prepared: Endpoint) -> None:
    shape = {"fields": 3, "field_length": 40, "field_lengths": "uniform", "insert_order": "ordered", "zero_padding": 8}
    workload = ycsb(workload="C", records=500, batch=7, **shape)
    assert not workload.prepare(prepared, quiet).was_cached
    data = workload.database.data
    assert row(prepared, data, "SELECT min(ycsb_key), max(ycsb_key), count(*) FROM usertable") == (
        "user00000000",
        "user00000499",
        500,
    )
    found = row(prepared, data, "SELECT min(length(field2)) < 10, max(length(field2)) BETWEEN 35 AND 40 FROM usertable")
    assert found == (True, True)
    log = load(workload, prepared)
    assert not log.error_classes
    assert workload.prepare(prepared, quiet).was_cached


def test_data_that_are_not_complete_in_time_are_not_taken_for_all(
    prepared: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_LOAD_CAP_S", 0.1)
    workload = ycsb(workload="C", records=200_000, batch=1)
    with pytest.raises(LoadError, match=r"loading 200000 records into trimtab_ycsb_200000 did not end within 100ms"):
        workload.prepare(prepared, quiet)
    assert row(prepared, "postgres", "SELECT count(*) FROM pg_database WHERE datname = 'trimtab_ycsb_200000'") == (0,)


@pytest.mark.parametrize("name", sorted(CORE))
def test_core_workloads_run_without_errors_in_their_shares(prepared: Endpoint, name: str) -> None:
    workload = ycsb(workload=name, scan_length=20)
    log = load(workload, prepared)
    assert log.error_classes == {}, log.errors
    assert log.timed_out.sum() == 0
    done = counts(log)
    shares = {label_of(name): share for name, share in workload.settings.proportions.items()}
    assert set(done) == set(shares)
    total = sum(done.values())
    assert total > 50
    for label, share in shares.items():
        # Six standard deviations of a binomial draw: a right engine fails once in 500 million times.
        slack = 6 * (share * (1 - share) / total) ** 0.5
        assert abs(done[label] / total - share) <= slack, (label, done)


def test_updates_write_fields_and_keep_the_rows(prepared: Endpoint) -> None:
    workload = ycsb(update=1.0, write_all_fields=True)
    done = counts(load(workload, prepared))
    assert row(prepared, workload.database.name, "SELECT count(*) FROM usertable") == (RECORDS,)
    query = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'usertable'"
    execute(prepared, workload.database.name, "SELECT pg_stat_force_next_flush()")
    (updated,) = row(prepared, workload.database.name, query)
    assert int(str(updated)) >= done["UPDATE"]


def test_what_a_run_writes_is_gone_after_the_reset(prepared: Endpoint) -> None:
    workload = ycsb(read=0.2, insert=0.8)
    assert isinstance(workload, ResettableWorkload)
    done = counts(load(workload, prepared))
    name = workload.database.name
    assert name == f"{DATA}_run"
    (n,) = row(prepared, name, "SELECT count(*) FROM usertable")
    assert int(str(n)) >= RECORDS + done["INSERT"]
    assert row(prepared, DATA, "SELECT count(*) FROM usertable") == (RECORDS,)
    state = workload.reset(prepared, quiet)
    assert state is not None
    assert (state.method, state.note) == ("a fresh copy", f"{DATA} copied to {name}")
    assert state.duration_s > 0
    assert row(prepared, name, "SELECT count(*) FROM usertable") == (RECORDS,)
    left = Leftovers(prepared, set())
    workload.clean_up(prepared)
    assert name in left.before
    assert name not in Leftovers(prepared).before


def _judged(workload: YcsbWorkload, endpoint: Endpoint) -> tuple[Status, str]:
    plan = MeasurePlan(window_s=1.0, window_max_s=1.0, warmup_floor_s=1.0, warmup_cap_s=1.0)
    result = measure_load(workload, endpoint, plan, seed=1)
    return judge(result, plan, Objective.parse("throughput"))


@pytest.mark.parametrize(
    ("sabotage", "settings"),
    [
        ("DELETE FROM usertable", {"read": 1.0}),
        pytest.param("DELETE FROM usertable", {"update": 1.0}, marks=pytest.mark.full),
        pytest.param("UPDATE usertable SET field3 = 'short'", {"read": 1.0}, marks=pytest.mark.full),
        ("UPDATE usertable SET field3 = 'short'", {"scan": 1.0}),
        ("UPDATE usertable SET field3 = NULL", {"read": 1.0}),
    ],
)
def test_a_wrong_answer_is_found_and_is_no_score(prepared: Endpoint, sabotage: str, settings: dict[str, Any]) -> None:
    workload = ycsb(**settings, start_state="template")
    workload.reset(prepared, quiet)
    execute(prepared, workload.database.name, sabotage)
    log = to_the_end(workload.start(prepared, seed=1, duration_s=0.5))
    assert set(log.error_classes) == {"validation"}
    assert counts(log) == {}
    status, reason = _judged(workload, prepared)
    assert status is Status.FAILED_LOAD
    assert "answers of the server were wrong (validation " in reason
    assert f"first error: {label_of(next(iter(settings)))}: " in reason


def test_one_wrong_row_among_many_is_enough(prepared: Endpoint) -> None:
    workload = ycsb(read=1.0, distribution="uniform", start_state="template")
    workload.reset(prepared, quiet)
    execute(
        prepared,
        workload.database.name,
        "DELETE FROM usertable WHERE ctid IN (SELECT ctid FROM usertable ORDER BY ycsb_key LIMIT 200)",
    )
    log: SecondLog = to_the_end(workload.start(prepared, seed=1, duration_s=1.0))
    assert 0 < log.error_classes["validation"] < log.response.total
    status, reason = _judged(workload, prepared)
    assert status is Status.FAILED_LOAD
    assert "answers of the server were wrong" in reason


def test_without_validation_a_wrong_field_goes_unseen(prepared: Endpoint) -> None:
    workload = ycsb(read=1.0, validate=False, start_state="template")
    workload.reset(prepared, quiet)
    execute(prepared, workload.database.name, "UPDATE usertable SET field3 = 'short'")
    log = to_the_end(workload.start(prepared, seed=1, duration_s=0.5))
    assert log.error_classes == {}
    assert counts(log)["READ"] > 0
