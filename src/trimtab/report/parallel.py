"""Parallel coordinates: every measured config as a line over the axes of the knobs that go with the gain, the best ones on top.

A knob's axis is its own (its place in the unit cube), so logarithmic ranges, special values and choices have the room that the
search gave them.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trimtab.errors import TrimtabError
from trimtab.records import Objective, Trial, in_hindsight
from trimtab.report.charts import GREEN, Figure, short_name
from trimtab.report.facts import ratio_of
from trimtab.report.headline import times_of
from trimtab.report.marks import cividis, text_of
from trimtab.report.words import ratio_text

if TYPE_CHECKING:
    from trimtab.history import StudyRecord

__all__ = ["parallel_figure", "parallel_svg"]

_MOST_KNOBS = 8
_MOST_LINES = 300
_BEST_SHARE = 0.2
"""Of the lines that are drawn, those that are the best ones; the others are taken evenly."""
_LEAST_CONFIGS = 5
_HEIGHT = 340
_SIGN_PX = 6.8
"""Width of a letter, on average."""


def parallel_figure(study: StudyRecord, trials: Sequence[Trial]) -> Figure | None:
    """The lines of the best trials and of others between, the worst first; None where fewer than five configs were measured."""
    import numpy as np

    from trimtab.history import read_space

    trials = in_hindsight(Objective.parse(study.objective), trials)
    seen = [trial for trial in trials if trial.is_feasible and trial.loss is not None and math.isfinite(trial.loss)]
    if len({trial.config for trial in seen}) < _LEAST_CONFIGS:
        return None
    ranked = sorted(seen, key=lambda trial: trial.loss or 0.0)
    n_best = int(_BEST_SHARE * _MOST_LINES)
    rest = ranked[n_best:]
    step = max(1, -(-len(rest) // (_MOST_LINES - n_best)))
    shown = [*ranked[:n_best], *rest[::step]][::-1]
    try:
        space = read_space(study)
        points = np.array([space.encode(trial.config) for trial in shown])
        ends = space.decode_many(np.array([np.zeros(space.n_dims), np.ones(space.n_dims)]))
    except TrimtabError:  # an imported study whose trials lie beyond its space
        return None
    losses = np.array([trial.loss for trial in shown])
    spread = points.std(axis=0)
    strength = np.abs(((points - points.mean(axis=0)) * (losses - losses.mean())[:, None]).mean(axis=0))
    order = np.argsort(-strength / np.where(spread > 0, spread, np.inf), kind="stable")
    chosen = [int(i) for i in order if spread[i] > 0][:_MOST_KNOBS]
    knobs = list(space.knobs.values())
    axes = [{"name": knobs[i].name, "ends": [knobs[i].format(end[knobs[i].name]) for end in ends]} for i in chosen]
    lines = [
        {"gain": ratio_of(trial.loss or 0.0), "number": trial.number, "role": str(trial.role),
         "places": points[row, chosen].tolist()}
        for row, trial in enumerate(shown)
    ]  # fmt: skip
    return {"parallel": {"axes": axes, "lines": lines, "times": times_of(study)}} if len(chosen) > 1 else None


def parallel_svg(name: str, figure: Mapping[str, Any], width: int) -> str:
    """One <svg> element."""
    axes, lines = figure["parallel"]["axes"], figure["parallel"]["lines"]
    left, right, top, bottom = 60.0, width - 60.0, 34.0, _HEIGHT - 52.0
    places = [left + (right - left) * i / (len(axes) - 1) for i in range(len(axes))]
    label = f"{len(lines)} configs as lines over {len(axes)} knobs, coloured by gain, the best in green"
    drawn = [
        _line(
            {**line, "times": figure["parallel"]["times"]},
            i,
            len(lines),
            [(x, bottom - (bottom - top) * y) for x, y in zip(places, line["places"], strict=True)],
        )
        for i, line in enumerate(lines)
    ]
    frame = [
        _axis(axis, x, (top, bottom), width, is_low=i % 2 == 1)
        for i, (axis, x) in enumerate(zip(axes, places, strict=True))
    ]
    return (
        f'<svg viewBox="0 0 {width} {_HEIGHT}" role="img" font-size="12" id="{name}-lines" '
        f'style="max-width:{1.25 * width:.0f}px" aria-label="{text_of(label)}">{"".join(drawn)}{"".join(frame)}</svg>'
    )


def _line(line: Mapping[str, Any], i: int, n: int, points: Sequence[tuple[float, float]]) -> str:
    """The darker, the slower; by rank, because a few bad configs would else leave one colour to all others."""
    is_best = i == n - 1
    d = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    colour, thick, opacity = (GREEN, 3.0, 1.0) if is_best else (cividis(i / max(1, n - 1)), 1.1, 0.65)
    said = f"trial {line['number']} ({line['role'].replace('_', ' ')}): {ratio_text(line['gain'])} {line['times']}"
    paint = f'fill="none" stroke="{colour}" stroke-width="{thick}" opacity="{opacity}"'
    return f'<path d="{d}" {paint}><title>{text_of(said)}</title></path>'


def _axis(axis: Mapping[str, Any], x: float, ends_px: tuple[float, float], width: int, *, is_low: bool) -> str:
    """Names stand in two rows, so that long ones do not lie over each other."""
    top, bottom = ends_px
    low, high = axis["ends"]
    return (
        f'<path d="M{x:.1f},{top:.1f}V{bottom:.1f}" class="axis" stroke="currentColor" stroke-opacity=".6"/>'
        + _text(high, x, top - 8, width, ' class="title"')
        + _text(low, x, bottom + 15, width, ' class="title"')
        + _text(axis["name"], x, bottom + (46 if is_low else 31), width)
    )


def _text(text: str, x: float, y: float, width: int, paint: str = "") -> str:
    """Under the middle of what it names, or as near to it as the edges of the plot let it."""
    shown = short_name(text)
    half = min(_SIGN_PX * len(html.unescape(shown)), width) / 2
    middle = min(max(x, half), width - half)
    return f'<text x="{middle:.1f}" y="{y:.1f}" text-anchor="middle"{paint}>{text_of(shown)}</text>'
