"""Login: what a connection was made with, kept such that another process can make it again, from any folder, days later.

libpq takes parameters from the connection string, a service file, the environment and files beside it. What it has put
together is kept, but for secrets: `trimtab recover` may run in another folder, by another shell.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from trimtab.errors import TargetError
from trimtab.systems.postgresql.session import Connection, connect
from trimtab.systems.postgresql.settings import PATH_FIELDS, SECRET_FIELDS
from trimtab.systems.session import LoginRefusedError

__all__ = ["encryption_of", "of", "secrets_of", "session_of", "trouble"]

_USUAL_FILES = {
    "sslrootcert": "~/.postgresql/root.crt",
    "sslcert": "~/.postgresql/postgresql.crt",
    "sslkey": "~/.postgresql/postgresql.key",
}
"""Where libpq looks for files that nobody names."""

_HAS_SHOWN_A_CERTIFICATE = "SELECT client_dn IS NOT NULL FROM pg_stat_ssl WHERE pid = pg_backend_pid()"

_NOT_KEPT = (*SECRET_FIELDS, "application_name", "fallback_application_name", "client_encoding", "connect_timeout",
             "options", "service", "servicefile", "sslkeylogfile")  # fmt: skip


def of(connection: Connection, fields: Mapping[str, Any]) -> dict[str, str]:
    """The parameters in use that differ from libpq's defaults; files by their full paths, no secret.

    Args:
        connection: that works.
        fields: it was made with.
    """
    used = {option.keyword.decode(): option.val.decode() for option in connection.pgconn.info if option.val}
    differing = {*connection.info.get_parameters(), "host", "port", "user", "dbname", "passfile"}
    kept = {key: text for key, text in used.items() if key in differing and key not in _NOT_KEPT and text}
    if "," in kept.get("host", ""):  # of several the one that holds our changes
        kept |= {"host": connection.info.host, "port": str(connection.info.port)}
        kept.pop("hostaddr", None)
    for key in PATH_FIELDS:
        if kept.get(key, "system") != "system":
            kept[key] = os.path.abspath(os.path.expanduser(kept[key]))
    if used.get("service") and not os.environ.get("PGSERVICEFILE"):
        kept["service"] = used["service"]  # its file may hold the password, and is found again
    return kept | session_of(fields)


def encryption_of(connection: Connection, fields: Mapping[str, Any]) -> dict[str, str]:
    """How it is encrypted, for whoever connects without libpq: the parameters in use, wherever they came from, and those of
    libpq's files that are there and that it has used. Not at all where it is not although the server encrypts: libpq tries that
    as well where it may (`prefer`), and whom the server refuses with encryption is let in without.

    Args:
        connection: that works.
        fields: it was made with.
    """
    given = {key: str(value) for key, value in fields.items() if key not in SECRET_FIELDS}
    every = given | of(connection, fields)
    found = {key: every[key] for key in ("sslmode", *_USUAL_FILES) if key in every}
    used = set(found) & set(_USUAL_FILES)
    if connection.pgconn.ssl_in_use:
        used.add("sslrootcert")
        if connection.value(_HAS_SHOWN_A_CERTIFICATE):
            used |= {"sslcert", "sslkey"}
    elif not connection.info.host.startswith("/") and connection.value("SHOW ssl") == "on":
        found["sslmode"] = "disable"
    files = {key: found.get(key) or os.path.expanduser(_USUAL_FILES[key]) for key in used}
    missing = {key for key, path in files.items() if path != "system" and not os.path.isfile(path)}
    if "sslcert" in missing:
        missing.add("sslkey")
    return {key: text for key, text in (found | files).items() if key not in missing}


def session_of(fields: Mapping[str, Any]) -> dict[str, str]:
    """What its url sets in each session."""
    return {"options": str(fields["options"])} if fields.get("options") else {}


def secrets_of(connection: Connection, fields: Mapping[str, Any]) -> dict[str, str]:
    """The secrets that it was made with, wherever they came from."""
    given = {key: str(fields[key]) for key in SECRET_FIELDS if fields.get(key)}
    return given | ({"password": connection.info.password} if connection.info.password else {})


def trouble(login: Mapping[str, str], is_in_url: bool) -> str:
    """Why a process that has only `login` and this user's files could not log in; "" when it can. Tries it.

    Args:
        login: from `of`.
        is_in_url: whether the connection string holds a password.
    """
    try:
        # Empty, but given: so libpq asks its password file, and not PGPASSWORD; nor would it ask a service file.
        connect(login if "service" in login else {**login, "password": ""}).close()
    except LoginRefusedError:
        return "url" if is_in_url else "PGPASSWORD" if os.environ.get("PGPASSWORD") else "a service file"
    except TargetError:
        return ""  # that is no matter of passwords
    return ""
