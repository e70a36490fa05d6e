"""From the study file's generators to the engine's: dates as text, and columns as samples of their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.server import Server, ServerError, Session, server_of
from trimtab.workload.sql.generators import Generator

__all__ = ["native_generators"]


def native_generators(endpoint: Endpoint, generators: Mapping[str, Generator]) -> list[dict[str, Any]]:
    """The generators as the engine takes them; those of type "column" are sampled from `endpoint`'s database.

    Raises:
        LoadError: a column that cannot be read or has no values.
    """
    if not any(generator.type == "column" for generator in generators.values()):
        return [_native(generator, None) for generator in generators.values()]
    server = server_of(endpoint)
    with server.connect() as session:
        return [_native(generator, (server, session)) for generator in generators.values()]


def _native(generator: Generator, source: tuple[Server, Session] | None) -> dict[str, Any]:
    shared = {"name": generator.name, "each": generator.is_fresh, "null_share": generator.null_share}
    skewed = {"distribution": generator.distribution, "skew": generator.skew}
    options = dict(generator.options)
    if generator.type == "column" and source is not None:
        values = _sample(*source, generator)
        return shared | skewed | {"type": "rows", "values": values}
    if generator.type in ("date", "timestamp"):
        low, high = (options[key].isoformat(*(() if generator.type == "date" else (" ",))) for key in ("from", "to"))
        options = {"low": low, "high": high}
    return shared | skewed | options | {"type": generator.type}


def _sample(server: Server, session: Session, generator: Generator) -> list[str]:
    """Values of the column as text, in an order that the next call repeats on unchanged data."""
    options = generator.options
    where = f"parameter={generator.name} table={options['table']} column={options['column']}"
    try:
        values = server.sample(session, _parts(options["table"]), options["column"], options["limit"])
    except ServerError as error:
        raise LoadError(
            f"cannot sample {where}: {error.message.splitlines()[0]}",
            hint="check the names and the role's privileges",
        ) from error
    if not values:
        raise LoadError(f"cannot sample {where}: it has no values", hint="use another generator")
    return values


def _parts(name: str) -> list[str]:
    return [part.strip('"') for part in name.split(".")]
