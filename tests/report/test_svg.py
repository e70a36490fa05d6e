"""Plots as SVG: marks stand where their values are, texts cannot be markup, nothing lies over another."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.report.conftest import record, trial
from trimtab.history import space_to_json
from trimtab.importance import Consensus, KnobRank, Pair, Slice
from trimtab.records import Role
from trimtab.report.axes import make_axis
from trimtab.report.charts import layout, level
from trimtab.report.explain import Explanation
from trimtab.report.explain_charts import explanation_figures
from trimtab.report.marks import symbol_svg
from trimtab.report.parallel import parallel_figure, parallel_svg
from trimtab.report.svg import figure_svg
from trimtab.space import Config, Knob, KnobKind, Space

POINTS = {"type": "scatter", "mode": "markers", "name": "a", "marker": {"color": "#123456", "size": 8}}


def elements(svg: str, tag: str) -> list[dict[str, str]]:
    return [each.attrib for each in ElementTree.fromstring(svg).iter() if each.tag == tag]


def seen(svg: str) -> list[dict[str, str]]:
    """Circles that are not only there for the pointer."""
    return [each for each in elements(svg, "circle") if each["fill"] == "#123456" and "cx" in each]


def figure(trace: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"data": [{**POINTS, **trace}], "layout": layout("x", "y", **more)}


def test_points_stand_in_proportion_to_their_values() -> None:
    svg = figure_svg("p", figure({"x": [0, 10, 20], "y": [1.0, 2.0, 4.0], "name": ""}))
    points = [(float(c["cx"]), float(c["cy"])) for c in seen(svg)]
    assert points[1][0] - points[0][0] == pytest.approx(points[2][0] - points[1][0], abs=0.2)
    assert points[1][1] - points[2][1] == pytest.approx(2 * (points[0][1] - points[1][1]), abs=0.3)  # up is more


def test_a_logarithmic_axis_gives_each_factor_the_same_room() -> None:
    axis = make_axis({"type": "log"}, [1.0, 10.0, 1000.0], (0.0, 300.0), is_filled=False)
    assert axis.at(100) - axis.at(10) == pytest.approx(axis.at(1000) - axis.at(100))
    assert math.isnan(axis.place(0))


def test_ticks_are_round_and_few() -> None:
    axis = make_axis({}, [0.93, 2.41], (0.0, 300.0), is_filled=False)
    assert [text for _, text in axis.ticks] == ["1", "1.5", "2"]
    whole = make_axis({"tickformat": "d", "rangemode": "tozero"}, [0, 3], (0.0, 300.0), is_filled=False)
    assert [text for _, text in whole.ticks] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("values", [[], [5.0], [0.0, 0.0], [math.nan, 3.0]])
def test_an_axis_of_little_data_still_has_a_width(values: list[float]) -> None:
    axis = make_axis({}, values, (0.0, 300.0), is_filled=False)
    assert axis.high > axis.low


def test_bars_begin_at_zero_and_are_as_long_as_their_values() -> None:
    bars = {"type": "bar", "x": [10.0, 40.0], "y": ["a", "b"], "marker": {"color": "#123456"}, "name": ""}
    wide = [float(r["width"]) for r in elements(figure_svg("b", figure(bars)), "rect") if r.get("fill") == "#123456"]
    assert wide[1] == pytest.approx(4 * wide[0], rel=0.01)


def test_the_ends_of_an_interval_lie_inside_the_plot() -> None:
    error = {"type": "data", "array": [3.0], "arrayminus": [0.5], "color": "#654321", "width": 4}
    svg = figure_svg("e", figure({"x": [1], "y": [2.0], "error_y": error, "name": ""}))
    (bar,) = [each["d"] for each in elements(svg, "path") if each.get("stroke") == "#654321"]
    (middle,) = [float(c["cy"]) for c in seen(svg)]
    low, high = map(float, re.findall(r"^M[\d.]+,([\d.]+)V([\d.]+)", bar)[0])
    assert 0 < high < middle < low < 360
    assert (middle - high) == pytest.approx(6 * (low - middle), rel=0.02)


def test_cells_carry_their_value_in_ink_that_can_be_read() -> None:
    cells = {
        "type": "heatmap",
        "x": ["a", "b"],
        "y": ["c"],
        "z": [[1.0, 2.0]],
        "hovertemplate": "%{x}, %{y}: %{z:.2f} times",
    }
    svg = figure_svg("h", {"data": [cells], "layout": layout("", "")})
    assert "<title>b, c: 2.00 times</title>" in svg
    assert 'style="fill:#fff">1.00<' in svg
    assert 'style="fill:#14171b">2.00<' in svg


def test_a_large_figure_of_a_point_has_no_exponent() -> None:
    trace = {"x": [1], "y": [75_690.4], "hovertemplate": "%{x}: %{y:figure}<extra></extra>"}
    assert "<title>1: 75,690</title>" in figure_svg("t", figure(trace))


def test_what_is_said_of_a_point_is_text_and_not_markup() -> None:
    trace = {
        "x": [1],
        "y": [2.0],
        "text": ["&lt;b&gt; x<br>\x1b[31m</title><script>"],
        "hovertemplate": "%{text}<extra></extra>",
    }
    svg = figure_svg("t", figure({**trace, "name": "</text><script>"}))
    assert not elements(svg, "script")
    assert "&lt;b&gt; x\n" in svg
    assert "\x1b" not in svg


def test_long_names_under_an_axis_are_turned() -> None:
    names = [f"a rather long value {i}" for i in range(12)]
    ticks = {"tickvals": list(range(12)), "ticktext": names}
    assert "rotate(-30" in figure_svg("t", figure({"x": list(range(12)), "y": [1.0] * 12}, xaxis=ticks), width=460)


def test_a_level_is_a_dotted_line_and_widens_the_axis() -> None:
    svg = figure_svg("l", figure({"x": [1, 2], "y": [3.0, 4.0]}, shapes=[level(1.0)]))
    (line,) = [each for each in elements(svg, "path") if each.get("stroke-dasharray") == "2 3"]
    assert 0 < float(line["d"].split(",")[1].split("H")[0]) < 330


def test_wide_ticks_do_not_lie_over_the_title_of_their_axis() -> None:
    svg = figure_svg("t", figure({"x": [1, 2], "y": [2.0e9, 3.0e9], "name": ""}), width=460)
    ticks = [each for each in ElementTree.fromstring(svg).iter("text") if each.get("text-anchor") == "end"]
    assert max(len(each.text or "") for each in ticks) == len("3,000,000,000")
    assert all(float(each.attrib["x"]) - 6.8 * len(each.text or "") > 20 for each in ticks)


def test_a_point_that_has_no_place_is_not_drawn() -> None:
    line = {"mode": "lines", "x": [0, 1], "y": [0.0, 5.0], "text": "p", "hovertemplate": "%{text}",
            "line": {"color": "#123456"}, "name": ""}  # fmt: skip
    assert "nan" not in figure_svg("t", figure(line, yaxis={"type": "log"}))


def test_an_axis_has_ends_whatever_lies_along_it() -> None:
    svg = figure_svg("p", figure({"x": [0, 1, 2, 3], "y": [1.7e308, -1.7e308, math.inf, 5.0]}))
    assert "inf" not in svg
    assert "nan" not in svg


def test_gains_that_no_number_holds_lose_no_page() -> None:
    """An imported file may hold any loss."""
    space = Space([Knob(name=name, kind=KnobKind.INTEGER, low=0, high=9, default=0) for name in ("a", "b")])
    trials = [trial(n, Role.SEARCH, {"a": n, "b": 9 - n}, 1.0, loss=-720.0 * n) for n in range(6)]
    study = record({}, space=space_to_json(space), baseline=Config({"a": 0, "b": 0}))
    lines = parallel_figure(study, trials)
    assert lines is not None
    assert "trial 5 (search): &gt; 1000 times as fast" in parallel_svg("p", lines, 920)
    losses = (0.0, -720.0)
    cut = Slice(
        knob="a", values=(0, 9), mean=losses, low=losses, high=losses, points=((0, 0.0), (9, -720.0)), best=9, gain=720.0,
        gain_low=0.0,
    )  # fmt: skip
    pair = Pair(first="a", second="b", share=0.5, share_low=0.5, share_high=0.5, first_values=(0, 9), second_values=(0, 9),
                loss=(losses, losses))  # fmt: skip
    knob = KnobRank(knob="a", score=0.5, score_low=0.5, score_high=0.5, rank=1, rank_low=1, rank_high=1)
    ranks = Consensus(knobs=(knob, replace(knob, knob="b")), rankings=(), knee=1, n_trials=6, r2=0.5)
    shown = Explanation(consensus=ranks, text="", space=space, slices=(cut,), pairs=(pair,))
    for name, each in explanation_figures(shown, "times as good").items():
        assert not re.search(r"\b(nan|inf)\b", figure_svg(name, each))


def test_names_of_parallel_axes_stay_within_the_plot() -> None:
    names = ["max_parallel_workers_per_gather", "jit", "a" * 70, "innodb_adaptive_flushing_lwm"]
    lines = [{"gain": 1.0, "number": i, "role": "search", "places": [0.1 * i] * 4} for i in range(3)]
    axes = [{"name": name, "ends": ["0", "1"]} for name in names]
    svg = parallel_svg("p", {"parallel": {"axes": axes, "lines": lines, "times": "times as fast"}}, 920)
    texts = list(ElementTree.fromstring(svg).iter("text"))
    assert {"max_parallel_workers_per_gather", f"{'a' * 18}...{'a' * 19}"} <= {each.text for each in texts}
    for each in texts:
        half = 6.8 * len(each.text or "") / 2
        assert half <= float(each.attrib["x"]) + 0.1
        assert float(each.attrib["x"]) <= 920.1 - half
    assert "trial 2 (search): 1.00 times as fast" in svg


def test_each_shape_is_one_of_its_own() -> None:
    """A play is told from a run of the search, also where there is no colour."""
    names = ("circle", "square", "triangle-up", "triangle-down", "diamond", "star", "hexagon", "x")
    drawn = {name: symbol_svg(name, 0.0, 0.0, 8.0, "#123456") for name in names}
    assert len(set(drawn.values())) == len(names)
    assert {name: len(svg.split('"')[1].split()) for name, svg in drawn.items() if "polygon" in svg} == {
        "square": 4, "triangle-up": 3, "triangle-down": 3, "diamond": 4, "star": 10, "hexagon": 6,
    }  # fmt: skip
