"""Texts that come from outside, fuzzed: overlays, expressions, units, values, SQL scripts and generators.

The inputs in corpus/ are always tried first. `TRIMTAB_TESTS=full` makes it long.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.faults.fuzz import EVIL, FUZZ, SCALARS, mutations, seeds, taken_in, texts
from trimtab.records import Objective
from trimtab.space import Config, Constraint, Knob, KnobKind, Space, amount
from trimtab.study import Budget
from trimtab.systems.server_catalog import parse_server_catalog
from trimtab.units import parse_duration, parse_size, parse_value
from trimtab.workload.engine_run import compile_scripts
from trimtab.workload.scripts import ScriptText
from trimtab.workload.sql.generators import parse_generators

# Overlays, expressions, units


@FUZZ
@given(data=mutations(seeds("overlay")))
def test_overlays_that_are_damaged(data: tuple[Path, bytes]) -> None:
    taken_in(lambda: parse_server_catalog(data[1].decode(errors="replace")))


WORDS = st.sampled_from(
    [
        "a",
        "b",
        "memory",
        "cores",
        "+",
        "-",
        "*",
        "/",
        "**",
        "<=",
        ">=",
        "==",
        "<",
        "and",
        "or",
        "not",
        "(",
        ")",
        "min",
        "max",
        ",",
        "1",
        "2.5",
        "8MB",
        "30s",
        "1e308",
        "0",
        "if",
        "else",
        "?",
        ":",
        "where",
        "throughput",
        "p99",
        "latency_p95",
        "'",
        '"',
        "[",
        "]",
        "lambda",
        "__class__",
        ".",
        "eval",
        "%",
        "^",
        "`",
    ]
)
PHRASES = st.one_of(st.lists(WORDS, max_size=25).map(" ".join), texts(*EVIL))


@FUZZ
@given(PHRASES)
def test_constraints(text: str) -> None:
    knobs = [
        Knob(name="a", kind=KnobKind.INTEGER, low=1, high=100, unit="MB", default=4),
        Knob(name="b", kind=KnobKind.REAL, low=0.0, high=1.0, default=0.5),
    ]

    def use() -> None:
        space = Space(knobs, [Constraint(text, name="fuzz")])
        space.violations(Config({"a": 50, "b": 0.25}))

    taken_in(use)


@FUZZ
@given(PHRASES)
def test_objectives(text: str) -> None:
    taken_in(lambda: Objective.parse(text))


@FUZZ
@given(PHRASES)
def test_bounds_of_overlays(text: str) -> None:
    taken_in(lambda: amount(text, {"memory": 1e9, "cores": 4.0}))


@FUZZ
@given(texts("5m", "40 trials", "1h30m", "512MB", "1.5GiB"), st.sampled_from(["", "kB", "8kB", "ms", "min", "parsec"]))
def test_units_and_budgets(text: str, unit: str) -> None:
    for call in (
        lambda: parse_size(text),
        lambda: parse_duration(text),
        lambda: parse_value(text, unit),
        lambda: Budget.parse(text),
    ):
        taken_in(call)


@FUZZ
@given(st.sampled_from(list(KnobKind)), texts("4MB", "on", "-1", "0.5"))
def test_values_of_knobs(kind: KnobKind, text: str) -> None:
    more: dict[str, Any] = (
        {"low": 1, "high": 9, "default": 4} if kind in (KnobKind.INTEGER, KnobKind.REAL) else {"default": True}
    )
    if kind in (KnobKind.CHOICE, KnobKind.ORDINAL):
        more = {"choices": ("a", "b"), "default": "a"}
    knob = Knob(name="x", kind=kind, **more)
    taken_in(lambda: knob.parse(text))
    taken_in(lambda: knob.contains(text))


# Statements and what fills them

PIECES = st.sampled_from(
    [
        "SELECT ",
        ":a",
        ":b",
        "$1",
        "'",
        '"',
        "$$",
        "$x$",
        "--",
        "/*",
        "*/",
        ";",
        "\n",
        "\\set a random(1, 10)\n",
        "\\sleep 1 s\n",
        "\\if :a\n",
        "\\endif\n",
        "\\gset\n",
        "::int",
        "INSERT INTO t VALUES (",
        ")",
        "\\",
        "\x00",
        "E'\\'",
        "BEGIN;",
        ":a:b",
        "1/0",
        "\\setshell x touch hacked\n",
        "\\shell touch hacked\n",
        "\\! touch hacked\n",
        "COPY t FROM PROGRAM 'x'",
        "ü",
        "\r\n",
    ]
)


@FUZZ
@given(st.one_of(st.lists(PIECES, max_size=20).map("".join), texts()), st.sampled_from(["own", "pgbench"]))
def test_scripts(text: str, kind: str) -> None:
    script = ScriptText("s", 1.0, text, "s.sql")
    taken_in(lambda: compile_scripts([(kind, script, [], "none")], dialect="postgresql", users=2))


@FUZZ
@given(
    st.dictionaries(
        texts("a", "b"),
        st.one_of(
            SCALARS,
            st.dictionaries(
                texts(
                    "type",
                    "low",
                    "high",
                    "values",
                    "weights",
                    "length",
                    "from",
                    "to",
                    "table",
                    "column",
                    "nulls",
                    "each",
                    "skew",
                    "distribution",
                ),
                st.one_of(
                    SCALARS,
                    texts("int", "choice", "text", "date", "column", "zipfian", "2024-12-31"),
                    st.lists(SCALARS, max_size=3),
                ),
                max_size=5,
            ),
        ),
        max_size=3,
    )
)
def test_generators(tables: dict[str, Any]) -> None:
    taken_in(lambda: parse_generators(tables))
