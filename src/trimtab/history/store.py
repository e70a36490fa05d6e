"""History: the store of studies, trials and events; what it has taken survives a crash at any instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Engine, Row, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from trimtab.errors import HistoryError
from trimtab.history import codec
from trimtab.history.record import STUDY_STATUSES, Event, StudyRecord
from trimtab.history.schema import event_table, make_engine, prepare, study_table, trial_table
from trimtab.records import Context, Machine, Trial
from trimtab.space import Config

__all__ = ["History"]

_HINTS = {
    "locked": "another process holds the history for long; end it, or give another path",
    "malformed": "nothing was replaced; restore a copy of it, or give another path",
    "not a database": "nothing was replaced; give another path",
    "unable to open": "give a path that you may write to",
    "readonly": "give a path that you may write to",
    "disk": "free some space and run the same command again",
    "connection": "check that the server runs and that the URL is right",
}
"""Word in the driver's message -> what to do."""


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
        self._shown = shown

    @classmethod
    def open(cls, url_or_path: str | Path) -> History:
        """Opens a history, making it (and its directory) when there is none.

        Args:
            url_or_path: a file path (SQLite), `sqlite:///path`, or `postgresql://user@host:port/database`.

        Raises:
            HistoryError: unreachable, not permitted, damaged, not a history, or of a newer version. Whatever is there
                is left as it is.
        """
        engine = make_engine(url_or_path)
        shown = _shown(engine)
        try:
            with _translated(shown):
                prepare(engine, shown)
        except HistoryError:
            engine.dispose()
            raise
        return cls(engine, shown)

    def close(self) -> None:
        """Gives the connections back; the history cannot be used afterwards. Idempotent."""
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
        body = codec.dumps(
            {
                "settings": settings,
                "space": space,
                "objective": objective,
                "baseline": baseline,
                "machine": codec.machine_to_json(machine),
                "context": codec.context_to_json(context),
                "fingerprint": fingerprint,
            }
        )
        values = {"name": name, "status": status, "created_at": created_at, "body": body, "verdict": "{}"}
        with _translated(self._shown), self._writer.begin() as connection:
            row = connection.execute(study_table.insert().values(values).returning(*study_table.c)).one()
        return _study(row)

    def find_study(self, name: str) -> StudyRecord | None:
        """The newest study of that name; None when there is none."""
        query = select(study_table).where(study_table.c.name == name).order_by(study_table.c.id.desc()).limit(1)
        with _translated(self._shown), self._engine.connect() as connection:
            row = connection.execute(query).one_or_none()
        with _readable(self._shown):
            return None if row is None else _study(row)

    def studies(self) -> list[StudyRecord]:
        """Every study, oldest first."""
        with _translated(self._shown), self._engine.connect() as connection:
            rows = connection.execute(select(study_table).order_by(study_table.c.id)).all()
        with _readable(self._shown):
            return [_study(row) for row in rows]

    def update_study(
        self, study_id: int, *, status: str | None = None, verdict: Mapping[str, Any] | None = None
    ) -> None:
        """Sets the status, the verdict, or both, at once; what is None stays.

        Raises:
            HistoryError: no such study, an unknown status, or a verdict that is not JSON.
        """
        values = {}
        if status is not None:
            _check_status(status)
            values["status"] = status
        if verdict is not None:
            values["verdict"] = codec.dumps(verdict)
        if not values:
            return
        with _translated(self._shown), self._writer.begin() as connection:
            result = connection.execute(update(study_table).where(study_table.c.id == study_id).values(values))
            if result.rowcount == 0:
                raise _no_study(self._shown, study_id)

    def add_trial(self, study_id: int, trial: Trial) -> None:
        """Keeps a trial; it is on disk when this returns. `Measurement.log` is not kept.

        Raises:
            HistoryError: no such study, or it has a trial of that number.
        """
        values = {
            "study_id": study_id,
            "number": trial.number,
            "role": trial.role.value,
            "status": trial.status.value,
            "body": codec.dumps(codec.trial_to_json(trial)),
            "histogram": b"" if trial.measurement is None else trial.measurement.histogram,
        }
        try:
            with _translated(self._shown), self._writer.begin() as connection:
                connection.execute(trial_table.insert().values(values))
        except _RefusedError as error:
            if not self._has_study(study_id):
                raise _no_study(self._shown, study_id) from error
            raise HistoryError(
                f"study_id={study_id} of history={self._shown} has a trial number={trial.number} already",
                hint="another process seems to run the same study; end it",
            ) from error

    def trials(self, study_id: int) -> list[Trial]:
        """The trials of a study in the order of their numbers, exactly as they were added."""
        query = (
            select(trial_table.c.body, trial_table.c.histogram)
            .where(trial_table.c.study_id == study_id)
            .order_by(trial_table.c.number)
        )
        with _translated(self._shown), self._engine.connect() as connection:
            rows = connection.execute(query).all()
        with _readable(self._shown):
            return [codec.read_trial(codec.loads(row.body), bytes(row.histogram)) for row in rows]

    def add_event(self, study_id: int, kind: str, text: str, at: float) -> None:
        """Keeps an event; `at` is in seconds since the epoch.

        Raises:
            HistoryError: no such study.
        """
        values = {"study_id": study_id, "at": at, "body": codec.dumps({"kind": kind, "text": text})}
        try:
            with _translated(self._shown), self._writer.begin() as connection:
                connection.execute(event_table.insert().values(values))
        except _RefusedError as error:
            raise _no_study(self._shown, study_id) from error

    def events(self, study_id: int) -> list[Event]:
        """The events of a study in the order in which they were added."""
        query = select(event_table).where(event_table.c.study_id == study_id).order_by(event_table.c.id)
        with _translated(self._shown), self._engine.connect() as connection:
            rows = connection.execute(query).all()
        with _readable(self._shown):
            return [Event(at=row.at, **codec.loads(row.body)) for row in rows]

    def _has_study(self, study_id: int) -> bool:
        with _translated(self._shown), self._engine.connect() as connection:
            return connection.scalar(select(study_table.c.id).where(study_table.c.id == study_id)) is not None


class _RefusedError(HistoryError):
    """The database refused a row because it breaks a key; the caller says which."""


@contextmanager
def _translated(shown: str) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        raise _RefusedError(f"history={shown}: {error.orig}") from error
    except DBAPIError as error:
        reason = str(error.orig).strip()
        hint = next((hint for word, hint in _HINTS.items() if word in reason), None)
        raise HistoryError(f"history={shown} cannot be used: {reason}", hint=hint) from error


@contextmanager
def _readable(shown: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise HistoryError(
            f"history={shown} has a row that cannot be read: {error}", hint="it is damaged; restore a copy of it"
        ) from error


def _shown(engine: Engine) -> str:
    if engine.dialect.name == "sqlite":
        return repr(engine.url.database)
    return engine.url.set(drivername="postgresql").render_as_string(hide_password=True)


def _study(row: Row[Any]) -> StudyRecord:
    body = codec.loads(row.body)
    return StudyRecord(
        id=row.id,
        name=row.name,
        settings=body["settings"],
        space=body["space"],
        objective=body["objective"],
        baseline=Config(body["baseline"]),
        machine=codec.read_machine(body["machine"]),
        context=codec.read_context(body["context"]),
        created_at=row.created_at,
        status=row.status,
        verdict=codec.loads(row.verdict),
        fingerprint=body["fingerprint"],
    )


def _no_study(shown: str, study_id: int) -> HistoryError:
    return HistoryError(
        f"history={shown} has no study_id={study_id}", hint="`trimtab history list` shows what there is"
    )


def _check_status(status: str) -> None:
    if status not in STUDY_STATUSES:
        raise HistoryError(f"unknown study status={status!r}", hint=f"use one of: {', '.join(STUDY_STATUSES)}")


def _check_name(name: str) -> None:
    """Refuses what no database keeps as text: NUL, and surrogates, which are no characters."""
    if not name or any(char == "\0" or "\ud800" <= char <= "\udfff" for char in name):
        raise HistoryError(f"a study cannot have the name={name!r}", hint="give it a name of printable characters")
