"""Histories of every former version are brought up to this one, with nothing lost and a copy kept."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection

from tests.history.samples import make_trial, study_values
from trimtab.errors import HistoryError
from trimtab.history import History, migration, prepare, read_space
from trimtab.history.codec import loads, read_trial
from trimtab.history.schema import SCHEMA_VERSION

FORMER = {
    int(path.name.removeprefix("v").partition(".")[0]): path
    for path in (Path(__file__).parent / "former").glob("*.db.gz")
}

V1_POSTGRESQL = """
create table trimtab_meta (key text primary key, value text not null);
create table trimtab_study (id serial primary key, name text not null, status text not null,
  created_at double precision not null, body text not null, verdict text not null);
create index trimtab_study_name on trimtab_study (name);
create table trimtab_trial (study_id integer not null references trimtab_study (id), number integer not null,
  role text not null, status text not null, body text not null, histogram bytea not null, primary key (study_id, number));
create table trimtab_event (id serial primary key, study_id integer not null references trimtab_study (id),
  at double precision not null, body text not null);
create index trimtab_event_study on trimtab_event (study_id);
"""
"""The tables as version 1 made them."""


def test_every_former_version_has_a_file() -> None:
    assert sorted(FORMER) == list(range(1, SCHEMA_VERSION))


def unpacked(version: int, path: Path) -> Path:
    path.write_bytes(gzip.decompress(FORMER[version].read_bytes()))
    return path


def rows_of(path: Path, table: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f"select * from {table}")]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def v1(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """URL of a history of version 1, and a file with the same content that stays as it is."""
    kept = unpacked(1, tmp_path / "kept.db")
    if request.param == "sqlite":
        yield str(unpacked(1, tmp_path / "history.db")), kept
        return
    url: str = request.getfixturevalue("database")
    with psycopg.connect(url) as connection:
        connection.execute(V1_POSTGRESQL)
        for table in ("meta", "study", "trial", "event"):
            for row in rows_of(kept, f"trimtab_{table}"):
                marks = ", ".join(["%s"] * len(row))
                statement = f"insert into trimtab_{table} ({', '.join(row)}) values ({marks})"
                connection.execute(statement.encode(), list(row.values()))
        connection.execute("select setval('trimtab_study_id_seq', (select max(id) from trimtab_study))")
        connection.execute("select setval('trimtab_event_id_seq', (select max(id) from trimtab_event))")
    yield url, kept


def test_version_1_is_read_without_loss(v1: tuple[str, Path]) -> None:
    url, kept = v1
    with History.open(url) as history:
        studies = {study.id: study for study in history.studies()}
        for row in rows_of(kept, "trimtab_study"):
            body, study = json.loads(row["body"]), studies[row["id"]]
            assert (study.name, study.status, study.created_at) == (row["name"], row["status"], row["created_at"])
            assert (study.settings, study.objective) == (body["settings"], body["objective"])
            assert dict(study.verdict) == json.loads(row["verdict"])
            assert dict(study.baseline) == body["baseline"]
            assert study.space["knobs"] == body["space"]["knobs"]
            numbers = [trial.number for trial in history.trials(study.id)]
            assert numbers == sorted(numbers)
        trials = {(i, trial.number): repr(trial) for i in studies for trial in history.trials(i)}
        for row in rows_of(kept, "trimtab_trial"):
            assert trials[row["study_id"], row["number"]] == repr(read_trial(loads(row["body"]), row["histogram"]))
        assert len(trials) == len(rows_of(kept, "trimtab_trial")) == 41
        assert [event.text for i in studies for event in history.events(i)][-1] == "slow \0 disk"


def test_version_1_can_be_used_on(v1: tuple[str, Path]) -> None:
    url, _ = v1
    with History.open(url) as history:
        new = history.create_study(**study_values())
        history.add_trial(new.id, make_trial(0))
        history.add_event(new.id, "warning", "x", 1.0)
        demo = history.find_study("demo")
        assert demo is not None
        history.add_trial(demo.id, make_trial(1000))
    with History.open(url) as history:
        summaries = history.summaries()
        assert [(one.name, one.n_trials, one.target, one.origin) for one in summaries] == [
            ("demo", 31, "postgresql", ""),
            ("ya", 9, "postgresql", ""),
            ("odd ünï ☃", 2, "", ""),
            ("tpch", 1, "", ""),
        ]
        assert summaries[0].server_version.startswith("PostgreSQL 18")
        assert (summaries[0].cores, summaries[0].objective) == (2, "throughput")
        losses = history.trial_summaries([demo.id])[demo.id]
        assert [one.loss for one in losses] == [trial.loss for trial in history.trials(demo.id)]


def test_the_space_of_version_1_knows_the_running_values(v1: tuple[str, Path]) -> None:
    url, _ = v1
    with History.open(url) as history:
        demo = history.find_study("demo")
    assert demo is not None
    space = read_space(demo)
    assert space.validate(demo.baseline) == demo.baseline
    assert "memory budget" not in [constraint.name for constraint in space.constraints]
    assert [constraint.name for constraint in space.constraints] == [
        "max_parallel_workers <= max_worker_processes",
        "max_parallel_workers_per_gather <= max_parallel_workers",
    ]


@pytest.mark.parametrize("version", sorted(FORMER))
def test_a_copy_of_the_file_is_kept(version: int, tmp_path: Path) -> None:
    path = unpacked(version, tmp_path / "history.db")
    before = {table: rows_of(path, table) for table in ("trimtab_meta", "trimtab_study", "trimtab_trial")}
    (tmp_path / f"history.db.v{version}").write_text("an older copy")
    History.open(path).close()
    copy = tmp_path / f"history.db.v{version}-2"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert {table: rows_of(copy, table) for table in before} == before
    assert (tmp_path / f"history.db.v{version}").read_text() == "an older copy"
    History.open(path).close()
    assert len(list(tmp_path.glob("history.db.v*"))) == 2


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unpacked(1, tmp_path / "history.db")
    before = {table: rows_of(path, table) for table in ("trimtab_meta", "trimtab_study", "trimtab_trial")}
    real = migration.STEPS[1]

    def failing(connection: Connection) -> None:
        real(connection)
        raise OSError("no space left")

    steps: Mapping[int, Any] = {1: failing}
    monkeypatch.setattr(prepare, "STEPS", steps)
    with pytest.raises(OSError, match="no space left"):
        History.open(path)
    assert {table: rows_of(path, table) for table in before} == before
    monkeypatch.undo()
    with History.open(path) as history:
        assert len(history.studies()) == 3


def test_a_copy_that_cannot_be_made_stops_the_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unpacked(1, tmp_path / "history.db")

    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(
        HistoryError, match=r"is of schema_version=1 and cannot be copied .*No space left.*\nhint: nothing was changed"
    ):
        History.open(path)
    assert rows_of(path, "trimtab_meta") == [{"key": "schema_version", "value": "1"}]
    assert not list(tmp_path.glob("*.part"))
