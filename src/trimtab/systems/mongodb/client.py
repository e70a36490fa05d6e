"""A connection to a mongod for commands; the load has a driver of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from trimtab.errors import TargetError
from trimtab.redact import remember

__all__ = ["Mongod"]

_TIMEOUT_MS = 10_000
_TRIED = ", Timeout: "
"""Behind it the client library tells for how long it has tried, and all that it knows of the server."""


class Mongod:
    """A mongod, by its URL.

    Args:
        url: with a user, and a password if nobody else can see it.
        password: of that user, where the URL has none.
        wait_s: for a server that cannot be reached.

    Raises:
        TargetError: it does not let us in, or the client library is missing.
    """

    def __init__(self, url: str, password: str | None = None, *, wait_s: float = 10.0) -> None:
        try:
            import pymongo
            from pymongo.errors import ConfigurationError, ConnectionFailure, PyMongoError
        except ImportError as error:
            raise TargetError(
                "a target of kind=mongodb needs the package pymongo", hint="pip install 'trimtab[mongodb]'"
            ) from error
        self._error, self._silence = PyMongoError, ConnectionFailure
        try:
            self._client: Any = pymongo.MongoClient(
                url,
                serverSelectionTimeoutMS=int(wait_s * 1000),
                connectTimeoutMS=_TIMEOUT_MS,
                directConnection=True,
                **_login(url, password),
            )
        except (ConfigurationError, ValueError) as error:
            raise TargetError(
                f"the address of the mongod cannot be read: {error}", hint="mongodb://HOST:PORT/"
            ) from error

    def run(self, command: Mapping[str, Any], database: str = "admin") -> dict[str, Any]:
        """The server's answer.

        Raises:
            TargetError: it refuses, in its words, or cannot be reached.
        """
        try:
            return dict(self._client[database].command(dict(command)))
        except self._silence as error:
            raise TargetError(
                f"the mongod does not answer: {str(error).partition(_TRIED)[0]}"[:600],
                hint="is this its address (names.server), with tls=true where it asks for that? see its log",
            ) from error
        except self._error as error:
            what = next(iter(command))
            name = next((key for key in command if key != what), "")
            raise TargetError(
                f"the mongod refuses {what}{f' {name}={command[name]!r}' if name else ''}: {error}"[:600],
                hint="check its version and the rights of this user",
            ) from error

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()


def _login(url: str, password: str | None) -> dict[str, Any]:
    """What a URL without a password lacks; a user of a certificate has none.

    Raises:
        ValueError: it is no URL.
    """
    parts = urlsplit(url)
    has_certificate = dict(parse_qsl(parts.query)).get("authMechanism") == "MONGODB-X509"
    if not password or not parts.username or parts.password or has_certificate:
        return {}
    remember(password)
    return {"username": unquote(parts.username), "password": password}
