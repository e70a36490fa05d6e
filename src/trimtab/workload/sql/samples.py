"""From the study file's generators to the engine's: dates as text, and columns as samples of their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.units import format_size
from trimtab.workload.server import ServerError, Session, SqlServer, server_of
from trimtab.workload.sql.generators import AUTO_LIMIT, Generator

__all__ = ["native_generators"]


def native_generators(
    endpoint: Endpoint, generators: Mapping[str, Generator], report: Callable[[str], None] = lambda text: None
) -> list[dict[str, Any]]:
    """The generators as the engine takes them; those of type "column" are sampled from `endpoint`'s database.

    Args:
        report: told before each sample what it reads.

    Raises:
        LoadError: a column that cannot be read or has no values.
    """
    if not any(generator.type == "column" for generator in generators.values()):
        return [_native(generator, endpoint.protocol, None) for generator in generators.values()]
    server = server_of(endpoint)
    with server.connect() as session:
        for generator in generators.values():
            if generator.type == "column":
                _tell(server, session, generator, report)
        return [_native(generator, endpoint.protocol, (server, session)) for generator in generators.values()]


def _tell(server: SqlServer, session: Session, generator: Generator, report: Callable[[str], None]) -> None:
    """What the sample will cost, where the server knows: the table may be large."""
    options = generator.options
    try:
        limit = _limit(server, session, generator)
        read_bytes, size_bytes = server.sample_bytes(session, _parts(options["table"]), limit)
    except ServerError:
        # Drawing the sample says what is wrong.
        return
    what = f"about {format_size(read_bytes)} of {format_size(size_bytes)}" if size_bytes else "what the view needs"
    report(
        f"drawing up to {limit:,} values of {options['table']}.{options['column']} for the parameter {generator.name}: "
        f"reads {what}, once for all runs"
    )


def _native(generator: Generator, protocol: str, source: tuple[SqlServer, Session] | None) -> dict[str, Any]:
    shared = {"name": generator.name, "each": generator.is_fresh, "null_share": generator.null_share}
    skewed = {"distribution": generator.distribution, "skew": generator.skew}
    options = dict(generator.options)
    if generator.type == "column" and source is not None:
        limit = _limit(*source, generator)
        values = _sample(*source, generator, limit)
        whole = _range(*source, generator, values) if len(values) == limit else None
        if whole is not None:
            return shared | skewed | {"type": "int", "low": whole[0], "high": whole[1]}
        return shared | skewed | {"type": "rows", "values": values}
    if generator.type == "choice":
        options["values"] = [_text(value, protocol) for value in options["values"]]
    if generator.type in ("date", "timestamp"):
        low, high = (options[key].isoformat(*(() if generator.type == "date" else (" ",))) for key in ("from", "to"))
        options = {"low": low, "high": high}
    return shared | skewed | options | {"type": generator.type}


def _text(value: str | bool, protocol: str) -> str:
    """Of a choice. MySQL and MariaDB have numbers for truth values, and take any word for 0."""
    if not isinstance(value, bool):
        return value
    false, true = ("0", "1") if protocol == "mysql" else ("false", "true")
    return true if value else false


_FEWEST, _MOST, _SHARE = 10_000, 200_000, 0.01
"""Values of a sample, and the share of a table's rows between these limits: a sample that is too small fits into a cache
that the values do not fit into."""


def _limit(server: SqlServer, session: Session, generator: Generator) -> int:
    """How many values to draw: what the study file says, or by the size of the table."""
    if (limit := int(generator.options["limit"])) != AUTO_LIMIT:
        return limit
    return round(min(_MOST, max(_FEWEST, _SHARE * server.n_rows(session, _parts(generator.options["table"])))))


def _sample(server: SqlServer, session: Session, generator: Generator, limit: int) -> Sequence[str | int]:
    """At most `limit` values of the column (see `SqlServer.sample`), in an order that the next call repeats on unchanged data."""
    options = generator.options
    where = f"parameter={generator.name} table={options['table']} column={options['column']}"
    try:
        values = server.sample(session, _parts(options["table"]), options["column"], limit)
    except ServerError as error:
        raise LoadError(
            f"cannot sample {where}: {error.message.splitlines()[0]}",
            hint="check the names and the role's privileges",
        ) from error
    if not values:
        raise LoadError(f"cannot sample {where}: it has no values", hint="use another generator")
    return values


_DENSE = 0.8
"""Share of the numbers between a key's least and greatest that are keys, from which on all of them are asked for."""


def _range(
    server: SqlServer, session: Session, generator: Generator, values: Sequence[str | int]
) -> tuple[int, int] | None:
    """Least and greatest value of a column of numbers that is a key without many gaps, and of which the sample is a small part.

    The whole range is then what users ask for; a sample of it would fit into a cache that the keys do not fit into.
    """
    if len(set(values)) < len(values) or not all(str(value).lstrip("-").isdecimal() for value in values):
        return None
    table = _parts(generator.options["table"])
    n_rows = server.n_rows(session, table)
    low, high = server.bounds(session, table, generator.options["column"])
    is_whole = isinstance(low, int) and isinstance(high, int)
    return (low, high) if is_whole and n_rows >= _DENSE * (high - low + 1) else None


_PART = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')


def _parts(name: str) -> list[str]:
    """Schema and table; in quotes a name may hold dots, and quotes twice."""
    return [quoted.replace('""', '"') or plain for quoted, plain in _PART.findall(name)]
