"""A prior counts while nothing is known, counts more when trials bear it out, and is dropped when they speak against it."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.records import KnobPrior, Play, Prior
from trimtab.search.belief import Belief
from trimtab.search.ledger import Ledger
from trimtab.space import Config, Knob, KnobKind, Space

from .problems import crash, grid, trial

PLAY = Play(name="p", settings={"a": 80, "b": 20}, chance=0.6)


def belief(space: Space, *plays: Play, **knobs: KnobPrior) -> Belief:
    return Belief(space, space.default(), Prior(plays=plays, knobs=knobs))


def told(space: Space, sign: float) -> Ledger:
    """Twelve configs, half of them with the play; `sign` times how far it helps. One without it failed when it helps."""
    ledger = Ledger(space, space.default())
    for number, config in enumerate(space.sample(12, np.random.default_rng(3))):
        has_it = number % 2 == 0
        own = config.replace({"a": 80, "b": 20}) if has_it else config.replace({"a": 10, "b": 90})
        ledger.tell(trial(own, number, -sign * has_it + 0.01 * number))
    ledger.tell(crash(Config({**space.default(), "a": 5 if sign > 0 else 80, "b": 95 if sign > 0 else 20, "c": 3}), 99))
    return ledger


def test_density_is_highest_where_all_is_as_expected() -> None:
    space = grid(4)
    found = belief(space, PLAY, c=KnobPrior(at=50, width=0.2))
    rows = space.features(
        [Config({"a": a, "b": b, "c": c, "d": 0}) for a, b, c in ((80, 20, 50), (80, 20, 0), (10, 20, 50), (10, 90, 0))]
    )
    density = found.log_density(rows, np.ones(2))
    assert density[0] == pytest.approx(0.0)
    assert density[0] > density[1] > density[3] >= -4.0
    assert density[0] > density[2] > density[3]


@pytest.mark.parametrize(("sign", "low", "high"), [(1.0, 0.95, 1.0), (-1.0, 0.0, 0.05)])
def test_trials_decide_about_trust(sign: float, low: float, high: float) -> None:
    space = grid(4)
    found = belief(space, PLAY)
    assert found.trust([])[0] == pytest.approx(0.69, abs=0.01)
    assert low <= found.trust(list(told(space, sign)))[0] <= high


def test_a_prior_that_does_worse_the_more_of_it_a_config_has_is_trusted_less_in_every_part() -> None:
    """The place of c has no effect: it stands and falls with the play beside it."""
    space = grid(4)
    found = belief(space, PLAY, c=KnobPrior(at=50, width=0.2))
    borne_out, refuted = (found.trust(list(told(space, sign)))[1] for sign in (1.0, -1.0))
    assert refuted < 0.1 < 0.3 < borne_out


def test_parts_that_the_space_does_not_have_are_left_out() -> None:
    space = grid(2)
    unknown = Play(name="u", settings={"a": 5, "jit": False})
    illegal = Play(name="i", settings={"a": 5_000})
    assert not belief(space, unknown, illegal, z=KnobPrior(at=1), b=KnobPrior(at=-7))
    assert belief(space, PLAY, unknown)


def test_choices_and_special_values_have_places() -> None:
    special = Knob(name="s", kind=KnobKind.INTEGER, low=10, high=100, default=50, special=(0,))
    mode = Knob(name="m", kind=KnobKind.CHOICE, choices=("x", "y", "z"), default="x")
    space = Space([special, mode])
    found = belief(space, s=KnobPrior(at=0), m=KnobPrior(at="z"))
    rows = space.features([Config({"s": s, "m": m}) for s, m in ((0, "z"), (0, "x"), (55, "z"), (55, "x"))])
    density = found.log_density(rows, np.ones(2))
    assert density[0] == pytest.approx(0.0)
    assert density[3] < min(density[1], density[2]) < -1.0
    rng = np.random.default_rng(1)
    drawn = space.decode_many(np.array([found.drawn(np.array([0.9, 0.1]), np.ones(2), rng) for _ in range(200)]))
    assert 0.4 < np.mean([config["s"] == 0 for config in drawn]) < 0.6
    assert 0.4 < np.mean([config["m"] == "z" for config in drawn]) < 0.6


def test_plays_are_candidates_on_top_of_good_configs() -> None:
    space = grid(3)
    points = np.array([space.encode(Config({"a": 1, "b": 2, "c": 3})), space.encode(Config({"a": 4, "b": 5, "c": 6}))])
    moved = space.decode_many(belief(space, PLAY).moves(points))
    assert [dict(config) for config in moved] == [{"a": 80, "b": 20, "c": 3}, {"a": 80, "b": 20, "c": 6}]


def test_a_value_that_helps_is_expected_where_it_has_an_effect() -> None:
    """At home the gate is shut, so that `level` has none there: its place is what helped, not what stands at home."""
    space = Space(
        [
            Knob(name="gate", kind=KnobKind.BOOLEAN, default=False),
            Knob(name="level", kind=KnobKind.REAL, low=0.0, high=100.0, default=90.0, condition="gate"),
        ]
    )
    found = belief(space, Play(name="p", settings={"gate": True, "level": 50.0}), level=KnobPrior(at=50.0, width=0.1))
    rows = space.features([Config({"gate": True, "level": 50.0}), Config({"gate": True, "level": 90.0})])
    helpful, at_home = found.log_density(rows, np.ones(2))
    assert helpful > at_home + 1.0
    assert space.decode(found.moves(space.encode(space.default())[None, :])[0]) == Config({"gate": True, "level": 50.0})
