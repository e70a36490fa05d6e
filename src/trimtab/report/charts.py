"""The plots of the HTML report as plain values: traces and a layout in the terms of Plotly's figures, which `svg` draws.

Labels are HTML-escaped; <br> in them is a new line.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trimtab.measure.histogram import decode_histogram, merge_histograms
from trimtab.records import Status, Trial
from trimtab.report.summary import Summary
from trimtab.report.words import clean, counted, number_text

__all__ = [
    "AMBER",
    "BLUE",
    "GREEN",
    "GREY",
    "RED",
    "VIOLET",
    "Figure",
    "error_bars",
    "escape",
    "figures",
    "layout",
    "level",
    "short_name",
]

Figure = dict[str, Any]

# Middle tones that stand out from white and from near-black alike; told apart without colour by symbol and dash too.
BLUE, GREEN, AMBER, RED, GREY, VIOLET = "#3b82c4", "#2a9d6f", "#d08a1d", "#d1495b", "#8a8f98", "#8a63d2"

_ROLE_MARKS: Mapping[str, tuple[str, str]] = {
    "baseline": ("diamond-open", GREY),
    "proof baseline": ("diamond", GREY),
    "advice": ("star", VIOLET),
    "proof advice": ("star", VIOLET),
    "play": ("triangle-up", BLUE),
    "search": ("circle", BLUE),
    "design": ("circle", BLUE),
    "repeat": ("square", BLUE),
    "ablation": ("hexagon-open", AMBER),
    "proof candidate": ("circle", GREEN),
    "bench": ("circle", GREY),
}
_PERCENTILES = (0, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 92.5, 95, 97, 98, 99, 99.5, 99.8, 99.9, 99.95, 99.99)


def figures(summary: Summary, before: Sequence[Trial], after: Sequence[Trial]) -> dict[str, Figure]:
    """Every figure there is data for, by name: "progress", "drift", "pairs", "latency"."""
    made = {
        "progress": _progress(summary),
        "drift": _drift(summary),
        "pairs": _pairs(summary),
        "latency": _latency(summary.after_name, before, after),
    }
    return {name: figure for name, figure in made.items() if figure is not None}


def layout(x: str, y: str, **more: Any) -> Figure:
    """A plot's layout with those axis titles; `more` replaces or adds keys."""
    axis = {"zeroline": False, "automargin": True}
    made = {
        "xaxis": {**axis, "title": {"text": x}, "showgrid": False, **more.pop("xaxis", {})},
        "yaxis": {**axis, "title": {"text": y}, **more.pop("yaxis", {})},
        "margin": {"l": 56, "r": 16, "t": 12, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "inherit", "size": 13},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
        "height": 360,
    }
    return {**made, **more}


def _progress(summary: Summary) -> Figure | None:
    rows = [row for row in summary.rows if row.gain is not None]
    if not rows:
        return None
    traces = [
        _trial_trace(role, [row for row in rows if row.role == role]) for role in dict.fromkeys(r.role for r in rows)
    ]
    traces.append(_best_line(summary))
    failed = [row for row in summary.rows if row.gain is None]
    if failed:
        lowest = min(row.gain.estimate for row in rows if row.gain is not None)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "failed",
                "x": [row.number for row in failed],
                # Without a value of their own they stand on the floor of the plot.
                "y": [lowest * 0.97] * len(failed),
                "text": [escape(f"{row.status.replace('_', ' ')}: {row.reason}") for row in failed],
                "hovertemplate": "trial %{x}<br>%{text}<extra></extra>",
                "marker": {"symbol": "x", "size": 9, "color": RED},
            }
        )
    made = layout("trial", f"{summary.times} as yours", shapes=[level(1.0)], yaxis=_trial_range(rows))
    made["xaxis"] |= {"tickformat": "d"}
    return {"data": traces, "layout": made}


def _trial_range(rows: Sequence[Any]) -> Figure:
    """An axis on which the trials can be told apart, however wide the intervals of some are."""
    largest = max(row.gain.estimate for row in rows)
    widest = max((row.gain.high for row in rows if math.isfinite(row.gain.high)), default=largest)
    return {"range": [0, 2 * largest]} if widest > 2 * largest > 0 else {}


def level(y: float) -> Figure:
    """A dotted line across the plot."""
    line = {"color": GREY, "width": 1, "dash": "dot"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def _trial_trace(role: str, rows: Sequence[Any]) -> Figure:
    symbol, colour = _ROLE_MARKS.get(role, ("circle", GREY))
    gains = [row.gain for row in rows]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": role,
        "x": [row.number for row in rows],
        "y": [gain.estimate for gain in gains],
        "error_y": error_bars(colour, ((gain.low, gain.estimate, gain.high) for gain in gains)),
        "text": [_hover(row) for row in rows],
        "hovertemplate": "trial %{x}: %{text}<extra></extra>",
        "marker": {
            "size": 8,
            "color": colour,
            "symbol": ["triangle-down-open" if row.status is Status.STOPPED_EARLY else symbol for row in rows],
        },
    }


def _hover(row: Any) -> str:
    changed = "<br>".join(escape(f"{knob} = {value}") for knob, value in row.changed.items())
    return f"{row.gain.short_text}, {escape(row.status.replace('_', ' '))}<br>{changed}"


def _best_line(summary: Summary) -> Figure:
    numbers, best, so_far = [], [], -math.inf
    for row in summary.rows:
        if row.is_feasible and row.gain is not None:
            so_far = max(so_far, row.gain.estimate)
        if math.isfinite(so_far):
            numbers.append(row.number)
            best.append(so_far)
    line = {"shape": "hv", "color": GREEN, "width": 1.5}
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "best so far",
        "x": numbers,
        "y": best,
        "line": line,
        "hoverinfo": "skip",
    }


def _drift(summary: Summary) -> Figure | None:
    points = summary.drift.points
    if len(points) < 2:
        return None
    values = [point[2] for point in points]
    mean = sum(values) / len(values)
    # Contexts of a cycle are of different speed: a line from one to the next, and their mean, would look like drift.
    is_mixed = summary.drift.n_contexts > 1
    mode, shapes = ("markers", []) if is_mixed else ("lines+markers", [level(mean)])
    trace = {
        "type": "scatter",
        "mode": mode,
        "x": [point[1] / 60 for point in points],
        "y": values,
        "error_y": error_bars(GREY, ((low, value, high) for _, _, value, low, high in points)),
        "text": [f"trial {point[0]}" for point in points],
        "hovertemplate": "%{text}: %{y:figure}<extra></extra>",
        "line": {"color": GREY, "width": 1},
        "marker": {"symbol": "diamond", "size": 8, "color": BLUE},
        "showlegend": False,
    }
    axis = summary.metric_text.replace("_", " ")
    made = layout("minutes since the study began", axis, shapes=shapes, height=300)
    return {"data": [trace], "layout": made}


def _pairs(summary: Summary) -> Figure | None:
    if not summary.pairs:
        return None
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": ["yours", summary.after_name],
            "y": list(pair),
            "line": {"color": GREEN if summary.result == "better" else AMBER, "width": 1.5},
            "marker": {"size": 8, "color": [GREY, GREEN if summary.result == "better" else AMBER]},
            "hovertemplate": f"pair {index}: %{{y:figure}}<extra></extra>",
            "showlegend": False,
        }
        for index, pair in enumerate(summary.pairs, start=1)
    ]
    axis = summary.metric_text.replace("_", " ")
    made = layout("", axis, height=300, xaxis={"range": [-0.3, 1.3]}, yaxis={"rangemode": "tozero"})
    return {"data": traces, "layout": made}


def _latency(after_name: str, before: Sequence[Trial], after: Sequence[Trial]) -> Figure | None:
    sides = (("yours", GREY, "dash", before), (after_name, GREEN, "solid", after))
    traces = [
        trace
        for name, colour, dash, trials in sides
        if (trace := _percentile_curve(name, colour, dash, trials)) is not None
    ]
    if not traces:
        return None
    ticks = [0, 50, 75, 90, 95, 99, 99.9, 99.99]
    xaxis = {"tickvals": [_rank(tick) for tick in ticks], "ticktext": [f"{tick:g}" for tick in ticks], "showgrid": True}
    marks = _log_ticks([y for trace in traces for y in trace["y"]])
    ends = [math.log10(marks[0]), math.log10(marks[-1])]
    yaxis = {"type": "log", "tickvals": marks, "ticktext": [number_text(mark) for mark in marks], "range": ends}
    return {"data": traces, "layout": layout("percentile", "latency (ms)", xaxis=xaxis, yaxis=yaxis)}


def _log_ticks(values: Sequence[float]) -> list[float]:
    """1, 2, 5, 10, ... from the last below the positive ones of `values` to the first above them."""
    positive = [value for value in values if value > 0] or [1.0]
    first, last = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    marks = [mantissa * 10.0**exponent for exponent in range(first, last + 1) for mantissa in (1, 2, 5)]
    lowest = max(mark for mark in marks if mark <= min(positive) * (1 + 1e-9))
    highest = min(mark for mark in marks if mark > lowest and mark >= max(positive) * (1 - 1e-9))
    return [mark for mark in marks if lowest <= mark <= highest]


def _rank(percentile: float) -> float:
    """Position on the axis: each nine of the percentile takes the same width."""
    return -math.log10(1 - percentile / 100)


def _percentile_curve(name: str, colour: str, dash: str, trials: Iterable[Trial]) -> Figure | None:
    merged = merge_histograms(t.measurement.histogram for t in trials if t.measurement is not None)
    if not merged:
        return None
    histogram = decode_histogram(merged)
    n = len(histogram)
    # A percentile that less than one operation lies beyond would only repeat the maximum.
    shown = [percentile for percentile in _PERCENTILES if n * (1 - percentile / 100) >= 1]
    latencies_ms = [histogram.percentile(percentile) / 1000 for percentile in shown]
    texts = [f"p{percentile:g}: {number_text(ms)} ms" for percentile, ms in zip(shown, latencies_ms, strict=True)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{name} ({counted(n, 'operation')})",
        "x": [_rank(percentile) for percentile in shown],
        "y": latencies_ms,
        "text": texts,
        "hovertemplate": f"{name}, %{{text}}<extra></extra>",
        "line": {"color": colour, "width": 2.5, "dash": dash},
    }


def error_bars(colour: str, ends: Iterable[tuple[float, float, float]], *, cap: int = 0) -> Figure:
    """From low to high through each value (low, value, high); nothing on a side that is unknown. `cap`: half of a bar's end."""
    sides = [(_length(high - value), _length(value - low)) for low, value, high in ends]
    return {
        "type": "data",
        "array": [above for above, _ in sides],
        "arrayminus": [below for _, below in sides],
        "thickness": 1.5 if cap else 1,
        "width": cap,
        "color": colour,
    }


def _length(value: float) -> float:
    """Of an error bar: 0 when it is unknown."""
    return max(0.0, value) if math.isfinite(value) else 0.0


def short_name(name: str) -> str:
    """A name without its middle where it is too long for a plot, escaped."""
    text = clean(name)
    return escape(text if len(text) <= 40 else f"{text[:18]}...{text[-19:]}")


def escape(text: str) -> str:
    """`text` as it is shown letter by letter."""
    return html.escape(text, quote=False)
