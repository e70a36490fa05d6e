"""The [workload] table of a TPC-H study, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from trimtab.errors import UsageError
from trimtab.workload.table import Table
from trimtab.workload.tpch.parameters import QUERIES
from trimtab.workload.tpch.schema import SchemaName

__all__ = ["RunKind", "TpchSettings", "mix_text", "parse_mix", "parse_settings"]

RunKind = Literal["mix", "power", "throughput"]

MIN_SCALE = 0.01
MAX_SCALE = 100_000.0
MAX_STREAMS = 1000
_KEYS = ("kind", "scale", "mix", "run", "streams", "refresh", "repeat", "query_timeout", "schema", "database")
_MIX_ITEM = re.compile(r"\s*(-?\d+)?\s*q(\d+)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TpchSettings:
    """What to run, on how much data.

    Attributes:
        scale: size of the data; 1 is about 1.5 GB in the database.
        run: "mix": so many endless streams of single queries; "power": one stream of all 22; "throughput": several.
        mix: query (1 to 22) -> concurrent streams of it; empty unless run is "mix".
        n_streams: streams of a throughput run.
        has_refresh: whether RF1 and RF2 run too.
        is_repeated: whether a power or throughput run starts again at its end.
        query_timeout_s: a query that takes longer is cut off and counts as censored.
        schema: "standard" or "pk-only" (primary keys only).
        database: the database's name on the server.
    """

    scale: float = 1.0
    run: RunKind = "mix"
    mix: Mapping[int, int] = field(default_factory=dict)
    n_streams: int = 2
    has_refresh: bool = False
    is_repeated: bool = True
    query_timeout_s: float = 60.0
    schema: SchemaName = "standard"
    database: str = ""


def mix_text(mix: Mapping[int, int]) -> str:
    """{6: 4, 9: 4} as "4Q6+4Q9"."""
    return "+".join(f"{n}Q{query}" for query, n in sorted(mix.items()))


def parse_mix(value: object) -> Mapping[int, int]:
    """The mix of a table like {q6 = 4} or of a text like "4Q6+4Q9"; sorted by query, entries of 0 left out.

    Raises:
        UsageError: an unknown query, a count that is not a whole number or negative, or nothing left to run.
    """
    counts: dict[int, int] = {}
    for name, count in _mix_items(value):
        query = int(name[1:]) if re.fullmatch(r"[qQ]\d{1,2}", name) else 0
        if query not in QUERIES:
            raise UsageError(f"unknown query in mix: {name}={count}", hint="the queries are q1 to q22")
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_STREAMS:
            raise UsageError(
                f"mix.{name}={count!r} is not a number of streams", hint=f"use a whole number from 0 to {MAX_STREAMS}"
            )
        counts[query] = counts.get(query, 0) + count
    kept = {query: n for query, n in sorted(counts.items()) if n}
    if not kept:
        raise UsageError(f"mix={value!r} runs nothing", hint="for example: mix = { q6 = 4, q9 = 4, q13 = 4 }")
    return kept


def _mix_items(value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(str(name), count) for name, count in value.items()]
    if not isinstance(value, str):
        raise UsageError(f"mix={value!r} is neither a table nor a text", hint='for example: mix = "4Q6+4Q9+4Q13"')
    items: list[tuple[str, object]] = []
    for part in value.split("+"):
        match = _MIX_ITEM.fullmatch(part)
        if match is None:
            raise UsageError(f"mix={value!r} cannot be read at {part!r}", hint='for example: mix = "4Q6+4Q9+4Q13"')
        items.append((f"q{match[2]}", int(match[1] or 1)))
    return items


def parse_settings(settings: Mapping[str, Any]) -> TpchSettings:
    """The checked settings.

    Raises:
        UsageError: an unknown key or a wrong value.
    """
    table = Table(settings, "[workload]", _KEYS)
    run = _run(table)
    scale = table.number("scale", 1.0, MIN_SCALE, MAX_SCALE)
    schema = cast(SchemaName, table.choice("schema", ("standard", "pk-only"), "standard"))
    return TpchSettings(
        scale=scale,
        run=run,
        mix=parse_mix(settings["mix"]) if run == "mix" else {},
        n_streams=table.integer("streams", 2, 1, MAX_STREAMS),
        has_refresh=table.flag("refresh", False),
        is_repeated=table.flag("repeat", True),
        query_timeout_s=table.seconds("query_timeout", "60s"),
        schema=schema,
        database=_database(settings.get("database"), scale, schema),
    )


def _run(table: Table) -> RunKind:
    if "mix" in table and "run" in table:
        raise UsageError(
            f"mix={table.values['mix']!r} and run={table.values['run']!r} exclude each other",
            hint="leave one of them out",
        )
    if "mix" in table:
        for key in ("streams", "refresh", "repeat"):
            if key in table:
                raise UsageError(
                    f"{key}={table.values[key]!r} has no meaning with a mix",
                    hint='use it with run = "power" or "throughput"',
                )
        return "mix"
    if "run" not in table:
        raise UsageError(
            "[workload] of kind=tpch has neither mix nor run",
            hint='mix = { q6 = 4, q9 = 4, q13 = 4 }, or run = "power" or "throughput"',
        )
    run = cast(RunKind, table.choice("run", ("power", "throughput"), "power"))
    if "streams" in table and run != "throughput":
        raise UsageError(
            f'streams={table.values["streams"]!r} has no meaning with run="{run}"', hint='use run = "throughput"'
        )
    return run


def _database(value: object, scale: float, schema: SchemaName) -> str:
    if value is None:
        suffix = "" if schema == "standard" else "_pk"
        return f"trimtab_tpch_{scale:.10g}{suffix}".replace(".", "_").replace("+", "")
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$-]{0,62}", value):
        raise UsageError(
            f"database={value!r} is not a database name", hint="use up to 63 letters, digits, _ and -, a letter first"
        )
    return value
