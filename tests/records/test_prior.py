"""Priors refuse what means nothing, and are empty unless something is expected."""

from __future__ import annotations

import math

import pytest

from trimtab.errors import UsageError
from trimtab.records import KnobPrior, Play, Prior


def test_empty_prior_is_false() -> None:
    assert not Prior()
    assert Prior(knobs={"a": KnobPrior(at=1)})
    assert Prior(plays=(Play(name="no jit", settings={"jit": False}),))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": {}}, "has no settings"),
        ({"worth": 0.0}, "worth=0.0 of play='p'"),
        ({"worth": math.nan}, "worth=nan of play='p'"),
        ({"chance": 1.0}, "chance=1.0 of play='p'"),
        ({"chance": 0.0}, "chance=0.0 of play='p'"),
    ],
)
def test_play_refuses(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Play(**{"name": "p", "settings": {"a": 1}, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [0.0, -1.0, math.inf, math.nan])
def test_width_is_above_zero(width: float) -> None:
    with pytest.raises(UsageError, match="width="):
        KnobPrior(at=1, width=width)
