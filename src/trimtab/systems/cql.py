"""What a Cassandra node says of itself over CQL: whether it serves, its settings in use, and what it has done."""

from __future__ import annotations

import configparser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from trimtab.errors import TargetError
from trimtab.records import Endpoint
from trimtab.redact import remember
from trimtab.systems.session import LoginRefusedError

if TYPE_CHECKING:
    from trimtab._native import CqlConsole

__all__ = ["cql_counters", "cql_endpoint", "cql_rows", "cql_settings", "cql_user", "is_cql", "stored_password"]

_SCHEME = "cql://"
_TIMEOUT_S = 10.0
_PORT = 9042
_UNAUTHORIZED = "0x2100"
_SECTIONS = ("PlainTextAuthProvider", "plain_text_auth")

_SETTINGS = "SELECT name, value FROM system_views.settings"
_CACHES = "SELECT name, request_count, hit_count FROM system_views.caches"
_POOLS = "SELECT name, completed_tasks FROM system_views.thread_pools"


def is_cql(text: str) -> bool:
    """Whether a command of a catalogue is the address of a node to ask."""
    return text.startswith(_SCHEME)


def cql_user(url: str) -> tuple[str, str | None]:
    """(user, password) for the node at `url`: the password is that of the user in ~/.cassandra/credentials."""
    user = unquote(urlsplit(url).username or "")
    return user, stored_password(user) if user else None


def cql_endpoint(url: str, options: Mapping[str, str]) -> Endpoint:
    """How a load reaches the node at `url`; what stands behind its question mark joins `options`."""
    parts = urlsplit(url)
    user, password = cql_user(url)
    return Endpoint(
        protocol="cql",
        host=parts.hostname or "localhost",
        port=parts.port or _PORT,
        user=user,
        password=password,
        database="",
        options={**options, **dict(parse_qsl(parts.query))},
    )


def stored_password(user: str) -> str | None:
    """What cqlsh would log in with: the file that it reads; None where that does not have this user."""
    file = configparser.ConfigParser(interpolation=None)
    try:
        file.read(Path.home() / ".cassandra" / "credentials", encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError, RuntimeError):
        return None
    for section in file.sections():
        if section in _SECTIONS and file.get(section, "username", fallback="") == user:
            return file.get(section, "password", fallback=None)
    return None


@contextmanager
def _console(url: str) -> Iterator[CqlConsole]:
    from trimtab._native import Cql, CqlConsole

    there = cql_endpoint(url, {})
    remember(there.password)
    driver = Cql(
        host=there.host,
        port=there.port,
        user=there.user,
        password=there.password,
        # A node alone answers at this level whatever the tables' replication says.
        settings=[("consistency", "LOCAL_ONE")],
        tls=there.options.get("sslmode", "disable"),
        root_certificates=there.options.get("sslrootcert"),
        certificate=there.options.get("sslcert"),
        key=there.options.get("sslkey"),
    )
    console = CqlConsole(driver, timeout_s=_TIMEOUT_S)
    try:
        yield console
    finally:
        console.close()


def cql_rows(url: str, statement: str) -> Sequence[Sequence[str | None]]:
    """The rows of one statement as texts.

    Raises:
        LoginRefusedError: it answers, and does not let this user in, or not do this.
        TargetError: it does not answer, or refuses the statement.
    """
    try:
        with _console(url) as console:
            return console.rows(statement, timeout_s=_TIMEOUT_S)
    except PermissionError as error:
        if _UNAUTHORIZED in str(error):
            raise LoginRefusedError(
                f"the node at {url!r} does not allow its user {statement!r}: {error}",
                hint="GRANT it that: a study reads KEYSPACE system_views and TABLE system.table_estimates, and alters your"
                " table if its options are tuned",
            ) from error
        raise LoginRefusedError(
            f"the node at {url!r} does not let this user in: {error}",
            hint="give the user in url, and its password in ~/.cassandra/credentials, as for cqlsh",
        ) from error
    except OSError as error:
        raise TargetError(f"the node at {url!r} does not answer: {error}", hint="see its log") from error
    except ValueError as error:
        raise TargetError(f"the node at {url!r} refuses {statement!r}: {error}", hint="see its log") from error


def cql_settings(url: str) -> str:
    """The settings in use, a name and a value with a tab between on each line; those that are not set are left out.

    Raises:
        TargetError: as `cql_rows`.
    """
    rows = cql_rows(url, _SETTINGS)
    found = ((name, value) for name, value in rows if value is not None and value != "null" and "\n" not in value)
    return "".join(f"{name}\t{value}\n" for name, value in found)


def cql_counters(url: str) -> dict[str, float]:
    """What the node has counted since its start: requests to each cache, those of them that it had no answer to, and what each
    pool of threads has done ("caches.keys.requests", "caches.keys.misses", "thread_pools.MemtableFlushWriter.completed").

    The cache of blocks is not among them while it is switched off.

    Raises:
        TargetError: as `cql_rows`.
    """
    found: dict[str, float] = {}
    for name, requests, hits in cql_rows(url, _CACHES):
        n_requests = float(requests or 0)
        found |= {f"caches.{name}.requests": n_requests, f"caches.{name}.misses": n_requests - float(hits or 0)}
    return found | {f"thread_pools.{name}.completed": float(done or 0) for name, done in cql_rows(url, _POOLS)}
