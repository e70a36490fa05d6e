"""A site for tests: a database with an application's data, and a Tomcat in which it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.apps.conftest import target
from tests.servers.embedded import provide
from tests.workload.runs import to_the_end
from trimtab.measure import SecondLog
from trimtab.records import Endpoint
from trimtab.systems.private_files import keep_file
from trimtab.workload.database import Dataset, ensure
from trimtab.workload.run_database import RunDatabase
from trimtab.workload.server import SqlServer, server_of
from trimtab.workload.site import SITE_KEYS, SiteLoad, builtin_site
from trimtab.workload.table import Table
from trimtab.workload.webapp import Answer, ask, built
from trimtab.workload.webapp.deploy import deployment

__all__ = ["Site", "site"]


@dataclass(frozen=True)
class Site:
    """An application that runs."""

    name: str
    endpoint: Endpoint
    app: Any
    database: Any
    runs: RunDatabase

    def get(self, path: str) -> Answer:
        """The page of a path behind the application's name."""
        return ask(self.endpoint, f"/{self.name}/{path}")

    def post(self, path: str, **form: object) -> Answer:
        """The same, of a form."""
        return ask(self.endpoint, f"/{self.name}/{path}", {name: str(value) for name, value in form.items()})

    @property
    def data(self) -> SqlServer:
        """The database that the application uses."""
        return server_of(self.database.endpoint().with_database(self.name))

    def browse(self, numbers: Mapping[str, int], mix: str, duration_s: float) -> SecondLog:
        """What browsers that do not think meet on a walk."""
        table = Table({"mix": mix, "think_scale": 0, "load": {"users": 8}}, "[workload]", SITE_KEYS)
        load = SiteLoad.from_table(table, builtin_site(self.name), Path()).with_numbers(dict(numbers))
        return to_the_end(load.start(self.endpoint, seed=1, duration_s=duration_s))

    def renew(self) -> None:
        """Everything as it was prepared."""
        self.runs.reset(self.database.endpoint(), lambda line: None)
        answer = self.post("renew")
        assert answer.outcome == "ok", answer.text


@contextmanager
def site(name: str, kind: str, version: str, dataset: Dataset, state_dir: Path) -> Iterator[Site]:
    """The application on a private server of that kind, with data."""
    provide(Path(os.environ["TRIMTAB_CACHE"]), version, name=f"{name}-{kind}")
    database = target(kind, f"{name}-{kind}", state_dir, embedded=version, memory="512MiB")
    database.open()
    try:
        there = database.endpoint()
        ensure(there, dataset, lambda line: None)
        runs = RunDatabase(dataset.database, True, name)
        runs.reset(there, lambda line: None)
        deployed = deployment(built(name, print), there, name)
        names = {**deployed.names, "config": str(keep_file(f"{name}-{kind}", deployed.config.encode(), ".properties"))}
        app = target("tomcat", f"{name}-{kind}-app", state_dir, embedded="10.1", names=names)
        app.open()
        try:
            yield Site(name, replace(app.endpoint(), data=there), app, database, runs)
        finally:
            app.close()
    finally:
        database.close()
