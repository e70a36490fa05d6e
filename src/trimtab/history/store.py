"""History: the store of studies, trials and events; what it has taken survives a crash at any instant."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, Select, select, update
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as NoneFreeError

from trimtab.errors import HistoryError
from trimtab.history import codec, rows
from trimtab.history.holding import holding_of
from trimtab.history.prepare import prepare
from trimtab.history.query import StudyQuery, run_query
from trimtab.history.record import STUDY_STATUSES, Event, StudyCopy, StudyRecord, StudySummary, TrialSummary
from trimtab.history.resting import make_reader
from trimtab.history.schema import event_table, make_engine, study_table, sync_sqlite, trial_table
from trimtab.history.typed import verdict_to_json
from trimtab.records import Context, Machine, Trial, Verdict
from trimtab.space import Config

__all__ = ["History", "RefusedError", "UnusableError", "translated"]

_HINTS = {
    "locked": "another process holds the history for long; end it, or give another path",
    "malformed": "nothing was replaced; restore a copy of it, or give another path",
    "not a database": "nothing was replaced; give another path",
    "unable to open": "give a path that you may write to, on a file system that has space and inodes left",
    "readonly": "give a path that you may write to",
    "disk": "free some space and run the same command again",
    "connection": "check that the server runs and that the URL is right",
}
"""Word in the driver's message -> what to do."""

_MOST_NAMED = 500
"""Studies that one query names: databases limit the variables of a statement."""


class History:
    """Every study and trial that was ever measured, in SQLite or PostgreSQL.

    What a writing method was given is durable when it returns. Several processes may use one history at once; one
    instance may be shared by threads. Every method may raise `HistoryError`.

        with History.open("history.db") as history:
            study = history.create_study(name="tpch", ...)
            history.add_trial(study.id, trial)
            history.trials(study.id)
    """

    def __init__(self, engine: Engine, shown: str) -> None:
        """Use `History.open`; `shown` names the history in messages."""
        self._engine = engine
        self._writer = engine.execution_options(trimtab_write=True)
        self._quick_writer = engine.execution_options(trimtab_write="unsynced")
        self._holding = holding_of(engine)
        self._shown = shown

    @classmethod
    def open(cls, url_or_path: str | Path, *, is_there: bool = False, shown: str = "") -> History:
        """Opens a history, making it (and its directory) when there is none; with `is_there` none is made, and it can be read
        where nothing may be written.

        Args:
            url_or_path: a file path (SQLite), `sqlite:///path`, or `postgresql://user@host:port/database`.
            is_there: see above.
            shown: what messages call it; its own place when empty.

        Raises:
            HistoryError: unreachable, not permitted, damaged, not a history, of another version, or not there though it
                must be. Whatever is there is left as it is.
        """
        engine = make_reader(url_or_path) if is_there else make_engine(url_or_path)
        shown = shown or _shown(engine)
        try:
            with translated(shown):
                prepare(engine, shown, is_there=is_there)
        except HistoryError:
            engine.dispose()
            raise
        return cls(engine, shown)

    def close(self) -> None:
        """Gives the connections, and the studies that it holds, back; the history cannot be used afterwards. Idempotent."""
        self._holding.close()
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create_study(
        self,
        *,
        name: str,
        settings: Mapping[str, Any],
        space: Mapping[str, Any],
        objective: str,
        baseline: Config,
        machine: Machine,
        context: Context,
        fingerprint: str,
        created_at: float,
        status: str = "running",
    ) -> StudyRecord:
        """Starts a study; earlier ones of the same name stay.

        Raises:
            HistoryError: a name that is empty or cannot be stored, or settings that are not JSON.
        """
        _check_name(name)
        _check_status(status)
        record = StudyRecord(
            id=0,
            name=name,
            settings=settings,
            space=space,
            objective=objective,
            baseline=baseline,
            machine=machine,
            context=context,
            created_at=created_at,
            status=status,
            verdict=Verdict(),
            fingerprint=fingerprint,
        )
        values = rows.study_values(record)
        with translated(self._shown), self._writer.begin() as connection:
            row = connection.execute(study_table.insert().values(values).returning(*study_table.c)).one()
        return rows.read_study_row(row)

    def find_study(self, name: str, *, is_own: bool = False) -> StudyRecord | None:
        """The newest study of that name (with `is_own`: that was not imported); None when there is none."""
        if not _is_name(name):  # no database can be asked for it
            return None
        query = select(study_table).where(study_table.c.name == name).order_by(study_table.c.id.desc()).limit(1)
        return self._one(query.where(study_table.c.origin == "") if is_own else query)

    def own_studies(self, name: str) -> Iterator[StudyRecord]:
        """Every study of that name that was not imported, the newest first; each is read when it is asked for."""
        query = select(study_table.c.id).where(study_table.c.name == name, study_table.c.origin == "")
        with translated(self._shown), self._engine.connect() as connection:
            ids = connection.scalars(query.order_by(study_table.c.id.desc())).all()
        return (self.study(study_id) for study_id in ids)

    def study(self, study_id: int) -> StudyRecord:
        """The study of that id.

        Raises:
            HistoryError: no such study.
        """
        found = self._one(select(study_table).where(study_table.c.id == study_id))
        if found is None:
            raise _no_study(self._shown, study_id)
        return found

    def _one(self, query: Select[Any]) -> StudyRecord | None:
        with translated(self._shown), self._engine.connect() as connection:
            row = connection.execute(query).one_or_none()
        with _readable(self._shown):
            return None if row is None else rows.read_study_row(row)

    def studies(self) -> list[StudyRecord]:
        """Every study, oldest first."""
        with translated(self._shown), self._engine.connect() as connection:
            found = connection.execute(select(study_table).order_by(study_table.c.id)).all()
        with _readable(self._shown):
            return [rows.read_study_row(row) for row in found]

    def summaries(self, query: StudyQuery | None = None) -> list[StudySummary]:
        """Studies that fit `query` (default: all), oldest first, without their bodies: quick for thousands of them."""
        with translated(self._shown), self._engine.connect() as connection:
            return run_query(connection, query or StudyQuery())

    def update_study(self, study_id: int, *, status: str | None = None, verdict: Verdict | None = None) -> None:
        """Sets the status, the verdict, or both, at once; what is None stays.

        Raises:
            HistoryError: no such study, an unknown status, or a verdict that is not JSON.
        """
        values = _outcome_values(status, verdict)
        if not values:
            return
        with translated(self._shown), self._writer.begin() as connection:
            self._update(connection, study_id, values)

    def _update(self, connection: Connection, study_id: int, values: Mapping[str, str]) -> None:
        result = connection.execute(update(study_table).where(study_table.c.id == study_id).values(values))
        if result.rowcount == 0:
            raise _no_study(self._shown, study_id)

    def hold(self, study_id: int) -> bool:
        """Whether this instance is what goes on with the study, from now until `let_go`, `close` or the end of its process.

        False while another one is, in this process or elsewhere; who holds a study may ask again. It keeps nobody from writing:
        whoever goes on with a study asks first.
        """
        with translated(self._shown):
            return self._holding.take(study_id)

    def let_go(self, study_id: int) -> None:
        """Somebody else may hold the study. Idempotent."""
        with translated(self._shown):
            self._holding.let_go(study_id)

    @contextmanager
    def importing(self) -> Iterator[None]:
        """For who looks what there is and adds what there is not: one at a time, of all threads and processes; others wait."""
        with ExitStack() as stack:
            with translated(self._shown):
                stack.enter_context(self._holding.importing())
            yield

    def add_trial(self, study_id: int, trial: Trial) -> None:
        """Keeps a trial; it is on disk when this returns. `Measurement.log` is not kept.

        Raises:
            HistoryError: no such study, or it has a trial of that number.
        """
        values = rows.trial_values(study_id, trial)
        try:
            with translated(self._shown), self._writer.begin() as connection:
                connection.execute(trial_table.insert(), values)
        except RefusedError as error:
            if not self._has_study(study_id):
                raise _no_study(self._shown, study_id) from error
            raise RefusedError(
                f"study_id={study_id} of history={self._shown} has a trial number={trial.number} already",
                hint="another process seems to run the same study; end it",
            ) from error

    def add_many(
        self,
        trials: Iterable[tuple[int, Trial]],
        events: Iterable[tuple[int, Event]],
        endings: Iterable[tuple[int, str, Verdict]] = (),
        *,
        is_synced: bool = True,
    ) -> None:
        """Keeps trials, events, and status and verdict, of one study or of several, all of them or none; events in their order.

        Without `is_synced` SQLite does not wait for the disk: they survive the end of the process at once, and a loss of
        power after `sync`. PostgreSQL always waits.

        Raises:
            HistoryError: no such study, it has a trial of one of the numbers, or something that cannot be stored.
        """
        ended = [(study_id, _outcome_values(status, verdict)) for study_id, status, verdict in endings]
        ready = (
            (trial_table, [rows.trial_values(study_id, trial) for study_id, trial in trials]),
            (event_table, [rows.event_values(study_id, event) for study_id, event in events]),
        )
        writer = self._writer if is_synced else self._quick_writer
        with translated(self._shown), writer.begin() as connection:
            for table, values in ready:
                if values:
                    connection.execute(table.insert(), values)
            for study_id, outcome in ended:
                self._update(connection, study_id, outcome)

    def sync(self) -> None:
        """Returns when everything that was added is on the disk."""
        if self._engine.dialect.name == "sqlite" and self._engine.url.database:
            sync_sqlite(Path(self._engine.url.database))

    def trials(self, study_id: int) -> list[Trial]:
        """The trials of a study in the order of their numbers, exactly as they were added."""
        query = select(trial_table).where(trial_table.c.study_id == study_id).order_by(trial_table.c.number)
        with translated(self._shown), self._engine.connect() as connection:
            found = connection.execute(query).all()
        with _readable(self._shown):
            return [rows.read_trial_row(row) for row in found]

    def trial_summaries(self, study_ids: Iterable[int]) -> dict[int, list[TrialSummary]]:
        """Config, status and loss of every trial of some studies, by study and in the order of their numbers.

        Quick for tens of thousands of trials, because no measurement is read.
        """
        asked = list(study_ids)
        columns = [trial_table.c[name] for name in ("study_id", "number", "role", "status", "loss", "config")]
        order = (trial_table.c.study_id, trial_table.c.number)
        found: dict[int, list[TrialSummary]] = {study_id: [] for study_id in asked}
        with translated(self._shown), self._engine.connect() as connection, _readable(self._shown):
            for start in range(0, len(asked), _MOST_NAMED):
                some = asked[start : start + _MOST_NAMED]
                query = select(*columns).where(trial_table.c.study_id.in_(some)).order_by(*order)
                for row in connection.execute(query):
                    found[row.study_id].append(rows.read_trial_summary(row))
        return found

    def add_event(self, study_id: int, kind: str, text: str, at: float) -> None:
        """Keeps an event; `at` is in seconds since the epoch.

        Raises:
            HistoryError: no such study.
        """
        values = rows.event_values(study_id, Event(kind, text, at))
        try:
            with translated(self._shown), self._writer.begin() as connection:
                connection.execute(event_table.insert().values(values))
        except RefusedError as error:
            raise _no_study(self._shown, study_id) from error

    def events(self, study_id: int, *, newest: int | None = None) -> list[Event]:
        """The events of a study, or so many of the newest, in the order in which they were added."""
        query = select(event_table).where(event_table.c.study_id == study_id).order_by(event_table.c.id.desc())
        with translated(self._shown), self._engine.connect() as connection:
            found = connection.execute(query.limit(newest)).all()
        with _readable(self._shown):
            return [rows.read_event_row(row) for row in reversed(found)]

    def copy(self, study_id: int) -> StudyCopy:
        """Everything that is kept of a study.

        Raises:
            HistoryError: no such study.
        """
        return StudyCopy(self.study(study_id), self.trials(study_id), self.events(study_id))

    def add_copies(self, copies: Iterable[StudyCopy]) -> list[int]:
        """Keeps whole studies, all of them or none; their ids, in order. `record.id` is not used.

        What `copies` raises while it is read passes through, and then nothing has been kept.

        Raises:
            HistoryError: a name that cannot be stored, two trials of one number, or values that are not JSON.
        """
        # Everything is made ready first: the lock is held for the writing only, since others may be measuring.
        ready = [self._ready(copy) for copy in copies]
        ids = []
        with translated(self._shown), self._writer.begin() as connection:
            for study, trials, events in ready:
                study_id = connection.execute(
                    study_table.insert().values(study).returning(study_table.c.id)
                ).scalar_one()
                for table, values in ((trial_table, trials), (event_table, events)):
                    if values:
                        connection.execute(table.insert(), [{**row, "study_id": study_id} for row in values])
                ids.append(study_id)
        return ids

    def _ready(self, copy: StudyCopy) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
        _check_name(copy.record.name)
        _check_status(copy.record.status)
        numbers = [trial.number for trial in copy.trials]
        if len(set(numbers)) < len(numbers):
            raise HistoryError(f"study={copy.record.name!r} has two trials of one number", hint="its source is damaged")
        trials = [rows.trial_values(0, trial) for trial in copy.trials]
        return rows.study_values(copy.record), trials, [rows.event_values(0, event) for event in copy.events]

    def _has_study(self, study_id: int) -> bool:
        with translated(self._shown), self._engine.connect() as connection:
            return connection.scalar(select(study_table.c.id).where(study_table.c.id == study_id)) is not None


class RefusedError(HistoryError):
    """The database refused a row because it breaks a key; the caller says which."""


class UnusableError(HistoryError):
    """The database cannot be used at the moment, for no row's sake: it does not answer, it is locked, its disk is full."""


@contextmanager
def translated(shown: str) -> Iterator[None]:
    """Turns the drivers' errors into HistoryError, with what to do."""
    try:
        yield
    except IntegrityError as error:
        raise RefusedError(f"history={shown}: {error.orig}") from error
    except UnicodeDecodeError as error:
        # the driver decodes what stands in a table's own definition
        raise HistoryError(f"history={shown} is damaged: {error}", hint="restore a copy of it") from error
    except NoneFreeError as error:  # the database is out of reach, or slow, and others wait for it already
        raise UnusableError(
            f"history={shown} cannot be used: all connections to it are in use, and none has become free in time",
            hint="check that its server can be reached, and try again",
        ) from error
    except (DBAPIError, sqlite3.Error) as error:
        # an error while a connection is being made comes as the driver's own
        reason = str(error.orig if isinstance(error, DBAPIError) else error).strip()
        hint = next((hint for word, hint in _HINTS.items() if word in reason), None)
        kind = HistoryError if isinstance(error, DataError) else UnusableError
        raise kind(f"history={shown} cannot be used: {reason}", hint=hint) from error


@contextmanager
def _readable(shown: str) -> Iterator[None]:
    try:
        yield
    except rows.UNREADABLE as error:
        raise HistoryError(
            f"history={shown} has a row that cannot be read: {error}", hint="it is damaged; restore a copy of it"
        ) from error


def _shown(engine: Engine) -> str:
    if engine.dialect.name == "sqlite":
        return repr(engine.url.database)
    return engine.url.set(drivername="postgresql").render_as_string(hide_password=True)


def _no_study(shown: str, study_id: int) -> HistoryError:
    return HistoryError(
        f"history={shown} has no study_id={study_id}", hint="`trimtab history list` shows what there is"
    )


def _outcome_values(status: str | None, verdict: Verdict | None) -> dict[str, str]:
    values = {}
    if status is not None:
        _check_status(status)
        values["status"] = status
    if verdict is not None:
        values["verdict"] = codec.dumps(verdict_to_json(verdict))
    return values


def _check_status(status: str) -> None:
    if status not in STUDY_STATUSES:
        raise HistoryError(f"unknown study status={status!r}", hint=f"use one of: {', '.join(STUDY_STATUSES)}")


def _is_name(name: str) -> bool:
    """Whether databases keep it as text: not NUL, and not surrogates, which are no characters."""
    return bool(name) and not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in name)


def _check_name(name: str) -> None:
    if not _is_name(name):
        raise HistoryError(f"a study cannot have the name={name!r}", hint="give it a name of printable characters")
