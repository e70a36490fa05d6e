"""TAUdb: studies in the relational schema of the TAU performance system (seed 000, 4.4), in SQLite or PostgreSQL.

    study -> trial, its facts -> primary_metadata, its machine -> thread and secondary_metadata
    metric of an objective -> metric
    trial -> timer (its knobs -> timer_parameter) with one timer_callpath and timer_call_data
    figure -> timer_value, server counter -> counter_value (the difference over the measurement)

TAU's own tools read these. What has no place there stands exactly in metadata named `trimtab.…`, and is read back from
there; a database without such metadata, made by other programs, is read from the tables.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, insert, inspect, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from trimtab.errors import HistoryError, UsageError
from trimtab.history.formats.base import Imported, file_of, refuse
from trimtab.history.formats.jsonl import (
    event_from_json,
    event_to_json,
    study_from_json,
    study_to_json,
    trial_from_json,
    trial_to_json,
)
from trimtab.history.formats.partial import measurement_of, of_one_kind, scored, study_of
from trimtab.history.formats.scalar import text_of, value_of
from trimtab.history.formats.taudb_schema import DATA_SOURCE, SCHEMA_VERSION, TABLES, metadata, tables
from trimtab.history.record import StudyCopy
from trimtab.history.rows import target_kinds
from trimtab.history.schema import make_engine
from trimtab.measure import Interval
from trimtab.records import Context, Objective, Role, Status, Trial
from trimtab.space import Config

__all__ = ["TaudbFormat"]

_STUDY, _EVENT, _TRIAL = "trimtab.study", "trimtab.event", "trimtab.trial"
_TIMESTAMP = 1
_GROUP = "TRIMTAB"
_READ = ("trial", "metric", "timer", "timer_parameter", "timer_callpath", "timer_call_data", "timer_value",
         "primary_metadata", "secondary_metadata")  # fmt: skip
_TIME, _TIMES_PER_MS = "TIME", 1000.0
"""TAU's own metric, which counts microseconds; latencies are in milliseconds here."""


class TaudbFormat:
    """TAUdb's relational schema: in an SQLite file, or in the PostgreSQL database of a URL, where its tables may be already."""

    suffixes: Sequence[str] = (".taudb",)
    is_exact = True
    is_database = True

    def write(self, studies: Iterable[StudyCopy], place: str) -> Sequence[str]:
        """All of them in one transaction."""
        _require_place(place)
        with _closing(make_engine(place)) as engine, _told(place), engine.begin() as connection:
            _make_tables(connection, place)
            for study in studies:
                _write_study(connection, study)
        return ()

    def read(self, place: str) -> Imported:
        """Reads without changing anything."""
        _require_place(place)
        imported = Imported(())
        imported.studies = _studies(place, imported)
        return imported


def _require_place(place: str) -> None:
    """Raises UsageError for a URL of something else: one of a file would have tables put into whatever database it is."""
    system, url, _ = place.partition("://")
    if url and system.partition("+")[0] != "postgresql":
        raise UsageError(
            f"{place!r} is not the URL of a PostgreSQL database",
            hint="give a file, or postgresql://user@host:port/database",
        )


@contextmanager
def _closing(engine: Engine) -> Iterator[Engine]:
    """Gives the connections back at the end."""
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _told(place: str) -> Iterator[None]:
    shown = place if "://" not in place else place.rpartition("@")[2]
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        reason = str(getattr(error, "orig", None) or error).strip()
        raise HistoryError(
            f"TAUdb at {shown!r} cannot be used: {reason[:300]}", hint="check the path or URL"
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError, UsageError) as error:
        reason = getattr(error, "message", f"{type(error).__name__}: {error}")
        raise refuse(shown, reason[:300]) from error


def _make_tables(connection: Connection, place: str) -> None:
    there = set(inspect(connection).get_table_names()) & set(TABLES)
    if there and there != set(TABLES):
        raise ValueError(f"it has tables named {', '.join(sorted(there)[:3])}, but is not a TAUdb")
    metadata.create_all(connection)
    if not there:
        version = {"version": SCHEMA_VERSION, "description": "written by Trimtab"}
        connection.execute(tables["schema_version"].insert().values(version))
        connection.execute(tables["time_range_type"].insert().values(id=_TIMESTAMP, name="TIMESTAMP"))
    sources = tables["data_source"]
    if connection.scalar(select(sources.c.id).where(sources.c.id == DATA_SOURCE)) is None:
        connection.execute(sources.insert().values(id=DATA_SOURCE, name="Other", description="Other profiles"))


def _add(connection: Connection, table: str, **values: Any) -> int:
    """Inserts a row; its id."""
    found: int = connection.execute(insert(tables[table]).values(values).returning(tables[table].c.id)).scalar_one()
    return found


def _add_rows(connection: Connection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        connection.execute(insert(tables[table]), [dict(row) for row in rows])


def _write_study(connection: Connection, study: StudyCopy) -> None:
    record = study.record
    trial_id = _add(connection, "trial", name=record.name, data_source=DATA_SOURCE, node_count=1, contexts_per_node=1,
                    threads_per_context=1, total_threads=1)  # fmt: skip
    thread = _add(connection, "thread", trial=trial_id, node_rank=0, context_rank=0, thread_rank=0, thread_index=0)
    facts = {
        "Application": record.name,
        "Objective": record.objective,
        "Workload": record.context.workload,
        "Target": target_kinds(record.settings),
        "Starting Timestamp": text_of(record.created_at),
        **{f"Parameter {name}": text_of(value) for name, value in record.baseline.items()},
    }
    rows = [{"trial": trial_id, "name": _safe(name), "value": _safe(value)} for name, value in facts.items()]
    rows.append({"trial": trial_id, "name": _STUDY, "value": json.dumps(study_to_json(record))})
    rows += [{"trial": trial_id, "name": _EVENT, "value": json.dumps(event_to_json(e))} for e in study.events]
    _add_rows(connection, "primary_metadata", rows)
    machine = {"CPU Cores": record.machine.cores, "Memory Size": record.machine.memory_bytes, "Hostname": record.machine.hostname,
               "CPU Type": record.machine.cpu_model, "OS Release": record.machine.kernel,
               "Server Version": record.machine.server_version}  # fmt: skip
    _add_rows(connection, "secondary_metadata", [
        {"trial": trial_id, "thread": thread, "name": name, "value": _safe(str(value)), "is_array": False}
        for name, value in machine.items()
    ])  # fmt: skip
    ids = _Ids(connection, trial_id, thread)
    for trial in study.trials:
        _write_trial(ids, trial)


def _safe(text: str) -> str:
    """What a text column can hold; the exact text is in the metadata."""
    return text.replace("\0", " ").encode(errors="replace").decode()


class _Ids:
    """Where the rows of one study belong; metrics and counters are made when they are first met."""

    def __init__(self, connection: Connection, trial: int, thread: int) -> None:
        self.connection = connection
        self.trial = trial
        self.thread = thread
        self._known: dict[tuple[str, str], int] = {}

    def of(self, table: str, name: str, **values: Any) -> int:
        """Id of the metric or counter called `name`."""
        if (table, name) not in self._known:
            self._known[table, name] = _add(self.connection, table, trial=self.trial, name=_safe(name), **values)
        return self._known[table, name]


def _write_trial(ids: _Ids, trial: Trial) -> None:
    connection = ids.connection
    name = f"trial {trial.number}"
    timer = _add(connection, "timer", trial=ids.trial, name=name, short_name=name)
    _add_rows(connection, "timer_group", [{"timer": timer, "group_name": _GROUP}])
    _add_rows(connection, "timer_parameter", [
        {"timer": timer, "parameter_name": _safe(knob), "parameter_value": text_of(value)}
        for knob, value in trial.config.items()
    ])  # fmt: skip
    callpath = _add(connection, "timer_callpath", timer=timer)
    start = _whole(trial.started_at * 1e6)
    span = _add(
        connection, "time_range", type=_TIMESTAMP, start=start, end=start + _whole(sum(trial.cost_s.values()) * 1e6)
    )
    measured = trial.measurement
    data = _add(connection, "timer_call_data", timer_callpath=callpath, thread=ids.thread, time_range=span, subroutines=0,
                calls=min(0 if measured is None else measured.n_ok, 2**63 - 1))  # fmt: skip
    _add_rows(connection, "timer_value", [
        {"timer_call_data": data, "metric": ids.of("metric", metric, derived=False), "inclusive_value": value,
         "exclusive_value": value}
        for metric, value in _figures(trial).items() if math.isfinite(value)
    ])  # fmt: skip
    _add_rows(connection, "counter_value", [
        {"counter": ids.of("counter", counter), "timer_callpath": callpath, "thread": ids.thread, "sample_count": 1,
         "maximum_value": value, "minimum_value": value, "mean_value": value, "standard_deviation": 0.0}
        for counter, value in _differences(trial).items()
    ])  # fmt: skip
    own = {"trial": ids.trial, "thread": ids.thread, "timer_call_data": data, "is_array": False}
    _add_rows(connection, "secondary_metadata", [{**own, "name": _TRIAL, "value": json.dumps(trial_to_json(trial))}])


def _whole(value: float) -> int:
    return int(value) if abs(value) < 2**62 else 0


def _figures(trial: Trial) -> dict[str, float]:
    if trial.measurement is None:
        return {}
    latency = {f"latency_{name}": interval.estimate for name, interval in trial.measurement.latency_ms.items()}
    figure = {} if trial.measurement.figure is None else {"figure": trial.measurement.figure.estimate}
    return {"throughput": trial.measurement.throughput.estimate,
            "latency_mean": trial.measurement.latency_mean_ms.estimate, **latency, **figure}  # fmt: skip


def _differences(trial: Trial) -> dict[str, float]:
    before, after = trial.counters_before, trial.counters_after
    found = {name: after[name] - before[name] for name in after if name in before}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _studies(place: str, imported: Imported) -> Iterator[StudyCopy]:
    with _told(place), _closing(_reading(place)) as engine, engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            # What a view or an index of a foreign file would run is kept from doing harm.
            connection.exec_driver_sql("PRAGMA trusted_schema = OFF")
        there = set(inspect(connection).get_table_names())
        missing = [name for name in _READ if name not in there]
        if missing:
            raise ValueError(f"it is not a TAUdb: it has no table {', '.join(missing[:3])}")
        for row in connection.execute(select(tables["trial"]).order_by(tables["trial"].c.id)).all():
            yield _read_study(connection, row.id, row.name, imported)


def _reading(place: str) -> Engine:
    if "://" in place:
        return make_engine(place)
    uri = f"{Path(file_of(place)).resolve().as_uri()}?mode=ro"
    # An engine's URL is decoded once more than SQLite's own: names with '#', '?' and '%' would be others.
    return create_engine("sqlite://", creator=lambda: sqlite3.connect(uri, uri=True), poolclass=NullPool)


def _read_study(connection: Connection, trial_id: int, name: str | None, imported: Imported) -> StudyCopy:
    primary, secondary = tables["primary_metadata"], tables["secondary_metadata"]
    facts = connection.execute(select(primary.c.name, primary.c.value).where(primary.c.trial == trial_id)).all()
    stored = [row.value for row in facts if row.name == _STUDY]
    if not stored:
        return _foreign_study(connection, trial_id, name or "taudb", imported)
    own = (secondary.c.trial == trial_id) & (secondary.c.name == _TRIAL)
    texts = connection.execute(select(secondary.c.value).where(own).order_by(secondary.c.id)).scalars()
    trials = [trial_from_json(json.loads(text)) for text in texts]
    events = [event_from_json(json.loads(row.value)) for row in facts if row.name == _EVENT]
    return StudyCopy(study_from_json(json.loads(stored[0])), trials, events)


def _foreign_study(connection: Connection, trial_id: int, name: str, imported: Imported) -> StudyCopy:
    """Each timer that has parameters is a trial; its value is the mean over threads and calls of its first metric."""
    metric = tables["metric"]
    found = connection.execute(
        select(metric.c.id, metric.c.name).where(metric.c.trial == trial_id).order_by(metric.c.id)
    ).all()
    if not found:
        raise ValueError(f"its trial {name!r} has no metric")
    if len(found) > 1:
        imported.note(f"taudb: of {len(found)} metrics only {found[0].name!r} was taken")
    known = found[0].name if found[0].name in ("throughput", "latency_mean") else "latency_mean"
    imported.note(
        f"taudb: metric {found[0].name!r} is taken as {known}, the first timer with parameters as the baseline"
    )
    objective = Objective.parse(known)
    configs = _foreign_configs(connection, trial_id, imported)
    unit = _TIMES_PER_MS if found[0].name == _TIME else 1.0
    values = {timer: value / unit for timer, value in _foreign_values(connection, found[0].id).items()}
    trials = [
        Trial(
            number=number,
            role=Role.SEARCH if number else Role.BASELINE,
            config=config,
            context=Context("", 0),
            status=Status.OK if timer in values else Status.CRASHED,
            measurement=measurement_of({known: Interval(values[timer], math.nan, math.nan)})
            if timer in values
            else None,
        )
        for number, (timer, config) in enumerate(configs.items())
    ]
    trials = of_one_kind(trials)
    record = study_of(name=name, objective=known, configs=[trial.config for trial in trials])
    return StudyCopy(record, scored(trials, objective))


def _foreign_configs(connection: Connection, trial_id: int, imported: Imported) -> dict[int, Config]:
    timer, parameter = tables["timer"], tables["timer_parameter"]
    ids = connection.execute(select(timer.c.id).where(timer.c.trial == trial_id).order_by(timer.c.id)).scalars().all()
    rows = connection.execute(
        select(parameter).join(timer, timer.c.id == parameter.c.timer).where(timer.c.trial == trial_id)
    ).all()
    values: dict[int, dict[str, Any]] = {timer_id: {} for timer_id in ids}
    for row in rows:
        values[row.timer][row.parameter_name] = value_of(row.parameter_value)
    if not all(values.values()):
        imported.note("taudb: timers without parameters were left out")
    return {timer_id: Config(own) for timer_id, own in values.items() if own}


def _foreign_values(connection: Connection, metric: int) -> dict[int, float]:
    callpath, data, value = tables["timer_callpath"], tables["timer_call_data"], tables["timer_value"]
    rows = connection.execute(
        select(callpath.c.timer, value.c.inclusive_value)
        .join(data, data.c.timer_callpath == callpath.c.id)
        .join(value, value.c.timer_call_data == data.c.id)
        .where(value.c.metric == metric)
    ).all()
    found: dict[int, list[float]] = {}
    for row in rows:
        if isinstance(row.inclusive_value, int | float) and math.isfinite(row.inclusive_value):
            found.setdefault(row.timer, []).append(float(row.inclusive_value))
    return {timer: sum(own) / len(own) for timer, own in found.items()}
