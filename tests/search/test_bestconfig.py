"""BestConfig: rounds that take each interval once, bounds around the best, and the way back to the whole space."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.search.bestconfig import BestConfigSearcher
from trimtab.space import Config, Space

from .driving import best_config, bowl, drive
from .problems import grid, problem, trial


def _answered(searcher: BestConfigSearcher, configs: list[Config]) -> list[Config]:
    for config in configs:
        searcher.tell(trial(config, len(searcher.ledger), bowl(config)))
    return configs


def test_a_round_takes_each_interval_of_each_knob_once() -> None:
    searcher = BestConfigSearcher(problem(grid(3, 10_000), Config({"a": 0, "b": 0, "c": 0}), samples=8))
    asked = searcher.ask(9)[1:]
    for name in "abc":
        slices = sorted(int(float(config[name]) / 10_001 * 8) for config in asked)
        assert slices == list(range(8))


def test_the_next_round_lies_between_the_nearest_samples() -> None:
    space = grid(2, 10_000)
    searcher = BestConfigSearcher(problem(space, Config({"a": 0, "b": 0}), samples=6))

    def loss(config: Config) -> float:
        return (float(config["a"]) / 10_000 - 0.6) ** 2 + (float(config["b"]) / 10_000 - 0.3) ** 2

    first = drive(searcher, 7, loss)
    best, rest = best_config(searcher), first[1:]
    second = drive(searcher, 6, loss, start=7)
    for name in "ab":
        low = max((float(c[name]) for c in rest if float(c[name]) < float(best[name])), default=0.0)
        high = min((float(c[name]) for c in rest if float(c[name]) > float(best[name])), default=10_000.0)
        assert all(low <= float(config[name]) <= high for config in second)


def test_without_a_better_one_the_whole_space_is_sampled_again() -> None:
    searcher = BestConfigSearcher(problem(grid(2, 10_000), Config({"a": 5000, "b": 5000}), samples=5))
    drive(searcher, 11, lambda config: float(config != Config({"a": 5000, "b": 5000})))
    third = drive(searcher, 5, lambda config: 1.0, start=11)
    assert np.ptp([float(config["a"]) for config in third]) > 5000


def test_finds_the_bottom_of_a_bowl() -> None:
    searcher = BestConfigSearcher(problem(grid()))
    drive(searcher, 60)
    assert bowl(best_config(searcher)) < 0.02


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [("samples", 1, "samples must be 0, or 2 or more"), ("rounds", 0, "rounds must be 1 or more")],
)
def test_options(name: str, value: object, rule: str) -> None:
    with pytest.raises(UsageError) as caught:
        BestConfigSearcher(problem(grid(), **{name: value}))
    assert caught.value.hint == rule


def test_known_rounds_where_constraints_leave_a_sliver_end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each config of a round is repaired there, which takes milliseconds, and all fall on a few that are known."""
    searcher = BestConfigSearcher(problem(grid(3, 10**6, "a + b + c <= 1"), samples=20))
    for values in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)):
        searcher.tell(trial(Config(dict(zip("abc", values, strict=True))), len(searcher.ledger)))
    repaired, plain = [0], Space.feasible_configs

    def counted(self: Space, points: np.ndarray) -> list[Config]:
        repaired[0] += len(points)
        return plain(self, points)

    monkeypatch.setattr(Space, "feasible_configs", counted)
    assert searcher.ask()[0] in searcher.ledger
    assert 100 < repaired[0] < 400
