"""The [workload] table of a TPC-H study, checked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from trimtab.errors import UsageError
from trimtab.units import parse_duration
from trimtab.workload.table import Table
from trimtab.workload.tpch.parameters import QUERIES
from trimtab.workload.tpch.schema import SchemaName

__all__ = ["RunKind", "TpchSettings", "mix_text", "parse_mix", "parse_settings"]

RunKind = Literal["mix", "power", "throughput"]

MIN_SCALE = 0.01
MAX_SCALE = 100_000.0
MAX_STREAMS = 1000
_KEYS = ("kind", "scale", "mix", "run", "streams", "refresh", "repeat", "query_timeout", "schema", "database")
_MIX_ITEM = re.compile(r"\s*(-?\d*)\s*q(\d+)\s*", re.IGNORECASE)


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
    Table(settings, "[workload]", _KEYS)
    run = _run(settings)
    scale = _scale(settings.get("scale", 1.0))
    schema = cast(SchemaName, _choice(settings, "schema", ("standard", "pk-only"), "standard"))
    return TpchSettings(
        scale=scale,
        run=run,
        mix=parse_mix(settings["mix"]) if run == "mix" else {},
        n_streams=_streams(settings, run),
        has_refresh=_flag(settings, "refresh", False),
        is_repeated=_flag(settings, "repeat", True),
        query_timeout_s=_timeout(settings.get("query_timeout", "60s")),
        schema=schema,
        database=_database(settings.get("database"), scale, schema),
    )


def _run(settings: Mapping[str, Any]) -> RunKind:
    if "mix" in settings and "run" in settings:
        raise UsageError(
            f"mix={settings['mix']!r} and run={settings['run']!r} exclude each other", hint="leave one of them out"
        )
    if "mix" in settings:
        for key in ("streams", "refresh", "repeat"):
            if key in settings:
                raise UsageError(
                    f"{key}={settings[key]!r} has no meaning with a mix",
                    hint='use it with run = "power" or "throughput"',
                )
        return "mix"
    if "run" not in settings:
        raise UsageError(
            "[workload] of kind=tpch has neither mix nor run",
            hint='mix = { q6 = 4, q9 = 4, q13 = 4 }, or run = "power" or "throughput"',
        )
    return cast(RunKind, _choice(settings, "run", ("power", "throughput"), "power"))


def _choice(settings: Mapping[str, Any], key: str, choices: tuple[str, ...], default: str) -> str:
    value = settings.get(key, default)
    if value not in choices:
        raise UsageError(f"{key}={value!r} is not known", hint=f"use one of: {', '.join(choices)}")
    return str(value)


def _flag(settings: Mapping[str, Any], key: str, default: bool) -> bool:
    value = settings.get(key, default)
    if not isinstance(value, bool):
        raise UsageError(f"{key}={value!r} is not a flag", hint="use true or false")
    return value


def _scale(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(scale := float(cast(float, value))) or not MIN_SCALE <= scale <= MAX_SCALE:
        raise UsageError(f"scale={value!r} is out of range", hint=f"use a number from {MIN_SCALE} to {MAX_SCALE:g}")
    return scale


def _streams(settings: Mapping[str, Any], run: RunKind) -> int:
    value = settings.get("streams", 2)
    if "streams" in settings and run != "throughput":
        raise UsageError(f'streams={value!r} has no meaning with run="{run}"', hint='use run = "throughput"')
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_STREAMS:
        raise UsageError(f"streams={value!r} is out of range", hint=f"use a whole number from 1 to {MAX_STREAMS}")
    return value


def _timeout(value: object) -> float:
    seconds = parse_duration(value) if isinstance(value, str) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise UsageError(f"query_timeout={value!r} is not a duration", hint='for example: query_timeout = "60s"')
    return float(seconds)


def _database(value: object, scale: float, schema: SchemaName) -> str:
    if value is None:
        suffix = "" if schema == "standard" else "_pk"
        return f"trimtab_tpch_{scale:.10g}{suffix}".replace(".", "_").replace("+", "")
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$-]{0,62}", value):
        raise UsageError(
            f"database={value!r} is not a database name", hint="use up to 63 letters, digits, _ and -, a letter first"
        )
    return value
