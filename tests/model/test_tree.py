"""Trees grown without the library's checks are those that its public classes grow, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trimtab.model.tree import grown, grown_in_public


def _parts(tree: Any) -> list[bytes]:
    arrays = (tree.feature, tree.threshold, tree.children_left, tree.children_right, tree.value, tree.impurity)
    return [np.asarray(array).tobytes() for array in (*arrays, tree.compute_feature_importances())]


def _drawn(n: int, f: int, seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.random((n, f)).round(1).astype(np.float32)
    return x, x[:, 0] * 2 + rng.normal(size=n), rng.integers(1, 4, n).astype(np.float64)


_WAYS = [
    {"feature_share": 0.8, "least_split": 3, "least_leaf": 1, "has_random_splits": True},
    {"feature_share": 0.5, "least_split": 2, "least_leaf": 2, "has_random_splits": False},
]


@pytest.mark.parametrize("way", _WAYS, ids=["random splits", "best splits"])
@pytest.mark.parametrize(("n", "f"), [(1, 1), (2, 3), (12, 1), (40, 9)])
def test_they_are_those_of_the_public_classes(n: int, f: int, way: dict[str, Any]) -> None:
    for seed in range(5):
        data = _drawn(n, f, seed)
        states = np.random.RandomState(seed), np.random.RandomState(seed)
        found, known = grown(*data, states[0], **way), grown_in_public(*data, states[1], **way)
        assert _parts(found) == _parts(known)
        assert states[0].randint(1 << 30) == states[1].randint(1 << 30), "as many numbers were drawn"


@pytest.mark.parametrize("lacks", ["DepthFirstTreeBuilder", "Tree"])
def test_where_a_version_has_other_parts_the_public_classes_grow_them(
    lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, way = _drawn(20, 4, 1), _WAYS[0]
    known = _parts(grown(*data, np.random.RandomState(2), **way))
    monkeypatch.delattr(f"sklearn.tree._tree.{lacks}")
    assert _parts(grown(*data, np.random.RandomState(2), **way)) == known
