"""WiredTiger as a target: the engine in a process of its own under the public suite, what is found afterwards, and bad input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.systems.private import killed
from trimtab import plugins
from trimtab.errors import TargetError
from trimtab.load.engine import _RECONFIGURED, Engine, EngineError, nested, read_settings
from trimtab.load.wiredtiger import ask, main
from trimtab.space import Config
from trimtab.systems.catalog import Catalog
from trimtab.systems.catalog_file import parse_catalog
from trimtab.testing.target_suite import Subject, TargetSuite

CHANGES = Config({"cache_size": 40 << 20, "eviction_threads_max": 2, "leaf_page_max": "16KB"})
OTHER = Config({"eviction_dirty_target": 10, "checkpoint_log_size": 1 << 26})


def catalogue() -> Catalog:
    text = (files("trimtab.catalog") / "kinds" / "wiredtiger.toml").read_text(encoding="utf-8")
    return parse_catalog(text, name="wiredtiger.toml")


def test_the_catalogue_has_many_knobs_and_locks_what_a_crash_would_lose() -> None:
    knobs = catalogue().knob
    assert len(knobs) >= 35
    safety = {name: str(knob.safety) for name, knob in knobs.items()}
    assert {"log_enabled", "transaction_sync", "checkpoint_wait", "checkpoint_sync"} <= {
        name for name, known in safety.items() if known == "durability"
    }
    assert safety["checksum"] == "data_loss"


@pytest.mark.parametrize("kind", ["wiredtiger", "mongodb"])
def test_the_number_of_eviction_threads_is_changed_by_a_restart(kind: str) -> None:
    """A live engine (WiredTiger 11) waited for two minutes, and for longer, for a thread that had to end and went on evicting."""
    text = (files("trimtab.catalog") / "kinds" / f"{kind}.toml").read_text(encoding="utf-8")
    knobs = parse_catalog(text, name=f"{kind}.toml").knob
    assert [str(knobs[f"eviction_threads_{end}"].restart) for end in ("min", "max")] == ["restart", "restart"]


def test_what_needs_no_restart_is_what_the_engine_takes_while_open() -> None:
    known = catalogue()
    for name, knob in known.knob.items():
        address = known.address_of(name)
        assert (str(knob.restart) == "reload") == address.startswith(_RECONFIGURED), address


def test_settings_are_written_as_the_engine_nests_them(tmp_path: Path) -> None:
    conf = tmp_path / "engine.conf"
    conf.write_text(
        "# mine\ncache_size = 50MB\neviction.threads_min = 2\neviction.threads_max = 4\nfile_extend = (data=16MB)\n"
    )
    text = nested(read_settings(conf))
    assert text == "cache_size=50MB,file_extend=(data=16MB),eviction=(threads_min=2,threads_max=4)"
    assert nested({"table.lsm.bloom": "true"}) == "table=(lsm=(bloom=true))"
    assert read_settings(tmp_path / "none.conf") == {}
    conf.write_text("cache_size\n")
    with pytest.raises(EngineError, match=r"engine.conf:1: 'cache_size' is not name = value"):
        read_settings(conf)


def test_the_command_says_how_it_is_meant(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([]) == 2
    assert main([str(tmp_path), "--nonsense"]) == 2
    assert main([str(tmp_path), "--statistics"]) == 1
    assert "No such file" in capsys.readouterr().err


def test_a_missing_module_is_told_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.systems.private_place.find_spec", lambda name: None)
    target = engine(tmp_path / "state", tmp_path / "kv")
    with pytest.raises(TargetError, match="needs the Python module wiredtiger, which is not installed") as raised:
        target.open()
    assert raised.value.hint == "pip install 'trimtab[wiredtiger]'"
    target.close()


def engine(state_dir: Path, folder: Path, **table: Any) -> Any:
    table = {"kind": "wiredtiger", "embedded": "11", "folder": str(folder), "memory": "512MiB", "knobs": "all", **table}
    return plugins.load("targets", "wiredtiger").from_settings("kv", table, state_dir=state_dir)


def socket(target: Any) -> str:
    return str(target.endpoint().host)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("wt")
    target = engine(folder / "state", folder / "kv", unlock=["durability"])
    target.open()
    yield target
    target.close()


@pytest.fixture
def kv(opened: Any) -> Iterator[Any]:
    """An open engine, as found after each test."""
    found = opened.snapshot()
    yield opened
    opened.restore(found)


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.needs("wiredtiger")
class TestEngine(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
        folder = tmp_path_factory.mktemp("wt")
        target = engine(folder / "state", folder / "kv")
        target.open()

        def meddle() -> Callable[[], None]:
            conf = folder / "kv" / "engine.conf"
            before = conf.read_bytes()
            conf.write_bytes(before + b"hash.buckets = 1024\n")
            return lambda: conf.write_bytes(before) and None

        yield Subject(
            target=target,
            again=lambda: engine(folder / "other", folder / "kv"),
            reattach=lambda snapshot: type(target).from_snapshot(snapshot, state_dir=folder / "state"),
            changes=CHANGES,
            other=OTHER,
            refused=("cache_overhead", 31),
            locked=("log_enabled", True),
            crash=partial(killed, target),
            meddle=meddle,
            work=lambda: [ask(socket(target), {"do": "checkpoint"}) for _ in range(3)] and None,
            state_dir=folder / "state",
        )
        target.close()


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.needs("wiredtiger")
class TestOnTheEngine:
    def test_a_table_that_is_made_again_shows_life_and_leaves_nothing_when_it_is_given_up(self, tmp_path: Path) -> None:
        first = Engine(tmp_path / "kv", {})
        first.create("a")
        with first._session() as session:
            cursor = session.open_cursor(f"table:{first.names()['a']['table']}")
            for number in range(2500):
                cursor[str(number).encode()] = b"x"
            cursor.close()
        first.close()
        again = Engine(tmp_path / "kv", {"table.leaf_page_max": "8KB"})
        try:
            before = again.names()

            def gone() -> None:
                raise BrokenPipeError("nobody waits")

            with pytest.raises(BrokenPipeError):
                again.renew("a", gone)
            with again._session() as session:
                assert (again.names(), again._tables(session)) == (before, [before["a"]["table"]])
            signs: list[int] = []
            again.renew("a", lambda: signs.append(1))
            assert len(signs) == 3
            assert again.count("a") == 2500
            assert again.names()["a"]["table"] != before["a"]["table"]
            again.renew("a", gone)  # it has the settings in use
        finally:
            again.close()

    def test_cache_and_eviction_need_no_restart_and_pages_do(self, kv: Any) -> None:
        pid = kv._reach.pid
        assert not kv.apply(Config({"cache_size": 48 << 20, "eviction_dirty_trigger": 30})).restarted
        assert kv._reach.pid == pid
        counts = kv.counters()
        assert counts
        assert {count for play in kv.catalog.play.values() for count in play.counts} <= counts.keys()
        assert kv.apply(Config({"leaf_page_max": "8KB"})).restarted

    def test_a_table_is_made_with_the_settings_in_use(self, kv: Any) -> None:
        kinds = []
        for name, changes in (("one", Config({})), ("two", Config({"block_compressor": "zlib", "table_type": "lsm"}))):
            kv.apply(changes)
            ask(socket(kv), {"do": "create", "name": name})
            kinds.append(ask(socket(kv), {"do": "names"})[name]["kind"])
        assert kinds[0] != kinds[1]
        for name in ("one", "two"):
            ask(socket(kv), {"do": "drop", "name": name})

    def test_a_copy_takes_the_place_of_the_last_one(self, kv: Any) -> None:
        for _ in range(2):
            ask(socket(kv), {"do": "create", "name": "a"})
            ask(socket(kv), {"do": "copy", "source": "a", "name": "a_run"})
        assert ask(socket(kv), {"do": "count", "name": "a_run"}) == 0
        for name in ("a", "a_run"):
            ask(socket(kv), {"do": "drop", "name": name})
        with pytest.raises(EngineError, match="there is no database='a'"):
            ask(socket(kv), {"do": "count", "name": "a"})

    def test_a_trigger_below_its_target_is_not_tried(self, kv: Any) -> None:
        rules = [rule.text for rule in catalogue().constraint]
        assert "eviction_target < eviction_trigger" in rules
        with pytest.raises(TargetError, match="does not hold with eviction_target=90, eviction_trigger=60"):
            kv.preflight(Config({"eviction_target": 90, "eviction_trigger": 60}))

    def test_a_cache_larger_than_the_budget_is_not_tried(self, kv: Any) -> None:
        with pytest.raises(TargetError, match="of memory=512MiB"):
            kv.preflight(Config({"cache_size": 400 << 20}))

    def test_a_setting_that_the_engine_refuses_is_told_in_its_words(self, tmp_path: Path) -> None:
        (tmp_path / "kv").mkdir()
        target = engine(tmp_path / "state", tmp_path / "kv")
        target.open()
        target.close()
        (tmp_path / "kv" / "engine.conf").write_text("cache_size = 1\n")
        with pytest.raises(TargetError):
            target.open()
        target.close()
        assert "cache_size" in target.log_excerpt()

    def test_files_of_something_else_are_told(self, tmp_path: Path) -> None:
        folder = tmp_path / "kv"
        folder.mkdir()
        (folder / "WiredTiger").write_text("WiredTiger 1.0\n")
        (folder / "WiredTiger.turtle").write_text("nonsense\n")
        target = engine(tmp_path / "state", folder)
        with pytest.raises(TargetError):
            target.open()
        target.close()
        assert target.log_excerpt()
