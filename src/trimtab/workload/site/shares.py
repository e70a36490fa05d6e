"""How often browsers come to each state in the long run: from the transition table alone, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trimtab.workload.site.file import BACK, END

__all__ = ["session_pages", "stationary_shares"]

# Notation: P[s, t] goes on from s to t, b[s] goes back, each row normalised; what is left ends the session.
# Whoever goes on keeps the page that was left, and going back pops it. For one who has come to s by going on:
#   g[s]     it goes back below s at last      g = b + (P g) g         (after a return to s all begins anew)
#   V[s, k]  visits of k before that           V = I + P V + (P g) V
# g is the least solution: the iteration from 0 rises to it. A session begins with nothing below its start, so that a step
# back from there ends it as well; its expected visits are the row V[start], and the shares that row over its sum.

_LEAK = 1e-9
"""Chance of each step to end the session, so that endless ones have a mean too."""

_STEPS = 100_000
_CLOSE = 1e-15


def stationary_shares(
    table: Mapping[str, Mapping[str, float]], start: str, *, is_literal: bool = False
) -> dict[str, float]:
    """State -> share of all interactions, when each session begins at `start`.

    Rows whose weights do not add up to 1 are normalised; with `is_literal` they are walked along in their order: what lies beyond
    1 never comes, and where the sum is less the same state comes again.

    Sessions that only a number of interactions or a time ends count as endless.
    """
    visits = _visits_of(_frozen(table), start, is_literal)
    whole = sum(n for _, n in visits)
    return {name: n / whole for name, n in visits}


def session_pages(table: Mapping[str, Mapping[str, float]], start: str, *, is_literal: bool = False) -> float:
    """Mean number of interactions of a session, as its table ends it; a thousand million where that never does."""
    return sum(n for _, n in _visits_of(_frozen(table), start, is_literal))


_Rows = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]


def _frozen(table: Mapping[str, Mapping[str, float]]) -> _Rows:
    return tuple((name, tuple(weights.items())) for name, weights in table.items())


@lru_cache(maxsize=64)
def _visits_of(rows: _Rows, start: str, is_literal: bool) -> tuple[tuple[str, float], ...]:
    """State -> mean visits in a session. Once for a table: it takes up to a second, where sessions go to and fro for long, and
    every trial asks for it."""
    names = [name for name, _ in rows]
    place = {name: i for i, name in enumerate(names)}
    onward, back = np.zeros((len(names), len(names))), np.zeros(len(names))
    for name, weights in rows:
        row = _cut(name, dict(weights)) if is_literal else dict(weights)
        whole = sum(row.values()) * (1.0 + _LEAK)
        for to, weight in row.items():
            if to == BACK:
                back[place[name]] += weight / whole
            elif to != END:
                onward[place[name], place[to]] += weight / whole
    visits = _visits(onward, _returns(onward, back))[place[start]]
    return tuple(zip(names, map(float, visits), strict=True))


def _cut(name: str, weights: Mapping[str, float]) -> dict[str, float]:
    """The row of state `name` as it is walked along: up to a sum of 1, to which the state itself makes it up."""
    row, left = dict[str, float](), 1.0
    for to, weight in weights.items():
        row[to] = min(weight, left)
        left -= row[to]
    row[name] = row.get(name, 0.0) + left
    return row


def _returns(onward: NDArray[np.float64], back: NDArray[np.float64]) -> NDArray[np.float64]:
    returns = np.zeros_like(back)
    for _ in range(_STEPS):
        following = back / (1.0 - np.minimum(onward @ returns, 1.0 - 1e-12))
        if np.abs(following - returns).max() < _CLOSE:
            break
        returns = following
    return returns


def _visits(onward: NDArray[np.float64], returns: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.linalg.inv(np.diag(1.0 - onward @ returns) - onward).astype(np.float64)
