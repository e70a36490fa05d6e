"""failure_of: one operation of an HTTP load, before the first trial, to see whether it can be had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trimtab.load import build_source
from trimtab.records import Endpoint
from trimtab.workload.engine_run import cannot_connect

__all__ = ["failure_of"]

_ONCE_S = 3600.0
"""The pause behind it: longer than anybody waits for an answer."""


def failure_of(
    there: Endpoint, driver: Any, source: Mapping[str, Any], *, label: str, operation_timeout_s: float
) -> str:
    """Lets one user do the first operation of `source`, which has this label; why it has failed, "" where it has not.

    Raises:
        LoadError: the server cannot be reached.
    """
    from trimtab._native import Load, Model

    try:
        load = Load(
            driver=driver,
            source=build_source(source),
            users=1,
            model=Model.closed(_ONCE_S),
            duration_s=_ONCE_S,
            operation_timeout_s=operation_timeout_s,
        )
    except ConnectionError as error:
        raise cannot_connect(there, 1, str(error)) from error
    while not _has_ended(log := load.log()):
        load.frame(0.02)
    load.stop()
    if np.frombuffer(log.seconds().timed_out, dtype="<i8").any():
        return f"it took longer than operation_timeout={operation_timeout_s:g}s"
    return log.errors[0].removeprefix(f"{label}: ") if log.errors else ""


def _has_ended(log: Any) -> bool:
    seconds = log.seconds()
    return any(np.frombuffer(count, dtype="<i8").any() for count in (seconds.ok, seconds.error, seconds.timed_out))
