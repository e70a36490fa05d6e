"""Check, backup and compact; and eight writers at once on the real server."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine

from tests.commands import start_script
from tests.history.samples import make_trial, study_values
from tests.history.test_crash import WRITER, filled
from tests.needs import IS_FULL
from trimtab.errors import HistoryError, UsageError
from trimtab.history import History, StudyQuery, back_up, check, compact, digest, find_study, merge, upkeep
from trimtab.records import Machine, Trial


def sound_trial(number: int) -> Trial:
    trial = make_trial(number)
    assert trial.measurement is not None
    return replace(trial, measurement=replace(trial.measurement, histogram=b""))


@pytest.fixture
def sound(url: str) -> str:
    with History.open(url) as history:
        study = history.create_study(**study_values())
        for number in range(5):
            history.add_trial(study.id, sound_trial(number))
        history.add_event(study.id, "warning", "x", 1.0)
    return url


def broken(url: str, statement: str) -> None:
    with History.open(url) as history, history._writer.begin() as connection:
        connection.exec_driver_sql(statement)


def test_a_sound_history(sound: str) -> None:
    health = check(sound)
    assert (health.findings, health.notes, health.n_studies, health.n_trials) == ((), (), 1, 5)


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        (
            "update trimtab_trial set body = '{' where number = 3",
            "trial 3 of study id=1 cannot be read: JSONDecodeError: ",
        ),
        (
            "update trimtab_trial set role = 'bench' where number = 2",
            "trial 2 of study id=1: its columns and its body differ",
        ),
        ("update trimtab_trial set detail = histogram where number = 1", "trial 1 of study id=1 cannot be read: "),
        (
            "update trimtab_study set verdict = '{\"gone\": 1}'",
            "study id=1 cannot be read: ValueError: verdict of study id=1: unknown key='gone'",
        ),
        ("update trimtab_study set verdict = '['", "study id=1 cannot be read: JSONDecodeError"),
        ("update trimtab_event set body = '{}'", "study id=1 cannot be read: TypeError: "),
        ("update trimtab_study set status = 'runing'", "study id=1: status='runing' is unknown"),
        ("update trimtab_study set created_at = 1e300", "study id=1: created_at=1e+300 is not a time"),
        ("update trimtab_study set created_at = -1.0", "study id=1: created_at=-1.0 is not a time"),
    ],
)
def test_damage_is_found(sound: str, statement: str, finding: str) -> None:
    if "detail = histogram" in statement:
        broken(sound, "update trimtab_trial set histogram = detail where number = 1")
        finding = "trial 1 of study id=1 cannot be read: a stored latency histogram of size_bytes="
    else:
        broken(sound, statement)
    health = check(sound)
    assert [line[: len(finding)] for line in health.findings] == [finding]
    assert (health.n_studies, health.n_trials) == (1, 5)


def test_a_hundred_findings_are_enough(tmp_path: Path) -> None:
    with History.open(tmp_path / "h.db") as history:
        for name in ("first", "second"):
            study = history.create_study(**study_values(name=name))
            history.add_many([(study.id, sound_trial(number)) for number in range(105)], [])
    broken(str(tmp_path / "h.db"), "update trimtab_trial set body = '{'")
    health = check(tmp_path / "h.db")
    assert (len(health.findings), health.n_trials) == (101, 105)
    assert health.findings[-1] == "… and perhaps more: the check ends here"


def test_a_torn_file_is_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    content = filled(path)
    path.write_bytes(content[:16384] + b"\xa5" * (len(content) - 16384))
    before = path.read_bytes()
    assert check(path).findings
    assert path.read_bytes() == before
    path.write_bytes(b"something else" * 999)
    assert check(path).findings == ("the file cannot be read: file is not a database",)


def test_other_databases_and_versions_are_told(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("create table photos (id integer)")
    assert check(tmp_path / "other.db").findings == ("it is not a history: it has no table trimtab_meta",)
    filled(tmp_path / "v1.db")
    with closing(sqlite3.connect(tmp_path / "v1.db")) as connection, connection:
        connection.execute("update trimtab_meta set value = '1'")
    former = check(tmp_path / "v1.db")
    assert former.findings == ()
    assert former.notes == ("it has schema_version=1, this Trimtab reads 2: rows were not looked at",)


@pytest.mark.parametrize(
    ("column", "value"), [("created_at", "'soon'"), ("name", "x'74ff'"), ("cores", "'many'"), ("memory_bytes", "1.5")]
)
def test_one_damaged_column_does_not_hide_the_other_studies(tmp_path: Path, column: str, value: str) -> None:
    """SQLite keeps in a column whatever a flipped bit makes of its value."""
    with History.open(tmp_path / "h.db") as history:
        for name in ("first", "second"):
            history.create_study(**study_values(name=name))
        with history._writer.begin() as connection:
            connection.exec_driver_sql(f"update trimtab_study set {column} = {value} where id = 1")
        asked = StudyQuery(like=Machine(cores=2, memory_bytes=8 << 30))
        assert [study.id for study in history.summaries()] == [1, 2]
        assert 2 in [study.id for study in history.summaries(asked)]
        assert find_study(history, "second").id == 2
        with pytest.raises(UsageError, match=r"holds no study named 'x'\nhint: it holds: "):
            find_study(history, "x")
        with pytest.raises(
            HistoryError, match=f"cannot be read: column {column} of study id=1 holds a value of another"
        ):
            history.study(1)
    assert check(tmp_path / "h.db").findings == (
        f"study id=1 cannot be read: ValueError: column {column} of study id=1 holds a value of another kind",
    )


@pytest.mark.parametrize("value", ["1e300", "-1e300"])
def test_a_time_that_is_none_does_not_hide_the_other_studies(tmp_path: Path, value: str) -> None:
    """What no date can be made of would end every list."""
    with History.open(tmp_path / "h.db") as history:
        for name in ("first", "second"):
            history.create_study(**study_values(name=name))
        with history._writer.begin() as connection:
            connection.exec_driver_sql(f"update trimtab_study set created_at = {value} where id = 1")
        first, second = (study.created_at for study in history.summaries())
        assert (first, second) == (0.0, study_values()["created_at"])


def test_a_row_without_its_study_is_found(tmp_path: Path) -> None:
    filled(tmp_path / "h.db")
    with closing(sqlite3.connect(tmp_path / "h.db")) as connection:
        connection.execute("delete from trimtab_study")
        connection.commit()
    assert check(tmp_path / "h.db").findings[0].startswith("trimtab_trial: row ")


@pytest.mark.parametrize("is_empty", [True, False])
def test_what_is_no_history_is_not_backed_up(tmp_path: Path, is_empty: bool) -> None:
    """As an empty file that a copy left on a full disk: nobody shall think that there is a backup of it."""
    (tmp_path / "other.db").touch()
    if not is_empty:
        with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
            connection.execute("create table photos (id integer)")
    with pytest.raises(HistoryError, match=r"there is no history='.*other\.db'\nhint: `trimtab tune` makes one"):
        back_up(tmp_path / "other.db", tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["other.db"]


@pytest.mark.parametrize("work", [check, compact, lambda place: back_up(place, Path("never"))])
def test_looking_after_nothing_makes_no_file(tmp_path: Path, work: object) -> None:
    assert callable(work)
    with pytest.raises(HistoryError, match=r"there is no history='.*none\.db'\nhint: `trimtab tune` makes one"):
        work(tmp_path / "none.db")
    assert not list(tmp_path.iterdir())


@pytest.mark.service
def test_a_database_without_a_history_is_refused_and_stays_empty(database: str, tmp_path: Path) -> None:
    with History.open(tmp_path / "own.db") as own:
        for work in (
            check,
            compact,
            lambda place: back_up(place, tmp_path / "copy.db"),
            lambda place: merge(own, place),
        ):
            with pytest.raises(HistoryError, match="there is no history="):
                work(database)
    assert not (tmp_path / "copy.db").exists()
    with psycopg.connect(database) as connection:
        assert connection.execute("select * from pg_tables where tablename like 'trimtab%'").fetchall() == []


def test_a_backup_holds_everything(sound: str, tmp_path: Path) -> None:
    with History.open(sound) as history:
        assert back_up(sound, tmp_path / "copy.db") == (tmp_path / "copy.db").stat().st_size
        history.add_trial(1, sound_trial(9))
        assert not check(tmp_path / "copy.db").findings
        with History.open(tmp_path / "copy.db") as copy:
            assert copy.studies() == history.studies()
            assert [trial.number for trial in copy.trials(1)] == [0, 1, 2, 3, 4]
            copy.create_study(**study_values(name="new"))
    assert not list(tmp_path.glob("*.part"))
    # It holds what the history holds: reasons and settings speak of servers.
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


def test_a_backup_is_never_overwritten(sound: str, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("precious")
    with pytest.raises(HistoryError, match=r"backup='.*copy\.db' exists already\nhint: give another path"):
        back_up(sound, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "precious"


@pytest.mark.parametrize("has_links", [True, False])
def test_a_backup_has_its_name_once_it_is_whole(
    sound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    """Else one that is killed, or loses its power, leaves an empty file that looks like one and stands in the way of the next."""
    target, copy, there = tmp_path / "copy.db", upkeep._copy_to, list[bool]()

    def copied(engine: Engine, part: Path) -> None:
        copy(engine, part)
        there.append(target.exists())

    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(upkeep, "_copy_to", copied)
    if not has_links:
        monkeypatch.setattr(os, "link", refused)
    assert back_up(sound, target) > 0
    assert there == [False]
    assert [path.name for path in tmp_path.iterdir() if "copy" in path.name] == ["copy.db"]


def test_a_backup_that_cannot_be_written(sound: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"cannot write backup='.*/none/copy\.db': .*No such file"):
        back_up(sound, tmp_path / "none" / "copy.db")


def test_a_damaged_history_is_not_backed_up(tmp_path: Path) -> None:
    content = filled(tmp_path / "h.db")
    (tmp_path / "h.db").write_bytes(content[:16384] + b"\xa5" * (len(content) - 16384))
    with pytest.raises(HistoryError, match="damaged and was not copied|cannot write backup"):
        back_up(tmp_path / "h.db", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.slow
def test_compaction_gives_space_back_and_keeps_everything(url: str) -> None:
    with History.open(url) as history:
        study = history.create_study(**study_values())
        for number in range(200):
            history.add_trial(study.id, sound_trial(number))
        kept = digest(history.copy(study.id))
        with history._writer.begin() as connection:
            connection.exec_driver_sql("create table waste as select * from trimtab_trial")
            connection.exec_driver_sql("update trimtab_trial set body = body || ' '")
            connection.exec_driver_sql("drop table waste")
    before, after = compact(url)
    assert after < before
    with History.open(url) as history:
        assert digest(history.copy(study.id)) == kept


@pytest.mark.service
def test_eight_writers_lose_nothing(database: str) -> None:
    """Eight processes, each with a study of its own and all with one in common; the server counts no deadlock."""
    n = 40 if IS_FULL else 15
    with History.open(database) as history:
        common = history.create_study(**study_values(name="common"))
        own = [history.create_study(**study_values(name=f"own{i}")) for i in range(4)]
    jobs = [(common.id, i, 4) for i in range(4)] + [(study.id, 0, 1) for study in own]
    writers = [start_script(WRITER, database, *job, n) for job in jobs]
    for writer in writers:
        writer.communicate(timeout=120)
    assert [writer.returncode for writer in writers] == [0] * 8
    with History.open(database) as history:
        assert [trial.number for trial in history.trials(common.id)] == list(range(4 * n))
        for study in own:
            assert [trial.number for trial in history.trials(study.id)] == list(range(n))
    with psycopg.connect(database) as connection:
        row = connection.execute("select deadlocks from pg_stat_database where datname = current_database()").fetchone()
    assert row == (0,)
