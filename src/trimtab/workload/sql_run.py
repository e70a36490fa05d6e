"""A load of SQL streams: starts the native engine and gives its log as a QueryLog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trimtab.errors import LoadError
from trimtab.measure import QueryLog
from trimtab.records import Endpoint
from trimtab.workload.base import Frame
from trimtab.workload.engine_run import allow_files, driver_of, no_threads, to_frame, waits_of

if TYPE_CHECKING:
    from trimtab._native import Load, RunLog, Stream

__all__ = ["SqlRun", "start_sql_load", "to_log"]


class SqlRun:
    """A running SQL load (a `LoadRun`); `stop` is idempotent, and the log stays readable after it."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._final: QueryLog | None = None

    def frame(self, timeout_s: float) -> Frame | None:
        """The next one-second frame; None when the run has ended or nothing came within `timeout_s`."""
        return to_frame(self._load.frame(timeout_s))

    @property
    def is_done(self) -> bool:
        """Whether every stream has ended."""
        return self._load.is_done

    def log(self) -> QueryLog:
        """Every operation that has ended so far, without stopping."""
        return self._final if self._final is not None else to_log(self._load.log())

    def stop(self) -> QueryLog:
        """Cancels what is in flight, waits for it, and returns the whole log."""
        if self._final is None:
            self._final = to_log(self._load.stop())
        return self._final


def to_log(log: RunLog) -> QueryLog:
    """The rows of the engine's log as a QueryLog in order of `end_s`.

    Raises:
        LoadError: the columns differ in length (the native module does not belong to this version).
    """
    columns = log.rows()
    arrays = {
        "stream": np.frombuffer(columns.stream, dtype="<i4"),
        "label": np.frombuffer(columns.label, dtype="<i4"),
        "start_s": np.frombuffer(columns.start_s, dtype="<f8"),
        "end_s": np.frombuffer(columns.end_s, dtype="<f8"),
        "rows": np.frombuffer(columns.rows, dtype="<i8"),
        "outcome": np.frombuffer(columns.outcome, dtype="u1"),
    }
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise LoadError(f"the load engine's columns differ in length: {lengths}", hint="reinstall trimtab")
    if np.any(np.diff(arrays["end_s"]) < 0):
        order = np.argsort(arrays["end_s"], kind="stable")
        arrays = {name: array[order] for name, array in arrays.items()}
    seconds = log.seconds()
    waits = waits_of(seconds, log.n_threads)
    return QueryLog(
        labels=tuple(log.labels),
        **arrays,
        errors=tuple(log.errors),
        duration_s=log.duration_s,
        client_cpu_s=log.client_cpu_s,
        wait_s=None if waits is None else float(waits.sum(axis=0).max()),
        steal_s=float(np.frombuffer(seconds.steal_s, dtype="<f8").sum()),
        priority=log.priority,
    )


def start_sql_load(
    endpoint: Endpoint,
    streams: Sequence[Stream],
    *,
    duration_s: float,
    operation_timeout_s: float,
) -> SqlRun:
    """Starts `streams` against `endpoint`; returns when all are connected.

    Raises:
        LoadError: a stream could not connect, the endpoint wants what the engine cannot do, or this process may not open so many
            files.
    """
    # Imported here so that reading a study file does not need the native module.
    from trimtab._native import Load, Streams

    allow_files(len(streams))
    driver = driver_of(endpoint)
    try:
        load = Load(
            driver=driver,
            source=Streams(streams),
            duration_s=duration_s,
            operation_timeout_s=operation_timeout_s,
            keep_rows=True,
        )
    except ConnectionError as error:
        raise LoadError(
            f"the load cannot connect: endpoint={endpoint} streams={len(streams)}: {error}",
            hint="check that the server runs and max_connections leaves room for every stream",
        ) from error
    except OSError as error:
        raise no_threads(error.strerror or str(error)) from error
    except ValueError as error:
        raise LoadError(
            f"the load cannot start: endpoint={endpoint}: {error}", hint="check the target's url"
        ) from error
    return SqlRun(load)
