"""What programs that a catalogue describes print and listen on: values, counts, health, the address of a store of records."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import SplitResult, parse_qsl, unquote

from trimtab.errors import TargetError, UnavailableError
from trimtab.records import Endpoint
from trimtab.systems.cql import cql_rows, is_cql
from trimtab.systems.http_probe import http_get, is_http

__all__ = ["STORES", "printed_beside", "printed_counters", "require_service", "store_at"]

_UNIX = "unix:"
"""Before the file of a socket, in place of a health command."""

STORES = {"wiredtiger": 0, "mongodb": 27017}
"""Schemes of the addresses of stores -> usual port."""

_WAIT_S = 10.0
_HTTP_FAULT = 500


def require_service(address: str) -> bool:
    """Whether `address` is one to ask (CQL, a socket, HTTP) and no command; who serves there has answered.

    Raises:
        TargetError: nobody does, or it is not well.
    """
    if is_cql(address):
        cql_rows(address, "SELECT release_version FROM system.local")
    elif address.startswith(_UNIX):
        _require_listener(address.removeprefix(_UNIX))
    elif is_http(address):
        status, _ = http_get(address, timeout_s=_WAIT_S)
        if status >= _HTTP_FAULT:
            kind = UnavailableError if status == HTTPStatus.SERVICE_UNAVAILABLE else TargetError
            raise kind(f"the program is not healthy: health={address!r} answers status={status}", hint="see its log")
    else:
        return False
    return True


def _require_listener(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_WAIT_S)
        try:
            probe.connect(path)
        except OSError as error:
            raise TargetError(
                f"the program is not healthy: no server listens at {path}: {error.strerror or error}",
                hint="see its log",
            ) from error


def store_at(parts: SplitResult, options: Mapping[str, str]) -> Endpoint:
    """The store of an address: by its socket, or by host and port with user, database and options of the driver."""
    database = unquote(parts.path.strip("/")) if parts.netloc else ""
    own = dict(parse_qsl(parts.query))
    # The load has databases of its own. By MongoDB's manual ("Connection Strings", authSource) a user belongs to the database in
    # the path where nothing else is said; those of other mechanisms belong to none.
    if parts.username and database and own.get("authMechanism", "SCRAM").startswith("SCRAM"):
        own.setdefault("authSource", database)
    return Endpoint(
        protocol=parts.scheme,
        host=parts.hostname or "localhost" if parts.netloc else parts.path,
        port=parts.port or STORES[parts.scheme],
        user=unquote(parts.username or ""),
        database=database,
        password=None if parts.password is None else unquote(parts.password),
        options={**options, **own},
    )


def printed_counters(text: str) -> dict[str, float]:
    """Name -> count, of lines with a number and a name."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        number, _, name = line.strip().partition(" ")
        with suppress(ValueError):  # a word among the numbers
            found[name.strip()] = float(number)
    return found


def printed_beside(lines: Sequence[str], address: str) -> str | None:
    """The value of an address among lines such as "hz 10", "hz = 10", or "hz" with "10" on the next one."""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line == address:
            return following
        match = re.match(rf"{re.escape(address)}[\s=:]+(.*)", line)
        if match is not None:
            return match[1].strip()
    return None
