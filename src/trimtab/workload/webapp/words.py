"""Words for generated texts: cut out of one long text, which is much faster than to draw them."""

from __future__ import annotations

from functools import cache

import numpy as np

__all__ = ["cuts"]

_LENGTH = 1 << 20
_LETTERS = np.frombuffer(b"etaoinshrdlucmfwypvbgk", dtype="u1")


@cache
def _text(seed: int) -> str:
    """A megabyte of made-up words of two to nine letters."""
    random = np.random.default_rng(seed)
    text = random.choice(_LETTERS, size=_LENGTH)
    ends = np.cumsum(random.integers(3, 11, size=_LENGTH // 3))
    text[ends[ends < _LENGTH]] = ord(" ")
    return text.tobytes().decode()


def cuts(random: np.random.Generator, lengths: np.ndarray, seed: int = 0) -> list[str]:
    """A text of each length, in characters: letters and spaces."""
    text = _text(seed)
    starts = random.integers(0, _LENGTH - int(lengths.max(initial=0)), size=len(lengths))
    return [text[start : start + length] for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)]
