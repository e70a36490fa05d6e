"""Knee: how many knobs are worth tuning, by the shape of the curve of their scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["knee_of"]

_MOST = 20
"""The curve is looked at over so many knobs: nobody applies more, and a long tail of noise would push the knee back."""


def knee_of(scores: Sequence[float]) -> int:
    """How many of the knobs with `scores` (most important first) lie before the knee of the cumulative curve.

    The knee is the point of the curve farthest above the straight line between its ends, over the first 20 knobs: up to
    it every knob adds more than the average of them. All knobs where all add the same; 0 when no knob has any score.

    Source: V. Satopää et al., "Finding a 'Kneedle' in a Haystack", ICDCS Workshops 2011, §III.
    """
    curve = np.cumsum([0.0, *sorted(scores, reverse=True)[:_MOST]])
    if curve[-1] <= 0.0:
        return 0
    above = curve - np.linspace(0.0, curve[-1], len(curve))
    # Of equally far points the first, but never none.
    knee = int(np.argmax(np.round(above, 12)))
    return knee or len(curve) - 1
