"""The [workload] table of a YCSB study, checked; the core workloads A to F as YCSB ships them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from trimtab.errors import UsageError
from trimtab.workload.database import check_name
from trimtab.workload.load_model import LoadModel
from trimtab.workload.table import Table

__all__ = ["CORE", "OPERATIONS", "YcsbSettings", "parse_settings"]

Distribution = Literal["zipfian", "latest", "uniform", "hotspot", "exponential", "sequential"]
Lengths = Literal["constant", "uniform", "zipfian"]
StartStateChoice = Literal["auto", "template", "none"]

OPERATIONS = ("read", "update", "insert", "scan", "read_modify_write")
_KEYS = (
    "kind", "workload", "records", *OPERATIONS, "distribution", "hot_data", "hot_operations", "fields", "field_length",
    "field_lengths", "scan_length", "scan_lengths", "insert_order", "zero_padding", "read_all_fields",
    "write_all_fields", "validate", "database", "start_state", "operation_timeout", "batch", "load",
)  # fmt: skip
_MAX_RECORDS = 2_000_000_000
_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class YcsbSettings:
    """What to run, on how much data (B. Cooper et al., Benchmarking Cloud Serving Systems with YCSB, SoCC 2010).

    Attributes:
        name: "A" to "F", or "custom".
        records: rows of `usertable` when a run starts.
        proportions: operation -> share of the operations; they sum to 1.
        distribution: of the keys asked for. "zipfian" is YCSB's own, scrambled over the key space.
        hot_data, hot_operations: of "hotspot": this share of the data gets that share of the operations.
        fields, field_length, field_lengths: columns of a row, their length in bytes, and how the lengths are distributed.
        scan_length, scan_lengths: longest scan and how the lengths are distributed (from 1).
        is_hashed: whether keys are hashed (YCSB's insertorder) or in the order of insertion.
        zero_padding: digits to which key numbers are padded.
        reads_all_fields, writes_all_fields: whole rows, or one field chosen at random.
        is_validated: whether row counts and field lengths of every answer are checked.
        database: name on the server; "" for one by the data.
        start_state: how every trial gets the same start state.
        operation_timeout_s: an operation that takes longer is cut off.
        batch: rows of one INSERT in the load phase.
        load: clients and load model.
    """

    name: str = "custom"
    records: int = 100_000
    proportions: Mapping[str, float]
    distribution: Distribution = "zipfian"
    hot_data: float = 0.2
    hot_operations: float = 0.8
    fields: int = 10
    field_length: int = 100
    field_lengths: Lengths = "constant"
    scan_length: int = 100
    scan_lengths: Lengths = "uniform"
    is_hashed: bool = True
    zero_padding: int = 1
    reads_all_fields: bool = True
    writes_all_fields: bool = False
    is_validated: bool = True
    database: str = ""
    start_state: StartStateChoice = "auto"
    operation_timeout_s: float = 10.0
    batch: int = 50
    load: LoadModel

    @property
    def read_share(self) -> float:
        """Share of the operations that only read."""
        return self.proportions.get("read", 0.0) + self.proportions.get("scan", 0.0)

    @property
    def is_read_only(self) -> bool:
        """Whether no operation writes."""
        return self.read_share >= 1 - _SUM_TOLERANCE

    @property
    def row_bytes(self) -> int:
        """Bytes of a row as PostgreSQL stores it, key and index entry included; an upper bound when lengths vary."""
        return self.fields * (self.field_length + 4) + 120

    @property
    def shape(self) -> tuple[str, ...]:
        """What of the records is not as usual."""
        sizes = f"{self.fields}x{self.field_length}" + (
            "" if self.field_lengths == "constant" else self.field_lengths[0]
        )
        parts = {
            sizes: sizes != "10x100",
            "ordered": not self.is_hashed,
            f"pad{self.zero_padding}": self.zero_padding != 1,
        }
        return tuple(part for part, is_unusual in parts.items() if is_unusual)

    @property
    def manner(self) -> tuple[str, ...]:
        """What is not as usual of how they are asked for."""
        usual = CORE[self.name].distribution if self.name in CORE else "zipfian"
        hot = f" {self.hot_data:g} {self.hot_operations:g}" if self.distribution == "hotspot" else ""
        has_scans = self.proportions.get("scan", 0.0) > 0
        words = {
            f"{self.distribution}{hot}": self.distribution != usual,
            f"scans {self.scan_length} {self.scan_lengths}": has_scans
            and (self.scan_length, self.scan_lengths) != (100, "uniform"),
            "reads 1 field": not self.reads_all_fields,
            "writes all fields": self.writes_all_fields,
        }
        return tuple(word for word, is_unusual in words.items() if is_unusual)

    @property
    def data(self) -> dict[str, Any]:
        """Everything that the loaded rows depend on."""
        return {
            "workload": "ycsb",
            "version": 1,
            "records": self.records,
            "fields": self.fields,
            "field_length": self.field_length,
            "field_lengths": self.field_lengths,
            "is_hashed": self.is_hashed,
            "zero_padding": self.zero_padding,
        }


@dataclass(frozen=True, slots=True)
class _Core:
    proportions: Mapping[str, float]
    distribution: Distribution = "zipfian"


CORE: Mapping[str, _Core] = {
    "A": _Core({"read": 0.5, "update": 0.5}),
    "B": _Core({"read": 0.95, "update": 0.05}),
    "C": _Core({"read": 1.0}),
    "D": _Core({"read": 0.95, "insert": 0.05}, "latest"),
    "E": _Core({"scan": 0.95, "insert": 0.05}),
    "F": _Core({"read": 0.5, "read_modify_write": 0.5}),
}
"""YCSB's core workloads."""


def parse_settings(settings: Mapping[str, Any]) -> YcsbSettings:
    """The checked settings.

    Raises:
        UsageError: an unknown key, a wrong value, or shares that do not sum to 1.
    """
    table = Table(settings, "[workload]", _KEYS)
    core, name = _core(table)
    proportions = _proportions(table, core)
    read = YcsbSettings(
        name=name if proportions == core.proportions else "custom",
        records=table.integer("records", 100_000, 1, _MAX_RECORDS),
        proportions=proportions,
        distribution=cast(
            Distribution,
            table.choice("distribution", ("zipfian", "latest", "uniform", "hotspot", "exponential", "sequential"),
                         core.distribution),
        ),
        hot_data=table.number("hot_data", 0.2, 0.0, 1.0),
        hot_operations=table.number("hot_operations", 0.8, 0.0, 1.0),
        load=LoadModel.from_settings(settings.get("load", {})),
    )  # fmt: skip
    _refuse_hot_keys_of_others(table, read.distribution)
    return _with_rows(read, table)


def _refuse_hot_keys_of_others(table: Table, distribution: Distribution) -> None:
    for key in ("hot_data", "hot_operations"):
        if key in table and distribution != "hotspot":
            raise UsageError(
                f'[workload] {key}={table.values[key]!r} has no meaning with distribution="{distribution}"',
                hint='remove it, or set distribution = "hotspot"',
            )


def _with_rows(read: YcsbSettings, table: Table) -> YcsbSettings:
    lengths = ("constant", "uniform", "zipfian")
    database = table.values.get("database")
    settings = replace(
        read,
        fields=table.integer("fields", 10, 1, 500),
        field_length=table.integer("field_length", 100, 1, 100_000),
        field_lengths=cast(Lengths, table.choice("field_lengths", lengths, "constant")),
        scan_length=table.integer("scan_length", 100, 1, 100_000),
        scan_lengths=cast(Lengths, table.choice("scan_lengths", ("uniform", "zipfian"), "uniform")),
        is_hashed=table.choice("insert_order", ("hashed", "ordered"), "hashed") == "hashed",
        zero_padding=table.integer("zero_padding", 1, 1, 30),
        reads_all_fields=table.flag("read_all_fields", True),
        writes_all_fields=table.flag("write_all_fields", False),
        is_validated=table.flag("validate", True),
        database="" if database is None else check_name(database),
        start_state=cast(StartStateChoice, table.choice("start_state", ("auto", "template", "none"), "auto")),
        operation_timeout_s=table.seconds("operation_timeout", "10s"),
        batch=table.integer("batch", 50, 1, 1000),
    )
    _require_one_generator(settings)
    return replace(settings, database=settings.database or _name_of(settings))


def _require_one_generator(settings: YcsbSettings) -> None:
    """Where users share a count: two generators would insert records of the same numbers, and walk twice through all records."""
    if len(settings.load.generators) <= 1:
        return
    if settings.proportions.get("insert", 0.0) > 0:
        what, other = "that inserts records", 'a workload without inserts ("A", "B", "C", "F")'
    elif settings.distribution == "sequential":
        what, other = 'with distribution="sequential"', "another distribution"
    else:
        return
    shown = ", ".join(map(str, settings.load.generators))
    raise UsageError(
        f"[workload.load] from={shown}: a YCSB workload {what} takes one generator",
        hint=f"use one place in `from`, or {other}",
    )


def _core(table: Table) -> tuple[_Core, str]:
    if "workload" not in table:
        if not any(name in table for name in OPERATIONS):
            raise UsageError(
                "[workload] of kind=ycsb names no workload",
                hint='workload = "A" (to "F"), or your own shares: read = 0.9, update = 0.1',
            )
        return _Core({}), "custom"
    name = str(table.values["workload"]).upper()
    if name not in CORE:
        raise UsageError(
            f"[workload] workload={table.values['workload']!r} is not known",
            hint=f"use one of: {', '.join(CORE)}; or your own shares: read = 0.9, update = 0.1",
        )
    return CORE[name], name


def _proportions(table: Table, core: _Core) -> Mapping[str, float]:
    """The core workload's shares, or all of the table's own: half of each would hide a mistake."""
    own = {name: table.number(name, 0.0, 0.0, 1.0) for name in OPERATIONS if name in table}
    if not own:
        return core.proportions
    if abs(sum(own.values()) - 1.0) > _SUM_TOLERANCE:
        shown = " + ".join(f"{name} {share:g}" for name, share in own.items())
        raise UsageError(
            f"[workload] the shares of the operations sum to {sum(own.values()):g}: {shown}",
            hint=f"make them sum to 1; shares that are not named are 0 (there are {', '.join(OPERATIONS)})",
        )
    return {name: share for name, share in own.items() if share > 0}


def _name_of(settings: YcsbSettings) -> str:
    """A database name that tells data sets apart and people what is in them."""
    return "_".join((f"trimtab_ycsb_{settings.records}", *settings.shape))
