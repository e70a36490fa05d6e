"""The [workload] table of an oltp study, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from trimtab.workload.load_model import LoadModel
from trimtab.workload.oltp.scripts import SCRIPTS
from trimtab.workload.sql.generators import DISTRIBUTIONS
from trimtab.workload.table import Table

__all__ = ["RANGE_SIZE", "OltpSettings", "parse_settings"]

StartStateChoice = Literal["auto", "template", "none"]

RANGE_SIZE = 100
"""Rows of a range query, where the table does not say."""

_KEYS = (
    "kind", "script", "tables", "table_size", "range_size", "distribution", "skew", "start_state", "operation_timeout", "load",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OltpSettings:
    """What to run, on which tables.

    Attributes:
        script: name of the transaction type.
        tables: how many tables of the same kind.
        table_size: rows in each.
        range_size: rows that a range query reads.
        distribution, skew: of the row numbers.
        start_state: how every trial gets the same start state.
        operation_timeout_s: a transaction that takes longer is cut off.
        load: clients and load model.
    """

    script: str
    tables: int
    table_size: int
    range_size: int
    distribution: str
    skew: float
    start_state: StartStateChoice
    operation_timeout_s: float
    load: LoadModel

    @property
    def is_read_only(self) -> bool:
        """Whether the script only reads."""
        return SCRIPTS[self.script].read_share == 1.0

    @property
    def database(self) -> str:
        """Of the data; the same data has the same name."""
        return f"trimtab_oltp_{self.tables}x{self.table_size}"


def parse_settings(settings: Mapping[str, Any]) -> OltpSettings:
    """The checked settings.

    Raises:
        UsageError: an unknown key or a wrong value.
    """
    table = Table(settings, "[workload]", _KEYS)
    distribution = table.choice("distribution", tuple(DISTRIBUTIONS), "uniform")
    default, low, high = DISTRIBUTIONS[distribution]
    table_size = table.integer("table_size", 100_000, 1000, 1_000_000_000)
    return OltpSettings(
        script=table.choice("script", tuple(SCRIPTS), "read_write"),
        tables=table.integer("tables", 1, 1, 100),
        table_size=table_size,
        range_size=table.integer("range_size", RANGE_SIZE, 1, table_size),
        distribution=distribution,
        skew=table.number("skew", default, low, high),
        start_state=cast(StartStateChoice, table.choice("start_state", ("auto", "template", "none"), "auto")),
        operation_timeout_s=table.seconds("operation_timeout", "60s"),
        load=LoadModel.from_settings(settings.get("load", {})),
    )
