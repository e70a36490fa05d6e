"""The tables of TAUdb (schema version 2, TAU 2.22 and later), as far as they hold profiles; SQLite and PostgreSQL alike.

Names and columns are TAU's. What its tools keep beside profiles (views, derived threads) they make themselves.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Index, Integer, MetaData, Table, Text

__all__ = ["DATA_SOURCE", "SCHEMA_VERSION", "TABLES", "metadata", "tables"]

SCHEMA_VERSION = 2
DATA_SOURCE = 999
"""TAU's own number for profiles that none of its parsers has made ("Other")."""

metadata = MetaData()


def _key() -> Column[int]:
    return Column("id", Integer, primary_key=True)


def _of(table: str, *, is_optional: bool = False, name: str | None = None) -> Column[int]:
    return Column(name or table, ForeignKey(f"{table}.id"), nullable=is_optional)


def _words(*names: str) -> list[Column[str]]:
    return [Column(name, Text, nullable=False) for name in names]


def _numbers(*names: str) -> list[Column[int]]:
    return [Column(name, Integer) for name in names]


def _values(*names: str) -> list[Column[float]]:
    return [Column(name, Double) for name in names]


Table("schema_version", metadata, Column("version", Integer, nullable=False), *_words("description"))
Table(
    "data_source",
    metadata,
    Column("id", Integer, unique=True, nullable=False),
    *_words("name"),
    Column("description", Text),
)
Table(
    "trial",
    metadata,
    _key(),
    Column("name", Text),
    Column("data_source", ForeignKey("data_source.id")),
    *_numbers("node_count", "contexts_per_node", "threads_per_context", "total_threads"),
)
Table(
    "thread",
    metadata,
    _key(),
    _of("trial"),
    *(Column(name, Integer, nullable=False) for name in ("node_rank", "context_rank", "thread_rank", "thread_index")),
)
Table("metric", metadata, _key(), _of("trial"), *_words("name"), Column("derived", Boolean, nullable=False))
Table(
    "timer",
    metadata,
    _key(),
    _of("trial"),
    *_words("name", "short_name"),
    Column("source_file", Text),
    *_numbers("line_number", "line_number_end", "column_number", "column_number_end"),
    Index("timer_trial_index", "trial", "name"),
)
Table(
    "timer_group",
    metadata,
    _of("timer", is_optional=True),
    *_words("group_name"),
    Index("timer_group_index", "timer", "group_name"),
)
Table("timer_parameter", metadata, _of("timer", is_optional=True), *_words("parameter_name", "parameter_value"))
Table("timer_callpath", metadata, _key(), _of("timer"), _of("timer_callpath", is_optional=True, name="parent"))
Table("time_range_type", metadata, Column("id", Integer, primary_key=True, autoincrement=False), *_words("name"))
Table(
    "time_range",
    metadata,
    _key(),
    _of("time_range_type", name="type"),
    Column("start", BigInteger, nullable=False),
    Column("end", BigInteger),
)
Table(
    "timer_call_data",
    metadata,
    _key(),
    _of("timer_callpath"),
    _of("thread"),
    Column("calls", BigInteger),
    Column("subroutines", Integer),
    _of("time_range", is_optional=True),
)
Table(
    "timer_value",
    metadata,
    _of("timer_call_data"),
    _of("metric"),
    *_values("inclusive_value", "exclusive_value", "inclusive_percent", "exclusive_percent", "sum_exclusive_squared"),
    Index("timer_value_index", "timer_call_data", "metric"),
)
Table("counter", metadata, _key(), _of("trial"), *_words("name"), Index("counter_trial_index", "trial", "name"))
Table(
    "counter_value",
    metadata,
    _of("counter"),
    _of("timer_callpath", is_optional=True),
    _of("thread"),
    Column("sample_count", Integer),
    *_values("maximum_value", "minimum_value", "mean_value", "standard_deviation"),
    Index("counter_value_index", "counter", "thread"),
)
Table(
    "primary_metadata",
    metadata,
    _of("trial"),
    *_words("name"),
    Column("value", Text),
    Index("primary_metadata_index", "trial", "name"),
)
Table(
    "secondary_metadata",
    metadata,
    _key(),
    _of("trial"),
    _of("thread", is_optional=True),
    _of("timer_call_data", is_optional=True),
    Column("call_number", Integer),
    _of("time_range", is_optional=True),
    _of("secondary_metadata", is_optional=True, name="parent"),
    *_words("name"),
    Column("value", Text),
    Column("is_array", Boolean),
    Index("secondary_metadata_index", "trial", "name", "thread", "parent"),
)

tables = metadata.tables
"""By name."""

TABLES = tuple(tables)
