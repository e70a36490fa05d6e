"""Part "cassandra": prepared reads of a row of 1 kB on a private Cassandra over TCP, beside the crate scylla in the same engine.

The crate gets as many connections to the node as there are users, and one session that they share: so it wants to be used.
The node is warmed up first, until it has compiled what it runs: a fresh one answers slowly, and a client that waits for a core
costs more.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import data
import drivers
from pairs import compare
from plan import Plan

from servers import AbsentError
from trimtab import plugins
from trimtab.errors import TrimtabError
from trimtab.records import Endpoint
from trimtab.systems import Tier
from trimtab.trial.compiling import Compiling
from trimtab.workload.server import store_of

_GOAL_US = 12.0
"""CPU of an operation at the most connections, at most."""

_VERSION = "5.0"
_WARM_S = 90
_CALM_S = 0.15
_N_CALM = 3
"""Loads of a second in a row for which its compiler has so little to do, as before the trials of a study."""

_BATCH = 20
"""Rows of one statement while the table is filled."""


@contextmanager
def _node() -> Iterator[Any]:
    """A private node, made for the benchmark."""
    with tempfile.TemporaryDirectory() as state:
        table = {"kind": "cassandra", "embedded": _VERSION, "memory": "2GiB"}
        target = plugins.load("targets", "cassandra").from_settings("bench-load", table, state_dir=Path(state))
        try:
            target.open()
        except TrimtabError as error:
            raise AbsentError(f"Cassandra does not start: {error.message}") from error
        try:
            yield target
        finally:
            target.close()


def _fill(there: Endpoint, n_rows: int) -> None:
    """Table `wide` with the numbers from 1 to `n_rows` as keys, as on the other servers; that of an earlier run goes."""
    store = store_of(there)
    columns = ", ".join(f"{field} text" for field in data.FIELDS)
    with store.connect() as session:
        store.drop(session, data.WIDE)
        store.create(session, data.WIDE)
        session.execute(f"CREATE TABLE {data.WIDE}.wide (number bigint PRIMARY KEY, {columns})")
        into = f"INSERT INTO {data.WIDE}.wide (number, {', '.join(data.FIELDS)}) VALUES"
        values = ", ".join(["'{text}'"] * len(data.FIELDS))
        for first in range(1, n_rows + 1, _BATCH):
            numbers = range(first, min(first + _BATCH, n_rows + 1))
            rows = (f"{into} ({n}, {values.format(text=str(n).rjust(100, 'x'))})" for n in numbers)
            session.execute(f"BEGIN UNLOGGED BATCH {'; '.join(rows)}; APPLY BATCH")
        store.settle(session)


def run(plan: Plan) -> dict[str, Any]:
    """A row for each number of connections."""
    try:
        drivers.program()
        with _node() as node:
            return {"rows": _rows(node, plan), "absent": []}
    except AbsentError as error:
        return {"rows": [], "absent": [str(error)]}


def _warm_up(node: Any, load: Callable[[], object], most_s: float) -> None:
    """Short loads and pauses until the node's compiler is idle."""
    compiling, until, n_calm = Compiling([Tier(name="db", target=node)]), time.monotonic() + most_s, 0
    while n_calm < _N_CALM and time.monotonic() < until:
        before_s = compiling.total_s()
        load()
        compiling.pause(until - time.monotonic())
        n_calm = n_calm + 1 if compiling.total_s() - before_s <= _CALM_S else 0


def _rows(node: Any, plan: Plan) -> list[dict[str, Any]]:
    there = node.endpoint()
    _fill(there, plan.rows)
    entry = (there.host, str(there.port), there.user or "-", there.password or "-", data.WIDE)
    most = max(drivers.CONNECTIONS)
    _warm_up(node, drivers.client("own-cql", entry, plan.rows, most, 1), _WARM_S if plan.seconds > 1 else 2)
    rows = []
    for connections in drivers.CONNECTIONS:
        both = [drivers.client(name, entry, plan.rows, connections, plan.seconds) for name in ("own-cql", "scylla")]
        goal = {"own_us": _GOAL_US} if connections == most else {}
        rows.append(
            {"server": f"Cassandra {_VERSION}", "load": "prepared read of a 1 kB row", "way": "TCP",
             "connections": connections, "peer": "scylla", "goal": goal, **compare(both[0], both[1], plan.pairs)}
        )  # fmt: skip
    return rows
