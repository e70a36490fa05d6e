"""Files that come from outside, fuzzed: studies, journals, rollback files, histories; texts are in `test_fuzz_texts`.

The inputs in corpus/ are always tried first. `TRIMTAB_TESTS=full` makes it long.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.fuzz import CORPUS, FUZZ, SCALARS, mutated, mutations, seeds, taken_in, texts, write
from trimtab.history import History, import_file, load_format
from trimtab.plugins import names as plugin_names
from trimtab.study import load_study_file
from trimtab.study.change import rollback
from trimtab.study.recovery import recover
from trimtab.study.stage import build_target, build_workload
from trimtab.systems.server_catalog import parse_server_catalog
from trimtab.trial import Journal


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="tt-fuzz-"))
    (path / "read.sql").write_text("SELECT :a\n")
    (path / "queries").mkdir()
    yield path
    assert not list(path.rglob("hacked*"))
    shutil.rmtree(path)


def _study(path: Path) -> None:
    file = load_study_file(path)
    build_target(file, path.parent / "state")
    build_workload(file)


# Study files


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value) if isinstance(value, str) else str(value)


def _tables(tables: Mapping[str, Mapping[str, Any]]) -> str:
    return "\n".join(
        f"[{name}]\n" + "\n".join(f"{json.dumps(key)} = {_toml(value)}" for key, value in table.items())
        for name, table in tables.items()
    )


KEYS = {
    "study": ("name", "objective", "budget", "seed", "history", "keep_query_text"),
    "target.db": (
        "kind",
        "embedded",
        "url",
        "data_dir",
        "restart",
        "restart_timeout_s",
        "log_file",
        "memory",
        "memory_limit",
        "knobs",
        "unlock",
        "allow_restart",
    ),
    "workload": (
        "kind",
        "database",
        "folder",
        "files",
        "transaction",
        "weights",
        "parameters",
        "read_only",
        "start_state",
        "undo",
        "operation_timeout",
        "load",
        "workload",
        "records",
        "scale",
        "mix",
        "script",
        "distribution",
        "fields",
        "streams",
    ),
    "search": ("searcher", "constraints", "ranges", "advice", "baseline_every", "patience"),
    "measure": ("window", "window_max", "precision", "warmup_floor", "warmup_cap", "max_error_rate"),
    "proof": ("min_gain", "min_pairs", "max_pairs", "advice"),
}
GOOD: dict[str, dict[str, Any]] = {
    "study": {"name": "x", "budget": "5m"},
    "target.db": {"kind": "postgresql", "embedded": "18"},
    "workload": {"kind": "sql", "database": "d", "files": ["read.sql"]},
}
VALUES = st.one_of(
    SCALARS,
    texts(
        "postgresql",
        "sql",
        "ycsb",
        "tpch",
        "pgbench",
        "postgresql://u:p@h/d",
        "p99 where throughput >= 2000",
        "16",
        "1GiB",
        "A",
    ),
    st.lists(SCALARS, max_size=3),
    st.dictionaries(texts("users", "rate", "q6", "a", "type"), SCALARS, max_size=3),
    st.dictionaries(
        texts("a", "b"), st.dictionaries(texts("type", "low", "high", "values"), SCALARS, max_size=3), max_size=2
    ),
)


@st.composite
def studies(draw: st.DrawFn) -> str:
    """A good file of which a few keys hold anything."""
    tables = {name: dict(table) for name, table in GOOD.items()}
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(list(KEYS)))
        key = draw(st.one_of(st.sampled_from(KEYS[name]), st.sampled_from(KEYS[name]), texts()))
        tables.setdefault(name, {})[key] = draw(VALUES)
    return _tables(tables)


@pytest.mark.slow
@FUZZ
@given(text=studies())
def test_study_files_of_odd_values(folder: Path, text: str) -> None:
    path = write(folder / "study.toml", text)
    taken_in(lambda: _study(path), folder=folder)


@FUZZ
@given(data=mutations(seeds("study")))
def test_study_files_that_are_damaged(folder: Path, data: tuple[Path, bytes]) -> None:
    path = write(folder / "study.toml", data[1])
    taken_in(lambda: _study(path), folder=folder)


@pytest.mark.parametrize("seed", seeds("study"), ids=lambda path: path.name)
def test_kept_study_files(folder: Path, seed: Path) -> None:
    path = write(folder / "study.toml", seed.read_bytes())
    assert taken_in(lambda: _study(path), folder=folder) == seed.name.startswith("good")


# Files of our own that somebody has damaged, and files of others


@FUZZ
@given(data=mutations(seeds("journal")))
def test_journals_that_are_damaged(folder: Path, data: tuple[Path, bytes]) -> None:
    state = Path(tempfile.mkdtemp(dir=folder))
    (state / "journal").mkdir()
    write(state / "journal" / "db-1-1.open", data[1])
    taken_in(lambda: [entry.steps() for entry in Journal(state).open_entries()])
    assert [path.name for path in (state / "journal").iterdir() if path.suffix == ".open"] or not data[1].strip()
    shutil.rmtree(state)


@FUZZ
@given(data=mutations(seeds("rollback")))
def test_rollback_files_that_are_damaged(folder: Path, data: tuple[Path, bytes]) -> None:
    """A damaged one is refused before anything is reached: the target in it is of no known kind."""
    state = Path(tempfile.mkdtemp(dir=folder))
    (state / "rollback").mkdir()
    file = write(state / "rollback" / "x.json", data[1])
    is_taken = taken_in(lambda: rollback("x", state))
    assert not is_taken
    assert file.read_bytes() == data[1]
    shutil.rmtree(state)


@pytest.mark.slow
@FUZZ
@given(st.data())
def test_databases_of_histories_that_are_damaged(folder: Path, data: st.DataObject) -> None:
    path = folder / "history.db"
    write(path, mutated(_database(folder), lambda n: data.draw(st.integers(0, n - 1))))

    def use() -> None:
        with History.open(path) as history:
            for study in history.studies():
                history.trials(study.id)
                history.events(study.id)

    taken_in(use)
    for left in folder.glob("history.db*"):
        left.unlink()


_made: list[bytes] = []


def _database(folder: Path) -> bytes:
    if not _made:
        source = folder / "made.db"
        with History.open(source) as history:
            import_file(history, load_format("jsonl", "x.jsonl"), str(CORPUS / "history" / "good.jsonl"))
        with sqlite3.connect(source) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            database.execute("PRAGMA journal_mode = DELETE")
        database.close()
        _made.append(source.read_bytes())
        for left in folder.glob("made.db*"):
            left.unlink()
    return _made[0]


@pytest.fixture(scope="module")
def own(folder: Path) -> Iterator[History]:
    """A history that is empty before each import."""
    with History.open(folder / "own.db") as history:
        yield history
    for left in folder.glob("own.db*"):
        left.unlink()


def _empty(history: Path) -> None:
    with sqlite3.connect(history) as database:
        for table in ("trimtab_event", "trimtab_trial", "trimtab_study"):
            database.execute(f"DELETE FROM {table}")
    database.close()


@pytest.mark.slow
@FUZZ
@given(data=mutations(seeds("history")))
def test_imported_histories_that_are_damaged(folder: Path, own: History, data: tuple[Path, bytes]) -> None:
    path = write(folder / f"import{data[0].suffix}", data[1])
    assert own.studies() == []
    is_taken = taken_in(lambda: import_file(own, load_format(None, str(path)), str(path)))
    assert is_taken or own.studies() == [], "half of it was kept"
    path.unlink()
    _empty(folder / "own.db")


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds("history"), ids=lambda path: path.name)
def test_kept_histories(tmp_path: Path, seed: Path) -> None:
    with History.open(tmp_path / "own.db") as history:
        is_taken = taken_in(lambda: import_file(history, load_format(None, str(seed)), str(seed)))
        assert is_taken == seed.name.startswith("good")
        assert bool(history.studies()) == is_taken


def test_every_format_is_among_the_kept_histories() -> None:
    by_suffix = {path.suffix for path in seeds("history")}
    missing = [name for name in plugin_names("formats") if not by_suffix & set(load_format(name, "x").suffixes)]
    assert missing == []


def test_S4_hostile_state_history_and_catalogue_files(tmp_path: Path) -> None:
    """Every kept input that is hostile by intent: refused with one clear message, nothing run, nothing kept."""
    hostile = {
        "study": lambda path: _study(write(tmp_path / "study.toml", path.read_bytes())),
        "overlay": lambda path: parse_server_catalog(path.read_text(encoding="utf-8", errors="replace")),
        "journal": lambda path: _recovered(tmp_path, path),
        "rollback": lambda path: _rolled_back(tmp_path, path),
        "history": lambda path: _imported(tmp_path, path),
    }
    n_tried = 0
    for kind, use in hostile.items():
        for path in (path for path in seeds(kind) if path.name.startswith("hostile")):
            assert not taken_in(lambda use=use, path=path: use(path)), path  # type: ignore[misc]
            n_tried += 1
    assert n_tried >= 10
    assert not list(tmp_path.rglob("hacked*"))


def _recovered(folder: Path, path: Path) -> None:
    state = folder / path.stem
    (state / "journal").mkdir(parents=True)
    shutil.copyfile(path, state / "journal" / "db-1-1.open")
    for stuck in recover(state)[1]:
        raise stuck.error


def _rolled_back(folder: Path, path: Path) -> None:
    (folder / "rollback").mkdir(exist_ok=True)
    shutil.copyfile(path, folder / "rollback" / "x.json")
    rollback("x", folder)


def _imported(folder: Path, path: Path) -> None:
    with History.open(folder / "own.db") as history:
        try:
            import_file(history, load_format(None, str(path)), str(path))
        finally:
            assert history.studies() == []
