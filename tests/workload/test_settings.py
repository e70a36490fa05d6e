"""The [workload] table: what is understood, and the text of every refusal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import UsageError
from trimtab.workload import Workload
from trimtab.workload.tpch import TpchWorkload
from trimtab.workload.tpch.settings import mix_text, parse_mix, parse_settings

MIXES = st.dictionaries(st.integers(1, 22), st.integers(1, 1000), min_size=1)


@given(MIXES)
def test_a_mix_reads_the_same_from_a_table_and_from_a_text(mix: dict[int, int]) -> None:
    from_table = parse_mix({f"q{query}": n for query, n in mix.items()})
    assert from_table == parse_mix(mix_text(mix)) == mix
    assert list(from_table) == sorted(mix)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4Q6+4Q9+4Q13", {6: 4, 9: 4, 13: 4}),
        ("q1", {1: 1}),
        (" 2 q18 + Q1 ", {1: 1, 18: 2}),
        ("Q6+3Q6", {6: 4}),
        ("0Q6+1Q1", {1: 1}),
    ],
)
def test_mix_texts(text: str, expected: dict[int, int]) -> None:
    assert parse_mix(text) == expected


def test_defaults_and_all_keys() -> None:
    settings = parse_settings({"kind": "tpch", "mix": "Q1"})
    assert (settings.scale, settings.run, settings.query_timeout_s, settings.schema) == (1.0, "mix", 60.0, "standard")
    assert settings.database == "trimtab_tpch_1"
    settings = parse_settings(
        {
            "run": "throughput",
            "streams": 3,
            "refresh": True,
            "repeat": False,
            "query_timeout": "2m",
            "scale": 0.1,
            "schema": "pk-only",
        }
    )
    assert (settings.run, settings.n_streams, settings.has_refresh, settings.is_repeated) == (
        "throughput",
        3,
        True,
        False,
    )
    assert (settings.query_timeout_s, settings.database) == (120.0, "trimtab_tpch_0_1_pk")


def test_scales_that_look_alike_have_databases_of_their_own() -> None:
    names = {parse_settings({"mix": "Q1", "scale": s}).database for s in (0.01, 0.1, 1, 10, 100, 0.1234567, 0.1234568)}
    assert len(names) == 7


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        ({"mix": "Q1", "scael": 1}, "unknown key in [workload]: scael=1", "did you mean scale?"),
        ({"mix": "Q1", "zzz": 1}, "unknown key in [workload]: zzz=1", "the keys are: kind, scale, mix"),
        ({}, "neither mix nor run", 'or run = "power"'),
        ({"mix": "Q1", "run": "power"}, "mix='Q1' and run='power' exclude each other", "leave one of them out"),
        ({"mix": "Q1", "streams": 2}, "streams=2 has no meaning with a mix", "throughput"),
        ({"mix": "Q1", "refresh": True}, "refresh=True has no meaning with a mix", "power"),
        ({"run": "power", "streams": 2}, 'streams=2 has no meaning with run="power"', "throughput"),
        ({"run": "sprint"}, "run='sprint' is not known", "use one of: power, throughput"),
        ({"run": "throughput", "streams": 0}, "streams=0 is out of range", "from 1 to 1000"),
        ({"run": "power", "refresh": "yes"}, "refresh='yes' is not a flag", "true or false"),
        ({"mix": "Q1", "schema": "fast"}, "schema='fast' is not known", "standard, pk-only"),
        ({"mix": "Q1", "scale": 0.001}, "scale=0.001 is out of range", "from 0.01 to 100000"),
        ({"mix": "Q1", "scale": float("nan")}, "scale=nan is out of range", "from 0.01"),
        ({"mix": "Q1", "scale": "1"}, "scale='1' is out of range", "from 0.01"),
        ({"mix": "Q1", "scale": True}, "scale=True is out of range", "from 0.01"),
        ({"mix": "Q1", "scale": 10**400}, "scale is a number beyond 1e+300", "smaller"),
        ({"mix": "Q1", "query_timeout": 10**400}, "query_timeout is a number beyond 1e+300", "smaller"),
        ({"mix": "Q1", "query_timeout": 0}, "query_timeout=0 is not a duration", '"60s"'),
        ({"mix": "Q1", "query_timeout": "soon"}, "duration='soon'", ""),
        ({"mix": "Q1", "database": "a b"}, "database='a b' is not a database name", "63"),
        ({"mix": "Q23"}, "unknown query in mix: q23=1", "q1 to q22"),
        ({"mix": {"six": 4}}, "unknown query in mix: six=4", "q1 to q22"),
        ({"mix": {"q6": -4}}, "mix.q6=-4 is not a number of streams", "from 0 to 1000"),
        ({"mix": "-4Q6"}, "mix.q6=-4 is not a number of streams", "from 0 to 1000"),
        ({"mix": "-Q6"}, "mix='-Q6' cannot be read at '-Q6'", "for example"),
        ({"mix": {"q6": 1.5}}, "mix.q6=1.5 is not a number of streams", "from 0 to 1000"),
        ({"mix": {"q6": 0}}, "runs nothing", "for example"),
        ({"mix": {}}, "runs nothing", "for example"),
        ({"mix": "4Q6,4Q9"}, "mix='4Q6,4Q9' cannot be read at '4Q6,4Q9'", "for example"),
        ({"mix": 6}, "mix=6 is neither a table nor a text", "4Q6+4Q9+4Q13"),
    ],
)
def test_refusals_name_the_value_and_the_remedy(settings: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        TpchWorkload.from_settings(settings)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_context_of_a_mix() -> None:
    workload = TpchWorkload.from_settings({"mix": {"q6": 4, "q9": 4, "q13": 2}, "scale": 0.1})
    assert isinstance(workload, Workload)
    context = workload.context
    assert context.workload == "tpch 4Q6+4Q9+2Q13 scale 0.1"
    assert (context.clients, context.read_share) == (10, 1.0)
    assert context.features == {"q6": 0.4, "q9": 0.4, "q13": 0.2, "scale": 0.1}


def test_context_of_power_and_throughput() -> None:
    power = TpchWorkload.from_settings({"run": "power", "scale": 1}).context
    assert (power.workload, power.clients, power.read_share) == ("tpch power scale 1", 1, 1.0)
    settings = {"run": "throughput", "streams": 3, "refresh": True, "scale": 1}
    throughput = TpchWorkload.from_settings(settings).context
    assert throughput.workload == "tpch throughput 3 streams with refresh scale 1"
    assert (throughput.clients, throughput.read_share) == (3, pytest.approx(22 / 24))
    assert TpchWorkload.from_settings(settings | {"repeat": False}).context.clients == 4
