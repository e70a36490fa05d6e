"""What tests of a load on a real server have in common: run it to its end, count by label, look for leftovers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from trimtab.measure import SecondLog
from trimtab.records import Endpoint
from trimtab.workload import LoadRun, Workload
from trimtab.workload.base import ResettableWorkload
from trimtab.workload.connection import connect


def quiet(line: str) -> None:
    """A report that nobody reads."""


def to_the_end(run: LoadRun) -> SecondLog:
    """The log of a run that ends by itself."""
    while run.frame(10.0) is not None:
        pass
    log = run.stop()
    assert isinstance(log, SecondLog)
    return log


def load(workload: Workload, endpoint: Endpoint, *, seed: int = 1, duration_s: float = 1.0) -> SecondLog:
    """Prepares, resets and runs to the end."""
    workload.prepare(endpoint, quiet)
    if isinstance(workload, ResettableWorkload):
        workload.reset(endpoint, quiet)
    return to_the_end(workload.start(endpoint, seed=seed, duration_s=duration_s))


def counts(log: SecondLog) -> dict[str, int]:
    """Successes by label."""
    totals = np.bincount(log.response.label, log.response.count, minlength=len(log.labels))
    return {label: int(n) for label, n in zip(log.labels, totals, strict=True) if n}


def row(endpoint: Endpoint, database: str, query: str) -> tuple[object, ...]:
    """The first row of a query."""
    with connect(endpoint.with_database(database)) as connection:
        found = connection.execute(query).fetchone()
    assert found is not None
    return found


def execute(endpoint: Endpoint, database: str, *statements: str) -> None:
    """Runs statements one by one."""
    with connect(endpoint.with_database(database)) as connection:
        for statement in statements:
            connection.execute(statement)


@dataclass
class Leftovers:
    """Databases and connections of ours beside those that were there before."""

    endpoint: Endpoint
    before: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.before = self._databases()

    def _databases(self) -> set[str]:
        with connect(self.endpoint) as connection:
            return {str(name) for (name,) in connection.execute("SELECT datname FROM pg_database")}

    def databases(self) -> set[str]:
        """New ones."""
        return self._databases() - self.before

    def connections(self, patience_s: float = 10.0) -> int:
        """Ours; a backend takes a moment to notice that its client is gone."""
        until = time.monotonic() + patience_s
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'trimtab' AND pid <> pg_backend_pid()"
        while True:
            (n,) = row(self.endpoint, self.endpoint.database, query)
            if n == 0 or time.monotonic() > until:
                return int(str(n))
            time.sleep(0.05)

    def drop(self) -> None:
        """Removes the new databases."""
        for name in sorted(self.databases()):
            execute(self.endpoint, self.endpoint.database, f'DROP DATABASE "{name}" WITH (FORCE)')
