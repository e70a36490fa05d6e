"""The codec: exact round trips, by property."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from tests.needs import IS_FULL
from trimtab.errors import HistoryError
from trimtab.history import knobs_from_json, space_to_json
from trimtab.history.codec import dumps, loads, read_trial, trial_to_json
from trimtab.records import Context, Role, Status, Trial
from trimtab.space import Config, Constraint, Knob, KnobKind, RestartClass, SafetyClass, Space

from .samples import make_trial
from .strategies import TRIALS


@pytest.mark.slow
@settings(max_examples=300 if IS_FULL else 60, deadline=None)
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
           "steal_share memory_bytes generator_limited overload wakeup_p99_ms wait_share priority generator_waited "
           "generators")  # fmt: skip
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
    assert stored["constraints"] == [{"text": "work_mem <= 100000", "name": "memory", "constants": {}}]
    assert knobs_from_json({}) == {}


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(HistoryError, match="cannot store a value in the history: type=object is not JSON"):
        dumps({"a": [object()]})
