"""OltpWorkload: sysbench's oltp transactions, run by the native engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trimtab.records import Context, Endpoint
from trimtab.workload.database import Dataset
from trimtab.workload.engine_run import ScriptPart, script_source
from trimtab.workload.generated_workload import GeneratedWorkload
from trimtab.workload.oltp.scripts import SCRIPTS, parameters_of, text_of
from trimtab.workload.oltp.settings import RANGE_SIZE, OltpSettings, parse_settings
from trimtab.workload.oltp.tables import dataset, table_names
from trimtab.workload.scripts import ScriptText
from trimtab.workload.sql.generators import parse_generators
from trimtab.workload.sql.samples import native_generators

__all__ = ["OltpWorkload"]


class OltpWorkload(GeneratedWorkload):
    """Short transactions as sysbench's oltp scripts ask them: reads by key and range, updates, a delete and an insert.

    See `Workload`; immutable after construction.
    """

    kind = "oltp"
    protocols = ("postgresql", "mysql")
    max_tries = 10
    """Transactions that meet in a deadlock are made again, as sysbench does; the time counts."""
    settings: OltpSettings

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, directory: Path = Path()) -> OltpWorkload:
        """Built from the study file's [workload] table; it names no files, so `directory` does not matter.

        Raises:
            UsageError: an unknown key or a wrong value.
        """
        return cls(parse_settings(settings))

    @property
    def context(self) -> Context:
        """Script, size of the data, which rows are asked for where that is not as usual, users, and the share of statements that
        only read."""
        settings = self.settings
        where = f"{settings.tables} x {settings.table_size} rows"
        if settings.distribution != "uniform":
            where += f" {settings.distribution} {settings.skew:g}"
        if settings.range_size != RANGE_SIZE:
            where += f" ranges of {settings.range_size}"
        features = {"rows": float(settings.tables * settings.table_size)} | settings.load.features
        read_share = SCRIPTS[settings.script].read_share
        return Context(f"oltp {settings.script} {where}", settings.load.users, read_share, features)

    @property
    def dataset(self) -> Dataset:
        """What the database is to hold."""
        return dataset(self.settings)

    def source(self, there: Endpoint, duration_s: float) -> dict[str, Any]:
        """One transaction type a table, all with the same weight."""
        settings, script = self.settings, SCRIPTS[self.settings.script]
        parameters = parse_generators(parameters_of(settings.table_size, settings.distribution, settings.skew))
        tables = table_names(settings)
        parts: list[ScriptPart] = []
        for table in tables:
            label = settings.script if len(tables) == 1 else f"{settings.script} {table}"
            text = text_of(script, table, settings.range_size)
            used = {name: generator for name, generator in parameters.items() if f":{name}" in text}
            wrap = "commit" if script.is_transaction else "none"
            parts.append(("own", ScriptText(label, 1.0, text, ""), native_generators(there, used), wrap))
        return script_source(parts, dialect=there.protocol, users=settings.load.users)
