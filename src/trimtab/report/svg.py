"""A figure of the report as inline SVG: nothing to load, no script; what is under the pointer is said by the browser itself.

Figures are plain values (see `charts`): traces of type scatter, bar and heatmap, and a layout of two axes. Text and lines
take the colours of the page, light or dark.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from trimtab.report.axes import Axis, make_axis
from trimtab.report.marks import symbol_svg, text_of, trace_svg
from trimtab.report.parallel import parallel_svg

__all__ = ["NARROW", "WIDE", "figure_svg"]

WIDE, NARROW = 920, 460
"""Widths in the units that text is measured in."""

_SIGN_PX = 6.8
"""Width of a letter of the ticks' size, on average."""
_LEAST_SIGNS = 6
"""Room for ticks of so many letters is always left, so that plots below each other begin at one place."""
_LINE_PX = 20
_LEGEND_SIGN_PX = 7.0


def figure_svg(name: str, figure: Mapping[str, Any], *, width: int = WIDE) -> str:
    """One <svg> element; ids in it begin with `name`."""
    if "parallel" in figure:
        return parallel_svg(name, figure, width)
    traces, described = figure["data"], figure["layout"]
    height = described["height"]
    legend, n_rows = _legend(traces, width)
    is_filled = any(trace["type"] in ("bar", "heatmap") for trace in traces)
    top, bottom = 12 + n_rows * _LINE_PX, height - (50 if described["xaxis"]["title"]["text"] else 30)
    y = make_axis(described["yaxis"], _values(traces, described, "y"), (bottom, top), is_filled=is_filled)
    left = _left(y, width)
    x = make_axis(described["xaxis"], _values(traces, described, "x"), (left, width - 14), is_filled=is_filled)
    hatch, window = f"{name}-hatch", f"{name}-window"
    shifts = _shifts(traces, y)
    marks = "".join(trace_svg(trace, x, y, shift, hatch) for trace, shift in zip(traces, shifts, strict=True))
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" font-size="12" style="max-width:{1.25 * width:.0f}px" '
        f'aria-label="{text_of(_label(x, y))}">'
        f'<defs><pattern id="{hatch}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<path d="M0,0V6" class="hatch" stroke-width="3"/></pattern>'
        f'<clipPath id="{window}"><rect x="{left - 7:.1f}" y="{top - 7:.1f}" width="{width - left:.1f}" '
        f'height="{bottom - top + 14:.1f}"/></clipPath></defs>'
        f"{legend}{''.join(_frame(x, y, is_filled))}{''.join(_shapes(described, x, y))}"
        f'<g clip-path="url(#{window})">{marks}</g></svg>'
    )


def _label(x: Axis, y: Axis) -> str:
    return " by ".join(filter(None, (y.title, x.title))) or "plot"


def _left(y: Axis, width: int) -> float:
    """Room for the ticks of the y axis, and for its title beside them."""
    widest = max([_LEAST_SIGNS, *(len(html.unescape(text)) for _, text in y.ticks)])
    return min(0.45 * width, 14 + (20 if y.title else 4) + _SIGN_PX * widest)


def _values(traces: Sequence[Mapping[str, Any]], described: Mapping[str, Any], key: str) -> Iterator[Any]:
    """All that is drawn along an axis."""
    for trace in traces:
        yield from trace[key]
        if error := trace.get(f"error_{key}"):
            for value, plus, minus in zip(trace[key], error["array"], error["arrayminus"], strict=True):
                yield from (value + plus, value - minus)
    for shape in described.get("shapes", ()):
        if shape.get(f"{key}ref") != "paper":
            yield from (shape[f"{key}0"], shape[f"{key}1"])


def _shifts(traces: Sequence[Mapping[str, Any]], y: Axis) -> list[float]:
    """Traces of points over the same categories stand beside each other."""
    is_beside = bool(y.categories) and len(traces) > 1 and all(trace["type"] == "scatter" for trace in traces)
    return [0.24 * (i - (len(traces) - 1) / 2) if is_beside else 0.0 for i in range(len(traces))]


def _legend(traces: Sequence[Mapping[str, Any]], width: int) -> tuple[str, int]:
    """The names of the traces with their marks, in as many rows as they need, and the number of rows."""
    shown = [trace for trace in traces if trace.get("name") and trace.get("showlegend", True)]
    parts, left, row = [], 8.0, 0
    for trace in shown:
        name = text_of(trace["name"])
        wide = 34 + _LEGEND_SIGN_PX * len(name)
        if left + wide > width and left > 8:
            left, row = 8.0, row + 1
        middle = 14 + row * _LINE_PX
        parts.append(_sample(trace, left + 8, middle))
        parts.append(f'<text x="{left + 20:.1f}" y="{middle + 4}">{name}</text>')
        left += wide
    return "".join(parts), row + 1 if shown else 0


def _sample(trace: Mapping[str, Any], x: float, y: float) -> str:
    if trace.get("fill"):
        return f'<rect x="{x - 8:.1f}" y="{y - 5}" width="16" height="10" fill="{trace["fillcolor"]}"/>'
    if "markers" in trace["mode"]:
        marker = trace["marker"]
        symbols, colours = marker.get("symbol", "circle"), marker["color"]
        usual = max(set(symbols), key=symbols.count) if isinstance(symbols, list) else symbols
        return symbol_svg(usual, x, y, 8, colours if isinstance(colours, str) else colours[0])
    line = {**trace["line"], "shape": "linear"}
    return trace_svg(
        {"type": "scatter", "mode": "lines", "x": [x - 9, x + 9], "y": [y, y], "line": line}, _PIXELS, _PIXELS, 0.0, ""
    )


_PIXELS = Axis(0.0, 1.0, 0.0, 1.0, False, (), (), "", False)
"""An axis whose values are pixels."""


def _frame(x: Axis, y: Axis, is_filled: bool) -> Iterator[str]:
    """Grid, ticks and titles."""
    left, right, bottom, top = x.first_px, x.last_px, y.first_px, y.last_px
    skip, turn = _crowding(x)
    for i, (place, text) in enumerate(x.ticks):
        at = x.pixel(place)
        if not left - 1 <= at <= right + 1:
            continue
        if x.has_grid and not x.categories:
            yield f'<path d="M{at:.1f},{top:.1f}V{bottom:.1f}" class="grid"/>'
        if i % skip == 0:
            how = (
                f'text-anchor="end" transform="rotate(-30 {at:.1f} {bottom + 14:.1f})"'
                if turn
                else 'text-anchor="middle"'
            )
            yield f'<text x="{at:.1f}" y="{bottom + 17:.1f}" {how}>{text_of(text)}</text>'
    for place, text in y.ticks:
        at = y.pixel(place)
        if top - 1 <= at <= bottom + 1:
            if y.has_grid and not is_filled:
                yield f'<path d="M{left:.1f},{at:.1f}H{right:.1f}" class="grid"/>'
            yield f'<text x="{left - 8:.1f}" y="{at + 4:.1f}" text-anchor="end">{text_of(text)}</text>'
    yield f'<path d="M{left:.1f},{bottom:.1f}H{right:.1f}" class="axis"/>'
    if x.title:
        at = (left + right) / 2
        yield f'<text x="{at:.1f}" y="{bottom + 42:.1f}" text-anchor="middle" class="title">{text_of(x.title)}</text>'
    if y.title:
        middle = (top + bottom) / 2
        yield (
            f'<text x="14" y="{middle:.1f}" text-anchor="middle" class="title" '
            f'transform="rotate(-90 14 {middle:.1f})">{text_of(y.title)}</text>'
        )


def _crowding(x: Axis) -> tuple[int, bool]:
    """Each how manyeth tick is named, and whether the names are turned, so that none lies over another."""
    if len(x.ticks) < 2:
        return 1, False
    places = sorted(x.pixel(place) for place, _ in x.ticks)
    nearest = max(1.0, min(b - a for a, b in pairwise(places)))
    widest = 10 + _SIGN_PX * max(len(text) for _, text in x.ticks)
    if widest <= nearest:
        return 1, False
    return max(1, math.ceil(22 / nearest)), True


def _shapes(described: Mapping[str, Any], x: Axis, y: Axis) -> Iterator[str]:
    """Dotted lines across the plot."""
    for shape in described.get("shapes", ()):
        if shape.get("xref") == "paper":
            d = f"M{x.first_px:.1f},{y.at(shape['y0']):.1f}H{x.last_px:.1f}"
        else:
            d = f"M{x.at(shape['x0']):.1f},{y.last_px:.1f}V{y.first_px:.1f}"
        yield f'<path d="{d}" fill="none" stroke="{shape["line"]["color"]}" stroke-width="1.2" stroke-dasharray="2 3"/>'
