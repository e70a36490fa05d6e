"""WiredTiger: what a trial has set in the open engine has its found value again, by the engine's own statistics."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systems.test_wiredtiger import engine
from trimtab.load.engine import Engine
from trimtab.load.wiredtiger import main
from trimtab.space import Config

CACHE = "cache: maximum bytes configured"
MB = 1 << 20
USUAL = 100 * MB
"""Of an engine whose settings name no cache."""

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.needs("wiredtiger")]


def cache_of(open_engine: Engine) -> int:
    with open_engine._session() as session:
        cursor = session.open_cursor("statistics:")
        return next(int(value) for name, _, value in (row[-3:] for row in cursor) if name == CACHE)


def test_an_open_engine_keeps_what_is_named_no_longer_unless_it_goes_back(tmp_path: Path) -> None:
    kv = Engine(tmp_path / "kv", {})
    try:
        assert cache_of(kv) == USUAL
        kv.reconfigure({"cache_size": str(48 * MB), "eviction_dirty_trigger": "30"})
        kv.reconfigure({"eviction_dirty_trigger": "30"})
        assert cache_of(kv) == 48 * MB
        kv.reconfigure({"eviction_dirty_trigger": "30"}, {"cache_size": str(USUAL)})
        assert cache_of(kv) == USUAL
        assert kv.settings == {"cache_size": str(USUAL), "eviction_dirty_trigger": "30"}
    finally:
        kv.close()


def test_a_word_without_a_value_is_not_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--reload", "cache_size"]) == 2
    assert main([str(tmp_path), "--reload", "cache_size=1"]) == 1
    assert "No such file" in capsys.readouterr().err


class Place:
    """A target whose engine writes its statistics once a second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "kv"
        self.target = engine(folder / "state", self.folder)
        self.target.open()  # the first start makes the file
        self.target.close()
        (self.folder / "engine.conf").write_text("statistics_log = (json=true,wait=1)\n")
        self.target.open()

    def cache(self) -> int:
        """By the engine's next look at itself."""
        n_now, until = len(self._lines()), time.monotonic() + 60
        while len(lines := self._lines()) < n_now + 2:
            assert time.monotonic() < until, "the engine writes no statistics"
            time.sleep(0.05)
        return int(json.loads(lines[-1])["wiredTiger"]["cache"][CACHE.partition(": ")[2]])

    def _lines(self) -> list[str]:
        text = "".join(path.read_text() for path in sorted(self.folder.glob("WiredTigerStat.*")))
        return [line for line in text.split("\n")[:-1] if '"cache"' in line]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.target.close()


def test_a_baseline_after_a_trial_runs_with_the_found_cache(place: Place) -> None:
    found = place.target.snapshot()
    pid = place.target._reach.pid
    assert not place.target.apply(Config({"cache_size": 40 * MB, "eviction_dirty_target": 10})).restarted
    assert place.cache() == 40 * MB
    place.target.apply(Config({"eviction_dirty_target": 10}))
    assert place.cache() == USUAL
    place.target.apply(Config({"cache_size": 48 * MB}))
    assert not place.target.restore(found).restarted
    assert place.cache() == USUAL
    assert place.target._reach.pid == pid
