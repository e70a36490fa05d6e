"""Connections to a MySQL or MariaDB server as its own client makes them: option files, encryption, unix socket."""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pymysql

__all__ = ["login", "password_from_files"]


def password_from_files(defaults_file: str | None = None, *, with_environment: bool = True) -> str | None:
    """The password in the [client] group of `defaults_file`, in MYSQL_PWD, or in that group of ~/.my.cnf; None when none
    has one. `with_environment`: whether MYSQL_PWD counts."""
    if defaults_file is not None:
        return _in_client_group(Path(defaults_file))
    found = os.environ.get("MYSQL_PWD") if with_environment else None
    return found if found is not None else _in_client_group(Path("~/.my.cnf").expanduser())


def _in_client_group(path: Path) -> str | None:
    """As MySQL's programs read such a file: lines may be indented, `!include` and its like stand anywhere, the last of several
    counts. What is included is not read."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    group, found = "", None
    for line in map(str.strip, lines):
        if head := _GROUP.match(line):
            group = head[1]
        name, sign, value = line.partition("=")
        if group == "client" and sign and name.rstrip() == "password":
            found = _plain(value)
    return found


_GROUP = re.compile(r"\[([^]]*)\]")
_BEFORE_COMMENT = re.compile(r"""(?:[^#'"]|'(?:[^'\\]|\\.)*(?:'|$)|"(?:[^"\\]|\\.)*(?:"|$))*""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " ", '"': '"', "'": "'", "\\": "\\"}


def _plain(value: str) -> str:
    """A value as MySQL's programs read it in an option file: a # outside of quotes begins a comment, quotes around it are none
    of it, and backslashes escape."""
    found = _BEFORE_COMMENT.match(value)
    text = value[: found.end() if found else None].strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return re.sub(r"\\(.)", lambda escaped: _ESCAPES.get(escaped[1], escaped[0]), text)


_AUTOCOMMIT = "SET SESSION autocommit = 1"
"""MySQL greets as if it had it on also where it is off for all, and the library, which believes that, leaves it off."""


def login(
    host: str,
    port: int,
    options: Mapping[str, str],
    *,
    user: str,
    password: str,
    login_timeout_s: int,
    database: str | None = None,
    client_flag: int = 0,
    answer_timeout_s: int | None = None,
) -> pymysql.Connection[Any]:
    """A fresh autocommit connection.

    Args:
        host: a host name, an address, or (starting with "/") a unix socket.
        port: of TCP.
        options: "sslmode", "sslrootcert", "sslcert" and "sslkey", as the load engine's driver understands them.
        user, password: "" for no password.
        login_timeout_s: longest wait for the server while the login lasts.
        database: to begin in; None for none.
        client_flag: of the protocol.
        answer_timeout_s: longest wait for an answer; None waits for ever.

    Raises:
        pymysql.MySQLError: the server does not answer, or does not let this user in.
        RuntimeError: a way to log in needs a library that is not installed.
        OSError: nobody listens on the unix socket, or a file of `options` cannot be used.
    """
    where = {"unix_socket": host} if host.startswith("/") else {"host": host, "port": port}
    connection = pymysql.Connection(
        **where, **_tls(host, options), user=user, password=password, database=database, autocommit=True,
        charset="utf8mb4", connect_timeout=login_timeout_s, read_timeout=answer_timeout_s,
        write_timeout=answer_timeout_s, program_name="trimtab", client_flag=client_flag, defer_connect=True,
        init_command=_AUTOCOMMIT,
    )  # fmt: skip
    own = _unix_socket(host, login_timeout_s)
    # So it sends a password over a socket of ours as it does over one of its own: nobody can listen.
    connection._secure = own is not None  # type: ignore[attr-defined]
    # A server that hangs accepts a connection, and never greets.
    connection._read_timeout = login_timeout_s  # type: ignore[attr-defined]
    connection.connect(own)
    connection._read_timeout = answer_timeout_s  # type: ignore[attr-defined]
    return connection


def _unix_socket(host: str, timeout_s: int) -> socket.socket | None:
    """Our own, connected, for a server that is reached so: the library leaves one open when nobody listens."""
    if not host.startswith("/"):
        return None
    own = socket.socket(socket.AF_UNIX)
    own.settimeout(timeout_s)
    try:
        own.connect(host)
    except OSError:
        own.close()
        raise
    return own


def _tls(host: str, options: Mapping[str, str]) -> dict[str, Any]:
    """What the library is told: without a context it takes encryption where it is offered, with one it insists on it."""
    mode = "disable" if host.startswith("/") else options.get("sslmode", "prefer")
    if mode == "disable":
        return {"ssl_disabled": True}
    roots, certificate, key = (options.get(name) for name in ("sslrootcert", "sslcert", "sslkey"))
    if mode == "prefer" and not certificate:
        return {}
    is_verified = mode in ("verify-ca", "verify-full")
    context = ssl.create_default_context(cafile=_readable(roots) if is_verified else None)
    context.verify_flags &= (
        ~ssl.VERIFY_X509_STRICT
    )  # the certificates that a server makes for itself are not that strict
    context.check_hostname = mode == "verify-full"
    context.verify_mode = ssl.CERT_REQUIRED if is_verified else ssl.CERT_NONE
    if certificate:
        context.load_cert_chain(str(_readable(certificate)), _readable(key))
    return {"ssl": context}


def _readable(path: str | None) -> str | None:
    """The same; the library would not say which file it cannot read.

    Raises:
        OSError: it cannot be read.
    """
    if path is None:
        return None
    try:
        with open(path, "rb"):
            return path
    except OSError as error:
        raise OSError(f"cannot read file={path!r}: {error.strerror}") from error
