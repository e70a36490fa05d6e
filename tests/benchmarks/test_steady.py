"""How steady a machine is: the figures, and the page that shows them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench_modules import BENCHMARKS, bench_modules

PAGE = BENCHMARKS.parent / "docs" / "measurements" / "three-tiers.md"


@pytest.fixture(scope="module")
def run() -> Iterator[Any]:
    """The script."""
    with bench_modules(BENCHMARKS / "steady", "run") as modules:
        yield modules["run"]


def test_waves_longer_than_a_window_show_between_windows(run: Any) -> None:
    ripple, wave = [90.0, 110.0] * 40, ([90.0] * 20 + [110.0] * 20) * 2
    seconds, windows = run.spread(ripple)
    assert (round(seconds, 2), windows) == (0.1, 0.0)
    assert all(0.1 <= share <= 0.11 for share in run.spread(wave))


def test_a_share_of_one_value_is_not_known(run: Any) -> None:
    assert all(math.isnan(share) for share in run.spread([100.0]))


@pytest.mark.slow  # the figures and the page are looked at in make check
def test_every_kind_is_work_of_milliseconds_and_may_use_all_cores_afterwards(run: Any) -> None:
    before = os.sched_getaffinity(0)
    for kind in run.KINDS:
        (rate,) = run.measured(kind, 1)
        assert rate > 1, kind  # 100 and more on an idle machine; how fast it is says nothing beside other tests
    assert os.sched_getaffinity(0) == before


def test_the_page_shows_the_figures(run: Any) -> None:
    found = json.loads(Path(BENCHMARKS / "steady" / "results.json").read_text(encoding="utf-8"))
    assert run.table(found) in PAGE.read_text(encoding="utf-8")
