"""What hypothesis draws: trials and studies with everything that their types allow."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import strategies as st

from trimtab.history import Event, StudyCopy, StudyRecord
from trimtab.measure import Interval, LabelStats, Measurement
from trimtab.records import Context, Fault, GainInterval, KeptRanks, Machine, Role, Status, Trial, Verdict
from trimtab.space import Config

# Everything a Python string can hold, NUL and lone surrogates too: a server's log may be in any encoding.
TEXT = st.text(st.characters(), max_size=12)
NAMES = st.text(string.ascii_lowercase + "_.'\"$", min_size=1, max_size=8)
FLOATS = st.floats(width=64)
COUNTS = st.integers(0, 2**63)
VALUES = st.one_of(st.booleans(), st.integers(), FLOATS, TEXT)
CONFIGS = st.dictionaries(NAMES, VALUES, max_size=5).map(Config)
INTERVALS = st.builds(Interval, FLOATS, FLOATS, FLOATS, FLOATS, FLOATS, FLOATS)
CONTEXTS = st.builds(Context, TEXT, COUNTS, FLOATS, st.dictionaries(NAMES, FLOATS, max_size=3))
LABELS = st.builds(
    LabelStats,
    n_ok=COUNTS,
    n_error=COUNTS,
    n_timed_out=COUNTS,
    throughput_per_s=FLOATS,
    latency_mean_ms=FLOATS,
    latency_p50_ms=FLOATS,
    latency_p95_ms=FLOATS,
    latency_max_ms=FLOATS,
    throughput=st.none() | INTERVALS,
    latency_ms=st.dictionaries(NAMES, INTERVALS, max_size=2),
)
MEASUREMENTS = st.builds(
    Measurement,
    window_s=st.tuples(FLOATS, FLOATS),
    throughput=INTERVALS,
    latency_mean_ms=INTERVALS,
    latency_ms=st.dictionaries(NAMES, INTERVALS, max_size=3),
    n_ok=COUNTS,
    n_error=COUNTS,
    n_timed_out=COUNTS,
    is_steady=st.booleans(),
    warmup_s=FLOATS,
    series_per_s=st.lists(FLOATS, max_size=5).map(tuple),
    histogram=st.binary(max_size=20),
    by_label=st.dictionaries(TEXT, LABELS, max_size=2),
    client_cpu_share=FLOATS,
    errors=st.lists(TEXT, max_size=2).map(tuple),
    service_ms=st.dictionaries(NAMES, FLOATS, max_size=2),
    queue_p99_ms=st.none() | FLOATS,
    lateness_p99_ms=st.none() | FLOATS,
    is_open=st.booleans(),
    users=COUNTS,
    n_threads=COUNTS,
    offered_per_s=st.none() | FLOATS,
    n_shed=COUNTS,
    n_retries=COUNTS,
    error_classes=st.dictionaries(NAMES, COUNTS, max_size=2),
    steal_share=st.none() | FLOATS,
    memory_bytes=COUNTS,
    wakeup_p99_ms=st.none() | FLOATS,
    wait_share=st.none() | FLOATS,
    priority=TEXT,
    generators=st.lists(TEXT, max_size=2).map(tuple),
    generator_limited=TEXT,
    generator_waited=TEXT,
    overload=TEXT,
)
TRIALS = st.builds(
    Trial,
    number=st.integers(0, 2**31 - 1),
    role=st.sampled_from(Role),
    config=CONFIGS,
    context=CONTEXTS,
    status=st.sampled_from(Status),
    effective=st.dictionaries(NAMES, VALUES, max_size=3),
    reason=TEXT,
    measurement=st.none() | MEASUREMENTS,
    loss=st.none() | FLOATS,
    loss_se=st.none() | FLOATS,
    excess=FLOATS,
    cost_s=st.dictionaries(NAMES, FLOATS, max_size=3),
    started_at=FLOATS,
    searcher=TEXT,
    fault=st.sampled_from(Fault),
    counters_before=st.dictionaries(NAMES, FLOATS, max_size=2),
    counters_after=st.dictionaries(NAMES, FLOATS, max_size=2),
    seed=st.none() | COUNTS,
    versions=st.dictionaries(NAMES, TEXT, max_size=2),
)
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | TEXT | st.sampled_from(["$number", "nan"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(TEXT | st.sampled_from(["$number", "$table"]), inner, max_size=2)
    ),
    max_leaves=5,
)
TABLES = st.dictionaries(TEXT, JSON, max_size=2)
VERDICTS = st.builds(
    Verdict, result=TEXT, noise_floor=st.none() | FLOATS, candidate=st.none() | CONFIGS, config=CONFIGS,
    gain=st.none() | st.builds(GainInterval, estimate=FLOATS, low=st.none() | FLOATS, high=st.none() | FLOATS, level=FLOATS),
    pairs=st.lists(st.tuples(FLOATS, FLOATS), max_size=2).map(tuple), log_lines=st.lists(TEXT, max_size=2).map(tuple),
    wall_s=st.dictionaries(TEXT, FLOATS, max_size=2), fragment=TEXT, apply_command=TEXT,
    importance=st.none() | st.builds(KeptRanks, n_trials=COUNTS, text=TEXT, consensus=st.none() | TABLES),
)  # fmt: skip
RECORDS = st.builds(
    StudyRecord,
    id=st.just(0),
    name=st.text(min_size=1, max_size=8),
    settings=TABLES,
    space=TABLES,
    objective=st.sampled_from(["throughput", "latency_p95 where throughput >= 200"]),
    baseline=CONFIGS,
    machine=st.builds(Machine, cores=COUNTS, memory_bytes=COUNTS, cpu_model=TEXT, hostname=TEXT, server_version=TEXT),
    context=CONTEXTS,
    created_at=FLOATS,
    status=st.sampled_from(["running", "proven"]),
    verdict=VERDICTS,
    fingerprint=TEXT,
)
EVENTS = st.builds(Event, TEXT, TEXT, FLOATS)
COPIES = st.builds(
    StudyCopy,
    RECORDS,
    st.lists(TRIALS, max_size=2, unique_by=lambda trial: trial.number),
    st.lists(EVENTS, max_size=2),
)
"""Whole studies, with values that no real one has."""

KNOBS: dict[str, st.SearchStrategy[Any]] = {
    "shared_buffers": st.integers(-(2**40), 2**40),
    "random_page_cost": st.floats(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9),
    "jit": st.booleans(),
    "wal_compression": st.sampled_from(["off", "lz4", "a b", "true", "12", "ünï", '"', "", "=cmd()", "x\ny"]),
    "mysqld.odd-name$[1]": st.integers(0, 9),
    "xmlish": st.integers(0, 3),
}
FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=1e-9, max_value=1e12)


def _plain_trial(number: int, config: dict[str, Any], value: float | None, reason: str, at: float) -> Trial:
    """A trial with no more than the lossy formats hold."""
    interval = None if value is None else Interval(value, value / 2, value * 2)
    return Trial(
        number=number,
        role=Role.SEARCH if number else Role.BASELINE,
        config=Config(config),
        context=Context("tpch 4Q6", 4),
        status=Status.CRASHED if value is None else Status.OK,
        reason=reason,
        started_at=at,
        measurement=None
        if interval is None
        else Measurement(
            window_s=(1.0, 5.0), throughput=interval, latency_mean_ms=interval, latency_ms={"p95": interval}, n_ok=7,
            n_error=1, n_timed_out=0, is_steady=True, warmup_s=1.5, series_per_s=(1.0,),
        ),
    )  # fmt: skip


def plain_study(name: str, rows: list[tuple[dict[str, Any], float | None, str, float]], at: float) -> StudyCopy:
    """A study with no more than the lossy formats hold."""
    trials = [_plain_trial(number, *row) for number, row in enumerate(rows)]
    record = StudyRecord(
        id=0, name=name, settings={"target": {"db": {"kind": "postgresql"}}}, space={}, objective="throughput",
        baseline=trials[0].config, machine=Machine(cores=2, memory_bytes=1 << 30, hostname="db 1", server_version="18.1"),
        context=trials[0].context, created_at=at, status="stopped", verdict=Verdict(), fingerprint="",
    )  # fmt: skip
    return StudyCopy(record, trials)


PRINTABLE = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=8)
PLAIN_COPIES = st.builds(
    plain_study,
    PRINTABLE,
    st.lists(
        st.tuples(st.fixed_dictionaries(KNOBS), st.none() | FINITE, TEXT, st.floats(0, 2e9, allow_nan=False)),
        min_size=1,
        max_size=4,
    ),
    st.floats(0, 2e9, allow_nan=False),
)
"""Studies of one set of knobs, as real ones are."""
