"""The codec: exact round trips, by property."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.errors import HistoryError
from trimtab.history import knobs_from_json, space_to_json
from trimtab.history.codec import dumps, loads, read_trial, trial_to_json
from trimtab.measure import Interval, LabelStats, Measurement
from trimtab.records import Context, Role, Status, Trial
from trimtab.space import Config, Constraint, Knob, KnobKind, RestartClass, SafetyClass, Space

from .samples import make_trial

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
    generator_limited=TEXT,
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
)


@settings(max_examples=300, deadline=None)
@given(TRIALS)
def test_a_trial_survives_json_exactly(trial: Trial) -> None:
    histogram = b"" if trial.measurement is None else trial.measurement.histogram
    text = dumps(trial_to_json(trial))
    assert text.isascii()
    assert "\0" not in text
    # repr tells True from 1, 1 from 1.0, -0.0 from 0.0, and NaN equals itself there.
    assert repr(read_trial(loads(text), histogram)) == repr(trial)


def test_a_trial_of_an_older_version_is_read() -> None:
    """It lacks every field that came later; they take their defaults."""
    stored = trial_to_json(make_trial(0))
    old = ("service_ms queue_p99_ms lateness_p99_ms is_open users n_threads offered_per_s n_shed n_retries error_classes "
           "steal_share memory_bytes generator_limited overload")  # fmt: skip
    for name in old.split():
        del stored["measurement"][name]
    for name in ("throughput", "latency_ms"):
        del stored["measurement"]["by_label"]["q6"][name]
    assert repr(read_trial(loads(dumps(stored)), b"\x00\xff")) == repr(make_trial(0))


def test_the_raw_log_is_left_out() -> None:
    trial = Trial(number=0, role=Role.BENCH, config=Config({}), context=Context("x", 1), status=Status.OK)
    assert "log" not in trial_to_json(trial)
    assert set(trial_to_json(trial)) == set(Trial.__dataclass_fields__)


KNOBS = [
    Knob(
        name="work_mem",
        kind=KnobKind.INTEGER,
        low=64,
        high=2**20,
        log=True,
        unit="kB",
        special=(-1,),
        default=4096,
        restart=RestartClass.RESTART,
        safety=SafetyClass.DURABILITY,
        condition="jit == 'on'",
        doc="memory of one sort",
    ),
    Knob(name="jit", kind=KnobKind.CHOICE, choices=("on", "off"), default="on"),
]


def test_knobs_survive_json() -> None:
    stored: dict[str, Any] = loads(dumps(space_to_json(Space(KNOBS, [Constraint("work_mem <= 100000", "memory")]))))
    assert knobs_from_json(stored) == {knob.name: knob for knob in KNOBS}
    assert stored["constraints"] == [{"text": "work_mem <= 100000", "name": "memory"}]
    assert knobs_from_json({}) == {}


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(HistoryError, match="cannot store a value in the history: type=object is not JSON"):
        dumps({"a": [object()]})
