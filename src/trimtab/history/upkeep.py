"""Looking after a history: is all of it readable, a copy of it, its space on disk."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, func, inspect, select

from trimtab.errors import HistoryError
from trimtab.history import rows
from trimtab.history.resting import connect_to_read, make_reader
from trimtab.history.schema import (
    SCHEMA_VERSION,
    beside,
    event_table,
    make_engine,
    meta_table,
    metadata,
    no_history,
    study_table,
    trial_table,
)
from trimtab.history.space import space_from_json
from trimtab.history.store import History, translated
from trimtab.measure import decode_histogram

__all__ = ["Health", "back_up", "check", "compact"]

_MOST_FINDINGS = 100
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Health:
    """What a check found.

    Attributes:
        findings: what is damaged, at most some hundred lines; empty when nothing is.
        notes: what is worth knowing but no damage.
        n_studies, n_trials: that were read.
    """

    findings: tuple[str, ...]
    notes: tuple[str, ...]
    n_studies: int
    n_trials: int


def _file_of(engine: Engine) -> Path | None:
    return Path(engine.url.database) if engine.dialect.name == "sqlite" and engine.url.database else None


def check(place: str | Path) -> Health:
    """Reads everything that a history holds, and changes nothing.

    Raises:
        HistoryError: there is none, or it cannot be reached.
    """
    engine = make_reader(place)
    path = _file_of(engine)
    if path is not None:
        damage = _damage_of_file(path)
        if damage:
            return Health(tuple(damage), (), 0, 0)
    try:
        with translated(str(place)), engine.connect() as connection:
            if not inspect(connection).has_table(meta_table.name):
                raise no_history(engine.url.set(drivername="postgresql").render_as_string())
            version = connection.scalar(select(meta_table.c.value).where(meta_table.c.key == "schema_version"))
            if version is None or not (version.isascii() and version.isdecimal()):
                return Health((f"it has schema_version={version!r}, and versions are whole numbers",), (), 0, 0)
            if version != str(SCHEMA_VERSION):
                note = f"it has schema_version={version}, this Trimtab reads {SCHEMA_VERSION}: rows were not looked at"
                return Health((), (note,), 0, 0)
            return _health(connection)
    finally:
        engine.dispose()


def _damage_of_file(path: Path) -> list[str]:
    try:
        with closing(connect_to_read(path)) as connection:
            if not _is_history(connection):
                return ["it is not a history: it has no table trimtab_meta"]
            lines = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_MOST_FINDINGS})")]
            found = [line for line in lines if line != "ok"]
            orphans = connection.execute("PRAGMA foreign_key_check").fetchmany(_MOST_FINDINGS)
            return found + [f"{table}: row {row} belongs to a study that is gone" for table, row, *_ in orphans]
    except sqlite3.Error as error:
        return [f"the file cannot be read: {error}"]


def _is_history(connection: sqlite3.Connection) -> bool:
    query = "select 1 from sqlite_master where type = 'table' and name = ?"
    return connection.execute(query, (meta_table.name,)).fetchone() is not None


def _health(connection: Connection) -> Health:
    findings: list[str] = []
    n_studies = n_trials = 0
    for study_id in connection.execute(select(study_table.c.id).order_by(study_table.c.id)).scalars().all():
        n_studies += 1
        findings += _check_study(connection, study_id)
        for finding in _check_trials(connection, study_id):
            n_trials += 1
            if finding and len(findings) < _MOST_FINDINGS:
                findings.append(finding)
        if len(findings) >= _MOST_FINDINGS:
            findings.append("… and perhaps more: the check ends here")
            break
    return Health(tuple(findings), (), n_studies, n_trials)


def _check_study(connection: Connection, study_id: int) -> list[str]:
    try:
        row = connection.execute(select(study_table).where(study_table.c.id == study_id)).one()
        space_from_json(rows.read_study_row(row).space)
        damage = rows.damage_of_columns(row)
        if damage:
            return [f"study id={study_id}: {damage}"]
        for event in connection.execute(select(event_table).where(event_table.c.study_id == study_id)):
            rows.read_event_row(event)
    except (HistoryError, *rows.UNREADABLE) as error:
        return [f"study id={study_id} cannot be read: {_reason(error)}"]
    return []


def _check_trials(connection: Connection, study_id: int) -> Iterator[str]:
    """For each trial what is wrong with it, or ""."""
    query = select(trial_table).where(trial_table.c.study_id == study_id).order_by(trial_table.c.number)
    for row in connection.execution_options(yield_per=_BATCH).execute(query):
        finding = ""
        try:
            trial = rows.read_trial_row(row)
            if trial.measurement is not None:
                decode_histogram(trial.measurement.histogram)
            if (trial.number, trial.role, trial.status) != (row.number, row.role, row.status):
                finding = f"trial {row.number} of study id={study_id}: its columns and its body differ"
        except (HistoryError, *rows.UNREADABLE) as error:
            finding = f"trial {row.number} of study id={study_id} cannot be read: {_reason(error)}"
        yield finding


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, HistoryError) else f"{type(error).__name__}: {error}"


def back_up(place: str | Path, target: Path) -> int:
    """A copy of the whole history in one SQLite file, as it is at this moment, while others may write; its bytes. It has its name
    once it is whole.

    Raises:
        HistoryError: there is none, `target` exists, is no name of a file, or cannot be written. No half copy stays.
    """
    if not target.name:
        raise HistoryError(f"backup={str(target)!r} is not a file", hint="give a path that you may write to")
    engine = make_reader(place)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        _require_free(target)
        part.unlink(missing_ok=True)  # of a process of this number that was killed
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        _copy_to(engine, part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        _name(part, target)
    except (OSError, sqlite3.Error) as error:
        raise HistoryError(
            f"cannot write backup={str(target)!r}: {getattr(error, 'strerror', None) or error}",
            hint="give a path that you may write to, with free space",
        ) from error
    finally:
        part.unlink(missing_ok=True)
        engine.dispose()
    return target.stat().st_size


def _require_free(target: Path) -> None:
    if os.path.lexists(target):
        raise HistoryError(
            f"backup={str(target)!r} exists already", hint="give another path; a backup is never overwritten"
        )


def _name(part: Path, target: Path) -> None:
    """Gives a copy its name, unless somebody has given it to another file meanwhile."""
    try:
        os.link(part, target)
    except OSError:
        _require_free(target)
        part.replace(target)  # on a disk without links


def _copy_to(engine: Engine, part: Path) -> None:
    path = _file_of(engine)
    if path is None:
        with translated(engine.url.render_as_string()):
            _copy_rows(engine, part)
        return
    with closing(connect_to_read(path)) as source, closing(sqlite3.connect(part)) as copy:
        if not _is_history(source):
            raise no_history(repr(str(path)))
        source.backup(copy)
        _seal(copy)


def _seal(copy: sqlite3.Connection) -> None:
    """One file, sound: a backup nobody can read is none."""
    copy.execute("PRAGMA journal_mode=DELETE")
    finding = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
    if finding != "ok":
        raise HistoryError(f"the history is damaged and was not copied: {finding}", hint="run `trimtab history check`")


def _copy_rows(engine: Engine, path: Path) -> None:
    """Every row of a PostgreSQL history as it is, ids too, from one snapshot."""
    History.open(engine.url.render_as_string(hide_password=False), is_there=True).close()
    target = make_engine(path)
    try:
        with engine.connect().execution_options(isolation_level="REPEATABLE READ") as source, target.begin() as copy:
            metadata.create_all(copy)
            for table in metadata.sorted_tables:
                found = source.execution_options(yield_per=_BATCH).execute(select(table))
                for batch in found.mappings().partitions(_BATCH):
                    copy.execute(table.insert(), [dict(row) for row in batch])
    finally:
        target.dispose()


def compact(place: str | Path) -> tuple[int, int]:
    """Gives back the space that is not used, and renews the planner's figures; bytes before and after.

    Others may read and write; on PostgreSQL they wait while a table is written anew.

    Raises:
        HistoryError: there is none, it is damaged, or there is no room for the copy that this makes meanwhile.
    """
    engine = make_reader(place)
    try:
        History.open(place, is_there=True).close()
        with translated(str(place)):
            before = _size(engine)
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                if engine.dialect.name == "sqlite":
                    raw = connection.connection.driver_connection
                    for statement in ("VACUUM", "PRAGMA optimize=0x10002", "PRAGMA wal_checkpoint(TRUNCATE)"):
                        if raw is not None:
                            raw.execute(statement).fetchall()
                else:
                    for table in metadata.tables:
                        connection.exec_driver_sql(f"vacuum (full, analyze) {table}")
            return before, _size(engine)
    finally:
        engine.dispose()


def _size(engine: Engine) -> int:
    path = _file_of(engine)
    if path is not None:
        files = (beside(path, end) for end in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())
    with engine.connect() as connection:
        sizes = (connection.scalar(select(func.pg_total_relation_size(table))) for table in metadata.tables)
        return sum(int(size or 0) for size in sizes)
