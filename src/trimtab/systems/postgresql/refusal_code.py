"""The code (SQLSTATE) with which a server refuses a login: its words may be in any language, and libpq tells nothing else."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

__all__ = ["refusal_code"]

_MOST_BYTES = 1 << 16
_CODE = re.compile(rb'\tErrorResponse\t.*? C "([0-9A-Z]{5})"')
_EVENTS: dict[int, int] = {pq.PollingStatus.READING: select.POLLIN, pq.PollingStatus.WRITING: select.POLLOUT}


def refusal_code(given: Mapping[str, Any], timeout_s: float) -> str:
    """Logs in once more, with libpq's trace switched on, and says with which code that failed; of several servers or ways the
    last. "" where none was told in time, or libpq is older than 18, which traces no answers to a login.
    """
    trace = os.memfd_create("trimtab-login")
    try:
        _log_in(make_conninfo(**given), trace, time.monotonic() + timeout_s)
        found = _CODE.findall(os.pread(trace, _MOST_BYTES, 0))
    except psycopg.Error:
        return ""
    finally:
        os.close(trace)
    return found[-1].decode() if found else ""


def _log_in(conninfo: str, trace: int, until: float) -> None:
    connection = pq.PGconn.connect_start(conninfo.encode())
    try:
        connection.trace(trace)
        while connection.status != pq.ConnStatus.BAD and (events := _EVENTS.get(connection.connect_poll())) is not None:
            waiting = select.poll()
            waiting.register(connection.socket, events)
            if not waiting.poll(max(0.0, until - time.monotonic()) * 1000):
                break
        connection.untrace()
    finally:
        connection.finish()
