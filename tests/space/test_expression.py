"""The constraint language: parser, types, evaluator and intervals."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import SpaceError
from trimtab.space import Constraint
from trimtab.space.evaluate import evaluate, excess, holds
from trimtab.space.expression import check, names_in, parse
from trimtab.space.interval import Interval, can_hold, span

NAMES = ("a", "b", "net.core.rmem", "_x1")
leaves = st.sampled_from(NAMES) | st.integers(0, 20).map(str) | st.sampled_from(["0.5", "1e2", ".25", "true", "False"])
ARITHMETIC = ["+", "-", "*", "/", "//", "%"]


def _extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.tuples(inner, st.sampled_from([*ARITHMETIC, "and", "or"]), inner).map(" ".join)
    comparison = st.tuples(inner, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), inner)
    return st.one_of(
        binary,
        comparison.map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"-{text}"),
        inner.map(lambda text: f"(not {text})"),
        st.tuples(inner, inner).map(lambda two: f"min({two[0]}, {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"max({two[0]}, {two[1]})"),
        inner.map(lambda text: f"abs({text})"),
        st.tuples(inner, inner, inner).map(lambda three: f"({three[0]} if {three[1]} else {three[2]})"),
    )


texts = st.recursive(leaves, _extend, max_leaves=12)
environments = st.fixed_dictionaries({name: st.integers(-20, 20).map(float) for name in NAMES})


def _by_python(text: str, env: dict[str, float]) -> float:
    """What Python makes of `text`; NaN where it divides by zero (the oracle of these tests, nothing else)."""
    plain, values = text, {}
    for i, name in enumerate(sorted(NAMES, key=len, reverse=True)):
        plain = plain.replace(name, f"V{i}") if len(name) > 1 else plain
        values[f"V{i}" if len(name) > 1 else name] = env[name]
    scope: dict[str, Any] = {**values, "true": 1.0, "min": min, "max": max, "abs": abs, "__builtins__": {}}
    value: float = eval(plain, scope)
    return value


def _column(env: dict[str, float]) -> dict[str, Any]:
    return {name: np.float64(value) for name, value in env.items()}


@pytest.mark.slow
@given(texts, environments)
def test_the_evaluator_agrees_with_python(text: str, env: dict[str, float]) -> None:
    if " and " in text or " or " in text:
        return
    try:
        wanted = float(_by_python(text, env))
    except ZeroDivisionError:
        return
    found = float(np.asarray(evaluate(parse(text), _column(env))))
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@given(texts, environments)
def test_truth_agrees_with_python(text: str, env: dict[str, float]) -> None:
    try:
        wanted = bool(_by_python(text, env))
    except ZeroDivisionError:
        return
    assert bool(holds(parse(f"true and ({text})"), _column(env))) == wanted


@given(texts, st.lists(environments, min_size=1, max_size=5))
def test_columns_give_what_single_values_give(text: str, envs: list[dict[str, float]]) -> None:
    tree = parse(text)
    columns: dict[str, Any] = {name: np.array([env[name] for env in envs]) for name in NAMES}
    together = np.broadcast_to(np.asarray(evaluate(tree, columns)), (len(envs),))
    alone = [float(np.asarray(evaluate(tree, _column(env)))) for env in envs]
    np.testing.assert_array_equal(together, alone)
    gaps = np.broadcast_to(excess(tree, columns), (len(envs),))
    np.testing.assert_array_equal(gaps == 0, np.broadcast_to(holds(tree, columns), (len(envs),)))


ranges = st.tuples(st.integers(-9, 9), st.integers(0, 6)).map(lambda r: (r[0], r[0] + r[1]))


@given(texts, st.fixed_dictionaries(dict.fromkeys(NAMES, ranges)), st.data())
def test_intervals_hold_every_value(text: str, spans: dict[str, tuple[int, int]], data: st.DataObject) -> None:
    tree = parse(text)
    env = {name: float(data.draw(st.integers(*spans[name]))) for name in NAMES}
    value = float(np.asarray(evaluate(tree, _column(env))))
    found = span(tree, {name: Interval(low, high) for name, (low, high) in spans.items()})
    assert isinstance(found, Interval)
    if not math.isnan(value):
        slack = 1e-9 * (1 + abs(value)) if math.isfinite(value) else 0.0
        assert found.low - slack <= value <= found.high + slack


@pytest.mark.parametrize(
    "text",
    [
        "not min(a / b, 5) <= 9",
        "not max(a / b, -5) >= -9",
        "not abs(a / b) >= -1",
        "not 0 * (a / b) <= 1",
        "not (a / b) % 5 <= 9",
    ],
)
def test_what_may_divide_by_zero_is_never_certain(text: str) -> None:
    """Where b is 0, no comparison with it holds, so that its contrary does."""
    assert holds(parse(text), _column({"a": 4.0, "b": 0.0}))
    assert can_hold(parse(text), {"a": Interval(1.0, 9.0), "b": Interval(0.0, 3.0)})


@given(
    st.text(max_size=60) | st.from_regex(r"[ab0-9.<>=+*/%()'\"`, -]{0,40}", fullmatch=True) | texts.map(lambda t: t[1:])
)
def test_arbitrary_text_gives_a_tree_or_a_space_error(text: str) -> None:
    with contextlib.suppress(SpaceError):
        assert Constraint(text).names is not None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1GiB", 2**30),
        ("512MB + 8kB", 2**29 + 8192),
        ("10ms", 0.01),
        ("1.5min", 90),
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("10 - 2 - 3", 5),
        ("1 if 0 else 2 if 0 else 3", 3),
        ("not 1 == 2", 1),
        ("1 < 2 and not 3 < 2 or false", 1),
        ("`a-b` + 1", 6),
        ("min", 8),
        ("0.1 * 3 <= 0.3", 1),
        ("0.3 < 0.1 * 3", 0),
        ("'on' == \"on\"", 1),
        ("mode != 'on'", 1),
        ("('x' if 1 else 'y') == 'x'", 1),
    ],
)
def test_values(text: str, value: float) -> None:
    env: dict[str, Any] = {"a-b": np.float64(5), "min": np.float64(8), "mode": np.str_("off")}
    assert float(np.asarray(evaluate(parse(text), env))) == value


@pytest.mark.parametrize("text", ["1 / 0 >= 0", "1 / 0 < 0", "1 // 0 == 0", "1 % 0 != 1", "1 / 0"])
def test_nothing_holds_of_a_division_by_zero(text: str) -> None:
    assert not holds(parse(text), {})


def test_names() -> None:
    assert [name.name for name in names_in(parse("a + max(b.c, a) if `x-y` else 2"))] == ["a", "b.c", "a", "x-y"]
    assert Constraint("b <= a and b >= 0").names == ("b", "a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a value, found the end at character 1"),
        ("a <=", "expected a value, found the end at character 5"),
        ("a b", "expected an operator or the end, found 'b' at character 3"),
        ("a < b < c", "comparisons cannot be chained (write a < b and b < c): second one at character 7"),
        ("(a + b", "expected ')', found the end at character 7"),
        ("a if b", "expected 'else', found the end at character 7"),
        ("a ** 2", "expected a value, found '*' at character 4"),
        ("a == not b", "expected a value, found 'not' at character 6"),
        ("a <= 5 parsecs", "expected an operator or the end, found 'parsecs' at character 8"),
        ("a <= 5parsecs", "unknown unit 'parsecs' in '5parsecs' at character 6"),
        ("a & b", "unexpected '&' at character 3"),
        ("  a = 3", "unexpected '=' at character 5"),
        ("a == 'on", 'unexpected "\'" at character 6'),
        ("max(a)", "max() takes two or more arguments, not 1: at character 1"),
        ("abs(a, b)", "abs() takes 1 arguments, not 2: at character 1"),
        ("(" * 200 + "a" + ")" * 200, "nested or chained more than 100 deep at character 101"),
        ("1" + "+1" * 200, "nested or chained more than 100 deep at character"),
    ],
)
def test_syntax_errors(text: str, message: str) -> None:
    with pytest.raises(SpaceError) as caught:
        Constraint(text)
    assert message in caught.value.message
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("look near ")


def test_too_long() -> None:
    with pytest.raises(SpaceError, match="constraint of length=20002 is longer than 10000"):
        Constraint("a " * 10_001)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("size + 10ms > 0", "'+' mixes a size and a duration at character 6"),
        ("size <= time", "'<=' mixes a size and a duration at character 6"),
        ("max(size, 1s) > 0", "'max()' mixes a size and a duration at character 1"),
        ("mode + 1 > 0", "'+' needs numbers, found a text at character 6"),
        ("mode < 'b'", "'<' needs numbers, found a text at character 6"),
        ("mode == 1", "'==' needs numbers, found a text at character 6"),
        ("-mode == 1", "'-' needs numbers, found a text at character 1"),
        ("('a' if 1 else 2) == 'a'", "'if' mixes a text and a number at character 6"),
    ],
)
def test_type_errors(text: str, message: str) -> None:
    from trimtab.space.expression import Type
    from trimtab.units import Dimension

    types = {"size": Type(False, Dimension.SIZE), "time": Type(False, Dimension.DURATION), "mode": Type(True)}
    with pytest.raises(SpaceError) as caught:
        check(parse(text), types, text)
    assert message in caught.value.message


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(SpaceError) as caught:
        Constraint("share_buffers <= 1GiB").bind({}, {"shared_buffers": 1})
    assert "unknown knob='share_buffers' at character 1" in caught.value.message
    assert caught.value.hint == "did you mean shared_buffers?"
    with pytest.raises(SpaceError, match="known are: none"):
        Constraint("a").bind({})
