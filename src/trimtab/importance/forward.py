"""Forward regression: few knobs, their squares and their products, chosen one after another.

| symbol | meaning |
| --- | --- |
| n, d | samples, knobs |
| block | the columns of one knob, or of the product of two, that enter the model together |
| rss | weighted residual sum of squares |

Source: H. Wang, "Forward Regression for Ultra-High Dimensional Variable Screening", JASA 104 (2009): every step takes
what explains most of what the steps before left, so effects much smaller than the largest are found. Stopped by the
extended BIC (J. Chen, Z. Chen, Biometrika 95, 2008, eq. 1 with gamma = 1), which counts how many blocks were to choose
from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.importance.samples import Samples, is_flat

__all__ = ["Block", "SparseModel", "blocks_of", "fit_sparse", "forward_order", "knob_columns"]

Array = NDArray[np.float64]

_RIDGE = 1e-6
"""Relative to a column's own length: what is nearly a sum of chosen columns gains nothing."""
_MOST_TERMS = 25
"""Blocks of a model; the criterion stops far earlier unless there is very much data."""
_PAIR_KNOBS = 10
"""Products are looked for among so many knobs: those chosen and those that come next."""
_MOST_PRODUCT_COLUMNS = 4
_SHARE_OF_ROWS = 0.4
"""Columns of a model are at most this share of the samples."""


@dataclass(frozen=True, slots=True)
class Block:
    """Columns that enter together: of one knob, or the products of two."""

    knobs: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]
    """Each column is the product of these columns of `knob_columns`."""


def knob_columns(samples: Samples) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The columns of the polynomials: (p, 2) feature and degree of each, and (p,) the knob of each.

    Legendre polynomials of degree 1 and 2 of what varies gradually among the samples; indicators as they are.
    """
    columns = [(f, degree) for f, most in enumerate(samples.degrees) for degree in range(1, int(most) + 1)]
    found = np.array(columns, dtype=np.int64).reshape(-1, 2)
    return found, samples.owner[found[:, 0]]


def _values(x: Array, columns: NDArray[np.int64]) -> Array:
    """(m, p) the columns at features (m, f)."""
    t = 2.0 * x[:, columns[:, 0]] - 1.0
    return np.where(columns[:, 1] == 2, 1.5 * t**2 - 0.5, t)


def blocks_of(owner: NDArray[np.int64]) -> list[Block]:
    """For each knob its first column alone and all its columns."""
    blocks = []
    for knob in np.unique(owner):
        own = [int(i) for i in np.flatnonzero(owner == knob)]
        blocks.append(Block((int(knob),), ((own[0],),)))
        if len(own) > 1:
            blocks.append(Block((int(knob),), tuple((i,) for i in own)))
    return blocks


def _products(owner: NDArray[np.int64], knobs: Sequence[int]) -> list[Block]:
    """For each pair of knobs the product of their first columns alone, and of all their columns where they are few."""
    blocks = []
    for place, first in enumerate(knobs):
        for second in knobs[place + 1 :]:
            own = [(int(i), int(j)) for i in np.flatnonzero(owner == first) for j in np.flatnonzero(owner == second)]
            blocks.append(Block((first, second), (own[0],)))
            if 1 < len(own) <= _MOST_PRODUCT_COLUMNS:
                blocks.append(Block((first, second), tuple(own)))
    return blocks


def _matrix(columns: Array, part: tuple[int, ...]) -> Array:
    """(n, 1) the product of some columns."""
    return np.asarray(np.prod(columns[:, list(part)], axis=1, keepdims=True))


class _Search:
    """The state of one forward search: cross products of all columns and the loss, freed of what was chosen.

    It lives on the cross products, so a step costs the same however many samples there are.

    Args:
        columns: (n, c) what may be chosen; see `parts`.
        parts: of which columns of `knob_columns` each is the product.
        y, weights: (n,).
    """

    def __init__(self, columns: Array, parts: Sequence[tuple[int, ...]], y: Array, weights: Array) -> None:
        root = np.sqrt(weights / weights.mean())
        mean = np.average(np.column_stack([columns, y]), axis=0, weights=weights)
        free = root[:, None] * (np.column_stack([columns, y, np.zeros(len(y))]) - np.append(mean, 0.0))
        self.n = int(np.count_nonzero(weights))
        self.chosen: list[Block] = []
        # The loss is the last column but one; the last, all zero, fills up narrow blocks.
        self._cross = free.T @ free
        self._y, self._zero = len(parts), len(parts) + 1
        self._place = {part: i for i, part in enumerate(parts)}

    @property
    def rss(self) -> float:
        return max(float(self._cross[self._y, self._y]), 1e-300)

    @property
    def n_columns(self) -> int:
        return sum(len(block.columns) for block in self.chosen)

    def places(self, blocks: Sequence[Block]) -> NDArray[np.int64]:
        """(b, k) where the blocks' columns are."""
        found = np.full((len(blocks), max(len(block.columns) for block in blocks)), self._zero)
        for row, block in enumerate(blocks):
            found[row, : len(block.columns)] = [self._place[part] for part in block.columns]
        return found

    def gains(self, places: NDArray[np.int64]) -> Array:
        """(b,) by how much each block would lower the rss."""
        gram = self._cross[places[:, :, None], places[:, None, :]] + _RIDGE * self.n * np.eye(places.shape[1])
        aims = self._cross[places, self._y]
        return np.asarray((aims * np.linalg.solve(gram, aims[:, :, None])[:, :, 0]).sum(axis=1))

    def _scores(self, places: NDArray[np.int64], n_choices: int) -> Array:
        """(b,) by how much each block would lower the extended BIC."""
        sizes = (places != self._zero).sum(axis=1)
        left = np.maximum(self.rss - self.gains(places), 1e-12 * self.rss)
        fits = self.n * np.log(self.rss / left)
        return np.asarray(fits - sizes * math.log(self.n) - 2.0 * math.log(max(n_choices, 2)))

    def take(self, block: Block) -> None:
        """Chooses `block` and frees everything of its columns."""
        for part in block.columns:
            place = self._place[part]
            pivot = float(self._cross[place, place])
            if pivot > _RIDGE * self.n:
                row = self._cross[place].copy()
                self._cross -= np.outer(row, row / pivot)
        self.chosen.append(block)

    def run(self, blocks: Sequence[Block], most: int, *, stops: bool) -> None:
        """Adds blocks while the criterion falls (`stops`), or until `most` are in, each knob once."""
        blocks = [block for block in blocks if block not in self.chosen]
        limit = _SHARE_OF_ROWS * self.n
        n_choices = len({block.knobs for block in blocks})
        for _ in range(most):
            if not blocks or (stops and self.n_columns >= limit):
                return
            scores = self._scores(self.places(blocks), n_choices)
            best = blocks[int(np.argmax(scores))]
            if stops and scores.max() <= 0.0:
                return
            self.take(best)
            blocks = [block for block in blocks if block != best and (stops or block.knobs != best.knobs)]


def forward_order(samples: Samples, weights: Array, most: int) -> list[int]:
    """The first `most` knobs in the order in which forward regression takes them, without stopping."""
    columns, owner = knob_columns(samples)
    parts = [(i,) for i in range(len(columns))]
    search = _Search(_values(samples.x, columns), parts, samples.y, weights)
    search.run(blocks_of(owner), min(most, max(1, search.n - 4)), stops=False)
    return [block.knobs[0] for block in search.chosen]


@dataclass(frozen=True, slots=True)
class SparseModel:
    """A polynomial of few knobs.

    Attributes:
        columns: as `knob_columns`.
        blocks: the terms, in the order in which they were chosen.
        coefficients: of 1 and of the terms' columns.
    """

    columns: NDArray[np.int64]
    blocks: tuple[Block, ...]
    coefficients: Array

    @property
    def knobs(self) -> tuple[int, ...]:
        """Those of any term, in the order in which they came in."""
        return tuple(dict.fromkeys(knob for block in self.blocks for knob in block.knobs))

    def predict(self, x: Array) -> Array:
        """(m,) losses at features (m, f)."""
        if not self.blocks:
            return np.full(len(x), self.coefficients[0])
        used = sorted({i for block in self.blocks for parts in block.columns for i in parts})
        values = np.empty((len(x), len(self.columns)))
        values[:, used] = _values(x, self.columns[used])
        return np.asarray(_with_ones(values, self.blocks) @ self.coefficients)


def _with_ones(columns: Array, blocks: Sequence[Block]) -> Array:
    return np.hstack(
        [np.ones((len(columns), 1)), *(_matrix(columns, part) for block in blocks for part in block.columns)]
    )


def fit_sparse(samples: Samples, weights: Array) -> SparseModel:
    """Main effects, then products, then main effects again, each while the extended BIC falls."""
    places, owner = knob_columns(samples)
    columns, mains = _values(samples.x, places), blocks_of(owner)
    if is_flat(samples.y, weights):
        return _fitted(places, columns, (), samples.y, weights)
    parts = [(i,) for i in range(len(places))]
    search = _Search(columns, parts, samples.y, weights)
    search.run(mains, _MOST_TERMS, stops=True)
    products = _products(owner, _near(search, mains))
    if products:
        pairs = list(dict.fromkeys(part for block in products for part in block.columns))
        both = np.hstack([columns, *(_matrix(columns, pair) for pair in pairs)])
        wider = _Search(both, [*parts, *pairs], samples.y, weights)
        for block in search.chosen:
            wider.take(block)
        wider.run(products, _MOST_TERMS, stops=True)
        wider.run(mains, _MOST_TERMS, stops=True)
        search = wider
    return _fitted(places, columns, tuple(search.chosen), samples.y, weights)


def _near(search: _Search, mains: Sequence[Block]) -> list[int]:
    """The knobs among which products are looked for: those chosen, and those that explain most of what is left."""
    order = np.argsort(-search.gains(search.places(mains)), kind="stable").tolist() if mains else []
    chosen = [block.knobs[0] for block in search.chosen]
    return list(dict.fromkeys([*chosen, *(mains[i].knobs[0] for i in order)]))[:_PAIR_KNOBS]


def _fitted(
    places: NDArray[np.int64], columns: Array, blocks: tuple[Block, ...], y: Array, weights: Array
) -> SparseModel:
    root = np.sqrt(weights / weights.mean())
    design = root[:, None] * _with_ones(columns, blocks)
    penalty = _RIDGE * len(y) * np.eye(design.shape[1])
    coefficients = np.linalg.solve(design.T @ design + penalty, design.T @ (root * y))
    return SparseModel(places, blocks, coefficients)
