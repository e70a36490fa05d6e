"""Marks of a plot: points, lines, bars and cells as SVG, each with what is said of it when the pointer rests on it."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trimtab.report.axes import Axis
from trimtab.report.words import clean
from trimtab.units import format_figure

__all__ = ["cividis", "symbol_svg", "text_of", "trace_svg"]

_FIELD = re.compile(r"%{(\w+)(?::([^}]*))?}")
_HOLLOW = "-open"
_CIVIDIS = (
    "#00224e",
    "#123570",
    "#3b496c",
    "#575d6d",
    "#707173",
    "#8a8678",
    "#a59c74",
    "#c3b369",
    "#e1cc55",
    "#fee838",
)
_DASHES = {"dash": "7 4", "dot": "2 3"}


def text_of(text: object) -> str:
    """A figure's text (which has HTML's escapes and <br>) as it may stand in SVG."""
    plain = html.unescape(str(text).replace("<extra></extra>", "").replace("<br>", "\n"))
    return html.escape("\n".join(clean(line) for line in plain.split("\n")))


def _pick(value: Any, index: int) -> Any:
    """Of what is given once for all marks, or once for each."""
    return value[index] if isinstance(value, list | tuple) else value


def _said(trace: Mapping[str, Any], index: int, **values: Any) -> str:
    """The <title> of one mark, by the trace's hovertemplate. Forms are Python's; `figure` is that of `format_figure`."""
    template = trace.get("hovertemplate", "")
    if not template or trace.get("hoverinfo") == "skip":
        return ""
    known = {"x": "", "y": "", "text": _pick(trace.get("text", ""), index), **values}

    def fill(found: re.Match[str]) -> str:
        value, form = known[found[1]], found[2]
        if not form or isinstance(value, str):
            return str(value)
        return format_figure(value) if form == "figure" else format(value, form)

    return f"<title>{text_of(_FIELD.sub(fill, template))}</title>"


def symbol_svg(symbol: str, x: float, y: float, size: float, colour: str) -> str:
    """One marker; a shape for each role, so that they can be told apart without colour."""
    is_hollow, name, r = symbol.endswith(_HOLLOW), symbol.removesuffix(_HOLLOW), size / 2
    paint = f'fill="none" stroke="{colour}" stroke-width="1.6"' if is_hollow else f'fill="{colour}"'
    if name == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" {paint}/>'
    if name in ("x", "line-ew"):
        d = f"M{x - r:.1f},{y:.1f}h{2 * r:.1f}"
        if name == "x":
            d = f"M{x - r:.1f},{y - r:.1f}l{2 * r:.1f},{2 * r:.1f}m0,{-2 * r:.1f}l{-2 * r:.1f},{2 * r:.1f}"
        return f'<path d="{d}" fill="none" stroke="{colour}" stroke-width="2"/>'
    points = " ".join(f"{x + a * r:.1f},{y + b * r:.1f}" for a, b in _corners(name))
    return f'<polygon points="{points}" {paint}/>'


def _corners(name: str) -> list[tuple[float, float]]:
    """Of a shape in the square from -1 to 1; a circle around it has radius 1.1 or so."""
    if name == "square":
        return [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]
    if name == "triangle-down":
        return [(-1.1, -0.8), (1.1, -0.8), (0, 1.1)]
    if name == "triangle-up":
        return [(-1.1, 0.8), (1.1, 0.8), (0, -1.1)]
    if name == "diamond":
        return [(0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)]
    radii = (1.35, 0.55) * 5 if name == "star" else (1.15,) * 6
    turns = [(2 * math.pi * i / len(radii), radius) for i, radius in enumerate(radii)]
    return [(radius * math.sin(turn), -radius * math.cos(turn)) for turn, radius in turns]


def trace_svg(trace: Mapping[str, Any], x: Axis, y: Axis, shift: float, hatch: str) -> str:
    """All marks of one trace.

    Args:
        trace: of the figure.
        x, y: the axes.
        shift: in categories: how far its marks stand beside the place of their category.
        hatch: id of the pattern that bars of less weight are filled with.
    """
    if trace["type"] == "bar":
        return "".join(_bars(trace, x, y, hatch))
    if trace["type"] == "heatmap":
        return "".join(_cells(trace, x, y))
    points = [
        (x.at(a), y.pixel(y.place(b) + (shift if y.categories else 0.0)))
        for a, b in zip(trace["x"], trace["y"], strict=True)
    ]
    mode = trace.get("mode", "markers")
    parts = [_line(trace, points)] if "lines" in mode else []
    parts += _errors(trace, x, y, points)
    if "markers" in mode:
        parts += _points(trace, points)
    elif trace.get("hovertemplate"):  # a line's points are found by the pointer, too
        parts += [
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="7" fill="transparent">{_said(trace, i, y=trace["y"][i])}</circle>'
            for i, (a, b) in enumerate(points)
            if math.isfinite(a) and math.isfinite(b)
        ]
    return "".join(parts)


def _line(trace: Mapping[str, Any], points: Sequence[tuple[float, float]]) -> str:
    line = trace.get("line", {})
    seen = [(a, b) for a, b in points if math.isfinite(a) and math.isfinite(b)]
    if not seen:
        return ""
    if line.get("shape") == "hv":
        d = f"M{seen[0][0]:.1f},{seen[0][1]:.1f}" + "".join(f"H{a:.1f}V{b:.1f}" for a, b in seen[1:])
    else:
        d = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in seen)
    if trace.get("fill") == "toself":
        return f'<path d="{d}Z" fill="{trace["fillcolor"]}"/>'
    dash = f' stroke-dasharray="{_DASHES[line["dash"]]}"' if line.get("dash") in _DASHES else ""
    paint = f'stroke="{line["color"]}" stroke-width="{line.get("width", 2)}"{dash}'
    return f'<path d="{d}" fill="none" {paint} stroke-linejoin="round"/>'


def _points(trace: Mapping[str, Any], points: Sequence[tuple[float, float]]) -> Iterator[str]:
    marker = trace["marker"]
    for i, (a, b) in enumerate(points):
        if math.isfinite(a) and math.isfinite(b):
            drawn = symbol_svg(
                _pick(marker.get("symbol", "circle"), i),
                a,
                b,
                _pick(marker.get("size", 6), i),
                _pick(marker["color"], i),
            )
            # A larger area than the mark takes the pointer.
            area = f'<circle cx="{a:.1f}" cy="{b:.1f}" r="9" fill="transparent"/>'
            yield f"<g>{_said(trace, i, x=trace['x'][i], y=trace['y'][i])}{area}{drawn}</g>"


def _errors(trace: Mapping[str, Any], x: Axis, y: Axis, points: Sequence[tuple[float, float]]) -> Iterator[str]:
    for key, axis, values in (("error_x", x, trace["x"]), ("error_y", y, trace["y"])):
        bars: Mapping[str, Any] = trace.get(key) or {}
        for i, (a, b) in enumerate(points if bars else ()):
            low, high = values[i] - bars["arrayminus"][i], values[i] + bars["array"][i]
            first, last, cap = axis.at(low), axis.at(high), bars.get("width", 0)
            if not all(map(math.isfinite, (a, b, first, last))):
                continue
            if key == "error_x":
                d = f"M{first:.1f},{b:.1f}H{last:.1f}M{first:.1f},{b - cap:.1f}v{2 * cap}M{last:.1f},{b - cap:.1f}v{2 * cap}"
            else:
                d = f"M{a:.1f},{first:.1f}V{last:.1f}M{a - cap:.1f},{first:.1f}h{2 * cap}M{a - cap:.1f},{last:.1f}h{2 * cap}"
            opacity = 0.9 if cap else 0.5
            paint = f'stroke="{bars["color"]}" stroke-width="{bars.get("thickness", 1.5)}" opacity="{opacity}"'
            yield f'<path d="{d}" fill="none" {paint}/>'


def _bars(trace: Mapping[str, Any], x: Axis, y: Axis, hatch: str) -> Iterator[str]:
    height = abs(y.pixel(1) - y.pixel(0)) * 0.68
    marker, start = trace["marker"], x.at(max(0.0, x.low))
    patterns = marker.get("pattern", {}).get("shape", "")
    points = [(x.at(value), y.at(name)) for value, name in zip(trace["x"], trace["y"], strict=True)]
    for i, (end, middle) in enumerate(points):
        box = f'x="{start:.1f}" y="{middle - height / 2:.1f}" width="{max(0.0, end - start):.1f}" height="{height:.1f}" rx="2"'
        over = f'<rect {box} fill="url(#{hatch})"/>' if _pick(patterns, i) else ""
        said = _said(trace, i, x=trace["x"][i], y=trace["y"][i])
        yield f'<g>{said}<rect {box} fill="{_pick(marker["color"], i)}"/>{over}</g>'
    error = {**trace, "error_x": {**trace["error_x"], "color": "currentColor"}} if "error_x" in trace else trace
    yield from _errors(error, x, y, points)


def _cells(trace: Mapping[str, Any], x: Axis, y: Axis) -> Iterator[str]:
    flat = [z for row in trace["z"] for z in row if math.isfinite(z)]
    low, high = min(flat, default=0.0), max(flat, default=1.0)
    width, height = abs(x.pixel(1) - x.pixel(0)), abs(y.pixel(1) - y.pixel(0))
    for name_y, row in zip(trace["y"], trace["z"], strict=True):
        for name_x, z in zip(trace["x"], row, strict=True):
            if not math.isfinite(z):
                continue
            share = (z - low) / (high - low) if high > low else 0.5
            a, b, ink = x.at(name_x), y.at(name_y), "#fff" if share < 0.45 else "#14171b"
            box = f'x="{a - width / 2:.1f}" y="{b - height / 2:.1f}" width="{width + 0.5:.1f}" height="{height + 0.5:.1f}"'
            said = _said(trace, 0, x=name_x, y=name_y, z=z)
            label = f'<text x="{a:.1f}" y="{b + 4:.1f}" text-anchor="middle" style="fill:{ink}">{z:.2f}</text>'
            yield f'<g>{said}<rect {box} fill="{cividis(share)}"/>{label}</g>'


def cividis(share: float) -> str:
    """From blue to yellow: even steps of lightness, the same for people who do not tell red from green (Nunez 2018)."""
    place = min(max(share, 0.0), 1.0) * (len(_CIVIDIS) - 1)
    i = min(int(place), len(_CIVIDIS) - 2)
    mixed = (
        round(int(_CIVIDIS[i][k : k + 2], 16) * (1 - place + i) + int(_CIVIDIS[i + 1][k : k + 2], 16) * (place - i))
        for k in (1, 3, 5)
    )
    return "#" + "".join(f"{part:02x}" for part in mixed)
