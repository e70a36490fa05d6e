"""Parallel Rank Ordering: whole rounds, all vertices but the best move, expansion is checked first, shrink on failure."""

from __future__ import annotations

import pytest

from trimtab.errors import UsageError
from trimtab.search.pro import ParallelRankOrderSearcher
from trimtab.space import Config

from .driving import best_config, bowl, drive
from .problems import crash, grid, problem, trial

BEST = Config({"a": 50, "b": 50})


def _started(**options: object) -> tuple[ParallelRankOrderSearcher, list[Config]]:
    """A searcher whose simplex is BEST, with loss 0, and two vertices with loss 1 along the axes; and these two."""
    searcher = ParallelRankOrderSearcher(problem(grid(), BEST, probes=0, radius=0.1, **options))
    assert searcher.ask() == [BEST]
    searcher.tell(trial(BEST, 0, 0.0))
    vertices = searcher.ask(2)
    for number, vertex in enumerate(vertices, start=1):
        searcher.tell(trial(vertex, number, 1.0))
    return searcher, vertices


def _away(vertex: Config, factor: float) -> Config:
    return Config({name: round(50 + factor * (float(vertex[name]) - 50)) for name in "ab"})


def _through(centre: Config, vertex: Config) -> Config:
    return Config({name: 2 * int(centre[name]) - int(vertex[name]) for name in "ab"})


def _tell(searcher: ParallelRankOrderSearcher, configs: list[Config], loss: float) -> None:
    for config in configs:
        searcher.tell(trial(config, len(searcher.ledger), loss))


def test_all_but_the_best_are_reflected_in_one_batch() -> None:
    searcher, vertices = _started()
    assert searcher.ask(2) == [_away(vertex, -1.0) for vertex in vertices]


def test_the_same_round_one_by_one() -> None:
    searcher, vertices = _started()
    first, second = (_away(vertex, -1.0) for vertex in vertices)
    assert searcher.ask() == [first]
    searcher.tell(trial(first, 3, 0.5))
    assert searcher.ask() == [second]


def test_expansion_is_tried_at_the_most_promising_vertex_before_all_expand() -> None:
    searcher, vertices = _started()
    reflected = searcher.ask(2)
    _tell(searcher, reflected[:1], 0.5)
    _tell(searcher, reflected[1:], -1.0)
    scout = _away(vertices[1], -2.0)
    assert searcher.ask() == [scout]
    _tell(searcher, [scout], -2.0)
    assert searcher.ask() == [_away(vertices[0], -2.0)]


def test_reflection_stays_when_expansion_is_worse() -> None:
    searcher, _ = _started()
    reflected = searcher.ask(2)
    _tell(searcher, reflected, -1.0)
    _tell(searcher, searcher.ask(), -0.5)
    # The next round goes through the first of the two best; where the old best is reflected to is known: the scout.
    assert searcher.ask() == [_through(reflected[0], reflected[1])]


def test_failed_reflection_shrinks_towards_the_best() -> None:
    searcher, vertices = _started()
    _tell(searcher, searcher.ask(2), 2.0)
    assert searcher.ask(2) == [_away(vertex, 0.5) for vertex in vertices]


def test_a_vertex_whose_move_crashed_stays() -> None:
    searcher, vertices = _started()
    reflected = searcher.ask(2)
    _tell(searcher, reflected[:1], -1.0)
    searcher.tell(crash(reflected[1], 9))
    _tell(searcher, searcher.ask(), 3.0)
    assert searcher.ask() == [_through(reflected[0], vertices[1])]


@pytest.mark.parametrize(("k", "n"), [(0, 4), (2, 6), (3, 9)])
def test_number_of_vertices(k: int, n: int) -> None:
    searcher = ParallelRankOrderSearcher(problem(grid(3, 1000), probes=1, vertices=k))
    _tell(searcher, searcher.ask(), 0.0)
    waiting = searcher.ask(n - 1)
    # One more ask is no vertex: it would be a different one if the simplex were larger.
    _tell(searcher, waiting, 1.0)
    assert len(searcher._wanted) == n - 1


def test_finds_the_bottom_of_a_bowl() -> None:
    searcher = ParallelRankOrderSearcher(problem(grid(), probes=4))
    drive(searcher, 60)
    assert bowl(best_config(searcher)) < 0.005


def test_vertices_out_of_range() -> None:
    with pytest.raises(UsageError) as caught:
        ParallelRankOrderSearcher(problem(grid(), vertices=1))
    assert str(caught.value) == "vertices=1 of searcher 'pro'\nhint: vertices must be 0, or 2 or more"
