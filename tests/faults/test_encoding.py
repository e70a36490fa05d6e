"""C7: what is written into the server's files and read back is the same, whatever encoding, line ends, quotes and units."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults.invariants import check_invariants, take_picture
from tests.faults.place import Place
from tests.needs import IS_FULL
from trimtab.space import Config, Knob, KnobKind
from trimtab.systems.gate import check_config
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.values import setting_text
from trimtab.units import format_value, parse_value

UNITS = ("", "B", "kB", "8kB", "MB", "16MB", "GB", "us", "ms", "s", "min")
LONG = settings(max_examples=20_000 if IS_FULL else 200, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@LONG
@given(st.sampled_from(UNITS), st.integers(-(2**53), 2**53))
def test_C7_whole_numbers_survive_their_units(unit: str, value: int) -> None:
    assert parse_value(format_value(value, unit), unit) == value


@LONG
@given(st.sampled_from(UNITS), st.floats(allow_nan=False, allow_infinity=False, width=64))
def test_C7_reals_survive_their_units(unit: str, value: float) -> None:
    assert math.isclose(parse_value(format_value(value, unit), unit), value, rel_tol=1e-12)


@pytest.mark.slow
@LONG
@given(st.sampled_from(list(KnobKind)), st.booleans(), st.integers(1, 1 << 30), st.floats(0.001, 1e9))
def test_C7_knobs_read_back_what_they_write(kind: KnobKind, flag: bool, whole: int, real: float) -> None:
    options: dict[KnobKind, dict[str, Any]] = {
        KnobKind.INTEGER: {"low": 1, "high": 1 << 30, "unit": "kB", "default": 1},
        KnobKind.REAL: {"low": 0.0, "high": 1e9, "unit": "ms", "default": 1.0},
        KnobKind.BOOLEAN: {"default": True},
        KnobKind.CHOICE: {"choices": ("on", "a b", "ü"), "default": "on"},
        KnobKind.ORDINAL: {"choices": ("low", "high"), "default": "low"},
    }
    knob = Knob(name="x", kind=kind, **options[kind])
    value = {KnobKind.INTEGER: whole, KnobKind.REAL: real, KnobKind.BOOLEAN: flag}.get(kind, knob.default)
    back = knob.parse(knob.format(value))
    assert back == value or math.isclose(float(back), float(value), rel_tol=1e-12)


@pytest.mark.service
def test_C7_the_server_uses_exactly_what_was_asked(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every curated knob a few values, in one config each, through the real path: read back equal, put back exactly."""
    before = take_picture(place.server)
    monkeypatch.setenv("TRIMTAB_CACHE", str(place.cache))
    table = {"kind": "postgresql", "embedded": place.server.version, "memory": "1GiB", "knobs": "all"}
    target = PostgresTarget.from_settings("db", table, state_dir=place.state)
    target.open()
    try:
        states = {n: s for n, s in target.states().items() if s.is_curated and not s.lock_reason}
        found = target.snapshot()
        reloaded = {n: s for n, s in states.items() if s.knob.restart == "reload"}
        for pick in range(6 if IS_FULL else 3):
            config = Config({name: _value(state, pick) for name, state in reloaded.items()})
            check_config(config, states)
            effective = target.apply(config).effective
            for name, value in config.items():
                knob, real = states[name].knob, effective[name]
                same = real == value or (isinstance(value, float) and math.isclose(float(real), value, rel_tol=1e-5))
                assert same, f"{name}: asked {setting_text(value, knob.unit)}, runs {real}"
        target.restore(found)
    finally:
        target.close()
    check_invariants(place, before, recovers=False)


def _value(state: Any, pick: int) -> Any:
    """Low, high, special, odd ones: values that a unit cannot write round."""
    knob = state.knob
    if knob.kind is KnobKind.BOOLEAN:
        return bool(pick % 2)
    if not knob.is_numeric:
        return knob.choices[pick % len(knob.choices)]
    if pick == 2 and knob.special:
        return knob.special[0]
    low, high = knob.low, knob.high
    share = (0.0, 1.0, 0.37, 0.613, 0.0101, 0.77)[pick]
    return (
        knob.clip(low + (high - low) * share)
        if knob.kind is KnobKind.REAL
        else knob.clip(int(low + (high - low) * share))
    )


LINES = (
    "work_mem = '3MB'\r\n",
    "cpu_tuple_cost=0.02\n",
    "  ENABLE_SORT   'on'   # Kommentar: für später\n",
    "cluster_name = 'it''s \\'quoted\\' # not a comment'\n",
    'search_path = \'"$user", public, "schöne Tabelle"\'\n',
    "log_line_prefix = '%m \\\\ [%p] \u2603 '\n",
)


@pytest.mark.service
def test_C7_foreign_lines_survive_byte_for_byte(place_18: Place) -> None:
    """Odd but legal lines in postgresql.auto.conf: a study changes and restores the file around them."""
    with place_18.server.auto_conf.open("ab") as file:
        file.write("".join(LINES).encode())
    before = take_picture(place_18.server)
    place_18.write(budget="1 trials", knobs=("random_page_cost",))
    ran = place_18.run("tune", "study.toml")
    check_invariants(place_18, before, ran=ran, code=(0, 1), recovers=False)
