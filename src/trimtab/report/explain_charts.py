"""The plots of what matters: importance, worth of each line, gain by number of settings, slices, pair interactions.

Knob values lie on the knob's own axis (its place in the unit cube), so that logarithmic ranges, special values and choices
all have the room that the search gave them; ticks name them as the target writes them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trimtab.importance import Consensus, Pair, Slice
from trimtab.report.charts import AMBER, BLUE, GREEN, GREY, Figure, error_bars, escape, layout, level, short_name
from trimtab.report.explain import Explanation
from trimtab.report.facts import Gain, LineWorth, PathPoint, interval_title, ratio_of
from trimtab.report.words import clean, counted
from trimtab.space import Knob, KnobKind, Space, Value
from trimtab.units import format_figure

__all__ = ["by_knobs", "explanation_figures", "worth_figure"]

_SHOWN = 15
"""Knobs in the plot of importance; the table has them all."""

_MAX_TICKS = 6


def explanation_figures(explanation: Explanation, times: str) -> dict[str, Figure]:
    """ "importance", "slice0", "slice1", ..., "pair0", ...: every figure there is data for; `times`: what gains are called."""
    if explanation.consensus is None or explanation.consensus.verdict:
        return {}
    # The share of the only knob says nothing: it is all of the effect.
    made = {"importance": _importance(explanation.consensus)} if len(explanation.consensus.knobs) > 1 else {}
    if explanation.space is not None:
        for i, cut in enumerate(explanation.slices):
            made[f"slice{i}"] = _slice(explanation.space, cut, times)
        for i, pair in enumerate(explanation.pairs):
            made[f"pair{i}"] = _pair(explanation.space, pair)
    return made


def _importance(consensus: Consensus) -> Figure:
    shown = consensus.knobs[:_SHOWN][::-1]
    is_worth = {entry.knob for entry in consensus.knobs[: consensus.knee]}
    named = _labels([entry.knob for entry in shown])
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": [named[entry.knob] for entry in shown],
        "x": [100 * entry.score for entry in shown],
        "error_x": error_bars(GREY, ((100 * e.score_low, 100 * e.score, 100 * e.score_high) for e in shown), cap=4),
        "marker": {
            "color": [GREEN if entry.knob in is_worth else GREY for entry in shown],
            # Told apart without colour as well.
            "pattern": {"shape": ["" if entry.knob in is_worth else "/" for entry in shown]},
        },
        "text": [f"rank {entry.rank:g} ({entry.rank_low:.0f} to {entry.rank_high:.0f})" for entry in shown],
        "textposition": "none",
        "hovertemplate": "%{y}: %{x:.1f} %, %{text}<extra></extra>",
        "showlegend": False,
    }
    made = layout("share of the effect seen (%), with 90 % interval", "", height=90 + 26 * len(shown))
    made["xaxis"] |= {"showgrid": True, "rangemode": "tozero"}
    return {"data": [trace], "layout": made}


def worth_figure(lines: Sequence[LineWorth], times: str) -> Figure | None:
    """Each line's worth without and alone; None when nothing was measured."""
    shown = [line for line in lines if line.without is not None or line.alone is not None][::-1]
    if not shown:
        return None
    sides = (("alone", "alone against yours", BLUE, "circle-open"), ("without", "with the others", GREEN, "circle"))
    traces, gains, named = [], list[Gain](), _labels([line.knob for line in shown])
    for key, name, colour, symbol in sides:
        rows = [(line.knob, gain) for line in shown if (gain := getattr(line, key)) is not None]
        gains += [gain for _, gain in rows]
        if rows:
            traces.append(_forest(name, colour, symbol, [(named[knob], gain) for knob, gain in rows]))
    made = layout(f"{times} with the setting as without it, with {interval_title(gains)}", "",
                  height=120 + 40 * len(shown), shapes=[_upright(1.0)])  # fmt: skip
    made["yaxis"] |= {"type": "category", "categoryarray": [named[line.knob] for line in shown]}
    made["xaxis"] |= {"showgrid": True}
    return {"data": traces, "layout": made}


def _forest(name: str, colour: str, symbol: str, rows: Sequence[tuple[str, Gain]]) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "y": [label for label, _ in rows],
        "x": [gain.estimate for _, gain in rows],
        "error_x": _errors([gain for _, gain in rows], colour),
        "text": [gain.short_text for _, gain in rows],
        "hovertemplate": f"%{{y}} {name}: %{{text}}<extra></extra>",
        "marker": {"symbol": symbol, "size": 11, "color": colour, "line": {"width": 2, "color": colour}},
    }


def _errors(gains: Sequence[Gain], colour: str) -> Figure:
    """No bar where one end is unknown: half of one would look like an interval."""
    ends = ((g.low, g.estimate, g.high) if g.range_text else (math.nan, g.estimate, math.nan) for g in gains)
    return error_bars(colour, ends, cap=4)


def _upright(x: float) -> Figure:
    line = {"color": GREY, "width": 1, "dash": "dot"}
    return {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": x, "x1": x, "line": line}


def by_knobs(points: Sequence[PathPoint], times: str) -> Figure | None:
    """The gain by number of settings."""
    if len(points) < 3:
        return None
    gains = [point.gain for point in points]
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [point.n_knobs for point in points],
        "y": [gain.estimate for gain in gains],
        "error_y": _errors(gains, BLUE),
        "text": [_hover(point) for point in points],
        "hovertemplate": "%{text}<extra></extra>",
        "line": {"color": BLUE, "width": 1.5},
        "marker": {
            "size": [13 if point.is_winner else 8 for point in points],
            "symbol": ["star" if point.is_winner else "circle" for point in points],
            "color": [GREEN if point.is_winner else BLUE for point in points],
        },
        "showlegend": False,
    }
    made = layout(
        "number of settings changed (star: the config above)", f"{times} as yours", height=300, shapes=[level(1.0)]
    )
    made["xaxis"] |= {"tickformat": "d", "nticks": min(12, points[-1].n_knobs + 1), "rangemode": "tozero"}
    return {"data": [trace], "layout": made}


def _hover(point: PathPoint) -> str:
    if not point.n_knobs:
        return "your config"
    names = "<br>".join(escape(knob) for knob in point.knobs[:12])
    more = f"<br>and {len(point.knobs) - 12} more" if len(point.knobs) > 12 else ""
    return (
        f"{counted(point.n_knobs, 'setting')}: {point.gain.short_text}, {counted(point.n_runs, 'run')}<br>{names}{more}"
    )


def _places(space: Space, knob: str, values: Sequence[Value]) -> list[float]:
    """Where values lie on the knob's axis, from 0 to 1."""
    index = list(space.knobs).index(knob)
    base = space.default()
    return [float(space.encode(base.replace({knob: value}))[index]) for value in values]


def _ticks(space: Space, knob: str) -> Mapping[str, Any]:
    """Round values of a number that are legal (and its special ones), every value of a choice."""
    described = space.knobs[knob]
    values: list[Value] = (
        list(dict.fromkeys([*described.special, *map(described.clip, _round(described))]))
        if described.is_numeric
        else list(space.levels(knob))
    )
    return {"tickvals": _places(space, knob, values), "ticktext": _tick_texts(space, knob, values)}


def _round(knob: Knob) -> list[int | float]:
    """At most about six round values inside a number's range: powers of two on a logarithmic axis, else 1, 2, 5, ..."""
    low, high = float(knob.low or 0), float(knob.high or 0)
    if knob.log and low > 0:
        first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
        every = max(1, math.ceil((last - first) / _MAX_TICKS))
        found = [2.0**exponent for exponent in range(first, last + 1, every)]
    else:
        rough = (high - low) / _MAX_TICKS
        scale = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
        step = next((scale * m for m in (1, 2, 5) if scale * m >= rough), scale * 10)
        step = max(step, 1.0) if knob.kind is KnobKind.INTEGER else step
        found = [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    whole = knob.kind is KnobKind.INTEGER
    return [round(value) if whole else value for value in found if not whole or value == round(value)]


def _tick_texts(space: Space, knob: str, values: Sequence[Value]) -> list[str]:
    """Of values of one knob, with as many digits as tell them apart."""
    texts = list[str]()
    for digits in range(3, 18):
        texts = [escape(clean(_tick_text(space, knob, value, digits))) for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def _tick_text(space: Space, knob: str, value: Value, digits: int) -> str:
    if isinstance(value, float) and not space.knobs[knob].unit:
        return format_figure(value, digits)
    return space.knobs[knob].format(value)


def _slice(space: Space, cut: Slice, times: str) -> Figure:
    places, own = _places(space, cut.knob, cut.values), _places(space, cut.knob, [p[0] for p in cut.points])
    order = sorted(range(len(places)), key=places.__getitem__)
    x = [places[i] for i in order]
    mean, low, high = ([ratio_of(side[i]) for i in order] for side in (cut.mean, cut.high, cut.low))
    is_ordered = space.knobs[cut.knob].is_numeric
    band = {
        "type": "scatter", "mode": "lines", "name": "90 % interval", "x": [*x, *x[::-1]], "y": [*high, *low[::-1]],
        "fill": "toself", "fillcolor": "rgba(59,130,196,0.22)", "line": {"width": 0}, "hoverinfo": "skip",
    }  # fmt: skip
    curve = {
        "type": "scatter", "mode": "lines" if is_ordered else "markers", "name": "expected", "x": x, "y": mean,
        "line": {"color": BLUE, "width": 2.5}, "marker": {"color": BLUE, "size": 11, "symbol": "line-ew-open"},
        "hovertemplate": "expected: %{y:.2f} times<extra></extra>",
    }  # fmt: skip
    if not is_ordered:
        band = {}
        curve["error_y"] = {"type": "data", "array": [h - m for h, m in zip(high, mean, strict=True)],
                            "arrayminus": [m - b for m, b in zip(mean, low, strict=True)], "color": BLUE}  # fmt: skip
    raw = {
        "type": "scatter", "mode": "markers", "name": "measured", "x": own, "y": [ratio_of(loss) for _, loss in cut.points],
        "text": _tick_texts(space, cut.knob, [value for value, _ in cut.points]),
        "marker": {"color": AMBER, "size": 6, "symbol": "circle-open"},
        "hovertemplate": "%{text}: %{y:.2f} times<extra></extra>",
    }  # fmt: skip
    unit = space.knobs[cut.knob].unit
    named = f"{short_name(cut.knob)}{f' ({unit})' if unit and not _has_unit_in_ticks(unit) else ''}"
    made = layout(named, f"{times} as yours", height=300, shapes=[level(1.0)])
    made["xaxis"] |= {**_ticks(space, cut.knob), "range": [-0.04, 1.04]}
    return {"data": [trace for trace in (band, raw, curve) if trace], "layout": made}


def _has_unit_in_ticks(unit: str) -> bool:
    """Sizes and times are written with their unit at every tick."""
    return any(letter.isalpha() for letter in unit)


def _pair(space: Space, pair: Pair) -> Figure:
    gains = [[ratio_of(loss) for loss in row] for row in zip(*pair.loss, strict=True)]
    trace = {
        "type": "heatmap",
        "x": _tick_texts(space, pair.first, pair.first_values),
        "y": _tick_texts(space, pair.second, pair.second_values),
        "z": gains,
        "colorscale": "Cividis",
        "texttemplate": "%{z:.2f}",
        "hovertemplate": "%{x}, %{y}: %{z:.2f} times<extra></extra>",
        "colorbar": {"title": {"text": "times", "side": "right"}, "thickness": 12},
    }
    made = layout(short_name(pair.first), short_name(pair.second), height=320)
    made["xaxis"] |= {"type": "category"}
    made["yaxis"] |= {"type": "category"}
    return {"data": [trace], "layout": made}


def _labels(knobs: Sequence[str]) -> dict[str, str]:
    """Short names by which the rows of a plot are known: each knob its own."""
    short = {knob: short_name(knob) for knob in knobs}
    n_knobs = Counter(short.values())
    return {knob: text if n_knobs[text] == 1 else escape(clean(knob)) for knob, text in short.items()}
